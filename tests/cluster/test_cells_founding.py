"""Cells of one machine become replicated cells, with their queues and messages, and grow by another cell."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import clients_by_cell
from tests.support.cell_machines import CellMachines
from tests.support.nats_servers import NatsServers

PERSISTENT = pika.BasicProperties(delivery_mode=2)
CELLS = ("c1", "c2")


@pytest.mark.timeout(400)
def test_cells_of_one_machine_become_replicated_cells(own_servers: NatsServers, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--cells", "2") as broker:
        with clients_by_cell(broker.url(), *CELLS) as clients:
            for cell, client in clients.items():
                client.channel.queue_declare(f"in {cell}", durable=True)
                for _ in range(2):
                    client.publisher().basic_publish("", f"in {cell}", cell.encode(), PERSISTENT)
        broker.terminate()
        assert broker.exit_code(20) == 0
    with CellMachines(tmp_path, own_servers, nodes=2, cells=2) as machines:
        first, second = machines.nodes
        (tmp_path / "data").rename(first.data)
        first.start()
        first.wait_for("is ready as")
        second.start()
        second.wait_for("is ready as")
        machines.await_members("guest")
        first.kill()
        for cell in CELLS:
            assert machines.led_by(cell, but="a", user="guest") == "b"
        with machines.clients("b", *CELLS, url=second.url.replace("admin:admin", "guest:guest")) as clients:
            for cell, other in (CELLS, CELLS[::-1]):
                assert clients[other].channel.basic_get(f"in {cell}", auto_ack=True)[2] == cell.encode()
        machines.restart_with(first, 3)  # the leader of c1 has the former number
        guest = [node.url.replace("admin:admin", "guest:guest") for node in machines.nodes]
        with machines.clients("a", "c3", url=guest[0]) as new, machines.clients("b", "c1", url=guest[1]) as old:
            for cell in CELLS:
                assert new["c3"].channel.basic_get(f"in {cell}", auto_ack=True)[2] == cell.encode()
            new["c3"].channel.queue_declare("in c3", durable=True)
            for _ in range(2):
                old["c1"].publisher().basic_publish("", "in c3", b"c3", PERSISTENT, mandatory=True)
            assert old["c1"].channel.basic_get("in c3", auto_ack=True)[2] == b"c3"
            api = machines.api(second, "guest")
            assert {row["name"]: row["home"] for row in api.get("queues")[1]} == {f"in {c}": c for c in machines.cells}
            assert [row["state"] for row in api.get("cells")[1]] == ["running"] * 3
        machines.restart_with(second, 3)
        machines.await_members("guest")
        with machines.clients("b", "c2", url=guest[1]) as clients:
            assert clients["c2"].channel.basic_get("in c3", auto_ack=True)[2] == b"c3"
