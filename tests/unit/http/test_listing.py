"""Lists as the query asks for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from itertools import count
from typing import Any, cast

import pytest
from starlette.requests import ClientDisconnect, Request

from leveret.http import listings
from leveret.http import time_slice as turns_of_work
from leveret.http.errors import BadRequest, PageOutOfRange
from leveret.http.listings import arranged, list_query, viewed
from leveret.http.rows import Field, RowDescription, WholeRows, made_rows

ROWS: list[dict[str, Any]] = [
    {"name": "orders.new", "messages": 5, "message_stats": {"publish": 7, "ack": 1}},
    {"name": "orders.old", "messages": 11},
    {"name": "Mail", "messages": 0, "message_stats": {"publish": 2}},
    {"name": "audit", "messages": None},
]


FIELDS = ("name", "messages", "message_stats")


class Context:
    """A context that runs jobs at once."""

    @staticmethod
    async def in_worker(job: Callable[[], Any]) -> Any:
        return job()


def request(query: str) -> Request:
    return Request({"type": "http", "query_string": query.encode(), "headers": []})


def asked(query: str) -> listings.ListQuery:
    return list_query(request(query))


def told(query: str, rows: list[dict[str, Any]] = ROWS, by_fields: bool = False) -> Any:
    """The response, and the names of the rows that were made for it."""
    made: list[str] = []

    def read(row: dict[str, Any]) -> dict[str, Any]:
        made.append(row["name"])
        return dict(row)

    def description() -> RowDescription[dict[str, Any]]:
        def field(column: str) -> Field[dict[str, Any]]:
            return Field((column, "?"), lambda row: {column: row[column]} if column in row else {})

        class Noting(RowDescription[dict[str, Any]]):
            def only(self, columns: Collection[str]) -> RowDescription[dict[str, Any]]:
                return self

            def row(self, thing: dict[str, Any]) -> dict[str, Any]:
                made.append(thing["name"])
                return super().row(thing)

        return Noting([field(column) for column in FIELDS], exists=lambda row: True)

    return json.loads(
        b"".join(asyncio.run(sent(query, rows, description() if by_fields else WholeRows(FIELDS, read))))
    ), made


async def sent(query: str, rows: Any, description: Any) -> list[bytes]:
    pieces: list[bytes] = []

    async def send(message: Any) -> None:
        pieces.append(message.get("body", b""))

    answer = await listings.list_response(Context(), request(query), rows, description)  # type: ignore[arg-type]
    await answer({"type": "http"}, None, send)  # type: ignore[arg-type]
    return pieces


def names(query: str, by_fields: bool = False) -> list[str]:
    found, _ = told(query, by_fields=by_fields)
    return [row["name"] for row in (found["items"] if isinstance(found, dict) else found)]


@pytest.mark.parametrize("by_fields", [False, True], ids=["by rows", "by fields"])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["orders.new", "orders.old", "Mail", "audit"]),
        ("name=", ["orders.new", "orders.old", "Mail", "audit"]),
        ("name=orders", ["orders.new", "orders.old"]),
        ("name=mail", []),
        ("name=a.dit", []),
        ("name=^(mail|audit)$&use_regex=true", ["Mail", "audit"]),
        ("sort=name", ["Mail", "audit", "orders.new", "orders.old"]),
        ("sort=messages", ["audit", "Mail", "orders.new", "orders.old"]),
        ("sort=messages&sort_reverse=true", ["orders.old", "orders.new", "Mail", "audit"]),
        ("sort=message_stats.publish&sort_reverse=true", ["orders.new", "Mail", "orders.old", "audit"]),
        ("sort=nothing.of.this", ["orders.new", "orders.old", "Mail", "audit"]),
        ("page=2&page_size=3", ["audit"]),
        ("page=1&page_size=2&sort=name", ["Mail", "audit"]),
    ],
)
def test_filter_sort_and_page(query: str, found: list[str], by_fields: bool) -> None:
    assert names(query, by_fields) == found


def test_with_fields_rows_are_made_of_those_alone_that_are_shown() -> None:
    assert told("page=1&page_size=1&sort=messages&sort_reverse=true", by_fields=True)[1] == ["orders.old"]
    assert told("page=1&page_size=1&sort=message_stats.ack&sort_reverse=true", by_fields=True)[1] == ["orders.new"]
    assert set(told("page=1&page_size=1&sort=messages")[1]) == {row["name"] for row in ROWS}


def test_with_fields_only_the_requested_columns_are_read() -> None:
    read: list[str] = []

    def field(column: str) -> Field[dict[str, Any]]:
        return Field((column,), lambda row: read.append(column) or row.get(column))  # type: ignore[func-returns-value]

    description = RowDescription([field(column) for column in FIELDS], exists=lambda row: True)
    pieces = asyncio.run(sent("columns=name,message_stats.ack", ROWS[:1], description))
    assert json.loads(b"".join(pieces)) == [{"name": "orders.new", "message_stats": {"ack": 1}}]
    assert read == ["name", "message_stats"]


def test_rows_without_a_name_match_no_filter() -> None:
    rows = [{"source": "a"}, {"source": "b"}]
    description = RowDescription([Field(("source",), lambda row: row["source"])])
    assert json.loads(b"".join(asyncio.run(sent("name=a", rows, description)))) == []
    assert json.loads(b"".join(asyncio.run(sent("sort=source&sort_reverse=true", rows, description)))) == rows[::-1]


def test_objects_are_taken_from_an_iterator_while_the_list_is_made() -> None:
    rows = ({"name": str(number)} for number in range(3))
    found = json.loads(b"".join(asyncio.run(sent("page=1&page_size=2", rows, made_rows("name")))))
    assert (found["items"], found["total_count"]) == ([{"name": "0"}, {"name": "1"}], 3)


def test_what_rows_are_arranged_by_does_not_show() -> None:
    assert told("sort=messages&name=audit")[0] == [{"name": "audit", "messages": None}]


@pytest.mark.parametrize("query", ["", "sort=n", "page=1&page_size=500"])
def test_a_long_list_goes_out_in_pieces(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "PIECE", 100)
    rows = [{"name": "x", "n": n} for n in range(100)]
    pieces = asyncio.run(sent(query, rows, made_rows("name", "n")))
    assert len(pieces) > 10
    assert max(map(len, pieces)) < 200
    answer = json.loads(b"".join(pieces))
    assert (answer["items"] if query.startswith("page") else answer) == rows


def test_a_page_tells_of_the_others() -> None:
    assert told("page=1&page_size=1&name=orders&columns=name")[0] == {
        "filtered_count": 2,
        "item_count": 1,
        "items": [{"name": "orders.new"}],
        "page": 1,
        "page_count": 2,
        "page_size": 1,
        "total_count": 4,
    }


def test_an_empty_list_has_one_page() -> None:
    found, _ = told("page=1", [])
    assert (found["page_count"], found["items"]) == (1, [])


def test_a_page_that_is_not_there() -> None:
    with pytest.raises(PageOutOfRange, match="page: 3 page size: 2, len: 4: request page 1 to 2"):
        told("page=3&page_size=2")


def test_columns_keep_their_place_and_missing_ones_are_left_out() -> None:
    found, _ = told("columns=message_stats.publish,name,nothing")
    assert found[:2] == [{"message_stats": {"publish": 7}, "name": "orders.new"}, {"name": "orders.old"}]


def test_columns_reach_into_lists_and_a_whole_has_its_parts() -> None:
    rows = [{"name": "q", "consumers": [{"tag": "a", "ack": True}, {"tag": "b"}], "sizes": [1, 2], "stats": {"x": 1}}]
    assert told("columns=consumers.tag", rows)[0] == [{"consumers": [{"tag": "a"}, {"tag": "b"}]}]
    assert told("columns=stats,stats.x,consumers.ack.deeper,name.of", rows)[0] == [
        {"stats": {"x": 1}, "consumers": [{}, {}]}
    ]
    assert told("columns=stats.x,stats,,sizes", rows)[0] == [{"stats": {"x": 1}, "sizes": [1, 2]}]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("page=0", "page"),
        ("page=one", "page"),
        ("page=1&page_size=501", "page_size"),
        ("page=1&page_size=0", "page_size"),
        ("use_regex=perhaps", "use_regex"),
        ("sort_reverse=2", "sort_reverse"),
        (f"name={'x' * 1001}", "longer than 1000"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(query: str, word: str) -> None:
    with pytest.raises(BadRequest, match=word):
        asked(query)


@pytest.mark.parametrize("pattern", ["(", "a{2}{3}{4}**", "[z-a]"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(BadRequest, match="not a valid regular expression"):
        arranged([(row["name"], (0, 0), row) for row in ROWS], asked_of_name(pattern))


def test_a_pattern_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "SECONDS", 0.1)
    with pytest.raises(BadRequest, match=r"took longer than 0.1 s"):
        arranged([("a" * 40 + "!", (0, 0), None)] * 50, asked_of_name("^(a|a|a|a|aa)+$"))


def asked_of_name(pattern: str) -> listings.ListQuery:
    return listings.ListQuery(pattern, True, (), False, 0, 100, {})


def test_a_view_may_leave_things_out_and_others_get_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = 0
    times = count(0, turns_of_work.SLICE_SECONDS / 40)  # time passes only when somebody looks
    monkeypatch.setattr(turns_of_work, "perf_counter", lambda: next(times))

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def look() -> list[dict[str, Any]]:
        beside = asyncio.ensure_future(others())
        found = await viewed(range(1_000), lambda number: {"n": number} if number % 400 == 0 else None)
        beside.cancel()
        return found

    assert asyncio.run(look()) == [{"n": 0}, {"n": 400}, {"n": 800}]
    assert 15 <= turns <= 30


def test_who_does_not_read_a_long_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "STALLED", 0.01)
    is_over = False

    async def pieces() -> AsyncGenerator[bytes]:
        nonlocal is_over
        try:
            yield b"2"
        finally:
            is_over = True

    async def answer() -> None:
        made = pieces()
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)
            if len(sent) == 4:  # the start, and three pieces: the first two are there from the beginning
                await asyncio.get_running_loop().create_future()

        with pytest.raises(ClientDisconnect):
            await listings.StreamedResponse(made, b"0", b"1", b"3")({}, cast(Any, None), send)
        assert [message.get("body") for message in sent] == [None, b"0", b"1", b"2"]

    asyncio.run(answer())
    assert is_over


# ---- what is asked in another way


@pytest.mark.parametrize(("text", "truth"), [("", False), ("False", False), ("FALSE", False), ("True", True)])
def test_flags_of_lists_are_taken_as_rabbitmq_takes_them(text: str, truth: bool) -> None:
    given = asked(f"use_regex={text}&sort_reverse={text}")
    assert (given.is_regex, given.is_reversed) == (truth, truth)


def test_a_sort_by_a_path_without_end_is_refused() -> None:
    assert asked("sort=" + ".".join("a" * 10)).sort == ("a",) * 10
    with pytest.raises(BadRequest, match=r"'sort' has more than 10 parts"):
        asked("sort=" + ".".join("a" * 11))
    with pytest.raises(BadRequest, match=r"'sort' has more than 10 parts"):
        asked("sort=" + "." * 30_000)


def test_what_is_not_there_is_not_looked_into_any_further() -> None:
    class Row(dict[str, Any]):
        asked = 0

        def get(self, name: str, default: Any = None) -> Any:
            Row.asked += 1
            return super().get(name, default)

    class Path(tuple[str, ...]):
        walked = 0

        def __iter__(self) -> Iterator[str]:
            for part in super().__iter__():
                Path.walked += 1
                yield part

    assert listings._at(Row(), Path(("a", "b", "c", "d"))) is listings.MISSING
    assert (Row.asked, Path.walked) == (1, 1)
