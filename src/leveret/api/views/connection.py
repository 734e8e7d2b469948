"""Rows of connections, channels and consumers, with RabbitMQ's columns.

Client properties are shown without the secrets that some clients put there.
"""

from __future__ import annotations

from typing import NamedTuple

from leveret.api.views.message import plain
from leveret.auth.mechanisms import certificate_name
from leveret.delivery.consumer import UNLIMITED, Consumer
from leveret.delivery.consumer_ring import SingleActive
from leveret.errors import AmqpError
from leveret.http.rows import Field, Row, RowDescription
from leveret.logs import without_secrets
from leveret.queues.declared_queue import DeclaredQueue
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.session.consumers import ChannelConsumer
from leveret.stats.samples import Windows
from leveret.stats.stats import Stats
from leveret.stats.totals import has_vhost

STATES = {"OPEN": "running", "CLOSING": "closing", "CLOSED": "closed"}  # by the state names of the grammar
TLS = (
    *("ssl", "ssl_protocol", "ssl_cipher", "ssl_hash", "ssl_key_exchange"),
    *("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity"),
)
TRAFFIC = ("recv_oct", "recv_oct_details", "send_oct", "send_oct_details")


class Ends(NamedTuple):
    peer_host: str
    peer_port: int
    host: str
    port: int


def ends_of(connection: Connection) -> Ends:
    """Both addresses, from the name: ``peer -> broker``."""
    peer, _, here = connection.name.partition(" -> ")
    return Ends(*_address(peer), *_address(here))


def _address(shown: str) -> tuple[str, int]:
    host, _, port = shown.rpartition(":")
    return host.strip("[]"), int(port) if port.isdecimal() else 0


def connection_details(connection: Connection) -> Row:
    """As part of the rows of other objects."""
    ends = ends_of(connection)
    row = {"name": connection.name, "peer_host": ends.peer_host, "peer_port": ends.peer_port}
    return row | _provided_name(connection)


def _provided_name(connection: Connection) -> Row:
    """Only if the client has given the connection a name."""
    return {} if connection.client_name is None else {"user_provided_name": _harmless("", connection.client_name)}


def channel_name(channel: Channel) -> str:
    return f"{channel.connection.name} ({channel.number})"


class FoundConnection(NamedTuple):
    connection: Connection
    stats: Stats
    windows: Windows


def _client(found: FoundConnection) -> Row:
    connection = found.connection
    return {"client_properties": _harmless("", plain(connection.client_properties)), **_provided_name(connection)}


CONNECTION_ROWS: RowDescription[FoundConnection] = RowDescription(
    [
        Field(("name",), lambda found: found.connection.name),
        Field(("node",), lambda found: found.connection.broker.node_name),
        Field(("type",), lambda found: "network"),
        Field(("protocol",), lambda found: found.connection.protocol),
        Field(("user",), lambda found: found.connection.user.name),
        Field(("user_who_performed_action",), lambda found: found.connection.user.name),
        Field(("vhost",), lambda found: found.connection.vhost.name),
        Field(("state",), lambda found: state_of(found.connection)),
        Field(("channels",), lambda found: len(found.connection.channels)),
        Field(Ends._fields, lambda found: ends_of(found.connection)._asdict()),
        Field(("auth_mechanism",), lambda found: found.connection.mechanism),
        Field(("connected_at",), lambda found: int(found.connection.connected_at * 1000)),
        Field(("timeout",), lambda found: found.connection.heartbeat),
        Field(("frame_max",), lambda found: found.connection.frame_max),
        Field(("channel_max",), lambda found: found.connection.channel_max),
        Field(("client_properties", "user_provided_name"), _client),
        Field(("recv_cnt",), lambda found: found.connection.peer.reads),
        Field(("send_cnt",), lambda found: found.connection.peer.writes),
        Field(("send_pend",), lambda found: found.connection.peer.unsent()),
        Field(TLS, lambda found: dict(zip(TLS, _tls(found.connection), strict=True))),
        Field(TRAFFIC, lambda found: found.stats.of_connection(found.connection, found.windows)),
    ],
    exists=lambda found: has_vhost(found.connection),
)


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


def _tls(connection: Connection) -> tuple[object, ...]:
    """The values of the columns TLS."""
    used, certificate = connection.peer.tls(), connection.peer.certificate
    protocol, cipher = ("", "") if used is None else used
    return used is not None, protocol.lower(), cipher, "", "", _subject(certificate), "", _validity(certificate)


def _subject(certificate: dict[str, object] | None) -> str:
    if certificate is None:
        return ""
    try:
        return certificate_name(certificate)
    except AmqpError:  # the certificate has no subject
        return ""


def _validity(certificate: dict[str, object] | None) -> str:
    return "" if certificate is None else f"{certificate.get('notBefore', '')} - {certificate.get('notAfter', '')}"


# ---- channels


