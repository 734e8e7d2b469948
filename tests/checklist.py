"""The checklist of what the broker must do: one id per behaviour, claimed by the tests that show it.

A test claims ids by a mark: `@pytest.mark.feature("S0-08", "S0-09")`. `python -m tests.checklist` lists the ids that no
test claims yet.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
MARK = "pytest.mark.feature"

FEATURES = {
    # the delivery pipeline
    "S0-01": "a publish reaches the live queues of its route",
    "S0-02": "flow costs one credit per queue that gets the message",
    "S0-03": "the queue gives the credit back on handling",
    "S0-04": "without credit the publisher is not read",
    "S0-05": "a promoted replica does not enqueue twice",
    "S0-06": "a dead channel leaves no entries in the queue",
    "S0-07": "the queue's receipt settles a mandatory message",
    "S0-08": "mandatory without a route is returned",
    "S0-09": "mandatory is returned when its queues die first",
    "S0-10": "unroutable and not mandatory is dropped silently",
    "S0-11": "durable confirms wait for the disk",
    "S0-12": "transient confirms come at once",
    "S0-13": "unroutable is confirmed at once, after its return",
    "S0-14": "confirmed only when every queue has confirmed",
    "S0-15": "a duplicate stops there and is confirmed",
    "S0-16": "a ready consumer gets the message straight",
    "S0-17": "delivered with acks counts as unacked",
    "S0-18": "delivered without acks is never stored",
    "S0-19": "observers of a queue hear after every attempt",
    "S0-20": "what was delivered goes no further",
    "S0-21": "TTL 0 without dead letters is discarded",
    "S0-22": "TTL 0 with dead letters expires there",
    "S0-23": "the rest is enqueued",
    "S0-24": "the length limit drops heads to the dead letters",
    "S0-25": "expired messages go to the dead letters",
    "S0-26": "a dying queue releases the channel's credit",
    "S0-27": "a dying queue resolves pending confirms",
    "S0-28": "counters of exchange and queue per publish",
    "S0-29": "policies change live queues",
    "S0-30": "hooks for replicas of a queue",
    # consuming, acknowledging, redelivery, dead letters
    "S1-01": "receive and listener",
    "S1-02": "never both on one consumer",
    "S1-03": "a receiver starts with the connection",
    "S1-04": "pushed messages go to a channel per consumer",
    "S1-05": "receive pulls when nothing is local",
    "S1-06": "the ack that the mode calls for",
    "S1-07": "transacted: acked at commit",
    "S1-08": "auto: acked on return",
    "S1-09": "client: one acknowledge covers the session",
    "S1-10": "dups-ok: acked in batches",
    "S1-11": "ack type delivered",
    "S1-12": "ack type poison",
    "S1-13": "ack type standard",
    "S1-14": "ack type redelivered",
    "S1-15": "ack type individual",
    "S1-16": "ack type unmatched",
    "S1-17": "ack type expired",
    "S1-18": "rollback redelivers",
    "S1-19": "recover redelivers",
    "S1-20": "six redeliveries, then the dead letters",
    "S1-21": "the default dead letter queue",
    "S1-22": "expired persistent messages become dead letters",
    "S1-23": "one dead letter queue for all",
    "S1-24": "a dead letter queue for each",
    "S1-25": "destination policies by wildcard",
    "S1-26": "a slow subscriber keeps a bounded backlog",
    "S1-27": "dead letters can be consumed",
    "S1-28": "selectors",
    # sharding
    "S2-01": "a policy makes an exchange sharded",
    "S2-02": "the policy makes and binds the shards",
    "S2-03": "its routing key is optional",
    "S2-04": "names of shards",
    "S2-05": "at most one shard per message",
    "S2-06": "x-modulus-hash picks by the routing key",
    "S2-07": "x-modulus-hash ignores binding keys",
    "S2-08": "same key, same shard",
    "S2-09": "sharding over other exchange types",
    "S2-10": "consistent hash on its own",
    "S2-11": "a new node brings its shards",
    "S2-12": "old messages stay where they are",
    "S2-13": "a leaving node takes its shards along",
    "S2-14": "consume attaches to the emptiest local shard",
    "S2-15": "get reads from the emptiest local shard",
    "S2-16": "one consumer per shard, or x-shard-all",
    "S2-17": "order within a shard",
    "S2-18": "rapid consumes spread evenly",
    "S2-19": "the pseudo-queue is not declared first",
    "S2-20": "declaring the pseudo-queue means its first shard",
    "S2-21": "binding the pseudo-queue is refused",
    "S2-22": "unbinding the pseudo-queue is refused",
    "S2-23": "purging the pseudo-queue is refused",
    "S2-24": "deleting the pseudo-queue is refused",
    "S2-25": "an interceptor rewrites a method",
    "S2-26": "an interceptor refuses a method",
    "S2-27": "more shards by policy; clearing it keeps the queues",
    "S2-28": "plugins on and off, policies from the command line",
    # the client
    "S3-01": "factory, connection, session, producer and consumer",
    "S3-02": "stored, then delivered",
    "S3-03": "network transports",
    "S3-04": "wrapping transports form a chain",
    "S3-05": "replies find their requests",
    "S3-06": "writes exclude each other",
    "S3-07": "sends to several brokers",
    "S3-08": "switches to a live broker",
    "S3-09": "silence declares a connection dead",
    "S3-10": "silence of ours sends a keep-alive",
    "S3-11": "the time to connect is watched",
    "S3-12": "messages are dispatched by consumer id",
    "S3-13": "the session hands them to the consumer",
    "S3-14": "the delivered list",
    "S3-15": "a rollback dispatches the delivered list again",
    "S3-16": "transactions per session",
    "S3-17": "closing a session lets others have its messages",
    "S3-18": "push with a window",
    "S3-19": "pull, one message per request",
    "S3-20": "pull lets new consumers help at once",
    "S3-21": "redelivery in the client, counted and delayed",
    "S3-22": "the broker's count outlives the session",
    "S3-23": "sessions share a connection",
    # the broker: concepts
    "S4-01": "many producers, many consumers",
    "S4-02": "virtual hosts are apart",
    "S4-03": "exchanges and queues are many to many",
    "S4-04": "the nine core calls, by network and in process",
    "S4-05": "many channels in one connection",
    "S4-06": "attributes of an exchange take effect",
    "S4-07": "attributes of a queue take effect",
    "S4-08": "attributes of a binding",
    "S4-09": "a message: properties and a binary body",
    "S4-10": "the broker's id beside the application's",
    "S4-11": "publishing without properties",
    # metadata
    "S4-13": "metadata in an embedded database",
    "S4-14": "the default exchange is always there",
    "S4-15": "declared things survive a restart",
    # message files
    "S4-16": "messages in append-only files",
    "S4-17": "records carry their length",
    "S4-18": "appending is safe under concurrency",
    "S4-20": "deletion is a mark",
    "S4-21": "a damaged record costs only itself",
    "S4-22": "mostly dead files are reclaimed",
    "S4-23": "reclaiming is atomic",
    "S4-24": "a deleted queue frees its space",
    "S4-25": "segments split and merge",
    # memory
    "S4-26": "a backlog larger than memory pages out",
    "S4-29": "unacked apart from ready",
    "S4-30": "recovery brings back everything",
    # the virtual host
    "S4-32": "declaring twice agrees or is refused",
    "S4-33": "deleting what is not there is no error",
    "S4-34": "bind needs both ends and is idempotent",
    "S4-36": "no exchange name means the default exchange",
    "S4-37": "publishing to a missing exchange is a 404",
    "S4-38": "implicit bindings of a direct exchange",
    "S4-39": "fanout reaches every bound queue",
    "S4-40": "topic reaches by pattern",
    "S4-42": "disk before the confirm, consumers at once",
    "S4-45": "star and hash in topic patterns",
    # consuming
    "S4-46": "consuming from an unknown queue is an error",
    "S4-47": "the backlog comes first",
    "S4-48": "consumers take turns",
    "S4-49": "no thread per queue",
    "S4-50": "unacked before the callback runs",
    "S4-51": "auto-acknowledge after the callback",
    "S4-52": "only an ack removes, also inside the callback",
    "S4-53": "a failing callback costs no channel",
    "S4-54": "a crash in a callback redelivers",
    "S4-55": "nack and reject, with and without requeue",
    # server and client
    "S4-56": "AMQP 0-9-1 over TCP",
    "S4-58": "many replies under way on one connection",
    "S4-61": "a vanished client is cleaned up",
    "S4-62": "start and stop from code",
    "S4-63": "a connection factory",
    "S4-70": "demo producer and consumer",
    # extensions
    "S4-71": "virtual host management",
    "S4-72": "users and permissions",
    "S4-73": "exclusive and auto-delete",
    "S4-74": "publisher confirms",
    "S4-75": "nack",
    "S4-76": "dead letter queues",
    "S4-77": "management API",
    "S4-78": "management pages",
    "S4-79": "headers exchange",
    "S4-81": "errors say what is wrong",
}


def _between(first: str, last: str) -> set[str]:
    return {feature for feature in FEATURES if first <= feature <= last}


# What the broker already owes; grows with it.
REQUIRED = frozenset(
    _between("S0-01", "S0-30")
    | {"S1-12"}
    | _between("S1-14", "S1-17")
    | _between("S1-20", "S1-28")
    | _between("S2-01", "S2-27")
    | _between("S4-01", "S4-11")
    | _between("S4-13", "S4-18")
    | _between("S4-20", "S4-26")
    | _between("S4-29", "S4-30")
    | _between("S4-32", "S4-40")
    | {"S4-42"}
    | _between("S4-45", "S4-50")
    | _between("S4-52", "S4-56")
    | {"S4-58", "S4-61", "S4-62"}
    | _between("S4-73", "S4-76")
    | {"S4-79", "S4-81"}
)


def ids_of(test: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The ids that a test claims by its marks."""
    marks = (mark for mark in test.decorator_list if isinstance(mark, ast.Call) and ast.unparse(mark.func) == MARK)
    return {ast.literal_eval(feature) for mark in marks for feature in mark.args}


def tests_in(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Each test function of a file with the ids it claims."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield node.name, ids_of(node)


def claims(directory: Path = TESTS) -> dict[str, list[str]]:
    """For each claimed id the tests that claim it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(directory.rglob("test_*.py")):
        if path.name == "test_checklist.py" or "node_modules" in path.parts:
            continue
        for name, ids in tests_in(path):
            for feature in sorted(ids):
                found[feature].append(f"{path.relative_to(directory)}::{name}")
    return dict(found)


def main() -> None:
    named = claims().keys() & FEATURES.keys()
    print(f"{len(named)} of {len(FEATURES)} ids are claimed by tests; not yet (* = required now):")
    for feature, text in FEATURES.items():
        if feature not in named:
            print(f"{'*' if feature in REQUIRED else ' '} {feature}  {text}")


if __name__ == "__main__":
    main()
