"""The examples of docs/internals/extending.md, as they are on the page, work in a broker that has them all.

`tests/web/test_web_extending.py` opens its page in a browser.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.extended_source import applied, example_of, extended_source, hunks_of, sections
from tests.support.management_api import ManagementApi, Reply

EXAMPLES = {title: example for title, section in sections().items() if (example := example_of(section)).files}


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_changes_only_the_files_of_its_steps(title: str) -> None:
    example = EXAMPLES[title]
    assert example.files <= example.steps.keys()
    assert [path for path, text in example.steps.items() if path not in example.files and ", if " not in text] == []


def test_the_examples_are_found() -> None:
    assert len(EXAMPLES) >= 5


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
def serving(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    ports = ("--http-port", "0", "--line-port", "0")
    with BrokerProcess(tmp_path_factory.mktemp("serving"), *ports, environ={"PYTHONPATH": str(source)}) as serving:
        yield serving


@pytest.fixture(scope="module")
def api(serving: BrokerProcess) -> ManagementApi:
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
    help_text = "Messages that expired in queues"
    assert f"# HELP rabbitmq_queue_messages_expired_total {help_text}" in lines
    assert "# TYPE rabbitmq_queue_messages_expired_total counter" in lines
    assert 'rabbitmq_queue_messages_expired_total{vhost="/",queue="brief"} 1' in lines


def test_the_command_answers(serving: BrokerProcess, source: Path, api: ManagementApi) -> None:
    declare(api, "one")
    command = [sys.executable, "-m", "leveret.cli.main", "queues", "count", "--url", serving.url("http")]
    environ = {**os.environ, "PYTHONPATH": str(source)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == f"{len(api.get('queues')[1])}\n"


def test_the_node_serves_the_protocol(serving: BrokerProcess, api: ManagementApi) -> None:
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
