"""Reads the settings from the config file (TOML), environment variables and flags. Later ones win.

The variables are ``LEVERET_...``. The three of RabbitMQ's container image for the first login are accepted too, so that
its Compose files and charts work; ours win over them.

In the file a setting is at the top level or in its section. The process environment is passed in as an argument.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from leveret.bootstrap import Bootstrap, parse_bootstrap
from leveret.config import BY_NAME, DECLARED, SECTIONS, Setting, Settings, env_of, flag_of
from leveret.errors import ConfigError

RABBITMQ_NAMES = {
    "vm_memory_high_watermark": 'memory_high_watermark, such as "40%" or "2GiB"',
    "tcp": "host and amqp_port",
    "ssl": "host and amqps_port",
    "management": "http_port, for TLS https_port",
    "web_stomp": "http_streams",
    "stomp": "stomp_port, for TLS stomps_port",
    "ssl_options": "tls_cert, tls_key, tls_ca and tls_crl",
    "log": "log_level and log_format",
    "default_pass": "default_password",
    "default_permissions": "[[bootstrap.permissions]]",
    "load_definitions": "leveret definitions import",
    "tcp_listen_options": "write_high_watermark",
    "consumer_timeout": "the queue argument x-consumer-timeout, or a policy with consumer-timeout",
}
"""Replacements for unsupported keys of rabbitmq.conf."""


RABBITMQ_VARIABLES = {
    "default_user": "RABBITMQ_DEFAULT_USER",
    "default_password": "RABBITMQ_DEFAULT_PASS",
    "default_vhost": "RABBITMQ_DEFAULT_VHOST",
}


class Found(NamedTuple):
    value: Any
    source: str


@dataclass(slots=True, frozen=True)
class Source:
    """The values of one source by setting name, and the spelling of names in that source."""

    values: Mapping[str, object]
    shown: Callable[[str], str]

    def value_of(self, declared: Setting, notices: list[str]) -> Found | None:
        """The value under the name or the old name; ConfigError if both are given and differ."""
        given = [name for name in (declared.name, declared.old_name) if name is not None and name in self.values]
        if not given:
            return None
        first, *others = [self._parsed(declared, name) for name in given]
        if any(other != first for other in others):
            names = f"{declared.name} and its old name {declared.old_name}"
            raise ConfigError(f"{names} have different values ({self.shown(given[0])}): give {declared.name} only")
        if given[-1] == declared.old_name:
            notices.append(f"the setting {given[-1]} ({self.shown(given[-1])}) is now {declared.name}")
        return Found(first, self.shown(given[0]))

    def _parsed(self, declared: Setting, name: str) -> Any:
        value = self.values[name]
        try:
            return declared.kind.parse(value)
        except (ValueError, OverflowError):
            shown = "***" if declared.secret else repr(value)
            source = "argument" if declared.flag is None and self.shown is flag_of else self.shown(name)
            raise ConfigError(
                f"{name} = {shown} (from {source}) cannot be used; accepted: {declared.kind.accepts}"
            ) from None


@dataclass(slots=True, frozen=True)
class Loaded:
    """Settings, the source of each value by name, and notices about old names that were used."""

    settings: Settings
    sources: Mapping[str, str]
    notices: tuple[str, ...] = ()


def load_settings(config_file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """The effective settings. ``flags`` are by setting name; None means that the flag was not given."""
    return load_with_sources(config_file, environ, flags).settings


def load_with_sources(config_file: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Loaded:
    if config_file is None and environ.get("LEVERET_CONFIG"):
        config_file = Path(environ["LEVERET_CONFIG"])
    in_file, bootstrap = _read_file(config_file) if config_file else ({}, Bootstrap())
    given = (  # the first wins; an empty variable counts as unset
        Source({name: value for name, value in flags.items() if value is not None}, flag_of),
        Source(_set_variables(environ, {name: env_of(name) for name in BY_NAME}), env_of),
        Source(_set_variables(environ, RABBITMQ_VARIABLES), RABBITMQ_VARIABLES.__getitem__),
        Source(in_file, lambda name: str(config_file)),
    )
    values: dict[str, Any] = {"data_dir": default_data_dir(environ), "bootstrap": bootstrap}
    sources = {declared.name: "default" for declared in DECLARED}
    notices: list[str] = []
    for declared in DECLARED:
        for source in given:
            found = source.value_of(declared, notices)
            if found is not None:
                values[declared.name], sources[declared.name] = _home_expanded(found.value, environ), found.source
                break
    settings = Settings(**values)
    _refuse_contradictions(settings)
    return Loaded(settings, sources, tuple(notices))


def _set_variables(environ: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[variable] for name, variable in variables.items() if environ.get(variable)}


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """The user's data directory (XDG or Windows), or a folder in the working directory if no home is set."""
    if environ.get("XDG_DATA_HOME"):
        return Path(environ["XDG_DATA_HOME"]) / "leveret"
    if environ.get("LOCALAPPDATA"):
        return Path(environ["LOCALAPPDATA"]) / "leveret"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".local/share/leveret"
    return Path("leveret-data")


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
        raise ConfigError(f"config file {path} is not TOML: {problem}{_hint(path)}") from None
    bootstrap = parse_bootstrap(document.pop("bootstrap", {}), str(path))
    found: dict[str, object] = {}
    for name, value, section in _entries(document):
        declared = BY_NAME.get(name)
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
    if name in RABBITMQ_NAMES:
        known_as = RABBITMQ_NAMES[name]
        return f"unknown setting {name!r} in {place}: that is RabbitMQ's name, here it is {known_as}{_hint(path)}"
    known = [item.name for item in DECLARED] + sorted(SECTIONS) + ["bootstrap"]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"unknown setting {name!r} in {place}: the nearest known name is {near[0]!r}{_hint(path)}"


