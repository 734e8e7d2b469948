"""One client connection, whatever its protocol, without its socket: login, virtual host, channels, output, pauses.

AMQP (session/amqp_connection.py) and STOMP (stomp/connection.py) are subclasses: they read the bytes of the client,
call their channels, and write replies, deliveries and errors in their own format.

Reading can be paused for several reasons at once and resumes when the last one is gone. A *halt* also stops the
handling of input that has been received already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from leveret.auth.loopback import is_loopback
from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.broker.access import access_to
from leveret.broker.broker import Broker
from leveret.broker.caller import Caller
from leveret.broker.memory_users import LEAST
from leveret.errors import AmqpError, ConnectionForced, LoginRefused
from leveret.logs import get_log
from leveret.session.handover import Handover
from leveret.session.limits import Limits
from leveret.session.outbox import FEW_UNREAD, MOST_UNREAD, Outbox
from leveret.wire.fields import Table
from leveret.wire.grammar import Step

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost
    from leveret.session.channel import Channel

UNREAD, ALARM, NEXT_TICK, LOGIN = "unread answers", "alarm", "the next tick", "login"  # reasons to halt
HOME_CELL = "home cell of the virtual host"
FULL_CHUNK = 512 << 10  # bytes
NO_REASONS: frozenset[str] = frozenset()


class Peer(Protocol):
    """The socket of a connection."""

    host: str  # IP address of the client
    received: int  # bytes, in ``reads`` reads
    reads: int
    sent: int  # bytes, in ``writes`` writes
    writes: int
    certificate: dict[str, object] | None  # verified by TLS, as the ssl module gives it

    def write(self, data: bytes) -> None: ...
    def write_pieces(self, pieces: list[bytes]) -> None: ...

    def unsent(self) -> int:
        """Bytes in the write buffer."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close_after(self, seconds: float) -> None:
        """Close once everything is written, at the latest after this many seconds."""

    def close(self) -> None:
        """Write what is left and close."""

    def tls(self) -> tuple[str, str] | None:
        """TLS version and cipher; None without TLS."""


Login = Callable[[Credentials, Callable[[User | None], None]], None]


