"""No single event holds the event loop for longer than 50 ms of CPU time, however many messages and queues exist."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import leveret
from leveret.cli.serve import collect_garbage_rarely
from leveret.config import Settings
from leveret.queues.classic import ClassicQueue
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicPublish,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.support.http_api import HttpApi
from tests.support.loop_probe import LoopProbe
from tests.support.raw_client import RawClient, eventually, publish_bytes

pytestmark = pytest.mark.quiet

LONGEST_TURN = 0.05  # seconds of CPU time
MESSAGES = 1_000_000
QUEUES = 10_000
TTL = {"x-message-ttl": 2_500}
TO_DEAD: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
ALL = b'{"configure": ".*", "write": ".*", "read": ".*"}'


class Stage:
    """A broker with a client of AMQP and one of HTTP."""

    def __init__(self, data_dir: Path) -> None:
        settings = Settings(amqp_port=0, http_port=0, shutdown_timeout=5.0, data_dir=data_dir)
        self.broker = leveret.Broker(settings).start()
        self.client = RawClient.open(self.broker.amqp_url, timeout=60.0)
        self.other = RawClient.open(self.broker.amqp_url, timeout=60.0)
        self.api = HttpApi(self.broker.http_url)

    def close(self) -> None:
        self.client.cut()
        self.other.cut()
        self.broker.stop()

    def queue(self, name: str) -> ClassicQueue:
        return self.broker.node.broker.vhosts["/"].queues[name]

    def fill(self, name: str, number: int = MESSAGES, exchange: str = "", **arguments: object) -> None:
        if not exchange:
            self.client.call(QueueDeclare(name, arguments=arguments), QueueDeclareOk)  # type: ignore[arg-type]
        thousand = publish_bytes(BasicPublish(exchange, name), b"x" * 16, None, 1, self.client.frame_max) * 1_000
        for _ in range(number // 1_000):
            self.client.send_bytes(thousand)
        self.client.is_alive()

    def declare_many(self, client: RawClient | None = None) -> None:
        client = client or self.client
        client.send_bytes(b"".join(method_frame(1, QueueDeclare(f"q{n}", nowait=True)) for n in range(QUEUES)))
        client.is_alive()

    def hold_all(self) -> None:
        """The other client has a million unacknowledged messages, and reads whatever comes."""
        self.fill("q")
        self.other.call(BasicConsume("q"), BasicConsumeOk)
        threading.Thread(target=self._read_other, daemon=True).start()
        eventually(lambda: self.broker.call(lambda: self.queue("q").unacked) == MESSAGES, 60)

    def _read_other(self) -> None:
        try:
            while self.other.socket.recv(1 << 20):
                pass
        except OSError:
            pass

    def send(self, method: str, path: str, body: object = None) -> None:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        status = self.api.send(method, path, data)[0].status
        assert status < 300, (path, status)

    def until(self, condition: Callable[[], bool]) -> None:
        eventually(lambda: self.broker.call(condition), 60)


Step = Callable[[Stage], object]


def fan_out(stage: Stage) -> None:
    for n in range(200):
        stage.other.call(QueueDeclare(f"x{n}", exclusive=True), QueueDeclareOk)
        stage.other.call(QueueBind(f"x{n}", "amq.fanout", ""), QueueBindOk)
    stage.fill("", MESSAGES // 200, "amq.fanout")


def make_vhost(stage: Stage) -> None:
    stage.send("PUT", "/api/vhosts/v")
    stage.send("PUT", "/api/permissions/v/guest", ALL)
    with RawClient.open(stage.broker.amqp_url.removesuffix("%2F") + "v", timeout=60.0) as client:
        stage.declare_many(client)
        stage.client, before = client, stage.client
        stage.fill("big")
        stage.client = before


def delete_many(stage: Stage) -> None:
    stage.client.send_bytes(b"".join(method_frame(1, QueueDelete(f"q{n}", nowait=True)) for n in range(QUEUES)))
    stage.client.is_alive()


def lower_watermark(stage: Stage) -> None:
    core = stage.broker.node.broker

    def lower() -> None:
        core.memory.high_watermark = 50 << 20
        core.check_memory()

    stage.broker.call(lower)
    stage.until(lambda: stage.queue("q").lane.paged > MESSAGES // 2)


def consume_many(stage: Stage) -> None:
    consumes = [BasicConsume(f"q{n % 100}", consumer_tag=str(n), nowait=True) for n in range(QUEUES)]
    stage.other.send_bytes(b"".join(method_frame(1, method) for method in consumes))
    stage.other.is_alive()


def consume_and_leave(stage: Stage) -> None:
    consume_many(stage)
    stage.other.cut()
    stage.until(lambda: not any(len(stage.queue(f"q{n}").consumers) for n in range(100)))


def import_many(stage: Stage) -> None:
    queues = [
        {"name": f"d{n}", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} for n in range(QUEUES)
    ]
    stage.send("POST", "/api/definitions", {"queues": queues})


def set_policies(stage: Stage) -> None:
    for definition in ({"max-length": 10}, {"message-ttl": 100_000}):
        stage.send("PUT", "/api/policies/%2F/p", {"pattern": ".*", "definition": definition})
    stage.send("DELETE", "/api/policies/%2F/p")
    stage.until(lambda: stage.queue(f"q{QUEUES - 1}").options.ttl is None)


def look_at_everything(stage: Stage) -> None:
    for path in ("queues", "queues?page=1&sort=messages", "definitions", "overview", "consumers", "bindings"):
        stage.send("GET", f"/api/{path}")
    for path in ("/metrics", "/metrics/per-object"):
        stage.send("GET", path)


def shorten(stage: Stage) -> None:
    stage.send("PUT", "/api/policies/%2F/p", {"pattern": ".*", "definition": {"max-length": 10}})
    stage.until(lambda: stage.queue("q").ready == 10)


SCENES: dict[str, tuple[Step, Step]] = {
    "delete": (lambda s: s.fill("q"), lambda s: s.client.call(QueueDelete("q"), QueueDeleteOk)),
    "purge": (lambda s: s.fill("q"), lambda s: s.client.call(QueuePurge("q"), QueuePurgeOk)),
    "exclusive queues of a closed connection": (fan_out, lambda s: s.other.close()),
    "expire": (lambda s: s.fill("q", **TTL), lambda s: s.until(lambda: s.queue("q").ready == 0)),
    "expire to a dead letter exchange": (
        lambda s: (s.fill("dead", 0), s.fill("q", **TTL, **TO_DEAD)),
        lambda s: s.until(lambda: s.queue("dead").ready == MESSAGES),
    ),
    "shorten by a policy": (lambda s: s.fill("q"), shorten),
    "requeue of a lost connection": (
        Stage.hold_all,
        lambda s: (s.other.socket.shutdown(2), s.until(lambda: s.queue("q").ready == MESSAGES)),
    ),
    "ack of all": (
        Stage.hold_all,
        lambda s: (s.other.send(BasicAck(0, multiple=True)), s.until(lambda: s.queue("q").unacked == 0)),
    ),
    "nack of all": (
        Stage.hold_all,
        lambda s: (
            s.other.send(BasicNack(0, multiple=True, requeue=False)),
            s.until(lambda: s.queue("q").unacked == 0),
        ),
    ),
    "page out": (lambda s: s.fill("q"), lower_watermark),
    "declare": (lambda s: None, Stage.declare_many),
    "delete many": (Stage.declare_many, delete_many),
    "policies": (Stage.declare_many, set_policies),
    "delete a virtual host": (make_vhost, lambda s: s.send("DELETE", "/api/vhosts/v")),
    "consumers come and go": (Stage.declare_many, consume_and_leave),
    "import": (lambda s: None, import_many),
    "lists and metrics": (Stage.declare_many, look_at_everything),
}


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """As ``leveret serve`` has it."""
    before = gc.get_threshold()
    collect_garbage_rarely()
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.parametrize("scene", SCENES)
def test_no_event_holds_the_loop(tmp_path: Path, scene: str) -> None:
    prepare, act = SCENES[scene]
    stage = Stage(tmp_path / "data")
    try:
        prepare(stage)
        with LoopProbe(stage.broker) as probe:
            act(stage)
            stage.client.is_alive()
        assert probe.longest < LONGEST_TURN
    finally:
        stage.close()
