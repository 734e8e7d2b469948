"""Clients that are connected to a standby: every protocol reaches the leader, and the connection ends with it."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from leveret.client.connection import connect
from leveret.wire.constants import PROTOCOL_HEADER
from tests.support.cell_node import Cell, CellNode, until
from tests.support.certificates import CertificateFiles
from tests.support.http_api import HttpApi
from tests.support.identity_provider import CLIENT_ID, Provider, running_provider
from tests.support.nats_servers import NatsServers
from tests.support.proxied import PROXY, connected, logs_in, v1, v2, wrapped
from tests.support.raw_client import RawClient
from tests.support.signing_browser import SigningBrowser
from tests.support.stomp_client import StompClient

LISTENERS = ("stomp", "amqps", "https")
READY = "/api/health/checks/ready-to-serve-clients"
SOON = 20.0  # seconds: less than any time limit of TCP, and than the heartbeats of these clients


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        provider.is_confidential = False
        yield provider


@pytest.fixture(scope="module")
def cell(
    servers: NatsServers, tmp_path_factory: pytest.TempPathFactory, certificates: CertificateFiles, provider: Provider
) -> Iterator[Cell]:
    """Three nodes, started. Proxies are expected at 127.0.0.2; 127.0.0.1 is served without a header."""
    proxies = ("--proxy-protocol=amqp,amqps,stomp,http", f"--trusted-proxies={PROXY}")
    sign_on = (f"--oidc-issuer={provider.url}", f"--oidc-client-id={CLIENT_ID}")
    flags = (*proxies, *certificates.flags()[2:], *sign_on)
    with Cell(tmp_path_factory.mktemp("relay"), servers, "relay", *flags, listeners=LISTENERS) as made:
        made.start()
        made.await_ready()
        add_users(made.leader())
        yield made


def add_users(node: CellNode) -> None:
    """``ann`` and ``guest``, each with its name as password; the latter may log in from loopback only."""
    for name in ("ann", "guest"):
        assert put(node, f"/api/users/{name}", password=name, tags="administrator") == 201
        assert put(node, f"/api/permissions/%2F/{name}", configure=".*", write=".*", read=".*") == 201


def put(node: CellNode, path: str, **value: object) -> int:
    return api(node).send("PUT", path, json.dumps(value).encode())[0].status


def api(node: CellNode) -> HttpApi:
    return HttpApi(node.http_url, "admin", "admin")


def url(node: CellNode, scheme: str, login: str = "admin:admin@") -> str:
    return f"{scheme}://{login}127.0.0.1:{node.ports[scheme]}"


@pytest.fixture
def standby(cell: Cell) -> CellNode:
    """One that relays: a node may just have been started."""
    return until(lambda: next((node for node in cell.standbys() if is_ready(node)), None), 60, cell.logs)


def is_ready(node: CellNode) -> bool:
    try:
        return HttpApi(node.http_url, None).get(READY)[0] == 200
    except OSError:
        return False


def test_amqp_through_every_node_reaches_one_broker(cell: Cell) -> None:
    async def story() -> None:
        bodies = [node.name.encode() for node in cell.nodes]
        for node in cell.nodes:
            async with await connect(node.url) as connection:
                channel = await connection.channel()
                await channel.declare_queue("through", durable=True)
                await channel.confirm_select()
                await channel.publish(node.name.encode(), routing_key="through")
        for node in reversed(cell.nodes):
            async with await connect(node.url) as connection:
                channel = await connection.channel()
                message = await channel.get("through", no_ack=True)
                assert message is not None
                assert message.body == bodies.pop(0)

    asyncio.run(story())


def test_the_leader_shows_the_address_of_a_relayed_client(cell: Cell, standby: CellNode) -> None:
    with RawClient.open(standby.url) as client:
        host, port = client.socket.getsockname()
        until(lambda: (host, port) in peers(cell.leader()), 60, lambda: str(peers(cell.leader())))


def peers(node: CellNode) -> set[tuple[str, int]]:
    return {(row["peer_host"], row["peer_port"]) for row in api(node).get("/api/connections")[1]}


def test_stomp_through_a_standby(standby: CellNode) -> None:
    with StompClient.open(url(standby, "stomp"), login="admin", passcode="admin") as client:
        client.say("SUBSCRIBE", id=1, destination="/queue/stomp")
        client.sure("SEND", b"hello", destination="/queue/stomp")
        assert client.bodies(1) == [b"hello"]


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_amqp_over_http_through_a_standby(standby: CellNode, scheme: str) -> None:
    async def story() -> None:
        async with await connect(f"{scheme}://admin:admin@127.0.0.1:{standby.http_port}") as connection:
            channel = await connection.channel()
            await channel.declare_queue("web", durable=True)
            await channel.confirm_select()
            await channel.publish(bytes(300_000), routing_key="web")
            message = await channel.get("web", no_ack=True)
            assert message is not None
            assert message.body == bytes(300_000)

    asyncio.run(story())


def test_the_http_api_through_a_standby(cell: Cell, standby: CellNode) -> None:
    assert put(standby, "/api/queues/%2F/by%20api", durable=True) == 201
    assert api(cell.leader()).get("/api/queues/%2F/by%20api")[1]["name"] == "by api"
    assert HttpApi(standby.http_url, None).get("/api/queues")[0] == 401
    response, page = HttpApi(standby.http_url, None).send("GET", "/")
    assert response.status == 200
    assert b"<html" in page


def test_single_sign_on_through_a_standby(standby: CellNode, provider: Provider) -> None:
    browser = SigningBrowser(standby.http_url)
    assert browser.sign_in(provider)[0] == 200
    assert browser.user["name"] == "ann"


def test_a_standby_answers_probes_itself(cell: Cell, standby: CellNode) -> None:
    anonymous = HttpApi(standby.http_url, None)
    assert anonymous.get(READY) == (200, {"status": "ok"})
    _, own = anonymous.send("GET", "/metrics")
    assert b"leveret_standby_ready 1" in own
    assert api(cell.leader()).get(READY) == (200, {"status": "ok"})


def test_tls_ends_at_the_leader_and_client_certificates_log_in(
    standby: CellNode, certificates: CertificateFiles
) -> None:
    tls = certificates.client("ann")
    where = url(standby, "amqps", "")
    with RawClient.open(where, tls=tls, mechanism="EXTERNAL", response=b"") as client:
        client.is_alive()
    with connected(url(standby, "https", "")) as plain, wrapped(plain, certificates.client()) as sealed:
        assert logs_in(sealed, "http", "ann")
    with connected(where, PROXY) as plain:
        plain.sendall(v2("203.0.113.9"))  # before the handshake
        with wrapped(plain, tls) as sealed:
            assert logs_in(sealed, "amqp", "ann")
    with pytest.raises(ssl.SSLError), connected(where) as plain:
        wrapped(plain, ssl.create_default_context())  # does not trust the authority


@pytest.mark.parametrize("scheme", ["amqp", "stomp", "http"])
def test_a_standby_reads_proxy_headers(standby: CellNode, scheme: str) -> None:
    where = url(standby, scheme, "")
    with connected(where, PROXY) as peer:
        assert logs_in(peer, scheme, "ann", v1("203.0.113.9"))
    with connected(where, PROXY) as peer:
        assert not logs_in(peer, scheme, "ann")  # no header


def test_the_leader_shows_the_address_of_a_proxy_header(cell: Cell, standby: CellNode) -> None:
    with RawClient(url(standby, "amqp", "ann:ann@"), source=PROXY) as client:
        client.send_bytes(v2("203.0.113.9", 4242))
        client.handshake()
        until(lambda: ("203.0.113.9", 4242) in peers(cell.leader()), 60, lambda: str(peers(cell.leader())))


@pytest.mark.parametrize("scheme", ["amqp", "stomp", "http"])
def test_guest_logs_in_from_the_machine_of_a_standby_only(standby: CellNode, scheme: str) -> None:
    with connected(url(standby, scheme, "")) as peer:
        assert logs_in(peer, scheme, "guest")
    for address in ("203.0.113.9", "127.0.0.1"):
        with connected(url(standby, scheme, ""), PROXY) as peer:
            assert not logs_in(peer, scheme, "guest", v2(address))


def greeted(node: CellNode) -> socket.socket:
    """A connection that has sent its protocol header."""
    peer = socket.create_connection(("127.0.0.1", node.port), 30)
    peer.sendall(PROTOCOL_HEADER)
    return peer


def receives_start(peer: socket.socket) -> bool:
    """Whether the broker answers, rather than closing."""
    try:
        return bool(peer.recv(1))
    except ConnectionError:
        return False


def ends(peer: socket.socket) -> None:
    with suppress(ConnectionError):
        while peer.recv(1 << 16):
            pass
    peer.close()


def test_relayed_connections_end_with_the_leader_and_waiting_ones_get_to_the_next(cell: Cell) -> None:
    leader, standbys = cell.leader(), cell.standbys()
    before = [greeted(node) for node in standbys]
    assert all(receives_start(peer) for peer in before)
    leader.kill()
    waiting = [greeted(node) for node in standbys]  # one of them is going to lead
    begun = time.monotonic()
    for peer in before:
        ends(peer)
    assert time.monotonic() - begun < SOON
    for peer in waiting:
        assert receives_start(peer)
        peer.close()
    assert cell.leader() in standbys
    leader.start()


def test_relayed_connections_to_a_leader_that_is_cut_off_end_when_another_one_leads(
    cell: Cell, standby: CellNode
) -> None:
    old = cell.leader()
    peer = greeted(standby)
    assert receives_start(peer)
    old.signal(signal.SIGSTOP)  # its sockets stay open
    cell.leader(but=old)
    begun = time.monotonic()
    ends(peer)
    assert time.monotonic() - begun < SOON
    old.signal(signal.SIGCONT)
    old.wait_for("stepping down")
