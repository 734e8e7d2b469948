from __future__ import annotations

import pytest

from leveret.errors import ChannelFault, CommandInvalid, FrameError, UnexpectedFrame
from leveret.wire import methods as m
from leveret.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from leveret.wire.grammar import (
    CLIENT_ACCEPTS,
    SERVER_ACCEPTS,
    ChannelStep,
    Next,
    Role,
    Step,
    after_body,
    after_header,
    channel_step,
    check_frame,
    check_heartbeat,
    check_place,
    connection_step,
    name_of,
)

CONNECTION_METHODS = [method for method in m.METHODS.values() if method.CLASS_ID == 10]
OTHER_METHODS = [method for method in m.METHODS.values() if method.CLASS_ID != 10]


def walk(role: Role, step: Step, *methods: type[m.Method]) -> Step:
    for method in methods:
        step = connection_step(step, method.id, role)
    return step


def test_a_server_walks_from_start_ok_to_open_to_closed() -> None:
    handshake = (m.ConnectionStartOk, m.ConnectionTuneOk, m.ConnectionOpen)
    assert walk(Role.SERVER, Step.AWAIT_START_OK, *handshake) is Step.OPEN
    assert walk(Role.SERVER, Step.AWAIT_START_OK, *handshake, m.ConnectionClose) is Step.CLOSED


def test_a_server_that_asked_for_more_hears_secure_ok() -> None:
    assert walk(Role.SERVER, Step.AWAIT_SECURE_OK, m.ConnectionSecureOk) is Step.AWAIT_TUNE_OK


def test_a_client_walks_from_start_to_open_to_closed() -> None:
    handshake = (m.ConnectionStart, m.ConnectionSecure, m.ConnectionTune, m.ConnectionOpenOk)
    assert walk(Role.CLIENT, Step.AWAIT_START, *handshake) is Step.OPEN
    assert walk(Role.CLIENT, Step.OPEN, m.ConnectionBlocked, m.ConnectionUnblocked) is Step.OPEN
    assert walk(Role.CLIENT, Step.OPEN, m.ConnectionClose) is Step.CLOSED


def test_an_open_server_hears_a_new_secret() -> None:
    assert walk(Role.SERVER, Step.OPEN, m.ConnectionUpdateSecret) is Step.OPEN


@pytest.mark.parametrize("role", Role)
def test_who_closes_ignores_all_but_close_and_close_ok(role: Role) -> None:
    for method in CONNECTION_METHODS:
        expected = Step.CLOSED if method is m.ConnectionCloseOk else Step.CLOSING
        assert connection_step(Step.CLOSING, method.id, role) is expected


@pytest.mark.parametrize(
    ("step", "method"),
    [
        (Step.AWAIT_HEADER, m.ConnectionStartOk),
        (Step.AWAIT_START_OK, m.ConnectionTuneOk),
        (Step.AWAIT_START_OK, m.ConnectionOpen),
        (Step.AWAIT_START_OK, m.ConnectionClose),
        (Step.AWAIT_TUNE_OK, m.ConnectionStartOk),
        (Step.AWAIT_OPEN, m.ConnectionTuneOk),
        (Step.OPEN, m.ConnectionOpen),
        (Step.OPEN, m.ConnectionStart),
        (Step.OPEN, m.ConnectionCloseOk),
        (Step.CLOSED, m.ConnectionClose),
        (Step.AWAIT_START, m.ConnectionStart),  # a step of the client
    ],
)
def test_a_connection_method_in_the_wrong_step_is_504(step: Step, method: type[m.Method]) -> None:
    with pytest.raises(ChannelFault, match=method.NAME) as caught:
        connection_step(step, method.id)
    assert caught.value.method == method.id


def test_only_connection_methods_stand_on_channel_zero() -> None:
    for method in CONNECTION_METHODS:
        check_place(0, method.id)
        with pytest.raises(CommandInvalid):
            check_place(1, method.id)
        with pytest.raises(CommandInvalid):
            channel_step(ChannelStep.OPEN, method.id)
    for method in OTHER_METHODS:
        check_place(1, method.id)
        with pytest.raises(CommandInvalid):
            check_place(0, method.id)
        with pytest.raises(CommandInvalid):
            connection_step(Step.OPEN, method.id)


