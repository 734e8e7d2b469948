"""What a node finds out about its engine before it uses it, from real servers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from leveret.cluster.cell_stream import CellStream, prepare_stream
from leveret.cluster.engine import Engine, EngineOptions, EngineRefusal
from leveret.cluster.engine_checks import check_engine
from leveret.errors import ClusterError
from tests.cluster.conftest import Play
from tests.support.cell_log import CellLog
from tests.support.cell_ports import free_ports
from tests.support.nats_servers import NatsServers


def options_of(servers: NatsServers, **others: bool) -> EngineOptions:
    return EngineOptions(tuple(servers.urls), tuple(servers.monitoring), **others)


def test_three_servers_that_sync_are_accepted(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        facts = await check_engine(cell.options)
        assert len({server.id for server in facts}) == 3
        assert {server.version[:2] for server in facts} == {(2, 14)}
        assert all(server.syncs_always for server in facts)

    play(servers, story)


def test_the_same_server_three_times_is_refused(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        with pytest.raises(ClusterError, match=r"lead to 1 distinct server\(s\).*name three servers"):
            await check_engine(EngineOptions(tuple(servers.urls[:1] * 3), tuple(servers.monitoring[:1] * 3)))

    play(servers, story)


def test_a_server_that_does_not_sync_is_refused_unless_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(servers: NatsServers) -> None:
        connection = await Engine(options_of(servers), "test").connect_within(20)
        with pytest.raises(ClusterError, match=r"confirmed messages.*sync_interval: always.*--allow-unsafe-engine"):
            await check_engine(options_of(servers))
        allowed = options_of(servers, is_unsafe_allowed=True)
        await check_engine(allowed)
        assert allowed.replicas == 1
        await prepare_stream(connection, CellStream.of("one").configuration(1, 1 << 20))
        await connection.close()

    with NatsServers(tmp_path, 1, sync="2m") as servers:
        servers.start()
        asyncio.run(story(servers))
    assert "sync_interval: always" in caplog.text


def test_servers_without_monitoring_are_refused(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        (port,) = free_ports(1)
        closed = (f"http://127.0.0.1:{port}", *servers.monitoring[1:])
        with pytest.raises(ClusterError, match=rf"127.0.0.1:{port}/varz .*set 'http_port'.*--cluster-monitoring"):
            await check_engine(EngineOptions(tuple(servers.urls), closed))

    play(servers, story)


def test_a_node_starts_while_one_server_is_down(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        ports = free_ports(4)
        urls = (*servers.urls[:2], f"nats://127.0.0.1:{ports[0]}")
        monitoring = (*servers.monitoring[:2], f"http://127.0.0.1:{ports[1]}")
        assert len(await check_engine(EngineOptions(urls, monitoring))) == 2
        urls = (urls[0], f"nats://127.0.0.1:{ports[2]}", urls[2])
        monitoring = (monitoring[0], f"http://127.0.0.1:{ports[3]}", monitoring[2])
        with pytest.raises(ClusterError, match=r"^[^;]*cannot be reached; .*cannot be reached: start the NATS"):
            await check_engine(EngineOptions(urls, monitoring))

    play(servers, story)


def test_an_engine_that_cannot_be_reached_is_named() -> None:
    async def story() -> None:
        (port,) = free_ports(1)
        with pytest.raises(ClusterError, match=rf"127.0.0.1:{port}.*start the NATS servers"):
            await Engine(EngineOptions((f"nats://127.0.0.1:{port}",)), "test").connect_within(0.1)

    asyncio.run(story())


def test_the_stream_has_three_copies_on_disk_and_cannot_be_purged(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        connection = await cell.connect()
        info = await prepare_stream(connection, cell.stream.configuration(3, 64 << 20))
        config = info["config"]
        assert (config["num_replicas"], config["storage"], config["discard"]) == (3, "file", "old")
        assert len(info["cluster"]["replicas"]) == 2
        with pytest.raises(EngineRefusal, match="purge"):
            await connection.request(f"$JS.API.STREAM.PURGE.{cell.stream.name}")

    play(servers, story)


def test_a_stream_with_another_configuration_is_refused(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        connection = await cell.connect()
        other = CellStream.of("other")
        await prepare_stream(connection, other.configuration(1, 1 << 20))
        with pytest.raises(ClusterError, match=r"num_replicas is 1 instead of 3.*nats stream edit LEVERET_other"):
            await prepare_stream(connection, other.configuration(3, 1 << 20))

    play(servers, story)


def test_an_operator_may_change_the_size_of_the_ring(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        connection = await cell.connect()
        info = await prepare_stream(connection, cell.stream.configuration(3, 128 << 20))
        assert info["config"]["max_bytes"] == 64 << 20

    play(servers, story)


def test_a_stream_that_does_not_fit_on_the_servers_is_refused(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        connection = await cell.connect()
        with pytest.raises(ClusterError, match=r"insufficient storage.*max_file_store"):
            await prepare_stream(connection, CellStream.of("huge").configuration(3, 1 << 40), seconds=0.2)

    play(servers, story)
