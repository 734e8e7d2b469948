"""A broker inside your own process: ``with leveret.Broker() as broker:``.

The broker has an event loop of its own in a thread of its own and changes nothing else in the process: no signal
handlers, no logging set-up, no garbage-collector settings. Every method here may be called from any thread; callbacks
of consumers run in one further thread, in order.

Calls travel to the loop through a door that ``stop`` closes first: what went through is answered before the loop ends,
what comes later is refused. So nobody ever waits for a loop that is gone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

from leveret.broker.local import Delivered, LocalSession
from leveret.broker.vhost import Vhost
from leveret.clock import Clock
from leveret.config import Settings
from leveret.errors import BrokerStopped, NotAllowed
from leveret.node import Node
from leveret.routing.bindings import Binding, Destination
from leveret.server.callbacks import Callback, CallbackThread
from leveret.wire.fields import Table, decode_table, encode_short, encode_table
from leveret.wire.properties import Properties

T = TypeVar("T")
STOPPED = "the broker is not running: call start() or use it in a with statement"
QUICKLY = 0.5  # seconds for everything at the end: clients of an embedded broker often never read again


class Broker:
    """A broker that runs from ``start`` to ``stop`` (or inside ``with`` / ``async with``).

    Without settings it listens on a free port of the loopback address and keeps nothing on disk.
    """

    def __init__(self, settings: Settings | None = None, *, clock: Clock | None = None) -> None:
        quiet = Settings(amqp_port=0, http_port=None, stomp_port=None, shutdown_timeout=QUICKLY)
        self.settings = settings or quiet
        self.clock = EmbeddedClock(self, clock or Clock())
        self._node: Node | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._callbacks = CallbackThread()
        self._sessions: set[LocalSession] = set()
        self._life = threading.RLock()  # one start or stop at a time
        self._door = threading.Lock()  # held while a call is handed to the loop
        self._is_open = False

    # ---- life

    def start(self) -> Self:
        """Returns when clients can connect. Starting a running broker is no error."""
        with self._life:
            if self._thread is not None:
                return self
            node, loop = Node(self.settings, self.clock.core), _new_loop()
            self._callbacks = CallbackThread()
            self._thread = threading.Thread(target=_run, args=(loop,), name="leveret-broker", daemon=True)
            self._thread.start()
            self._loop, self._node = loop, node
            try:
                asyncio.run_coroutine_threadsafe(node.start(), loop).result()
            except BaseException:
                self._end()
                raise
            self._is_open = True
            return self

    def stop(self) -> None:
        """Clients are told (320); returns when the last one is gone. Stopping a stopped broker is no error."""
        with self._life:
            if self._loop is None or self._node is None:
                return
            with self._door:
                self._is_open = False
            self._callbacks.is_open = False
            try:
                asyncio.run_coroutine_threadsafe(self._node.stop(), self._loop).result()
            finally:
                self._end()

    def _end(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._callbacks.stop()
        self._thread = self._loop = self._node = None
        for session in self._sessions:
            session.is_open = False
        self._sessions.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.get_running_loop().run_in_executor(None, self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.stop)

    # ---- where it is

    @property
    def amqp_url(self) -> str:
        """With the default user and vhost, ready for any client."""
        return self._url("amqp")

    @property
    def amqps_url(self) -> str:
        return self._url("amqps")

    def _url(self, scheme: str) -> str:
        endpoints = self.node.endpoints
        if scheme not in endpoints:
            raise BrokerStopped(
                f"this broker has no {scheme} listener: it listens on {', '.join(endpoints) or 'nothing'}"
            )
        settings = self.settings
        login = f"{quote(settings.default_user, '')}:{quote(settings.default_password, '')}"
        return f"{scheme}://{login}@{endpoints[scheme].partition('://')[2]}/{quote(settings.default_vhost, '')}"

    @property
    def node(self) -> Node:
        if self._node is None:
            raise BrokerStopped(STOPPED)
        return self._node

    # ---- calls in the process

    def call(self, function: Callable[[], T]) -> T:
        """Run ``function`` on the broker's loop and let the broker have its turn after it."""
        broker = self.node.broker

        def run() -> T:
            try:
                return function()
            finally:
                broker.turn()

        if threading.current_thread() is self._thread:
            return run()
        answer: Future[T] = Future()
        self.post(lambda: _fill(answer, run))
        return answer.result()

    def post(self, function: Callable[[], None]) -> None:
        """Run ``function`` on the broker's loop some time soon."""
        with self._door:
            if not self._is_open or self._loop is None:
                raise BrokerStopped(STOPPED)
            self._loop.call_soon_threadsafe(function)

    def vhost(self, name: str = "/") -> EmbeddedVhost:
        """The core calls on one virtual host; each result is a session of its own, with its own delivery tags."""

        def open_session() -> EmbeddedVhost:
            vhost = self.node.broker.vhosts.get(name)
            if vhost is None:
                raise NotAllowed(f"vhost {name} not found")
            made = EmbeddedVhost(self, vhost, self._callbacks)
            self._sessions.add(made.session)
            return made

        return self.call(open_session)

    def forget(self, session: LocalSession) -> None:
        self._sessions.discard(session)


