"""A cell in memory: nodes that lead, follow and claim, over an engine that loses, delays, repeats and reorders.

    simulation = LogSimulation()
    simulation.step(Step.CLAIM, 0)
    simulation.heal()
    simulation.check()

Every step takes a number that selects among what is possible then. A node may claim at any time, as if it had been
misled about the leader. ``LogSimulation`` takes the classes of the window, the reader and the node, so that tests can
show that it finds the faults of wrong ones.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from leveret.replication.append_window import AppendWindow, Send
from leveret.replication.claims import Candidate, Claim, ClaimAttempt, Position
from leveret.replication.log_reader import Completed, LogReader
from leveret.replication.records import CLAIM, body_of, cell_id, read_head

CELL = cell_id("cell")
PART_SIZE = 8
NODES = 3
STRAY = b"not a record"


class Step(Enum):
    APPEND = auto()
    ARRIVE = auto()  # a request reaches the engine
    ARRIVE_AGAIN = auto()  # the same, and once more later
    LOSE_REQUEST = auto()
    ANSWER = auto()
    ANSWER_AGAIN = auto()
    LOSE_ANSWER = auto()
    LOOK = auto()  # a leader has waited for too long
    RECONNECT = auto()
    READ = auto()  # the engine answers the read of a leader
    READ_STALE = auto()  # by a server that is behind
    FOLLOW = auto()  # a node reads the next record of the log
    FOLLOW_ALL = auto()
    CLAIM = auto()
    RESTART = auto()
    FORGET = auto()  # the time for which the engine recognises message ids is over
    STRAY = auto()  # another program publishes to the stream


class SimulatedEngine:
    """An ordered log with compare and set. ``ids_first``: a repeated id is answered whatever the expected sequence."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.ids: dict[str, int] = {}
        self.ids_first = True

    def append(self, sent: Send | ClaimAttempt) -> int | None:
        message_id = sent.message_id if isinstance(sent, Send) else ""
        expected = sent.sequence - 1 if isinstance(sent, Send) else sent.expected
        if message_id in self.ids and (self.ids_first or expected == len(self.log)):
            return self.ids[message_id]
        if expected != len(self.log):
            return None
        self.log.append(sent.payload)
        if message_id:
            self.ids[message_id] = len(self.log)
        return len(self.log)


class SimulatedNode:
    """The data directory survives a restart: what was applied, and the position that was noted with it."""

    def __init__(self, name: str, window: type[AppendWindow[bytes]], reader: type[LogReader]) -> None:
        self.name = name
        self.applied: list[bytes] = []
        self.noted = Position()
        self._window, self._reader = window, reader
        self._lives = 0
        self.restart()

    def restart(self) -> None:
        self._lives += 1
        self.life = f"{self.name}{self._lives}"
        self.candidate = Candidate(CELL, self.name, self.life)
        self.reader = self._reader(CELL, self.noted)
        self.window: AppendWindow[bytes] | None = None
        self.reads: list[int] = []  # that its window waits for

    def follow(self, engine: SimulatedEngine) -> None:
        sequence = self.reader.position.sequence + 1
        event = self.reader.read(sequence, engine.log[sequence - 1])
        if isinstance(event, Completed):
            self.applied.append(bytes(event.body))
            self.noted = event.position
        elif isinstance(event, Claim):
            self.window = self.lead(event, engine) if self.candidate.has_won(event) else None

    def lead(self, claim: Claim, engine: SimulatedEngine) -> AppendWindow[bytes]:
        return self._window(CELL, claim, size=3, part_size=PART_SIZE)


class Request(NamedTuple):
    node: SimulatedNode
    window: AppendWindow[bytes] | None
    sent: Send | ClaimAttempt


class Answer(NamedTuple):
    node: SimulatedNode
    window: AppendWindow[bytes]
    sent: Send
    sequence: int | None  # None: refused


def _place(choice: int, number: int) -> int:
    """Mostly the oldest: connections keep the order, but there are several."""
    return 0 if choice < 40 else choice % number


