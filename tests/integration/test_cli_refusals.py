"""What a command says when the broker says no: the object, the cause, and a command that helps. S4-77."""

from __future__ import annotations

import json
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from leveret import Broker, FrozenClock
from leveret.cli.queue_fields import FIELDS
from tests.support.command_line import Cli

FOR_PROGRAMS = re.compile(r"/api/|\bPUT\b|percent-encoded")


pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock)


# ---- what is not there


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        ("queues show nope", "leveret queues list"),
        ("queues delete nope", "leveret queues list"),
        ("queues pause nope", "leveret queues list"),
        ("purge nope", "leveret queues list"),
        ("get nope", "leveret queues list"),
        ("browse nope", "leveret queues list"),
        ("consume nope", "leveret queues list"),
        ("redrive nope", "leveret queues list"),
        ("policies explain nope", "leveret queues list"),
        ("exchanges show nope", "leveret exchanges list"),
        ("exchanges delete nope", "leveret exchanges list"),
        ("publish nope x --exchange nope", "leveret exchanges list"),
        ("bindings create nope nope", "leveret exchanges list"),
        ("connections show nope", "leveret connections list"),
        ("connections close nope", "leveret connections list"),
        ("vhosts show nope", "leveret vhosts list"),
        ("queues list --vhost nope", "leveret vhosts list"),
        ("users show nope", "leveret users list"),
        ("users delete nope", "leveret users list"),
        ("permissions list --user nope", "leveret users list"),
        ("permissions may nope read q", "leveret users list"),
        ("permissions clear guest --vhost nope", "leveret permissions set"),
        ("policies delete nope", "leveret policies list"),
        ("streams show nope", "leveret streams list"),
        ("schemas show nope", "leveret schemas list"),
        ("schemas delete nope", "leveret schemas list"),
        ("trace show nope", "leveret trace on"),
    ],
)
@pytest.mark.feature("S4-77")
def test_what_is_not_there_is_named_with_the_command_that_lists_what_is(command: str, remedy: str, cli: Cli) -> None:
    line = cli.refused(*command.split())
    assert "nope" in line
    assert remedy in line
    assert not FOR_PROGRAMS.search(line), line


# ---- rights


@pytest.mark.feature("S4-72")
def test_a_right_that_is_missing_is_named_with_the_command_that_gives_it(cli: Cli) -> None:
    cli.done("users", "create", "anna b", given="secret\n")
    anna = Cli(cli.url, cli.folder, username="anna b", password="secret")
    line = anna.refused("queues", "list")
    assert "has none of the tags" in line
    assert "password" not in line, "it was right"
    _obey(cli, line)
    line = anna.refused("queues", "create", "q")
    assert "access to vhost '/' refused for user 'anna b'" in line
    _obey(cli, line)
    anna.done("queues", "create", "q")
    line = anna.refused("status")
    assert "needs the tag 'monitoring'" in line
    _obey(cli, line)
    anna.done("status")


def _obey(cli: Cli, line: str) -> None:
    """What the line says helps, as an administrator would paste it into a shell."""
    cli.done(*shlex.split(line.partition("leveret: ")[2].rpartition(": leveret ")[2]))


def test_permissions_without_a_pattern_take_nothing_away(cli: Cli) -> None:
    line = cli.refused("permissions", "set", "guest", code=2)
    assert "no permissions given for user 'guest': use --configure '.*'" in line
    assert cli.rows("permissions", "list") == [["guest", "/", ".*", ".*", ".*"]]
    assert "leveret permissions list --user guest" in _answer_no(cli)


def _answer_no(cli: Cli) -> str:
    cli.done("permissions", "set", "guest", "--read", "^a")
    return cli.refused("permissions", "may", "guest", "read", "b")


# ---- names


@pytest.mark.parametrize(
    "command",
    ["queues show", "queues create", "queues delete", "queues purge", "users delete", "vhosts create", "vhosts delete"],
)
def test_an_empty_name_is_refused_before_anybody_is_asked(command: str, cli: Cli) -> None:
    line = cli.refused(*command.split(), "", code=2)
    assert line.startswith("leveret: the name is empty")


