"""The composition root: builds the application from its parts, top to bottom, and stops it in reverse order.

Length: reading this file is reading the architecture.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from leveret.api.recent_log import RecentLog
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
from leveret.http.server import HttpServer, has_http, refuse_missing_packages
from leveret.http.stream_listeners import AMQP, STOMP, StreamListeners
from leveret.logs import get_log
from leveret.machine import resident_memory, usable_cores, usable_memory
from leveret.pipeline.context import PipelineContext
from leveret.routing.bounds import Bounds
from leveret.server.acceptor import Acceptor
from leveret.server.admission import Admission
from leveret.server.amqp_protocol import AmqpProtocol
from leveret.server.busy_wait import BusyWait
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
from leveret.server.ports import Ports
from leveret.server.proxy_header import TrustedProxies
from leveret.server.readiness import Readiness
from leveret.server.settings_reload import reloaded
from leveret.server.startup_probes import StartupProbes
from leveret.server.stomp_protocol import StompProtocol
from leveret.server.ticker import Ticker
from leveret.session.limits import Limits
from leveret.session.settlement import Settlement
from leveret.sharding.sharding import Sharding
from leveret.store.memory_log import MemoryLog
from leveret.store.store import Store

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from leveret.api.cluster_view import ClusterView
    from leveret.api.context import ApiContext
    from leveret.api.saved_state import SavedState
    from leveret.http.app import HttpApp

NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


class ApiOwner(Protocol):
    def api_made(self, app: HttpApp, context: ApiContext) -> None:
        """The HTTP API is there, even if it has no port."""


class Node:
    """One running broker: ``await start()``, ``await stop()``. ``endpoints`` are the URLs of its listeners. In a cell,
    ``adopters`` accept, by scheme, the clients that are connected to other nodes, and ``cluster`` is for the HTTP API.

    A process that runs only the broker passes its environment, to notify a service manager, and a function that shows
    the password of the first administrator.
    """

    recovered: Mapping[str, object] = MappingProxyType({})  # from the data directory: messages, queues, state
    _startup_probes: StartupProbes | None = None  # until the HTTP port is open
    _first_login: FirstLogin | None = None
    _api: ApiContext | None = None
    _loop_watch: LoopWatch | None = None

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        *,
        environ: Mapping[str, str] = NO_ENVIRONMENT,
        show_first_login: ShowFirstLogin | None = None,
        readiness: Readiness | None = None,
        before_listening: Callable[[str], Awaitable[None]] | None = None,
        cluster: ClusterView | None = None,
        shares_ports: bool = False,
        is_first_cell: bool = True,
    ) -> None:
        """``before_listening`` is called with the scheme of each port before it is opened. ``shares_ports``: with other
        processes, for AMQP and STOMP. Another cell than the first has no default definitions."""
        refuse_missing_packages(settings)
        self.settings = settings
        self.endpoints: dict[str, str] = {}
        self._readiness, self._show_first_login = readiness or Readiness(environ), show_first_login
        self.adopters: dict[str, Acceptor] = {}
        self._before_listening, self._cluster = before_listening, cluster
        self._shares_ports, self._is_first_cell = shares_ports, is_first_cell
        clock = clock or Clock()
        self.store = _store_of(settings, clock)
        baseline = None if environ is NO_ENVIRONMENT else resident_memory()
        self.broker = _broker_of(settings, clock, self.store, baseline)
        self.sharding = Sharding(self.broker)
        self._flusher: Flusher | None = None
        self._ticker: Ticker | None = None
        self._logins: Logins | None = None
        self._checks: PeriodicChecks | None = None
        self._listener: Listener | None = None
        self._http: HttpServer | None = None
        self._listeners = StreamListeners(Admission(self.broker.memory.high_watermark))
        self._certificates: Certificates | None = None
        self._recent_log = RecentLog()  # for the HTTP API
        self._saved: list[SavedState] = []
        self.cell: ApiOwner | None = None  # if this node is one of several cells
        self.pipeline = PipelineContext(self.broker, settings.max_message_size)
        self.broker.memory_users.watch("uploads", lambda: self.pipeline.held)

    # ---- start

    async def start(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            if self._has_http:
                self._recent_log.start()
            polls = self.settings.busy_wait == "auto" and usable_cores() >= 2  # a client needs the other one
            self._ticker = Ticker(loop, self.broker, BusyWait(loop) if polls else None)
            await self._start_probes()
            is_new = self.store is None or await self._open_store(self.store, self._ticker)
            self.pipeline.commits.outboxes.restore()
            self.sharding.start()
            self.pipeline.commits.start()
            if self._is_first_cell:
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

    async def _start_probes(self) -> None:
        """A member of a cell has had its HTTP port since before it led; a free port is not known to anyone yet."""
        settings = self.settings
        if settings.http_port and self.store is not None and not settings.cluster:
            self._startup_probes = StartupProbes(self._listeners.admission, settings.handshake_timeout)
            await self._startup_probes.start(settings.host, settings.http_port)

    async def _stop_probes(self) -> None:
        if self._startup_probes is not None:
            await self._startup_probes.stop()
            self._startup_probes = None

    async def _open_store(self, store: Store, ticker: Ticker) -> bool:
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
        self._flusher = Flusher(loop, broker, ticker, store, settings.disk_free_limit.of)
        self._flusher.start()
        store.journal.seal()
        seen = loop.create_future()
        load_seen(broker, lambda: seen.set_result(None))
        await seen
        loaded = loop.create_future()
        load_streams(broker, lambda: loaded.set_result(None))
        await loaded
        if not opened.is_new:
            found: dict[str, object] = {"messages": messages, "queues": len(opened.definitions.queues)}
            if opened.recovered.checkpoint is not None:
                found["checkpoint"] = opened.recovered.checkpoint
            state = "clean" if opened.recovered.clean else "after a crash"
            log.info("recovered", state=state, seconds=round(loop.time() - begun, 2), **found)
            self.recovered = {"messages": messages, "queues": found["queues"], "state": state}
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
        self._listener.amqp.are_shared = self._listener.stomp.are_shared = self._shares_ports
        if settings.http_streams == "on":
            self._register_streams(self._listener)
        if settings.tls_cert is not None:
            files = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_ca, settings.tls_crl)
            self._certificates = Certificates(files, broker.timers)
        await self._open_amqp(self._listener)
        await self._open_stomp(self._listener)
        if self._has_http:
            await self._open_http(self._logins)
        if self._certificates is not None:
            self._certificates.watch()

    @property
    def _has_http(self) -> bool:
        return has_http(self.settings) or self._shares_ports

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
            await self._open("amqp", listener.amqp, settings.amqp_port, None)
        if self._certificates is not None and settings.amqps_port is not None:
            context = self._certificates.add_listener(listener.amqp.renew, asks_clients=True)
            await self._open("amqps", listener.amqp, settings.amqps_port, context)

    async def _open_stomp(self, listener: Listener) -> None:
        settings = self.settings
        if settings.stomp_port is not None:
            await self._open("stomp", listener.stomp, settings.stomp_port, None)
        if self._certificates is not None and settings.stomps_port is not None:
            context = self._certificates.add_listener(listener.stomp.renew, asks_clients=True)
            await self._open("stomps", listener.stomp, settings.stomps_port, context)

    async def _open_http(self, logins: Logins) -> None:
        settings = self.settings
        self._loop_watch = LoopWatch(asyncio.get_running_loop())
        self._http = http = HttpServer(self.broker, logins.login, settings, self._http_routes, self._listeners)
        await http.start()
        assert self._api is not None
        await self._start_stats(self._api, http)
        if self.cell is not None:
            assert http.app is not None
            self.cell.api_made(http.app, self._api)
        if settings.http_port is not None:
            await self._open("http", http, settings.http_port, None)
        if self._certificates is not None and settings.https_port is not None:
            context = self._certificates.add_listener(http.renew, asks_clients=False)
            await self._open("https", http, settings.https_port, context)
        self._loop_watch.start()

    async def _start_stats(self, api: ApiContext, http: HttpServer) -> None:
        """Sessions, history and failed queries of the previous run are there before the first request."""
        from leveret.api.saved_state import saved_history, saved_queries, saved_sessions

        await api.measures.read()
        api.stats.start()
        if self.settings.data_dir is None:
            return
        assert http.app is not None
        common = self.broker, self.pipeline.in_worker, self.settings.data_dir
        self._saved = [
            saved_sessions(*common, http.app.sessions),
            saved_history(*common, api.stats),
            saved_queries(*common, self.pipeline.queries),
        ]
        for state in self._saved:
            await state.load()
            state.start()

    def _http_routes(self) -> Sequence[BaseRoute]:
        from leveret.api.context import ApiContext  # see import_http
        from leveret.api.node_measures import Measures
        from leveret.api.routes import routes as management_routes
        from leveret.pipeline.routes import routes as pipeline_routes
        from leveret.stats.stats import Stats

        assert self._loop_watch is not None
        measures = Measures(self.broker, self.settings, self.pipeline.in_worker, self._loop_watch, self.store)
        context = ApiContext(
            self.broker,
            self.settings,
            self.pipeline.in_worker,
            Stats(self.broker, measures=measures),
            self.endpoints,
            self.pipeline.queries,
            self._listeners,
            self._loop_watch,
            measures,
            self._recent_log,
            self.store,
            self._cluster,
        )
        self._api = context
        return [*pipeline_routes(self.pipeline), *management_routes(context)]

    @property
    def listener(self) -> Listener | None:
        """None unless this node listens for clients."""
        return None if self.broker.is_stopping else self._listener

    async def _open(self, scheme: str, ports: Ports | HttpServer, port: int, context: ssl.SSLContext | None) -> None:
        settings, now = self.settings, asyncio.get_running_loop().time
        proxies = TrustedProxies(settings.trusted_proxies, now) if scheme in settings.proxy_protocol else None
        if self._before_listening is not None:
            await self._before_listening(scheme)
        if scheme == "http":
            await self._stop_probes()
        port = await ports.listen(settings.host, port, f"{scheme}_port", context, proxies)
        self.endpoints[scheme] = f"{scheme}://{authority(settings.host[0], port)}"
        if settings.cluster:
            self.adopters[scheme] = ports.adopter(context)

    # ---- stop

    async def stop(self, patience: float | None = None) -> None:
        """``patience``: seconds for clients to close their connections; by default most of ``shutdown_timeout``."""
        self._readiness.stopping()
        self._readiness.leave()
        await self._stop_probes()
        await self.stop_listening(patience)
        if self._logins is not None:
            self._logins.stop()
        for each in (self._checks, self._loop_watch, None if self._api is None else self._api.measures):
            if each is not None:
                each.stop()
        await self._close_store()
        self.broker.release_waiting()
        if self._ticker is not None:
            self._ticker.stop()
        self._recent_log.stop()
        self.endpoints.clear()

    async def stop_listening(self, patience: float | None = None) -> None:
        """Close the connections of clients, and accept no more. May be called before ``stop``."""
        self.broker.is_stopping = True
        if self._certificates is not None:
            self._certificates.stop()
        if patience is None:
            patience = self.settings.shutdown_timeout * (0.8 if self.store is None else 0.4)
        await self._stop_listening(patience)

    async def _stop_listening(self, seconds: float) -> None:
        listeners = [each for each in (self._http, self._listener) if each is not None]
        await asyncio.gather(*(each.stop(seconds * 0.2) for each in self._saved))
        await asyncio.gather(*(each.stop(seconds) for each in listeners))
        await self.pipeline.close(seconds / 4)

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

    async def reload(self, load: Callable[[], Settings]) -> str:
        """Apply the settings that may change at runtime, and load the certificates again. Problems are logged. Returns
        the status for the service manager."""
        self._readiness.reloading()
        status = "reloaded"
        try:
            self.apply(await reloaded(self.settings, load))
        except ConfigError as problem:
            status = f"settings not reloaded: {problem}"
        else:
            if self._certificates is not None and not await self._certificates.reload():
                status = "reloaded, but the certificate is the old one: see the log"
        self._readiness.ready(status)
        return status

    def apply(self, settings: Settings) -> None:
        """Apply the settings that are declared ``live``; the others stay as they are."""
        self.settings = settings
        self.pipeline.max_message_size = settings.max_message_size
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
        if self._ticker is not None and settings.busy_wait == "off":
            self._ticker.stop_polling()
        self.broker.memory.high_watermark = settings.memory_high_watermark.of(usable_memory())
        self.broker.check_memory()

    # ---- for the command line

    @property
    def message_memory(self) -> int:
        return self.broker.gauge.used

    @property
    def cell_facts(self) -> dict[str, str]:
        return {}

    @property
    def url_user(self) -> str:
        """The user in the URLs that are printed at the start; empty if the default user does not exist."""
        first = self._first_login
        name = self.settings.default_user if first is None else first.user
        return name if name in self.broker.users else ""


def import_http() -> None:
    """Import what the HTTP port and the first login need. It takes a quarter of a second, so a start does it after AMQP
    listens, and a standby before it may have to lead."""
    import argon2  # noqa: F401

    import leveret.api.routes
    import leveret.http.app
    import leveret.http.connections
    import leveret.pipeline.routes  # noqa: F401


def _broker_of(settings: Settings, clock: Clock, store: Store | None, baseline: int | None) -> Broker:
    return Broker(
        node_name=settings.node_name,
        clock=clock,
        log=MemoryLog() if store is None else store.journal,
        memory_high_watermark=settings.memory_high_watermark.of(usable_memory()),
        resident=resident_memory,
        baseline=baseline,
        pages=None if store is None else store.pages,
        queue_memory=settings.queue_memory,
        stream_disk=None if store is None else store.disk,
        bounds=Bounds(settings.max_routing_steps, settings.max_exchange_bindings, settings.max_vhost_bindings),
    )


def _store_of(settings: Settings, clock: Clock) -> Store | None:
    if settings.data_dir is None:
        return None
    synced = settings.durability == "fsync"
    return Store(settings.data_dir, segment_size=settings.segment_size, synced=synced, clock=clock)


def authority(host: str, port: int) -> str:
    """Host and port for a client on this machine: a wildcard address is replaced by loopback."""
    shown = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # not bound
    return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"
