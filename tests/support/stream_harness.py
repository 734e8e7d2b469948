"""A harness of streams over a disk in memory: nothing is granted, written or read before the test does it, or ``rest``.

harness = StreamHarness()
stream = harness.stream()
harness.publish_all(stream, b"a", b"b")       # published, granted and written
reader = harness.reader(stream, offset="first")
harness.rest()
assert reader.bodies == [b"a", b"b"]
"""

from __future__ import annotations

from leveret.broker.parameters import Parameters
from leveret.broker.stream_offsets import StreamOffsets
from leveret.errors import ResourceFault
from leveret.message import PERSISTENT, Message
from leveret.queues.declared_queue import Declaration
from leveret.queues.options import QueueOptions
from leveret.queues.stream import StreamQueue
from leveret.store.definitions import Change
from leveret.wire.content import make_content, properties_of
from leveret.wire.properties import Properties
from tests.support.callback_listener import CallbackListener
from tests.support.manual_store import DiskHarness, Job, JobList, run_job
from tests.support.spies import ADDRESS, SpyConsumer, message

MOST_STEPS = 10_000


class StreamHarness(DiskHarness):
    def __init__(self, *, segment_size: int = 64 << 10) -> None:
        super().__init__(64 << 20, segment_size)
        self.stream_jobs: list[Job] = []
        self.alarms: dict[str, str] = {}
        self.is_read_only = False
        context = self.context
        context.stream_disk = self.disk
        context.stream_workers.attach(JobList(self.store.jobs), JobList(self.stream_jobs))
        self.callbacks.set_alarm = self._alarm  # type: ignore[method-assign]
        self.offsets = context.stream_offsets = StreamOffsets(Parameters("/", self._record))
        self.log.listener = CallbackListener(self._granted)

    def _alarm(self, name: str, reason: str | None) -> None:
        if reason is None:
            self.alarms.pop(name, None)
        else:
            self.alarms[name] = reason

    def _record(self, change: Change) -> None:
        if self.is_read_only:
            raise ResourceFault("the store is read-only")

    def _granted(self, receipt: int) -> None:
        """As the broker does."""
        for queue in list(self.context.unsynced):
            queue.touch()
        self.context.unsynced.clear()

    def stream(self, name: str = "s", **arguments: object) -> StreamQueue:
        """Arguments are named without x- and with underscores."""
        table = {"x-queue-type": "stream", **{f"x-{key.replace('_', '-')}": each for key, each in arguments.items()}}
        self._ids += 1
        options = QueueOptions.of(table, durable=True)
        return StreamQueue(Declaration(self._ids, name, "/", options, arguments=table), self.context)

    def reader(self, stream: StreamQueue, credit: int = 1000, *, tag: str = "spy", **arguments: object) -> SpyConsumer:
        """Arguments are named without x-stream- and with underscores."""
        table = {f"x-stream-{key.replace('_', '-')}": each for key, each in arguments.items()}
        consumer = SpyConsumer(tag, stream, credit, arguments=table)
        stream.add_consumer(consumer)
        return consumer

    # ---- one step of each

    def write_journal(self) -> bool:
        found = self.store.write()
        self.turn()
        return found

    def write_stream(self) -> bool:
        if not self.stream_jobs:
            return False
        run_job(*self.stream_jobs.pop(0))
        self.turn()
        return True

    def rest(self) -> None:
        """The disk does all that waits for it."""
        self.turn()
        for _ in range(MOST_STEPS):
            if not self.write_journal() and not self.write_stream() and not self.read():
                return
        raise AssertionError("the streams do not come to rest")

    def publish_all(self, stream: StreamQueue, *bodies: bytes) -> None:
        """In one run, and until it can be read."""
        self.put(stream, *[message(body, persistent=True) for body in bodies])
        self.rest()

    def pass_time(self, seconds: float) -> None:
        self.timers.advance(seconds, self.rest)


def valued(body: bytes, value: object = None, **headers: object) -> Message:
    """A message with a value to filter by."""
    if value is not None:
        headers["x-stream-filter-value"] = value
    return (make_content(Properties(headers=headers or None), body), ADDRESS, PERSISTENT)  # type: ignore[arg-type]


def offsets(consumer: SpyConsumer) -> list[int]:
    """As the headers of what it was given tell them."""
    found = []
    for given in consumer.given:
        value = (properties_of(given.message[0]).headers or {})["x-stream-offset"]
        assert isinstance(value, int)
        assert value == given.sequence - 1
        found.append(value)
    return found


def numbered(number: int, start: int = 0) -> list[bytes]:
    return [b"%d" % each for each in range(start, start + number)]
