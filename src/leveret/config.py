"""Every setting, declared once. File, environment, flags, ``--help`` and ``config show`` all come from here.

Later sources win: defaults, the TOML file, ``LEVERET_...`` variables, flags. In the file a setting stands at the top
or in its section. Nothing here reads the process environment: it comes in as an argument.
"""

# ruff: noqa: RUF009  (setting() makes a dataclass field, as field() does)
from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from leveret.bootstrap import Bootstrap, parse_bootstrap
from leveret.errors import ConfigError
from leveret.machine import short_hostname
from leveret.setting_kinds import (
    DISK_MARK,
    FILE,
    FOLDER,
    HOSTS,
    MEMORY_MARK,
    NAMES,
    NETWORKS,
    PORT,
    SECRET_TEXT,
    SOME_LISTENERS,
    SWITCH,
    TEXT,
    DiskMark,
    Kind,
    MemoryMark,
    choice,
    limit,
    seconds,
    size,
    whole,
)

LARGEST_MESSAGE = 512 << 20


@dataclass(slots=True, frozen=True)
class Setting:
    """One declaration. ``flag`` is None for what must not show in a list of processes."""

    name: str
    kind: Kind
    section: str
    env: str
    flag: str | None
    help: str
    live: bool
    secret: bool


def setting(
    default: Any,
    kind: Kind,
    *,
    section: str,
    help: str,
    env: str | None = None,
    flag: str | None = None,
    live: bool = False,
    secret: bool = False,
) -> Any:
    """A dataclass field that carries its declaration. Environment name and flag follow from the field's name."""
    told = {"kind": kind, "section": section, "help": help, "env": env, "flag": flag, "live": live, "secret": secret}
    if callable(default):
        return field(default_factory=default, metadata=told, repr=not secret)
    return field(default=default, metadata=told, repr=not secret)


