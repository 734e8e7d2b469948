"""The command line against a running broker: how commands end, contexts, queues, messages. S4-77."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from leveret import Broker, FrozenClock
from tests.support.broker_process import SRC
from tests.support.command_line import Cli
from tests.support.http_api import HttpApi

DEAD = ("--argument", "x-dead-letter-exchange=dead")


pytestmark = pytest.mark.broker(fresh=True, clock=lambda: FrozenClock(time.time()))


@pytest.fixture
def api(broker: Broker) -> HttpApi:
    return HttpApi(broker.http_url)


# ---- how commands end


@pytest.mark.feature("S4-77")
def test_json_is_byte_for_byte_what_the_api_answers(cli: Cli, api: HttpApi) -> None:
    cli.done("queues", "create", "größe 語")
    for arguments, path in [
        (("exchanges", "list"), "/api/exchanges?sort=name"),
        (("bindings", "list"), "/api/bindings"),
        (("vhosts", "list"), "/api/vhosts"),
        (("policies", "list"), "/api/policies"),
        (("permissions", "list"), "/api/permissions"),
    ]:
        _, body = api.send("GET", path)
        assert cli.run(*arguments, "--json").stdout_bytes == body + b"\n"
    assert cli.json("queues", "show", "größe 語")["name"] == "größe 語"


def test_no_broker_is_one_line_and_exit_code_3(cli: Cli) -> None:
    result = cli.run("queues", "list", "--json", url="http://127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == (
        "leveret: cannot connect to http://127.0.0.1:1: Connection refused; start a broker with 'leveret serve', or "
        "select another one with --url or --context\n"
    )


def test_somebody_else_at_the_port_is_exit_code_3(cli: Cli, broker: Broker) -> None:
    result = cli.run("queues", "list", url=broker.amqp_url.replace("amqp://guest:guest@", "http://").rstrip("/"))
    assert result.exit_code == 3
    assert result.stderr.count("\n") == 1


class Empty(BaseHTTPRequestHandler):
    """Answers every GET with an empty list."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[str]:
    """A URL; its authority is in ca.pem."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        server.handle_error = lambda *request: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_certificate_that_nobody_here_trusts_is_refused_with_the_remedy(
    cli: Cli, tls_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = cli.run("vhosts", "list", "--json", url=tls_server)
    assert refused.exit_code == 3
    assert f"the certificate of {tls_server} is not trusted" in refused.stderr
    assert "SSL_CERT_FILE" in refused.stderr
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert cli.run("vhosts", "list", "--json", url=tls_server).stdout == "[]\n"


def test_a_refusal_is_exit_code_1_and_a_misuse_2(cli: Cli) -> None:
    assert "no queue 'none' in vhost '/'" in cli.refused("queues", "show", "none")
    assert "invalid --argument 'x'" in cli.refused("queues", "create", "q", "--argument", "x", code=2)
    assert cli.run("queues", "create").exit_code == 2
    assert "which other users of this machine can read" in cli.run("queues", "list", url="http://a:hunter2@h").stderr


@pytest.mark.feature("S4-72")
def test_a_wrong_password_is_refused_and_never_shown(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    file.chmod(0o600)
    line = cli.refused("vhosts", "list", "--password-file", str(file))
    assert f"{cli.url} refused user 'guest': invalid credentials; set LEVERET_PASSWORD or --password-file" in line
    assert "hunter2" not in line
    file.chmod(0o644)
    assert "chmod 600" in cli.refused("vhosts", "list", "--password-file", str(file), code=2)


# ---- contexts


def test_a_context_says_where_who_and_in_which_vhost(cli: Cli) -> None:
    cli.done("vhosts", "create", "shop")
    cli.done("queues", "create", "orders", "--vhost", "shop")
    cli.done("queues", "create", "other")
    assert cli.run("context", "add", "shop", "--vhost", "shop").exit_code == 0
    assert cli.run("context", "add", "far", url="http://127.0.0.1:1").exit_code == 0
    listed = cli.run("queues", "list", "--json", url=None)
    assert [row["name"] for row in json.loads(listed.stdout)] == ["orders"]
    assert cli.run("queues", "show", "orders", url=None).exit_code == 0
    assert cli.run("queues", "list", "--context", "far", url=None).exit_code == 3
    assert cli.run("context", "use", "far", url=None).exit_code == 0
    assert cli.run("queues", "list", url=None).exit_code == 3
    assert cli.run("context", "remove", "far", url=None).exit_code == 0
    names = [row["name"] for row in json.loads(cli.run("context", "list", "--json", url=None).stdout)]
    assert names == ["shop"]
    assert cli.run("context", "use", "far", url=None).exit_code == 2


# ---- queues, exchanges, bindings


@pytest.mark.feature("S4-77")
def test_a_queue_from_its_creation_to_its_end(cli: Cli) -> None:
    create = ("queues", "create", "orders", "--argument", "x-max-length=5")
    assert cli.done(*create) == "queue 'orders' created\n"
    assert cli.done(*create) == "queue 'orders' already exists\n"
    assert "inequivalent arg 'durable'" in cli.refused(*create, "--transient")
    shown = cli.json("queues", "show", "orders")
    assert (shown["durable"], shown["arguments"]) == (True, {"x-max-length": 5})
    cli.done("publish", "orders", "one")
    cli.done("publish", "orders", given="two")
    assert cli.rows("queues", "list")[0][:5] == ["/", "orders", "2", "0", "0"]
    cli.done("queues", "pause", "orders")
    assert cli.json("queues", "show", "orders")["state"] == "paused"
    cli.done("queues", "resume", "orders")
    assert cli.json("queues", "show", "orders")["state"] == "running"
    assert "not empty" in cli.refused("queues", "delete", "orders", "--if-empty")
    assert cli.done("purge", "orders") == "queue 'orders' purged: 2 messages deleted\n"
    cli.done("queues", "delete", "orders", "--if-empty")
    assert cli.json("queues", "list") == []


def test_queues_are_filtered_and_sorted_by_the_broker(cli: Cli) -> None:
    for name, number in (("a.1", 1), ("a.2", 3), ("b.1", 2)):
        cli.done("queues", "create", name)
        for _ in range(number):
            cli.done("publish", name, "x")
    listed = cli.rows("queues", "list", "--sort", "messages_ready", "--reverse")
    assert [row[1] for row in listed] == ["a.2", "b.1", "a.1"]
    assert [row[1] for row in cli.rows("queues", "list", "--name", "1")] == ["a.1", "b.1"]
    assert [row[1] for row in cli.rows("queues", "list", "--name", "^a", "--regex")] == ["a.1", "a.2"]


def test_exchanges_and_bindings_lead_a_message_to_its_queue(cli: Cli) -> None:
    cli.done("exchanges", "create", "news", "--type", "topic")
    cli.done("exchanges", "create", "all", "--type", "fanout", "--auto-delete")
    cli.done("queues", "create", "sport")
    cli.done("bindings", "create", "news", "sport", "--routing-key", "sport.#")
    cli.done("bindings", "create", "news", "all", "--to-exchange", "--routing-key", "#")
    assert "Routed to: sport\n" in cli.done("exchanges", "route", "news", "sport.golf")
    assert "Not routed to any queue." in cli.run("exchanges", "route", "news", "politics").output
    assert "has no queue for key 'politics'" in cli.refused("publish", "politics", "x", "--exchange", "news")
    assert cli.rows("bindings", "list", "--queue", "sport")[-1][1:5] == ["news", "sport", "queue", "sport.#"]
    assert "with key 'golf'" in cli.refused("bindings", "delete", "news", "sport", "--routing-key", "golf")
    cli.done("bindings", "delete", "news", "sport", "--routing-key", "sport.#")
    assert [row[2] for row in cli.rows("bindings", "list", "--exchange", "news")] == ["all"]
    cli.done("exchanges", "delete", "news")
    assert "no exchange 'news'" in cli.refused("exchanges", "show", "news")


# ---- messages


def test_a_message_comes_back_as_it_was_published(cli: Cli, tmp_path: Path) -> None:
    cli.done("queues", "create", "q")
    binary = b"\x00\xff\r\n\x1b[31m"
    file = tmp_path / "body"
    file.write_bytes(binary)
    cli.done("publish", "q", "--file", str(file), "--header", "kind=order", "--property", "priority=3")
    cli.done("publish", "q", given=binary)
    cli.done("publish", "q", "größe", "--transient")
    assert (
        cli.run("get", "q", "--count", "5", "--raw").stdout_bytes
        == binary + b"\n" + binary + b"\ngr\xc3\xb6\xc3\x9fe\n"
    )
    first, _, third = cli.json("get", "q", "--count", "5", "--ack")
    assert first["properties"] == {"delivery_mode": 2, "priority": 3, "headers": {"kind": "order"}}
    assert (first["redelivered"], third["properties"]) == (False, {"delivery_mode": 1})
    assert cli.json("get", "q") == []
    assert "has no ready messages" in cli.run("get", "q").stderr


def test_a_message_is_found_without_being_taken(cli: Cli) -> None:
    cli.done("queues", "create", "q")
    for number in range(4):
        cli.done("publish", "q", json.dumps({"order": {"id": number}}), "--header", f"n={number}")
    found = cli.json("browse", "q", "--where", "order.id=2")["messages"]
    assert [row["payload_json"] for row in found] == [{"order": {"id": 2}}]
    assert len(cli.json("browse", "q", "--selector", "n > 1")["messages"]) == 2
    assert len(cli.json("browse", "q", "--header", "n=3")["messages"]) == 1
    assert cli.done("browse", "q", "--contains", '"id": 1', "--raw") == '{"order": {"id": 1}}\n'
    assert "to see more" in cli.run("browse", "q", "--limit", "2").stderr
    ids = [line.split()[0] for line in cli.done("browse", "q").splitlines()]  # by which a trace finds them
    assert ids == ["id", *(row["id"] for row in cli.json("browse", "q")["messages"])]
    assert cli.json("queues", "show", "q")["messages_ready"] == 4
    assert not cli.json("browse", "q")["messages"][0]["redelivered"]


def test_the_escape_sequences_of_a_body_are_shown_not_obeyed(cli: Cli) -> None:
    cli.done("queues", "create", "q")
    cli.done("publish", "q", "a\x1b[2Jb")
    assert "a\\x1b[2Jb" in cli.done("browse", "q")


def test_dead_letters_go_back_where_they_died(cli: Cli) -> None:
    cli.done("exchanges", "create", "dead", "--type", "fanout")
    cli.done("queues", "create", "work", *DEAD)
    cli.done("queues", "create", "graves")
    cli.done("bindings", "create", "dead", "graves")
    for number in range(3):
        cli.done("publish", "work", str(number))
    cli.done("get", "work", "--count", "3", "--reject")
    assert "3 dead letters in queue 'graves'" in cli.done("doctor")
    assert cli.done("redrive", "graves", "--dry-run") == "3 of 3 messages would be moved back\n  3 to work\n"
    assert cli.json("redrive", "graves", "--limit", "1")["done"] == 1
    assert "'rate' must be messages per second" in cli.refused("redrive", "graves", "--rate", "9999999")
    assert cli.done("redrive", "graves").startswith("2 of 2 messages moved back")
    assert cli.json("queues", "show", "work")["messages_ready"] == 3
    assert cli.done("doctor").startswith("No problems found")


def test_messages_are_moved_and_copied(cli: Cli) -> None:
    cli.done("queues", "create", "a")
    cli.done("queues", "create", "b")
    for number in range(4):
        cli.done("publish", "a", str(number), "--header", f"n={number}")
    assert cli.done("move", "a", "b", "--selector", "n >= 2", "--dry-run") == "2 of 4 messages would be moved\n"
    assert cli.done("move", "a", "b", "--selector", "n >= 2") == "2 of 4 messages moved\n"
    assert cli.done("browse", "b", "--raw") == "2\n3\n"
    assert cli.done("copy", "b", "a") == "2 of 2 messages copied\n"
    assert cli.done("browse", "a", "--raw") == "0\n1\n2\n3\n"
    assert "is the source queue 'a' itself" in cli.refused("move", "a", "a")
    cli.done("vhosts", "create", "elsewhere")
    cli.done("queues", "create", "a", "--vhost", "elsewhere")
    assert cli.done("copy", "a", "a", "--to-vhost", "elsewhere", "--limit", "1") == "1 of 1 message copied\n"
    assert cli.done("browse", "a", "--vhost", "elsewhere", "--raw") == "0\n"
    ids = [cli.done("copy", "b", "a", "--limit", "1", "--no-wait").strip() for _ in range(40)]
    assert all(id_.isalnum() for id_ in ids), "an id that begins with a dash would be taken for an option"
    id_ = cli.done("move", "a", "b", "--no-wait").strip()
    assert cli.json("jobs", "show", id_)["kind"] == "move"
    assert id_ in [row[0] for row in cli.rows("jobs", "list")]
    cli.done("jobs", "cancel", id_)
    assert "no job 'none'" in cli.refused("jobs", "show", "none")


def test_an_interrupted_redrive_is_cancelled_and_says_how_far_it_came(
    cli: Cli, api: HttpApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a rate, and on a clock that stands still: it cannot end by itself."""
    cli.done("queues", "create", "work", "--argument", "x-dead-letter-exchange=amq.fanout")
    cli.done("queues", "create", "graves")
    cli.done("bindings", "create", "amq.fanout", "graves")
    for number in range(20):
        cli.done("publish", "work", str(number))
    cli.done("get", "work", "--count", "20", "--reject")

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("leveret.cli.job_commands.time.sleep", interrupt)
    line = cli.refused("redrive", "graves", "--rate", "1")
    [job] = api.get("/api/queue-jobs")[1]
    assert job["state"] == "cancelled"
    assert line == f"leveret: job {job['id']} cancelled: 1 message had been processed already"
    assert cli.json("queues", "show", "work")["messages_ready"] == job["done"] < 20


