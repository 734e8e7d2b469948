"""One connection to a broker: handshake, channels, and events.

Everything that is written in one iteration of the event loop is sent together at its end, or earlier if it is much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Self

from leveret.client.address import Address, parsed
from leveret.client.callbacks import call_back
from leveret.client.channel import Channel
from leveret.client.closable import Closable
from leveret.client.correlator import Correlator
from leveret.client.errors import Closed, ConnectionLost, error_of_close
from leveret.client.failover_uri import Plan, is_plan, plan_of
from leveret.client.inflow import Inflow
from leveret.client.keep_alive import KeepAlive
from leveret.client.messages import Delivery
from leveret.client.transports import Transport, open_transport
from leveret.errors import AmqpError, LeveretError, NotAllowed
from leveret.version import VERSION
from leveret.wire import methods as m
from leveret.wire.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER, REPLY_SUCCESS
from leveret.wire.fields import Table
from leveret.wire.frames import method_frame

FLUSH_BYTES = 1 << 16
CLOSE_SECONDS = 5.0
CAPABILITIES: Table = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "exchange_exchange_bindings": True,
    "publisher_confirms": True,
}


@dataclass(slots=True, frozen=True)
class Happening:
    """An event of a connection, passed to its listeners."""

    kind: Literal[
        "connected",
        "blocked",
        "unblocked",
        "keep-alive sent",
        "silent",
        "lost",
        "closed",
        # of a connection that reconnects:
        "reconnecting",
        "attempt failed",
        "reconnected",
        "not restored",
    ]
    text: str = ""
    problem: Exception | None = None


Listener = Callable[[Happening], None]


class Connection(Closable):
    def __init__(self, address: Address) -> None:
        self.address = address
        self.server_properties: dict[str, object] = {}
        self.frame_max = address.frame_max
        self.channel_max = address.channel_max
        self.heartbeat = address.heartbeat
        self.is_blocked = False
        self.is_congested = False
        self.is_away = False  # disconnected; another connection attempt follows
        self.outage_error: Exception | None = None  # why no further connection follows
        self.listeners: list[Listener] = []
        self._loop = asyncio.get_running_loop()
        self._channels: dict[int, Channel] = {}
        self._correlator = Correlator(self._loop)
        self._inflow = Inflow(self, address.frame_max)
        self._transport: Transport | None = None
        self._problem: Exception | None = None
        self._over = self._loop.create_future()
        self._room: asyncio.Future[None] | None = None
        self._keep_alive = KeepAlive(0, beat=self._beat, dead=self._silent)
        self._out: list[bytes] = []
        self._out_size = 0

    @classmethod
    async def open(cls, address: Address | str, listeners: Iterable[Listener] = ()) -> Self:
        """Connected and logged in, within the address's timeout."""
        self = cls(parsed(address) if isinstance(address, str) else address)
        self.listeners.extend(listeners)
        await self._establish()
        self.notify(Happening("connected", self.address.shown))
        return self

    async def _establish(self) -> None:
        try:
            async with asyncio.timeout(self.address.connection_timeout):
                await self._connect()
        except TimeoutError:
            self._abort()
            raise ConnectionLost(
                f"no connection to {self.address.shown} within {self.address.connection_timeout:g} s: "
                "check that a broker is running there"
            ) from None
        except (OSError, UnicodeError) as problem:  # UnicodeError: the host is no valid name
            raise ConnectionLost(f"no connection to {self.address.shown}: {problem}") from problem
        except BaseException:
            self._abort()
            raise

    async def _connect(self) -> None:
        self._transport = await open_transport(self.address, self)
        start = self._correlator.expect(m.ConnectionStart)
        self.write(PROTOCOL_HEADER)
        answer: m.ConnectionStart = await start
        self.server_properties = dict(answer.server_properties)
        tune: m.ConnectionTune = await self._ask(self._login(answer), m.ConnectionTune)
        self._agree(tune)
        self.write(method_frame(0, m.ConnectionTuneOk(self.channel_max, self.frame_max, self.heartbeat)))
        await self._ask(m.ConnectionOpen(self.address.vhost), m.ConnectionOpenOk)
        self._keep_alive = KeepAlive(self.heartbeat, beat=self._beat, dead=self._silent)

    def _login(self, start: m.ConnectionStart) -> m.ConnectionStartOk:
        mechanisms = start.mechanisms.split()
        external = bool(self.address.certfile) and not self.address.user
        wanted = b"EXTERNAL" if external else b"PLAIN"
        if wanted not in mechanisms:
            raise ConnectionLost(
                f"{self.address.shown} does not offer SASL {wanted.decode()}, only {start.mechanisms.decode()}: "
                f"{'name a user in the address' if external else 'name a certfile and no user'}"
            )
        properties: Table = {
            "product": "Leveret client",
            "version": VERSION,
            "platform": "Python",
            "capabilities": dict(CAPABILITIES),
            "connection_name": self.address.name,
        }
        secret = b"" if external else f"\0{self.address.user}\0{self.address.password}".encode(errors="surrogateescape")
        return m.ConnectionStartOk(properties, "EXTERNAL" if external else "PLAIN", secret, "en_US")

    def _agree(self, tune: m.ConnectionTune) -> None:
        self.channel_max = _lower(self.address.channel_max, tune.channel_max)
        self.frame_max = self._inflow.limit = _lower(self.address.frame_max, tune.frame_max)
        self.heartbeat = _lower(self.address.heartbeat, tune.heartbeat) if self.address.heartbeat else 0

    @property
    def is_closed(self) -> bool:
        return self._problem is not None

    async def close(self) -> None:
        """Waits a moment for the broker's reply. Unacknowledged messages are requeued."""
        if self.is_closed:
            await self._gone()
            return
        answer = self._ask(m.ConnectionClose(REPLY_SUCCESS, "closed by the client", 0, 0), m.ConnectionCloseOk)
        self._end(Closed(f"the connection to {self.address.shown} is closed"), keep=answer)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await answer
                assert self._transport is not None
                self._transport.close()
                await self._over
        except (TimeoutError, LeveretError):  # no reply, or the broker closed it at the same time
            self._abort()
        except BaseException:
            self._abort()
            raise
        self.notify(Happening("closed"))

    async def _gone(self) -> None:
        """Waits a moment until the socket is closed: a loop that ends before would leave it open."""
        if self._transport is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.shield(self._over)
        except TimeoutError:
            self._abort()

    async def channel(self) -> Channel:
        await self.until_up()
        channel = self.new_channel()
        try:
            await channel.open()
        except BaseException:
            channel.run(channel.close())  # the broker may have opened it
            raise
        return channel

    def new_channel(self) -> Channel:
        """Not open yet."""
        number = self.free_number()
        channel = self._channels[number] = Channel(self, number)
        return channel

    def free_number(self) -> int:
        """For a channel."""
        number = next((each for each in range(1, self.channel_max + 1) if each not in self._channels), None)
        if number is None:
            raise NotAllowed(f"all {self.channel_max} channels of the connection are open: close one")
        return number

    async def update_secret(self, secret: str, reason: str = "") -> None:
        await self._ask(m.ConnectionUpdateSecret(secret.encode(), reason), m.ConnectionUpdateSecretOk)

    def forget(self, channel: Channel) -> None:
        self._channels.pop(channel.number, None)
        self._inflow.forget(channel.number)

    def notify(self, happening: Happening) -> None:
        for listener in list(self.listeners):
            call_back(listener, happening)

    def refuse_closed(self) -> None:
        if self._problem is not None:
            raise self._problem.with_traceback(None)

    # ---- sending

    def write(self, data: bytes) -> None:
        out = self._out
        if not out:
            self._loop.call_soon(self._flush)
        out.append(data)
        self._out_size += len(data)
        if self._out_size > FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            self._keep_alive.writes += 1
            self._transport.write(b"".join(self._out))
        self._out.clear()
        self._out_size = 0

    async def until_up(self) -> None:
        """Wait until the connection is up."""
        self.refuse_closed()

    async def writable(self) -> None:
        """Wait until there is room for more."""
        while self.is_congested and self._problem is None:
            self._room = self._room or self._loop.create_future()
            await asyncio.shield(self._room)

    def congested(self, is_so: bool) -> None:
        self.is_congested = is_so
        if not is_so and self._room is not None:
            self._room.set_result(None)
            self._room = None

    def _ask(self, method: m.Method, answer: type[m.Method]) -> asyncio.Future[Any]:
        self.refuse_closed()
        self.write(method_frame(0, method))
        return self._correlator.expect(answer)

    # ---- receiving

    def received(self, data: bytes) -> None:
        self._keep_alive.reads += 1
        try:
            self._inflow.receive(data)
        except AmqpError as problem:
            self._give_up(problem)

    def heard(self, channel: int, method: m.Method) -> None:
        if channel:
            known = self._channels.get(channel)
            if known is not None:
                known.heard(method)
        elif isinstance(method, m.ConnectionBlocked | m.ConnectionUnblocked):
            self._blocked(method)
        elif isinstance(method, m.ConnectionClose):
            self.write(method_frame(0, m.ConnectionCloseOk()))
            self._flush()
            self._closed_by_peer(error_of_close(method.reply_code, method.reply_text, "connection"))
        else:
            self._correlator.answer(method)

    def heard_content(self, channel: int, method: m.Method, head: bytes, body: bytes) -> None:
        known = self._channels.get(channel)
        if known is not None:
            known.heard_content(method, head, body)

    def heard_delivery(
        self, channel: int, tag: str, number: int, redelivered: bool, exchange: str, key: str, head: bytes, body: bytes
    ) -> None:
        known = self._channels.get(channel)
        if known is not None:
            known.deliver(Delivery(known, tag, number, redelivered, exchange, key, head, body))

    def _blocked(self, method: m.Method) -> None:
        self.is_blocked = isinstance(method, m.ConnectionBlocked)
        reason = method.reason if isinstance(method, m.ConnectionBlocked) else ""
        self.notify(Happening("blocked" if self.is_blocked else "unblocked", reason))

    # ---- the end

    def _closed_by_peer(self, problem: Exception) -> None:
        transport = self._transport
        assert transport is not None
        self._fail(problem)
        transport.close()

    def lost(self, problem: Exception | None) -> None:
        if not self._over.done():
            self._over.set_result(None)
        cause = f": {problem}" if problem is not None else ""
        self._fail(ConnectionLost(f"the connection to {self.address.shown} was lost{cause}"))

    def _fail(self, problem: Exception) -> None:
        was_open = not self.is_closed
        self._end(problem)
        if was_open:
            self.notify(Happening("lost", str(problem), problem))

    def _beat(self) -> None:
        self.write(HEARTBEAT_FRAME)
        self.notify(Happening("keep-alive sent"))

    def _silent(self) -> None:
        text = f"no data received from {self.address.shown} for {2 * self.heartbeat} s"
        self.notify(Happening("silent", text))
        self._give_up(ConnectionLost(text))

    def _give_up(self, problem: Exception) -> None:
        self._fail(problem)
        self._abort()

    def _abort(self) -> None:
        self._keep_alive.stop()
        if self._transport is not None:
            self._transport.abort()

    def _end(self, problem: Exception, *, keep: asyncio.Future[Any] | None = None) -> None:
        self._problem = self._problem or problem
        self._keep_alive.stop()
        if keep is None:
            self._correlator.end(problem)
        for channel in list(self._channels.values()):
            channel.end(problem)
        self.congested(False)


def _lower(ours: int, theirs: int) -> int:
    """0: no limit."""
    return min(ours, theirs) if ours and theirs else ours or theirs


async def connect(address: Address | Plan | str, *, listeners: Iterable[Listener] = ()) -> Connection:
    """Connects to one broker, or with ``failover:`` and ``fanout:`` to several that are used as one. ``listeners`` are
    called with all events from the first attempt on."""
    if isinstance(address, str) and is_plan(address):
        address = plan_of(address)
    if not isinstance(address, Plan):
        return await Connection.open(address, listeners)
    from leveret.client.fanout import FanoutConnection  # these two import this module
    from leveret.client.recovering_connection import RecoveringConnection

    kind = FanoutConnection if address.is_fanout else RecoveringConnection
    return await kind.begin(address, listeners)
