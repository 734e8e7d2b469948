"""S4-77: queues over HTTP, by RabbitMQ's paths and shapes, and what we show beside them."""

from __future__ import annotations

import pika
import pytest

from leveret import Broker, FrozenClock
from leveret.api.views.queue import drain_estimate
from leveret.wire.methods import BasicPublish
from tests.support.http_objects import ObjectsApi, limited_user
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.broker(clock=FrozenClock)


@pytest.fixture(scope="module")
def api(module_broker: Broker) -> ObjectsApi:
    return ObjectsApi(module_broker.http_url)


@pytest.mark.feature("S4-77")
def test_a_queue_is_declared_once_and_agreed_upon_later(api: ObjectsApi) -> None:
    path, given = api.at("queues", "made"), {"durable": True, "arguments": {"x-message-ttl": 60_000}}
    assert api.put(path, given) == (201, None)
    assert api.put(path, given) == (204, None)
    status, answer = api.put(path, {**given, "durable": False})
    assert (status, answer["error"]) == (400, "bad_request")
    assert "inequivalent arg 'durable' for queue 'made' in vhost '/'" in answer["reason"]
    row = api.queue("made")
    assert (row["durable"], row["auto_delete"], row["exclusive"]) == (True, False, False)
    assert (row["arguments"], row["type"], row["state"]) == ({"x-message-ttl": 60_000}, "classic", "running")


@pytest.mark.feature("S4-77")
def test_words_for_truth_and_no_body_at_all_are_taken_as_rabbitmq_takes_them(api: ObjectsApi) -> None:
    assert api.put(api.at("queues", "words"), {"auto_delete": "true", "arguments": []}) == (201, None)
    assert api.queue("words")["auto_delete"] is True
    response, _ = api.send("PUT", api.at("queues", "bare"))
    assert response.status == 201
    assert api.queue("bare")["durable"] is False


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"durable": "perhaps"}, "'durable'"),
        ({"arguments": 5}, "'arguments'"),
        ({"arguments": {"x-max-priority": "high"}}, "x-max-priority"),
        ({"arguments": {"x": 10**30}}, "'arguments' cannot be sent: value does not fit"),
        ({"arguments": {"\ud800": 1}}, "'arguments' cannot be sent"),
        ([], "JSON object"),
    ],
)
@pytest.mark.feature("S4-77")
def test_wrong_input_is_told_by_its_name(api: ObjectsApi, given: object, field: str) -> None:
    status, answer = api.put(api.at("queues", "never"), given)
    assert (status, field in answer["reason"]) == (400, True), answer
    assert api.get(api.at("queues", "never"))[0] == 404


@pytest.mark.feature("S4-77")
def test_names_are_those_of_amqp(api: ObjectsApi) -> None:
    assert api.put(api.at("queues", "amq.mine"), {})[0] == 403
    assert api.put(api.at("queues", "n" * 256), {})[0] == 400
    assert api.put("/api/queues/%2F/%ff%fe", {})[0] == 400
    api.declare_queue("a/b c~ü")
    assert api.queue("a/b c~ü")["name"] == "a/b c~ü"


@pytest.mark.parametrize("path", ["/api/queues/%2F/nix", "/api/queues/nowhere", "/api/queues/nowhere/nix"])
@pytest.mark.feature("S4-77")
def test_what_is_not_there_is_404(api: ObjectsApi, path: str) -> None:
    assert api.get(path)[0] == 404


@pytest.mark.feature("S4-77")
def test_a_queue_is_deleted_if_it_is_as_wanted(api: ObjectsApi) -> None:
    path = api.at("queues", "goes")
    api.declare_queue("goes")
    api.publish("goes", "m")
    status, answer = api.delete(path, **{"if-empty": "true"})
    assert (status, "queue 'goes' in vhost '/' is not empty" in answer["reason"]) == (400, True)
    assert api.delete(path, **{"if-empty": "false"}) == (204, None)
    assert api.delete(path)[0] == 404


@pytest.mark.feature("S4-77")
def test_a_queue_in_use_stays(api: ObjectsApi, broker: Broker) -> None:
    api.declare_queue("used")
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume("used", lambda *_: None, consumer_tag="eats", exclusive=True)
        channel.basic_qos(prefetch_count=9)  # is for consumers to come
        assert api.delete(api.at("queues", "used"), **{"if-unused": "true"})[0] == 400
        row = api.queue("used")
        assert (row["consumers"], row["exclusive_consumer_tag"]) == (1, "eats")
        (consumer,) = row["consumer_details"]
        assert (consumer["consumer_tag"], consumer["prefetch_count"], consumer["ack_required"]) == ("eats", 7, True)
        assert consumer["channel_details"]["user"] == "guest"


