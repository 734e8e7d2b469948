"""Where new queues live."""

from __future__ import annotations

import pytest

from leveret.wire.methods import ChannelClose, QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk
from tests.support.cell_cluster import CellCluster


@pytest.fixture
def cells() -> CellCluster:
    return CellCluster(3, locator="balanced")


def homes(cells: CellCluster) -> list[list[str]]:
    """The queues of each cell."""
    return [sorted(name for name, queue in cell.vhost.queues.items() if queue.home is None) for cell in cells.cells]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_queues_are_spread_whatever_cell_they_are_declared_in(cells: CellCluster, place: int) -> None:
    client = cells[place].client()
    for number in range(9):
        assert client.declare(f"q{number}", durable=number % 2 == 0) == QueueDeclareOk(f"q{number}", 0, 0)
    assert [len(each) for each in homes(cells)] == [3, 3, 3]
    for number in range(9):
        client.publish(f"q{number}", b"1")
        assert client.count(f"q{number}") == 1


def test_a_deleted_queue_makes_room(cells: CellCluster) -> None:
    client = cells[1].client()
    for number in range(3):
        client.declare(f"q{number}")
    place = next(place for place, queues in enumerate(homes(cells)) if "q1" in queues)
    assert client.ask(QueueDelete("q1")) == QueueDeleteOk(0)
    client.declare("next")
    assert homes(cells)[place] == ["next"]


@pytest.mark.parametrize(
    "declared",
    [{"exclusive": True}, {"auto_delete": True}, {"arguments": {"x-queue-leader-locator": "client-local"}}],
    ids=lambda declared: next(iter(declared)),
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_queues_that_belong_to_a_client_stay_in_its_cell(
    cells: CellCluster, place: int, declared: dict[str, object]
) -> None:
    client = cells[place].client()
    for number in range(3):
        client.declare(f"q{number}", **declared)
    assert homes(cells)[place] == ["q0", "q1", "q2"]


def declare_five(cells: CellCluster, place: int, **arguments: str) -> list[int]:
    """Declare five queues in the cell at this place; returns the number of queues in each cell."""
    client = cells[place].client()
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    for number in range(5):
        client.declare(f"q{number}", durable=True, arguments=table)
    return [len(each) for each in homes(cells)]


@pytest.mark.parametrize("locator", ["balanced", "random", "least-leaders", "min-masters"])
def test_a_queue_is_placed_by_its_argument(locator: str) -> None:
    assert declare_five(CellCluster(3), 1, queue_leader_locator=locator) == [2, 2, 1]


@pytest.mark.parametrize("locator", ["nearest", "", 1])
@pytest.mark.parametrize("place", [0, 1])
def test_an_unknown_locator_is_refused(cells: CellCluster, place: int, locator: object) -> None:
    closed = cells[place].client().ask(QueueDeclare("q", arguments={"x-queue-leader-locator": locator}))
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == 406
    assert f"invalid arg 'x-queue-leader-locator': {locator!r}; accepted: client-local, balanced" in closed.reply_text
    assert homes(cells) == [[], [], []]


@pytest.mark.parametrize("place", [0, 1])
def test_a_policy_places_the_queues_that_it_matches(place: int) -> None:
    cells = CellCluster(3)
    cells[0].broker.policies.set("/", "spread", "^q[0-3]", {"queue-leader-locator": "random"}, apply_to="quorum_queues")
    cells.rest()
    assert sorted(declare_five(cells, place, queue_type="quorum")) == [1, 1, 3], "the last queue is not matched"
    assert "q4" in homes(cells)[place]


def test_a_policy_for_another_queue_type_places_nothing() -> None:
    cells = CellCluster(3)
    cells[0].broker.policies.set("/", "spread", "", {"queue-leader-locator": "balanced"}, apply_to="quorum_queues")
    assert declare_five(cells, 0) == [5, 0, 0]


def test_the_argument_wins_over_the_policy(cells: CellCluster) -> None:
    cells[0].broker.policies.set("/", "near", "", {"queue-leader-locator": "client-local"})
    assert declare_five(cells, 2, queue_leader_locator="balanced") == [2, 1, 2]


@pytest.mark.parametrize("place", [0, 2])
def test_generated_names_stay_in_the_cell_of_the_client(cells: CellCluster, place: int) -> None:
    client = cells[place].client()
    names = sorted(client.declare("").queue for _ in range(2))
    assert homes(cells)[place] == names


def test_a_cell_that_is_away_gets_no_queues(cells: CellCluster) -> None:
    cells.cut(cells[0], cells[1])
    client = cells[2].client()
    for number in range(4):
        client.declare(f"q{number}")
    assert [len(each) for each in homes(cells)] == [2, 0, 2]


def test_a_queue_that_has_moved_counts_in_its_new_cell(cells: CellCluster) -> None:
    client, moves = cells[0].client(), cells[0].queue_moves
    assert moves is not None
    for number in range(3):
        client.declare(f"q{number}")
    (moved,) = homes(cells)[0]
    moves.begin("/", moved, "c2")
    cells.advance(1)
    assert [len(each) for each in homes(cells)] == [0, 2, 1]
    for number in range(3, 6):
        client.declare(f"q{number}")
    assert [len(each) for each in homes(cells)] == [2, 2, 2]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_cell_that_leaves_gets_no_new_queues(cells: CellCluster, place: int) -> None:
    membership = cells[0].sharding.membership
    membership.leave("c3")
    cells.rest()
    client = cells[place].client()
    for number in range(4):
        client.declare(f"q{number}")
    assert [len(each) for each in homes(cells)] == [2, 2, 0]
    membership.rejoin("c3")
    cells.rest()
    client.declare("next")
    assert homes(cells)[2] == ["next"]


@pytest.mark.parametrize("declared", [{"auto_delete": True}, {"arguments": {"x-queue-leader-locator": "client-local"}}])
def test_queues_of_clients_of_a_cell_that_leaves_are_declared_elsewhere(
    cells: CellCluster, declared: dict[str, object]
) -> None:
    cells[0].sharding.membership.leave("c3")
    cells.rest()
    client = cells[2].client()
    client.declare("q", **declared)
    client.declare("own", exclusive=True)
    assert homes(cells) == [["q"], [], ["own"]]
