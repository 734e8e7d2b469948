"""CONNECT and CONNECTED: version, login, virtual host and heart-beats.

The header ``host`` names a virtual host. STOMP advises clients to put the host there that they connected to, and some
do: ``localhost`` or an address that is no virtual host means the default one. Any other unknown name is an error.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from ipaddress import ip_address

from leveret.session.handshake import COMPATIBLE_PRODUCT, COMPATIBLE_VERSION
from leveret.stomp.errors import LONGEST_NAME, StompError, is_too_long
from leveret.stomp.frame import SUPPORTED, VERSIONS, Frame
from leveret.stomp.frame_reader import without_blanks

DEFAULT_VHOST = "/"
SHORTEST_BEAT = 100  # ms
LONGEST_BEAT = 86_400_000


@dataclass(slots=True, frozen=True)
class ConnectRequest:
    version: str
    login: str  # empty if the client certificate gives the user
    passcode: str = field(repr=False)
    host: str
    send_every: int  # ms between our heart-beats, 0 for none
    receive_every: int


def connect_request_of(frame: Frame, *, is_certified: bool = False) -> ConnectRequest:
    """A client certificate is sufficient; if ``login`` is sent as well, the passcode is checked."""
    version = _version(frame.get("accept-version"))
    if version == "1.0":
        frame = without_blanks(frame)
    login, passcode = frame.get("login"), frame.get("passcode")
    if login is None and is_certified:
        login = passcode = ""
    if login is None or passcode is None:
        raise StompError("Bad CONNECT", "Missing login or passcode header(s)")
    offered, requested = _beats(frame.get("heart-beat") or "0,0")
    host = frame.get("host") or DEFAULT_VHOST
    if is_too_long(host):
        raise StompError("Bad CONNECT", f"CONNECT has a host of more than {LONGEST_NAME} bytes")
    return ConnectRequest(version, login, passcode, host, _beat(requested), _beat(offered))


def _version(accepted: str | None) -> str:
    if accepted is None:
        return "1.0"
    offered = {each.strip() for each in accepted.split(",")}
    found = next((version for version in VERSIONS if version in offered), None)
    if found is None:
        raise StompError("Version mismatch", f"Supported versions are {SUPPORTED}")
    return found


def _beats(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 12 for part in parts):
        raise StompError("Bad CONNECT", f"heart-beat:{text[:64]} is not two numbers of milliseconds")
    return int(parts[0]), int(parts[1])


def _beat(milliseconds: int) -> int:
    return min(max(milliseconds, SHORTEST_BEAT), LONGEST_BEAT) if milliseconds else 0


def vhost_of(request: ConnectRequest, existing: Container[str]) -> str:
    """The virtual host to open; ``existing`` are the names of all of them."""
    return DEFAULT_VHOST if request.host not in existing and _is_address(request.host) else request.host


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return host == "localhost"
    return True


def connected(request: ConnectRequest, session: str) -> list[tuple[str, str]]:
    """In RabbitMQ's order. The server has the same name as in AMQP, for clients that look for RabbitMQ (decision 3)."""
    return [
        ("server", f"{COMPATIBLE_PRODUCT}/{COMPATIBLE_VERSION}"),
        ("session", session),
        ("heart-beat", f"{request.send_every},{request.receive_every}"),
        ("version", request.version),
    ]
