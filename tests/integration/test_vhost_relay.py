"""Connections to a virtual host that is in another cell: the cell that accepted them passes them on as a whole."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from leveret.client import connect
from leveret.cluster import vhost_relay
from leveret.config import Settings
from leveret.stats.totals import traffic
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.fields import encode_table
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.cells_in_process import CellsInProcess
from tests.support.certificates import CertificateFiles
from tests.support.proxied import PROXY, v1
from tests.support.raw_client import RawClient, eventually, plain
from tests.support.stomp_client import StompClient

PORTS: dict[str, Any] = {"amqp_port": 0, "stomp_port": 0, "http_port": 0, "https_port": None}
PLAIN = Settings(**PORTS, shutdown_timeout=2.0, login_failure_delay=0.0)
NEAR = pytest.mark.parametrize("near", ["c1", "c2"])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cells(certificates: CertificateFiles) -> Iterator[CellsInProcess]:
    settings = certificates.settings(**PORTS, stomps_port=0, shutdown_timeout=2.0, login_failure_delay=0.0)
    with CellsInProcess(settings) as running:
        running.place("placed", "c2", "ann")
        running.call(lambda: running.broker("c1").users.add("bob", password="guest"))
        eventually(lambda: running.call(lambda: running.broker("c2").users.get("bob") is not None))
        yield running


@pytest.fixture(autouse=True)
def no_connections(request: pytest.FixtureRequest) -> None:
    """Those of other tests are gone."""
    if "cells" in request.fixturenames:
        running = request.getfixturevalue("cells")
        eventually(lambda: not any(running.connections(cell) for cell in running.nodes))


def check_served_by_c2(cells: CellsInProcess, near: str, port: int) -> None:
    """One connection, with the address of the client, in the home cell only."""
    assert not cells.connections("c1")
    (served,) = cells.connections("c2")
    assert served.name.startswith(f"127.0.0.1:{port} -> 127.0.0.1:")
    accepted_at = urlsplit(cells.url(near, "stomp" if "STOMP" in served.protocol else "amqp")).port
    assert served.name.endswith(f":{accepted_at}")
    assert not cells.call(lambda: cells.broker("c1").vhosts["placed"].queues)


# ---- client libraries


def use_pika(cells: CellsInProcess, near: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(cells.url(near, vhost="placed")))
    implementation: Any = connection._impl
    channel: Any = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("pika", durable=True)
    channel.basic_publish("", "pika", b"hello", mandatory=True)
    assert channel.basic_get("pika", auto_ack=True)[2] == b"hello"
    assert implementation.server_properties["cell"] == near
    check_served_by_c2(cells, near, implementation._transport._sock.getsockname()[1])
    connection.close()


def use_aio_pika(cells: CellsInProcess, near: str) -> None:
    async def run() -> None:
        connection = await aio_pika.connect(cells.url(near, vhost="placed"))
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("aio", durable=True)
            await channel.default_exchange.publish(aio_pika.Message(b"hello"), "aio")
            message = await queue.get(timeout=10)
            assert message.body == b"hello"
            await message.ack()

    asyncio.run(run())


def use_own_client(cells: CellsInProcess, near: str) -> None:
    async def run() -> None:
        async with asyncio.timeout(20), await connect(cells.url(near, vhost="placed")) as connection:
            channel = await connection.channel()
            await channel.declare_queue("own", durable=True)
            await channel.confirm_select()
            await channel.publish(b"hello", routing_key="own")
            fetched = await channel.get("own", no_ack=True)
            assert fetched is not None
            assert fetched.body == b"hello"

    asyncio.run(run())


def use_stomp(cells: CellsInProcess, near: str) -> None:
    with StompClient.open(cells.url(near, "stomp"), host="placed", heart_beat="10000,10000") as client:
        client.sure("SUBSCRIBE", id="s", destination="/queue/stomp")
        client.say("SEND", b"hello", destination="/queue/stomp")
        assert client.read().body == b"hello"
        check_served_by_c2(cells, near, client.socket.getsockname()[1])
        client.sure("DISCONNECT")


def test_traffic_of_a_relayed_client_stays_counted(cells: CellsInProcess) -> None:
    def counted() -> list[int]:
        return cells.call(lambda: [*traffic(cells.broker("c1")), *traffic(cells.broker("c2"))])

    before = counted()
    use_pika(cells, "c1")
    eventually(lambda: not cells.connections("c2"))
    assert all(new > old for new, old in zip(counted(), before, strict=True))


@NEAR
@pytest.mark.parametrize("use", [use_pika, use_aio_pika, use_own_client, use_stomp])
def test_clients_work_through_each_cell(
    cells: CellsInProcess, near: str, use: Callable[[CellsInProcess, str], None]
) -> None:
    use(cells, near)


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_clients_over_http_are_relayed_too(cells: CellsInProcess, scheme: str) -> None:
    async def run() -> None:
        url = cells.url("c1", "http", vhost="placed").replace("http://", f"{scheme}://")
        async with asyncio.timeout(20), await connect(url) as connection:
            channel = await connection.channel()
            await channel.declare_queue(scheme, durable=True)
            await channel.confirm_select()
            await channel.publish(bytes(300_000), routing_key=scheme)
            assert not cells.connections("c1")
            assert len(cells.connections("c2")) == 1

    asyncio.run(run())
    assert cells.call(lambda: cells.broker("c2").vhosts["placed"].queues[scheme].ready) == 1


# ---- the handshake


LOGINS = {"PLAIN": plain("guest", "guest"), "AMQPLAIN": encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]}


@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_a_client_that_waits_for_nothing(cells: CellsInProcess, mechanism: str, size: int) -> None:
    methods: list[tuple[int, Method]] = [
        (0, ConnectionStartOk({}, mechanism, LOGINS[mechanism])),
        (0, ConnectionTuneOk(0, 0, 0)),
        (0, ConnectionOpen("placed")),
        (1, ChannelOpen()),
        (1, QueueDeclare(exclusive=True)),
    ]
    sent = PROTOCOL_HEADER + b"".join(method_frame(number, method) for number, method in methods)
    with RawClient(cells.url("c1")) as client:
        for at in range(0, len(sent), size):
            client.send_bytes(sent[at : at + size])
        answers: list[tuple[type[Method], int]] = [
            (ConnectionStart, 0),
            (ConnectionTune, 0),
            (ConnectionOpenOk, 0),
            (ChannelOpenOk, 1),
            (QueueDeclareOk, 1),
        ]
        for answer, number in answers:
            client.expect(answer, number)


def test_a_certificate_logs_in_and_is_shown_by_the_home_cell(
    cells: CellsInProcess, certificates: CertificateFiles
) -> None:
    client = RawClient.open(
        cells.url("c1", "amqps", vhost="placed"), tls=certificates.client("ann"), mechanism="EXTERNAL", response=b""
    )
    with client:
        (served,) = cells.connections("c2")
        tls = served.peer.tls()
        assert tls is not None
        assert tls[0].startswith("TLSv1.")
        assert isinstance(client.socket, ssl.SSLSocket)
        assert tls[1] == (client.socket.cipher() or ("",))[0]
        assert (served.user.name, served.mechanism) == ("ann", "EXTERNAL")
        assert "ann" in str(served.peer.certificate)
        client.is_alive()


@pytest.mark.parametrize(
    ("user", "vhost", "reason"),
    [
        ("guest", "nowhere", "vhost nowhere not found"),
        ("bob", "placed", "access to vhost 'placed' refused for user 'bob'"),
    ],
)
@NEAR
def test_what_may_not_be_opened(cells: CellsInProcess, near: str, user: str, vhost: str, reason: str) -> None:
    with RawClient(cells.url(near, vhost=vhost, user=f"{user}:guest")) as client:
        client.login()
        client.tune()
        client.send(ConnectionOpen(vhost), 0)
        assert reason in client.expect_close(530).reply_text


def test_a_wrong_password_is_refused_here(cells: CellsInProcess) -> None:
    with RawClient(cells.url("c1", user="guest:wrong")) as client:
        client.login()
        client.expect_close(403)


def test_limits_of_the_virtual_host_count_all_its_connections(cells: CellsInProcess) -> None:
    cells.place("limited", "c2")
    cells.call(lambda: cells.broker("c1").limit_vhost("limited", max_queues=None, max_connections=2))
    eventually(lambda: cells.call(lambda: cells.broker("c2").vhosts["limited"].max_connections) == 2)
    with RawClient.open(cells.url("c1", vhost="limited")), RawClient.open(cells.url("c2", vhost="limited")):
        with RawClient(cells.url("c1")) as third:
            third.login()
            third.tune()
            third.send(ConnectionOpen("limited"), 0)
            assert "connection limit (2) is reached" in third.expect_close(530).reply_text


def test_a_proxied_client_has_its_own_address_in_the_home_cell() -> None:
    settings = replace(PLAIN, proxy_protocol=frozenset({"amqp"}), trusted_proxies=(PROXY,), loopback_users=frozenset())
    with CellsInProcess(settings) as running:
        running.place("placed", "c2")
        with RawClient(running.url("c1", vhost="placed"), source=PROXY) as client:
            client.send_bytes(v1("203.0.113.7", 4711))
            client.handshake()
            (served,) = running.connections("c2")
            assert served.peer.host == "203.0.113.7"
            assert served.name.startswith("203.0.113.7:4711 -> ")


# ---- traffic


def test_large_messages_pass_in_both_directions(cells: CellsInProcess) -> None:
    bodies = [bytes([number]) * (1 << 20) for number in range(24)]
    with RawClient.open(cells.url("c1", vhost="placed")) as client:
        client.call(QueueDeclare("large", exclusive=True), QueueDeclareOk)
        for body in bodies:
            client.publish("", "large", body)
        client.call(BasicConsume("large", "tag", no_ack=True), BasicConsumeOk)
        assert [client.expect_content().body for _ in bodies] == bodies


def test_a_client_that_does_not_read_is_not_read_for(cells: CellsInProcess) -> None:
    """The cell in the middle holds a bounded part of what waits for it."""
    size, number = 1 << 20, 64
    with RawClient.open(cells.url("c1", vhost="placed")) as client:
        client.call(QueueDeclare("unread", exclusive=True), QueueDeclareOk)
        for _ in range(number):
            client.publish("", "unread", bytes(size))
        client.call(BasicConsume("unread", "tag"), BasicConsumeOk)
        (served,) = cells.connections("c2")
        eventually(lambda: cells.call(lambda: not served.outbox.writable))
        node = cells.nodes["c1"].node
        assert node.listener is not None
        (near,) = node.listener._relayed
        held = cells.call(lambda: near.unsent() + served.peer.unsent())
        assert held < 16 * size
        for _ in range(number):
            client.expect_content()


def test_a_client_that_disconnects_leaves_nothing_behind(cells: CellsInProcess) -> None:
    client = RawClient.open(cells.url("c1", vhost="placed"))
    client.call(QueueDeclare("gone", exclusive=True), QueueDeclareOk)
    client.cut()
    eventually(lambda: not cells.connections("c2"))
    eventually(lambda: "gone" not in cells.call(lambda: dict(cells.broker("c2").vhosts["placed"].queues)))
    node = cells.nodes["c1"].node
    assert node.listener is not None
    assert not node.listener._relayed
    assert node.listener.admission.sockets == 0


def test_heartbeats_are_exchanged_with_the_home_cell(cells: CellsInProcess) -> None:
    with RawClient.open(cells.url("c1", vhost="placed"), heartbeat=1, channels=0) as client:
        assert next(client.frames()).kind == 8


# ---- placement


def test_links_for_a_virtual_host_end_when_it_is_placed_in_a_cell(cells: CellsInProcess) -> None:
    def links() -> int:
        return sum(each.is_link and each.vhost is vhost for each in cells.broker("c2").registry.connections)

    first = cells.broker("c1")
    cells.call(lambda: first.add_vhost("spanning"))
    eventually(lambda: cells.call(lambda: "spanning" in cells.broker("c2").vhosts))
    vhost = cells.broker("c2").vhosts["spanning"]
    cells.call(lambda: vhost.declare_queue("q", durable=True))
    eventually(lambda: cells.call(links) == 2)
    cells.place("spanning", "c2")
    eventually(lambda: cells.call(links) == 0)
    eventually(lambda: ("spanning", "c2") not in cells.nodes["c1"].cell.links._homes._cells)
    assert cells.call(lambda: (set(vhost.queues), set(first.vhosts["spanning"].queues))) == ({"q"}, set())


# ---- the home cell is away


def test_a_client_waits_for_a_cell_that_is_away() -> None:
    with CellsInProcess(PLAIN) as running:
        running.place("placed", "c2")
        running.stop("c2")
        with RawClient(running.url("c1", vhost="placed")) as client:
            client.login()
            client.tune()
            client.send(ConnectionOpen("placed"), 0)
            running.start("c2")
            client.expect(ConnectionOpenOk, 0)
            client.open_channel(1)
            client.is_alive()


@pytest.mark.parametrize("handshake_timeout", [2.0, 10.0])
def test_a_client_is_refused_if_the_cell_stays_away(monkeypatch: pytest.MonkeyPatch, handshake_timeout: float) -> None:
    monkeypatch.setattr(vhost_relay, "WAIT_SECONDS", 3.5)
    with CellsInProcess(replace(PLAIN, handshake_timeout=handshake_timeout)) as running:
        running.place("placed", "c2")
        running.stop("c2")
        with RawClient(running.url("c1", vhost="placed")) as client:
            client.login()
            client.tune()
            client.send(ConnectionOpen("placed"), 0)
            closed = client.expect_close(541)
            assert "access to vhost 'placed' refused for user 'guest': vhost 'placed' is down" in closed.reply_text
            assert (closed.class_id, closed.method_id) == (10, 40)
        with StompClient(running.url("c1", "stomp")) as stomp:
            answer = stomp.connect(host="placed")
            assert (answer.command, answer["message"]) == ("ERROR", "Bad CONNECT")
            assert b"vhost 'placed' is down, its cell c2 does not answer" in answer.body
        RawClient.open(running.url("c1")).cut()  # other virtual hosts are not affected


def test_the_home_cell_closes_its_connections_with_a_reason_when_it_stops() -> None:
    with CellsInProcess(PLAIN) as running:
        running.place("placed", "c2")
        connection = pika.BlockingConnection(pika.URLParameters(running.url("c1", vhost="placed")))
        stopping = asyncio.run_coroutine_threadsafe(running.nodes.pop("c2").stop(), running._loop)
        with pytest.raises(ConnectionClosedByBroker) as closed:
            connection.process_data_events(60)
        stopping.result(60)
        assert closed.value.reply_code == 320


def test_a_client_that_gives_up_waiting_is_forgotten() -> None:
    with CellsInProcess(PLAIN) as running:
        running.place("placed", "c2")
        running.stop("c2")
        client = RawClient(running.url("c1", vhost="placed"))
        client.login()
        client.tune()
        client.send(ConnectionOpen("placed"), 0)
        eventually(lambda: [each.awaits_cell for each in running.connections("c1")] == [True])
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.cut()
        running.start("c2")
        eventually(lambda: not running.connections("c1"))
        eventually(lambda: not running.connections("c2"))


def test_a_clean_close_is_answered(cells: CellsInProcess) -> None:
    with RawClient.open(cells.url("c1", vhost="placed")) as client:
        client.close()
