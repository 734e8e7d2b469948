"""What is said about an engine, from the facts that its servers tell."""

from __future__ import annotations

import asyncio

import pytest

from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import EngineOptions
from leveret.cluster.engine_checks import ServerFacts, check_engine, examine, facts_of
from leveret.errors import ClusterError

GOOD = [ServerFacts(f"http://{name}:8222", name, (2, 14, 6), "c", True, True, 1 << 20) for name in ("a", "b", "c")]


def one(**facts: object) -> list[ServerFacts]:
    return [GOOD[0]._replace(**facts), *GOOD[1:]]  # type: ignore[arg-type]


def test_a_good_engine_has_no_findings() -> None:
    assert examine(GOOD) == ([], [], [])


@pytest.mark.parametrize("version", [(2, 14, 0), (2, 15, 2), (3, 0, 0)])
def test_versions_that_are_good(version: tuple[int, ...]) -> None:
    assert examine(one(version=version)) == ([], [], [])


@pytest.mark.parametrize("version", [(2, 13, 9), (1, 99, 0), (0,)])
def test_older_versions_are_unsafe(version: tuple[int, ...]) -> None:
    (text,) = examine(one(version=version)).unsafe
    assert "upgrade it to 2.14" in text


@pytest.mark.parametrize("version", [(2, 15, 0), (2, 15, 1)])
def test_versions_that_have_lost_data_are_warned_about(version: tuple[int, ...]) -> None:
    broken, unsafe, (text,) = examine(one(version=version))
    assert not broken
    assert not unsafe
    assert "http://a:8222 is nats-server 2.15" in text


def test_a_server_that_syncs_later_is_unsafe() -> None:
    (text,) = examine(one(syncs_always=False)).unsafe
    assert "http://a:8222 acknowledges before its disk has the data" in text


def test_too_few_servers_are_unsafe() -> None:
    assert "2 distinct server(s)" in examine(GOOD[:2]).unsafe[0]
    assert "1 distinct server(s)" in examine(GOOD[:1] * 3).unsafe[0]


def test_servers_of_different_clusters_cannot_be_used() -> None:
    assert "(c, d)" in examine(one(cluster="d")).broken[0]
    assert "(c, none)" in examine(one(cluster="")).broken[0]


def test_a_server_without_jetstream_cannot_be_used() -> None:
    assert "add a 'jetstream' block" in examine(one(has_jetstream=False)).broken[0]


def test_a_server_with_small_messages_cannot_be_used() -> None:
    assert "set 'max_payload'" in examine(one(max_payload=1 << 18)).broken[0]


def test_facts_are_read_from_what_a_server_tells() -> None:
    varz = {
        "server_id": "ID",
        "version": "2.14.6-beta.1",
        "max_payload": 1048576,
        "cluster": {"name": "c"},
        "jetstream": {"config": {"sync_always": True}},
    }
    assert facts_of("u", varz) == ServerFacts("u", "ID", (2, 14, 6), "c", True, True, 1048576)
    assert facts_of("u", varz | {"jetstream": {"config": {}}, "version": "?"}).syncs_always is False
    assert facts_of("u", {"server_id": "ID", "version": "?", "max_payload": 1}).has_jetstream is False


def test_monitoring_is_by_default_on_the_usual_port() -> None:
    options = EngineOptions(("nats://user:secret@one:4222", "tls://two"))
    assert options.monitoring_urls == ("http://one:8222", "http://two:8222")


@pytest.mark.parametrize("name", ["", "a.b", "a b", "ä", "*", "x" * 65])
def test_a_cell_name_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="cannot be the name of a cell"):
        CellStream.of(name)


def test_the_names_of_a_cell() -> None:
    stream = CellStream.of("eu-1")
    assert (stream.name, stream.subject) == ("LEVERET_eu-1", "leveret.eu-1.log")


class StartingServers:
    """Without JetStream and unhealthy at first; then healthy, with it or without."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, has_jetstream: bool) -> None:
        self._checks = dict.fromkeys((each.url for each in GOOD), 0)
        self._has_jetstream = has_jetstream
        monkeypatch.setattr("leveret.cluster.engine_checks.read_facts", self._read)
        monkeypatch.setattr("leveret.cluster.engine_checks.is_healthy", self._is_healthy)

    def _is_healthy(self, url: str, login: object) -> bool:
        self._checks[url] += 1
        return self._checks[url] == 2

    def _read(self, url: str, login: object) -> ServerFacts:
        has_jetstream = self._has_jetstream and self._checks[url] == 2
        return next(each for each in GOOD if each.url == url)._replace(has_jetstream=has_jetstream)


OPTIONS = EngineOptions(("nats://a", "nats://b", "nats://c"), tuple(each.url for each in GOOD))


def test_a_server_that_was_started_just_now_has_time_for_jetstream(monkeypatch: pytest.MonkeyPatch) -> None:
    StartingServers(monkeypatch, has_jetstream=True)
    assert asyncio.run(check_engine(OPTIONS)) == GOOD


def test_a_server_without_jetstream_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    StartingServers(monkeypatch, has_jetstream=False)
    with pytest.raises(ClusterError, match="http://a:8222 runs without JetStream"):
        asyncio.run(check_engine(OPTIONS))
