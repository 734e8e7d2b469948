"""Policies through an embedded broker, from any thread, and over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

import leveret
from leveret.broker.policy_merge import Explained
from leveret.errors import NotFound, PreconditionFailed


def settings(path: Path) -> leveret.Settings:
    return leveret.Settings(data_dir=path, amqp_port=0, http_port=None, stomp_port=None)


@pytest.mark.feature("S0-29")
def test_policies_of_an_embedded_broker() -> None:
    with leveret.Broker() as broker:
        vhost = broker.vhost()
        vhost.declare_queue("q", arguments={"x-overflow": "drop-head"})
        vhost.declare_exchange("x", arguments={"alternate-exchange": "amq.fanout"})
        for body in (b"1", b"2", b"3"):
            vhost.publish("", "q", body)
        vhost.set_policy("p", "^q$", {"max-length": 2}, apply_to="queues", priority=1)
        vhost.set_policy("cap", "", {"max-length": 1}, operator=True)
        assert vhost.message_count("q") == 1
        assert [(policy.name, policy.operator) for policy in vhost.policies()] == [("p", False), ("cap", True)]
        assert vhost.explain("q") == [
            Explained("max-length", 1, "operator policy cap", True),
            Explained("max-length", 2, "policy p", False),
            Explained("overflow", "drop-head", "argument", True),
        ]
        assert vhost.explain("x", "exchange") == [Explained("alternate-exchange", "amq.fanout", "argument", True)]
        vhost.delete_policy("cap", operator=True)
        vhost.publish("", "q", b"4")
        vhost.publish("", "q", b"5")
        assert vhost.message_count("q") == 2
        with pytest.raises(NotFound):
            vhost.delete_policy("cap")
        with pytest.raises(NotFound):
            vhost.explain("nowhere")
        with pytest.raises(PreconditionFailed, match="'lenght' is not a recognised policy setting"):
            vhost.set_policy("p", "", {"lenght": 2})


@pytest.mark.feature("S0-29")
def test_policy_of_an_embedded_broker_is_on_disk_when_the_call_returns(tmp_path: Path) -> None:
    with leveret.Broker(settings(tmp_path / "data")) as broker:
        broker.vhost().declare_queue("q", durable=True)
        broker.vhost().set_policy("p", "^q$", {"max-length": 2})
    with leveret.Broker(settings(tmp_path / "data")) as broker:
        vhost = broker.vhost()
        assert [policy.definition for policy in vhost.policies()] == [{"max-length": 2}]
        assert vhost.explain("q")[0] == Explained("max-length", 2, "policy p", True)
        vhost.delete_policy("p")
    with leveret.Broker(settings(tmp_path / "data")) as broker:
        assert broker.vhost().policies() == ()