def test_the_exchange_without_a_name_is_the_default_one_everywhere(cli: Cli) -> None:
    cli.done("queues", "create", "q")
    assert cli.done("publish", "q", "x") == "published 1 byte to exchange '(AMQP default)' with key 'q'\n"
    assert cli.done("publish", "q", "xy", "--exchange", "").startswith("published 2 bytes to exchange '(AMQP default)'")
    assert "exchange '(AMQP default)' has no queue for key 'no one'" in (line := cli.refused("publish", "no one", "x"))
    assert line.endswith("leveret exchanges route amq.default 'no one'")
    for name in ("", "amq.default"):
        assert "(AMQP default)  q" in cli.done("exchanges", "show", name)
        assert cli.done("exchanges", "route", name, "q").endswith("Routed to: q\n")
        assert [row[:3] for row in cli.rows("bindings", "list", "--exchange", name)] == [["/", "(AMQP default)", "q"]]
    assert "amq.default" not in "".join(map(str, cli.rows("exchanges", "list")))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("queues list --sort mesages", "unknown field in --sort 'mesages': did you mean 'messages'?"),
        ("publish q x --property prioritty=5", "unknown message property in --property 'prioritty': did you mean"),
        ("tail --exchange amq.default", "nothing can be bound to the default exchange"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(command: str, expected: str, cli: Cli) -> None:
    cli.done("queues", "create", "q")
    assert expected in cli.refused(*command.split(), code=2)


def test_queues_are_sorted_by_the_heading_of_a_column(cli: Cli) -> None:
    for name in ("a", "b"):
        cli.done("queues", "create", name)
    cli.done("publish", "b", "x")
    assert [row[1] for row in cli.rows("queues", "list", "--sort", "ready", "--reverse")] == ["b", "a"]


def test_queues_are_sorted_by_every_field_that_they_have_and_by_no_other(cli: Cli) -> None:
    def paths(row: dict[str, Any], above: str = "") -> Iterator[str]:
        for name, value in row.items():
            yield from paths(value, f"{above}{name}.") if value and isinstance(value, dict) else (above + name,)

    assert "unknown field in --sort 'foo'" in cli.refused("queues", "list", "--sort", "foo", code=2)
    cli.done("queues", "create", "q", "--argument", "x-max-length=3")
    (row,) = cli.json("queues", "list")
    assert {*paths(row)} - {"arguments.x-max-length"} <= FIELDS
    assert cli.rows("queues", "list", "--sort", "head_message_timestamp")  # null in this queue


def test_the_amqp_port_is_recognised_as_such(broker: Broker, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{urlsplit(broker.amqp_url).port}"
    assert f"{url} is an AMQP port: pass the HTTP port" in Cli(url, tmp_path).refused("status", code=3)


# ---- other brokers


MESSAGE = {
    "exchange": "",
    "routing_key": "q",
    "redelivered": True,
    "properties": [],
    "payload_bytes": 1,
    "payload": "x",
    "payload_encoding": "string",
}


class LikeRabbitMQ(BaseHTTPRequestHandler):
    """Answers as RabbitMQ 3.10.8 does: without a word at what it does not have, and by what the client accepts."""

    def _answer(self) -> None:
        path, accepts = self.path.partition("?")[0], self.headers["Accept"]
        has_rest = "*/*" in accepts
        if path == "/api/queues/%2F/q":
            row = {"messages_ready": 1, "type": "quorum", "arguments": {"x-delivery-limit": 2}}
            self._send(200, json.dumps(row).encode())
        elif path == "/api/queues":
            self._send(200, b'[{"name": "orders", "vhost": "/"}, {"name": "parcels", "vhost": "/"}]')
        elif path == "/api/queues/%2F/q/get" and self.command == "POST":
            self._send(200, json.dumps([MESSAGE]).encode())
        elif path == "/api/auth":
            self._send(200, b'{"oauth_enabled": false}')
        elif path == "/api/queues/%2F/q/contents":
            self._send(204 if has_rest else 406, b"")
        elif path.startswith("/api/queues/%2F/q/"):
            self._send(405 if self.command == "POST" else 400, b"")
        else:
            self._send(*((404, b'{"error":"Object Not Found","reason":"Not Found"}') if has_rest else (406, b"")))

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if body:
            self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def rabbitmq(tmp_path: Path) -> Iterator[Cli]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), LikeRabbitMQ)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Cli(f"http://127.0.0.1:{server.server_port}", tmp_path)
    finally:
        server.shutdown()
        with suppress(OSError):
            server.server_close()
        thread.join()


