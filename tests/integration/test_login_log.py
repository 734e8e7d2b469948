"""A refused login is one line of the log, with user, peer, mechanism and cause, over every protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

import leveret
from tests.support.http_api import QUIET, HttpApi
from tests.support.raw_client import RawClient, eventually
from tests.support.stomp_client import StompClient

Attempt = Callable[[leveret.Broker, str], None]


def over_amqp(broker: leveret.Broker, user: str) -> None:
    with RawClient(broker.amqp_url) as client:
        client.login(response=f"\0{user}\0wrong".encode())
        client.expect_close(403)


def over_http(broker: leveret.Broker, user: str) -> None:
    assert HttpApi(broker.http_url, user, "wrong").get("/api/whoami")[0] == 401


def over_stomp(broker: leveret.Broker, user: str) -> None:
    with StompClient(broker.stomp_url) as client:
        assert client.connect(login=user, passcode="wrong").command == "ERROR"


@pytest.mark.parametrize(
    ("attempt", "mechanism"),
    [(over_amqp, "PLAIN"), (over_http, "Basic"), (over_stomp, "PLAIN")],
    ids=["amqp", "http", "stomp"],
)
@pytest.mark.parametrize(("user", "reason"), [("guest", "wrong password"), ("ann", "unknown user")])
def test_a_refused_login_is_one_line(
    attempt: Attempt, mechanism: str, user: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(QUIET, stomp_port=0, login_failure_delay=0.0)
    with caplog.at_level(logging.INFO, "leveret"), leveret.Broker(settings) as broker:
        begun = len(caplog.messages)
        attempt(broker, user)
        eventually(lambda: not broker.call(lambda: list(broker.node.broker.registry.connections)))
        lines = caplog.messages[begun:]
    told = [line for line in lines if "stop" not in line]
    assert len(told) == 1, told
    assert told[0].startswith(f"login refused user={user} peer=127.0.0.1:")
    assert told[0].endswith(f'mechanism={mechanism} reason="{reason}"')
