"""Taking a port: what every listener says when it cannot have the one it was told to take."""

from __future__ import annotations

import errno
import socket

from leveret.errors import ConfigError


def reuse_address() -> bool | None:
    return True if hasattr(socket, "SO_REUSEADDR") and not hasattr(socket, "SO_EXCLUSIVEADDRUSE") else None


def unusable(host: str, port: int, flag: str, problem: OSError) -> ConfigError:
    if problem.errno == errno.EADDRINUSE:
        return ConfigError(f"port {port} on {host} is taken: choose another with {flag}, 0 picks a free one")
    if problem.errno in (errno.EACCES, errno.EPERM):
        return ConfigError(f"port {port} on {host} is not allowed for this user: choose one above 1023 with {flag}")
    return ConfigError(f"cannot listen on {host} port {port}: {problem}; check --host and {flag}")
