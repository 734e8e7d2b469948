"""What a node of a cell takes from the settings: the engine, the host that others know it by, the ports of clients."""

from __future__ import annotations

from leveret.cluster.engine import EngineOptions
from leveret.cluster.engine_login import EngineLogin
from leveret.config import Settings
from leveret.machine import short_hostname

SCHEMES = ("amqp", "stomp", "http")


def engine_options(settings: Settings) -> EngineOptions:
    login = EngineLogin(
        settings.cluster_user,
        settings.cluster_password,
        settings.cluster_credentials,
        settings.cluster_tls_ca,
        settings.cluster_tls_cert,
        settings.cluster_tls_key,
    )
    return EngineOptions(settings.cluster, settings.cluster_monitoring, settings.allow_unsafe_engine, login)


def advertised_host(settings: Settings) -> str:
    """Loopback if the node listens there only: then the others are on the same machine."""
    if settings.advertised_host is not None:
        return settings.advertised_host
    only = settings.cluster_host[0]
    return short_hostname() if only in ("", "0.0.0.0", "::") else only  # noqa: S104  # not bound


def client_ports(settings: Settings) -> dict[str, int]:
    """By scheme."""
    has_tls = settings.tls_cert is not None
    schemes = [*SCHEMES, *(f"{scheme}s" for scheme in SCHEMES if has_tls)]
    ports = {scheme: getattr(settings, f"{scheme}_port") for scheme in schemes}
    return {scheme: port for scheme, port in ports.items() if port is not None}
