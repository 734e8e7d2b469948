"""S4-77: who consumes from which queue."""

from __future__ import annotations

import pytest

from leveret import Broker
from tests.support.management_api import ManagementApi, as_guest, as_user
from tests.support.running_clients import client, name_of

pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


@pytest.mark.feature("S4-77")
def test_a_consumer_tells_whose_it_is_and_how_it_consumes(broker: Broker, api: ManagementApi) -> None:
    with client(broker) as channel:
        channel.queue_declare("a")
        channel.basic_qos(prefetch_count=3)
        channel.basic_consume("a", lambda *_: None, consumer_tag="acks", arguments={"x-priority": 2})
        channel.basic_publish("", "a", b"held")
        channel.basic_qos(prefetch_count=9)  # is for consumers to come
        channel.basic_consume("a", lambda *_: None, consumer_tag="needs none", auto_ack=True)
        name = name_of(api)
        rows = {row["consumer_tag"]: row for row in api.get("consumers")[1]}
    assert rows.keys() == {"acks", "needs none"}
    row = rows["acks"]
    assert row["queue"] == {"name": "a", "vhost": "/"}
    assert (row["ack_required"], row["prefetch_count"], row["exclusive"]) == (True, 3, False)
    assert (row["arguments"], row["priority"]) == ({"x-priority": 2}, 2)
    details = row["channel_details"]
    assert (details["name"], details["number"], details["connection_name"]) == (f"{name} (1)", 1, name)
    assert (details["user"], details["peer_host"]) == ("guest", "127.0.0.1")
    assert (rows["needs none"]["ack_required"], rows["needs none"]["prefetch_count"]) == (False, 0)


def test_of_consumers_that_take_turns_to_be_the_only_one_one_is_active(broker: Broker, api: ManagementApi) -> None:
    with client(broker) as channel:
        channel.queue_declare("a", arguments={"x-single-active-consumer": True})
        for tag in ("first", "second"):
            channel.basic_consume("a", lambda *_: None, consumer_tag=tag)
        rows = {row["consumer_tag"]: (row["active"], row["activity_status"]) for row in api.get("consumers")[1]}
    assert rows == {"first": (True, "single_active"), "second": (False, "waiting")}


def test_a_consumer_in_the_process_has_no_connection(broker: Broker, api: ManagementApi) -> None:
    local = broker.vhost()
    local.declare_queue("a")
    local.consume("a", lambda delivered: None, tag="inside")
    (row,) = api.get("consumers")[1]
    assert (row["consumer_tag"], row["channel_details"]["peer_host"]) == ("inside", "")


@pytest.mark.feature("S4-72")
def test_consumers_are_listed_by_virtual_host_for_those_who_may_see_it(broker: Broker, api: ManagementApi) -> None:
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    anna = as_user(broker, "anna", "management", vhosts=("other",))
    with client(broker) as channel:
        channel.queue_declare("a")
        channel.basic_consume("a", lambda *_: None)
        assert len(api.get("consumers/%2F")[1]) == 1
        assert api.get("consumers/other") == (200, [])
        assert anna.get("consumers") == (200, [])
        assert anna.get("consumers/%2F")[0] == 403
    assert api.get("consumers/none")[0] == 404


@pytest.mark.feature("S4-72")
def test_consumers_of_other_users_are_listed_for_those_who_watch_over_all(broker: Broker, api: ManagementApi) -> None:
    """As with connections: from where somebody else consumes is nobody's business. In a queue they are counted."""
    anna = as_user(broker, "anna", "management", vhosts=("/",))
    max_ = as_user(broker, "max", "monitoring")
    broker.vhost().declare_queue("a")
    broker.vhost().consume("a", lambda delivered: None, tag="inside")
    with client(broker) as channel, client(broker, "another", "anna", "secret") as own:
        channel.basic_consume("a", lambda *_: None, consumer_tag="guest's")
        own.basic_consume("a", lambda *_: None, consumer_tag="anna's")
        for path in ("consumers", "consumers/%2F"):
            assert [row["consumer_tag"] for row in anna.get(path)[1]] == ["anna's"]
            assert {row["consumer_tag"] for row in max_.get(path)[1]} == {"guest's", "anna's", "inside"}
        assert anna.get("queues/%2F/a")[1]["consumers"] == 3
