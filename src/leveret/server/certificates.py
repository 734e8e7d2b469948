"""TLS for listeners: the server certificate, the client certificates that may log in, and reloads of the files.

Files are reloaded while the broker runs: on a reload of the settings, or when they change.
New files are loaded into new contexts, one per listener, before any of them is used; then the listeners use them for
new connections. A context that is in use never changes, so no handshake uses half of a change, and authorities and
session tickets of earlier contexts are not carried over. If the files are invalid, nothing changes; they are loaded
again when they change, for example when a renewal has written the second of its two files.

TLS 1.2 is offered with forward secrecy and authenticated encryption only: Python's defaults include CBC suites. TLS 1.3
has only such suites. With a file of revocation lists, every authority in the chain of a client certificate must have a
current list in it, as with nginx and HAProxy: without one, or with one that has expired, the certificate is refused.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from leveret.broker.timers import Timer, Timers
from leveret.errors import ConfigError
from leveret.logs import get_log

SUITES = "@SECLEVEL=2:ECDHE+AESGCM:ECDHE+CHACHA20"  # cipher suites for TLS 1.2
T = TypeVar("T")
INTERVAL = 60.0  # seconds between two checks of the files
Renew = Callable[[ssl.SSLContext], Awaitable[None]]
Seen = tuple[tuple[int, int, int] | None, ...]
log = get_log("tls")


class TlsFiles(NamedTuple):
    certificate: Path
    key: Path | None = None
    authorities: Path | None = None  # authorities of client certificates
    revoked: Path | None = None  # revocation lists of these authorities


def server_context(files: TlsFiles, *, asks_clients: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(SUITES)
    _load_certificate(context, files.certificate, files.key)
    if asks_clients and files.authorities is not None:
        _load_authorities(context, files.authorities)
        context.verify_mode = ssl.CERT_OPTIONAL  # clients without a certificate use a password
        if files.revoked is not None:
            _load_revoked(context, files.revoked)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    try:
        context.load_cert_chain(certificate, key, _refuse_to_ask)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(
            f"cannot use the certificate {certificate} with key {key or certificate}: {problem}; "
            "check --tls-cert and --tls-key (both PEM, belonging together, readable)"
        ) from problem


def _load_authorities(context: ssl.SSLContext, authorities: Path) -> None:
    try:
        context.load_verify_locations(authorities)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(f"cannot use the authorities in {authorities}: {problem}; check --tls-ca") from problem


def _load_revoked(context: ssl.SSLContext, revoked: Path) -> None:
    """OpenSSL loads certificates and revocation lists from the same kind of file: a certificate in this one would
    become an authority."""
    before = context.cert_store_stats()
    try:
        context.load_verify_locations(revoked)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(f"cannot use the revocation lists in {revoked}: {problem}; check --tls-crl") from problem
    after = context.cert_store_stats()
    if after["crl"] == before["crl"] or after["x509"] != before["x509"]:
        raise ConfigError(
            f"cannot use the revocation lists in {revoked}: it must hold revocation lists (PEM, X509 CRL) and no "
            "certificates; check --tls-crl"
        )
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN


def _refuse_to_ask() -> str:
    """Without this, OpenSSL would prompt for the password at the terminal and block the broker."""
    raise OSError("the key is encrypted: write it without a password, for instance with `openssl pkey`")


class Certificates:
    """The TLS files of one node. Call ``add_listener`` for each listener, then ``watch``."""

    def __init__(self, files: TlsFiles, timers: Timers) -> None:
        self._files = files
        self._timers = timers
        self._listeners: list[tuple[Renew, bool]] = []
        self._seen: Seen = ()
        self._one_at_a_time = asyncio.Lock()
        self._timer: Timer | None = None
        self._is_due = False
        self._looking: asyncio.Task[None] | None = None

    def add_listener(self, renew: Renew, *, asks_clients: bool) -> ssl.SSLContext:
        """The first context of a listener; later ones are passed to ``renew``. ConfigError names an unusable file.

        ``asks_clients`` requests client certificates, for which browsers prompt their users.
        """
        self._listeners.append((renew, asks_clients))
        return self._contexts()[-1]

    def _contexts(self) -> list[ssl.SSLContext]:
        self._seen = self._look_at_files()  # before the files are read, so that a later change is detected
        return [server_context(self._files, asks_clients=asks) for _, asks in self._listeners]

    def watch(self) -> None:
        self._timer = self._timers.at(self._timers.clock.now() + INTERVAL, self._due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    @property
    def is_looking(self) -> bool:
        """Whether a periodic check of the files is running."""
        return self._looking is not None and not self._looking.done()

    async def reload(self) -> bool:
        """Returns whether new connections use the current files; if not, the reason is logged."""
        async with self._one_at_a_time:
            return await self._reload()

    def _due(self) -> None:
        self.watch()
        self._is_due = True  # also during a check: files that change meanwhile are checked again
        if not self.is_looking:
            self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        while self._is_due:
            self._is_due = False
            async with self._one_at_a_time:
                if await _in_thread(self._look_at_files) != self._seen:
                    await self._reload()

    async def _reload(self) -> bool:
        try:
            contexts = await _in_thread(self._contexts)
            for (renew, _), context in zip(self._listeners, contexts, strict=True):
                await renew(context)
        except (ConfigError, OSError) as problem:
            log.error(
                "certificate cannot be reloaded, the old one stays in use",
                certificate=self._files.certificate,
                reason=problem,
            )
            return False
        log.info("certificate reloaded", certificate=self._files.certificate)
        return True

    def _look_at_files(self) -> Seen:
        return tuple(_look(path) for path in self._files)


def _look(path: Path | None) -> tuple[int, int, int] | None:
    """Attributes that change when a file is written or replaced, also behind a symbolic link."""
    if path is None:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def _in_thread(job: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, job)