@dataclass(slots=True, frozen=True)
class Settings:
    """The effective settings, handed to constructors. ``Settings()`` is all defaults, with nothing on disk."""

    data_dir: Path | None = setting(None, FOLDER, section="node", help="where messages and definitions are kept")
    node_name: str = setting(lambda: f"leveret@{short_hostname()}", TEXT, section="node", help="name of this broker")
    durability: str = setting(
        "fsync",
        choice("fsync", "os"),
        section="store",
        help="what a confirm means: fsync survives a power cut, os only the broker's death",
    )
    segment_size: int = setting(
        64 << 20, size(64 << 10, 1 << 30), section="store", help="size of one file of the journal"
    )
    queue_memory: int = setting(
        64 << 20,
        size(64 << 10, 1 << 40),
        section="store",
        help="bytes of messages that a queue keeps in memory; the rest of a backlog waits on disk",
    )
    disk_mark: DiskMark = setting(
        DiskMark(), DISK_MARK, section="store", help="free disk space below which publishers wait"
    )
    shutdown_timeout: float = setting(
        10.0, seconds(0.5, 3600), section="node", help="time in which a stop must be over", live=True
    )

    host: tuple[str, ...] = setting(("127.0.0.1",), HOSTS, section="listeners", help="addresses to listen on")
    amqp_port: int | None = setting(5672, PORT, section="listeners", help="AMQP 0-9-1")
    amqps_port: int | None = setting(5671, PORT, section="listeners", help="AMQP over TLS, once --tls-cert is given")
    http_port: int | None = setting(15672, PORT, section="listeners", help="HTTP: the page, the API, the pipeline")
    https_port: int | None = setting(15671, PORT, section="listeners", help="HTTP over TLS, once --tls-cert is given")
    http_streams: str = setting(
        "on",
        choice("on", "off"),
        section="listeners",
        help="AMQP and STOMP on the HTTP ports too, over WebSocket and in tunnels",
    )
    behind_proxy: bool = setting(
        False,
        SWITCH,
        section="listeners",
        help="HTTP requests come through a proxy: none of them counts as local",
    )
    proxy_protocol: frozenset[str] = setting(
        frozenset(),
        SOME_LISTENERS,
        section="listeners",
        help="listeners at which the proxies of trusted_proxies connect, with the PROXY protocol v1 or v2",
    )
    trusted_proxies: tuple[str, ...] = setting(
        (), NETWORKS, section="listeners", help="addresses of proxies whose PROXY header gives the client's address"
    )
    stomp_port: int | None = setting(
        None, PORT, section="listeners", help="STOMP 1.0 to 1.2, usually 61613; off unless given"
    )
    stomps_port: int | None = setting(
        None, PORT, section="listeners", help="STOMP over TLS, usually 61614; off unless given, needs --tls-cert"
    )
    tls_cert: Path | None = setting(None, FILE, section="listeners", help="the server's certificate chain (PEM)")
    tls_key: Path | None = setting(None, FILE, section="listeners", help="its private key, if not in the same file")
    tls_ca: Path | None = setting(
        None, FILE, section="listeners", help="authorities whose client certificates may log in"
    )
    tls_crl: Path | None = setting(
        None, FILE, section="listeners", help="revocation lists (PEM), one of each authority in tls_ca; needs --tls-ca"
    )
    hsts_max_age: int = setting(
        0,
        whole(0, 63_072_000),
        section="listeners",
        help="seconds for which browsers use TLS on every port of this host (HSTS), 0 for no such header",
    )

    log_format: str = setting("human", choice("human", "json"), section="logs", help="how log lines look")
    log_level: str = setting(
        "info", choice("debug", "info", "warning", "error"), section="logs", help="the least that is logged", live=True
    )

    frame_max: int = setting(131072, size(4096, 64 << 20), section="limits", help="largest frame offered to clients")
    channel_max: int = setting(2047, whole(1, 65535), section="limits", help="channels per connection")
    heartbeat: int = setting(
        60, whole(0, 65535), section="limits", help="seconds between heartbeats offered, 0 for none"
    )
    handshake_timeout: float = setting(
        10.0, seconds(0.1, 3600), section="limits", help="time in which a peer must have logged in", live=True
    )
    max_message_bytes: int = setting(
        16 << 20, size(1, LARGEST_MESSAGE), section="limits", help="largest message accepted", live=True
    )
    max_connections: int | None = setting(None, limit(), section="limits", help="connections to this node", live=True)
    memory_mark: MemoryMark = setting(
        MemoryMark(percent=40.0), MEMORY_MARK, section="limits", help="memory above which publishers wait", live=True
    )
    max_routing_steps: int = setting(
        250_000,
        whole(10_000, 1_000_000_000),
        section="limits",
        help="routing work allowed for one message, in steps of about 40 ns; above it the publisher gets 406",
    )
    max_exchange_bindings: int = setting(
        200_000, whole(1, 1_000_000_000), section="limits", help="bindings of one exchange; above it bind gets 406"
    )
    max_vhost_bindings: int = setting(
        1_000_000,
        whole(1, 1_000_000_000),
        section="limits",
        help="bindings in one virtual host; above it bind gets 406",
    )
    write_high_mark: int = setting(
        1 << 20, size(4096, 1 << 30), section="limits", help="unsent bytes above which a connection gets no deliveries"
    )

    login_failure_delay: float = setting(
        3.0,
        seconds(0, 60),
        section="logins",
        help="wait before a wrong login is answered, from the fifth in a minute from one address on",
        live=True,
    )
    default_vhost: str = setting("/", TEXT, section="logins", help="virtual host made at the first start")
    default_user: str = setting("guest", TEXT, section="logins", help="user made at the first start")
    default_password: str = setting("guest", SECRET_TEXT, section="logins", help="that user's password", secret=True)
    loopback_users: frozenset[str] = setting(
        frozenset({"guest"}), NAMES, section="logins", help="users who may only come from this machine"
    )

    bootstrap: Bootstrap = field(default_factory=Bootstrap)


def _declared() -> Iterator[Setting]:
    for item in fields(Settings):
        if item.metadata:
            told = dict(item.metadata)
            told["env"] = told["env"] or f"LEVERET_{item.name.upper()}"
            told["flag"] = None if told["secret"] else told["flag"] or "--" + item.name.replace("_", "-")
            yield Setting(name=item.name, **told)


DECLARED: tuple[Setting, ...] = tuple(_declared())
SECTIONS = frozenset(declared.section for declared in DECLARED)


@dataclass(slots=True, frozen=True)
class Loaded:
    """Settings, and for each name where its value came from."""

    settings: Settings
    sources: Mapping[str, str]