def test_a_terminal_sees_a_bar_and_a_table_that_fits(cli: Cli, tmp_path: Path) -> None:
    long = "orders." + "x" * 100 + ".retry"
    cli.done("queues", "create", long)
    cli.done("queues", "create", "b")
    cli.done("publish", long, "hello")
    shown = at_terminal("queues", "list", "--url", cli.url, folder=tmp_path, width=60)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    table = [line for line in plain.splitlines() if not line.startswith("Columns that")]
    assert len(table) == 3
    assert max(map(len, table)) <= 60
    assert re.search(r"orders\.x+…x*\.retry +1 ", plain)
    moved = at_terminal("move", long, "b", "--url", cli.url, folder=tmp_path, width=60)
    assert "move from" in moved
    assert "1/1" in moved
    assert moved.rstrip().endswith("1 of 1 message moved")


def at_terminal(*arguments: str, folder: Path, width: int) -> str:
    """What a command writes to a terminal, as a process of its own."""
    primary, secondary = os.openpty()
    environ = {**os.environ, "PYTHONPATH": str(SRC), "XDG_CONFIG_HOME": str(folder), "TERM": "xterm"}
    environ |= {"COLUMNS": str(width), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "leveret.cli.main", *arguments]
    with subprocess.Popen(command, env=environ, stdin=secondary, stdout=secondary, stderr=secondary) as process:
        os.close(secondary)
        shown = b""
        with suppress(OSError):  # Linux says so when the other end is closed
            while part := os.read(primary, 65536):
                shown += part
        os.close(primary)
        assert process.wait(40) == 0, shown
    return shown.decode()


def test_a_scheduled_message_is_listed_and_cancelled(cli: Cli) -> None:
    cli.done("exchanges", "create", "later", "--type", "x-delayed-message", "--argument", "x-delayed-type=fanout")
    cli.done("queues", "create", "q")
    cli.done("bindings", "create", "later", "q")
    cli.run("publish", "k", "x", "--exchange", "later", "--header", "x-delay=3600000")
    [row] = cli.rows("schedules", "list")
    assert row[2:4] == ["later", "k"]
    cli.done("schedules", "cancel", row[0])
    assert cli.json("schedules", "list")["messages"] == []
    assert "no scheduled message" in cli.refused("schedules", "cancel", row[0])
