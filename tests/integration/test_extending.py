"""docs/internals/extending.md is true: its examples, as they are on the page, work in a broker that has them all.

`tests/web/test_web_extending.py` opens its page in a browser.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import pytest

from leveret import Broker
from leveret.server.ports import Ports
from tests.support.extended_source import REPOSITORY, applied, example_of, extended_source, hunks_of, sections
from tests.support.http_api import QUIET
from tests.support.management_api import ManagementApi, Reply
from tests.support.serving import Serving

MOST_FILES = {
    "Add a queue argument": 3,
    "Add a metric": 2,
    "Add a page to the management UI": 3,
    "Add a command to the command line": 1,
    "Add a protocol that only publishes": 4,
}
PASSWORD = "carrots-and-lettuce"


@pytest.mark.parametrize("title", MOST_FILES)
def test_a_task_takes_few_files_and_each_exists(title: str) -> None:
    section = sections()[title]
    example = example_of(section)
    assert 1 <= len(example.steps) <= MOST_FILES[title]
    assert example.files <= example.steps.keys()
    assert [path for path, text in example.steps.items() if path not in example.files and ", if " not in text] == []
    named = set(re.findall(r"`((?:src|tests)/[^`]+)`", section))
    assert [path for path in sorted(named - example.new_files.keys()) if not (REPOSITORY / path).exists()] == []


def test_every_task_is_checked() -> None:
    assert sections().keys() == MOST_FILES.keys()


def test_a_diff_that_does_not_fit_its_file_is_refused() -> None:
    (hunk,) = hunks_of("--- a.py\n@@\n def f():\n-    return 1\n+    return 2\n")
    assert applied(hunk, "def f():\n    return 1\n") == "def f():\n    return 2\n"
    for text in ("def f():\n    return 3\n", "def f():\n    return 1\n" * 2):
        with pytest.raises(AssertionError, match="not once"):
            applied(hunk, text)


# ---- the examples in a broker that runs from the extended source


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return extended_source(tmp_path_factory.mktemp("extended"))


@pytest.fixture(scope="module")
def serving(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    ports = ("--http-port", "0", "--line-port", "0")
    with Serving(tmp_path_factory.mktemp("serving"), *ports, environ={"PYTHONPATH": str(source)}) as serving:
        yield serving


@pytest.fixture(scope="module")
def api(serving: Serving) -> ManagementApi:
    return ManagementApi(serving.url("http"))


def declare(api: ManagementApi, queue: str, **arguments: object) -> Reply:
    given = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return api.put(f"queues/%2F/{queue}", {"durable": True, "arguments": given})


def publish(api: ManagementApi, queue: str) -> None:
    message = {"routing_key": queue, "payload": "carrots", "payload_encoding": "string", "properties": {}}
    assert api.post("exchanges/%2F/amq.default/publish", message) == (200, {"routed": True})


def fetch(api: ManagementApi, queue: str) -> dict[str, Any]:
    """One message, which is requeued."""
    (message,) = api.post(f"queues/%2F/{queue}/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"})[1]
    return dict(message)


def delivery_counts(api: ManagementApi, queue: str) -> list[object]:
    """The header of a message at its first and second delivery."""
    publish(api, queue)
    got = [fetch(api, queue)["properties"] for _ in range(2)]
    return [properties.get("headers", {}).get("x-delivery-count") for properties in got]


def test_the_argument_is_validated_and_shown(api: ManagementApi) -> None:
    status, answer = declare(api, "wrong", count_deliveries="yes")
    assert (status, "invalid arg 'x-count-deliveries'" in answer["reason"]) == (400, True)
    assert declare(api, "counted", count_deliveries=True)[0] == 201
    assert api.get("queues/%2F/counted")[1]["arguments"] == {"x-count-deliveries": True}
    assert declare(api, "counted")[0] == 400


def test_the_argument_has_its_effect(api: ManagementApi) -> None:
    declare(api, "counting", count_deliveries=True)
    declare(api, "plain")
    assert delivery_counts(api, "counting") == [None, 1]
    assert delivery_counts(api, "plain") == [None, None]


def test_a_policy_sets_the_argument(api: ManagementApi) -> None:
    policy = {"pattern": "^by-policy$", "definition": {"count-deliveries": True}}
    assert api.put("policies/%2F/counts", policy)[0] == 201
    declare(api, "by-policy")
    assert delivery_counts(api, "by-policy") == [None, 1]


def test_the_metric_is_exported(api: ManagementApi) -> None:
    declare(api, "brief", message_ttl=0)
    publish(api, "brief")
    lines = api.http.send("GET", "/metrics/per-object")[1].decode().splitlines()
    help_text = "Total number of messages that expired in queues"
    assert f"# HELP rabbitmq_queue_messages_expired_total {help_text}" in lines
    assert "# TYPE rabbitmq_queue_messages_expired_total counter" in lines
    assert 'rabbitmq_queue_messages_expired_total{vhost="/",queue="brief"} 1' in lines


def test_the_command_answers(serving: Serving, source: Path, api: ManagementApi) -> None:
    declare(api, "one")
    command = [sys.executable, "-m", "leveret.cli.main", "queues", "count", "--url", serving.url("http")]
    environ = {**os.environ, "PYTHONPATH": str(source)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == f"{len(api.get('queues')[1])}\n"


def test_the_node_serves_the_protocol(serving: Serving, api: ManagementApi) -> None:
    declare(api, "lines")
    address = urlsplit(serving.url("line"))
    assert address.hostname is not None
    assert address.port is not None
    with (
        socket.create_connection((address.hostname, address.port), timeout=20) as connection,
        connection.makefile("rb") as replies,
    ):
        connection.sendall(b"LOGIN guest guest /\nPUB  lines two carrots\n")
        assert [replies.readline(), replies.readline()] == [b"OK\n", b"OK\n"]
    assert fetch(api, "lines")["payload"] == "two carrots"
    serving.terminate()
    assert serving.exit_code() == 0


# ---- the protocol in this process


@pytest.fixture(scope="module")
def protocol(source: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("line_protocol", source / "leveret" / "server" / "line_protocol.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(replace(QUIET, data_dir=tmp_path_factory.mktemp("data"), durability="os")) as broker:
        core = broker.node.broker
        broker.call(lambda: core.users.add("ann", password=PASSWORD))
        broker.call(lambda: core.permissions.set("ann", "/", "", "^(orders|amq.default)$", ""))
        broker.call(lambda: core.users.add("stranger", password=PASSWORD))
        vhost = broker.vhost()
        vhost.declare_exchange("orders", "topic")
        vhost.declare_exchange("secret", "fanout")
        vhost.declare_queue("q", durable=True)
        vhost.bind("q", "orders", "eu.#")
        vhost.bind("q", "secret")
        yield broker


Say = Callable[..., list[str]]


@pytest.fixture(scope="module")
def port(broker: Broker, protocol: ModuleType) -> Iterator[int]:
    """As node.py would open it."""
    node = broker.node
    admission, loopback_users = node._listeners.admission, node.settings.loopback_users
    assert node._logins is not None
    logins = node._logins
    ports = Ports(
        lambda: protocol.LineProtocol(node.broker, logins, admission, loopback_users), lambda: 10.0, admission
    )
    loop = broker.call(asyncio.get_running_loop)
    yield asyncio.run_coroutine_threadsafe(ports.listen(("127.0.0.1",), 0, "--line-port", None), loop).result()
    broker.call(ports.close)


@pytest.fixture
def say(port: int) -> Iterator[Say]:
    """Send lines together, and read one reply for each."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection, connection.makefile("rb") as replies:

        def say(*lines: str) -> list[str]:
            connection.sendall("".join(f"{line}\n" for line in lines).encode())
            return [replies.readline().decode().rstrip("\n") for _ in lines]

        yield say