@pytest.mark.feature("S4-73")
def test_an_exclusive_queue_is_shown_and_belongs_to_its_connection(api: ObjectsApi, broker: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        connection.channel().queue_declare("own", exclusive=True)
        assert api.queue("own")["exclusive"] is True
        for status, answer in (
            api.delete(api.at("queues", "own")),
            api.delete(api.at("queues", "own", "/contents")),
            api.get(api.at("queues", "own", "/messages")),
            api.post(api.at("bindings", "e", "/amq.fanout/q/own"), {}),
        ):
            assert (status, "exclusive access to locked queue 'own'" in answer["reason"]) == (400, True)


@pytest.mark.feature("S4-77")
def test_purge_forgets_what_is_ready(api: ObjectsApi) -> None:
    api.declare_queue("full")
    for n in range(3):
        api.publish("full", str(n))
    assert api.queue("full")["messages"] == 3
    assert api.delete(api.at("queues", "full", "/contents")) == (204, None)
    row = api.queue("full")
    assert (row["messages"], row["counters"]["purged"], row["message_bytes"]) == (0, 3, 0)
    assert api.delete(api.at("queues", "nix", "/contents"))[0] == 404


@pytest.mark.feature("S4-77")
def test_messages_are_counted_by_where_they_are(api: ObjectsApi, broker: Broker) -> None:
    api.declare_queue("counted")
    for n in range(3):
        api.publish("counted", "x" * n)
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        connection.channel().basic_get("counted")
        row = api.queue("counted")
        assert (row["messages"], row["messages_ready"], row["messages_unacknowledged"]) == (3, 2, 1)
        assert row["message_bytes"] == row["message_bytes_ready"] + row["message_bytes_unacknowledged"]
        assert row["message_bytes_unacknowledged"] > 0
        assert row["message_stats"]["publish"] == 3
        assert row["counters"]["got"] == 1


@pytest.mark.feature("S4-77")
def test_actions_of_mirrors_are_accepted(api: ObjectsApi) -> None:
    api.declare_queue("mirrored")
    path = api.at("queues", "mirrored", "/actions")
    assert api.post(path, {"action": "sync"}) == (204, None)
    assert api.post(path, {"action": "cancel_sync"}) == (204, None)
    assert api.post(path, {"action": "dance"})[0] == 400


@pytest.mark.feature("S4-77")
def test_policies_that_hold_are_named(api: ObjectsApi, broker: Broker) -> None:
    vhost = broker.vhost()
    vhost.set_policy("short", "^ruled", {"max-length": 10, "message-ttl": 5_000}, apply_to="queues")
    vhost.set_policy("tight", "^ruled", {"max-length": 3}, apply_to="queues", operator=True)
    api.declare_queue("ruled.one")
    row = api.queue("ruled.one")
    assert (row["policy"], row["operator_policy"]) == ("short", "tight")
    assert row["effective_policy_definition"] == {"max-length": 3, "message-ttl": 5_000}
    api.declare_queue("free")
    row = api.queue("free")
    assert (row["policy"], row["operator_policy"], row["effective_policy_definition"]) == (None, None, {})


@pytest.mark.feature("S4-77")
def test_the_age_of_the_first_message_is_known_by_ttl_or_by_timestamp(api: ObjectsApi, broker: Broker) -> None:
    api.declare_queue("by ttl", arguments={"x-message-ttl": 600_000})
    api.declare_queue("by time")
    now = int(broker.clock.core.wall())
    api.publish("by ttl", "m")
    api.publish("by time", "m", timestamp=now - 100)
    broker.clock.advance(30)
    assert api.queue("by ttl")["oldest_message_age"] == pytest.approx(30)
    row = api.queue("by time")
    assert row["head_message_timestamp"] == now - 100
    assert row["oldest_message_age"] == pytest.approx(130, abs=1)
    api.declare_queue("empty")
    assert api.queue("empty")["oldest_message_age"] is None


@pytest.mark.feature("S4-77")
def test_a_drain_estimate_needs_a_queue_that_shrinks() -> None:
    assert drain_estimate(100, {"rate": -4.0}) == 25.0
    assert drain_estimate(100, {"rate": 0.0}) is None
    assert drain_estimate(100, {"rate": 4.0}) is None
    assert drain_estimate(0, None) == 0.0


@pytest.mark.feature("S4-77")
def test_messages_that_wait_for_a_retry_are_told_apart(api: ObjectsApi) -> None:
    api.declare_queue("tries", durable=True, arguments={"x-retry-delays": [5_000]})
    api.publish("tries", "m")
    assert len(api.take("tries", ackmode="reject_requeue_true")) == 1
    row = api.queue("tries")
    assert (row["messages_ready"], row["messages_delayed"]) == (0, 1)


@pytest.mark.feature("S4-77")
def test_an_exclusive_queue_tells_whose_it_is(api: ObjectsApi, broker: Broker) -> None:
    api.declare_queue("everybodys")
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        connection.channel().queue_declare("own", exclusive=True)
        (owner,) = api.get("/api/connections")[1]
        told = {"name": owner["name"], "peer_host": owner["peer_host"], "peer_port": owner["peer_port"]}
        assert api.queue("own")["owner_pid_details"] == told
        rows = {row["name"]: row for row in api.get("/api/queues")[1]}
    assert rows["own"]["owner_pid_details"] == told
    assert "owner_pid_details" not in rows["everybodys"]
    broker.call(lambda: broker.node.broker.vhosts["/"].declare_queue("inside", exclusive=True, owner=object()))
    assert "owner_pid_details" not in api.queue("inside"), "no connection has it"


@pytest.mark.feature("S4-77")
def test_streams_are_queues_too(api: ObjectsApi, broker: Broker) -> None:
    api.declare_queue("flow", durable=True, arguments={"x-queue-type": "stream"})
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        channel.basic_consume("flow", lambda *_: None)
        api.publish("flow", "a")
        broker.clock.advance(12)
        row = api.queue("flow")
    assert (row["type"], row["messages_ready"], row["first_offset"], row["next_offset"]) == ("stream", 1, 0, 1)
    assert row["oldest_message_age"] == pytest.approx(12)  # what is read at the end is in memory
    assert api.delete(api.at("queues", "flow", "/contents"))[0] == 400


@pytest.mark.feature("S4-77")
def test_lists_have_pages_columns_and_order(api: ObjectsApi) -> None:
    for n in range(5):
        api.declare_queue(f"page.{n}")
    query = {"name": "page.", "page": 2, "page_size": 2, "sort": "name", "sort_reverse": "true", "columns": "name"}
    status, page = api.get("/api/queues/%2F", **query)
    assert (status, page["items"]) == (200, [{"name": "page.2"}, {"name": "page.1"}])
    assert (page["filtered_count"], page["page_count"]) == (5, 3)


@pytest.mark.feature("S4-72")
def test_configure_is_asked_for_and_further_permissions_for_dead_letters(api: ObjectsApi, broker: Broker) -> None:
    anna = limited_user(broker, "anna", configure="^a", read="^a")
    api.declare_queue("b.there")
    assert anna.put(anna.at("queues", "a.mine"), {}) == (201, None)
    for status, answer in (
        anna.put(anna.at("queues", "b.mine"), {}),
        anna.delete(anna.at("queues", "b.there")),
        anna.put(anna.at("queues", "a.dlx"), {"arguments": {"x-dead-letter-exchange": "amq.direct"}}),
        anna.delete(anna.at("queues", "b.there", "/contents")),
        anna.get(anna.at("queues", "b.there", "/messages")),
    ):
        assert (status, "refused for user 'anna'" in answer["reason"]) == (403, True), answer
    assert anna.get(anna.at("queues", "b.there"))[0] == 200


@pytest.mark.feature("S4-71")
def test_other_virtual_hosts_are_seen_by_those_who_may(api: ObjectsApi, broker: Broker) -> None:
    broker.call(lambda: broker.node.broker.add_vhost("hidden"))
    broker.call(lambda: broker.node.broker.vhost("hidden").declare_queue("secret"))
    berta = limited_user(broker, "berta", ".*", ".*", ".*")
    watcher = limited_user(broker, "watcher", "", "", "", "monitoring")
    assert berta.get("/api/queues/hidden")[0] == 403
    assert berta.get("/api/queues/hidden/secret")[0] == 403
    assert "secret" not in {row["name"] for row in berta.get("/api/queues")[1]}
    assert [row["name"] for row in watcher.get("/api/queues/hidden")[1]] == ["secret"]
    assert watcher.put("/api/queues/hidden/mine", {})[0] == 403
    assert watcher.delete("/api/queues/hidden/secret")[0] == 403


@pytest.mark.feature("S4-72")
def test_a_user_without_a_tag_has_no_business_with_queues(broker: Broker) -> None:
    nobody = limited_user(broker, "plain", ".*", ".*", ".*", "other")
    assert nobody.get("/api/queues")[0] == 401
    assert nobody.put(nobody.at("queues", "x"), {})[0] == 401


@pytest.mark.feature("S4-77")
def test_a_message_whose_headers_cannot_be_read_has_no_timestamp(broker: Broker, api: ObjectsApi) -> None:
    """Nobody looks into them when they come; the list of queues must not fail for it."""
    api.declare_queue("unreadable")
    properties = b"\x20\x40" + b"\x00\x00\x00\x05\x03abcZ" + (7).to_bytes(8, "big")  # headers, timestamp
    with RawClient.open(broker.amqp_url) as client:
        client.send(BasicPublish(routing_key="unreadable"))
        client.send_frame(2, 1, b"\x00\x3c\x00\x00" + (4).to_bytes(8, "big") + properties)
        client.send_frame(3, 1, b"body")
        client.is_alive()
    status, queues = api.get("/api/queues")
    found = [queue for queue in queues if queue["name"] == "unreadable"]
    assert (status, [(queue["messages"], queue["head_message_timestamp"]) for queue in found]) == (200, [(1, None)])
