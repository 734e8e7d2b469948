"""S4-77: exchanges over HTTP, by RabbitMQ's paths and shapes, and where a message would go."""

from __future__ import annotations

from typing import Any

import pytest

from leveret import Broker
from tests.support.http_objects import ObjectsApi, limited_user

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def api(module_broker: Broker) -> ObjectsApi:
    return ObjectsApi(module_broker.http_url)


def route(api: ObjectsApi, exchange: str, key: str, **headers: object) -> dict[str, Any]:
    query = {"routing_key": key} | {f"headers.{name}": value for name, value in headers.items()}
    status, answer = api.get(api.at("exchanges", exchange, "/route"), **query)
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


@pytest.mark.feature("S4-77")
def test_an_exchange_is_declared_shown_and_deleted(api: ObjectsApi) -> None:
    path = api.at("exchanges", "made")
    given = {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "amq.fanout"}}
    assert api.put(path, given) == (201, None)
    assert api.put(path, given) == (204, None)
    status, answer = api.put(path, {**given, "type": "fanout"})
    assert (status, "inequivalent arg 'type' for exchange 'made'" in answer["reason"]) == (400, True)
    status, row = api.get(path)
    assert status == 200
    assert {name: row[name] for name in ("name", "vhost", "type", "durable", "auto_delete", "internal")} == {
        "name": "made",
        "vhost": "/",
        "type": "topic",
        "durable": True,
        "auto_delete": False,
        "internal": False,
    }
    assert (row["arguments"], row["incoming"], row["outgoing"]) == ({"alternate-exchange": "amq.fanout"}, [], [])
    assert api.delete(path) == (204, None)
    assert api.delete(path)[0] == 404
    assert api.get(path)[0] == 404


@pytest.mark.feature("S4-77")
def test_the_default_exchange_is_listed_and_belongs_to_the_broker(api: ObjectsApi) -> None:
    status, rows = api.get("/api/exchanges/%2F")
    assert (status, rows[0]["name"], rows[0]["type"], rows[0]["durable"]) == (200, "", "direct", True)
    assert {"amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"} <= {row["name"] for row in rows}
    assert api.get(api.at("exchanges", "amq.default"))[1]["name"] == ""
    assert api.delete(api.at("exchanges", "amq.default"))[0] == 403
    assert api.delete(api.at("exchanges", "amq.direct"))[0] == 403
    assert api.put(api.at("exchanges", "amq.mine"), {})[0] == 403


@pytest.mark.parametrize("given", [{"type": "nix"}, {"type": 5}, {"internal": "x"}, {"arguments": "x"}, "text"])
@pytest.mark.feature("S4-77")
def test_wrong_input_is_400(api: ObjectsApi, given: object) -> None:
    assert api.put(api.at("exchanges", "never"), given)[0] == 400
    assert api.get(api.at("exchanges", "never"))[0] == 404


@pytest.mark.feature("S4-77")
def test_an_exchange_in_use_stays(api: ObjectsApi) -> None:
    api.declare_exchange("used")
    api.declare_queue("user")
    api.bind("used", "user", "k")
    status, answer = api.delete(api.at("exchanges", "used"), **{"if-unused": "true"})
    assert (status, answer["reason"]) == (400, "exchange 'used' in vhost '/' in use")
    assert api.delete(api.at("exchanges", "used"))[0] == 204


@pytest.mark.feature("S4-77")
def test_what_comes_in_and_goes_out_is_counted(api: ObjectsApi) -> None:
    api.declare_exchange("counted", "fanout")
    api.declare_queue("counts")
    assert api.publish("k", "m", "counted") is False
    api.bind("counted", "counts")
    assert api.publish("k", "m", "counted") is True
    stats = api.get(api.at("exchanges", "counted"))[1]["message_stats"]
    assert (stats["publish_in"], stats["publish_out"]) == (2, 1)


