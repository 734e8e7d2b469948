"""Rows of the keys of policy definitions, each with its meaning: for forms that offer the keys."""

from __future__ import annotations

from leveret.broker.policy_keys import ARGUMENTS, PolicyKey
from leveret.http.rows import Field, RowDescription

SAMPLE = "a word"  # a key that accepts this accepts any string
NO_EFFECT = "Accepted for RabbitMQ's definitions; has no effect."

MEANINGS = {
    # Limits.
    "message-ttl": "Milliseconds after which a message in the queue expires.",
    "expires": "Milliseconds without use after which the queue is deleted.",
    "max-length": "Maximum number of ready messages.",
    "max-length-bytes": "Maximum size of all ready messages in bytes.",
    "delivery-limit": "How often a message can be requeued before it is dead-lettered; -1 is no limit.",
    "consumer-timeout": "Milliseconds after which an unacknowledged message is requeued.",
    # Overflow and dead-lettering.
    "overflow": "Above the limits: drop-head, reject-publish or reject-publish-dlx.",
    "dead-letter-exchange": "Exchange for dead letters; empty is the default exchange.",
    "dead-letter-routing-key": "Routing key of dead letters, instead of their own.",
    # Retries.
    "retry-delays": "List of milliseconds, one delay for each retry; after the last one the message is dead-lettered.",
    "retry-delay-min": "Milliseconds of the first delay; each further delay is longer.",
    "retry-delay-max": "Milliseconds of the longest delay between retries.",
    "retry-multiplier": "Factor from one delay to the next; 2 by default.",
    "retry-jitter": "Fraction of each delay that is random, 0 to 1.",
    "delayed-retry-type": "Messages whose retry is delayed: disabled, all, failed or returned.",
    "delayed-retry-min": "Milliseconds of the first delay; it grows with the delivery count.",
    "delayed-retry-max": "Milliseconds of the longest delay.",
    # Duplicates and groups.
    "message-deduplication": "true: a message with an ID that was seen before is confirmed and dropped.",
    "deduplication-header": "Header with the ID of a message.",
    "deduplication-window-ms": "Milliseconds for which an ID is recorded.",
    "deduplication-window-count": "Number of IDs that are recorded.",
    "message-groups": "true: messages with the same x-group-id go to one consumer at a time.",
    # Equivalents of ActiveMQ's destination policies.
    "dead-letter-strategy": "shared or individual: dead letters go to one queue for all, or to one for each queue.",
    "dead-letter-queue": "Queue of the shared strategy; ActiveMQ.DLQ by default.",
    "dead-letter-queue-prefix": "Prefix of the queues of the individual strategy; DLQ. by default.",
    "process-expired": "Whether expired messages are dead-lettered; true by default.",
    "process-non-persistent": "Whether transient messages are dead-lettered; false by default.",
    "max-redeliveries": "How often a message can be redelivered; -1 is no limit.",
    "pending-message-limit": "Maximum number of ready messages for a slow consumer; the oldest are dropped.",
    # Placement.
    "queue-leader-locator": "With several cells: client-local or balanced; where queues that are declared later live.",
    # The disk.
    "durability": "fsync or os: when a message counts as stored.",
    # Exchanges.
    "alternate-exchange": "Exchange for messages that cannot be routed.",
    "shards-per-node": "Number of queues that the exchange is sharded to.",
    "routing-key": "Routing key with which shards are bound.",
    "shard-queue-type": "Type of the shards: classic, quorum or stream.",
    "ordered-resize": "true: messages of one routing key keep their order while the number of shards changes.",
    "sharded": "false: the exchange is no longer sharded.",
    # Streams.
    "max-age": "Age after which messages of a stream are removed, such as 7D or 12h.",
    "stream-max-segment-size-bytes": "Size of the files of a stream in bytes.",
}

KEY_ROWS: RowDescription[PolicyKey] = RowDescription(
    [
        Field(("name",), lambda key: key.name),
        Field(("about",), lambda key: key.about),
        Field(("argument",), lambda key: ARGUMENTS[key.name]),
        Field(("is_limit",), lambda key: key.is_limit),
        Field(("for_operators",), lambda key: key.for_operators),
        # Whether values are strings, even if they look like a number.
        Field(("takes_text",), lambda key: key.about != "nothing" and key.check(SAMPLE) is None),
        Field(("meaning",), lambda key: MEANINGS.get(key.name, NO_EFFECT)),
    ]
)