class LogSimulation:
    def __init__(
        self,
        window: type[AppendWindow[bytes]] = AppendWindow,
        reader: type[LogReader] = LogReader,
        node: type[SimulatedNode] = SimulatedNode,
    ) -> None:
        self.engine = SimulatedEngine()
        self.nodes = [node(name, window, reader) for name in "abc"[:NODES]]
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        self.granted: list[bytes] = []
        self._appended = 0

    # ---- steps

    def step(self, step: Step, choice: int) -> None:
        node = self._node(step, choice)
        match step:
            case Step.APPEND:
                self._append(node, choice)
            case Step.ARRIVE | Step.ARRIVE_AGAIN | Step.LOSE_REQUEST if self.requests:
                self._arrive(step, choice)
            case Step.ANSWER | Step.ANSWER_AGAIN | Step.LOSE_ANSWER if self.answers:
                self._answer(step, choice)
            case Step.LOOK if node.window is not None:
                node.window.look()
            case Step.RECONNECT if node.window is not None:
                node.reads.clear()
                node.window.reconnect()
            case Step.READ | Step.READ_STALE if node.reads:
                self._read(node, step is Step.READ_STALE)
            case Step.FOLLOW if self._is_behind(node):
                node.follow(self.engine)
            case Step.FOLLOW_ALL:
                while self._is_behind(node):
                    node.follow(self.engine)
            case Step.CLAIM:
                while choice % 4 and self._is_behind(node):
                    node.follow(self.engine)
                attempt = node.candidate.attempt(node.reader.position, node.reader.position.epoch)
                self.requests.append(Request(node, None, attempt))
            case Step.RESTART:
                node.restart()
            case Step.FORGET:
                self.engine.ids.clear()
                self.engine.ids_first = bool(choice % 2)
            case Step.STRAY:
                self.engine.log.append(STRAY)
        self._take_work()

    def _node(self, step: Step, choice: int) -> SimulatedNode:
        """Any, but where the step needs a leader or one that reads, one of those if there are some."""
        able = self.nodes
        if step in (Step.APPEND, Step.LOOK, Step.RECONNECT):
            able = [node for node in self.nodes if node.window is not None and node.window.deposed is None]
        elif step in (Step.READ, Step.READ_STALE):
            able = [node for node in self.nodes if node.reads]
        return (able or self.nodes)[choice % len(able or self.nodes)]

    def _is_behind(self, node: SimulatedNode) -> bool:
        return node.reader.position.sequence < len(self.engine.log)

    def _append(self, node: SimulatedNode, choice: int) -> None:
        if node.window is not None and node.window.deposed is None:
            self._appended += 1
            body = b"%s.%d." % (node.life.encode(), self._appended) + b"x" * (choice % 17)
            node.window.append(body, body)

    def _arrive(self, step: Step, choice: int) -> None:
        place = _place(choice, len(self.requests))
        request = self.requests[place] if step is Step.ARRIVE_AGAIN else self.requests.pop(place)
        if step is Step.LOSE_REQUEST:
            return
        sequence = self.engine.append(request.sent)
        if isinstance(request.sent, Send) and request.window is not None:
            self.answers.append(Answer(request.node, request.window, request.sent, sequence))

    def _answer(self, step: Step, choice: int) -> None:
        place = _place(choice, len(self.answers))
        answer = self.answers[place] if step is Step.ANSWER_AGAIN else self.answers.pop(place)
        if step is Step.LOSE_ANSWER or answer.node.window is not answer.window:
            return
        if answer.sequence is None:
            answer.window.look()
        else:
            self._grant(answer.window.acknowledge(answer.sent.message_id, answer.sequence))

    def _read(self, node: SimulatedNode, is_stale: bool) -> None:
        sequence = node.reads.pop(0)
        payload = None if is_stale or sequence > len(self.engine.log) else self.engine.log[sequence - 1]
        if node.window is not None:
            self._grant(node.window.found(sequence, payload))

    def _take_work(self) -> None:
        for node in self.nodes:
            for work in node.window.take_work() if node.window is not None else ():
                if isinstance(work, Send):
                    self.requests.append(Request(node, node.window, work))
                else:
                    node.reads.append(work.sequence)

    def _grant(self, bodies: list[bytes]) -> None:
        self.granted += bodies
        if bodies:
            self.check()

    # ---- the end

    def heal(self) -> None:
        """No more faults: everything under way arrives, and leaders look until all is granted or they are deposed."""
        for _ in range(1000):
            while self.requests or self.answers:
                self.step(Step.ARRIVE, 0)
                self.step(Step.ANSWER, 0)
            while any(node.reads for node in self.nodes):
                self.step(Step.READ, 0)
            windows = [node.window for node in self.nodes if node.window is not None and node.window.deposed is None]
            if all(window.is_idle for window in windows) and not self.requests:
                break
            for window in windows:
                window.look()
            self._take_work()
        else:
            raise AssertionError("a leader neither grants nor steps down")
        for number in range(NODES):
            self.step(Step.FOLLOW_ALL, number)

    def valid(self) -> list[bytes]:
        """The batches that count, by the definition: slow and obvious."""
        epoch, batches, parts = 0, [], []
        for place, payload in enumerate(self.engine.log):
            head = read_head(payload, CELL, place + 1)
            if head is None:
                continue
            if head.kind == CLAIM:
                if head.epoch > epoch:
                    epoch, parts = head.epoch, []
            elif (head.epoch, head.batch, head.part) == (epoch, len(batches) + 1, len(parts)):
                parts.append(bytes(body_of(payload)))
                if head.is_last:
                    batches.append(b"".join(parts))
                    parts = []
        return batches

    def check(self) -> None:
        """Everything granted counts, once; grants of one leader are in order; members have the beginning of the log."""
        valid = self.valid()
        assert len(set(valid)) == len(valid), "a batch counts twice"
        places = {body: place for place, body in enumerate(valid)}
        missing = [body for body in self.granted if body not in places]
        assert not missing, f"granted, but void: {missing}"
        granted = [places[body] for body in self.granted]
        assert granted == sorted(set(granted)), "granted twice or out of order"
        for node in self.nodes:
            assert node.applied == valid[: len(node.applied)], f"{node.name} has other batches than the log"
