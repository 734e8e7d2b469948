"""S4-77: messages that are to be routed later, listed and cancelled over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from leveret import Broker, FrozenClock
from leveret.wire.properties import Properties
from tests.support.http_objects import ObjectsApi, limited_user

PATH = "/api/schedules/%2F"


pytestmark = pytest.mark.broker(clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> Iterator[ObjectsApi]:
    """Messages for queue q are due in 30, 10 and 20 seconds; a foreign client sent the first."""
    api = ObjectsApi(broker.http_url)
    api.declare_queue("q")
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"30", pika.BasicProperties(headers={"x-deliver-at": due(broker, 30)}))
    for seconds in (10, 20):
        assert api.publish("q", str(seconds), headers={"x-deliver-at": due(broker, seconds)}) is True
    yield api
    for message in listed(api)["messages"]:
        api.delete(f"{PATH}/{message['id']}")
    api.delete(api.at("queues", "q"))


def due(broker: Broker, seconds: int) -> int:
    return round((broker.clock.core.wall() + seconds) * 1000)


def listed(api: ObjectsApi, **query: object) -> dict[str, Any]:
    status, answer = api.get(PATH, **query)
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


@pytest.mark.feature("S4-77")
def test_schedules_are_listed_by_the_moment_they_are_due(broker: Broker, api: ObjectsApi) -> None:
    now = broker.clock.core.wall()
    answer = listed(api)
    assert (answer["count"], answer["next"], answer["now"]) == (3, None, now)
    assert [round(each["due"] - now) for each in answer["messages"]] == [10, 20, 30]
    assert {(each["exchange"], each["routing_key"]) for each in answer["messages"]} == {("", "q")}
    assert all(each["size"] > 0 for each in answer["messages"])
    assert [(each["payload"], each["payload_encoding"]) for each in answer["messages"]] == [
        (str(seconds), "string") for seconds in (10, 20, 30)
    ]


@pytest.mark.feature("S4-77")
def test_schedules_come_in_pages(broker: Broker, api: ObjectsApi) -> None:
    first = listed(api, limit=2)
    assert isinstance(first["next"], str)  # a browser could not keep such a number
    rest = listed(api, limit=2, after=first["next"])
    assert (len(first["messages"]), len(rest["messages"]), rest["next"]) == (2, 1, None)
    together = first["messages"] + rest["messages"]
    assert together == listed(api)["messages"]


@pytest.mark.feature("S4-77")
def test_a_cancelled_message_never_comes(broker: Broker, api: ObjectsApi) -> None:
    id_ = listed(api)["messages"][1]["id"]
    assert api.delete(f"{PATH}/{id_}") == (204, None)
    assert api.delete(f"{PATH}/{id_}")[0] == 404
    assert listed(api)["count"] == 2
    broker.clock.advance(40)
    assert api.payloads("q") == ["10", "30"]


@pytest.mark.feature("S4-77")
def test_the_whole_body_of_a_scheduled_message_is_downloaded_and_stays(broker: Broker, api: ObjectsApi) -> None:
    body = bytes(range(256)) * 1000
    broker.vhost().publish("", "q", body, Properties(headers={"x-deliver-at": due(broker, 5)}))
    row = listed(api)["messages"][0]
    assert row["payload"] == ""  # large: only shown when it is downloaded
    for _ in range(2):
        response, downloaded = api.send("GET", f"{PATH}/{row['id']}/body")
        assert (response.status, downloaded == body) == (200, True)
        assert response.headers["content-disposition"].startswith("attachment")
    assert limited_user(broker, "nobody", configure=".*").get(f"{PATH}/{row['id']}/body")[0] == 403
    assert api.get(f"{PATH}/nix/body")[0] == 404


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 100_000}, {"after": "x"}, {"after": "9" * 50}])
@pytest.mark.feature("S4-77")
def test_wrong_questions_are_400(api: ObjectsApi, query: dict[str, object]) -> None:
    assert api.get(PATH, **query)[0] == 400


@pytest.mark.feature("S4-77")
def test_what_is_not_there_is_404(api: ObjectsApi) -> None:
    assert api.delete(f"{PATH}/nix")[0] == 404
    assert api.get("/api/schedules/nowhere")[0] == 404


@pytest.mark.feature("S4-72")
def test_the_schedule_is_read_and_configured_by_its_name(broker: Broker, api: ObjectsApi) -> None:
    reader = limited_user(broker, "reader", read="schedule$")
    nobody = limited_user(broker, "nobody", configure="^q$", read="^q$")
    id_ = listed(reader)["messages"][0]["id"]
    assert reader.delete(f"{PATH}/{id_}")[0] == 403
    assert nobody.get(PATH)[0] == 403
    owner = limited_user(broker, "owner", configure="^amq.leveret.schedule$")
    assert owner.delete(f"{PATH}/{id_}") == (204, None)
