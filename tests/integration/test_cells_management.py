"""The management API of ``leveret serve --cells``: the cells are one cluster, whichever cell an object is in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest

from tests.integration.test_cells import until
from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import clients_by_cell
from tests.support.http_api import HttpApi
from tests.support.managed_cells import ManagedCells
from tests.support.management_api import ManagementApi, in_path

CELLS = ("c1", "c2", "c3")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagedCells]:
    folder = tmp_path_factory.mktemp("cells")
    with (
        BrokerProcess(folder, "--cells", "3", "--http-port", "0") as broker,
        clients_by_cell(broker.url(), *CELLS) as clients,
    ):
        yield ManagedCells(broker, ManagementApi(broker.url("http")), clients)


# ---- lists


def test_connections_and_channels_of_all_cells_are_listed_without_links(cells: ManagedCells) -> None:
    for cell in ("c2", "c3"):
        cells.declare(cell, f"linked {cell}", messages=1)
    for path in ("connections", "channels", "vhosts/%2F/connections", "vhosts/%2F/channels"):
        assert {row["node"] for row in cells.rows(path)} == {cells.node(cell) for cell in CELLS}, path
    assert {row["protocol"] for row in cells.rows("connections")} == {"AMQP 0-9-1"}
    totals = cells.api.get("overview")[1]["object_totals"]
    assert totals["connections"] == len(cells.rows("connections"))
    assert totals["channels"] == len(cells.rows("channels"))


def test_data_rates_are_of_the_clients_of_all_cells_without_links(cells: ManagedCells) -> None:
    """Messages of a client of c1 to a queue of c2 also go over a link."""
    cells.declare("c2", "far", messages=0)
    before = cells.api.get("overview")[1]
    channel = cells.clients["c1"].channel
    channel.basic_publish("", "far", b"x" * 100_000)
    for cell in CELLS:
        cells.clients[cell].channel.basic_publish("", "far", b"x" * 10_000)
    until(lambda: channel.queue_declare("far", passive=True).method.message_count == 4)
    for _ in range(4):
        channel.basic_get("far", auto_ack=True)
    after = cells.api.get("overview")[1]
    for name in ("recv_oct", "send_oct"):
        assert 130_000 < after[name] - before[name] < 140_000, name
        assert "rate" in after[f"{name}_details"], name


@pytest.mark.parametrize("path", ["connections", "channels", "queues", "consumers", "nodes"])
def test_a_list_is_limited_to_one_node(cells: ManagedCells, path: str) -> None:
    for cell in CELLS:
        cells.declare(cell, f"limited {cell}")
        cells.clients[cell].channel.basic_consume(f"limited {cell}", lambda *_: None, consumer_tag="limited")
    node = {"consumers": lambda row: row["channel_details"]["node"], "nodes": lambda row: row["name"]}
    shown = node.get(path, lambda row: row["node"])
    for cell in CELLS:
        found = cells.rows(path, node=cells.node(cell))
        assert found
        assert {shown(row) for row in found} == {cells.node(cell)}
    assert cells.api.get(path, node="nowhere")[0] == (200 if path == "nodes" else 400)
    for client in cells.clients.values():
        client.channel.basic_cancel("limited")


def test_queues_are_listed_once_with_their_home_and_what_it_counts(cells: ManagedCells) -> None:
    for place, cell in enumerate(CELLS):
        cells.declare(cell, f"counted {cell}", messages=place + 1)
    found = {row["name"]: row for row in cells.rows("queues", name="counted")}
    assert {name: (row["node"], row["messages"], row["message_stats"]["publish"]) for name, row in found.items()} == {
        f"counted {cell}": (cells.node(cell), place + 1, place + 1) for place, cell in enumerate(CELLS)
    }


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_pages_are_cut_from_the_sorted_list_of_all_cells(cells: ManagedCells, reverse: str) -> None:
    names = [f"paged {number}" for number in range(7)]
    for number, name in enumerate(names):
        cells.declare(CELLS[number % 3], name)
    expected = names[::-1] if reverse == "true" else names
    got = []
    for page in (1, 2, 3):
        query = {"name": "paged", "sort": "name", "sort_reverse": reverse, "page": page, "page_size": 3}
        value = cells.api.get("queues", **query, columns="name")[1]
        assert (value["filtered_count"], value["page_count"], value["page"]) == (7, 3, page)
        assert value["total_count"] == len(cells.rows("queues"))
        got += value["items"]
    assert got == [{"name": name} for name in expected]
    assert cells.api.get("queues", name="paged", page=4, page_size=3)[0] == 400
    far = cells.api.get("queues", name="paged", sort="name", sort_reverse=reverse, page=1, page_size=500)[1]
    assert [row["name"] for row in far["items"]] == expected
    whole = cells.rows("queues", name="paged", sort="name", sort_reverse=reverse, columns="name")
    assert whole == [{"name": name} for name in expected]


def test_messages_held_through_another_cell_are_counted_apart(cells: ManagedCells) -> None:
    path = cells.declare("c2", "held", messages=5)
    cells.clients["c1"].channel.basic_qos(prefetch_count=2)
    cells.clients["c1"].channel.basic_consume("held", lambda *_: None, consumer_tag="holder")
    assert cells.clients["c2"].channel.basic_get("held")[0] is not None

    def counts() -> tuple[int, int, int]:
        found = cells.api.get(f"{path}/unacked")[1]
        return len(found["messages"]), found["held_by_clients"], found["held_by_other_cells"]

    until(lambda: counts() == (1, 1, 2))
    cells.clients["c1"].channel.basic_cancel("holder")


def test_consumers_are_listed_once_in_the_cell_of_their_client(cells: ManagedCells) -> None:
    path = cells.declare("c2", "shared")
    for cell, client in cells.clients.items():
        client.channel.basic_consume("shared", lambda *_: None, consumer_tag=f"of {cell}")
    expected = {f"of {cell}": cells.node(cell) for cell in CELLS}
    listed = [row for row in cells.rows("consumers") if row["queue"]["name"] == "shared"]
    detail = cells.api.get(path)[1]
    for rows in (listed, detail["consumer_details"]):
        assert {row["consumer_tag"]: row["channel_details"]["node"] for row in rows} == expected
        assert len(rows) == 3
    assert detail["consumers"] == 3
    for cell, client in cells.clients.items():
        client.channel.basic_cancel(f"of {cell}")


# ---- requests about one object


def purge(api: ManagementApi, path: str) -> tuple[int, object]:
    return api.delete(f"{path}/contents")[0], api.get(path)[1]["messages"]


def get(api: ManagementApi, path: str) -> tuple[int, object]:
    status, got = api.post(f"{path}/get", {"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"})
    return status, [row["payload"] for row in got]


def browse(api: ManagementApi, path: str) -> tuple[int, object]:
    status, seen = api.get(f"{path}/messages", limit=2)
    return status, [row["payload"] for row in seen["messages"]]


def delete_messages(api: ManagementApi, path: str) -> tuple[int, object]:
    status, begun = api.post(f"{path}/jobs", {"kind": "delete", "limit": 2})
    until(lambda: api.get(f"queue-jobs/{begun['id']}")[1]["state"] == "done")
    assert [row["done"] for row in api.get("queue-jobs")[1] if row["id"] == begun["id"]] == [2]
    return status, api.get(path)[1]["messages"]


def move_messages(api: ManagementApi, path: str) -> tuple[int, object]:
    status, begun = api.post(f"{path}/jobs", {"kind": "move", "destination": "kept in c1"})
    until(lambda: api.get(f"queue-jobs/{begun['id']}")[1]["state"] == "done")
    until(lambda: api.get("queues/%2F/kept%20in%20c1")[1]["messages"] == 3)
    api.delete("queues/%2F/kept%20in%20c1/contents")
    return status, api.get(path)[1]["messages"]


def pause(api: ManagementApi, path: str) -> tuple[int, object]:
    status = api.post(f"{path}/pause", {})[0]
    states = [api.get(path)[1]["state"]]
    assert api.post(f"{path}/resume", {})[0] == 204
    return status, [*states, api.get(path)[1]["state"]]


def delete_unless_used(api: ManagementApi, path: str) -> tuple[int, object]:
    return api.delete(f"{path}?if-empty=true")[0], api.get(path)[0]


def delete(api: ManagementApi, path: str) -> tuple[int, object]:
    return api.delete(path)[0], api.get(path)[0]


@pytest.mark.parametrize("home", CELLS)
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (purge, (204, 0)),
        (get, (200, ["0", "1"])),
        (browse, (200, ["0", "1"])),
        (delete_messages, (202, 1)),
        (move_messages, (202, 0)),
        (pause, (204, ["paused", "running"])),
        (delete_unless_used, (400, 200)),
        (delete, (204, 404)),
    ],
)
def test_a_queue_is_managed_in_its_home_cell(
    cells: ManagedCells,
    home: str,
    act: Callable[[ManagementApi, str], tuple[int, object]],
    expected: tuple[int, object],
) -> None:
    cells.declare("c1", "kept in c1")
    path = cells.declare(home, f"{act.__name__} in {home}", messages=3)
    assert act(cells.api, path) == expected


def test_a_message_published_over_http_reaches_a_queue_of_another_cell(cells: ManagedCells) -> None:
    path = cells.declare("c3", "published")
    message = {"properties": {}, "routing_key": "published", "payload": "hello", "payload_encoding": "string"}
    assert cells.api.post("exchanges/%2F/amq.default/publish", message) == (200, {"routed": True})
    assert get(cells.api, path) == (200, ["hello"])


def test_a_full_queue_of_another_cell_refuses_a_message_published_over_http(cells: ManagedCells) -> None:
    path = cells.declare("c3", "full", max_length=1, overflow="reject-publish")
    message = {"properties": {}, "routing_key": "full", "payload": "first", "payload_encoding": "string"}
    assert cells.api.post("exchanges/%2F/amq.default/publish", message) == (200, {"routed": True})
    status, answer = cells.api.post("exchanges/%2F/amq.default/publish", message | {"payload": "second"})
    assert (status, "full and refuses" in answer["reason"]) == (400, True)
    assert get(cells.api, path) == (200, ["first"])


def test_the_aliveness_test_works_with_a_queue_of_another_cell(cells: ManagedCells) -> None:
    cells.clients["c3"].channel.queue_declare("aliveness-test")
    for _ in range(2):
        assert cells.api.get("aliveness-test/%2F") == (200, {"status": "ok"})
    assert cells.clients["c3"].channel.queue_declare("aliveness-test", passive=True).method.message_count == 0


@pytest.mark.parametrize("cell", CELLS)
def test_a_connection_is_shown_and_closed_whichever_cell_it_is_in(cells: ManagedCells, cell: str) -> None:
    with clients_by_cell(cells.broker.url(), *CELLS) as clients:
        before = {row["name"] for row in cells.rows("connections", node=cells.node(cell))}
        impl: Any = clients[cell].connection._impl
        port = impl._transport._sock.getsockname()[1]
        (name,) = [each for each in before if f":{port} ->" in each]
        assert cells.api.get(f"connections/{in_path(name)}")[1]["node"] == cells.node(cell)
        assert [row["node"] for row in cells.rows(f"connections/{in_path(name)}/channels")] == [cells.node(cell)]
        assert cells.api.get(f"channels/{in_path(name + ' (1)')}")[1]["node"] == cells.node(cell)
        assert cells.api.delete(f"connections/{in_path(name)}")[0] == 204
        with pytest.raises(pika.exceptions.AMQPError):
            clients[cell].channel.queue_declare("refused", passive=True)
    assert cells.api.get(f"connections/{in_path(name)}")[0] == 404


def test_the_connections_of_a_user_are_closed_in_all_cells(cells: ManagedCells) -> None:
    cells.api.put("users/anna", {"password": "secret", "tags": ""})
    cells.api.put("permissions/%2F/anna", {"configure": ".*", "write": ".*", "read": ".*"})
    url = cells.broker.url().replace("guest:guest", "anna:secret")
    with clients_by_cell(url, *CELLS):
        assert {row["node"] for row in cells.rows("connections/username/anna")} == {cells.node(cell) for cell in CELLS}
        assert cells.api.delete("connections/username/anna")[0] == 204
        until(lambda: cells.rows("connections/username/anna") == [])


def test_permissions_are_checked_in_the_home_cell(cells: ManagedCells) -> None:
    path = cells.declare("c2", "protected", messages=1)
    cells.api.put("users/berta", {"password": "secret", "tags": "management"})
    cells.api.put("permissions/%2F/berta", {"configure": "", "write": "", "read": ""})
    berta = ManagementApi(cells.broker.url("http"), "berta", "secret")
    assert berta.delete(f"{path}/contents")[0] == 403
    assert berta.get(f"{path}/messages")[0] == 403
    assert berta.get("connections") == (200, [])
    cells.api.put("permissions/%2F/berta", {"configure": "", "write": "", "read": ".*"})
    assert berta.delete(f"{path}/contents")[0] == 204  # the new permissions have arrived there


# ---- sums


def test_the_overview_and_the_virtual_hosts_count_each_message_once(cells: ManagedCells) -> None:
    assert cells.api.put("vhosts/sums")[0] == 201
    with clients_by_cell(cells.url("sums"), *CELLS) as clients:
        for cell, client in clients.items():
            client.channel.queue_declare(f"sum {cell}", durable=True)
            client.channel.queue_bind(f"sum {cell}", "amq.fanout")
        for client in clients.values():
            client.publisher().basic_publish("amq.fanout", "", b"hello")
        clients["c1"].channel.basic_get("sum c3", auto_ack=True)
        row = cells.api.get("vhosts/sums")[1]
        assert (row["messages"], row["message_stats"]["publish"], row["message_stats"]["confirm"]) == (8, 3, 3)
        assert row["message_stats"]["get"] + row["message_stats"]["get_no_ack"] == 1
        assert row["cluster_state"] == {cells.node(cell): "running" for cell in CELLS}
        exchange = cells.api.get("exchanges/sums/amq.fanout")[1]["message_stats"]
        assert (exchange["publish_in"], exchange["publish_out"]) == (3, 3)
        listed = next(row for row in cells.rows("exchanges/sums") if row["name"] == "amq.fanout")
        assert listed["message_stats"]["publish_in"] == 3
    overview = cells.api.get("overview")[1]
    assert overview["object_totals"]["queues"] == len(cells.rows("queues"))
    assert overview["object_totals"]["exchanges"] == len(cells.rows("exchanges"))
    assert overview["queue_totals"]["messages"] == sum(row["messages"] for row in cells.rows("queues"))
    assert {row["node"] for row in overview["listeners"]} == {cells.node(cell) for cell in CELLS}
    cells.api.delete("vhosts/sums")


def test_every_cell_is_a_node_with_its_own_process(cells: ManagedCells) -> None:
    nodes = {row["name"]: row for row in cells.rows("nodes")}
    assert list(nodes) == [cells.node(cell) for cell in CELLS]
    assert len({row["os_pid"] for row in nodes.values()}) == 3
    for name, row in nodes.items():
        assert row["running"]
        assert row["mem_used"] > 0 < row["fd_used"]
        assert cells.api.get(f"nodes/{in_path(name)}")[1]["os_pid"] == row["os_pid"]
        assert cells.api.get(f"nodes/{in_path(name)}/memory")[1]["memory"]["total"]["rss"] > 0
        assert cells.api.get(f"healthchecks/node/{in_path(name)}")[0] == 200
        assert cells.api.post(f"vhosts/%2F/start/{in_path(name)}")[0] == 204


def test_metrics_have_each_cell_as_a_label_and_each_queue_once(cells: ManagedCells) -> None:
    cells.declare("c2", "measured", messages=2)
    http = HttpApi(cells.broker.url("http"))
    text = http.send("GET", "/metrics")[1].decode()
    lines = [line for line in text.splitlines() if line.startswith("rabbitmq_queue_messages_ready{")]
    assert [line.split("{")[1].split("}")[0] for line in lines] == ['cell="c1"', 'cell="c2"', 'cell="c3"']
    assert text.count("# TYPE rabbitmq_queue_messages_ready gauge") == 1
    text = http.send("GET", "/metrics/per-object")[1].decode()
    assert [
        line for line in text.splitlines() if line.startswith("rabbitmq_queue_messages_ready{") and "measured" in line
    ] == ['rabbitmq_queue_messages_ready{cell="c2",vhost="/",queue="measured"} 2']


# ---- streams, dead letters, schedules, traces, leases


def test_a_stream_of_another_cell_is_listed_and_browsed(cells: ManagedCells) -> None:
    cells.declare("c3", "log", messages=3, queue_type="stream")
    assert [(row["name"], row["messages"]) for row in cells.rows("streams", name="log")] == [("log", 3)]
    assert cells.api.get("streams/%2F/log")[1]["next_offset"] == 3
    seen = cells.api.get("streams/%2F/log/messages", offset="first")[1]["messages"]
    assert [row["payload"] for row in seen] == ["0", "1", "2"]


def test_dead_letters_of_all_cells_are_counted(cells: ManagedCells) -> None:
    for cell in ("c2", "c3"):
        cells.declare(cell, f"dead {cell}")
        arguments = {"dead_letter_exchange": "", "dead_letter_routing_key": f"dead {cell}"}
        cells.declare(cell, f"alive {cell}", messages=1, **arguments)
        channel = cells.clients["c1"].channel
        channel.basic_nack(channel.basic_get(f"alive {cell}")[0].delivery_tag, requeue=False)
        until(lambda cell=cell: cells.api.get(f"queues/%2F/dead%20{cell}")[1]["messages"] == 1)  # type: ignore[misc]
    view = cells.api.get("dead-letters")[1]
    assert {(row["queue"], row["messages"]) for row in view["groups"]} == {("dead c2", 1), ("dead c3", 1)}
    assert (view["examined"], view["is_complete"]) == (2, True)


def test_scheduled_messages_of_all_cells_are_listed_and_cancelled(cells: ManagedCells) -> None:
    cells.declare("c1", "later")
    for cell in CELLS:
        properties = pika.BasicProperties(headers={"x-deliver-at": 4_000_000_000_000 + CELLS.index(cell)})
        cells.clients[cell].publisher().basic_publish("", "later", b"hello", properties)
    view = cells.api.get("schedules/%2F")[1]
    assert (view["count"], len({row["id"] for row in view["messages"]})) == (3, 3)
    for row in view["messages"]:
        response, body = cells.api.http.send("GET", f"/api/schedules/%2F/{in_path(row['id'])}/body")
        assert (response.status, body) == (200, b"hello")
        assert cells.api.delete(f"schedules/%2F/{in_path(row['id'])}")[0] == 204
    assert cells.api.get("schedules/%2F")[1]["count"] == 0


def test_traces_of_all_cells_are_listed_and_shown(cells: ManagedCells) -> None:
    assert cells.api.put("vhosts/traced", {"tracing": True})[0] == 201
    with clients_by_cell(cells.url("traced"), *CELLS) as clients:
        for cell, client in clients.items():
            client.channel.queue_declare(f"traced {cell}")
            client.publisher().basic_publish("", f"traced {cell}", b"hello", pika.BasicProperties(message_id=cell))
        found = {row["message_id"]: row["id"] for row in cells.rows("traces/traced")}
        assert set(found) == set(CELLS)
        for cell, id_ in found.items():
            assert cells.api.get(f"traces/traced/{in_path(id_)}")[1]["message_id"] == cell
        assert [row["traces"] for row in cells.rows("traces")] == [3]
        assert cells.api.delete("traces/traced")[0] == 204
        assert cells.rows("traces/traced") == []
    cells.api.delete("vhosts/traced")


@pytest.mark.parametrize("home", CELLS)
def test_a_queue_is_leased_in_its_home_cell(cells: ManagedCells, home: str) -> None:
    queue = f"leased in {home}"
    cells.declare(home, queue, messages=3)
    status, lease = cells.api.post("pipeline/%2F/leases", {"queue": queue, "consumer": "spark", "max_messages": 2})
    assert (status, lease["messages"]) == (200, 2)
    assert [row["messages"] for row in cells.rows("leases") if row["queue"] == queue] == [2]
    shown = cells.api.get("pipeline/%2F/leases")[1]["leases"]
    assert [row["messages"] for row in shown if row["queue"] == queue] == [2]
    path = f"/api/pipeline/%2F/leases/messages?queue={in_path(queue)}&consumer=spark&lease={lease['lease']}"
    response, body = cells.api.http.send("GET", path)
    assert response.status == 200, body
    committed = {"queue": queue, "consumer": "spark", "through": lease["lease"]}
    assert cells.api.post("pipeline/%2F/leases/commit", committed)[1]["messages"] == 2
    assert cells.api.get(f"queues/%2F/{in_path(queue)}")[1]["messages"] == 1
