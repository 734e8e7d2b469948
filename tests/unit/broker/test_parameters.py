"""Small facts of a virtual host: written first, then known, and dropped with it."""

from __future__ import annotations

from leveret.broker.parameters import Parameters
from leveret.store.definitions import Change, Drop, ParameterRow, Put


def test_each_change_is_recorded_once_and_what_changes_nothing_is_not() -> None:
    changes: list[Change] = []
    parameters = Parameters("/", changes.append)
    parameters.put("sharding", "images", b"[1]")
    parameters.put("sharding", "images", b"[1]")
    parameters.put("paused", "q", b"true")
    assert parameters.get("sharding", "images") == b"[1]"
    assert parameters.names("sharding") == ["images"]
    parameters.drop("sharding", "images")
    parameters.drop("sharding", "images")
    assert parameters.get("sharding", "images") is None
    assert changes == [
        Put(ParameterRow("/", "sharding", "images", b"[1]")),
        Put(ParameterRow("/", "paused", "q", b"true")),
        Drop(ParameterRow, ("/", "sharding", "images")),
    ]


def test_what_cannot_be_recorded_does_not_happen() -> None:
    def refuse(change: Change) -> None:
        raise OSError("read-only")

    parameters = Parameters("/", refuse)
    try:
        parameters.put("paused", "q", b"true")
    except OSError:
        assert parameters.get("paused", "q") is None
    else:
        raise AssertionError("the refusal was not passed on")
