"""A stream over a real journal and its own files, through clean stops and power cuts, against a list.

Nothing confirmed is lost or altered, no offset is ever used for another message, each reader gets every message from
where it began on, in order and once, and holds no more than it may; no reader receives what is not confirmed. Named
readers go on where they acked. The disk works at once, or (``slowly``) only when the test runs it.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.queues import stream_readers
from leveret.queues.stream import StreamQueue
from leveret.wire.content import body_of
from leveret.wire.methods import BasicAck, BasicCancel, BasicConsume, BasicNack, BasicQos, ConfirmSelect
from tests.support.peer_pair import Client, Content
from tests.support.stored_harness import StoredHarness, StoredLife

SMALL = {"LEAST_READ": 200, "MOST_READ": 600, "BURST": 7, "AHEAD": 5, "LOOKS": 6}
USUAL = {name: getattr(stream_readers, name) for name in SMALL}
USUAL_RECENT = stream_readers.MOST_BYTES
NAMES = {"ann": None, "ben": "red"}  # and what they filter by
KINDS = ["red", "blue"]
ARGUMENTS = {
    "x-queue-type": "stream",
    "x-max-length-bytes": 12_000,
    "x-max-age": "1D",
    "x-stream-max-segment-size-bytes": 4096,
}


class ModelReader:
    """``wants``: the kind that it filters by. ``held`` are offsets by delivery tag."""

    def __init__(self, client: Client, prefetch: int, name: str | None, wants: str | None) -> None:
        self.client = client
        self.prefetch = prefetch
        self.name = name
        self.wants = wants
        self.last: int | None = None  # the last offset that it was given
        self.begins: int | None = None  # the least offset that it may be given first; None: not known
        self.held: dict[int, int] = {}
        self.returned = 1 << 60  # the lowest offset that it gave back


class StreamMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        for name, value in SMALL.items():
            setattr(stream_readers, name, value)
        stream_readers.MOST_BYTES = 1500

    def teardown(self) -> None:
        for name, value in USUAL.items():
            setattr(stream_readers, name, value)
        stream_readers.MOST_BYTES = USUAL_RECENT

    @initialize()
    def start(self) -> None:
        self.harness = StoredHarness(segment_size=3000)
        self.published: list[tuple[bytes, str]] = []  # by offset: body and kind
        self.confirmed = 0  # offsets below are
        self.safe: dict[str, int | None] = {}  # by name: where its reader goes on; None: not known
        self.number = 0
        self._connect()

    def _connect(self) -> None:
        self.publisher, self.admin = self.harness.client(), self.harness.client()
        self.publisher.ask(ConfirmSelect())
        self.before = len(self.published)  # confirm number 1 is the next
        self.admin.declare("s", durable=True, arguments=ARGUMENTS)
        self.readers: list[ModelReader] = []
        self._listen()

    @property
    def stream(self) -> StreamQueue:
        queue = self.harness.queue("s")
        assert isinstance(queue, StreamQueue)
        return queue

    # ---- what clients do

    @rule(
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=12),
        size=st.sampled_from([0, 0, 50, 900]),
        mode=st.sampled_from([1, 2]),
        slowly=st.booleans(),
    )
    def publish(self, kinds: list[str], size: int, mode: int, slowly: bool) -> None:
        self.harness.is_slow = self.harness.is_slow or slowly
        frames = b""
        for kind in kinds:
            self.number += 1
            body = b"%05d" % self.number + bytes(size)
            self.published.append((body, kind))
            headers = {"x-stream-filter-value": kind}
            frames += self.publisher.published("", "s", body, delivery_mode=mode, headers=headers)
        self.publisher.feed(frames)
        self._listen()

    @rule(
        start=st.sampled_from(["first", "last", "next", "1h", "90s"]) | st.integers(0, 60),
        prefetch=st.sampled_from([1, 3, 20]),
        name=st.sampled_from([None, None, *NAMES]),
        wants=st.sampled_from([None, None, *KINDS]),
    )
    def consume(self, start: str | int, prefetch: int, name: str | None, wants: str | None) -> None:
        if len(self.readers) >= 4 or (name is not None and any(each.name == name for each in self.readers)):
            return
        wants = wants if name is None else NAMES[name]
        reader = ModelReader(self.harness.client(), prefetch, name, wants)
        arguments: dict[str, object] = {"x-stream-offset": start}
        if name is not None:
            arguments["x-stream-consumer"] = name
        if wants is not None:
            arguments["x-stream-filter"] = wants
        reader.begins = self._beginning(start, name)
        if name is not None:
            self.safe[name] = reader.begins
        reader.client.ask(BasicQos(0, prefetch))
        self.readers.append(reader)
        consume = BasicConsume("s", "tag", nowait=True, arguments=arguments)  # type: ignore[arg-type]
        reader.client.send(consume)
        self._listen()

    def _beginning(self, start: str | int, name: str | None) -> int | None:
        stream = self.stream
        if name in self.safe:
            known = self.safe[name]
            return None if known is None else max(min(known, stream.tail), stream.first_offset)
        if isinstance(start, int):
            return max(start, stream.first_offset)
        places = {"first": 0, "last": stream.end_offset - 1, "next": stream.end_offset}
        return max(places[start], stream.first_offset) if start in places else None

    @precondition(lambda self: any(reader.held for reader in self.readers))
    @rule(data=st.data(), how=st.sampled_from(["ack", "ack", "requeue", "drop"]), multiple=st.booleans())
    def settle(self, data: st.DataObject, how: str, multiple: bool) -> None:
        reader = data.draw(st.sampled_from([each for each in self.readers if each.held]))
        tag = data.draw(st.sampled_from(sorted(reader.held)))
        for each in [each for each in reader.held if each == tag or (multiple and each < tag)]:
            offset = reader.held.pop(each)
            if how == "requeue":
                reader.returned = min(reader.returned, offset)
        self._note_safe(reader)
        reader.client.send(BasicAck(tag, multiple) if how == "ack" else BasicNack(tag, multiple, how == "requeue"))
        self._listen()

    def _note_safe(self, reader: ModelReader) -> None:
        if reader.name is not None and reader.last is not None:
            self.safe[reader.name] = min([*reader.held.values(), reader.last + 1, reader.returned])

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), politely=st.booleans())
    def leave(self, data: st.DataObject, politely: bool) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        self.readers.remove(reader)
        if politely:
            reader.client.send(BasicCancel("tag", nowait=True))
        reader.client.vanish()
        self._listen()

    # ---- time, memory and the disk

    @rule(seconds=st.sampled_from([0.6, 0.6, 2, 90]), is_short=st.booleans())
    def wait(self, seconds: float, is_short: bool) -> None:
        """The broker may be short of memory from now on."""
        self.harness.broker.memory.shortage = -1 if is_short else 1 << 30
        self.harness.advance(seconds)
        self._listen()

    @precondition(lambda self: hasattr(self, "harness") and self.harness.is_slow)
    @rule(how=st.sampled_from(["write", "stream", "stream", "read", "work"]))
    def let_the_disk(self, how: str) -> None:
        if how == "write":
            self.harness.write()
        elif how == "stream":
            self.harness.write_stream()
            self.harness.turn()
        elif how == "read":
            self.harness.read()
        else:
            self.harness.is_slow = False
            self.harness.rest()
        self._listen()

    @rule(image=st.integers(0, 9) | st.none())
    def end_and_start(self, image: int | None) -> None:
        """By a clean stop, or by a power cut that leaves one of many disks."""
        if image is None:
            self.harness.is_slow = False
            self.harness.rest()
            self._listen()
            self._live_on(self.harness.stopped(5))
            return
        self._listen()
        for name, safe in self.safe.items():  # what was acked in the last moment may be given again
            kept = self.harness.vhost.stream_offsets.get("s", name)
            if safe is not None and kept is not None:
                self._check_passed_over(NAMES[name], safe, kept)
            self.safe[name] = None if self.harness.is_slow else kept
        self._live_on(self.harness.crashed(5, image=image))

    def _live_on(self, life: StoredLife) -> None:
        self.harness = life.again()
        stream = self.stream
        assert stream.next_offset == stream.tail, "all that was left is in the files"
        assert self.confirmed <= stream.tail <= len(self.published)
        del self.published[stream.tail :]
        self.confirmed = stream.tail
        assert self._kept() == {offset: body for offset, (body, _) in enumerate(self.published)}.items() & self._kept()
        self._connect()

    def _kept(self) -> set[tuple[int, bytes]]:  # type: ignore[override]
        stream = self.stream
        runs = stream.files.read(stream.first_offset, stream.next_offset, 1 << 30)
        found = {
            (offset, body_of(message[0])) for run in runs for offset, message in enumerate(run.messages, run.first)
        }
        assert [offset for offset, _ in sorted(found)] == list(range(stream.first_offset, stream.next_offset))
        return found

    # ---- what follows from it

    def _listen(self) -> None:
        for what in self.publisher.heard():
            assert isinstance(what, BasicAck), what
            self.confirmed = max(self.confirmed, self.before + what.delivery_tag)
        for reader in self.readers:
            for what in reader.client.heard():
                assert isinstance(what, Content), what
                self._given(reader, what)
            if not self.harness.is_slow:
                self._check_served(reader)

    def _given(self, reader: ModelReader, content: Content) -> None:
        offset = (content.properties.headers or {})["x-stream-offset"]
        assert isinstance(offset, int)
        body, kind = self.published[offset]
        assert content.body == body
        assert offset < self.confirmed, "nobody sees what a crash could take back"
        assert reader.wants in (None, kind)
        assert not content.redelivered
        if reader.last is not None:
            assert offset > reader.last, "in order, and once"
            self._check_passed_over(reader.wants, reader.last + 1, offset)
        elif reader.begins is not None:
            assert offset >= reader.begins
            self._check_passed_over(reader.wants, reader.begins, offset)
        reader.last = offset
        reader.held[content.tag] = offset
        assert len(reader.held) <= reader.prefetch

    def _check_passed_over(self, wants: str | None, start: int, stop: int) -> None:
        """Only what it does not want, or what retention has taken."""
        first = self.stream.first_offset
        for offset in range(start, stop):
            assert offset < first or wants not in (None, self.published[offset][1]), f"{offset} was left out"

    def _check_served(self, reader: ModelReader) -> None:
        """It has all that it may hold, or all that there is."""
        start = reader.begins if reader.last is None else reader.last + 1
        if len(reader.held) < reader.prefetch and start is not None:
            self._check_passed_over(reader.wants, start, self.stream.next_offset)

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "harness"):
            return
        stream = self.stream
        assert stream.unacked == sum(len(reader.held) for reader in self.readers)
        assert self.harness.broker.gauge.used >= 0
        assert stream.first_offset <= stream.next_offset <= self.confirmed <= stream.tail == len(self.published)
        if not self.harness.is_slow:
            assert stream.next_offset == stream.tail
            assert stream.ready == stream.next_offset - stream.first_offset
            if not self.readers:
                assert self.harness.broker.gauge.used == 0, "nobody holds anything"


StreamMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestStream = StreamMachine.TestCase
