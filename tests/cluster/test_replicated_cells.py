"""Two replicated cells over three nodes: clients of one use queues of the other, also while leaders are killed.

All tests use one cluster, and leave it with a leader for each cell.
Length: a second file would start a second cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from threading import Event, Thread

import pika
import pytest
from pika.exceptions import AMQPError, NackError

from tests.support.cell_clients import CellClient
from tests.support.cell_load import PARKED
from tests.support.cell_machines import CellMachines
from tests.support.cell_node import until
from tests.support.command_line import Cli
from tests.support.crossing_load import CrossingLoad
from tests.support.nats_servers import NatsServers
from tests.support.shard_load import Load as ShardLoad

pytestmark = pytest.mark.timeout(400)
PERSISTENT = pika.BasicProperties(delivery_mode=2)
CELLS = ("c1", "c2")


@pytest.fixture(scope="module")
def machines(own_servers: NatsServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellMachines]:
    with CellMachines(tmp_path_factory.mktemp("machines"), own_servers, nodes=3, cells=2) as started:
        started.start()
        started.await_ready()
        started.await_members()
        yield started


@pytest.fixture
def apart(machines: CellMachines) -> dict[str, str]:
    """The leaders of both cells, on different nodes, with all members up to date."""
    machines.await_members()
    assert machines.api().post("cluster/cells/balance", {})[0] == 202

    def look() -> dict[str, str] | None:
        leaders = {cell: row["leader"] for cell, row in machines.rows().items()}
        return leaders if None not in leaders.values() and len(set(leaders.values())) == len(CELLS) else None

    leaders = until(look, 20, machines.logs)
    machines.await_members()
    return leaders


def get_all(client: CellClient, queue: str) -> list[tuple[bytes, bool]]:
    """Bodies, and whether they are marked as redelivered."""
    found = []
    while (got := client.channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append((got[2], got[0].redelivered))
    return found


class Load(Thread):
    """Publishes numbers to a queue of any cell until they are confirmed, and counts them."""

    def __init__(self, client: CellClient, queue: str) -> None:
        super().__init__(daemon=True)
        self._channel = client.publisher()
        self._connection = client.connection
        self._queue = queue
        self._is_ending = Event()
        self.confirmed: list[bytes] = []
        self.nacked: Counter[bytes] = Counter()
        self.longest = 0.0  # seconds between two confirms
        self.problem: AMQPError | None = None

    def run(self) -> None:
        number, last = 0, time.monotonic()
        try:
            while not self._is_ending.is_set():
                body = b"%d" % number
                try:
                    self._channel.basic_publish("", self._queue, body, PERSISTENT)
                except NackError:
                    self.nacked[body] += 1
                    continue
                now = time.monotonic()
                self.longest, last = max(self.longest, now - last), now
                self.confirmed.append(body)
                number += 1
        except AMQPError as problem:
            self.problem = problem

    def await_more(self, messages: int, seconds: float = 60.0) -> None:
        wanted = len(self.confirmed) + messages
        until(lambda: len(self.confirmed) >= wanted or self.problem, seconds, lambda: f"{self._queue} does not go on")
        assert self.problem is None, repr(self.problem)

    def end(self) -> None:
        self._is_ending.set()
        self.join(60)
        assert self.problem is None, repr(self.problem)


def test_a_queue_is_used_through_clients_of_all_cells_on_all_nodes(machines: CellMachines) -> None:
    with machines.clients("a", *CELLS) as at_a, machines.clients("b", *CELLS) as at_b:
        owner = at_a["c2"].channel
        owner.exchange_declare("logs", "topic", durable=True)
        owner.queue_declare("used", durable=True)
        owner.queue_bind("used", "logs", "#")
        clients = (at_a["c1"], at_a["c2"], at_b["c1"], at_b["c2"])
        for number, client in enumerate(clients):
            client.publisher().basic_publish("logs", "x", b"%d" % number, PERSISTENT, mandatory=True)
        got = [client.channel.basic_get("used", auto_ack=True)[2] for client in clients]
        assert got == [b"0", b"1", b"2", b"3"]
        assert owner.queue_declare("used", passive=True).method.message_count == 0


def test_objects_are_listed_with_the_node_that_leads_their_cell(machines: CellMachines, apart: dict[str, str]) -> None:
    api = machines.api()
    with machines.clients(apart["c1"], "c1") as at_first, machines.clients(apart["c2"], "c2") as at_second:
        for cell, client in (at_first | at_second).items():
            client.channel.queue_declare(f"listed in {cell}", durable=True)
        for cell, node in apart.items():
            until(lambda node=node: api.get("connections", node=node)[1], 20, machines.logs)  # type: ignore[misc]
            for chosen in (node, cell):
                names = {row["name"]: row["node"] for row in api.get("queues", node=chosen)[1]}
                assert set(names.values()) == {node}
                assert [name for name in names if name.startswith("listed in")] == [f"listed in {cell}"]
    idle = next(each.name for each in machines.nodes if each.name not in apart.values())
    assert api.get("queues", node=idle) == (200, [])
    rows = {row["name"]: row for row in api.get("nodes")[1]}
    assert set(rows) == {node.name for node in machines.nodes}
    roles = {name: {each["cell"]: each["role"] for each in row["cells"]} for name, row in rows.items()}
    assert {cell: name for name, row in roles.items() for cell in row if row[cell] == "leader"} == apart
    for node in apart.values():
        assert "mem_used" in api.get(f"nodes/{node}")[1]
        assert api.get(f"nodes/{node}/memory")[0] == api.get(f"healthchecks/node/{node}")[0] == 200


def test_nothing_is_lost_when_the_leader_of_the_home_cell_is_killed(
    machines: CellMachines, apart: dict[str, str]
) -> None:
    with machines.clients(apart["c1"], "c1") as clients, machines.clients(apart["c2"], "c2") as owners:
        owners["c2"].channel.queue_declare("far", durable=True)
        clients["c1"].channel.queue_declare("near", durable=True)
    with (
        machines.clients(apart["c1"], "c1") as clients,
        machines.clients(apart["c1"], "c1") as others,
        machines.clients(apart["c1"], "c1") as consumers,
    ):
        far, near = Load(clients["c1"], "far"), Load(others["c1"], "near")
        consumed: list[tuple[bytes, bool]] = []
        consumer = consumers["c1"]
        consumer.channel.basic_qos(prefetch_count=5)
        for load in (far, near):
            load.start()
            load.await_more(100)
        consumer.channel.basic_consume(
            "far", lambda channel, method, _, body: consumed.append((body, method.redelivered)), auto_ack=False
        )
        while len(consumed) < 5:
            consumer.connection.process_data_events(0.05)
        os.kill(machines.pid(apart["c2"], "c2"), signal.SIGKILL)
        far.await_more(100)
        machines.led_by("c2")
        for load in (far, near):
            load.end()
        assert near.longest < max(far.longest, 1.0)  # queues of the own cell go on
        assert not near.nacked
        consumer.channel.basic_ack(5, multiple=True)  # has no effect: the link on which these came is lost
        while len(consumed) < 10:  # the consumer is subscribed again
            consumer.connection.process_data_events(0.05)
        assert consumed[:5] == [(b"%d" % number, False) for number in range(5)]
        assert consumed[5:10] == [(b"%d" % number, True) for number in range(5)]
        consumer.connection.close()
        with machines.clients(apart["c1"], "c1") as drain:
            found = get_all(drain["c1"], "far")
    bodies = Counter(body for body, _ in found)
    assert set(far.confirmed) <= set(bodies)
    twice = {body for body, times in bodies.items() if times > 1}
    assert twice <= set(far.nacked), "only what was published again after a nack"


def why_critical(machines: CellMachines, node: str) -> tuple[int, str | None]:
    """Status of the health check, and the cell that would not survive another failure after a stop of the node."""
    status, answer = machines.api().get("health/checks/node-is-quorum-critical", node=node)
    return status, answer.get("cell")


def test_a_leader_of_the_home_cell_that_does_not_answer_is_left_for_the_next_one(
    machines: CellMachines, apart: dict[str, str]
) -> None:
    """Its connections stay open, so only the engine can tell that another node leads."""
    with machines.clients(apart["c2"], "c2") as owners, machines.clients(apart["c1"], "c1") as clients:
        owners["c2"].channel.queue_declare("stopped", durable=True)
        owners["c2"].connection.close()
        far, stopped = Load(clients["c1"], "stopped"), machines.pid(apart["c2"], "c2")
        far.start()
        far.await_more(50)
        os.kill(stopped, signal.SIGSTOP)
        try:
            far.await_more(50, 40.0)
            far.end()
            until(lambda: why_critical(machines, apart["c1"])[1] == "c2", 20, machines.logs)
            until(lambda: why_critical(machines, apart["c2"])[0] == 200, 20, machines.logs)
        finally:
            os.kill(stopped, signal.SIGCONT)
        machines.await_members()
        assert machines.rows()["c2"]["leader"] != apart["c2"]
    assert why_critical(machines, apart["c1"]) == (200, None)
    with machines.clients(apart["c1"], "c1") as drain:
        bodies = Counter(body for body, _ in get_all(drain["c1"], "stopped"))
    assert set(far.confirmed) <= set(bodies)
    assert {body for body, times in bodies.items() if times > 1} <= set(far.nacked)


def moved(machines: CellMachines, queue: str, to: str) -> str:
    """Begin to move a queue, and wait for the end of the move; returns its state."""
    status, answer = machines.api().post(f"queues/%2F/{queue}/move", {"to": to})
    assert status == 202, answer

    def look() -> str | None:
        row = machines.api().get(f"queue-moves/{answer['id']}")[1]
        return f"{row['state']} {row['reason']}".strip() if row.get("ended") else None

    return until(look, 30, machines.logs)


def test_a_queue_moves_between_cells_under_load_and_stays_there(machines: CellMachines, apart: dict[str, str]) -> None:
    with machines.clients(apart["c2"], "c2") as owners, machines.clients(apart["c1"], "c1") as clients:
        owners["c2"].channel.queue_declare("moves", durable=True)
        owners["c2"].connection.close()
        load = Load(clients["c1"], "moves")
        load.start()
        load.await_more(100)
        assert moved(machines, "moves", "c1") == "done"
        load.await_more(100)
        assert moved(machines, "moves", "c2") == "done"
        load.await_more(100)
        os.kill(machines.pid(apart["c2"], "c2"), signal.SIGKILL)  # the next leader has it, too
        load.await_more(100)
        load.end()
        machines.led_by("c2")
    machines.await_members()
    with machines.clients(apart["c1"], "c1") as drain:
        assert machines.api().get("queues/%2F/moves")[1]["home"] == "c2"
        bodies = [body for body, _ in get_all(drain["c1"], "moves")]
    assert set(load.confirmed) <= set(bodies)
    assert {body for body, times in Counter(bodies).items() if times > 1} <= set(load.nacked)
    first = list(dict.fromkeys(bodies))
    assert first == sorted(first, key=int)


def test_declarations_wait_while_the_first_cell_is_taken_over(machines: CellMachines, apart: dict[str, str]) -> None:
    with machines.clients(apart["c2"], "c2") as clients:
        channel = clients["c2"].channel
        channel.queue_declare("before", durable=True)
        machines.node(apart["c1"]).kill()  # with all its cells
        channel.queue_declare("during", durable=True)  # the broker refuses it if it takes too long
        channel.exchange_declare("during", "fanout", durable=True)
        channel.queue_bind("during", "during")
        clients["c2"].publisher().basic_publish("during", "", b"x", PERSISTENT, mandatory=True)
        with machines.clients(machines.led_by("c1", but=apart["c1"]), "c1") as others:
            assert others["c1"].channel.basic_get("during", auto_ack=True)[2] == b"x"
            assert others["c1"].channel.queue_declare("before", passive=True).method.message_count == 0
    machines.start_again(apart["c1"])


def test_definitions_that_were_changed_while_a_cell_was_away_are_changed_there(
    machines: CellMachines, apart: dict[str, str]
) -> None:
    with machines.clients(apart["c1"], "c1") as clients:
        clients["c1"].channel.exchange_declare("old", "fanout", durable=True)
        for node in machines.nodes:
            os.kill(machines.pid(node.name, "c2"), signal.SIGKILL)
        api = machines.api(machines.node(apart["c1"]))
        assert api.put("users/anna", {"password": "secret", "tags": ""})[0] == 201
        assert api.put("permissions/%2F/anna", {"configure": ".*", "write": ".*", "read": ".*"})[0] == 201
        clients["c1"].channel.exchange_delete("old")
        clients["c1"].channel.exchange_declare("new", "fanout", durable=True)
        clients["c1"].channel.queue_declare("of c1", durable=True)
        clients["c1"].channel.queue_bind("of c1", "new")
    machines.led_by("c2")
    url = machines.node(apart["c2"]).url.replace("admin:admin", "anna:secret")
    with machines.clients(apart["c2"], "c2", url=url) as changed:
        changed["c2"].publisher().basic_publish("new", "", b"x", PERSISTENT, mandatory=True)
        assert changed["c2"].channel.basic_get("of c1", auto_ack=True)[2] == b"x"
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no exchange 'old'"):
            changed["c2"].channel.exchange_declare("old", passive=True)
    machines.await_members()


def shard(machines: CellMachines, exchange: str, number: int) -> None:
    """So many shards in each cell; waits until all are bound."""
    definition = {"shards-per-node": number, "ordered-resize": True}
    policy = {"pattern": f"^{exchange}$", "definition": definition, "apply-to": "exchanges"}
    assert machines.api().put(f"policies/%2F/{exchange}", policy)[0] in (201, 204)
    path = f"exchanges/%2F/{exchange}/bindings/source"
    until(lambda: len(machines.api().get(path)[1]) == number * len(CELLS), 20, machines.logs)


def test_an_ordered_resize_survives_the_leader_of_an_old_shard(machines: CellMachines, apart: dict[str, str]) -> None:
    resized = "sharded exchange has been resized"
    first = machines.node(apart["c1"])  # its log has the lines about resizes
    assert machines.api().put("exchanges/%2F/orders", {"type": "x-modulus-hash", "durable": True})[0] == 201
    shard(machines, "orders", 1)
    load = ShardLoad([node.url for node in machines.nodes], "orders", keys=20, cells=CELLS)
    try:
        load.publish(5)
        load.await_published()
        before = first.log().count(resized)
        shard(machines, "orders", 2)
        load.publish(5)
        load.await_published()
        load.consume(2, ("c1",))
        load.order.await_number(1)
        load.publish(20)
        assert first.log().count(resized) == before, "the old shard of c2 has messages and no consumer"
        os.kill(machines.pid(apart["c2"], "c2"), signal.SIGKILL)
        load.consume(2, ("c2",))
        load.await_published()
        for publisher in load.publishers:
            publisher.finish()
        load.order.await_confirmed()
        until(lambda: first.log().count(resized) > before, 60, machines.logs)
    finally:
        load.stop()
    load.order.check()
    assert load.order.number == len(CELLS) * 20 * 30
    machines.led_by("c2")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_clients_of_all_cells_only_reconnect_while_the_nodes_are_restarted(machines: CellMachines) -> None:
    homes = {"ordered": "c1", "shared": "c2", PARKED: "c2"}
    load = CrossingLoad(machines, Random(1), rate=30.0, homes=homes)

    async def run() -> None:
        await load.start()
        await load.more(10, 90)
        for node in machines.nodes:
            node.signal(signal.SIGTERM)
            assert await asyncio.to_thread(node.wait) == 0
            await load.more(5, 90)
            await asyncio.to_thread(machines.start_again, node.name)
        await load.more(10, 90)
        await load.stop()
        await load.drain()

    asyncio.run(run())
    report = load.history.check()
    assert not report.violations, str(report)
    assert not [each for each in load.errors if "Refused" in each], "clients only lose connections"


def connected(machines: CellMachines, url: str, queue: str) -> CellClient:
    """A client that has declared the queue; waits for the virtual host, and for the cell where it lives."""

    def look() -> CellClient | None:
        try:
            client = CellClient(pika.BlockingConnection(pika.URLParameters(url)))
            client.channel.queue_declare(queue, durable=True)
        except AMQPError:
            return None
        return client

    return until(look, 30, machines.logs)


def test_a_virtual_host_of_one_cell_is_there_after_its_take_over(machines: CellMachines, apart: dict[str, str]) -> None:
    assert machines.api().put("vhosts/in-c2", {"cell": "c2"})[0] == 201
    urls = [f"{node.url}in-c2" for node in machines.nodes]
    load = Load(connected(machines, f"{machines.node(apart['c1']).url}in-c2", "kept"), "kept")
    load.start()
    load.await_more(50)
    os.kill(machines.pid(apart["c2"], "c2"), signal.SIGKILL)
    load.join(20)
    assert load.problem is not None, "the connection ends with the leader that served it"
    for url in urls:
        client = connected(machines, url, "kept")
        assert client.channel.queue_declare("kept", passive=True).method.message_count >= len(load.confirmed)
        client.publisher().basic_publish("", "kept", url.encode(), PERSISTENT, mandatory=True)
        client.connection.close()
    client = connected(machines, urls[0], "kept")
    bodies = [body for body, _ in get_all(client, "kept")]
    client.connection.close()
    unconfirmed = len(bodies) - len(load.confirmed) - len(urls)
    assert bodies[: len(load.confirmed)] == load.confirmed
    assert unconfirmed in (0, 1)
    assert bodies[-len(urls) :] == [url.encode() for url in urls]


def test_leaders_are_balanced_by_command(machines: CellMachines, apart: dict[str, str]) -> None:
    cli = Cli(machines.node("a").http_url, machines.folder, "admin", "admin")
    assert "balanced already" in cli.done("cluster", "cells", "--balance", "--yes")
    assert machines.api().post("cluster/handover", {"to": apart["c2"]})[0] == 202
    until(lambda: machines.led_by("c1") == apart["c2"], 20, machines.logs)
    machines.await_members()
    shown = cli.rows("cluster", "cells")
    assert [row[:2] for row in shown] == [["c1", apart["c2"]], ["c2", apart["c2"]]]
    (move,) = cli.json("cluster", "cells", "--balance", "--dry-run")["moves"]
    assert (move["cell"], move["from"]) == ("c2", apart["c2"])
    assert machines.rows()["c2"]["leader"] == apart["c2"]
    assert "1 cell(s) handed over" in cli.done("cluster", "cells", "--balance", "--yes")
    assert machines.rows()["c2"]["leader"] == move["to"]
    machines.await_members()
    handed = cli.done("cluster", "handover", "--cell", "c2", "--to", move["from"], "--yes")
    assert handed.startswith(f"node '{move['from']}' leads the cell 'c2', after ")


def test_a_node_may_have_a_member_of_one_cell_only(machines: CellMachines) -> None:
    node = machines.add("d")
    node._arguments = [*node._arguments, "--cell", "c2", "--cluster-port=0"]
    node.start()
    node.wait_for("is ready as")
    assert "standby of the cell c2" in node.log()
    until(lambda: "d" in {each["name"] for each in machines.rows()["c2"]["members"]}, 20, machines.logs)
    assert "d" not in {each["name"] for each in machines.rows()["c1"]["members"]}
    with machines.clients("d", "c2") as clients:
        assert clients["c2"].channel.queue_declare("").method.message_count == 0
    node.signal(signal.SIGTERM)
    assert node.wait() == 0
