"""Lists of several cells as one: order, pages, filters, columns, nodes, and cells that do not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from leveret.api.cells import cell_requests
from leveret.api.cells.merged_lists import MergedLists
from leveret.http.rows import Row
from tests.support.list_cells import ListCells

MISSING = "x-leveret-missing-nodes"


def rows(*names: str, **values: object) -> list[Row]:
    return [{"name": name, "messages": int(name[1:]), "stats": {"rate": -int(name[1:])}, **values} for name in names]


@pytest.fixture
def cells() -> ListCells:
    return ListCells(c1=rows("q3", "q1"), c2=rows("q5", "q2", "q6"), c3=rows("q4"))


def ask(cells: ListCells, query: str = "") -> tuple[int, Any, dict[str, str]]:
    return asyncio.run(cells.answer(MergedLists(cells.requests).rows, query))


def names_of(value: Any) -> list[str]:
    return [row["name"] for row in (value if isinstance(value, list) else value["items"])]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "q3 q1 q5 q2 q6 q4"),
        ("sort=name", "q1 q2 q3 q4 q5 q6"),
        ("sort=name&sort_reverse=true", "q6 q5 q4 q3 q2 q1"),
        ("sort=stats.rate", "q6 q5 q4 q3 q2 q1"),
        ("sort=messages&page=1&page_size=2", "q1 q2"),
        ("sort=messages&page=2&page_size=2", "q3 q4"),
        ("sort=messages&page=3&page_size=2&columns=name", "q5 q6"),
        ("page=1&page_size=4", "q3 q1 q5 q2"),
        ("page=2&page_size=4", "q6 q4"),
        ("name=q5", "q5"),
        ("name=q[56]&use_regex=true&page=1", "q5 q6"),
        ("node=node-c2", "q5 q2 q6"),
        ("node=node-c2&sort=name&page=2&page_size=2", "q6"),
    ],
)
def test_rows_of_all_cells_are_one_list(cells: ListCells, query: str, expected: str) -> None:
    status, value, headers = ask(cells, query)
    assert (status, " ".join(names_of(value))) == (200, expected)
    assert headers["x-leveret-nodes"] == "node-c1,node-c2,node-c3"
    assert MISSING not in headers


def test_a_page_has_the_counts_of_all_cells(cells: ListCells) -> None:
    value = ask(cells, "name=q[2-6]&use_regex=true&sort=name&page=2&page_size=2&columns=messages")[1]
    assert value == {
        "filtered_count": 5,
        "item_count": 2,
        "items": [{"messages": 4}, {"messages": 5}],
        "page": 2,
        "page_count": 3,
        "page_size": 2,
        "total_count": 6,
    }


def test_a_page_requests_only_the_rows_that_it_may_need(cells: ListCells) -> None:
    ask(cells, "page=2&page_size=2&sort=messages&columns=stats.rate&msg_rates_age=60")
    assert {query for _, query in cells.asked} == {
        "msg_rates_age=60&page=1&page_size=4&sort=messages&columns=stats.rate%2Cname%2Cmessages"
    }


def test_a_page_far_behind_is_cut_from_the_whole_list(cells: ListCells) -> None:
    cells.rows["c3"] = rows(*(f"q{number}" for number in range(1_000, 2_000)))
    value = ask(cells, "page=3&page_size=400&sort=messages")[1]
    assert (names_of(value)[0], len(names_of(value)), value["total_count"]) == ("q1795", 205, 1_005)


@pytest.mark.parametrize(
    ("query", "status"), [("page=4&page_size=2", 400), ("page=0", 400), ("sort=a.b&page=x", 400), ("node=nowhere", 400)]
)
def test_what_one_cell_would_refuse_is_refused(cells: ListCells, query: str, status: int) -> None:
    assert ask(cells, query)[0] == status


@pytest.mark.parametrize("query", ["", "sort=name", "sort=name&page=1"])
@pytest.mark.parametrize("failure", ["away", "stopped"])
def test_a_cell_that_does_not_answer_is_named(
    cells: ListCells, query: str, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    getattr(cells, failure).add("c2")
    with monkeypatch.context() as patient:
        patient.setattr(cell_requests, "SECONDS", 0.5)
        status, value, headers = ask(cells, query)
    assert (status, sorted(names_of(value)), headers[MISSING]) == (200, ["q1", "q3", "q4"], "node-c2")
    getattr(cells, failure).clear()
    assert MISSING not in ask(cells, query)[2]


@pytest.mark.parametrize("query", ["", "sort=name", "page=1"])
def test_the_only_requested_node_may_be_missing(cells: ListCells, query: str) -> None:
    cells.away.add("c2")
    status, value, headers = ask(cells, f"node=node-c2&{query}")
    assert (status, names_of(value), headers[MISSING]) == (200, [], "node-c2")


def test_a_cell_that_stops_in_the_middle_of_a_sorted_list_is_missing(cells: ListCells) -> None:
    cells.cut_off.add("c3")
    _, value, headers = ask(cells, "sort=name")
    assert (names_of(value), headers[MISSING]) == (["q1", "q2", "q3", "q5", "q6"], "node-c3")


def test_a_list_that_is_being_sent_is_cut_off_with_its_cell(cells: ListCells) -> None:
    cells.cut_off.add("c3")
    with pytest.raises(ClientDisconnect):
        ask(cells)


def test_empty_lists_leave_no_gaps() -> None:
    for filled in ("c1", "c2", "c3", ""):
        cells = ListCells(**{cell: rows("q1") if cell == filled else [] for cell in ("c1", "c2", "c3")})
        assert ask(cells)[1] == (rows("q1") if filled else [])


def test_long_lists_are_spliced_from_their_pieces() -> None:
    cells = ListCells(**{cell: rows(*(f"q{n}" for n in range(2_000)), cell=cell) for cell in ("c1", "c2")})
    value = ask(cells)[1]
    assert (len(value), {row["cell"] for row in value}) == (4_000, {"c1", "c2"})


def test_the_first_cell_lists_the_queues_of_a_missing_one(cells: ListCells) -> None:
    seen: list[object] = []
    own = cells.requests._perform

    async def perform(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["leveret.homes"])
        await own(scope, receive, send)

    cells.requests._perform = perform
    cells.away.add("c2")
    for query in ("", "sort=name", "page=1"):
        asyncio.run(cells.answer(MergedLists(cells.requests).queues, query))
    assert seen == [{"", "c2"}] * 3


# ---- replicated cells


@pytest.mark.parametrize(
    ("node", "expected"),
    [("a", "q3 q1 q4"), ("b", "q5 q2 q6"), ("c", ""), ("c2", "q5 q2 q6"), ("c3", "q4")],
)
@pytest.mark.parametrize("query", ["", "&sort=messages&page=1", "&sort=messages"])
def test_a_list_is_limited_to_the_cells_that_a_node_leads(
    cells: ListCells, node: str, expected: str, query: str
) -> None:
    cells.replicate("abc", c1="a", c2="b", c3="a")
    status, value, headers = ask(cells, f"node={node}{query}")
    assert (status, sorted(names_of(value)), headers["x-leveret-nodes"]) == (200, sorted(expected.split()), "a,b")


def test_a_list_of_a_node_that_leads_no_cell_is_refused_to_the_same_users(cells: ListCells) -> None:
    cells.replicate("abc", c1="a", c2="b", c3="a")
    cells.replies["c1"] = (401, {"error": "not_authorized"})
    assert ask(cells, "node=c")[0] == 401


def test_an_unknown_node_of_replicated_cells_is_refused(cells: ListCells) -> None:
    cells.replicate("abc", c1="a", c2="b", c3="a")
    status, value, _ = ask(cells, "node=d")
    assert (status, value["reason"]) == (400, "no node 'd': nodes are a, b, c")


def test_the_leader_of_a_cell_that_does_not_answer_is_named_once(cells: ListCells) -> None:
    cells.replicate("abc", c1="a", c2="b", c3="b")
    cells.away |= {"c2", "c3"}
    assert ask(cells)[2][MISSING] == "b"
