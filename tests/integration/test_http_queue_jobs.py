"""S4-77: long work on the messages of a queue over HTTP, and pausing it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret import Broker, FrozenClock
from leveret.wire.properties import Properties
from tests.support.http_api import QUIET
from tests.support.http_objects import ObjectsApi, limited_user

pytestmark = pytest.mark.broker(clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> Iterator[ObjectsApi]:
    """Queue work has 0 to 4; what dies there goes to queue dead; other is empty. There are no jobs yet."""
    api, vhost = ObjectsApi(broker.http_url), broker.vhost()
    api.declare_queue("dead")
    api.declare_queue("other")
    api.declare_queue("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    for n in range(5):
        vhost.publish("", "work", b"%d" % n, Properties(headers={"n": n}))
    yield api
    for name in [row["name"] for row in api.get("/api/queues/%2F")[1]]:
        api.delete(api.at("queues", name))
    while jobs := api.get("/api/queue-jobs")[1]:  # the first time ends a job, the second time forgets it
        for job in jobs:
            api.delete(f"/api/queue-jobs/{job['id']}")


def begin(api: ObjectsApi, queue: str, kind: str, **given: object) -> str:
    status, answer = api.post(api.at("queues", queue, "/jobs"), {"kind": kind, **given})
    assert status == 202, answer
    id_: str = answer["id"]
    return id_


def state_at_the_end(broker: Broker, api: ObjectsApi, id_: str) -> str:
    while (state := api.get(f"/api/queue-jobs/{id_}")[1]["state"]) == "running":
        broker.call(lambda: None)
    return str(state)


def run(broker: Broker, api: ObjectsApi, queue: str, kind: str, **given: object) -> dict[str, Any]:
    """To its end: each call gives the broker a turn, and each turn the job a step."""
    id_ = begin(api, queue, kind, **given)
    while True:
        status, row = api.get(f"/api/queue-jobs/{id_}")
        assert status == 200, row
        if row["state"] != "running":
            found: dict[str, Any] = row
            return found
        broker.call(lambda: None)


@pytest.mark.feature("S4-77")
def test_messages_move_by_filter(broker: Broker, api: ObjectsApi) -> None:
    row = run(broker, api, "work", "move", destination="other", selector="n >= 3")
    assert (row["state"], row["examined"], row["done"], row["skipped"]) == ("done", 5, 2, 0)
    assert row["looked_at"] == 5  # the name of version 0.2
    assert (row["kind"], row["queue"], row["destination"], row["selector"]) == ("move", "work", "other", "n >= 3")
    assert api.payloads("work") == ["0", "1", "2"]
    assert api.payloads("other") == ["3", "4"]


@pytest.mark.feature("S4-77")
def test_messages_are_copied_up_to_a_limit(broker: Broker, api: ObjectsApi) -> None:
    assert run(broker, api, "work", "copy", destination="other", limit=2)["done"] == 2
    assert (api.payloads("work"), api.payloads("other")) == (["0", "1", "2", "3", "4"], ["0", "1"])


@pytest.mark.feature("S4-77")
def test_messages_are_deleted_by_filter(broker: Broker, api: ObjectsApi) -> None:
    assert run(broker, api, "work", "delete", selector="n = 1")["done"] == 1
    assert (api.payloads("work"), api.payloads("dead")) == (["0", "2", "3", "4"], [])


@pytest.mark.parametrize(("kind", "given"), [("delete", {}), ("move", {"destination": "other"})])
@pytest.mark.feature("S4-77")
def test_a_dry_run_counts_and_changes_nothing(
    broker: Broker, api: ObjectsApi, kind: str, given: dict[str, object]
) -> None:
    row = run(broker, api, "work", kind, dry_run=True, selector="n < 3", **given)
    assert (row["dry_run"], row["examined"], row["done"]) == (True, 5, 3)
    assert (api.payloads("work"), api.payloads("other")) == (["0", "1", "2", "3", "4"], [])


@pytest.mark.feature("S4-76")
def test_dead_letters_are_driven_back(broker: Broker, api: ObjectsApi) -> None:
    api.take("work", 3, "reject_requeue_false")
    assert api.payloads("dead") == ["0", "1", "2"]
    row = run(broker, api, "dead", "redrive", dry_run=True)
    assert (row["origins"], api.queue("dead")["messages"]) == ({"work": 3}, 3)
    row = run(broker, api, "dead", "redrive", selector="n <> 1")
    assert (row["origins"], row["done"]) == ({"work": 2}, 2)
    assert (api.payloads("dead"), api.payloads("work")) == (["1"], ["3", "4", "0", "2"])


@pytest.mark.feature("S4-76")
def test_dead_letters_are_driven_back_at_a_rate_and_the_job_is_cancelled(broker: Broker, api: ObjectsApi) -> None:
    api.take("work", 5, "reject_requeue_false")
    id_ = begin(api, "dead", "redrive", rate=1)
    broker.call(lambda: None)
    assert api.get(f"/api/queue-jobs/{id_}")[1]["done"] == 1
    broker.clock.advance(1)
    broker.call(lambda: None)
    assert (api.get(f"/api/queue-jobs/{id_}")[1]["state"], api.queue("work")["messages"]) == ("running", 2)
    assert api.delete(f"/api/queue-jobs/{id_}") == (204, None)
    row = api.get(f"/api/queue-jobs/{id_}")[1]
    assert (row["state"], row["done"], row["ended"]) == ("cancelled", 2, broker.clock.core.wall())
    broker.clock.advance(10)
    broker.call(lambda: None)
    assert (api.queue("work")["messages"], api.queue("dead")["messages"]) == (2, 3)
    assert api.delete(f"/api/queue-jobs/{id_}") == (204, None)  # one that is over is forgotten
    assert api.get(f"/api/queue-jobs/{id_}")[0] == 404


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"kind": "burn"}, 400, "'kind'"),
        ({}, 400, "'kind'"),
        ({"kind": "move"}, 400, "'destination'"),
        ({"kind": "move", "destination": "work"}, 400, "itself"),
        ({"kind": "move", "destination": "nix"}, 404, "no queue 'nix'"),
        ({"kind": "delete", "selector": "n ="}, 400, "selector"),
        ({"kind": "delete", "selector": 5}, 400, "'selector'"),
        ({"kind": "delete", "limit": 0}, 400, "'limit'"),
        ({"kind": "delete", "rate": 5}, 400, "'rate' is for redrive only"),
        ({"kind": "redrive", "rate": 0}, 400, "'rate'"),
        ({"kind": "redrive", "rate": 10**400}, 400, "'rate'"),
        ({"kind": "redrive", "rate": True}, 400, "'rate'"),
        ({"kind": "delete", "dry_run": "perhaps"}, 400, "'dry_run'"),
    ],
)
@pytest.mark.feature("S4-77")
def test_wrong_jobs_do_not_begin(api: ObjectsApi, given: object, status: int, words: str) -> None:
    got, answer = api.post(api.at("queues", "work", "/jobs"), given)
    assert (got, words in answer["reason"]) == (status, True), answer
    assert api.get("/api/queue-jobs") == (200, [])


@pytest.mark.feature("S4-77")
def test_nothing_is_taken_out_of_a_stream_but_copies(broker: Broker, api: ObjectsApi) -> None:
    api.declare_queue("flow", durable=True, arguments={"x-queue-type": "stream"})
    api.publish("flow", "m")
    for kind in ("move", "delete"):
        status, answer = api.post(api.at("queues", "flow", "/jobs"), {"kind": kind, "destination": "other"})
        assert (status, "copy them" in answer["reason"]) == (400, True)
    assert run(broker, api, "flow", "copy", destination="other")["done"] == 1
    assert api.payloads("other") == ["m"]


@pytest.mark.feature("S4-77")
def test_jobs_are_listed_and_bounded(broker: Broker, api: ObjectsApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.api.queue_jobs.MOST_RUNNING", 1)
    monkeypatch.setattr("leveret.api.queue_jobs.MOST_KEPT", 2)
    api.take("work", 5, "reject_requeue_false")
    id_ = begin(api, "dead", "redrive", rate=1)
    assert api.post(api.at("queues", "work", "/jobs"), {"kind": "delete"})[0] == 409
    assert [row["id"] for row in api.get("/api/queue-jobs")[1]] == [id_]
    api.delete(f"/api/queue-jobs/{id_}")
    ids = [run(broker, api, "work", "delete")["id"] for _ in range(3)]
    assert [row["id"] for row in api.get("/api/queue-jobs")[1]] == ids[1:]


@pytest.mark.feature("S4-77")
def test_what_a_job_has_done_is_on_disk_when_it_is_done(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path / "data")
    with Broker(settings) as broker:
        api = ObjectsApi(broker.http_url)
        for name in ("from", "to"):
            api.declare_queue(name, durable=True)
        for n in range(3):
            api.publish("from", str(n), delivery_mode=2)
        row = run(broker, api, "from", "move", destination="to")
        assert (row["state"], row["done"]) == ("done", 3)
        assert broker.node.broker.last_granted == broker.node.broker.log.issued
        elsewhere(broker, "away", durable=True)
        row = run(broker, api, "to", "move", destination="away", destination_vhost="elsewhere", limit=2)
        assert broker.node.broker.last_granted == broker.node.broker.log.issued
    with Broker(settings) as broker:
        api, away = ObjectsApi(broker.http_url), ObjectsApi(broker.http_url, vhost="elsewhere")
        assert (api.payloads("from"), api.payloads("to"), away.payloads("away")) == ([], ["2"], ["0", "1"])


@pytest.mark.feature("S4-77")
def test_a_paused_queue_gives_nothing_and_can_be_looked_into(api: ObjectsApi) -> None:
    assert api.post(api.at("queues", "work", "/pause"), {}) == (204, None)
    assert api.queue("work")["state"] == "paused"
    assert api.take("work") == []
    assert len(api.payloads("work")) == 5
    assert api.post(api.at("queues", "nix", "/pause"), {})[0] == 404


@pytest.mark.feature("S4-77")
def test_a_resumed_queue_delivers_to_those_who_wait(broker: Broker, api: ObjectsApi) -> None:
    api.post(api.at("queues", "work", "/pause"), {})
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        got: list[bytes] = []
        channel.basic_consume("work", lambda *delivery: got.append(delivery[3]), auto_ack=True)
        connection.process_data_events(0)
        assert got == []
        response, _ = api.send("POST", api.at("queues", "work", "/resume"))
        assert response.status == 204
        while len(got) < 5:
            connection.process_data_events(10)
    assert api.queue("work")["state"] == "running"


@pytest.mark.feature("S4-72")
def test_jobs_need_what_they_would_need_over_amqp(broker: Broker, api: ObjectsApi) -> None:
    reader = limited_user(broker, "reader", read="^work$")
    writer = limited_user(broker, "writer", write="^amq.default$", read="^other$")
    mover = limited_user(broker, "mover", write="^amq.default$", read="^work$")
    path, move = api.at("queues", "work", "/jobs"), {"kind": "move", "destination": "other", "dry_run": True}
    assert [user.post(path, move)[0] for user in (reader, writer, mover)] == [403, 403, 202]
    assert [user.post(path, {"kind": "delete", "dry_run": True})[0] for user in (reader, writer)] == [202, 403]
    assert [user.post(api.at("queues", "work", "/pause"), {})[0] for user in (reader, mover)] == [403, 403]
    id_ = api.get("/api/queue-jobs")[1][0]["id"]
    assert writer.delete(f"/api/queue-jobs/{id_}")[0] == 403
    assert mover.delete(f"/api/queue-jobs/{id_}") == (204, None)


@pytest.mark.parametrize("kind", ["move", "copy"])
@pytest.mark.feature("S4-77")
def test_messages_go_to_a_queue_of_another_virtual_host(broker: Broker, api: ObjectsApi, kind: str) -> None:
    """Also with tracing in both, which follows messages through a virtual host."""
    away = elsewhere(broker, "work")  # of the same name as the source
    for vhost in ("%2F", "elsewhere"):
        assert api.put(f"/api/vhosts/{vhost}", {"tracing": True})[0] == 204
    row = run(broker, api, "work", kind, destination="work", destination_vhost="elsewhere", selector="n >= 3")
    assert (row["state"], row["done"], row["skipped"]) == ("done", 2, 0)
    assert (row["vhost"], row["destination"], row["destination_vhost"]) == ("/", "work", "elsewhere")
    assert api.payloads("work") == ["0", "1", "2", *(["3", "4"] if kind == "copy" else [])]
    assert away.payloads("work") == ["3", "4"]
    assert api.post(api.at("queues", "work", "/jobs"), {"kind": kind, "destination": "work"})[0] == 400
    for wrong in ({"destination": "work", "destination_vhost": "nowhere"}, {"destination": "x"}):
        assert api.post(api.at("queues", "work", "/jobs"), {"kind": kind, **wrong})[0] == 404, wrong
    for vhost in ("%2F", "elsewhere"):
        assert api.put(f"/api/vhosts/{vhost}", {"tracing": False})[0] == 204


@pytest.mark.feature("S4-72")
def test_moving_to_another_virtual_host_needs_read_here_and_write_there(broker: Broker, api: ObjectsApi) -> None:
    away, core = elsewhere(broker, "target"), broker.node.broker
    path = api.at("queues", "work", "/jobs")
    move = {"kind": "move", "destination": "target", "destination_vhost": "elsewhere"}
    stranger = limited_user(broker, "stranger", ".*", ".*", ".*")
    assert stranger.post(path, move)[0] == 403  # no permissions there
    carrier = limited_user(broker, "carrier", read="^work$")
    for write, expected in (("", 403), ("^target$", 403), ("^amq.default$", 403), ("^(target|amq.default)$", 202)):
        broker.call(lambda write=write: core.permissions.set("carrier", "elsewhere", "", write, ""))
        assert carrier.post(path, {**move, "limit": 1})[0] == expected, write
    broker.call(lambda: core.permissions.set("carrier", "/", "", ".*", "^other$"))
    assert carrier.post(path, move)[0] == 403  # no read here
    while away.queue("target")["messages"] == 0:
        broker.call(lambda: None)
    assert (away.payloads("target"), api.payloads("work")) == (["0"], ["1", "2", "3", "4"])


def elsewhere(broker: Broker, queue: str, *, durable: bool = False) -> ObjectsApi:
    """Another virtual host with an empty queue."""
    core = broker.node.broker
    broker.call(lambda: core.add_vhost("elsewhere"))
    broker.call(lambda: core.permissions.set("guest", "elsewhere", ".*", ".*", ".*"))
    away = ObjectsApi(broker.http_url, vhost="elsewhere")
    away.delete(away.at("queues", queue))
    away.declare_queue(queue, durable=durable)
    return away


@pytest.mark.feature("S4-71")
def test_jobs_in_other_virtual_hosts_are_not_there(broker: Broker, api: ObjectsApi) -> None:
    core = broker.node.broker
    broker.call(lambda: core.add_vhost("hidden"))
    broker.call(lambda: core.permissions.set("guest", "hidden", ".*", ".*", ".*"))
    hidden = ObjectsApi(broker.http_url, vhost="hidden")
    hidden.declare_queue("q")
    id_ = run(broker, hidden, "q", "delete")["id"]
    berta = limited_user(broker, "berta", ".*", ".*", ".*")
    assert berta.get("/api/queue-jobs") == (200, [])
    assert berta.get(f"/api/queue-jobs/{id_}")[0] == 404
    assert berta.delete(f"/api/queue-jobs/{id_}")[0] == 404


@pytest.mark.feature("S4-77")
def test_a_job_whose_queue_is_deleted_is_not_called_done(broker: Broker, api: ObjectsApi) -> None:
    """Whoever reads "done" takes it that all messages are where they should be."""
    api.take("work", 5, "reject_requeue_false")
    id_ = begin(api, "dead", "redrive", rate=1)
    api.delete(api.at("queues", "dead"))
    broker.clock.advance(10)
    assert state_at_the_end(broker, api, id_) == "cancelled"
