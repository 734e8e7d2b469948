"""Outboxes of a broker that is started again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from leveret import Broker
from leveret.broker.publishes import write_run
from leveret.message import PERSISTENT
from leveret.pipeline.outboxes import Outboxes
from leveret.wire.content import make_content
from leveret.wire.properties import Properties
from tests.support.http_api import QUIET
from tests.support.sinks import address


def outboxes(broker: Broker) -> Outboxes:
    return broker.node.pipeline.commits.outboxes


def fill(broker: Broker) -> str:
    core = broker.node.broker
    outbox = outboxes(broker).of(core.vhost("/"), "c9", "far")
    content = make_content(Properties(delivery_mode=2), b"1")
    write_run([outbox.queue], core.log, [(content, address(), PERSISTENT)], len(content), False)
    return outbox.id


def test_an_outbox_with_messages_is_there_after_a_restart(tmp_path: Path) -> None:
    with Broker(replace(QUIET, data_dir=tmp_path)) as broker:
        id_ = broker.call(lambda: fill(broker))
    with Broker(replace(QUIET, data_dir=tmp_path)) as broker:
        assert broker.call(lambda: outboxes(broker).ids("c9")) == [id_]
        assert broker.call(lambda: outboxes(broker).is_passed("c9")) is False
