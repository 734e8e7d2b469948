"""A broker inside your own process: ``with leveret.Broker() as broker:``.

The broker has an event loop of its own in a thread of its own and changes nothing else in the process: no signal
handlers, no logging set-up, no garbage-collector settings. Every method here may be called from any thread; callbacks of
consumers run in one further thread, in order.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

from leveret.broker.local import Delivered, LocalSession
from leveret.clock import Clock
from leveret.config import Settings
from leveret.errors import BrokerStopped
from leveret.logs import get_log
from leveret.node import Node
from leveret.routing.bindings import Binding, Destination
from leveret.wire.properties import Properties

T = TypeVar("T")
Callback = Callable[[Delivered], None]


class Broker:
    """A broker that runs from ``start`` to ``stop`` (or inside ``with`` / ``async with``).

    Without settings it listens on a free port of the loopback address and keeps nothing on disk.
    """

    def __init__(self, settings: Settings | None = None, *, clock: Clock | None = None) -> None:
        quiet = Settings(amqp_port=0, http_port=None, stomp_port=None)
        self.settings = settings or quiet
        self.clock = EmbeddedClock(self, clock or Clock())
        self._node: Node | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._callbacks: CallbackThread | None = None
        self._sessions: list[LocalSession] = []

    # ---- life

    def start(self) -> Self:
        if self._thread is not None:
            return self
        self._loop = _new_loop()
        self._node = Node(self.settings, self.clock.core)
        self._callbacks = CallbackThread()
        self._thread = threading.Thread(target=self._run_loop, name="leveret-broker", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._node.start(), self._loop).result()
        except BaseException:
            self._end_loop()
            raise
        return self

    def stop(self) -> None:
        """Clients are told (320); returns when the last one is gone. Calling it twice is no error."""
        if self._thread is None or self._loop is None or self._node is None:
            return
        asyncio.run_coroutine_threadsafe(self._node.stop(), self._loop).result()
        self._end_loop()

    def _run_loop(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _end_loop(self) -> None:
        assert self._loop is not None and self._thread is not None and self._callbacks is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._callbacks.stop()
        self._thread = self._loop = self._node = None
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
            raise BrokerStopped("the broker is not running: call start() or use it in a with statement")
        return self._node

    # ---- calls in the process

    def call(self, function: Callable[[], T]) -> T:
        """Run ``function`` on the broker's loop and let the broker have its turn after it."""
        node, loop = self.node, self._loop
        assert loop is not None

        def run() -> T:
            try:
                return function()
            finally:
                node.broker.turn()

        if threading.current_thread() is self._thread:
            return run()

        async def on_loop() -> T:
            return run()

        return asyncio.run_coroutine_threadsafe(on_loop(), loop).result()

    def vhost(self, name: str = "/") -> EmbeddedVhost:
        """The core calls on one virtual host; each result is a session of its own, with its own delivery tags."""

        def open_session() -> LocalSession:
            assert self._callbacks is not None
            session = LocalSession(self.node.broker.vhost(name), self._callbacks.deliver)
            self._sessions.append(session)
            return session

        session = self.call(open_session)
        assert self._callbacks is not None
        return EmbeddedVhost(self, session, self._callbacks)