@pytest.mark.feature("S4-77")
def test_the_policy_that_holds_is_named(api: ObjectsApi, broker: Broker) -> None:
    broker.vhost().set_policy("rest", "^ruled", {"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
    api.declare_exchange("ruled")
    row = api.get(api.at("exchanges", "ruled"))[1]
    assert (row["policy"], row["effective_policy_definition"]) == ("rest", {"alternate-exchange": "amq.fanout"})


@pytest.mark.feature("S4-77")
def test_bindings_are_listed_by_either_end(api: ObjectsApi) -> None:
    api.declare_exchange("from", "topic")
    api.declare_exchange("to", "topic")
    path = api.at("bindings", "e", "/from/e/to")
    assert api.post(path, {"routing_key": "a.#"})[0] == 201
    away, to = (api.get(api.at("exchanges", name, f"/bindings/{end}"))[1] for name, end in ENDS)
    assert away == to
    assert [(row["source"], row["destination"], row["destination_type"]) for row in away] == [
        ("from", "to", "exchange")
    ]


ENDS = (("from", "source"), ("to", "destination"))


# ---- where would it go


@pytest.mark.feature("S4-77")
def test_where_would_it_go_names_queues_and_the_bindings_on_the_way(api: ObjectsApi) -> None:
    for name in ("r.one", "r.two", "r.three"):
        api.declare_queue(name)
    api.declare_exchange("r.first", "topic")
    api.declare_exchange("r.second", "direct")
    api.bind("r.first", "r.one", "order.*")
    api.bind("r.first", "r.one", "order.new")
    api.bind("r.first", "r.one", "invoice.*")
    api.bind("r.first", "r.two", "invoice.*")
    assert api.post(api.at("bindings", "e", "/r.first/e/r.second"), {"routing_key": "#"})[0] == 201
    api.bind("r.second", "r.three", "order.new")
    answer = route(api, "r.first", "order.new")
    assert (answer["routed"], answer["queues"]) == (True, ["r.one", "r.three"])
    led = {(row["source"], row["destination"], row["routing_key"]) for row in answer["bindings"]}
    assert led == {
        ("r.first", "r.one", "order.*"),
        ("r.first", "r.one", "order.new"),
        ("r.first", "r.second", "#"),
        ("r.second", "r.three", "order.new"),
    }
    assert api.payloads("r.one") == []


@pytest.mark.feature("S4-79")
def test_where_would_it_go_by_headers_of_their_kinds(api: ObjectsApi) -> None:
    api.declare_queue("h.number")
    api.declare_queue("h.text")
    api.declare_exchange("h", "headers")
    api.bind("h", "h.number", "", {"n": 1})
    api.bind("h", "h.text", "", {"n": "1"})
    assert route(api, "h", "", n="1")["queues"] == ["h.number"]
    assert route(api, "h", "", n='"1"')["queues"] == ["h.text"]
    assert route(api, "h", "", n="2")["queues"] == []


@pytest.mark.feature("S4-77")
def test_where_would_it_go_by_name_and_by_the_alternate(api: ObjectsApi) -> None:
    api.declare_queue("n.queue")
    answer = route(api, "amq.default", "n.queue")
    assert [(row["destination"], row["by"]) for row in answer["bindings"]] == [("n.queue", "name")]
    api.declare_exchange("n.misses", "direct", arguments={"alternate-exchange": "n.rest"})
    api.declare_exchange("n.rest", "fanout")
    api.bind("n.rest", "n.queue")
    answer = route(api, "n.misses", "nobody")
    assert answer["queues"] == ["n.queue"]
    assert [row["by"] for row in answer["bindings"]] == ["alternate-exchange", "binding"]
    assert route(api, "amq.default", "no such queue")["routed"] is False
    assert api.get(api.at("exchanges", "nix", "/route"))[0] == 404


@pytest.mark.feature("S2-06")
def test_where_would_it_go_names_one_of_many_and_says_what_is_left_to_chance(api: ObjectsApi) -> None:
    for kind in ("x-modulus-hash", "x-random"):
        api.declare_exchange(kind, kind)
        for n in range(4):
            api.put(api.at("queues", f"c.{n}"), {})
            api.bind(kind, f"c.{n}", "1")
        answer = route(api, kind, "some key")
        assert len(answer["queues"]) == 1
        assert [row["destination"] for row in answer["bindings"]] == answer["queues"]
        assert answer["by_chance"] is (kind == "x-random")


# ---- who may


@pytest.mark.feature("S4-72")
def test_configure_is_asked_for(api: ObjectsApi, broker: Broker) -> None:
    anna = limited_user(broker, "anna", configure="^a")
    api.declare_exchange("b.there")
    assert anna.put(anna.at("exchanges", "a.mine"), {}) == (201, None)
    further = {"arguments": {"alternate-exchange": "amq.fanout"}}
    for status, answer in (
        anna.put(anna.at("exchanges", "b.mine"), {}),
        anna.put(anna.at("exchanges", "a.further"), further),
        anna.delete(anna.at("exchanges", "b.there")),
    ):
        assert (status, "refused for user 'anna'" in answer["reason"]) == (403, True), answer
    assert anna.delete(anna.at("exchanges", "a.mine")) == (204, None)


@pytest.mark.feature("S4-71")
def test_exchanges_of_other_virtual_hosts_stay_hidden(broker: Broker) -> None:
    broker.call(lambda: broker.node.broker.add_vhost("hidden"))
    berta = limited_user(broker, "berta", ".*", ".*", ".*")
    assert berta.get("/api/exchanges/hidden")[0] == 403
    assert berta.get("/api/exchanges/hidden/amq.topic/route")[0] == 403
    assert {row["vhost"] for row in berta.get("/api/exchanges")[1]} == {"/"}
    assert berta.get("/api/exchanges/nowhere")[0] == 404
