"""S3-03: the same calls over every transport: TCP, TLS, WebSocket and HTTP, by each name that a transport has.

Nothing above a transport knows which one it is; so each test here runs once with each scheme.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import quote, urlsplit

import pytest

import leveret
from leveret.client import Connection, ConnectionLost, Happening, Unroutable, blocking, connect
from leveret.client.address import SCHEMES, parsed
from leveret.client.transports import OPENERS
from leveret.errors import ConnectionForced, LoginRefused, NotFound
from tests.support.certificates import CertificateFiles
from tests.support.http_api import HttpApi
from tests.support.raw_client import RawClient, eventually
from tests.support.slicing_transport import Slicing

EACH = pytest.mark.parametrize("scheme", sorted(SCHEMES))
ONE_OF_A_KIND = pytest.mark.parametrize("scheme", ["amqp", "amqps", "ws", "wss", "http", "https"])
LARGE = 12 << 20
PORT_OF = {"tcp": ("amqp_url", "amqps_url"), "ws": ("http_url", "https_url"), "http": ("http_url", "https_url")}


class Harness:
    """A broker on all its ports, and the address of each by scheme."""

    def __init__(self, certificates: CertificateFiles) -> None:
        self._papers = certificates
        ports = {"amqp_port": 0, "amqps_port": 0, "http_port": 0, "https_port": 0}
        self.broker = leveret.Broker(certificates.settings(**ports, login_failure_delay=0.0, shutdown_timeout=3.0))

    def uri(self, scheme: str, who: str = "guest:guest", **options: object) -> str:
        transport, is_tls, _ = SCHEMES[scheme]
        where = urlsplit(getattr(self.broker, PORT_OF[transport][is_tls]))
        if is_tls:
            options["cacertfile"] = self._papers.clients
        query = "&".join(f"{name}={quote(str(value))}" for name, value in options.items())
        return f"{scheme}://{who}@{where.hostname}:{where.port}/?{query}"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    harness = Harness(CertificateFiles(tmp_path_factory.mktemp("certificates")))
    with harness.broker:
        yield harness


def during(uri: str, do: Callable[[Connection], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(30), await connect(uri) as connection:
            await do(connection)

    asyncio.run(run())


@EACH
@pytest.mark.feature("S3-03")
def test_every_scheme_carries_the_same_calls(scheme: str, harness: Harness) -> None:
    async def calls(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        await channel.declare_exchange("x", "topic")
        await channel.declare_queue("calls", exclusive=True)
        await channel.bind_queue("calls", "x", "a.#")
        await channel.publish(b"one", "x", "a.b")
        with pytest.raises(Unroutable):
            await channel.publish(b"lost", "x", "nowhere", mandatory=True)
        fetched = await channel.get("calls")
        assert fetched is not None
        assert (fetched.body, fetched.routing_key) == (b"one", "a.b")
        fetched.nack()
        async with await channel.consume("calls") as consumer:
            again = await consumer.next(5)
            assert again is not None
            assert (again.body, again.redelivered) == (b"one", True)
            again.ack()
        other = await connection.channel()
        with pytest.raises(NotFound):
            await other.declare_queue("not there", passive=True)
        assert (await channel.declare_queue("calls", passive=True)).message_count == 0

    during(harness.uri(scheme), calls)


@ONE_OF_A_KIND
@pytest.mark.feature("S3-03")
def test_a_large_message_arrives_as_it_was(scheme: str, harness: Harness) -> None:
    body = bytes(range(256)) * (LARGE // 256)

    async def large(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        await channel.declare_queue("large", exclusive=True)
        await channel.publish(body, "", "large")
        async with await channel.consume("large", no_ack=True) as consumer:
            delivery = await consumer.next(20)
            assert delivery is not None
            assert delivery.body == body

    during(harness.uri(scheme), large)


@ONE_OF_A_KIND
@pytest.mark.feature("S3-03")
def test_many_small_messages_keep_their_order(scheme: str, harness: Harness) -> None:
    number = 5_000

    async def many(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        await channel.declare_queue("many", exclusive=True)
        await channel.qos(300)
        async with await channel.consume("many") as consumer:
            for each in range(number):
                channel.send(b"%d" % each, "", "many")
            for each in range(number):
                delivery = await consumer.next(20)
                assert delivery is not None
                assert delivery.body == b"%d" % each
                delivery.ack()
        assert channel.confirms is not None
        await channel.confirms.all_settled()

    during(harness.uri(scheme), many)


@ONE_OF_A_KIND
@pytest.mark.feature("S3-03", "S3-05")
def test_several_connections_do_not_meet(scheme: str, harness: Harness) -> None:
    """Each call gets its own answer, with calls under way on several connections and channels at once."""

    async def run() -> None:
        connections = [await connect(harness.uri(scheme)) for _ in range(3)]

        async def use(connection: Connection, queue: str) -> None:
            channel = await connection.channel()
            for _ in range(10):
                assert (await channel.declare_queue(queue, exclusive=True)).queue == queue

        await asyncio.gather(*(use(each, f"{number}-{n}") for number, each in enumerate(connections) for n in range(3)))
        for each in connections:
            await each.close()

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.feature("S3-04")
def test_a_link_may_be_put_between_the_connection_and_its_socket(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wraps what is below and is wrapped by what is above; neither knows of it."""
    monkeypatch.setitem(OPENERS, "tcp", "tests.support.slicing_transport:open_slicing")

    async def through(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.confirm_select()
        await channel.declare_queue("sliced", exclusive=True)
        await channel.publish(bytes(range(256)), "", "sliced")
        fetched = await channel.get("sliced", no_ack=True)
        assert fetched is not None
        assert fetched.body == bytes(range(256))

    during(harness.uri("amqp"), through)
    link = Slicing.made
    assert min(link.up, link.down) > 512


@pytest.mark.feature("S3-03")
def test_what_a_transport_needs_is_loaded_when_it_is_asked_for() -> None:
    script = "import sys, leveret.client; print([name for name in ('websockets', 'h11') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert found.stdout.strip() == "[]"


# ---- how it ends


@ONE_OF_A_KIND
@pytest.mark.feature("S3-03")
def test_a_wrong_password_is_told(scheme: str, harness: Harness) -> None:
    with pytest.raises(LoginRefused):
        during(harness.uri(scheme, "guest:wrong"), lambda connection: asyncio.sleep(0))


@ONE_OF_A_KIND
@pytest.mark.feature("S3-03")
def test_closing_leaves_nothing_behind(scheme: str, harness: Harness) -> None:
    async def hold(connection: Connection) -> None:
        channel = await connection.channel()
        await channel.declare_queue("held", exclusive=True)

    during(harness.uri(scheme), hold)
    eventually(lambda: not harness.broker.call(lambda: len(harness.broker.node.broker.registry)))
    doors = harness.broker.node._listeners
    assert harness.broker.call(lambda: len(doors.tunnels or ())) == 0


@ONE_OF_A_KIND
@pytest.mark.feature("S3-03")
def test_unacked_messages_go_back_when_the_client_is_cut_off(scheme: str, harness: Harness) -> None:
    async def run() -> None:
        connection = await connect(harness.uri(scheme))
        channel = await connection.channel()
        await channel.confirm_select()
        await channel.declare_queue("cut")
        await channel.publish(b"unacked", "", "cut")
        assert await channel.get("cut") is not None
        connection._abort()
        async with asyncio.timeout(10), await connect(harness.uri(scheme)) as other:
            channel = await other.channel()
            while (found := await channel.get("cut", no_ack=True)) is None:
                pass
            assert (found.body, found.redelivered) == (b"unacked", True)
            await channel.delete_queue("cut")

    asyncio.run(asyncio.wait_for(run(), 30))


@ONE_OF_A_KIND
@pytest.mark.feature("S3-03")
def test_the_broker_closes_a_connection_and_says_why(scheme: str, harness: Harness) -> None:
    async def run() -> None:
        name = f"to be closed {scheme}"
        connection = await connect(harness.uri(scheme, name=name))
        channel = await connection.channel()
        consumer = await channel.consume((await channel.declare_queue("", exclusive=True)).queue)
        api = HttpApi(harness.broker.http_url)
        await asyncio.to_thread(_close_by_management, api, name)
        async with asyncio.timeout(10):
            with pytest.raises(ConnectionForced, match="Closed via management plugin"):
                await consumer.next()
        assert connection.is_closed
        await connection.close()  # its socket, too

    asyncio.run(asyncio.wait_for(run(), 30))


def _close_by_management(api: HttpApi, name: str) -> None:
    _, rows = api.get("/api/connections")
    (found,) = [row["name"] for row in rows if row["user_provided_name"] == name]
    assert api.send("DELETE", f"/api/connections/{quote(found, safe='')}")[0].status == 204


@ONE_OF_A_KIND
@pytest.mark.feature("S3-03")
def test_a_broker_that_stops_tells_everybody_and_cuts_nobody_off(
    scheme: str, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(CertificateFiles(tmp_path_factory.mktemp("certificates")))

    async def run() -> None:
        connection = await connect(harness.uri(scheme))
        happened: list[Happening] = []
        connection.listeners.append(happened.append)
        channel = await connection.channel()
        consumer = await channel.consume((await channel.declare_queue("", exclusive=True)).queue)
        stopped = asyncio.create_task(asyncio.to_thread(harness.broker.stop))
        with pytest.raises(ConnectionForced, match="shutdown"):
            await consumer.next()
        await stopped

    with harness.broker, caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(run(), 20))
    assert "aborted at shutdown" not in caplog.text


# ---- long lives, and those who are no brokers


@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.feature("S3-09", "S3-10")
def test_heartbeats_pass_through(scheme: str, harness: Harness) -> None:
    """With an interval of a second both sides would give up after two without them."""

    async def beats(connection: Connection) -> None:
        assert connection.heartbeat == 1
        beats: asyncio.Queue[Happening] = asyncio.Queue()
        connection.listeners.append(beats.put_nowait)
        for _ in range(3):
            assert (await beats.get()).kind == "keep-alive sent"
        channel = await connection.channel()
        await channel.close()

    during(harness.uri(scheme, heartbeat=1), beats)


@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.feature("S3-03")
def test_a_port_that_speaks_something_else_is_an_error_with_its_address(scheme: str, harness: Harness) -> None:
    where = urlsplit(harness.broker.amqp_url)
    with pytest.raises(ConnectionLost, match=f"{scheme}://guest@127.0.0.1:{where.port}/"):
        during(f"{scheme}://127.0.0.1:{where.port}", lambda connection: asyncio.sleep(0))
    with RawClient.open(harness.broker.amqp_url) as bystander:
        bystander.is_alive()


@pytest.mark.parametrize("scheme", ["amqp", "ws", "http"])
@pytest.mark.feature("S3-11")
def test_a_port_that_takes_connections_and_says_nothing_is_given_up_in_time(scheme: str) -> None:
    async def run() -> None:
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = parsed(f"{scheme}://127.0.0.1:{silent.getsockname()[1]}", connection_timeout=0.2)
            with pytest.raises(ConnectionLost, match=r"within 0\.2 s"):
                await connect(address)
        await asyncio.sleep(0)
        assert problems == []

    asyncio.run(asyncio.wait_for(run(), 10))


@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.feature("S3-03")
def test_threads_and_failover_come_this_way_too(scheme: str, harness: Harness) -> None:
    for uri in (harness.uri(scheme), f"failover:({harness.uri(scheme)})"):
        with blocking.connect(uri) as connection:
            channel = connection.channel()
            channel.confirm_select()
            queue = channel.declare_queue("", exclusive=True).queue
            channel.publish(b"by a thread", "", queue)
            fetched = channel.get(queue, no_ack=True)
            assert fetched is not None
            assert fetched.body == b"by a thread"


@ONE_OF_A_KIND
@pytest.mark.feature("S3-03")
def test_the_management_shows_who_came_and_how(scheme: str, harness: Harness) -> None:
    async def shown(connection: Connection) -> None:
        _, rows = await asyncio.to_thread(HttpApi(harness.broker.http_url).get, "/api/connections")
        (row,) = [row for row in rows if row["user_provided_name"] == f"shown {scheme}"]
        assert row["ssl"] is SCHEMES[scheme][1]
        assert row["peer_host"] == "127.0.0.1"
        assert row["recv_oct"] > 0

    during(harness.uri(scheme, name=f"shown {scheme}"), shown)
