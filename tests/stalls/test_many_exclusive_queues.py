"""1,500 exclusive queues behind a fanout exchange and 100 publishers, then the connection that owns the queues closes.

This is the shape of a test in RabbitMQ's Java client (Bug19219). Other connections are served meanwhile.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from leveret.wire.frames import method_frame
from leveret.wire.methods import BasicPublish, QueueBind, QueueDeclare
from tests.support.attack_target import P99, AttackTarget
from tests.support.raw_client import RawClient, publish_bytes

QUEUES, PUBLISHERS, MESSAGES = 1_500, 100, 1_000


@pytest.mark.quiet
def test_a_bystander_is_served_while_many_exclusive_queues_are_filled_and_deleted(tmp_path: Path) -> None:
    with AttackTarget(tmp_path, watermark=4 << 30) as broker, RawClient.open(broker.url(), timeout=60.0) as owner:
        for first in range(0, QUEUES, 100):
            made = [(QueueDeclare(f"x{n}", exclusive=True, nowait=True), f"x{n}") for n in range(first, first + 100)]
            binds = [QueueBind(name, "amq.fanout", "", nowait=True) for _, name in made]
            owner.send_bytes(b"".join(method_frame(1, method) for method, _ in made))
            owner.send_bytes(b"".join(method_frame(1, method) for method in binds))
        owner.is_alive()
        publishers = [RawClient.open(broker.url(), timeout=60.0) for _ in range(PUBLISHERS)]
        some = publish_bytes(BasicPublish("amq.fanout", ""), b"", None, 1, owner.frame_max) * (MESSAGES // PUBLISHERS)

        def publish(client: RawClient) -> None:
            client.send_bytes(some)
            client.is_alive()

        threads = [threading.Thread(target=publish, args=(client,)) for client in publishers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for client in publishers:
            client.cut()
        owner.close()
        served = broker.check()
        assert served.p99 < P99, served
        assert served.count > 5, served  # a fast machine needs a third of a second for all of this