class FoundChannel(NamedTuple):
    channel: Channel
    stats: Stats
    windows: Windows


def _transaction(found: FoundChannel) -> Row:
    tx = found.channel.tx
    return {
        "transactional": tx is not None,
        "messages_uncommitted": 0 if tx is None else sum(len(held.run) for held in tx.publishes),
        "acks_uncommitted": 0 if tx is None else sum(len(tags) for tags, _ in tx.settlements),
    }


def _confirms(found: FoundChannel) -> Row:
    confirms = found.channel.confirms
    return {"confirm": confirms is not None, "messages_unconfirmed": 0 if confirms is None else confirms.outstanding}


def _shared_limit(channel: Channel) -> int:
    return 0 if channel.shared_limit == UNLIMITED else channel.shared_limit


CHANNEL_ROWS: RowDescription[FoundChannel] = RowDescription(
    [
        Field(("name",), lambda found: channel_name(found.channel)),
        Field(("number",), lambda found: found.channel.number),
        Field(("node",), lambda found: found.channel.connection.broker.node_name),
        Field(("user",), lambda found: found.channel.connection.user.name),
        Field(("user_who_performed_action",), lambda found: found.channel.connection.user.name),
        Field(("vhost",), lambda found: found.channel.vhost.name),
        Field(("state",), lambda found: STATES[found.channel.step.name]),
        Field(("connection_details",), lambda found: connection_details(found.channel.connection)),
        Field(("confirm", "messages_unconfirmed"), _confirms),
        Field(("transactional", "messages_uncommitted", "acks_uncommitted"), _transaction),
        Field(("consumer_count",), lambda found: len(found.channel.consumers) + (found.channel.reply is not None)),
        Field(("prefetch_count",), lambda found: found.channel.prefetch),
        Field(("global_prefetch_count",), lambda found: _shared_limit(found.channel)),
        Field(("messages_unacknowledged",), lambda found: len(found.channel.unacked)),
        Field(("message_stats",), lambda found: found.stats.of_channel(found.channel, found.windows)["message_stats"]),
    ]
)


# ---- consumers


class FoundConsumer(NamedTuple):
    queue: DeclaredQueue
    consumer: Consumer
    node: str


def _activity(found: FoundConsumer) -> Row:
    ring = found.queue.consumers
    if not isinstance(ring, SingleActive):
        return {"active": True, "activity_status": "up"}
    active = ring.active is found.consumer
    return {"active": active, "activity_status": "single_active" if active else "waiting"}


CONSUMER_ROWS: RowDescription[FoundConsumer] = RowDescription(
    [
        Field(("queue",), lambda found: {"name": found.queue.name, "vhost": found.queue.vhost}),
        Field(("consumer_tag",), lambda found: found.consumer.tag),
        Field(("ack_required",), lambda found: not found.consumer.no_ack),
        Field(("exclusive",), lambda found: found.consumer.exclusive),
        Field(("active", "activity_status"), _activity),
        Field(("prefetch_count",), lambda found: prefetch_of(found.consumer)),
        Field(("channel_prefetch_count",), lambda found: channel_prefetch_of(found.consumer)),
        Field(("at_prefetch_limit",), lambda found: found.consumer.is_at_limit),
        Field(("priority",), lambda found: found.consumer.priority),
        Field(("arguments",), lambda found: plain(found.consumer.arguments)),
        Field(("channel_details",), lambda found: _channel_details(found.node, found.consumer)),
    ]
)


def is_of_link(consumer: Consumer) -> bool:
    """Whether it stands for a consumer in another cell."""
    return isinstance(consumer, ChannelConsumer) and consumer.channel.is_link


def prefetch_of(consumer: Consumer) -> int:
    """The maximum number of unacknowledged messages; 0 if there is no limit."""
    return consumer.limit if consumer.limit < UNLIMITED else 0


def channel_prefetch_of(consumer: Consumer) -> int:
    """The limit of its channel (basic.qos with global), which Celery sets; 0 if there is none."""
    return _shared_limit(consumer.channel) if isinstance(consumer, ChannelConsumer) else 0


def _channel_details(node: str, consumer: Consumer) -> Row:
    """A consumer in the broker's own process has no channel: its channel details are empty."""
    if not isinstance(consumer, ChannelConsumer):
        return {"name": consumer.label, "number": 0, "node": node, "user": "", "peer_host": "", "peer_port": 0}
    return channel_details(consumer.channel) | {"node": node}


def channel_details(channel: Channel) -> Row:
    """As part of the rows of other objects."""
    connection = channel.connection
    ends = ends_of(connection)
    return {
        "name": channel_name(channel),
        "number": channel.number,
        "node": connection.broker.node_name,
        "connection_name": connection.name,
        "user": connection.user.name,
        "peer_host": ends.peer_host,
        "peer_port": ends.peer_port,
        **_provided_name(connection),
    }