LOGIN = f"LOGIN ann {PASSWORD} /"


def test_the_protocol_publishes(broker: Broker, say: Say) -> None:
    assert say(LOGIN, "PUB orders eu.paid two carrots", "PUB orders us.paid one lettuce") == ["OK", "OK", "UNROUTED"]
    got = broker.vhost().get("q", auto_ack=True)
    assert got is not None
    assert (got.exchange, got.routing_key, got.body) == ("orders", "eu.paid", b"two carrots")
    assert broker.vhost().get("q") is None


def test_many_lines_at_once_are_answered_in_order(broker: Broker, say: Say) -> None:
    lines = [f"PUB orders {'eu' if number % 2 else 'us'}.{number} {number}" for number in range(1_500)]
    assert say(LOGIN, *lines)[1:] == ["UNROUTED", "OK"] * 750
    assert broker.vhost().purge_queue("q") == 750


def test_permissions_are_those_of_the_user(broker: Broker, say: Say) -> None:
    assert say(LOGIN) == ["OK"]
    (refused,) = say("PUB secret k hello")
    assert refused.startswith("ERROR ")
    assert "write access to exchange 'secret' in vhost '/' refused for user 'ann'" in refused
    core = broker.node.broker
    broker.call(lambda: core.permissions.set_topic("ann", "/", "orders", "^eu", ""))
    (refused,) = say("PUB orders us.paid hello")
    assert "write access to topic 'us.paid' in exchange 'orders'" in refused
    assert say("PUB orders eu.paid hello") == ["OK"]
    broker.call(lambda: core.permissions.clear_topic("ann", "/"))
    assert broker.vhost().purge_queue("q") == 1


def test_a_missing_exchange_is_not_revealed(say: Say) -> None:
    assert say(LOGIN) == ["OK"]
    there, missing = say("PUB secret k hello", "PUB none k hello")
    assert there.replace("secret", "none") == missing


@pytest.mark.parametrize(
    "line", ["LOGIN ann wrong /", f"LOGIN nemo {PASSWORD} /", f"LOGIN stranger {PASSWORD} /", f"LOGIN ann {PASSWORD} x"]
)
def test_a_wrong_login_is_refused(line: str, say: Say) -> None:
    (refused,) = say(line)
    assert refused.startswith("ERROR ")


def test_nothing_is_published_before_the_login(broker: Broker, say: Say) -> None:
    (refused,) = say("PUB orders eu.paid hello")
    assert refused.startswith("ERROR expected LOGIN")
    assert broker.vhost().get("q") is None


def test_an_alarm_blocks_publishers(broker: Broker, say: Say) -> None:
    assert say(LOGIN) == ["OK"]
    alarms = broker.node.broker.alarms
    broker.call(lambda: alarms.__setitem__("test", "test"))
    assert say("PUB orders eu.paid hello") == ["ERROR publishers are blocked by an alarm"]
    broker.call(lambda: alarms.__delitem__("test"))
    assert say("PUB orders eu.paid hello") == ["OK"]
    assert broker.vhost().purge_queue("q") == 1
