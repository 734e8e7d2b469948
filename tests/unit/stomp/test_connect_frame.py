"""CONNECT: versions, logins, virtual hosts, heart-beats."""

from __future__ import annotations

import pytest

from leveret.session.handshake import COMPATIBLE_VERSION
from tests.support.peer_pair import Harness
from tests.support.stomp_client import made
from tests.support.stomp_harness import StompPeer


@pytest.mark.parametrize(
    ("accepted", "version"), [("1.0,1.1,1.2", "1.2"), ("1.1,1.0", "1.1"), ("1.0", "1.0"), ("1.2,2.0", "1.2")]
)
def test_the_best_version_that_both_speak_is_chosen(harness: Harness, accepted: str, version: str) -> None:
    peer = StompPeer(harness)
    (answer,) = peer.connect(accepted)
    assert (answer.command, answer["version"]) == ("CONNECTED", version)
    assert list(answer.headers) == ["server", "session", "heart-beat", "version"]
    assert answer["server"] == f"RabbitMQ/{COMPATIBLE_VERSION}"
    assert answer["session"]
    assert peer.connection.protocol == f"STOMP {version}"


def test_who_names_no_version_speaks_1_0(harness: Harness) -> None:
    peer = StompPeer(harness)
    (answer,) = peer.ask("STOMP", login="guest", passcode="secret")
    assert (answer.command, answer["version"]) == ("CONNECTED", "1.0")


def test_a_version_that_nobody_speaks_is_refused(harness: Harness) -> None:
    peer = StompPeer(harness)
    (answer,) = peer.connect("3.0")
    assert (answer.command, answer["message"], answer["version"]) == ("ERROR", "Version mismatch", "1.0,1.1,1.2")
    assert peer.socket.closed


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({"passcode": "wrong"}, b"Access refused for user 'guest'"),
        ({"login": "nobody"}, b"Access refused for user 'nobody'"),
        ({"host": "elsewhere"}, b"Virtual host 'elsewhere' access denied"),
        ({"heart_beat": "soon"}, b"is not two numbers"),
        ({"heart_beat": "1,2,3"}, b"is not two numbers"),
    ],
)
def test_a_login_that_cannot_be_is_refused(harness: Harness, headers: dict[str, object], detail: bytes) -> None:
    peer = StompPeer(harness)
    (answer,) = peer.connect(**headers)
    assert (answer.command, answer["message"]) == ("ERROR", "Bad CONNECT")
    assert detail in answer.body
    assert peer.socket.closed


@pytest.mark.parametrize("host", ["/", "localhost", "127.0.0.1", "::1", "[::1]", ""])
@pytest.mark.feature("S4-71")
def test_an_address_stands_for_the_default_virtual_host(harness: Harness, host: str) -> None:
    """STOMP advises clients to name the host they connected to."""
    peer = StompPeer.open(harness, host=host)
    assert peer.connection.vhost.name == "/"


def test_a_virtual_host_goes_before_an_address(harness: Harness) -> None:
    harness.broker.add_vhost("localhost")
    harness.broker.permissions.set("guest", "localhost", ".*", ".*", ".*")
    assert StompPeer.open(harness, host="localhost").connection.vhost.name == "localhost"


def test_a_login_needs_a_name_and_a_password(harness: Harness) -> None:
    (answer,) = StompPeer(harness).ask("CONNECT", accept_version="1.2", host="/")
    assert b"Missing login or passcode" in answer.body


@pytest.mark.parametrize(
    ("asked", "answered", "beats"),
    [("0,0", "0,0", (0, 0)), ("4000,5000", "5000,4000", (5, 4)), ("1,0", "0,100", (0, 0.1))],
)
@pytest.mark.feature("S3-09", "S3-10")
def test_heart_beats_are_agreed_on(harness: Harness, asked: str, answered: str, beats: tuple[float, float]) -> None:
    """What a peer promises to send is waited for, what it wants to hear is sent."""
    peer = StompPeer(harness)
    (answer,) = peer.connect(heart_beat=asked)
    assert answer["heart-beat"] == answered
    assert peer.socket.beats == beats


def test_what_follows_connect_waits_for_the_login(harness: Harness) -> None:
    decisions: list[object] = []
    harness.login = lambda credentials, done: decisions.append(done)  # type: ignore[method-assign]
    peer = StompPeer(harness)
    connect = made("CONNECT", {"accept-version": "1.2", "login": "guest", "passcode": "secret", "host": "/"})
    peer.feed(connect + made("SEND", {"destination": "/queue/q", "receipt": 1}, b"m"))
    assert peer.heard() == []
    assert "q" not in harness.vhost.queues
    decisions[0](harness.broker.users.get("guest"))  # type: ignore[operator]
    harness.rest()
    assert [frame.command for frame in peer.heard()] == ["CONNECTED", "RECEIPT"]


def test_nothing_is_heard_before_connect(harness: Harness) -> None:
    (answer,) = StompPeer(harness).ask("SUBSCRIBE", destination="/queue/q", id=1)
    assert (answer.command, answer["message"]) == ("ERROR", "Illegal command")


def test_connect_is_said_once(harness: Harness) -> None:
    peer = StompPeer.open(harness)
    (answer,) = peer.connect()
    assert (answer.command, answer["message"]) == ("ERROR", "Illegal command")


def test_in_1_0_blanks_before_values_are_no_part_of_them(harness: Harness) -> None:
    """As the examples of that version are written."""
    peer = StompPeer(harness)
    (answer,) = peer.connect("1.0", login=" guest", passcode=" secret", host=" /", heart_beat=" 0,2000")
    assert (answer.command, answer["version"], answer["heart-beat"]) == ("CONNECTED", "1.0", "2000,0")
    (refused,) = StompPeer(harness).connect("1.1", login=" guest")
    assert refused.body == b"Access refused for user ' guest'\n"


def test_an_error_says_which_versions_there_are(harness: Harness) -> None:
    (refused,) = StompPeer(harness).connect("1.2", passcode="wrong")
    assert (refused["message"], refused["version"]) == ("Bad CONNECT", "1.0,1.1,1.2")


def test_connected_is_said_before_the_first_heart_beat(harness: Harness) -> None:
    """A line end in front of CONNECTED is taken for a broken answer by some clients."""
    peer = StompPeer(harness)
    said: list[bytes] = []
    peer.socket.beat = lambda send, hear: said.append(bytes(peer.socket.written))  # type: ignore[method-assign]
    peer.connect(heart_beat="0,200")
    assert [data[:10] for data in said] == [b"CONNECTED\n"]


def test_a_host_that_no_virtual_host_can_have_for_its_name_is_refused(harness: Harness) -> None:
    (answer,) = StompPeer(harness).connect(host="h" * 256)
    assert (answer.command, answer["message"]) == ("ERROR", "Bad CONNECT")
    assert b"host of more than 255 bytes" in answer.body
