"""A broker inside your own process: ``with leveret.Broker() as broker:``.

The broker has an event loop of its own in a thread of its own and changes nothing else in the process: no signal
handlers, no logging set-up, no garbage-collector settings. Every method here may be called from any thread; callbacks
of consumers run in one further thread, in order.

``stop`` first refuses new calls, then completes those that were made before, then ends the loop. So no call waits for
a loop that has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from leveret.broker.local import LocalSession
from leveret.clock import Clock
from leveret.config import Settings
from leveret.embedded_settings import embedded_settings
from leveret.embedded_vhost import EmbeddedVhost
from leveret.errors import BrokerStopped, ConfigError, NotAllowed
from leveret.node import Node
from leveret.server.calls import Alarm, CallbackThread, fill, when_calm

T = TypeVar("T")
TLS_SCHEMES = ("amqps", "https", "stomps")
STOPPED = "the broker is not running: call start() or use it in a with statement"


class Broker:
    """A broker that runs from ``start`` to ``stop`` (or inside ``with`` / ``async with``).

    By default it listens on a free port of the loopback address, keeps nothing on disk, and its only user has a random
    password, which is part of ``amqp_url``. ``changes`` are settings by name, as in ``Broker(http_port=0)``. Settings
    that neither ``settings`` nor ``changes`` name keep these defaults (embedded_settings.py).
    """

    def __init__(self, settings: Settings | None = None, *, clock: Clock | None = None, **changes: Any) -> None:
        self.settings = embedded_settings(settings, changes)
        self.clock = EmbeddedClock(self, clock or Clock())
        self._node: Node | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._callbacks = CallbackThread()
        self._sessions: set[LocalSession] = set()
        self._start_stop_lock = threading.RLock()  # one start or stop at a time
        self._calls_lock = threading.Lock()  # held while a call is passed to the loop
        self._is_open = False

    # ---- start and stop

    def start(self) -> Self:
        """Returns when clients can connect. Starting a running broker has no effect."""
        with self._start_stop_lock:
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
        """Close all connections (320) and return when the last one is closed. Stopping it twice has no effect."""
        with self._start_stop_lock:
            if self._loop is None or self._node is None:
                return
            with self._calls_lock:
                self._is_open = False
            self._callbacks.is_open = False
            try:
                asyncio.run_coroutine_threadsafe(self._leave(self._node), self._loop).result()
            finally:
                self._end()

    async def _leave(self, node: Node) -> None:
        node.broker.is_stopping = True
        for session in self._sessions:
            session.close()  # unacknowledged messages are requeued and marked redelivered
        await node.stop()

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

    # ---- URLs and login

    @property
    def username(self) -> str:
        """Name of the administrator that the first start creates."""
        return self.settings.default_user

    @property
    def password(self) -> str:
        """Password of that user; random if none was given."""
        return self.settings.default_password

    @property
    def amqp_url(self) -> str:
        """URL with the default user, password and virtual host, for any AMQP client."""
        return self._url("amqp")

    @property
    def amqps_url(self) -> str:
        return self._url("amqps")

    @property
    def http_url(self) -> str:
        """URL of the HTTP API, without a login. Needs ``http_port``: ``Broker(http_port=0)``."""
        return self._endpoint("http")

    @property
    def stomp_url(self) -> str:
        """URL of the STOMP listener, without a login. Needs ``stomp_port`` in the settings."""
        return self._endpoint("stomp")

    @property
    def stomps_url(self) -> str:
        """The same over TLS. Needs ``stomps_port`` and ``tls_cert`` in the settings."""
        return self._endpoint("stomps")

    @property
    def https_url(self) -> str:
        """URL of the HTTP API over TLS. Needs ``tls_cert`` in the settings."""
        return self._endpoint("https")

    def _endpoint(self, scheme: str) -> str:
        endpoints = self.node.endpoints
        if scheme not in endpoints:
            needed = f"{scheme}_port=0" + (", tls_cert=..." if scheme in TLS_SCHEMES else "")
            raise ConfigError(f"this broker has no {scheme} listener: create it with leveret.Broker({needed})")
        return endpoints[scheme]

    def _url(self, scheme: str) -> str:
        address = self._endpoint(scheme).partition("://")[2]
        settings = self.settings
        login = f"{quote(self.username, '')}:{quote(self.password, '')}"
        return f"{scheme}://{login}@{address}/{quote(settings.default_vhost, '')}"

    @property
    def node(self) -> Node:
        if self._node is None:
            raise BrokerStopped(STOPPED)
        return self._node

    # ---- calls in the process

    def call(self, function: Callable[[], T]) -> T:
        """Run ``function`` on the broker's loop, then a tick of the broker.

        Returns when everything that it wrote is as durable as the settings promise.
        """
        broker = self.node.broker

        def run() -> T:
            try:
                return function()
            finally:
                broker.tick()

        if threading.current_thread() is self._thread:
            return run()
        answer: Future[T] = Future()
        self.post(lambda: fill(answer, run, broker))
        return answer.result()

    def call_when_calm(self, function: Callable[[], T]) -> T:
        """Like ``call``, for publishers: waits while there is an alarm.

        A callback of a consumer does not wait, since it may be what frees the memory.
        """
        core = self.node.broker

        def refuse_or_run() -> T:
            if core.alarms and not in_callback:
                raise Alarm
            return function()

        in_callback = self._callbacks.is_current()
        while True:
            try:
                return self.call(refuse_or_run)
            except Alarm:
                calm: Future[None] = Future()
                self.post(lambda calm=calm: when_calm(core, calm))  # type: ignore[misc]
                while not calm.done():
                    if not self._is_open:
                        raise BrokerStopped(STOPPED) from None
                    with suppress(TimeoutError):
                        calm.result(timeout=0.1)

    def post(self, function: Callable[[], None]) -> None:
        """Run ``function`` on the broker's loop soon."""
        with self._calls_lock:
            if not self._is_open or self._loop is None:
                raise BrokerStopped(STOPPED)
            self._loop.call_soon_threadsafe(function)

    def vhost(self, name: str = "/") -> EmbeddedVhost:
        """The API of one virtual host. Each result is a session of its own, with its own delivery tags."""

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


class EmbeddedClock:
    """Message time of an embedded broker. ``advance`` fires due timers in order, without waiting."""

    def __init__(self, broker: Broker, core: Clock) -> None:
        self._broker = broker
        self.core = core

    def now(self) -> float:
        return self.core.now()

    def advance(self, seconds: float) -> None:
        """Advance the clock by ``seconds``: all timers that become due have fired when this returns."""
        broker = self._broker.node.broker

        def travel() -> None:
            broker.timers.advance(seconds, broker.tick)
            broker.timers.rearm()

        self._broker.call(travel)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
