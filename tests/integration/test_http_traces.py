"""The stories of messages over HTTP and on the command line: who may ask, for what, and what is forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.wire.properties import Properties
from tests.support.command_line import Cli
from tests.support.management_api import ManagementApi, as_user

pytestmark = pytest.mark.broker(fresh=True)


def switch(admin: ManagementApi) -> None:
    assert admin.put("vhosts/%2F", {"tracing": True})[0] == 204


BOOK_NAMES = {"stories": "traces", "forgotten": "discarded", "most_stories": "max_traces", "most_bytes": "max_bytes"}


def assert_has_old_names(row: dict[str, Any], names: dict[str, str]) -> None:
    """Those of version 0.2 are still there."""
    assert {old: row[old] for old in names} == {old: row[new] for old, new in names.items()}


@pytest.mark.feature("S4-77")
def test_stories_are_listed_filtered_and_forgotten(broker: leveret.Broker, admin: ManagementApi) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("q")
    vhost.declare_queue("p")
    switch(admin)
    for number in range(3):
        headers = {"colour": "Red" if number else "blue"}
        vhost.publish("", "q", b"", Properties(message_id=f"n{number}", headers={**headers}))
    vhost.publish("", "p", b"", Properties(message_id="other"))

    def names(**query: object) -> list[str]:
        return [row["name"] for row in admin.get("traces/%2F", **query)[1]]

    assert names() == ["other", "n2", "n1", "n0"]
    assert names(queue="p") == ["other"]
    assert names(exchange="none") == []
    assert names(text="red") == ["n2", "n1"]
    page = admin.get("traces/%2F", page=1, page_size=2)[1]
    assert (page["filtered_count"], len(page["items"])) == (4, 2)
    assert [(row["vhost"], row["traces"]) for row in admin.get("traces")[1]] == [("/", 4)]
    assert_has_old_names(admin.get("traces")[1][0], BOOK_NAMES)
    assert_has_old_names(admin.get("traces/%2F/n1")[1], {"waits_in": "positions"})
    assert_has_old_names(admin.get("traces/%2F")[1][0], {"waits_in": "positions"})
    assert admin.delete("traces/%2F/n1") == (204, None)
    assert names() == ["other", "n2", "n0"]
    assert admin.delete("traces/%2F") == (204, None)
    assert names() == []
    for path, cause in (("traces/%2F/n2", "discarded"), ("traces/none", "vhost 'none' not found")):
        status, answer = admin.get(path)
        assert status == 404
        assert cause in answer["reason"]
    assert admin.get("traces/%2F/%00")[0] == 400
    assert vhost.message_count("q") == 3


@pytest.mark.feature("S4-77")
def test_stories_are_for_those_who_may_see_everything(broker: leveret.Broker, admin: ManagementApi) -> None:
    switch(admin)
    broker.vhost().declare_queue("q")
    broker.vhost().publish("", "q", b"", Properties(message_id="m"))
    clerk = as_user(broker, "clerk", "management", vhosts=("/",))
    watch = as_user(broker, "watch", "monitoring")
    assert (clerk.get("traces/%2F")[0], clerk.get("traces/%2F/m")[0], clerk.get("traces")) == (403, 403, (200, []))
    assert (watch.get("traces/%2F")[0], watch.get("traces/%2F/m")[0]) == (200, 200)
    assert (watch.delete("traces/%2F")[0], watch.put("vhosts/%2F", {"tracing": False})[0]) == (403, 403)


@pytest.mark.feature("S4-77")
def test_the_command_line_follows_a_message(broker: leveret.Broker, tmp_path: Path) -> None:
    cli = Cli(broker.http_url, tmp_path)
    broker.vhost().declare_queue("q")
    assert "Tracing is disabled for vhost" in cli.run("trace", "list").output
    assert cli.done("trace", "on") == "tracing enabled for vhost '/'\n"
    broker.vhost().publish("", "q", b"", Properties(message_id="m"))
    assert [row[:2] for row in cli.rows("trace", "list", "--queue", "q")] == [["m1", "m"]]
    shown = cli.done("trace", "show", "m")
    assert "queued" in shown
    assert "(AMQP default) -> q by name 'q'" in shown
    assert cli.json("trace", "show", "m1")["message_id"] == "m"
    assert "no trace of message 'x'" in cli.refused("trace", "show", "x")
    assert cli.done("trace", "delete", "m") == "trace of message 'm' deleted\n"
    assert cli.json("trace", "list")["items"] == []
    assert cli.done("trace", "forget") == "all traces of vhost '/' deleted\n"  # its former name
    assert cli.done("trace", "off") == "tracing disabled for vhost '/'\n"
    assert "'none' not found" in cli.refused("trace", "on", "--vhost", "none")
    assert "none" not in broker.node.broker.vhosts
