"""Every argument, header and field by which a client names another object or makes the broker act on one.

``ROWS`` has what each of them needs, by name of the object, and how to use it over AMQP, HTTP and STOMP. ``PLAIN`` has
the arguments, headers, policy keys and fields that do neither, with the reason. A test (test_arguments_matrix.py) tries
each row, and fails for a name in the source that is in neither table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from leveret.broker.policy_keys import KEYS
from leveret.wire.fields import Table
from leveret.wire.methods import (
    BasicConsume,
    BasicPublish,
    BasicQos,
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxSelect,
)
from leveret.wire.properties import Properties
from tests.support.matrix_objects import NEW, PINNED_READER
from tests.support.matrix_requests import AT, Asked
from tests.support.matrix_users import VHOST
from tests.support.raw_client import publish_bytes

DEFAULT = "amq.default"
EVERY = ".*"  # instead of a key: messages can have any
SOON = 4_000_000_000_000  # milliseconds since 1970, for x-deliver-at


class Needed(NamedTuple):
    """``what`` is queue, exchange or topic. Of a topic ``name`` is the exchange and ``key`` the routing key."""

    kind: str
    what: str
    name: str
    key: str = ""

    def __str__(self) -> str:
        if self.what != "topic":
            return f"{self.kind} {self.what} {self.name}"
        return f"{self.kind} {'every topic' if self.key == EVERY else f'topic {self.key}'} of exchange {self.name}"


class Row(NamedTuple):
    """``names``: the arguments, headers or fields that the row is about. ``stomp``: command and headers of a frame.
    ``check``: the same as a question to /api/permission-check."""

    names: tuple[str, ...]
    needs: tuple[Needed, ...]
    amqp: Sequence[Method | bytes] = ()
    http: Asked | None = None
    stomp: tuple[str, dict[str, object]] | None = None
    check: str = ""

    @property
    def ways(self) -> tuple[str, ...]:
        given = {"AMQP": self.amqp, "HTTP": self.http, "STOMP": self.stomp, "permission-check": self.check}
        return tuple(way for way, said in given.items() if said)


def configure(what: str, name: str) -> Needed:
    return Needed("configure", what, name)


def write(what: str, name: str, key: str = "") -> Needed:
    return Needed("write", what, name, key)


def read(what: str, name: str, key: str = "") -> Needed:
    return Needed("read", what, name, key)


def asked(method: str, path: str, body: object = None) -> Asked:
    return Asked(method, path.replace("{vhost}", VHOST), None if body is None else json.dumps(body).encode())


def question(action: str, arguments: Table) -> str:
    return urlencode({"vhost": VHOST, "action": action, "name": NEW, "arguments": json.dumps(arguments)})


def queue(names: Table, *needs: Needed) -> Row:
    """Declared with these arguments, in each of the protocols."""
    said: dict[str, object] = {"destination": f"/queue/{NEW}", "id": "1"}
    return Row(
        tuple(names),
        (configure("queue", NEW), *needs),
        [QueueDeclare(NEW, durable=True, arguments=names)],
        asked("PUT", f"/api/queues/{{vhost}}/{NEW}", {"durable": True, "arguments": names}),
        ("SUBSCRIBE", said | dict(names)),
        question("declare queue", names),
    )


def exchange(names: Table, *needs: Needed, kind: str = "direct") -> Row:
    return Row(
        tuple(names),
        (configure("exchange", NEW), *needs),
        [ExchangeDeclare(NEW, kind, arguments=names)],
        asked("PUT", f"/api/exchanges/{{vhost}}/{NEW}", {"type": kind, "arguments": names}),
        check=question("declare exchange", names),
    )


def publish(exchange: str, headers: Table, *needs: Needed, key: str = "k", is_transaction: bool = False) -> Row:
    message = publish_bytes(BasicPublish(exchange, key), b"hello", Properties(headers=headers))
    body = {"routing_key": key, "payload": "hello", "properties": {"headers": headers}}
    return Row(
        tuple(headers),
        (write("exchange", exchange or DEFAULT), *needs),
        [TxSelect(), message, TxCommit()] if is_transaction else [message],
        None if is_transaction else asked("POST", f"/api/exchanges/{{vhost}}/{exchange}/publish", body),
    )


def job(queue: str, names: dict[str, object], *needs: Needed) -> Row:
    path = f"/api/queues/{{vhost}}/{queue}/jobs"
    fields = tuple(name for name in names if name != "kind")
    return Row(fields, (read("queue", queue), write("exchange", DEFAULT), *needs), http=asked("POST", path, names))


def _dead_letters(*targets: Needed) -> tuple[Needed, ...]:
    return (read("queue", NEW), *targets)


TO_DEFAULT = write("exchange", DEFAULT)
SHARED, INDIVIDUAL = {"x-dead-letter-strategy": "shared"}, {"x-dead-letter-strategy": "individual"}
STREAM = [BasicQos(0, 10)]

ROWS: dict[str, Row] = {
    "queue.declare, x-dead-letter-exchange": queue(
        {"x-dead-letter-exchange": "x"}, *_dead_letters(write("exchange", "x"))
    ),
    "queue.declare, x-dead-letter-exchange of type topic": queue(
        {"x-dead-letter-exchange": "t"}, *_dead_letters(write("exchange", "t"), write("topic", "t", EVERY))
    ),
    "queue.declare, x-dead-letter-exchange of type topic, x-dead-letter-routing-key": queue(
        {"x-dead-letter-exchange": "t", "x-dead-letter-routing-key": "k"},
        *_dead_letters(write("exchange", "t"), write("topic", "t", "k")),
    ),
    "queue.declare, x-dead-letter-strategy: shared": queue(
        SHARED, *_dead_letters(TO_DEFAULT, configure("queue", "ActiveMQ.DLQ"))
    ),
    "queue.declare, x-dead-letter-strategy: shared, x-dead-letter-queue": queue(
        {**SHARED, "x-dead-letter-queue": "q"}, *_dead_letters(TO_DEFAULT, configure("queue", "q"))
    ),
    "queue.declare, x-dead-letter-queue, for the strategy of a policy": queue(
        {"x-dead-letter-queue": "q"}, *_dead_letters(TO_DEFAULT, configure("queue", "q"))
    ),
    "queue.declare, x-dead-letter-strategy: individual": queue(
        INDIVIDUAL, *_dead_letters(TO_DEFAULT, configure("queue", f"DLQ.{NEW}"))
    ),
    "queue.declare, x-dead-letter-strategy: individual, x-dead-letter-queue-prefix": queue(
        {**INDIVIDUAL, "x-dead-letter-queue-prefix": "of."}, *_dead_letters(TO_DEFAULT, configure("queue", f"of.{NEW}"))
    ),
    "queue.declare, x-dead-letter-queue-prefix, for the strategy of a policy": queue(
        {"x-dead-letter-queue-prefix": "of."}, *_dead_letters(TO_DEFAULT, configure("queue", f"of.{NEW}"))
    ),
    "exchange.declare, alternate-exchange": exchange(
        {"alternate-exchange": "x"}, read("exchange", NEW), write("exchange", "x")
    ),
    "exchange.declare, alternate-exchange of type topic": exchange(
        {"alternate-exchange": "t"}, read("exchange", NEW), write("exchange", "t"), write("topic", "t", EVERY)
    ),
    "exchange.declare, x-implicit-bindings": exchange({"x-implicit-bindings": True}, read("exchange", NEW), TO_DEFAULT),
    "exchange.declare, x-implicit-bindings, x-delayed-type: direct": exchange(
        {"x-implicit-bindings": True, "x-delayed-type": "direct"},
        read("exchange", NEW),
        TO_DEFAULT,
        kind="x-delayed-message",
    ),
    "queue.bind to an exchange of type topic": Row(
        ("routing_key",),
        (write("queue", "q"), read("exchange", "t"), read("topic", "t", "k")),
        [QueueBind("q", "t", "k")],
        asked("POST", "/api/bindings/{vhost}/e/t/q/q", {"routing_key": "k"}),
    ),
    "SUBSCRIBE to an exchange of type topic, x-queue-name": Row(
        ("x-queue-name",),
        (
            configure("queue", "q"),
            write("queue", "q"),
            read("queue", "q"),
            read("exchange", "t"),
            read("topic", "t", "k"),
        ),
        stomp=("SUBSCRIBE", {"destination": "/exchange/t/k", "id": "1", "x-queue-name": "q", "durable": "true"}),
    ),
    "queue.bind to an x-delayed-message exchange over topic": Row(
        ("x-delayed-type",),
        (write("queue", "q"), read("exchange", "d"), read("topic", "d", "k")),
        [QueueBind("q", "d", "k")],
        asked("POST", "/api/bindings/{vhost}/e/d/q/q", {"routing_key": "k"}),
    ),
    "exchange.bind, destination of type topic": Row(
        ("routing_key",),
        (write("exchange", "t"), write("topic", "t", EVERY), read("exchange", "x")),
        [ExchangeBind("t", "x", "k")],
        asked("POST", "/api/bindings/{vhost}/e/x/e/t", {"routing_key": "k"}),
    ),
    "basic.publish to an exchange of type topic": publish("t", {}, write("topic", "t", "k")),
    "basic.publish to an x-delayed-message exchange over topic": publish("d", {"x-delay": 1}, write("topic", "d", "k")),
    "basic.publish, CC": publish("t", {"CC": ["cc"]}, write("topic", "t", "k"), write("topic", "t", "cc")),
    "basic.publish, BCC": publish("t", {"BCC": ["bcc"]}, write("topic", "t", "k"), write("topic", "t", "bcc")),
    "basic.publish in a transaction, CC": publish(
        "t", {"CC": ["cc"]}, write("topic", "t", "k"), write("topic", "t", "cc"), is_transaction=True
    ),
    "basic.publish, x-deliver-at": publish("x", {"x-deliver-at": SOON}),
    "basic.publish, x-deliver-at and CC": publish(
        "t", {"x-deliver-at": SOON, "CC": ["cc"]}, write("topic", "t", "k"), write("topic", "t", "cc")
    ),
    "basic.publish, reply_to: amq.rabbitmq.reply-to": Row(
        ("reply_to",),
        (write("exchange", "x"),),
        [
            BasicConsume("amq.rabbitmq.reply-to", "replies", no_ack=True),
            publish_bytes(BasicPublish("x", "none"), b"hello", Properties(reply_to="amq.rabbitmq.reply-to")),
        ],
    ),
    "basic.consume, x-stream-pinned": Row(
        ("x-stream-pinned",),
        (read("queue", "s"), configure("queue", "s")),
        [*STREAM, BasicConsume("s", "tag", arguments={"x-stream-consumer": "new", "x-stream-pinned": True})],
        asked("PUT", f"{AT}/consumers", {"queue": "s", "consumer": "new", "offset": 0, "pinned": True}),
    ),
    "basic.consume, x-stream-consumer of a pinned reader": Row(
        ("x-stream-consumer", "pinned"),
        (read("queue", "s"), configure("queue", "s")),
        [*STREAM, BasicConsume("s", "tag", arguments={"x-stream-consumer": PINNED_READER})],
        asked("PUT", f"{AT}/consumers", {"queue": "s", "consumer": PINNED_READER, "offset": 9}),
    ),
    "delete the offset of a pinned reader": Row(
        ("consumer",),
        (read("queue", "s"), configure("queue", "s")),
        http=asked("DELETE", f"{AT}/consumers?queue=s&consumer={PINNED_READER}"),
    ),
    "queue job, destination": job("q", {"kind": "move", "destination": "r"}),
    "queue job, destination in its own virtual host": job(
        "q", {"kind": "move", "destination": "r", "destination_vhost": VHOST}
    ),
}

VALUE = "a value of the queue itself"
OF_A_CONSUMER = "a value of the consumer itself"
OF_A_MESSAGE = "travels with the message; names no object that the broker acts on"
OF_HTTP = "a header of HTTP requests: no object of a virtual host"
A_TYPE = "an exchange type"
A_PREFIX = "begins names that have entries of their own"
BY_TAG = "set by policy, which takes the tag policymaker and access to the virtual host"
SHOWS = "decides what a list or an answer shows"
IN_THE_PATH = "says which object the request is about: tests/support/matrix_requests.py"
OF_THE_VALUE = "a value of the object that the request is about"
BY_ROLE = "accepted from administrators only, and these can grant themselves every permission"
OF_A_LOGIN = "of the user that logs in"
OF_A_PROVIDER = "an answer of the identity provider: tests/integration/test_single_sign_on.py"
OF_THE_PIPELINE = "names a stage, a transaction or a lease, which has an owner or a queue of its own"

REASONS: dict[str, tuple[str, ...]] = {
    VALUE: (
        *("x-cache-size", "x-cache-ttl", "x-consumer-timeout", "x-deduplication-header", "x-delayed-retry"),
        *("x-delayed-retry-max", "x-delayed-retry-min", "x-delayed-retry-type", "x-delivery-limit", "x-durability"),
        *("x-expires", "x-max-age", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-max-redeliveries"),
        *("x-message-deduplication", "x-message-groups", "x-message-ttl", "x-overflow", "x-pending-message-limit"),
        *("x-process-expired", "x-process-non-persistent", "x-queue-type", "x-retry-delay", "x-retry-delay-max"),
        *("x-retry-delay-min", "x-retry-delays", "x-retry-jitter", "x-retry-multiplier", "x-single-active-consumer"),
        *("x-stream-max-segment-size-bytes", "x-queue-leader-locator"),
    ),
    OF_A_CONSUMER: (
        *("x-priority", "x-pull-one", "x-selector", "x-stream-filter", "x-stream-match-unfiltered", "x-stream-offset"),
    ),
    "of a link between cells: clients cannot open one (session/consumer_reports.py)": (
        *("x-link-consumer-tag", "x-link-stream-offset"),
    ),
    "spreads a consumer over all shards; read is asked of each (session/pooled_consumer.py)": ("x-shard-all",),
    "of a binding, whose ends have entries of their own": ("x-match", "x-stream-partition-order"),
    "marks an exchange for the lists of streams; reading asks read of each partition": ("x-super-stream",),
    OF_A_MESSAGE: (
        *("x-error", "x-exception", "x-exception-message", "x-exception-stacktrace", "x-last-error"),
        *("x-group-id", "x-schema-id", "x-stream-filter-value", "x-delivery-count", "x-redrive-count"),
        *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "expiration"),
        *("message_id", "timestamp", "type", "app_id", "cluster_id"),
    ),
    "must be the name of the user itself, unless it has the tag impersonator": ("user_id",),
    "written by the broker; tests/attacks/test_redrive.py tries what a client can forge": (
        *("x-death", "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason"),
    ),
    A_TYPE: ("x-consistent-hash", "x-delayed-message", "x-local-random", "x-modulus-hash", "x-random"),
    A_PREFIX: ("x-dead-letter-", "x-retry-"),
    OF_HTTP: ("x-forwarded-", "x-leveret-path", "x-real-ip", "x-reason", "x-requested-with"),
    BY_TAG: tuple(KEYS),
    SHOWS: (
        *("after", "at", "columns", "contains", "death.error", "death.exchange", "death.queue", "death.reason"),
        *("death.routing_key", "death.task"),
        *("download", "encoding", "family", "from", "json", "lengths_age", "lengths_incr", "level", "limit", "run"),
        *(
            "missing",
            "msg_rates_age",
            "msg_rates_incr",
            "node_stats_age",
            "node_stats_incr",
            "of",
            "page",
            "page_size",
            "start",
            "selector",
            "slice",
            "sort",
            "sort_reverse",
        ),
        *("omit_constants", "text", "to", "truncate", "use_regex", "user", "action", "node"),
    ),
    IN_THE_PATH: ("exchange", "name", "pattern", "queue", "super_stream", "vhost"),
    OF_THE_VALUE: (
        *(
            "apply-to",
            "auto_delete",
            "durable",
            "internal",
            "if-empty",
            "if-unused",
            "dry_run",
            "mandatory",
            "unroutable",
            "offset",
        ),
        *("ackmode", "count", "ids", "kind", "max_bytes", "max_messages", "partition", "payload", "payload_encoding"),
        *("compatibility", "message", "schema", "version", "wait"),
        *("rate", "through", "tracing", "description", "default_queue_type", "metadata", "value", "definition"),
    ),
    "hold arguments, headers and policy keys, each with its own entry": ("arguments", "properties"),
    BY_ROLE: (
        *("bindings", "exchanges", "global_parameters", "parameters", "permissions", "policies", "queues"),
        *("topic_permissions", "users", "vhosts", "configure", "read", "write", "tags", "hashing_algorithm", "limits"),
        *("password_hash", "cell", "schemas", "skip_unsupported"),
    ),
    OF_A_LOGIN: ("username", "password"),
    OF_A_PROVIDER: ("code", "error", "error_description", "iss", "state"),
    OF_THE_PIPELINE: ("attempt", "batch", "id", "lease", "owner_only", "reader", "stages", "transaction"),
}
PLAIN: dict[str, str] = {name: reason for reason, names in REASONS.items() for name in names}
