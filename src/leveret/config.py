"""Every setting, declared once: config file, environment variables, flags, ``--help`` and docs all come from here."""

# ruff: noqa: RUF009  (setting() makes a dataclass field, as field() does)
from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leveret.bootstrap import Bootstrap
from leveret.errors import ConfigError
from leveret.machine import short_hostname
from leveret.setting_kinds import (
    DISK_FREE_LIMIT,
    ENGINE_URLS,
    FILE,
    FOLDER,
    HOSTS,
    HTTP_URLS,
    ISSUER,
    MEMORY_WATERMARK,
    NAMES,
    NETWORKS,
    PATH_PREFIX,
    PORT,
    SECRET_TEXT,
    SOME_LISTENERS,
    SWITCH,
    TEXT,
    DiskFreeLimit,
    Kind,
    MemoryWatermark,
    choice,
    limit,
    seconds,
    size,
    whole,
)

LARGEST_MESSAGE = 512 << 20
MOST_CELLS = 256


@dataclass(slots=True, frozen=True)
class Setting:
    """One declaration. ``flag`` is None for secrets: the arguments of a process are visible to other users."""

    name: str
    kind: Kind
    section: str
    env: str
    flag: str | None
    help: str
    live: bool
    secret: bool
    old_name: str | None = None
    """A name from earlier versions, still accepted wherever ``name`` is, with a notice."""
    optional: bool = False
    """Whether the value may be None."""

    def checked(self, value: Any) -> Any:
        """The value as code passes it: text is parsed as in a config file."""
        if (value is None and self.optional) or isinstance(value, MemoryWatermark | DiskFreeLimit):
            return value
        plain = str(value) if isinstance(value, Path) else list(value) if isinstance(value, set | frozenset) else value
        try:
            return self.kind.parse(plain)
        except (ValueError, OverflowError):
            shown = "***" if self.secret else repr(value)
            accepts = self.kind.accepts + (", or None" if self.optional else "")
            raise ConfigError(f"{self.name} = {shown} cannot be used; accepted: {accepts}") from None


def env_of(name: str) -> str:
    return f"LEVERET_{name.upper()}"


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def setting(
    default: Any, kind: Kind, help: str, *, section: str, live: bool = False, secret: bool = False, old_name: str = ""
) -> Any:
    """A dataclass field that carries its declaration. Environment variable and flag follow from the field's name."""
    declared = {
        "kind": kind, "section": section, "help": help, "live": live, "secret": secret, "old_name": old_name or None,
    }  # fmt: skip
    if callable(default):
        return field(default_factory=default, metadata=declared, repr=not secret)
    return field(default=default, metadata=declared, repr=not secret)


node, store, listeners, logs, limits, logins, clustering = (
    functools.partial(setting, section=name)
    for name in ("node", "store", "listeners", "logs", "limits", "logins", "cluster")
)


def _check_values(settings_class: type[Settings]) -> type[Settings]:
    """Check the values that code passes, and note their names in ``given``. ``Settings(memory_mark=...)`` sets
    ``memory_high_watermark``, with a DeprecationWarning."""
    generated = settings_class.__init__
    by_name = {item.name: item for item in fields(settings_class)}
    renamed = {item.metadata["old_name"]: item for item in by_name.values() if item.metadata.get("old_name")}

    @functools.wraps(generated)
    def init(self: Settings, *args: Any, **values: Any) -> None:
        values |= zip(by_name, args, strict=False)
        for old_name in renamed.keys() & values.keys():
            name, default, value = renamed[old_name].name, renamed[old_name].default, values.pop(old_name)
            # dataclasses.replace() passes all current values: a default value does not conflict with the old name
            if values.get(name, default) not in (default, value):
                raise ConfigError(f"{name} and its old name {old_name} have different values: give {name} only")
            warnings.warn(f"the setting {old_name} is now {name}", DeprecationWarning, stacklevel=2)
            values[name] = value
        given = values.pop("given", None)
        checked = {name: BY_NAME[name].checked(each) if name in BY_NAME else each for name, each in values.items()}
        if given is not None:  # from dataclasses.replace(), which passes the values of all settings
            checked["given"] = given | {name for name, each in checked.items() if each != _default_of(by_name[name])}
        else:
            checked["given"] = frozenset(values)
        generated(self, **checked)

    settings_class.__init__ = init  # type: ignore[method-assign]
    return settings_class


