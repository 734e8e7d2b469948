"""S4-77: bindings over HTTP, each named by its properties key as RabbitMQ makes it."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pika
import pytest

from leveret import Broker
from tests.support.http_objects import ObjectsApi, limited_user

pytestmark = pytest.mark.broker


@pytest.fixture
def api(broker: Broker) -> Iterator[ObjectsApi]:
    """With an exchange of each kind and a queue, both new."""
    api = ObjectsApi(broker.http_url)
    api.declare_exchange("topics", "topic")
    api.declare_exchange("heads", "headers")
    api.declare_queue("q")
    yield api
    for exchange in ("topics", "heads"):
        api.delete(api.at("exchanges", exchange))
    api.delete(api.at("queues", "q"))


def between(api: ObjectsApi, source: str, rest: str = "") -> str:
    return api.at("bindings", "e", f"/{source}/q/q{rest}")


@pytest.mark.parametrize(
    ("key", "props", "location"),
    [
        ("plain", "plain", "q/plain"),
        ("", "~", "q/~"),
        ("a.b/ c", "a.b%2F+c", "q/a.b%252F%2Bc"),
        ("~", "%7E", "q/%257E"),
        ("50%", "50%25", "q/50%2525"),
        ("grün.#", "gr%C3%BCn.%23", "q/gr%25C3%25BCn.%2523"),
    ],
)
@pytest.mark.feature("S4-77")
def test_a_binding_is_named_by_its_key(api: ObjectsApi, key: str, props: str, location: str) -> None:
    for _ in range(2):  # binding twice is no error, and makes one
        response, _ = api.send("POST", between(api, "topics"), b'{"routing_key": "%s"}' % key.encode())
        assert (response.status, response.getheader("location")) == (201, location)
    (row,) = api.get(between(api, "topics"))[1]
    assert (row["routing_key"], row["properties_key"], row["arguments"]) == (key, props, {})
    name = between(api, "topics", f"/{quote(props, safe='~')}")
    assert api.get(name) == (200, row)
    assert api.delete(name) == (204, None)
    assert api.get(name)[0] == 404
    assert api.get(between(api, "topics")) == (200, [])


@pytest.mark.feature("S4-77")
def test_a_plain_routing_key_is_understood_too(api: ObjectsApi) -> None:
    api.bind("topics", "q", "a.b/ c")
    assert api.get(between(api, "topics", "/a.b%2F%20c"))[1]["routing_key"] == "a.b/ c"
    assert api.get(between(api, "topics", "/a.b%252F%2520c"))[1]["routing_key"] == "a.b/ c"


@pytest.mark.feature("S4-77")
def test_arguments_make_a_name_that_does_not_depend_on_their_order(api: ObjectsApi) -> None:
    api.bind("heads", "q", "k", {"x-match": "any", "n": 1, "deep": {"a": 1, "b": [True, None]}})
    (row,) = api.get(between(api, "heads"))[1]
    props = row["properties_key"]
    assert props.startswith("k~")
    assert len(props) > len("k~")
    again = b'{"routing_key": "k", "arguments": {"deep": {"b": [true, null], "a": 1}, "n": 1, "x-match": "any"}}'
    response, _ = api.send("POST", between(api, "heads"), again)
    assert response.getheader("location") == f"q/{props}"
    assert [row["properties_key"] for row in api.get(between(api, "heads"))[1]] == [props]
    api.bind("heads", "q", "k", {"n": 2})
    api.bind("heads", "q", "", {"n": 2})
    names = {row["properties_key"] for row in api.get(between(api, "heads"))[1]}
    assert len(names) == 3
    assert sum(name.startswith("~") for name in names) == 1
    assert api.delete(between(api, "heads", f"/{quote(props, safe='~')}")) == (204, None)
    assert {row["properties_key"] for row in api.get(between(api, "heads"))[1]} == names - {props}


@pytest.mark.feature("S4-77")
def test_a_binding_works_for_a_foreign_client(api: ObjectsApi, broker: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        api.bind("topics", "q", "order.*")
        channel.basic_publish("topics", "order.new", b"m", mandatory=True)
        assert channel.basic_get("q", auto_ack=True)[2] == b"m"
        channel.queue_bind("q", "topics", "by.amqp")
        assert "by.amqp" in {row["properties_key"] for row in api.get(between(api, "topics"))[1]}


@pytest.mark.feature("S4-77")
def test_queues_are_bound_to_the_default_exchange_by_their_names(api: ObjectsApi) -> None:
    rows = api.get("/api/bindings/%2F")[1]
    named = [row for row in rows if row["source"] == ""]
    assert [(row["destination"], row["routing_key"], row["properties_key"]) for row in named] == [("q", "q", "q")]
    assert api.get(api.at("queues", "q", "/bindings"))[1] == named
    assert api.get(api.at("bindings", "e", "/amq.default/q/q/q")) == (200, named[0])
    assert api.post(api.at("bindings", "e", "/amq.default/q/q"), {"routing_key": "x"})[0] == 403
    assert api.delete(api.at("bindings", "e", "/amq.default/q/q/q"))[0] == 403


@pytest.mark.feature("S4-77")
def test_what_is_not_there_is_404(api: ObjectsApi) -> None:
    assert api.post(api.at("bindings", "e", "/nix/q/q"), {})[0] == 404
    assert api.post(api.at("bindings", "e", "/topics/q/nix"), {})[0] == 404
    assert api.post(api.at("bindings", "e", "/topics/e/nix"), {})[0] == 404
    assert api.delete(between(api, "topics", "/nix"))[0] == 404
    assert api.get("/api/bindings/nowhere")[0] == 404


@pytest.mark.parametrize(
    "given",
    [{"routing_key": 5}, {"routing_key": "k" * 256}, {"arguments": 5}, {"arguments": {"x-match": "some"}}, []],
)
@pytest.mark.feature("S4-77")
def test_wrong_input_is_400(api: ObjectsApi, given: object) -> None:
    assert api.post(between(api, "heads"), given)[0] == 400
    assert api.get(between(api, "heads")) == (200, [])


@pytest.mark.feature("S4-72")
def test_binding_writes_to_the_destination_and_reads_from_the_source(api: ObjectsApi, broker: Broker) -> None:
    path = between(api, "topics")
    for name, write, read, status in (
        ("both", "^q$", "^topics$", 201),
        ("writer", "^q$", "", 403),
        ("reader", "", "^topics$", 403),
    ):
        user = limited_user(broker, name, "", write, read)
        assert user.post(path, {"routing_key": "k"})[0] == status, name
    reader = ObjectsApi(broker.http_url, "reader", "secret")
    assert reader.delete(f"{path}/k")[0] == 403
    broker.call(lambda: broker.node.broker.permissions.set_topic("both", "/", "topics", "^k$", "^k$"))
    both = ObjectsApi(broker.http_url, "both", "secret")
    assert both.post(path, {"routing_key": "other"})[0] == 403
    assert both.delete(f"{path}/k") == (204, None)