def test_another_broker_purges_and_says_what_it_has_not(rabbitmq: Cli) -> None:
    assert rabbitmq.done("purge", "q") == "queue 'q' purged: 1 message deleted\n"
    assert "no queue 'nope' in vhost '/': see 'leveret queues list'" in rabbitmq.refused("queues", "show", "nope")
    assert "no user 'nope'" in rabbitmq.refused("users", "show", "nope")
    assert "no exchange 'nope' in vhost '/'" in rabbitmq.refused("publish", "q", "x", "--exchange", "nope")


def test_another_broker_cannot_browse_so_a_message_is_requeued_and_counted(rabbitmq: Cli) -> None:
    told = rabbitmq.run("get", "q", "--raw")
    assert (told.exit_code, told.stdout) == (0, "x\n")
    warning, back = told.stderr.splitlines()
    assert warning.startswith("Queue 'q' has a delivery limit of 2: ")
    assert back == "1 message requeued; the broker counts this as a delivery"
    assert "cannot browse queues: use --take" in rabbitmq.refused("tail", "q", code=2)


@pytest.mark.parametrize("flags", [("--name", "ORD"), ("--name", "^or.*s$", "--regex")])
def test_another_broker_ignores_a_filter_which_holds_all_the_same(rabbitmq: Cli, flags: tuple[str, ...]) -> None:
    assert [row[1] for row in rabbitmq.rows("queues", "list", *flags)] == ["orders"]
    assert [row["name"] for row in rabbitmq.json("queues", "list", *flags)] == ["orders"]


def test_another_broker_answers_a_ping_and_is_ready_then(rabbitmq: Cli) -> None:
    assert " answered within " in rabbitmq.done("ping")
    assert " is ready after " in rabbitmq.done("wait", "--timeout", "5")


@pytest.mark.parametrize(
    "command",
    [
        "jobs list",
        "queues pause q",
        "browse q",
        "move q r",
        "plugins list",
        "streams list",
        "leases list",
        "schedules list",
        "policies explain q",
        "exchanges route amq.direct key",
    ],
)
def test_what_only_leveret_can_do_is_refused_as_such_by_another_broker(command: str, rabbitmq: Cli) -> None:
    line = rabbitmq.refused(*command.split())
    assert "this command needs Leveret" in line


# ---- options that contradict each other


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("tail q --routing-key nope", "--routing-key is the key of the binding: it requires --exchange"),
        ("queues list --regex", "--regex makes --name a regular expression: it requires --name"),
        ("publish q x --transient --property delivery_mode=2", "--transient and --property delivery_mode exclude"),
        ("publish q x --header a=1 --property headers={}", "the headers are given with --header and with --property"),
    ],
)
def test_an_option_that_would_have_no_effect_is_a_misuse(cli: Cli, broker: Broker, command: str, problem: str) -> None:
    broker.vhost().declare_queue("q")
    assert problem in cli.refused(*shlex.split(command), code=2)
    assert broker.vhost().message_count("q") == 0


def test_a_transient_message_may_have_its_delivery_mode(cli: Cli, broker: Broker) -> None:
    broker.vhost().declare_queue("q")
    cli.done("publish", "q", "x", "--transient", "--property", "delivery_mode=1")
    assert broker.vhost().message_count("q") == 1
