"""docs/internals/extending.md is true: its files exist, and its protocol runs as it is on the page."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from leveret import Broker
from leveret.server.ports import Ports
from tests.support.http_api import QUIET

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "internals" / "extending.md"
NEW = {"src/leveret/webui/pages/foo.js", "src/leveret/server/line_protocol.py", "src/leveret/queues/foo.py"}
MOST_FILES = {
    "Add a queue argument": 3,
    "Add a queue type": 2,
    "Add a metric": 2,
    "Add a page to the management UI": 3,
    "Add a command to the command line": 1,
    "Add a protocol that only publishes": 4,
}
PASSWORD = "carrots-and-lettuce"


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("title", MOST_FILES)
def test_a_task_takes_few_files_and_each_exists(title: str) -> None:
    section = sections()[title]
    steps = re.findall(r"^\d\. `([^`]+)`", section, flags=re.MULTILINE)
    assert 1 <= len(steps) <= MOST_FILES[title]
    named = set(re.findall(r"`((?:src|tests)/[^`]+)`", section))
    assert set(steps) <= named
    assert [path for path in sorted(named - NEW) if not (REPOSITORY / path).exists()] == []
    assert [path for path in sorted(named & NEW) if (REPOSITORY / path).exists()] == []


def test_every_task_is_checked() -> None:
    assert sections().keys() == MOST_FILES.keys()


@pytest.fixture(scope="module")
def protocol(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    (code, _) = re.findall(r"```python\n(.+?)```", sections()["Add a protocol that only publishes"], flags=re.DOTALL)
    path = tmp_path_factory.mktemp("page") / "line_protocol.py"
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("line_protocol", path)
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