class EmbeddedVhost:
    """Declare, bind, publish, consume and ack without a connection; same rules and errors as over AMQP."""

    def __init__(self, broker: Broker, session: LocalSession, callbacks: CallbackThread) -> None:
        self._broker = broker
        self._session = session
        self._callbacks = callbacks

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
        vhost = self._session.vhost
        options = {"durable": durable, "auto_delete": auto_delete, "internal": internal}
        self._broker.call(lambda: vhost.declare_exchange(name, type, arguments=arguments, **options))

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        self._broker.call(lambda: self._session.vhost.delete_exchange(name, if_unused=if_unused))

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
        vhost, owner = self._session.vhost, self._session
        options = {"durable": durable, "exclusive": exclusive, "auto_delete": auto_delete}
        made = self._broker.call(lambda: vhost.declare_queue(name, arguments=arguments, owner=owner, **options))
        return made.name

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        vhost, owner = self._session.vhost, self._session
        return self._broker.call(lambda: vhost.delete_queue(name, if_unused=if_unused, if_empty=if_empty, owner=owner))

    def purge_queue(self, name: str) -> int:
        return self._broker.call(lambda: self._session.vhost.purge_queue(name, self._session))

    def bind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Mapping[str, object] | None = None
    ) -> None:
        binding = Binding(exchange, Destination("queue", queue), routing_key, arguments or {})
        self._broker.call(lambda: self._session.vhost.bind(binding))

    def unbind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Mapping[str, object] | None = None
    ) -> None:
        binding = Binding(exchange, Destination("queue", queue), routing_key, arguments or {})
        self._broker.call(lambda: self._session.vhost.unbind(binding))

    def publish(self, exchange: str, routing_key: str, body: bytes, properties: Properties | None = None) -> bool:
        """Whether the message reached a queue."""
        return self._broker.call(lambda: self._session.publish(exchange, routing_key, body, properties))

    def consume(
        self, queue: str, callback: Callback, tag: str = "", *, auto_ack: bool = False, prefetch: int = 0
    ) -> str:
        """The consumer tag. The callback runs in the broker's callback thread and may call back into the broker."""

        def run(delivered: Delivered) -> None:
            try:
                callback(delivered)
            finally:
                if auto_ack:
                    self._broker.call(lambda: self._session.callback_done(delivered.consumer_tag))

        def start() -> str:
            made = self._session.consume(queue, tag, auto_ack=auto_ack, prefetch=prefetch)
            self._callbacks.register(self._session, made, run)
            return made

        return self._broker.call(start)

    def cancel(self, tag: str) -> None:
        self._broker.call(lambda: self._session.cancel(tag))

    def get(self, queue: str, *, auto_ack: bool = False) -> Delivered | None:
        return self._broker.call(lambda: self._session.get(queue, auto_ack=auto_ack))

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        self._broker.call(lambda: self._session.ack(delivery_tag, multiple=multiple))

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self._broker.call(lambda: self._session.nack(delivery_tag, multiple=multiple, requeue=requeue))

    def message_count(self, queue: str) -> int:
        """Messages that are ready."""
        return self._broker.call(lambda: self._session.vhost.queue(queue, self._session).ready)

    def close(self) -> None:
        """Consumers leave; what was not acked goes back to its queues."""
        self._broker.call(self._session.close)


class EmbeddedClock:
    """Message time of an embedded broker. ``advance`` fires what is due, in order, and does not wait."""

    def __init__(self, broker: Broker, core: Clock) -> None:
        self._broker = broker
        self.core = core

    def now(self) -> float:
        return self.core.now()

    def advance(self, seconds: float) -> None:
        broker = self._broker.node.broker

        def travel() -> None:
            broker.timers.advance(seconds, broker.turn)
            broker.timers.rearm()

        self._broker.call(travel)


class CallbackThread:
    """Runs consumer callbacks, one at a time and in order; started when the first one is needed."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Callback, Delivered] | None] = queue.SimpleQueue()
        self._callbacks: dict[str, Callback] = {}
        self._thread: threading.Thread | None = None
        self._log = get_log("embedded")

    def register(self, session: LocalSession, tag: str, callback: Callback) -> None:
        self._callbacks[tag] = callback
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="leveret-callbacks", daemon=True)
            self._thread.start()

    def deliver(self, tag: str, delivered: Delivered) -> None:
        self._work.put((self._callbacks[tag], delivered))

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            callback, delivered = work
            try:
                callback(delivered)
            except BrokerStopped:
                return
            except Exception:
                self._log.exception("callback failed; its message stays unacked", consumer=delivered.consumer_tag)

    def stop(self) -> None:
        if self._thread is not None:
            self._work.put(None)
            if threading.current_thread() is not self._thread:
                self._thread.join(timeout=1.0)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