class EmbeddedVhost:
    """Declare, bind, publish, consume and ack without a connection; same rules and errors as over AMQP."""

    def __init__(self, broker: Broker, vhost: Vhost, callbacks: CallbackThread) -> None:
        self._broker = broker
        self._callbacks = callbacks
        self._by_tag: dict[str, Callback] = {}
        self.session = LocalSession(
            vhost,
            self._hand_over,
            left=lambda tag: self._by_tag.pop(tag, None),
            max_message_bytes=broker.settings.max_message_bytes,
        )

    def _call(self, function: Callable[[], T]) -> T:
        def run() -> T:
            self.session.check_open()
            return function()

        return self._broker.call(run)

    def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        vhost = self.session.vhost
        options = {"durable": durable, "auto_delete": auto_delete, "internal": internal}
        table = _as_sent(name, arguments)
        self._call(lambda: vhost.declare_exchange(name, type, arguments=table, **options))

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        self._call(lambda: self.session.vhost.delete_exchange(name, if_unused=if_unused))

    def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> str:
        """The queue's name, which is made up for an empty one."""
        vhost, owner = self.session.vhost, self.session
        options = {"durable": durable, "exclusive": exclusive, "auto_delete": auto_delete}
        table = _as_sent(name, arguments)
        return self._call(lambda: vhost.declare_queue(name, arguments=table, owner=owner, **options).name)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        vhost, owner = self.session.vhost, self.session
        return self._call(lambda: vhost.delete_queue(name, if_unused=if_unused, if_empty=if_empty, owner=owner))

    def purge_queue(self, name: str) -> int:
        return self._call(lambda: self.session.vhost.purge_queue(name, self.session))

    def bind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Mapping[str, object] | None = None
    ) -> None:
        binding = _binding(exchange, queue, routing_key, arguments)

        def bind() -> None:
            self._refuse_if_locked(queue)
            self.session.vhost.bind(binding)

        self._call(bind)

    def unbind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Mapping[str, object] | None = None
    ) -> None:
        binding = _binding(exchange, queue, routing_key, arguments)

        def unbind() -> None:
            self._refuse_if_locked(queue)
            self.session.vhost.unbind(binding)

        self._call(unbind)

    def _refuse_if_locked(self, queue: str) -> None:
        if queue in self.session.vhost.queues:
            self.session.vhost.queue(queue, self.session)

    def publish(self, exchange: str, routing_key: str, body: bytes, properties: Properties | None = None) -> bool:
        """Whether the message reached a queue."""
        content = bytes(memoryview(body))  # its own copy, and no text or number by mistake
        return self._call(lambda: self.session.publish(exchange, routing_key, content, properties))

    def consume(
        self, queue: str, callback: Callback, tag: str = "", *, auto_ack: bool = False, prefetch: int = 0
    ) -> str:
        """The consumer tag. The callback runs in the broker's callback thread and may call back into the broker."""

        def start() -> str:
            made = self.session.consume(queue, tag, auto_ack=auto_ack, prefetch=prefetch)
            self._by_tag[made] = callback
            self._callbacks.start()
            return made

        return self._call(start)

    def _hand_over(self, tag: str, delivered: Delivered) -> None:
        """On the loop; the callback then runs in its thread, and the end of it is told to the loop again."""
        broker, session = self._broker.node.broker, self.session

        def done() -> None:
            session.callback_done(tag)
            broker.wake()

        self._callbacks.put(session, self._by_tag[tag], delivered, lambda: self._broker.post(done))

    def cancel(self, tag: str) -> None:
        self._call(lambda: self.session.cancel(tag))

    def get(self, queue: str, *, auto_ack: bool = False) -> Delivered | None:
        return self._call(lambda: self.session.get(queue, auto_ack=auto_ack))

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        self._call(lambda: self.session.ack(delivery_tag, multiple=multiple))

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self._call(lambda: self.session.nack(delivery_tag, multiple=multiple, requeue=requeue))

    def message_count(self, queue: str) -> int:
        """Messages that are ready."""

        def count() -> int:
            found = self.session.vhost.queue(queue, self.session)
            self.session.vhost.settle_down(found)
            return found.ready

        return self._call(count)

    def close(self) -> None:
        """Consumers and exclusive queues leave; what was not acked goes back. Closing twice is no error."""

        def close() -> None:
            self.session.close()
            self._broker.forget(self.session)

        self._broker.call(close)


class EmbeddedClock:
    """Message time of an embedded broker. ``advance`` fires what is due, in order, and does not wait."""

    def __init__(self, broker: Broker, core: Clock) -> None:
        self._broker = broker
        self.core = core

    def now(self) -> float:
        return self.core.now()

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass at once: everything that falls due on the way happens before this returns."""
        broker = self._broker.node.broker

        def travel() -> None:
            broker.timers.advance(seconds, broker.turn)
            broker.timers.rearm()

        self._broker.call(travel)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


def _fill(answer: Future[T], function: Callable[[], T]) -> None:
    try:
        answer.set_result(function())
    except BaseException as problem:  # noqa: BLE001 - it belongs to whoever waits for the answer
        answer.set_exception(problem)


def _binding(exchange: str, queue: str, routing_key: str, arguments: Mapping[str, object] | None) -> Binding:
    return Binding(exchange, Destination("queue", queue), routing_key, _as_sent(routing_key, arguments))


def _as_sent(name: str, arguments: Mapping[str, object] | None) -> Table:
    """The arguments as if they had come over the wire: a copy, of types that can; the name must fit there, too."""
    encode_short(name)
    data = encode_table(arguments or {})
    return decode_table(data, 0, len(data))[0]


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
