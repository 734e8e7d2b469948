"""S4-71: what is exported from one broker makes another one the same."""

from __future__ import annotations

import pytest

from leveret import Broker
from leveret.api import definitions_import
from leveret.routing.bindings import Binding, Destination
from tests.support.http_api import QUIET
from tests.support.management_api import ManagementApi, as_guest

pytestmark = pytest.mark.broker(fresh=True)


@pytest.mark.feature("S4-77")
def test_an_export_has_what_was_declared_and_is_not_exclusive(broker: Broker, admin: ManagementApi) -> None:
    """Transient queues and exchanges too, as RabbitMQ exports them; not the exclusive queue of a connection."""

    def declare() -> None:
        vhost = broker.node.broker.vhosts["/"]
        vhost.declare_queue("kept", durable=True, arguments={"x-max-length": 5})
        vhost.declare_queue("passing")
        vhost.declare_queue("own", exclusive=True, owner=object())
        vhost.declare_exchange("kept", "topic", durable=True)
        vhost.declare_exchange("passing", "topic")
        vhost.declare_exchange("inner", "topic", durable=True, internal=True)

    broker.call(declare)
    session = broker.vhost()
    broker.call(lambda: broker.node.broker.vhosts["/"].bind(Binding("kept", Destination("queue", "own"), "k", {})))
    for exchange, queue in (("kept", "kept"), ("amq.topic", "kept"), ("kept", "passing"), ("inner", "kept")):
        session.bind(queue, exchange, "k")
    found = admin.get("definitions")[1]
    assert found["queues"] == [
        {"name": "kept", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}},
        {"name": "passing", "vhost": "/", "durable": False, "auto_delete": False, "arguments": {}},
    ]
    exchanges = [(row["name"], row["durable"], row["internal"]) for row in found["exchanges"]]
    assert exchanges == [("kept", True, False), ("passing", False, False), ("inner", True, True)]
    ends = [(row["source"], row["destination"], row["routing_key"]) for row in found["bindings"]]
    assert ends == [("amq.topic", "kept", "k"), ("inner", "kept", "k"), ("kept", "kept", "k"), ("kept", "passing", "k")]
    with Broker(QUIET) as another:
        assert as_guest(another).post("definitions", found) == (204, None)
        assert as_guest(another).get("definitions")[1]["queues"] == found["queues"]


@pytest.mark.feature("S4-71")
def test_an_exchange_that_only_exchanges_publish_to_comes_back(admin: ManagementApi) -> None:
    """RabbitMQ exports internal exchanges too: without one, what is bound to it would get nothing after a move."""
    admin.put("exchanges/%2F/outer", {"type": "fanout", "durable": True})
    admin.put("exchanges/%2F/inner", {"type": "direct", "durable": True, "internal": True})
    admin.post("bindings/%2F/e/outer/e/inner", {"routing_key": "k"})
    status, found = admin.get("definitions")
    assert status == 200
    with Broker(QUIET) as another:
        other = as_guest(another)
        assert other.post("definitions", found) == (204, None)
        assert other.get("exchanges/%2F/inner")[1]["internal"] is True
        assert len(other.get("bindings/%2F/e/outer/e/inner")[1]) == 1


@pytest.mark.feature("S4-71")
def test_definitions_have_their_old_path_too(admin: ManagementApi) -> None:
    assert admin.get("all-configuration") == admin.get("definitions")
    assert admin.post("all-configuration", {"vhosts": [{"name": "new"}]}) == (204, None)
    assert admin.get("vhosts/new")[0] == 200


@pytest.mark.feature("S4-71")
def test_names_of_any_characters_come_back(broker: Broker, admin: ManagementApi) -> None:
    """AMQP takes a zero byte in a name: nobody who declares such a queue can spoil the export of everybody else."""
    names = ["\x00", "a\x00b", "\r\n", "%2F", "a/b", "..", "'\"<x>", "\u202e", " ", "\ufeff", "🐇"]

    def declare() -> None:
        vhost = broker.node.broker.vhosts["/"]
        for name in names:
            vhost.declare_exchange(name, "direct", durable=True)
            vhost.declare_queue(name, durable=True, arguments={"x-own": name})
            vhost.bind(Binding(name, Destination("queue", name), name, {"own": name}))

    broker.call(declare)
    status, found = admin.get("definitions")
    assert status == 200
    with Broker(QUIET) as another:
        other = as_guest(another)
        assert other.post("definitions", found) == (204, None)
        again = other.get("definitions")[1]
    for section in ("exchanges", "queues", "bindings"):
        assert again[section] == found[section]
        assert len(found[section]) == len(names)


@pytest.mark.feature("S4-71")
def test_a_durable_queue_whose_name_was_made_up_comes_back(broker: Broker, admin: ManagementApi) -> None:
    """Exports of RabbitMQ have such queues too: to refuse them would refuse the whole file. Nobody but an import may
    name one, so that what a broker makes up stays its own."""
    name = broker.call(lambda: broker.node.broker.vhosts["/"].declare_queue(durable=True).name)
    assert name.startswith("amq.gen-")
    admin.post(f"bindings/%2F/e/amq.direct/q/{name}", {"routing_key": "k"})
    found = admin.get("definitions")[1]
    assert admin.post("definitions", found) == (204, None), "it is there, and the same"
    told = admin.post("definitions?dry_run=true", found)[1]
    assert {"kind": "queues", "name": name, "vhost": "/"} in told["existing"]
    other = {**found["queues"][0], "auto_delete": True}
    status, answer = admin.post("definitions", {"queues": [other]})
    assert (status, "inequivalent arg 'auto_delete'" in answer["reason"]) == (400, True)
    with Broker(QUIET) as another:
        empty = as_guest(another)
        assert empty.post("definitions", found) == (204, None)
        again = empty.get("definitions")[1]
        assert empty.put(f"queues/%2F/{name}x", {"durable": True})[0] == 403
    assert (again["queues"], again["bindings"]) == (found["queues"], found["bindings"])


@pytest.mark.parametrize("section", ["queues", "exchanges"])
@pytest.mark.parametrize("name", ["", "\ud800", "x" * 256, "é" * 128, None, 5])
@pytest.mark.feature("S4-71")
def test_what_amqp_takes_for_no_name_is_told(admin: ManagementApi, section: str, name: object) -> None:
    status, answer = admin.post("definitions", {section: [{"name": name, "vhost": "/", "type": "direct"}]})
    assert (status, answer["error"]) == (400, "bad_request")


# ---- what is no export


@pytest.mark.feature("S4-71")
def test_a_file_that_is_hopeless_is_not_read_to_its_end(admin: ManagementApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its problems would be an answer of many times its size."""
    monkeypatch.setattr(definitions_import, "MOST_PROBLEMS", 3)
    for query in ("", "?dry_run=true"):
        status, answer = admin.post(f"definitions{query}", {"queues": [[]] * 10})
        assert (status, answer["error"]) == (400, "bad_request")
        assert "3 of its first 3 objects cannot be imported" in answer["reason"]
        assert len(answer["problems"]) == 3


@pytest.mark.feature("S4-71")
def test_a_problem_names_its_object_in_short(admin: ManagementApi) -> None:
    _, answer = admin.post("definitions", {"queues": [{"name": "x" * 5_000, "vhost": ["/"] * 5_000}]})
    (problem,) = answer["problems"]
    assert problem["name"].startswith('"xxx')
    assert len(str(answer)) < 2_000
