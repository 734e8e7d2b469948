"""The nodes that a broker announces, as addresses for the next attempts of a failover connection."""

from __future__ import annotations

import pytest

from leveret.client.address import parsed
from leveret.client.cluster_nodes import MOST_NODES, node_addresses
from leveret.client.failover_uri import plan_of

NODES = ["amqp://a:5672", "amqps://a:5671", "amqp://b:5673", "amqps://[::1]:5671"]
CURRENT = parsed("amqp://ann:secret@a:5672/shop?heartbeat=7&connection_timeout=3")


def test_other_nodes_are_reached_as_the_present_one() -> None:
    first, second = node_addresses(CURRENT, NODES)
    assert first == CURRENT
    assert (second.host, second.port) == ("b", 5673)
    assert (second.user, second.password, second.vhost, second.heartbeat, second.connection_timeout) == (
        "ann",
        "secret",
        "shop",
        7,
        3,
    )


def test_a_connection_with_tls_learns_ports_with_tls() -> None:
    found = node_addresses(parsed("amqps://a?cacertfile=ca.pem"), NODES)
    assert [(each.host, each.port, each.is_tls, each.cacertfile) for each in found] == [
        ("a", 5671, True, "ca.pem"),
        ("::1", 5671, True, "ca.pem"),
    ]


@pytest.mark.parametrize(
    "announced", [None, [], {}, "amqp://b:1", [1, None], ["amqp://b"], ["amqp://b:x"], ["http://b:1"]]
)
def test_what_cannot_be_used_is_passed_over(announced: object) -> None:
    assert node_addresses(CURRENT, announced) == ()


def test_amqp_over_http_learns_nothing() -> None:
    assert node_addresses(parsed("ws://a"), NODES) == ()


def test_the_number_of_nodes_is_bounded() -> None:
    assert len(node_addresses(CURRENT, [f"amqp://n{number}:1" for number in range(1000)])) == MOST_NODES


def test_only_failover_connections_learn_nodes() -> None:
    assert plan_of("failover:(amqp://a)").learns_nodes
    assert not plan_of("failover:(amqp://a)?updateURIsSupported=false").learns_nodes
    assert not plan_of("fanout:(amqp://a,amqp://b)").learns_nodes
