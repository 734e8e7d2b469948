"""The pipeline's part of the API in a broker of two cells: every cell answers, and the home cell of a queue decides."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pyarrow as pa
import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import CellClient, clients_by_cell
from tests.support.cell_processes import cell_processes, kill_cell
from tests.support.certificates import CertificateFiles
from tests.support.http_api import HttpApi, basic
from tests.support.management_api import ManagementApi
from tests.support.spark_broker import STREAM, eventually

AT = "/api/pipeline/%2F"
CELLS = ("c1", "c2")
THREE = (*CELLS, "c3")
PERSISTENT = pika.BasicProperties(delivery_mode=2)


class Cells:
    """A broker of several cells with a stream and a queue in each: stream-c1, queue-c1, stream-c2, queue-c2, ..."""

    def __init__(self, serving: BrokerProcess, clients: dict[str, CellClient]) -> None:
        self.serving = serving
        self.clients = clients
        self.first = HttpApi(serving.url("http"))
        for cell in clients:
            channel = clients[cell].channel
            channel.queue_declare(f"stream-{cell}", durable=True, arguments=STREAM)
            channel.queue_declare(f"queue-{cell}", durable=True)
            channel.queue_bind(f"queue-{cell}", "amq.fanout")
            publisher = clients[cell].publisher()
            for number in range(5):
                for queue in (f"stream-{cell}", f"queue-{cell}"):
                    publisher.basic_publish("", queue, b"%d" % number, PERSISTENT)
        self.second = HttpApi(self.source("stream-c2")["endpoint"])

    def source(self, queue: str) -> dict[str, Any]:
        status, answer = self.first.get(f"{AT}/sources", queue=queue)
        assert status == 200, answer
        found: dict[str, Any] = answer["sources"][0]
        return found

    def count(self, queue: str) -> int:
        number: int = self.clients["c1"].channel.queue_declare(queue, passive=True).method.message_count
        return number


@pytest.fixture
def cells(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cells]:
    names = getattr(request, "param", CELLS)
    with BrokerProcess(tmp_path, "--cells", str(len(names)), "--http-port", "0") as serving:
        with clients_by_cell(serving.url(), *names) as clients:
            yield Cells(serving, clients)
        assert "Traceback" not in serving.log()


def arrow(*bodies: bytes) -> bytes:
    batch = pa.record_batch({"body": pa.array(bodies, pa.binary())})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def stage(api: HttpApi, batch: int, *bodies: bytes) -> str:
    status, answer = api.post(f"{AT}/stages", arrow(*bodies), transaction="T", batch=batch, exchange="amq.fanout")
    assert status == 200, answer
    return str(answer["stage"])


def commit(api: HttpApi, batch: int, *stages: str) -> Any:
    return api.post(f"{AT}/commits", {"transaction": "T", "batch": batch, "stages": stages})


@pytest.mark.parametrize("cells", [THREE], indirect=True)
def test_every_cell_lists_and_reads_the_queues_of_all(cells: Cells) -> None:
    """Also the cells that are not the first one, of each other."""
    ports = {cell: cells.source(f"stream-{cell}")["endpoint"] for cell in THREE}
    assert len(set(ports.values())) == 3
    for api in (cells.first, cells.second):
        _, answer = api.get(f"{AT}/sources", pattern="stream-.*")
        rows = [(row["queue"], row["partition"], row["kind"], row["next"]) for row in answer["sources"]]
        assert rows == [(f"stream-{cell}", place, "stream", 5) for place, cell in enumerate(THREE)]
        assert {row["queue"].removeprefix("stream-"): row["endpoint"] for row in answer["sources"]} == ports
        for cell in THREE:
            for queue in (f"stream-{cell}", f"queue-{cell}"):
                bodies = [row["body"] for row in api.rows(f"{AT}/messages", queue=queue)]
                assert bodies == [b"%d" % number for number in range(5)]
        _, found = api.get(f"{AT}/offsets", queue=["stream-c2", "stream-c1"], timestamp=0)
        assert [(row["queue"], row["at"]) for row in found["offsets"]] == [("stream-c2", 0), ("stream-c1", 0)]
    for number in range(5):  # at once, so the third cell may not have the queue yet
        cells.clients["c2"].channel.queue_declare(f"new-{number}", arguments={"x-queue-leader-locator": "balanced"})
    _, answer = cells.second.get(f"{AT}/sources", pattern="new-.*")
    assert len(answer["sources"]) == 5


def test_a_super_stream_has_the_partitions_of_all_cells_in_one_order(cells: Cells) -> None:
    channel = cells.clients["c1"].channel
    channel.exchange_declare("super", "direct", durable=True, arguments={"x-super-stream": True})
    for key, cell in (("0", "c2"), ("1", "c1")):
        channel.queue_bind(f"stream-{cell}", "super", key)
    wanted = ["stream-c2", "stream-c1"]
    for api in (cells.first, cells.second):
        eventually(lambda api=api: partitions_of(api) == wanted)  # type: ignore[misc]


def partitions_of(api: HttpApi) -> list[str]:
    status, answer = api.get(f"{AT}/sources", super_stream="super")
    return [row["queue"] for row in answer["sources"]] if status == 200 else []


def test_leases_and_stored_offsets_are_in_the_home_cell_whichever_is_asked(cells: Cells) -> None:
    wanted = {"consumer": "c", "queue": "queue-c2", "after": 0, "max_messages": 3}
    for api in (cells.first, cells.second):
        assert api.post(f"{AT}/leases", wanted)[1]["lease"] == 1
        assert len(api.rows(f"{AT}/leases/messages", queue="queue-c2", consumer="c", lease=1)) == 3
        for query in ({"queue": "queue-c2"}, {}):
            assert [lease["messages"] for lease in api.get(f"{AT}/leases", **query)[1]["leases"]] == [3]
    for api in (cells.first, cells.second):
        assert api.post(f"{AT}/leases/commit", {"consumer": "c", "queue": "queue-c2", "through": 1})[0] == 200
    assert cells.count("queue-c2") == 2
    reader = {"consumer": "c", "queue": "queue-c2", "wait": 1}
    assert cells.first.post(f"{AT}/leases/readers", {**reader, "reader": "one"})[0] == 200
    assert [
        api.post(f"{AT}/leases/readers", {**reader, "reader": "two"})[0] for api in (cells.first, cells.second)
    ] == [409, 409]
    cells.first.put(f"{AT}/consumers", {"consumer": "c", "queue": "stream-c2", "offset": 2, "pinned": False})
    for api in (cells.first, cells.second):
        for query in ({"queue": "stream-c2"}, {}):
            assert [row["offset"] for row in api.get(f"{AT}/consumers", **query)[1]["consumers"]] == [2]
    assert cells.second.delete(f"{AT}/consumers", queue="stream-c2", consumer="c")[0] == 200
    assert cells.first.get(f"{AT}/consumers", queue="stream-c2")[1]["consumers"] == []


def test_every_cell_has_a_schema_as_soon_as_it_is_added(cells: Cells) -> None:
    for number in range(1, 6):  # at once, so the second cell may not have its copy yet
        schema = {"type": "json", "schema": f"a{number} INT", "compatibility": "none"}
        status, added = cells.first.put("/api/schemas/%2F/orders", schema)
        assert (status, added["version"]) == (201, number)
        assert cells.second.get(f"{AT}/schemas", id=added["id"])[1]["schema"] == f"a{number} INT"
        assert cells.second.get(f"{AT}/schemas", name="orders", version=number)[1]["id"] == added["id"]
    assert cells.second.get(f"{AT}/schemas", name="none")[0] == 404
    assert "has no version 9" in cells.second.get(f"{AT}/schemas", name="orders", version=9)[1]["reason"]


def test_a_transaction_is_in_one_place_whichever_cell_is_asked(cells: Cells) -> None:
    stages = [stage(cells.first, 0, b"a"), stage(cells.second, 0, b"b")]
    assert commit(cells.second, 0, *stages) == (200, {"duplicate": False, "messages": 2, "unroutable": 0})
    for api in (cells.first, cells.second):
        assert commit(api, 0, *stages)[1]["duplicate"] is True
        assert api.get(f"{AT}/commits", transaction="T")[1]["last_batch"] == 0
    assert (cells.count("queue-c1"), cells.count("queue-c2")) == (7, 7)


def test_a_commit_to_a_cell_that_is_killed_arrives_once(cells: Cells) -> None:
    ids = [stage(cells.first, batch, *(b"%d" % number for number in range(2_000))) for batch in range(3)]
    assert commit(cells.first, 0, ids[0])[0] == 200
    (second,) = cell_processes(cells.serving)
    kill_cell(second)
    assert commit(cells.first, 1, ids[1])[0] == 200
    eventually(lambda: "cell is ready again" in cells.serving.log())
    assert commit(cells.first, 2, ids[2])[0] == 200
    eventually(lambda: cells.count("queue-c2") >= 6_005)
    assert (cells.count("queue-c1"), cells.count("queue-c2")) == (6_005, 6_005)


def test_requests_for_a_cell_that_is_away_may_be_repeated(cells: Cells) -> None:
    """Another cell does not lose its queues from the list: a query would take that for lost data."""
    (second,) = cell_processes(cells.serving)
    kill_cell(second)
    eventually(lambda: cells.first.get(f"{AT}/sources", pattern="stream-.*")[0] == 503)
    response, _ = cells.first.send("GET", f"{AT}/messages?queue=stream-c2")
    assert (response.status, response.getheader("retry-after")) == (503, "1")
    assert cells.first.get(f"{AT}/sources", queue="stream-c1")[0] == 200
    eventually(lambda: cells.first.get(f"{AT}/sources", pattern="stream-.*")[0] == 200, 60)


def test_requests_that_are_meant_for_another_cell_are_refused(cells: Cells) -> None:
    identities = {cell: cells.source(f"stream-{cell}")["cell"] for cell in CELLS}
    cases = {
        (cells.second, identities["c2"], "stream-c2"): (200, identities["c2"]),
        (cells.second, identities["c1"], "stream-c1"): (421, None),
        (cells.first, identities["c2"], "stream-c2"): (421, None),
        (cells.first, "c1-0123456789abcdef", "stream-c1"): (421, None),
        (cells.second, identities["c2"], "stream-c1"): (421, None),
    }
    for (api, identity, queue), wanted in cases.items():
        connection = api.connect()
        connection.request("GET", f"{AT}/messages?queue={queue}", headers=api.headers | {"Leveret-Cell": identity})
        response = connection.getresponse()
        assert (response.status, response.getheader("leveret-cell")) == wanted, response.read()
        connection.close()


def test_permissions_count_in_every_cell(cells: Cells) -> None:
    api = ManagementApi(cells.serving.url("http"))
    assert api.put("users/anna", {"password": "secret", "tags": ""})[0] == 201
    assert api.put("permissions/%2F/anna", {"configure": "", "write": "", "read": "stream-c2"})[0] == 201
    for url in (cells.source(f"stream-{cell}")["endpoint"] for cell in CELLS):
        anna = HttpApi(url, "anna", "secret")
        eventually(lambda anna=anna: anna.get(f"{AT}/sources", queue="stream-c2")[0] == 200)  # type: ignore[misc]
        assert anna.get(f"{AT}/sources", queue="queue-c2")[0] == 403
        assert anna.get(f"{AT}/offsets", queue="stream-c1")[0] == 403
        assert HttpApi(url, "anna", "wrong").get(f"{AT}/sources")[0] == 401


def test_a_commit_arrives_once_if_all_cells_are_killed_before_the_transfer(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--cells", "2", "--http-port", "0") as serving:
        with clients_by_cell(serving.url(), *CELLS) as clients:
            cells = Cells(serving, clients)
            id_ = stage(cells.first, 0, *(b"%d" % number for number in range(2_000)))
            clients["c1"].channel.queue_declare("behind", durable=True)
            (second,) = cell_processes(serving)
            os.kill(second, signal.SIGSTOP)  # it accepts connections, and answers nothing
            connection = cells.first.connect()
            body = json.dumps({"transaction": "T", "batch": 0, "stages": [id_]})
            connection.request("POST", f"{AT}/commits", body, cells.first.headers)
            eventually(lambda: cells.count("queue-c1") == 2_005)
            clients["c1"].publisher().basic_publish("", "behind", b"", PERSISTENT)  # confirmed: the commit is on disk
            for pid in (serving.process.pid, second):
                os.kill(pid, signal.SIGKILL)
            connection.close()
    with BrokerProcess(tmp_path, "--cells", "2", "--http-port", "0") as serving:
        again = HttpApi(serving.url("http"))
        assert commit(again, 0, id_)[1]["duplicate"] is True
        with clients_by_cell(serving.url(), *CELLS) as clients:

            def count(queue: str) -> int:
                found: int = clients["c1"].channel.queue_declare(queue, passive=True).method.message_count
                return found

            eventually(lambda: count("queue-c2") >= 2_005)
            assert (count("queue-c1"), count("queue-c2")) == (2_005, 2_005)


def test_cells_with_https_name_their_own_ports(tmp_path: Path) -> None:
    """Between the cells no certificate is needed."""
    files = CertificateFiles(tmp_path)
    flags = ("--cells", "2", "--https-port", "0", *files.flags())
    with BrokerProcess(tmp_path, *flags) as serving, clients_by_cell(serving.url(), *CELLS) as clients:
        clients["c2"].channel.queue_declare("stream-c2", durable=True, arguments=STREAM)
        url, login = serving.url("https"), {"Authorization": basic("guest", "guest")}
        source = answer_of(f"{url}{AT}/sources?queue=stream-c2", login, files)["sources"][0]
        assert source["endpoint"].startswith("https://127.0.0.1:")
        assert source["endpoint"] != url.rstrip("/")
        direct = login | {"Leveret-Cell": source["cell"]}
        assert answer_of(f"{source['endpoint']}{AT}/sources?queue=stream-c2", direct, files)["sources"] == [source]


def answer_of(url: str, headers: dict[str, str], files: CertificateFiles) -> Any:
    parts = urlsplit(url)
    connection = http.client.HTTPSConnection(parts.netloc, timeout=20, context=files.client())
    connection.request("GET", f"{parts.path.replace('//', '/')}?{parts.query}", headers=headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    found = json.loads(response.read())
    connection.close()
    return found
