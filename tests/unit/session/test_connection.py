"""One connection from its first byte to its last, without a socket."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    Method,
    QueueDeclare,
)
from tests.support.peer_pair import Client, Harness

TOLD = {"capabilities": {"authentication_failure_close": True}}


def names(client: Client) -> list[str]:
    return [what.NAME for what in client.heard() if isinstance(what, Method)]


def opening(password: bytes = b"secret", told: dict[str, object] | None = None) -> bytes:
    login = ConnectionStartOk({} if told is None else told, "PLAIN", b"\0guest\0" + password)  # type: ignore[arg-type]
    steps: list[Method] = [login, ConnectionTuneOk(0, 4096, 0), ConnectionOpen("/")]
    return PROTOCOL_HEADER + b"".join(method_frame(0, step) for step in steps)


class SlowLogin:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Credentials, Callable[[User | None], None]]] = []

    def __call__(self, credentials: Credentials, done: Callable[[User | None], None]) -> None:
        self.asked.append((credentials, done))


def test_what_comes_while_the_login_is_checked_waits(harness: Harness) -> None:
    """Eager clients send tune-ok and open without waiting; nothing of it is looked at before the login is granted."""
    client = harness.stranger()
    client.session.login = slow = SlowLogin()
    client.session.receive(opening())
    client.session.receive(method_frame(1, ChannelOpen()))
    harness.turn()
    assert names(client) == ["connection.start"]
    assert not client.socket.reading
    ((credentials, done),) = slow.asked
    assert (credentials.name, credentials.password) == ("guest", "secret")
    done(harness.broker.users.get("guest"))
    harness.rest()
    assert names(client) == ["connection.tune", "connection.open-ok", "channel.open-ok"]
    assert client.socket.reading


def test_a_login_that_is_granted_too_late_harms_nobody(harness: Harness) -> None:
    client = harness.stranger()
    client.session.login = slow = SlowLogin()
    client.feed(opening())
    client.vanish()
    slow.asked[0][1](harness.broker.users.get("guest"))
    harness.turn()
    assert client.session.is_over
    assert len(harness.broker.registry) == 0


@pytest.mark.parametrize(
    ("told", "heard"), [(TOLD, ["connection.start", "connection.close"]), ({}, ["connection.start"])]
)
def test_a_refused_login_is_told_only_to_those_who_ask(
    harness: Harness, told: dict[str, object], heard: list[str]
) -> None:
    client = harness.stranger()
    client.feed(opening(b"wrong", told))
    assert names(client) == heard
    assert client.session.is_over


def test_a_refused_login_names_start_ok_as_its_cause(harness: Harness) -> None:
    client = harness.stranger()
    client.feed(opening(b"wrong", TOLD))
    (close,) = [what for what in client.heard() if isinstance(what, ConnectionClose)]
    assert (close.class_id, close.method_id) == ConnectionStartOk.id


def test_guest_comes_from_this_machine_only(harness: Harness) -> None:
    client = harness.stranger()
    client.socket.host = "192.0.2.1"
    client.feed(opening(told=TOLD))
    code, text = client.error()
    assert (code, text.startswith("ACCESS_REFUSED - Login was refused")) == (403, True), "nor does it say why"


def test_closing_gives_everything_back_and_answers(harness: Harness) -> None:
    client = harness.client()
    client.declare("own", exclusive=True)
    assert client.ask(ConnectionClose(200, "bye"), 0) == ConnectionCloseOk()
    assert client.socket.closed
    assert harness.vhost.queues == {}
    client.session.receive(method_frame(1, QueueDeclare("q")))
    assert harness.vhost.queues == {}


def test_after_our_close_only_the_answer_is_listened_to(harness: Harness) -> None:
    client = harness.client()
    client.session.force_close("maintenance")
    harness.turn()
    assert client.error() == (320, "CONNECTION_FORCED - maintenance")
    assert client.socket.patience == 5.0
    client.send(QueueDeclare("q"))
    client.send(ConnectionClose(200, "we cross"), channel=0)
    assert "q" not in harness.vhost.queues
    client.send(ConnectionCloseOk(), channel=0)
    assert client.socket.closed


def test_a_stranger_is_closed_without_a_word(harness: Harness) -> None:
    stranger = harness.stranger()
    stranger.session.force_close("maintenance")
    assert stranger.socket.closed
    assert stranger.socket.written == b""
    stranger.session.force_close("again")


def test_an_error_on_one_channel_leaves_the_others_alone(harness: Harness) -> None:
    client = harness.client()
    client.open_channel(2)
    client.send(QueueDeclare("missing", passive=True))
    assert client.error() == (404, "NOT_FOUND - no queue 'missing' in vhost '/'")
    client.send(QueueDeclare("ignored"))
    assert client.ask(QueueDeclare("q"), 2).NAME == "queue.declare-ok"
    client.send(ChannelCloseOk())
    client.open_channel(1)
    assert "ignored" not in harness.vhost.queues


def test_a_close_that_crosses_ours_is_answered(harness: Harness) -> None:
    client = harness.client()
    client.send(QueueDeclare("missing", passive=True), ChannelClose(200, "bye"))
    assert names(client) == ["channel.close", "channel.close-ok"]
    client.send(ChannelCloseOk())
    client.open_channel(1)


def test_reading_goes_on_when_the_last_reason_to_pause_is_gone(harness: Harness) -> None:
    client = harness.client()
    session = client.session
    session.pause("one")
    session.pause("two")
    session.resume("one")
    session.resume("never given")
    assert session.is_paused
    assert not client.socket.reading
    session.resume("two")
    assert client.socket.reading


def test_any_new_secret_is_accepted(harness: Harness) -> None:
    client = harness.client()
    for secret in (b"secret", b"another"):
        assert client.ask(ConnectionUpdateSecret(secret, "renewed"), 0).NAME == "connection.update-secret-ok"


def test_limits_on_connections_and_channels_are_kept_and_given_back(harness: Harness) -> None:
    harness.user("ann", max_connections=1, max_channels=1)
    client = harness.client("ann")
    client.send(ChannelOpen(), channel=2)
    assert client.error()[0] == 530
    client.vanish()
    second = harness.client("ann")
    third = harness.stranger()
    with pytest.raises(AssertionError):
        third.log_in("ann")
    second.send(ChannelClose(200, ""))
    second.heard()
    second.open_channel(5)


def test_small_answers_that_nobody_reads_are_bounded_however_they_are_asked_for(harness: Harness) -> None:
    """One question per read: no single chunk brings much, all of them together do."""
    client = harness.client()
    client.socket.unread = 128 << 20
    client.session.outbox.count_unread()  # as after a write
    client.session.outbox.set_writable(False)
    client.send(BasicQos(0, 1))
    assert not client.socket.reading
    client.send(BasicQos(0, 2))
    assert names(client) == ["basic.qos-ok"]
    client.socket.unread = 0
    client.session.outbox.set_writable(True)
    harness.rest()
    assert names(client) == ["basic.qos-ok"]
    assert client.socket.reading


def test_what_deliveries_alone_can_fill_does_not_stop_the_reading(harness: Harness) -> None:
    """Or a client that publishes before it reads on would wait for us, and we for it."""
    client = harness.client()
    client.socket.unread = 8 * harness.limits.write_high_watermark + harness.limits.max_message_size
    client.session.outbox.set_writable(False)
    client.send(BasicQos(0, 1))
    assert client.socket.reading


def test_a_connection_that_closes_is_heard_however_much_is_unread(harness: Harness) -> None:
    client = harness.client()
    client.session.force_close("shutdown")
    client.socket.unread = 128 << 20
    client.send(ConnectionCloseOk(), channel=0)
    assert client.socket.closed
