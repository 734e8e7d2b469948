"""Which queues move so that all cells have the same share."""

from __future__ import annotations

from leveret.broker.cells import Proposal
from leveret.cells.rebalance import QueueLoad, proposals


def queues(cell: str, number: int, messages: int = 0) -> list[QueueLoad]:
    return [QueueLoad("/", f"{cell} {n}", cell, messages) for n in range(number)]


def after(loads: list[QueueLoad], moves: list[Proposal]) -> dict[str, tuple[int, int]]:
    """The number of queues and messages of each cell."""
    homes = {(load.vhost, load.name): load.cell for load in loads} | {(m.vhost, m.queue): m.to for m in moves}
    found: dict[str, tuple[int, int]] = {}
    for load in loads:
        home = homes[load.vhost, load.name]
        number, messages = found.get(home, (0, 0))
        found[home] = number + 1, messages + load.messages
    return found


def test_queues_are_spread_over_all_cells() -> None:
    loads = queues("c1", 12)
    assert after(loads, proposals(loads, ["c1", "c2", "c3"])) == {"c1": (4, 0), "c2": (4, 0), "c3": (4, 0)}


def test_messages_count_as_much_as_queues() -> None:
    loads = [*queues("c1", 4, 1_000), *queues("c2", 4, 0)]
    assert after(loads, proposals(loads, ["c1", "c2"]))["c2"][1] in (1_000, 2_000)


def test_an_even_distribution_is_left_alone() -> None:
    loads = [*queues("c1", 5, 10), *queues("c2", 5, 10)]
    assert proposals(loads, ["c1", "c2"]) == []
    assert proposals(queues("c1", 1, 100), ["c1", "c2"]) == []  # it would only be the other way round
    assert proposals([], ["c1", "c2"]) == []


def test_the_proposals_are_always_the_same_and_leave_nothing_to_propose() -> None:
    loads = [QueueLoad("/", f"q{n}", "c1" if n % 4 else "c2", n * n) for n in range(40)]
    moves = proposals(loads, ["c1", "c2", "c3"])
    assert moves == proposals(loads[::-1], ["c3", "c1", "c2"])
    assert len({move.queue for move in moves}) == len(moves)
    homes = {move.queue: move.to for move in moves}
    settled = [load._replace(cell=homes.get(load.name, load.cell)) for load in loads]
    assert proposals(settled, ["c1", "c2", "c3"]) == []


def test_a_proposal_has_its_reason() -> None:
    (move, *_) = proposals(queues("c1", 4), ["c1", "c2"])
    assert (move.source, move.to, move.reason) == ("c1", "c2", "c1 has 100% of the load, c2 0%")


def test_queues_of_cells_that_leave_are_not_considered() -> None:
    assert proposals(queues("c3", 6), ["c1", "c2"]) == []