def test_a_channel_opens_works_and_closes() -> None:
    assert channel_step(ChannelStep.CLOSED, m.ChannelOpen.id) is ChannelStep.OPEN
    assert channel_step(ChannelStep.OPEN, m.BasicPublish.id) is ChannelStep.OPEN
    assert channel_step(ChannelStep.OPEN, m.ChannelClose.id) is ChannelStep.CLOSED
    assert channel_step(ChannelStep.AWAIT_OPEN_OK, m.ChannelOpenOk.id, Role.CLIENT) is ChannelStep.OPEN
    assert channel_step(ChannelStep.OPEN, m.BasicDeliver.id, Role.CLIENT) is ChannelStep.OPEN


@pytest.mark.parametrize("role", Role)
def test_a_channel_closing_ignores_all_but_close_and_close_ok(role: Role) -> None:
    for method in OTHER_METHODS:
        expected = ChannelStep.CLOSED if method is m.ChannelCloseOk else ChannelStep.CLOSING
        assert channel_step(ChannelStep.CLOSING, method.id, role) is expected


@pytest.mark.parametrize("method", [m.QueueDeclare, m.BasicAck, m.ChannelClose, m.ChannelCloseOk])
def test_a_method_on_an_unopened_channel_is_504(method: type[m.Method]) -> None:
    with pytest.raises(ChannelFault, match="not open"):
        channel_step(ChannelStep.CLOSED, method.id)


def test_a_second_channel_open_is_504() -> None:
    with pytest.raises(ChannelFault, match="second"):
        channel_step(ChannelStep.OPEN, m.ChannelOpen.id)


@pytest.mark.parametrize("method", [m.QueueDeclareOk, m.BasicDeliver, m.BasicReturn, m.TxCommitOk])
def test_a_server_does_not_hear_what_only_servers_say(method: type[m.Method]) -> None:
    with pytest.raises(CommandInvalid, match=method.NAME):
        channel_step(ChannelStep.OPEN, method.id)


def test_every_method_is_heard_by_somebody() -> None:
    control = {m.ChannelOpen.id, m.ChannelOpenOk.id, m.ChannelClose.id, m.ChannelCloseOk.id}
    assert SERVER_ACCEPTS | CLIENT_ACCEPTS | control == {method.id for method in OTHER_METHODS}


def test_every_request_of_one_side_is_answered_to_the_other() -> None:
    names = {method.NAME: method.id for method in OTHER_METHODS}
    for method in OTHER_METHODS:
        if method.SYNC and method.id in SERVER_ACCEPTS:
            assert names[f"{method.NAME}-ok"] in CLIENT_ACCEPTS


def test_an_unknown_method_is_named_by_its_numbers() -> None:
    assert name_of((99, 1)) == "99.1"


def test_content_is_a_header_and_then_bodies_until_the_announced_size() -> None:
    assert after_header(60, 5) is Next.BODY
    assert after_header(60, 0) is Next.METHOD
    assert after_body(2) is Next.BODY
    assert after_body(0) is Next.METHOD
    with pytest.raises(FrameError, match="3 bytes longer"):
        after_body(-3)


def test_a_header_of_another_class_is_505() -> None:
    with pytest.raises(UnexpectedFrame, match="class 50"):
        after_header(50, 0)


@pytest.mark.parametrize("expected", Next)
@pytest.mark.parametrize("kind", [FRAME_METHOD, FRAME_HEADER, FRAME_BODY])
def test_any_frame_but_the_expected_one_is_505(expected: Next, kind: int) -> None:
    if {Next.METHOD: 1, Next.HEADER: 2, Next.BODY: 3}[expected] == kind:
        check_frame(expected, kind, 1)
    else:
        with pytest.raises(UnexpectedFrame):
            check_frame(expected, kind, 1)


@pytest.mark.parametrize(("expected", "kind"), [(Next.HEADER, FRAME_HEADER), (Next.METHOD, FRAME_BODY)])
def test_content_on_channel_zero_is_505(expected: Next, kind: int) -> None:
    with pytest.raises(UnexpectedFrame):
        check_frame(expected, kind, 0)
    check_frame(Next.METHOD, FRAME_METHOD, 0)


def test_a_heartbeat_is_empty_and_on_channel_zero() -> None:
    check_heartbeat(0, 0)
    with pytest.raises(UnexpectedFrame):
        check_heartbeat(1, 0)
    with pytest.raises(FrameError):
        check_heartbeat(0, 1)