def _default_of(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


@_check_values
@dataclass(slots=True, frozen=True)
class Settings:
    """The effective settings, passed to constructors. ``Settings()`` is all defaults, with nothing on disk."""

    data_dir: Path | None = node(None, FOLDER, "directory for messages and definitions")
    node_name: str = node(lambda: f"leveret@{short_hostname()}", TEXT, "name of this node")
    durability: str = store(
        "fsync",
        choice("fsync", "os"),
        "when a message is confirmed: fsync, once it survives a power failure; os, once it survives a crash of "
        "the broker",
    )
    segment_size: int = store(64 << 20, size(64 << 10, 1 << 30), "size of one journal file")
    queue_memory: int = store(
        64 << 20,
        size(64 << 10, 1 << 40),
        "bytes of messages that each queue keeps in memory; the rest of its backlog is on disk only",
    )
    disk_free_limit: DiskFreeLimit = store(
        DiskFreeLimit(), DISK_FREE_LIMIT, "publishers are blocked while less disk space is free", old_name="disk_mark"
    )
    busy_wait: str = node(
        "auto",
        choice("auto", "off"),
        "poll for up to 0.1 ms before sleeping while most waits are that short; auto: with two usable cores or more, "
        "and fewer cells than cores",
    )
    shutdown_timeout: float = node(10.0, seconds(0.5, 3600), "time limit for a shutdown", live=True)

    host: tuple[str, ...] = listeners(("127.0.0.1",), HOSTS, "addresses to listen on")
    amqp_port: int | None = listeners(5672, PORT, "port for AMQP 0-9-1")
    amqps_port: int | None = listeners(5671, PORT, "port for AMQP over TLS, used if tls_cert is set")
    http_port: int | None = listeners(15672, PORT, "port for HTTP: management UI, HTTP API, Spark")
    https_port: int | None = listeners(15671, PORT, "port for HTTP over TLS, used if tls_cert is set")
    http_streams: str = listeners(
        "on", choice("on", "off"), "accept AMQP and STOMP on the HTTP ports too, over WebSocket and HTTP tunnels"
    )
    http_path_prefix: str = listeners(
        "",
        PATH_PREFIX,
        "path of the HTTP ports behind a proxy that passes it on, such as /leveret; paths without it work too",
    )
    behind_proxy: bool = listeners(False, SWITCH, "HTTP requests come through a proxy, so none of them counts as local")
    proxy_protocol: frozenset[str] = listeners(
        frozenset(), SOME_LISTENERS, "listeners that accept the PROXY protocol (v1 or v2) from trusted_proxies"
    )
    trusted_proxies: tuple[str, ...] = listeners(
        (), NETWORKS, "addresses of proxies whose PROXY header gives the client's address"
    )
    stomp_port: int | None = listeners(None, PORT, "port for STOMP 1.0 to 1.2, usually 61613; off by default")
    stomps_port: int | None = listeners(
        None, PORT, "port for STOMP over TLS, usually 61614; off by default, needs tls_cert"
    )
    tls_cert: Path | None = listeners(None, FILE, "certificate chain of the server (PEM)")
    tls_key: Path | None = listeners(None, FILE, "private key of the certificate (PEM), if it is not in tls_cert")
    tls_ca: Path | None = listeners(None, FILE, "CA certificates (PEM) that client certificates are verified with")
    tls_crl: Path | None = listeners(None, FILE, "certificate revocation lists (PEM), one per CA; needs tls_ca")
    hsts_max_age: int = listeners(
        0,
        whole(0, 63_072_000),
        "seconds for which browsers use TLS on every port of this host (HSTS); 0 sends no HSTS header",
    )

    log_format: str = logs("human", choice("human", "json"), "format of log lines")
    log_level: str = logs("info", choice("debug", "info", "warning", "error"), "lowest level to log", live=True)

    frame_max: int = limits(131072, size(4096, 64 << 20), "largest frame size to negotiate with clients")
    channel_max: int = limits(2047, whole(1, 65535), "channels per connection")
    heartbeat: int = limits(60, whole(0, 65535), "heartbeat timeout in seconds to negotiate with clients; 0 disables")
    handshake_timeout: float = limits(10.0, seconds(0.1, 3600), "time limit for a client to log in", live=True)
    max_message_size: int = limits(
        16 << 20, size(1, LARGEST_MESSAGE), "largest message accepted", live=True, old_name="max_message_bytes"
    )
    connection_max: int | None = limits(
        None, limit(), "connections to this node", live=True, old_name="max_connections"
    )
    memory_high_watermark: MemoryWatermark = limits(
        MemoryWatermark(percent=40.0),
        MEMORY_WATERMARK,
        "publishers are blocked while more memory is in use",
        live=True,
        old_name="memory_mark",
    )
    max_routing_steps: int = limits(
        250_000,
        whole(10_000, 1_000_000_000),
        "routing steps per message, each about 40 ns; a publish that needs more is refused with 406",
    )
    max_exchange_bindings: int = limits(
        200_000, whole(1, 1_000_000_000), "bindings per exchange; more are refused with 406"
    )
    max_vhost_bindings: int = limits(
        1_000_000, whole(1, 1_000_000_000), "bindings per virtual host; more are refused with 406"
    )
    write_high_watermark: int = limits(
        1 << 20,
        size(4096, 1 << 30),
        "deliveries to a connection pause while it has more unsent bytes",
        old_name="write_high_mark",
    )

    login_failure_delay: float = logins(
        3.0,
        seconds(0, 60),
        "delay of the reply to a failed login, from the fifth failure per minute and address on",
        live=True,
    )
    default_vhost: str = logins("/", TEXT, "virtual host created at the first start")
    default_user: str = logins("guest", TEXT, "administrator created at the first start")
    default_password: str = logins("guest", SECRET_TEXT, "password of that user", secret=True)
    metrics_auth: str = logins(
        "on",
        choice("on", "off"),
        "whether /metrics needs a login from other hosts; with off, names and numbers of queues are open to them",
    )
    loopback_users: frozenset[str] = logins(frozenset({"guest"}), NAMES, "users that may log in from this machine only")
    oidc_issuer: str | None = logins(
        None, ISSUER, "issuer URL of the OpenID Connect provider for single sign-on; needs oidc_client_id"
    )
    oidc_client_id: str | None = logins(None, TEXT, "client ID of the broker at the OpenID Connect provider")
    oidc_client_secret: str | None = logins(
        None, SECRET_TEXT, "client secret at the OpenID Connect provider; none for a public client", secret=True
    )
    oidc_provider_name: str = logins(
        "single sign-on", TEXT, "name of the OpenID Connect provider on the login page: 'Sign in with ...'"
    )
    oidc_user_claim: str = logins("preferred_username", TEXT, "claim of the ID token that has the name of the user")
    oidc_scopes: frozenset[str] = logins(
        frozenset({"profile"}), NAMES, "scopes to request from the OpenID Connect provider, besides openid"
    )
    oidc_tls_ca: Path | None = logins(
        None,
        FILE,
        "CA certificates (PEM) that the OpenID Connect provider is verified with; by default those of the system",
    )

    cells: int = clustering(
        1,
        whole(1, MOST_CELLS),
        "number of cells, each a process with its own journal, that share the ports and definitions; Linux only",
    )
    queue_leader_locator: str = clustering(
        "auto",
        choice("auto", "balanced", "client-local"),
        "with several cells, the cell of new queues: the one with the fewest (balanced), or that of the client; "
        "auto is balanced on one machine and client-local with replicated cells",
    )
    connections_follow_queues: str = clustering(
        "on",
        choice("on", "off"),
        "with several cells, pass a connection to the cell of the queue that it uses first",
    )
    cluster: tuple[str, ...] = clustering(
        (),
        ENGINE_URLS,
        "URLs of the three NATS JetStream servers that replicate the journal; none for a single node",
    )
    cell: str = clustering(
        "main",
        TEXT,
        "name of the cell, the same for all its nodes; with several cells, the only one that this node is in",
    )
    cluster_host: tuple[str, ...] = clustering(
        ("127.0.0.1",), HOSTS, "addresses to listen on for the other nodes of the cell"
    )
    cluster_port: int = clustering(
        25672, whole(0, 65535), "port for the other nodes of the cell; with several, the first one"
    )
    advertised_host: str | None = clustering(
        None, TEXT, "host name at which clients and other nodes reach this node; by default that of the machine"
    )
    cluster_log_size: int = clustering(
        4 << 30, size(64 << 20, 1 << 50), "size of the replicated log; a node that is further behind copies a snapshot"
    )
    cluster_monitoring: tuple[str, ...] = clustering(
        (), HTTP_URLS, "monitoring URLs of the NATS servers; by default port 8222 of each"
    )
    allow_unsafe_engine: bool = clustering(
        False,
        SWITCH,
        "for development: accept fewer than three NATS servers, or servers that can lose acknowledged data",
    )
    cluster_user: str | None = clustering(None, TEXT, "user name for the NATS servers")
    cluster_password: str | None = clustering(None, SECRET_TEXT, "password for the NATS servers", secret=True)
    cluster_credentials: Path | None = clustering(None, FILE, "credentials file for the NATS servers (.creds)")
    cluster_tls_ca: Path | None = clustering(
        None, FILE, "CA certificates (PEM) that the NATS servers are verified with"
    )
    cluster_tls_cert: Path | None = clustering(None, FILE, "client certificate for the NATS servers (PEM)")
    cluster_tls_key: Path | None = clustering(None, FILE, "private key of cluster_tls_cert (PEM)")

    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    given: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """The names of the settings that were passed, even if with their default values."""

    if not TYPE_CHECKING:  # type checkers should report unknown names, and old ones

        def __getattr__(self, name: str) -> object:
            declared = next((item for item in DECLARED if item.old_name == name), None)
            if declared is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warnings.warn(f"the setting {name} is now {declared.name}", DeprecationWarning, stacklevel=2)
            return getattr(self, declared.name)


def _declared() -> Iterator[Setting]:
    for item in fields(Settings):
        if item.metadata:
            flag = None if item.metadata["secret"] else flag_of(item.name)
            optional = "None" in str(item.type)
            yield Setting(name=item.name, env=env_of(item.name), flag=flag, optional=optional, **item.metadata)


DECLARED: tuple[Setting, ...] = tuple(_declared())
SECTIONS = frozenset(declared.section for declared in DECLARED)
BY_NAME: Mapping[str, Setting] = {name: item for item in DECLARED for name in (item.name, item.old_name) if name}