def _hint(path: Path) -> str:
    return "; to translate rabbitmq.conf, run 'leveret config import'" if path.suffix == ".conf" else ""


NEEDED_TOO = (
    *(("tls_key", "tls_cert"), ("tls_ca", "tls_cert"), ("tls_crl", "tls_ca")),
    ("cluster_tls_key", "cluster_tls_cert"),
    *(("oidc_issuer", "oidc_client_id"), ("oidc_client_id", "oidc_issuer"), ("oidc_tls_ca", "oidc_issuer")),
)


def _refuse_contradictions(settings: Settings) -> None:
    for name, needed in NEEDED_TOO:
        if getattr(settings, name) is not None and getattr(settings, needed) is None:
            given = f"{name} = {str(getattr(settings, name))!r}"
            raise ConfigError(f"{given} needs {needed} too: give {flag_of(needed)} or {env_of(needed)}")
    if settings.cluster_user is not None and settings.cluster_password is None:
        raise ConfigError(
            f"cluster_user = {settings.cluster_user!r} needs cluster_password too: set it in the config file, or set "
            "LEVERET_CLUSTER_PASSWORD"
        )
    if settings.cluster_user is not None and settings.cluster_credentials is not None:
        raise ConfigError("cluster_user and cluster_credentials are both set: remove one of them")
    if settings.oidc_client_secret is not None and settings.oidc_issuer is None:
        raise ConfigError("oidc_client_secret needs oidc_issuer too: give --oidc-issuer or LEVERET_OIDC_ISSUER")
    if settings.proxy_protocol and not settings.trusted_proxies:
        listeners = ", ".join(sorted(settings.proxy_protocol))
        raise ConfigError(f"proxy_protocol = {listeners} needs trusted_proxies too: give --trusted-proxies")
    if settings.stomps_port is not None and settings.tls_cert is None:
        raise ConfigError(f"stomps_port = {settings.stomps_port} needs tls_cert too: give --tls-cert")
