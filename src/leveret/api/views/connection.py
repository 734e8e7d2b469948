"""Connections, channels and consumers as JSON, by the names that RabbitMQ's management gives their facts.

What clients tell of themselves is shown without the secrets that some of them put there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from leveret.api.views.message import plain
from leveret.auth.mechanisms import certificate_name
from leveret.delivery.consumer import UNLIMITED, Consumer
from leveret.delivery.consumer_ring import SingleActive
from leveret.errors import AmqpError
from leveret.logs import without_secrets
from leveret.queues.declared_queue import DeclaredQueue
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.session.consumers import ChannelConsumer
from leveret.stats.samples import NO_WINDOWS, Windows
from leveret.stats.stats import Stats

Told = dict[str, Any]

STATES = {"OPEN": "running", "CLOSING": "closing", "CLOSED": "closed"}  # by the names of the steps of the grammar


class Ends(NamedTuple):
    peer_host: str
    peer_port: int
    host: str
    port: int


def ends_of(connection: Connection) -> Ends:
    """Both addresses, from the name: ``peer -> us``."""
    peer, _, here = connection.name.partition(" -> ")
    return Ends(*_address(peer), *_address(here))


def _address(shown: str) -> tuple[str, int]:
    host, _, port = shown.rpartition(":")
    return host.strip("[]"), int(port) if port.isdecimal() else 0


def connection_details(connection: Connection) -> Told:
    """By what others refer to it."""
    ends = ends_of(connection)
    return {"name": connection.name, "peer_host": ends.peer_host, "peer_port": ends.peer_port}


def channel_name(channel: Channel) -> str:
    return f"{channel.connection.name} ({channel.number})"


def connection_view(stats: Stats, connection: Connection, windows: Windows = NO_WINDOWS) -> Told:
    peer, ends, user = connection.peer, ends_of(connection), connection.user.name
    told: Told = {
        "name": connection.name,
        "node": connection.broker.node_name,
        "type": "network",
        "protocol": connection.protocol,
        "user": user,
        "user_who_performed_action": user,
        "vhost": connection.vhost.name,
        "state": state_of(connection),
        "channels": len(connection.channels),
        **ends._asdict(),
        "auth_mechanism": connection.mechanism,
        "connected_at": int(connection.connected_at * 1000),
        "timeout": connection.heartbeat,
        "frame_max": connection.frame_max,
        "channel_max": connection.channel_max,
        "client_properties": _harmless("", plain(connection.client_properties)),
        "recv_cnt": peer.reads,
        "send_cnt": peer.writes,
        "send_pend": peer.unsent(),
        **_tls(connection),
        **stats.of_connection(connection, windows),
    }
    if connection.client_name is not None:
        told["user_provided_name"] = _harmless("", connection.client_name)
    return told


def _harmless(name: str, value: object) -> object:
    if isinstance(value, dict):
        return {key: _harmless(key.lower(), member) for key, member in value.items()}
    if isinstance(value, list):
        return [_harmless(name, member) for member in value]
    return without_secrets(name, value)


def state_of(connection: Connection) -> str:
    if connection.blocked:
        return "blocked"
    state = STATES.get(connection.step.name, "starting")
    return "flow" if state == "running" and connection.is_paused else state


def _tls(connection: Connection) -> Told:
    spoken = connection.peer.tls()
    protocol, cipher = ("", "") if spoken is None else spoken
    return {
        "ssl": spoken is not None,
        "ssl_protocol": protocol.lower(),
        "ssl_cipher": cipher,
        "ssl_hash": "",
        "ssl_key_exchange": "",
        "peer_cert_subject": _subject(connection.peer.certificate),
        "peer_cert_issuer": "",
        "peer_cert_validity": _validity(connection.peer.certificate),
    }


def _subject(certificate: dict[str, object] | None) -> str:
    if certificate is None:
        return ""
    try:
        return certificate_name(certificate)
    except AmqpError:  # it has none
        return ""


def _validity(certificate: dict[str, object] | None) -> str:
    return "" if certificate is None else f"{certificate.get('notBefore', '')} - {certificate.get('notAfter', '')}"


# ---- channels


def channel_view(stats: Stats, channel: Channel, windows: Windows = NO_WINDOWS) -> Told:
    connection, confirms, tx = channel.connection, channel.confirms, channel.tx
    shared = channel.shared_limit
    return {
        "name": channel_name(channel),
        "number": channel.number,
        "node": connection.broker.node_name,
        "user": connection.user.name,
        "user_who_performed_action": connection.user.name,
        "vhost": channel.vhost.name,
        "state": STATES[channel.step.name],
        "connection_details": connection_details(connection),
        "confirm": confirms is not None,
        "transactional": tx is not None,
        "consumer_count": len(channel.consumers) + (channel.reply is not None),
        "prefetch_count": channel.prefetch,
        "global_prefetch_count": 0 if shared == UNLIMITED else shared,
        "messages_unacknowledged": len(channel.unacked),
        "messages_unconfirmed": 0 if confirms is None else confirms.outstanding,
        "messages_uncommitted": 0 if tx is None else sum(len(held.run) for held in tx.publishes),
        "acks_uncommitted": 0 if tx is None else sum(len(tags) for tags, _ in tx.settlements),
        **stats.of_channel(channel, windows),
    }


# ---- consumers


def consumer_view(node: str, queue: DeclaredQueue, consumer: Consumer) -> Told:
    """A consumer in the broker's own process has no channel: its channel details are empty."""
    ring = queue.consumers
    active = ring.active is consumer if isinstance(ring, SingleActive) else True
    return {
        "queue": {"name": queue.name, "vhost": queue.vhost},
        "consumer_tag": consumer.tag,
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "active": active,
        "activity_status": ("single_active" if active else "waiting") if isinstance(ring, SingleActive) else "up",
        "prefetch_count": prefetch_of(consumer),
        "priority": consumer.priority,
        "arguments": plain(consumer.arguments),
        "channel_details": _channel_details(node, consumer),
    }


def prefetch_of(consumer: Consumer) -> int:
    """How many it may hold unacked; 0 is any number."""
    return consumer.limit if consumer.limit < UNLIMITED else 0


def _channel_details(node: str, consumer: Consumer) -> Told:
    if not isinstance(consumer, ChannelConsumer):
        return {"name": consumer.label, "number": 0, "node": node, "user": "", "peer_host": "", "peer_port": 0}
    connection = consumer.connection
    ends = ends_of(connection)
    return {
        "name": channel_name(consumer.channel),
        "number": consumer.channel.number,
        "node": node,
        "connection_name": connection.name,
        "user": connection.user.name,
        "peer_host": ends.peer_host,
        "peer_port": ends.peer_port,
    }
