"""How the leaders of cells are spread over the nodes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from leveret.cluster.cell_summary import CellSummary, MemberSummary, Move, balanced

NODES = "abcd"


def cell(name: str, leader: str, nodes: str = "abc", behind: str = "") -> CellSummary:
    """With members on these nodes; those in ``behind`` are not up to date."""
    members = [MemberSummary(node, "standby", True, node not in behind, 0, 0.0) for node in nodes]
    return CellSummary(name, leader, 1, tuple(members))


def test_leaders_are_spread_and_the_first_cell_stays() -> None:
    moves = balanced([cell("c1", "a"), cell("c2", "a"), cell("c3", "a")])
    assert {move.cell for move in moves} == {"c2", "c3"}
    assert {move.target for move in moves} == {"b", "c"}
    assert all(move.origin == "a" for move in moves)


def test_what_is_balanced_stays() -> None:
    assert balanced([cell("c1", "a"), cell("c2", "b")]) == []
    assert balanced([cell("c1", "a", "ab"), cell("c2", "b", "ab"), cell("c3", "a", "ab")]) == []
    assert balanced([]) == []


def test_nodes_that_are_not_up_to_date_get_nothing() -> None:
    assert balanced([cell("c1", "a", behind="bc"), cell("c2", "a", behind="bc")]) == []
    assert balanced([cell("c1", "a"), cell("c2", "a", behind="b")]) == [Move("c2", "a", "c")]


def test_a_cell_without_a_leader_is_left_alone() -> None:
    unled = CellSummary("c2", problem="no node leads this cell")
    assert balanced([cell("c1", "a"), unled]) == []
    assert balanced([cell("c1", "a"), unled, cell("c3", "a")]) != []


@given(st.lists(st.tuples(st.sampled_from(NODES), st.sets(st.sampled_from(NODES))), max_size=12))
def test_no_node_leads_two_more_than_one_that_could_take_a_cell(drawn: list[tuple[str, set[str]]]) -> None:
    cells = [cell(f"c{n}", leader, "".join({leader, *others})) for n, (leader, others) in enumerate(drawn, 1)]
    leaders = {each.cell: each.leader for each in cells}
    moves = balanced(cells)
    assert len({move.cell for move in moves}) == len(moves)
    for move in moves:
        assert leaders[move.cell] == move.origin != move.target
        leaders[move.cell] = move.target
    led = Counter(leaders.values())
    for each in cells:
        assert leaders[each.cell] in each.candidates
        assert all(led[leaders[each.cell]] - led[node] <= 1 for node in each.candidates)
