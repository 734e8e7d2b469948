"""S4-72: every operation, over HTTP and over AMQP, against every tag and every kind of permissions.

What is expected follows from the rules alone: those of HTTP stand with the descriptions of the endpoints
(api/openapi/*.py, ``needs``), those of AMQP in tests/support/matrix_methods.py. Each operation is tried by all
users against a real broker over its sockets. Those who may not must be refused, and leave everything as it was.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leveret import Broker
from leveret.api.openapi.document import DESCRIBED
from leveret.wire.methods import ConnectionOpen
from tests.support.http_api import HttpApi
from tests.support.matrix_methods import METHODS, attempt
from tests.support.matrix_objects import arrange, snapshot
from tests.support.matrix_requests import request_of, sample_of
from tests.support.matrix_users import PASSWORD, TAGS, USERS, VHOST, MatrixUser, add_users, outcome
from tests.support.permission_page import PAGE, render
from tests.support.raw_client import RawClient, plain

HTTP = sorted(DESCRIBED)
OPEN = {key for key in HTTP if key.partition(" ")[2].startswith("/metrics")}  # to this machine, without a login


pytestmark = pytest.mark.broker(storage="disk", durability="os")


@pytest.fixture(scope="module")
def module_broker(module_broker: Broker) -> Broker:
    """With a disk, which leases need."""
    add_users(module_broker)
    return module_broker


@pytest.mark.parametrize("key", HTTP)
@pytest.mark.feature("S4-72")
def test_over_http(key: str, broker: Broker) -> None:
    operation = DESCRIBED[key]
    sample, asked = sample_of(key, operation), request_of(key, operation, broker.node.broker.node_name)
    needs = sample.needs or operation.needs
    arrange(broker)
    before = snapshot(broker)
    expected = {user: outcome(needs, user) for user in USERS}

    def ask(user: MatrixUser) -> tuple[int, bytes]:
        api = HttpApi(broker.http_url, user.name, PASSWORD)
        api.headers["X-Requested-With"] = "a page"  # which a login must show
        response, answer = api.send(*asked)
        return response.status, answer

    for user in (user for user in USERS if expected[user]):
        status, answer = ask(user)
        assert status == expected[user], (user.name, status, answer)
        assert json.loads(answer)["reason"], user.name
    assert snapshot(broker) == before, "somebody who was refused changed something all the same"
    for user in (user for user in USERS if not expected[user]):
        arrange(broker)
        status, answer = ask(user)
        ends = {sample.ends} if sample.ends else {200, 201, 202, 204}
        assert status in ends, (user.name, status, answer)


@pytest.mark.feature("S4-72")
def test_without_a_login_nothing_but_the_login_answers(broker: Broker) -> None:
    arrange(broker)
    before = snapshot(broker)
    for key in HTTP:
        if key in OPEN or DESCRIBED[key].needs.role == "":
            continue
        asked = request_of(key, DESCRIBED[key], broker.node.broker.node_name)
        response, answer = HttpApi(broker.http_url, None).send(*asked)
        assert response.status == 401, (key, answer)
    assert snapshot(broker) == before


@pytest.mark.feature("S4-72")
def test_every_endpoint_has_a_row(broker: Broker) -> None:
    _, document = HttpApi(broker.http_url).get("/api/openapi.json")
    there = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    missing = sorted(there - set(HTTP))
    assert not missing, (
        f"no rule says who may use {', '.join(missing)}: describe it in src/leveret/api/openapi/*.py with what "
        "it 'needs'; if it takes a body or a query, add a request to tests/support/matrix_requests.py"
    )


@pytest.mark.parametrize("tag", TAGS, ids=lambda tag: tag or "untagged")
@pytest.mark.feature("S4-72")
def test_over_amqp(tag: str, broker: Broker) -> None:
    """Tags open no door here: the same rules hold for all."""
    for user in (user for user in USERS if user.tag == tag and user.may_enter):
        with RawClient(broker.amqp_url) as client:
            client.handshake(response=plain(user.name, PASSWORD), virtual_host=VHOST)
            for name, method in METHODS.items():
                arrange(broker)
                before = snapshot(broker)
                refused = outcome(method.needs, user)
                assert attempt(client, method) == refused, (user.name, name)
                if refused:
                    assert snapshot(broker) == before, (user.name, name)


@pytest.mark.parametrize("tag", TAGS, ids=lambda tag: tag or "untagged")
@pytest.mark.feature("S4-02")
def test_no_tag_opens_another_virtual_host_over_amqp(tag: str, broker: Broker) -> None:
    stranger = next(user for user in USERS if user.tag == tag and not user.may_enter)
    with RawClient(broker.amqp_url) as client:
        client.login(response=plain(stranger.name, PASSWORD))
        client.tune()
        client.send(ConnectionOpen(VHOST), 0)
        closed = client.expect_close(530)
        assert f"access to vhost '{VHOST}' refused for user '{stranger.name}'" in closed.reply_text


@pytest.mark.feature("S4-72")
def test_the_page_says_what_the_rules_say() -> None:
    written = Path(PAGE).read_text(encoding="utf-8")
    assert written == render(), f"{PAGE.name} is not what the rules give: run make permissions-page"
