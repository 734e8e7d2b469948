"""Virtual hosts in one cell of ``leveret serve --cells``: processes behind one port, and the API of the first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pika
import pytest
from pika.exceptions import AMQPConnectionError, AMQPError, ProbableAccessDeniedError

from leveret.client import connect
from tests.integration.test_cells import PERSISTENT
from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import clients_by_cell, until
from tests.support.cell_processes import cell_processes, kill_cell
from tests.support.command_line import Cli
from tests.support.management_api import ManagementApi
from tests.support.stomp_client import StompClient

FLAGS = ("--cells", "2", "--http-port", "0", "--stomp-port", "0")
CONNECTIONS = 12  # so many are hardly ever all accepted by the same of two cells


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("cells"), *FLAGS) as running:
        api = ManagementApi(running.url("http"))
        for cell in ("c1", "c2"):
            assert api.put(f"vhosts/in-{cell}", {"cell": cell})[0] == 201
            wait_for_vhost(running.url() + f"in-{cell}")
        yield running


def wait_for_vhost(url: str) -> None:
    """Until each cell has it: the other cells follow the first."""

    def is_there() -> bool:
        try:
            for _ in range(CONNECTIONS):
                pika.BlockingConnection(pika.URLParameters(url)).close()
        except (AMQPError, AMQPConnectionError):
            return False
        return True

    until(is_there)


@pytest.mark.parametrize("home", ["c1", "c2"])
def test_clients_of_each_cell_use_the_same_queues(broker: BrokerProcess, home: str) -> None:
    with clients_by_cell(broker.url() + f"in-{home}", "c1", "c2") as clients:
        clients["c1"].channel.queue_declare("q", durable=True)
        clients["c2"].channel.queue_declare("q", passive=True)
        for cell, client in clients.items():
            client.publisher().basic_publish("", "q", cell.encode(), PERSISTENT, mandatory=True)
        got = [clients["c2"].channel.basic_get("q", auto_ack=True)[2] for _ in range(2)]
        assert sorted(got) == [b"c1", b"c2"]


@pytest.mark.parametrize("vhost", ["", "in-c1"], ids=["in all cells", "in c1"])
@pytest.mark.parametrize(("near", "far"), [("c1", "c2"), ("c2", "c1")])
def test_requests_over_direct_reply_to(broker: BrokerProcess, vhost: str, near: str, far: str) -> None:
    with clients_by_cell(broker.url() + vhost, near, far) as clients:
        responder, requester, replies = clients[far].publisher(), clients[near].channel, list[bytes]()
        queue = responder.queue_declare("", exclusive=True).method.queue
        responder.basic_consume(
            queue,
            lambda _, __, request, body: responder.basic_publish("", request.reply_to, body * 2, mandatory=True),
            auto_ack=True,
        )
        requester.basic_consume("amq.rabbitmq.reply-to", lambda *reply: replies.append(reply[3]), auto_ack=True)
        for body in (b"1", b"2"):
            requester.basic_publish("", queue, body, pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))

        def has_replies() -> bool:
            for client in clients.values():
                client.connection.process_data_events(0)
            return len(replies) == 2

        until(has_replies)
        assert replies == [b"11", b"22"]


def test_the_first_cell_shows_each_connection_to_its_virtual_hosts_once(broker: BrokerProcess) -> None:
    api = ManagementApi(broker.url("http"))
    with clients_by_cell(broker.url() + "in-c1", "c1", "c2") as clients:
        ports = set()
        for client in clients.values():
            implementation: Any = client.connection._impl
            ports.add(implementation._transport._sock.getsockname()[1])
        shown = [row["peer_port"] for row in api.get("vhosts/in-c1/connections")[1]]
        assert ports <= set(shown)
        assert len(shown) == len(set(shown))


def use_aio_pika(url: str, number: int) -> None:
    async def run() -> None:
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), queue.name)
            message = await queue.get(timeout=10, no_ack=True)
            assert message.body == b"%d" % number

    asyncio.run(run())


def use_own_client(url: str, number: int) -> None:
    async def run() -> None:
        async with asyncio.timeout(20), await connect(url) as connection:
            channel = await connection.channel()
            name = (await channel.declare_queue(exclusive=True)).queue
            await channel.confirm_select()
            await channel.publish(b"%d" % number, routing_key=name)
            fetched = await channel.get(name, no_ack=True)
            assert fetched is not None
            assert fetched.body == b"%d" % number

    asyncio.run(run())


@pytest.mark.parametrize("use", [use_aio_pika, use_own_client])
@pytest.mark.parametrize("home", ["c1", "c2"])
def test_other_libraries_do_not_notice(broker: BrokerProcess, home: str, use: Callable[[str, int], None]) -> None:
    relayed = broker.log().count("connection relayed")
    for number in range(CONNECTIONS):
        use(broker.url() + f"in-{home}", number)
    assert relayed < broker.log().count("connection relayed") < relayed + CONNECTIONS


@pytest.mark.parametrize("home", ["c1", "c2"])
def test_stomp_clients_do_not_notice(broker: BrokerProcess, home: str) -> None:
    relayed = broker.log().count("connection relayed")
    for number in range(CONNECTIONS):
        with StompClient.open(broker.url("stomp"), host=f"in-{home}") as client:
            client.sure("SEND", b"%d" % number, destination="/queue/s")
            client.sure("SUBSCRIBE", id="t", destination="/queue/s", ack="auto")
            assert client.read().body == b"%d" % number
            client.sure("DISCONNECT")
    assert relayed < broker.log().count("connection relayed") < relayed + CONNECTIONS


def test_users_without_permissions_are_refused_in_each_cell(broker: BrokerProcess) -> None:
    api = ManagementApi(broker.url("http"))
    assert api.put("users/anna", {"password": "secret", "tags": ""})[0] == 201
    assert api.put("permissions/in-c1/anna", {"configure": ".*", "write": ".*", "read": ".*"})[0] == 201
    url = broker.url().replace("guest:guest", "anna:secret")
    wait_for_vhost(url + "in-c1")
    for _ in range(CONNECTIONS):
        with pytest.raises(ProbableAccessDeniedError, match="access to vhost 'in-c2' refused for user 'anna'"):
            pika.BlockingConnection(pika.URLParameters(url + "in-c2"))


def test_a_killed_cell_comes_back_with_its_virtual_host_and_clients_wait_for_it(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *FLAGS) as broker:
        assert ManagementApi(broker.url("http")).put("vhosts/in-c2", {"cell": "c2"})[0] == 201
        url = broker.url() + "in-c2"
        wait_for_vhost(url)
        with clients_by_cell(url, "c1", "c2") as clients:
            clients["c1"].channel.queue_declare("q", durable=True)
            clients["c1"].publisher().basic_publish("", "q", b"kept", PERSISTENT)
            (killed,) = cell_processes(broker)
            begun = time.monotonic()
            kill_cell(killed)
            with pytest.raises(AMQPError):
                clients["c1"].connection.process_data_events(20)
            assert time.monotonic() - begun < 10
        connection = pika.BlockingConnection(pika.URLParameters(url))  # accepted by c1, as long as c2 is away
        channel: Any = connection.channel()
        assert channel.basic_get("q", auto_ack=True)[2] == b"kept"
        connection.close()
        until(lambda: "cell is ready again" in broker.log())


def test_the_cell_is_kept_over_a_restart(tmp_path: Path) -> None:
    for is_first in (True, False):
        with BrokerProcess(tmp_path, *FLAGS) as broker:
            api = ManagementApi(broker.url("http"))
            if is_first:
                assert api.put("vhosts/in-c2", {"cell": "c2"})[0] == 201
                wait_for_vhost(broker.url() + "in-c2")
            assert api.get("vhosts/in-c2")[1]["cell"] == "c2"
            with clients_by_cell(broker.url() + "in-c2", "c1", "c2") as clients:
                channel = clients["c1"].channel
                if is_first:
                    channel.exchange_declare("x", "fanout", durable=True)
                    channel.queue_declare("q", durable=True)
                    channel.queue_bind("q", "x")
                clients["c2"].publisher().basic_publish("x", "", b"hello", PERSISTENT, mandatory=True)
                count = channel.queue_declare("q", passive=True).method.message_count
                assert count == (1 if is_first else 2)
            broker.terminate()
            assert broker.exit_code(20) == 0


# ---- the HTTP API and the command line


def test_the_api_shows_exports_and_imports_the_cell(broker: BrokerProcess) -> None:
    api = ManagementApi(broker.url("http"))
    assert {row["name"]: row["cell"] for row in api.get("vhosts")[1]} == {"/": "", "in-c1": "c1", "in-c2": "c2"}
    exported = {row["name"]: row.get("cell") for row in api.get("definitions")[1]["vhosts"]}
    assert exported == {"/": None, "in-c1": "c1", "in-c2": "c2"}
    assert api.post("definitions", {"vhosts": [{"name": "imported", "cell": "c2"}]})[0] == 204
    assert api.get("vhosts/imported")[1]["cell"] == "c2"
    queues = [{"name": "q", "vhost": "imported", "durable": True, "auto_delete": False, "arguments": {}}]
    status, problem = api.post("definitions", {"queues": queues})
    assert (status, "vhost 'imported' is in cell c2" in problem["reason"]) == (400, True)
    status, problem = api.post("definitions", {"vhosts": [{"name": "imported", "cell": "c1"}]})
    assert (status, "delete it and create it again" in problem["reason"]) == (400, True)
    assert api.delete("vhosts/imported")[0] == 204


@pytest.mark.parametrize(
    ("vhost", "cell", "code", "reason"),
    [
        ("new", "c7", 409, "the cells are c1, c2"),
        ("new", 2, 400, "'cell' must be the name of a cell"),
        ("in-c2", "c1", 409, "delete it and create it again"),
    ],
)
def test_what_cannot_be_placed_is_refused_and_not_created(
    broker: BrokerProcess, vhost: str, cell: object, code: int, reason: str
) -> None:
    api = ManagementApi(broker.url("http"))
    status, problem = api.put(f"vhosts/{vhost}", {"cell": cell})
    assert (status, reason in problem["reason"]) == (code, True), problem
    assert api.get("vhosts/new")[0] == 404


def test_a_body_without_a_cell_leaves_it(broker: BrokerProcess) -> None:
    api = ManagementApi(broker.url("http"))
    assert api.put("vhosts/in-c2", {"description": "kept"})[0] == 204
    assert api.put("vhosts/in-c2", {"cell": "c2"})[0] == 204
    shown = api.get("vhosts/in-c2")[1]
    assert (shown["cell"], shown["description"]) == ("c2", "kept")


def test_the_command_line_places_virtual_hosts(broker: BrokerProcess, tmp_path: Path) -> None:
    cli = Cli(broker.url("http"), tmp_path)
    cli.done("vhosts", "create", "by-cli", "--cell", "c2")
    assert {row["name"]: row["cell"] for row in cli.json("vhosts", "list")}["by-cli"] == "c2"
    assert "the cells are c1, c2" in cli.refused("vhosts", "create", "other", "--cell", "c9")
    cli.done("vhosts", "delete", "by-cli")


@pytest.mark.parametrize("home", ["c1", "c2"])
def test_the_api_of_the_first_cell_manages_virtual_hosts_of_all(broker: BrokerProcess, home: str) -> None:
    api, vhost = ManagementApi(broker.url("http")), f"in-{home}"
    assert api.put(f"exchanges/{vhost}/logs", {"type": "fanout", "durable": True})[0] == 201
    assert api.put(f"queues/{vhost}/by-api", {"durable": True})[0] == 201
    assert api.post(f"bindings/{vhost}/e/logs/q/by-api", {"routing_key": ""})[0] == 201
    published = {"properties": {}, "routing_key": "", "payload": "hello", "payload_encoding": "string"}
    assert api.post(f"exchanges/{vhost}/logs/publish", published)[1] == {"routed": True}
    row = api.get(f"queues/{vhost}/by-api")[1]
    assert (row["name"], row["messages"]) == ("by-api", 1)
    assert row["node"].endswith("-c2") == (home == "c2")
    listed = [each["name"] for each in api.get("queues")[1] if each["vhost"] == vhost]
    assert "by-api" in listed
    got = api.post(f"queues/{vhost}/by-api/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})[1]
    assert [each["payload"] for each in got] == ["hello"]
    assert api.delete(f"queues/{vhost}/by-api")[0] == 204
    assert api.delete(f"exchanges/{vhost}/logs")[0] == 204