def load_settings(config_file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """The effective settings. ``flags`` goes by setting name; None there means that the flag was not given."""
    return load_with_sources(config_file, environ, flags).settings


def load_with_sources(config_file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Loaded:
    if config_file is None and environ.get("LEVERET_CONFIG"):
        config_file = Path(environ["LEVERET_CONFIG"])
    in_file, bootstrap = _read_file(config_file) if config_file else ({}, Bootstrap())
    values: dict[str, Any] = {"data_dir": default_data_dir(environ), "bootstrap": bootstrap}
    sources = {declared.name: "default" for declared in DECLARED}
    for declared in DECLARED:
        given, source = _given(declared, in_file, config_file, environ, flags)
        if source:
            values[declared.name] = _home_expanded(_parsed(declared, given, source), environ)
            sources[declared.name] = source
    settings = Settings(**values)
    _refuse_contradictions(settings)
    return Loaded(settings, sources)


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """The user's own place for data: XDG's, Windows's, or a folder here when the environment names no home."""
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "leveret"
    if environ.get("LOCALAPPDATA"):
        return Path(environ["LOCALAPPDATA"]) / "leveret"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".local/share/leveret"
    return Path("leveret-data")


def _given(
    declared: Setting,
    in_file: Mapping[str, object],
    config_file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
) -> tuple[object, str]:
    """The winning value and its source; no source means the default. An empty variable counts as unset."""
    if flags.get(declared.name) is not None:
        return flags[declared.name], declared.flag or "argument"
    if environ.get(declared.env):
        return environ[declared.env], declared.env
    if declared.name in in_file:
        return in_file[declared.name], str(config_file)
    return None, ""


def _parsed(declared: Setting, given: object, source: str) -> Any:
    try:
        return declared.kind.parse(given)
    except (ValueError, OverflowError):
        shown = "***" if declared.secret else repr(given)
        raise ConfigError(
            f"{declared.name} = {shown} (from {source}) cannot be used; accepted: {declared.kind.accepts}"
        ) from None


def _home_expanded(value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, Path) and value.parts[:1] == ("~",) and environ.get("HOME"):
        return Path(environ["HOME"], *value.parts[1:])
    return value


def _read_file(path: Path) -> tuple[dict[str, object], Bootstrap]:
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as problem:
        raise ConfigError(f"config file {path} cannot be read: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"config file {path} is not TOML: {problem}") from None
    bootstrap = parse_bootstrap(document.pop("bootstrap", {}), str(path))
    found: dict[str, object] = {}
    for name, value, section in _entries(document):
        declared = next((item for item in DECLARED if item.name == name), None)
        if declared is None or section not in ("", declared.section):
            raise ConfigError(_unknown(name, section, path, declared))
        if name in found:
            raise ConfigError(f"{name} is set twice in {path}: at the top and in [{declared.section}]")
        found[name] = value
    return found, bootstrap


def _entries(document: Mapping[str, object]) -> Iterator[tuple[str, object, str]]:
    for name, value in document.items():
        if name in SECTIONS and isinstance(value, dict):
            yield from ((inner, given, name) for inner, given in value.items())
        else:
            yield name, value, ""


def _unknown(name: str, section: str, path: Path, declared: Setting | None) -> str:
    place = f"[{section}] of {path}" if section else str(path)
    if declared is not None:
        return f"unknown setting {name!r} in {place}: it belongs in [{declared.section}]"
    known = [item.name for item in DECLARED] + sorted(SECTIONS) + ["bootstrap"]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"unknown setting {name!r} in {place}: the nearest known name is {near[0]!r}"


def _refuse_contradictions(settings: Settings) -> None:
    for name, needed in (("tls_key", "tls_cert"), ("tls_ca", "tls_cert"), ("tls_crl", "tls_ca")):
        if getattr(settings, name) is not None and getattr(settings, needed) is None:
            flag = "--" + needed.replace("_", "-")
            raise ConfigError(f"{name} = {str(getattr(settings, name))!r} needs {needed} too: give {flag}")
    if settings.proxy_protocol and not settings.trusted_proxies:
        listeners = ", ".join(sorted(settings.proxy_protocol))
        raise ConfigError(f"proxy_protocol = {listeners} needs trusted_proxies too: give --trusted-proxies")
    if settings.stomps_port is not None and settings.tls_cert is None:
        raise ConfigError(f"stomps_port = {settings.stomps_port} needs tls_cert too: give --tls-cert")
