"""``leveret serve --cells``: several processes behind the same port, with one set of definitions."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pika
import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import CellClient, client_elsewhere, clients_by_cell, until
from tests.support.cell_ports import free_ports
from tests.support.cell_processes import cell_processes, kill_cell
from tests.support.command_line import Cli
from tests.support.management_api import ManagementApi

CELLS = ("c1", "c2", "c3")
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def exists(client: CellClient, queue: str) -> bool:
    try:
        client.connection.channel().queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    return True


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("home", CELLS)
def test_queues_of_each_cell_are_used_from_all(tmp_path: Path, home: str) -> None:
    with BrokerProcess(tmp_path, "--cells", "3") as broker, clients_by_cell(broker.url(), *CELLS) as clients:
        owner = clients[home].channel
        owner.exchange_declare("logs", "topic", durable=True)
        owner.queue_declare("q", durable=True)
        owner.queue_bind("q", "logs", "#")
        for cell, client in clients.items():
            client.publisher().basic_publish("logs", f"from.{cell}", cell.encode(), PERSISTENT, mandatory=True)
        got = set()
        for client in clients.values():
            method, _, body = client.channel.basic_get("q", auto_ack=False)
            got.add((method.routing_key, body))
            client.channel.basic_ack(method.delivery_tag)
        assert got == {(f"from.{cell}", cell.encode()) for cell in CELLS}
        assert owner.queue_declare("q", passive=True).method.message_count == 0


def test_everything_durable_survives_a_restart(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--cells", "2") as broker:
        with clients_by_cell(broker.url(), "c1", "c2") as clients:
            for home, other in (("c1", "c2"), ("c2", "c1")):
                clients[home].channel.queue_declare(f"in {home}", durable=True)
                clients[home].channel.queue_bind(f"in {home}", "amq.fanout")
                publisher = clients[other].publisher()
                for number in range(50):
                    publisher.basic_publish("", f"in {home}", b"%d" % number, PERSISTENT)
        broker.terminate()
        assert broker.exit_code(20) == 0
    with BrokerProcess(tmp_path, "--cells", "2") as broker, clients_by_cell(broker.url(), "c1", "c2") as clients:
        clients["c1"].publisher().basic_publish("amq.fanout", "", b"last", PERSISTENT)
        for home, other in (("c1", "c2"), ("c2", "c1")):
            channel = clients[other].channel
            bodies = [channel.basic_get(f"in {home}", auto_ack=True)[2] for _ in range(51)]
            assert bodies == [*(b"%d" % number for number in range(50)), b"last"]


def test_a_cell_that_is_killed_comes_back_with_its_messages(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--cells", "2") as broker:
        with clients_by_cell(broker.url(), "c1", "c2") as clients:
            clients["c2"].channel.queue_declare("q", durable=True)
            publisher = clients["c1"].publisher()
            for number in range(20):
                publisher.basic_publish("", "q", b"%d" % number, PERSISTENT)
            consumed: list[bytes] = []
            clients["c1"].channel.basic_consume("q", lambda ch, m, p, body: consumed.append(body), auto_ack=False)
            (killed,) = cell_processes(broker)
            kill_cell(killed)
            until(lambda: "cell is ready again" in broker.log())
            publisher.basic_publish("", "q", b"after", PERSISTENT)
            deadline = time.monotonic() + 20
            while b"after" not in consumed and time.monotonic() < deadline:
                clients["c1"].connection.process_data_events(0.1)
        assert consumed[-21:] == [*(b"%d" % number for number in range(20)), b"after"]


def test_the_other_cells_end_with_the_first_even_if_it_is_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--cells", "3") as broker:
        broker.banner()
        others = cell_processes(broker)
        assert len(others) == 2
        os.kill(broker.process.pid, signal.SIGKILL)
        until(lambda: not any(is_running(pid) for pid in others))


def test_users_and_policies_of_the_api_count_in_all_cells(tmp_path: Path) -> None:
    flags = ("--cells", "2", "--http-port", "0")
    with BrokerProcess(tmp_path, *flags) as broker:
        api = ManagementApi(broker.url("http"))
        assert api.put("users/anna", {"password": "secret", "tags": ""})[0] == 201
        assert api.put("permissions/%2F/anna", {"configure": "", "write": ".*", "read": ".*"})[0] == 201
        url = broker.url().replace("guest:guest", "anna:secret")
        with clients_by_cell(url, "c1", "c2") as clients:
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
                clients["c2"].channel.queue_declare("q")


def test_the_api_knows_queues_of_all_cells(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--cells", "2", "--http-port", "0") as broker:
        api = ManagementApi(broker.url("http"))
        with clients_by_cell(broker.url(), "c1", "c2") as clients:
            for cell, client in clients.items():
                client.channel.queue_declare(f"in {cell}", durable=True)
            assert {row["name"] for row in api.get("queues")[1]} == {"in c1", "in c2"}
            for path in ("queues/%2F/in%20c2", "overview", "nodes", "connections", "consumers", "definitions"):
                assert api.get(path)[0] == 200, path
            assert api.delete("queues/%2F/in%20c2/contents")[0] == 204
            assert api.delete("queues/%2F/in%20c2")[0] == 204
            assert not exists(clients["c2"], "in c2")
            assert [row["name"] for row in api.get("queues")[1]] == ["in c1"]


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--cells", "2", "--cluster", "nats://127.0.0.1:1", "--cell", "c3"), "the cells c1 to c2, not 'c3'"),
        (("--cells", "0"), "from 1 to 256"),
    ],
)
def test_what_cannot_be_started_is_refused(tmp_path: Path, flags: tuple[str, ...], reason: str) -> None:
    with BrokerProcess(tmp_path, *flags) as broker:
        assert broker.exit_code(20) != 0
        assert reason in broker.log()


@pytest.mark.parametrize("cells", [1, 2])
def test_fewer_cells_than_the_data_directory_has_are_refused(tmp_path: Path, cells: int) -> None:
    (tmp_path / "data" / "cells" / "c3").mkdir(parents=True)
    with BrokerProcess(tmp_path, "--cells", str(cells)) as broker:
        assert broker.exit_code(20) == 1
        assert "has the data of 3 cells: start it with --cells 3" in broker.log()


@pytest.mark.feature("S2-11")
def test_cells_are_added_while_the_broker_runs_and_by_a_restart(tmp_path: Path) -> None:
    """The next start has the former number of cells, and the one after it a higher number."""
    http, data, shards = ports_of_cells(4), tmp_path / "data", "exchanges/%2F/orders/bindings/source"
    flags = ("--http-port", str(http), "--cells")
    with BrokerProcess(tmp_path, *flags, "2") as broker:
        api = ManagementApi(broker.url("http"))
        policy = {"pattern": "^orders$", "definition": {"shards-per-node": 1}, "apply-to": "exchanges"}
        assert api.put("policies/%2F/shards", policy)[0] == 201
        assert api.put("exchanges/%2F/orders", {"type": "x-modulus-hash", "durable": True})[0] == 201
        memory = api.get("nodes")[1][0]["mem_limit"]
        with socket.create_server(("127.0.0.1", http + 20)):
            status, refused = api.post("cells", {})
        assert (status, f"cell c3 needs port {http + 20}" in refused["reason"]) == (409, True)
        (data / "cells" / "c3").touch()
        status, failed = api.post("cells", {})
        assert (status, "no cell was added: cell c3 cannot start" in failed["reason"]) == (409, True)
        (data / "cells" / "c3").unlink()
        assert api.get("nodes")[1][0]["mem_limit"] == pytest.approx(memory, abs=3)
        assert running_cells(api) == ["c1", "c2"]
        assert Cli(broker.url("http"), tmp_path).done("cells", "add") == "cell c3 added\n"
        assert running_cells(api) == ["c1", "c2", "c3"]
        assert [row["mem_limit"] for row in api.get("nodes")[1]] == pytest.approx([memory * 2 / 3] * 3, abs=3)
        with clients_by_cell(broker.url(), "c2", "c3") as clients:
            clients["c3"].channel.queue_declare("q", durable=True, arguments={"x-queue-leader-locator": "client-local"})
            clients["c2"].publisher().basic_publish("", "q", b"kept", PERSISTENT)
        broker.terminate()
        assert broker.exit_code(20) == 0
    with BrokerProcess(tmp_path, *flags, "2") as broker:
        with clients_by_cell(broker.url(), "c1", "c3") as clients:
            assert clients["c1"].channel.basic_get("q", auto_ack=True)[2] == b"kept"
        assert "there are more cells than --cells" in broker.log()
        api = ManagementApi(broker.url("http"))
        assert api.delete("cells/c3")[0] == 204
        until(lambda: "cell removed" in broker.log())
        until(lambda: api.post("cells", {}) == (201, {"name": "c3"}))
        until(lambda: len(api.get(shards)[1]) == 3)
        kill_cell(cell_processes(broker)[-1])
        until(lambda: "cell is ready again" in broker.log())
        broker.terminate()
        assert broker.exit_code(20) == 0
    with BrokerProcess(tmp_path, *flags, "4") as broker:
        api = ManagementApi(broker.url("http"))
        until(lambda: len(api.get(shards)[1]) == 4)
        assert running_cells(api) == ["c1", "c2", "c3", "c4"]


def running_cells(api: ManagementApi) -> list[str]:
    return [row["name"] for row in api.get("cells")[1] if row["state"] == "running"]


def ports_of_cells(number: int) -> int:
    """An HTTP port of the first cell such that those of the others are free, too."""
    while True:
        (port,) = free_ports(1)
        try:
            with ExitStack() as stack:
                for place in range(number):
                    stack.enter_context(socket.create_server(("127.0.0.1", port + 10 * place)))
        except OSError:
            continue
        return port


def test_queues_are_spread_and_connections_follow_them(tmp_path: Path) -> None:
    """Clients are pika's, and notice nothing. They connect through another cell than that of their queue."""
    with BrokerProcess(tmp_path, "--cells", "3", "--queue-leader-locator", "balanced", "--http-port", "0") as broker:
        with closing(pika.BlockingConnection(pika.URLParameters(broker.url()))) as declaring:
            for number in range(6):
                declaring.channel().queue_declare(f"q{number}", durable=True)
        api = ManagementApi(broker.url("http"))
        node = api.get("overview")[1]["node"]  # the first cell has the name of the node
        homes = {row["name"]: row["node"].removeprefix(node)[1:] or "c1" for row in api.get("queues/%2F")[1]}
        assert sorted(homes.values()) == ["c1", "c1", "c2", "c2", "c3", "c3"]
        for queue, home in homes.items():
            with (
                client_elsewhere(broker.url(), home) as publishing,
                client_elsewhere(broker.url(), home) as consuming,
            ):
                publisher = publishing.publisher()
                for body in range(50):
                    publisher.basic_publish("", queue, b"%d" % body, PERSISTENT)
                consumer = consuming.channel
                consumer.basic_qos(prefetch_count=10)
                got = []
                for method, _, body in consumer.consume(queue, inactivity_timeout=20):
                    assert method is not None
                    got.append(body)
                    consumer.basic_ack(method.delivery_tag)
                    if len(got) == 50:
                        break
                assert got == [b"%d" % body for body in range(50)]
                consumer.cancel()
        moves = [line for line in broker.log().splitlines() if "connection moved to the cell of its queue" in line]
        for cell in CELLS:
            assert sum(f" cell={cell}" in line for line in moves) == 4


def test_with_the_setting_off_connections_stay(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--cells", "2", "--connections-follow-queues", "off") as broker:
        with clients_by_cell(broker.url(), "c1") as clients:
            clients["c1"].channel.queue_declare("q")
        for _ in range(12):
            with closing(pika.BlockingConnection(pika.URLParameters(broker.url()))) as connection:
                publisher = connection.channel()
                publisher.confirm_delivery()
                publisher.basic_publish("", "q", b"1")
        assert "connection moved" not in broker.log()
