"""x-single-active-consumer: one consumer of all cells gets everything, and management shows which one it is."""

from __future__ import annotations

import pytest

from leveret.api.policy_matches import PolicyMatches
from leveret.api.views.connection import CONSUMER_ROWS, FoundConsumer
from leveret.api.views.queue import QueueView
from leveret.http.rows import RowCache
from leveret.session.consumer_reports import ACTIVE
from leveret.stats.stats import Stats
from leveret.wire.methods import BasicCancel
from tests.support.cell_cluster import CellCluster, CellHarness
from tests.support.peer_pair import Client, Content


@pytest.fixture
def cells() -> CellCluster:
    cells = CellCluster(2)
    cells[0].client().declare("q", durable=True, arguments={"x-single-active-consumer": True})
    return cells


def consumer(cell: CellHarness, tag: str, **arguments: object) -> Client:
    client = cell.client()
    client.consume("q", tag, arguments={f"x-{name}": value for name, value in arguments.items()})
    return client


def active_tag(cells: CellCluster) -> object:
    """As the home cell shows it."""
    home = cells[0]
    view = QueueView(Stats(home.broker), PolicyMatches(), "c1", RowCache(lambda queue: queue.alive))
    return view.row(home.vhost, home.vhost.queues["q"])["single_active_consumer_tag"]


def activity(cell: CellHarness) -> dict[str, str]:
    """The status of each consumer, as its own cell lists it."""
    queue = cell.vhost.queues["q"]
    rows = [CONSUMER_ROWS.row(FoundConsumer(queue, each, cell.cell)) for each in queue.consumers]
    assert all(row["active"] == (row["activity_status"] == "single_active") for row in rows)
    return {row["consumer_tag"]: row["activity_status"] for row in rows if row["consumer_tag"] != "c"}


def bodies_of(*clients: Client) -> list[list[bytes]]:
    return [client.bodies() for client in clients]


def test_a_consumer_of_another_cell_takes_over_and_hands_over(cells: CellCluster) -> None:
    here, there = cells.cells
    first, second, third = consumer(here, "1"), consumer(there, "2"), consumer(here, "3")
    publisher = there.client()
    publisher.publish("q", b"a")
    assert bodies_of(first, second, third) == [[b"a"], [], []]
    first.vanish()
    publisher.publish("q", b"b")
    assert bodies_of(second, third) == [[b"a", b"b"], []]  # a was not acknowledged
    second.send(BasicCancel("2"))
    publisher.publish("q", b"c")
    assert bodies_of(second, third)[1] == [b"c"]  # what the former one holds stays with it


def test_what_a_lost_consumer_of_another_cell_held_goes_to_the_next_in_order(cells: CellCluster) -> None:
    here, there = cells.cells
    first, second = consumer(there, "1"), consumer(here, "2")
    here.client().publish("q", b"a", b"b")
    assert bodies_of(first, second) == [[b"a", b"b"], []]
    first.vanish()
    got = [what for what in second.heard() if isinstance(what, Content)]
    assert [(each.body, each.redelivered) for each in got] == [(b"a", True), (b"b", True)]


def test_consumers_of_a_cell_that_is_cut_off_lose_their_place(cells: CellCluster) -> None:
    here, there = cells.cells
    first, second = consumer(there, "1"), consumer(here, "2")
    cells.cut(here, there)
    here.client().publish("q", b"a")
    assert bodies_of(first, second) == [[], [b"a"]]
    assert activity(there) == {"1": "waiting"}
    cells.connect_definitions(there)
    cells.connect_queues(there, here)
    cells.rest()
    here.client().publish("q", b"b")
    assert bodies_of(first, second) == [[], [b"b"]]
    second.vanish()
    assert bodies_of(first) == [[b"a", b"b"]]
    assert activity(there) == {"1": "single_active"}


# ---- management


def test_the_active_consumer_is_shown_whatever_its_cell(cells: CellCluster) -> None:
    here, there = cells.cells
    first, second = consumer(there, "1"), consumer(there, "2")
    third = consumer(here, "3")
    assert active_tag(cells) == "1"
    assert (activity(there), activity(here)) == ({"1": "single_active", "2": "waiting"}, {"3": "waiting"})
    first.send(BasicCancel("1"))
    assert active_tag(cells) == "2"
    assert (activity(there), activity(here)) == ({"2": "single_active"}, {"3": "waiting"})
    second.vanish()
    assert active_tag(cells) == "3"
    assert (activity(there), activity(here)) == ({}, {"3": "single_active"})
    third.vanish()
    assert active_tag(cells) is None


def test_a_consumer_with_a_higher_priority_is_shown_as_active(cells: CellCluster) -> None:
    here, there = cells.cells
    consumer(there, "low")
    high = consumer(here, "high", priority=1)
    assert activity(there) == {"low": "waiting"}
    highest = consumer(there, "highest", priority=2)
    assert activity(there) == {"low": "waiting", "highest": "single_active"}
    highest.vanish()
    assert (activity(there), activity(here)) == ({"low": "waiting"}, {"high": "single_active"})
    high.vanish()
    assert activity(there) == {"low": "single_active"}


def test_a_report_about_a_consumer_that_has_left_is_ignored(cells: CellCluster) -> None:
    first = consumer(cells[1], "1")
    queue = cells[1].vhost.queues["q"]
    (remote,) = queue.lanes.values()  # type: ignore[attr-defined]
    first.vanish()
    assert queue.consumers.active is None
    remote.reported(ACTIVE, 1)
    assert queue.consumers.active is None


def test_an_exclusive_consumer_of_another_cell_is_shown_with_its_tag(cells: CellCluster) -> None:
    home, other = cells.cells
    home.client().declare("plain", durable=True)
    other.client().consume("plain", "mine", exclusive=True)
    view = QueueView(Stats(home.broker), PolicyMatches(), "c1", RowCache(lambda queue: queue.alive))
    assert view.row(home.vhost, home.vhost.queues["plain"])["exclusive_consumer_tag"] == "mine"
