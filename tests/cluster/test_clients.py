"""Client libraries on a cell whose nodes are killed: they reconnect by their ordinary means, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cell_node import Cell
from tests.support.cell_publishers import AioPika, CeleryTasks, Kombu, Leveret, Pika, Publisher, numbers_in
from tests.support.nats_servers import NatsServers

SECONDS = 60.0  # in which clients go on: a node is replaced in about 2, and they try again now and then
MESSAGES = 20


@pytest.fixture(scope="module")
def cell(servers: NatsServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    """Three nodes, started."""
    with Cell(tmp_path_factory.mktemp("clients"), servers, "clients") as made:
        made.start()
        made.await_ready()
        yield made


@pytest.fixture
def publishers(cell: Cell, tmp_path: Path) -> Iterator[list[Publisher]]:
    """One for each library, all through a standby, and the leader last."""
    urls = [node.url for node in (*cell.standbys(), cell.leader())]
    celery = CeleryTasks(urls, tmp_path)
    made = [Pika(urls), Kombu(urls), AioPika(urls), Leveret(urls), celery]
    try:
        for each in made:
            each.start()
        for each in made:
            each.await_progress(MESSAGES, 2 * SECONDS)  # a worker takes some seconds to start
        yield made
    finally:
        celery.end_worker()


def test_clients_go_on_when_nodes_are_killed_and_nothing_confirmed_is_lost(
    cell: Cell, publishers: list[Publisher]
) -> None:
    leader, (relaying, other) = cell.leader(), cell.standbys()
    relaying.kill()
    for each in publishers:
        if not isinstance(each, AioPika):  # it knows no other node
            each.await_progress(MESSAGES, SECONDS)
    relaying.start()
    for each in publishers:
        each.await_progress(MESSAGES, SECONDS)
    leader.kill()
    for each in publishers:
        each.await_progress(MESSAGES, SECONDS)
    for each in publishers:
        each.end()
    assert cell.leader() in (relaying, other)
    for each in publishers:
        if isinstance(each, CeleryTasks):
            each.await_all_done(4 * SECONDS)  # what the killed leader had delivered comes again
        else:
            found = numbers_in(other.url, each.name)
            assert list(dict.fromkeys(found)) == sorted(set(found))  # in order, a number may be there twice
            assert set(found) >= set(each.confirmed), each.name