class Connection:
    __slots__ = (  # a dict of that many attributes takes 1.2 KB
        "_halts",
        "_holder",
        "_most_unread",
        "_paused",
        "awaits_cell",
        "blocked",
        "broker",
        "caller",
        "channel_max",
        "channels",
        "client_name",
        "client_properties",
        "connected_at",
        "expects_login_reply",
        "frame_max",
        "halted",
        "has_received",
        "heartbeat",
        "least_held",
        "limits",
        "log",
        "login",
        "login_was_refused",
        "may_move",
        "mechanism",
        "name",
        "outbox",
        "partial",
        "peer",
        "send",
        "step",
        "user",
        "vhost",
        "wanted_vhost",
    )

    protocol: str
    is_link = False  # the client is another cell
    channels: Mapping[int, Channel]

    def __init__(self, broker: Broker, peer: Peer, login: Login, limits: Limits, name: str) -> None:
        self.broker = broker
        self.peer = peer
        self.login = login
        self.limits = limits
        self.name = name
        self.log = get_log("session").bind(connection=name)
        self.connected_at = broker.clock.wall()
        self.heartbeat = 0  # seconds, of AMQP
        self.expects_login_reply = True  # if the login fails
        self.login_was_refused = False  # which is in the log: further lines about this connection would repeat it
        self.awaits_cell = False  # ``wanted_vhost`` is in another cell, which is to serve this connection
        self.wanted_vhost = ""
        self.mechanism = ""  # SASL mechanism of the login
        self.client_name: str | None = None
        self.client_properties: Table = {}
        self.user = User("")
        self.vhost: Vhost = None  # type: ignore[assignment]  # set by open_vhost, before any channel is opened
        self.caller: Caller = None  # type: ignore[assignment]  # the same
        self.step = Step.AWAIT_HEADER
        self.frame_max = limits.frame_max
        self.channel_max = limits.channel_max
        self.channels = {}
        self.may_move = False  # to the cell of the queue that it uses first (session/connection_moves.py)
        self.blocked = False
        self.partial = 0  # bytes of unfinished messages
        self._holder = ""  # the user whose memory share they count against
        self.least_held = max(LEAST, 2 * limits.max_message_size)  # bytes that its user may always hold
        self.outbox = Outbox(broker, peer, limits.write_high_watermark, self._resume_delivery)
        self.send = self.outbox.send
        self.has_received = True  # since the last heartbeat check
        self.halted = False  # no input is handled until the last ``unhalt``
        self._halts = self._paused = NO_REASONS
        # Far above what deliveries alone can leave unsent: they stop at the high watermark, which one message may
        # exceed. Otherwise a client that publishes before it reads again would deadlock.
        self._most_unread = MOST_UNREAD + limits.max_message_size + 8 * limits.write_high_watermark

    # ---- for the subclass of a protocol

    def receive(self, data: bytes) -> None:
        """Bytes from the client, in chunks of any size. Ends with ``input_handled``."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Handle the input that arrived during a halt."""
        raise NotImplementedError

    def logged_in(self) -> None:
        """``user`` has logged in."""
        raise NotImplementedError

    def end_with(self, error: AmqpError) -> None:
        """Close with an error that the input being handled did not cause."""
        raise NotImplementedError

    def notify_blocked(self) -> None:
        """``blocked`` has changed."""

    def handover(self) -> Handover:
        """This connection, once it has logged in, for the cell where its virtual host is."""
        raise NotImplementedError

    def open_handed_over(self, handover: Handover) -> None:
        """Note what was negotiated at another cell, and open the virtual host."""
        raise NotImplementedError

    def unhandled_input(self) -> bytes:
        """Everything after the input that opened the virtual host."""
        raise NotImplementedError

    def best_read(self) -> int:
        """How many bytes to read at once from a client that sends more than the broker can read."""
        return FULL_CHUNK

    def move(self, cell: str, rest: bytes) -> bool:
        """To another cell, with the rest of the input. False if it stays."""
        return False

    def held_input(self) -> int:
        """Bytes of received input that ``partial`` does not count."""
        return 0

    # ---- login

    def log_in(self, credentials: Credentials, mechanism: str) -> None:
        """Calls ``logged_in`` or ``end_with``, at once or later; input waits until then."""
        if credentials.name in self.limits.loopback_users and not is_loopback(self.peer.host):
            credentials = credentials.refused_to_remote_peers()
        self.mechanism = mechanism
        self.halt(LOGIN)
        self.login(credentials.by(mechanism), self._decided)

    def _decided(self, user: User | None) -> None:
        """The result of the login, on the event loop. The connection may be closed by now."""
        if self.is_over:
            return
        self.login_was_refused = user is None
        if user is None and not self.expects_login_reply:
            self.over()
        elif user is None:
            text = f"Login was refused using authentication mechanism {self.mechanism}."
            self.end_with(LoginRefused(f"{text} For details see the broker logfile."))
        else:
            self.user = user
            self.logged_in()
            self.unhalt(LOGIN)

    def is_relayed(self, vhost: str) -> bool:
        """Whether another cell is to serve this connection: then it is handed over, or closed if that is impossible.
        Until then no more input is handled."""
        found = self.broker.vhosts.get(vhost)
        if found is None or found.is_here:
            return False
        access_to(self.broker, vhost, self.user)
        relay = self.broker.cells.clients
        assert relay is not None, "only a broker that is one of several cells has virtual hosts elsewhere"
        self.awaits_cell, self.wanted_vhost = True, vhost
        self.halt(HOME_CELL)
        relay.relay(self, found.cell)
        return True

    def take_over(self, handover: Handover, user: User) -> None:
        """Serve a client that has logged in at another cell. Called before ``receive``."""
        self.user, self.mechanism = user, handover.mechanism
        self.open_handed_over(handover)
        self.broker.wake()

    def open_vhost(self, name: str) -> None:
        access = access_to(self.broker, name, self.user)
        vhost = access.vhost
        self.broker.registry.enter(self.user.name, self.user.max_connections, vhost.name, vhost.max_connections)
        self.vhost = vhost
        self.caller = Caller(access, self)
        self.log.info("connection opened", user=self.user.name, vhost=vhost.name, client=self.client_name)

    # ---- closing

    def force_close(self, reason: str) -> None:
        if self.step is Step.OPEN:
            self.end_with(ConnectionForced(reason))
        elif not self.is_over:
            self.over()

    def over(self) -> None:
        """Write what is left and close the socket."""
        self.step = Step.CLOSED
        self.outbox.flush()
        self.peer.close()

    @property
    def is_over(self) -> bool:
        return self.step in (Step.CLOSING, Step.CLOSED)

    def lost(self) -> None:
        """The socket was closed."""
        self.release()
        self.step = Step.CLOSED
        self.outbox.close()
        self.broker.registry.remove(self)
        if self.broker.has_work:
            self.broker.wake()

    def release(self) -> None:
        """Release everything that this connection holds."""
        channels, self.channels = self.channels, {}
        for channel in channels.values():
            channel.leave()
        vhost: Vhost | None = self.vhost
        if vhost is not None:
            self.vhost = self.caller = None  # type: ignore[assignment]
            vhost.drop_exclusive(self)
            if not self.is_link:
                vhost.counters.connection_gone(self.peer.received, self.peer.sent)
            self.broker.registry.leave(self.user.name, vhost.name)

    # ---- pausing

    def input_handled(self) -> None:
        """At the end of ``receive``: apply flow control, and request a tick if there is work for it."""
        self.check_unread()
        broker = self.broker
        if broker.dirty or broker.outgoing or broker.log.issued != broker.flushed or broker.awaiting_tick:
            broker.wake()

    def halt(self, reason: str) -> None:
        """Stop handling input, received data included, until ``unhalt`` is called with the same reason."""
        self.halted = True
        self._halts |= {reason}
        self.pause(reason)

    def unhalt(self, reason: str) -> None:
        if reason in self._halts:
            self._halts = (self._halts - {reason}) or NO_REASONS
            self.resume(reason)
            if not self._halts:
                self.halted = False
                self.go_on()
            self.broker.wake()

    def flush_and_check_unread(self) -> None:
        """Halt a client that sends requests faster than it reads the replies, until it has read."""
        self.outbox.flush()
        if self.peer.unsent() > (FEW_UNREAD if self.outbox.unread_output.is_high else MOST_UNREAD) // 2:
            self._halt_unread()

    def check_unread(self) -> None:
        """Halt it, too, when it leaves many small replies unread; called once per chunk."""
        outbox = self.outbox
        most = FEW_UNREAD if outbox.unread_output.is_high else self._most_unread
        # ``unread`` was counted after the last write, so it is never too small, and saves a call per chunk
        if outbox.size + outbox.unread > most and outbox.size + self.peer.unsent() > most and not self.is_over:
            self._halt_unread()

    def charge(self, steps: int) -> None:
        """Count work other than acks and publishes with known routes (routing/bounds.py)."""
        work = self.broker.routing_work
        work.spent += steps
        if work.is_spent and self.step is Step.OPEN:
            self.wait_for_tick()

    def wait_for_tick(self) -> None:
        """The routing steps of this tick are used up (routing/bounds.py): continue in the next tick."""
        if NEXT_TICK not in self._halts:
            self.halt(NEXT_TICK)
            self.broker.awaiting_tick.append(self)  # ``input_handled`` requests the tick

    def resume_in_tick(self) -> None:
        self.unhalt(NEXT_TICK)
        self.check_unread()

    def _halt_unread(self) -> None:
        self.outbox.is_flow_controlled = True  # so that the next flush resumes, if the socket accepts everything
        self.halt(UNREAD)

    def pause(self, reason: str) -> None:
        if not self._paused:
            self.peer.pause_reading()
        self._paused |= {reason}

    def resume(self, reason: str) -> None:
        if reason in self._paused:
            self._paused = (self._paused - {reason}) or NO_REASONS
            if not self._paused:
                self.has_received = True  # missing heartbeats while reading was paused do not count
                self.peer.resume_reading()

    @property
    def is_paused(self) -> bool:
        return bool(self._paused)

    def block(self) -> None:
        """A publish has arrived during an alarm: nothing from that publish on is handled until the alarm ends."""
        if self.blocked or self.step is not Step.OPEN:
            return
        self.blocked = True
        self.notify_blocked()
        self.halt(ALARM)

    def unblock(self) -> None:
        if not self.blocked:
            return
        self.blocked = False
        self.notify_blocked()
        self.unhalt(ALARM)

    def hold_partial(self, size: int) -> bool:
        """Count bytes of unfinished messages (negative: released); False if the user holds too many."""
        if not self.partial:
            self._holder = self.user.name  # a STOMP client may log in while it holds some
        self.partial += size
        return self.broker.memory_users.unfinished.hold(self._holder, size, self.least_held)

    def forget_routes(self) -> None:
        for channel in self.channels.values():
            channel.routes.forget()

    def _resume_delivery(self) -> None:
        """The socket is writable again: handle requests and deliver to consumers."""
        if self.outbox.writable:
            self.unhalt(UNREAD)
        for channel in self.channels.values():
            channel.touch_queues()
