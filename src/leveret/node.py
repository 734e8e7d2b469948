"""The composition root: builds the application from its parts, top to bottom, and stops it in reverse order.

Length: reading this file is reading the architecture.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from leveret.broker.broker import Broker
from leveret.broker.parameters import gather_global_parameters
from leveret.broker.restoration import (
    close_streams,
    load_seen,
    load_streams,
    open_streams,
    remove_orphans,
    restore_definitions,
    restore_messages,
    restore_streams,
)
from leveret.clock import Clock
from leveret.config import Settings
from leveret.errors import ConfigError
from leveret.http.server import HttpServer
from leveret.http.stream_listeners import AMQP, STOMP, StreamListeners
from leveret.logs import get_log
from leveret.machine import resident_memory, usable_memory
from leveret.pipeline.context import PipelineContext
from leveret.routing.bounds import Bounds
from leveret.server.admission import Admission
from leveret.server.amqp_protocol import AmqpProtocol
from leveret.server.certificates import Certificates, TlsFiles
from leveret.server.flusher import Flusher
from leveret.server.initial_definitions import (
    FirstLogin,
    ShowFirstLogin,
    create_definitions,
    generate_login,
    has_well_known_login,
    opens_to_a_network,
)
from leveret.server.listener import Listener, most_unfinished
from leveret.server.logins import Logins
from leveret.server.loop_watch import LoopWatch
from leveret.server.periodic_checks import PeriodicChecks
from leveret.server.proxy_header import TrustedProxies
from leveret.server.readiness import Readiness
from leveret.server.settings_reload import compare, log_reload
from leveret.server.stomp_protocol import StompProtocol
from leveret.server.ticker import Ticker
from leveret.session.limits import Limits
from leveret.session.settlement import Settlement
from leveret.sharding.sharding import Sharding
from leveret.store.memory_log import MemoryLog
from leveret.store.store import Store

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from leveret.api.context import ApiContext

Listen = Callable[[tuple[str, ...], int, str, ssl.SSLContext | None, TrustedProxies | None], Awaitable[int]]
NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


class Node:
    """One running broker: ``await start()``, ``await stop()``. ``endpoints`` are the URLs of its listeners.

    A process that runs only the broker passes its environment, to notify a service manager, and a function that shows
    the password of the first administrator.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        *,
        environ: Mapping[str, str] = NO_ENVIRONMENT,
        show_first_login: ShowFirstLogin | None = None,
    ) -> None:
        self.settings = settings
        self.endpoints: dict[str, str] = {}
        self._readiness, self._show_first_login = Readiness(environ), show_first_login
        clock = clock or Clock()
        self.store = _store_of(settings, clock)
        self.broker = Broker(
            node_name=settings.node_name,
            clock=clock,
            log=MemoryLog() if self.store is None else self.store.journal,
            memory_high_watermark=settings.memory_high_watermark.of(usable_memory()),
            resident=resident_memory,
            baseline=None if environ is NO_ENVIRONMENT else resident_memory(),
            pages=None if self.store is None else self.store.pages,
            queue_memory=settings.queue_memory,
            stream_disk=None if self.store is None else self.store.disk,
            bounds=Bounds(settings.max_routing_steps, settings.max_exchange_bindings, settings.max_vhost_bindings),
        )
        self.sharding = Sharding(self.broker)
        self._flusher: Flusher | None = None
        self._ticker: Ticker | None = None
        self._logins: Logins | None = None
        self._checks: PeriodicChecks | None = None
        self._listener: Listener | None = None
        self._http: HttpServer | None = None
        self._loop_watch: LoopWatch | None = None
        self._listeners = StreamListeners(Admission(self.broker.memory.high_watermark))
        self._certificates: Certificates | None = None
        self._api: ApiContext | None = None
        self._first_login: FirstLogin | None = None
        self._pipeline = PipelineContext(self.broker, settings.max_message_size)
        self.broker.memory_users.watch("uploads", lambda: self._pipeline.held)

    # ---- start

    async def start(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            self._ticker = Ticker(loop, self.broker)
            is_new = self.store is None or await self._open_store(self.store)
            self.sharding.start()
            self._pipeline.commits.start()
            if is_new:
                self._first_login = await self._make_first_login()
            create_definitions(self.broker, self.settings, self._first_login, is_new)
            await self._wait_until_written()
            await self._warn_about_well_known_login()
            await self._start_listening()
            self._readiness.ready(f"listening on {', '.join(self.endpoints.values())}")
            self._readiness.feed_watchdog(loop)
        except BaseException:
            await self.stop()
            raise

    async def _open_store(self, store: Store) -> bool:
        """Restore what previous runs stored. Returns whether the store is new."""
        loop = asyncio.get_running_loop()
        log = get_log("store")
        begun = loop.time()

        def progress(done: int, of: int) -> None:
            if of > 4 and done % max(of // 10, 1) == 0:
                self._readiness.status(f"recovering, {done} of {of} segments")
                log.info("recovering", segments=f"{done} of {of}")

        opened = await loop.run_in_executor(None, store.open, progress)
        broker, settings = self.broker, self.settings
        with broker.unrecorded():
            restore_definitions(broker, opened.definitions, settings.default_user, settings.default_password)
        await loop.run_in_executor(None, open_streams, broker)
        if not opened.is_new:
            rows = {row.id for row in opened.definitions.queues}
            await loop.run_in_executor(None, remove_orphans, store.disk, rows)
        lanes = store.adopt(opened.recovered)
        messages = restore_streams(broker, lanes) + restore_messages(broker, lanes)
        self._flusher = Flusher(loop, broker, store, settings.disk_free_limit.of)
        self._flusher.start()
        store.journal.seal()
        seen = loop.create_future()
        load_seen(broker, lambda: seen.set_result(None))
        await seen
        loaded = loop.create_future()
        load_streams(broker, lambda: loaded.set_result(None))
        await loaded
        if not opened.is_new:
            found = {"messages": messages, "queues": len(opened.definitions.queues)}
            state = "clean" if opened.recovered.clean else "after a crash"
            log.info("recovered", state=state, seconds=round(loop.time() - begun, 2), **found)
        gather_global_parameters(broker.parameters, broker.vhosts.values())
        broker.wake()
        return opened.is_new

    async def _make_first_login(self) -> FirstLogin | None:
        """The password is shown before it is stored: a start that fails in between leaves no unknown password."""
        settings, show = self.settings, self._show_first_login
        if show is None or not opens_to_a_network(settings.host):
            return None
        login, password = await asyncio.get_running_loop().run_in_executor(None, generate_login, settings)
        if password is not None:
            show(login.user, password)
        return login

    async def _wait_until_written(self) -> None:
        """Wait until the definitions created at the start are on disk; with a full disk the node starts anyway."""
        self.broker.tick()
        while self.broker.last_granted < self.broker.log.issued and not self.broker.alarms:
            await asyncio.sleep(0.001)

    async def _warn_about_well_known_login(self) -> None:
        """This login works from loopback only, but a proxy on this machine makes every client local."""
        hosts = self.settings.host
        if not opens_to_a_network(hosts):
            return
        if await asyncio.get_running_loop().run_in_executor(None, has_well_known_login, self.broker.users):
            get_log("logins").warning(
                "user guest still has the password guest and the broker listens on a network",
                host=",".join(hosts),
                remedy="leveret users password guest, or delete the user: leveret users delete guest",
            )

    async def _start_listening(self) -> None:
        settings, broker = self.settings, self.broker
        loop = asyncio.get_running_loop()
        self._logins = Logins(loop, broker, settings.login_failure_delay, settings.handshake_timeout)
        self._checks = PeriodicChecks(loop, broker, settings.handshake_timeout)
        self._checks.start()
        limits = Limits(
            frame_max=settings.frame_max,
            channel_max=settings.channel_max,
            heartbeat=settings.heartbeat,
            max_message_size=settings.max_message_size,
            max_partial_bytes=most_unfinished(settings.max_message_size),
            write_high_watermark=settings.write_high_watermark,
            loopback_users=settings.loopback_users,
        )
        self._listener = Listener(
            loop, broker, self._logins, self._checks, limits, settings.connection_max, self._listeners.admission
        )
        if settings.http_streams == "on":
            self._register_streams(self._listener)
        if settings.tls_cert is not None:
            files = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_ca, settings.tls_crl)
            self._certificates = Certificates(files, broker.timers)
        await self._open_amqp(self._listener)
        await self._open_stomp(self._listener)
        if settings.http_port is not None or (self._certificates is not None and settings.https_port is not None):
            await self._open_http(self._logins)
        if self._certificates is not None:
            self._certificates.watch()

    def _register_streams(self, listener: Listener) -> None:
        """AMQP and STOMP on the HTTP ports, over WebSocket and in tunnels."""
        self._listeners.register(AMQP, lambda: AmqpProtocol(listener), is_known=AmqpProtocol.is_known)
        for name in STOMP:
            self._listeners.register(
                name,
                lambda: StompProtocol(listener),
                is_text=True,
                is_known=AmqpProtocol.is_known,
                largest=StompProtocol.largest_frame,
                gather=StompProtocol.gather,
            )

    async def _open_amqp(self, listener: Listener) -> None:
        settings = self.settings
        if settings.amqp_port is not None:
            await self._open("amqp", listener.amqp.listen, settings.amqp_port, None)
        if self._certificates is not None and settings.amqps_port is not None:
            context = self._certificates.add_listener(listener.amqp.renew, asks_clients=True)
            await self._open("amqps", listener.amqp.listen, settings.amqps_port, context)

    async def _open_stomp(self, listener: Listener) -> None:
        settings = self.settings
        if settings.stomp_port is not None:
            await self._open("stomp", listener.stomp.listen, settings.stomp_port, None)
        if self._certificates is not None and settings.stomps_port is not None:
            context = self._certificates.add_listener(listener.stomp.renew, asks_clients=True)
            await self._open("stomps", listener.stomp.listen, settings.stomps_port, context)

    async def _open_http(self, logins: Logins) -> None:
        settings = self.settings
        self._loop_watch = LoopWatch(asyncio.get_running_loop())
        self._http = http = HttpServer(self.broker, logins.login, settings, self._http_routes, self._listeners)
        await http.start()
        if settings.http_port is not None:
            await self._open("http", http.listen, settings.http_port, None)
        if self._certificates is not None and settings.https_port is not None:
            context = self._certificates.add_listener(http.renew, asks_clients=False)
            await self._open("https", http.listen, settings.https_port, context)
        assert self._api is not None
        self._api.stats.start()
        assert self._loop_watch is not None
        self._loop_watch.start()

    def _http_routes(self) -> Sequence[BaseRoute]:
        from leveret.api.context import ApiContext  # imported here because the import is slow: AMQP listens first
        from leveret.api.routes import routes as management_routes
        from leveret.pipeline.routes import routes as pipeline_routes
        from leveret.stats.stats import Stats

        assert self._loop_watch is not None
        context = ApiContext(
            self.broker,
            self.settings,
            self._pipeline.in_worker,
            Stats(self.broker),
            self.endpoints,
            self._pipeline.queries,
            self._listeners,
            self._loop_watch,
        )
        self._api = context
        return [*pipeline_routes(self._pipeline), *management_routes(context)]

    async def _open(self, scheme: str, listen: Listen, port: int, context: ssl.SSLContext | None) -> None:
        settings, now = self.settings, asyncio.get_running_loop().time
        proxies = TrustedProxies(settings.trusted_proxies, now) if scheme in settings.proxy_protocol else None
        port = await listen(settings.host, port, f"--{scheme}-port", context, proxies)
        self.endpoints[scheme] = f"{scheme}://{_authority(settings.host[0], port)}"

    # ---- stop

    async def stop(self) -> None:
        self._readiness.stopping()
        self._readiness.leave()
        self.broker.is_stopping = True
        if self._certificates is not None:
            self._certificates.stop()
        await self._stop_listening(self.settings.shutdown_timeout * (0.8 if self.store is None else 0.4))
        if self._logins is not None:
            self._logins.stop()
        for each in (self._checks, self._loop_watch):
            if each is not None:
                each.stop()
        await self._close_store()
        self.broker.release_waiting()
        if self._ticker is not None:
            self._ticker.stop()
        self.endpoints.clear()

    async def _stop_listening(self, seconds: float) -> None:
        listeners = [each for each in (self._http, self._listener) if each is not None]
        await asyncio.gather(*(each.stop(seconds) for each in listeners))
        await self._pipeline.close(seconds / 4)

    async def _close_store(self) -> None:
        if self.store is None:
            return
        if self._flusher is not None:
            self.broker.background.finish(Settlement)  # unacknowledged messages are back in their queues
            self.broker.note_redelivered()
            self.broker.tick()
            close_streams(self.broker)
            if not await self._flusher.stop(self.settings.shutdown_timeout * 0.4):
                self.store.abandon()  # the store's thread hangs in a disk operation
                return
        await asyncio.get_running_loop().run_in_executor(None, self.store.close)

    # ---- reload

    async def reload(self, load: Callable[[], Settings]) -> None:
        """Apply the settings that may change at runtime, and load the certificates again. Problems are logged."""
        self._readiness.reloading()
        status = "reloaded"
        try:
            wanted = await asyncio.get_running_loop().run_in_executor(None, load)
        except ConfigError as problem:
            get_log("reload").error("settings not reloaded", reason=problem)
            status = f"settings not reloaded: {problem}"
        else:
            before, reload = self.settings, compare(self.settings, wanted)
            self._apply(reload.settings)
            log_reload(reload, before, wanted)
            if self._certificates is not None and not await self._certificates.reload():
                status = "reloaded, but the certificate is the old one: see the log"
        self._readiness.ready(status)

    def _apply(self, settings: Settings) -> None:
        """Apply the settings that are declared ``live``; the others stay as they are."""
        self.settings = settings
        self._pipeline.max_message_size = settings.max_message_size
        if self._api is not None:
            self._api.settings = settings
        if self._logins is not None:
            self._logins.failure_delay = settings.login_failure_delay
            self._logins.handshake_timeout = settings.handshake_timeout
        if self._checks is not None:
            self._checks.handshake_timeout = settings.handshake_timeout
        if self._http is not None:
            self._http.set_head_timeout(settings.handshake_timeout)
        if self._listener is not None:
            self._listener.set_limits(settings.max_message_size, settings.connection_max)
        self.broker.memory.high_watermark = settings.memory_high_watermark.of(usable_memory())
        self.broker.check_memory()

    # ---- for the command line

    @property
    def message_memory(self) -> int:
        return self.broker.gauge.used

    @property
    def url_user(self) -> str:
        """The user in the URLs that are printed at the start; empty if the default user does not exist."""
        first = self._first_login
        name = self.settings.default_user if first is None else first.user
        return name if name in self.broker.users else ""


def _store_of(settings: Settings, clock: Clock) -> Store | None:
    if settings.data_dir is None:
        return None
    synced = settings.durability == "fsync"
    return Store(settings.data_dir, segment_size=settings.segment_size, synced=synced, clock=clock)


def _authority(host: str, port: int) -> str:
    """Host and port for a client on this machine: a wildcard address is replaced by loopback."""
    shown = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # not bound
    return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"
