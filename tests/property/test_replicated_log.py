"""Whatever an engine with compare and set loses, delays, repeats and reorders: nothing granted is void, and all members
agree. The last tests show that the simulation finds the faults of a log without its fence."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.replication.append_window import AppendWindow, Read
from leveret.replication.claims import Claim
from leveret.replication.log_reader import LogReader
from leveret.replication.records import Head
from tests.support.log_simulation import CELL, PART_SIZE, LogSimulation, SimulatedEngine, SimulatedNode, Step

# A cell that makes progress: most messages arrive, and few nodes claim.
ORDINARY = [Step.APPEND, Step.ARRIVE, Step.ARRIVE, Step.ANSWER, Step.ANSWER, Step.READ, Step.LOOK, Step.FOLLOW_ALL]
USUAL = [*ORDINARY * 4, *Step]
STEPS = st.lists(st.tuples(st.sampled_from(USUAL), st.integers(0, 60)), max_size=150)
RUNS = 3000


@settings(max_examples=300)
@given(STEPS)
def test_nothing_granted_is_void_and_all_members_agree(steps: list[tuple[Step, int]]) -> None:
    simulation = LogSimulation()
    for step, choice in steps:
        simulation.step(step, choice)
    simulation.heal()
    simulation.check()


def random_run(simulation: LogSimulation, seed: int, length: int = 150) -> None:
    chance = Random(seed)
    for _ in range(length):
        simulation.step(chance.choice(USUAL), chance.randrange(60))
    simulation.heal()
    simulation.check()


def test_long_random_runs_lose_nothing_and_make_progress() -> None:
    granted = 0
    for seed in range(300):
        simulation = LogSimulation()
        random_run(simulation, seed, 400)
        granted += len(simulation.granted)
        assert all(node.applied == simulation.valid() for node in simulation.nodes)
    assert granted > 1000


def test_a_leader_without_faults_gets_everything_granted() -> None:
    simulation = LogSimulation()
    for step, times in ((Step.CLAIM, 1), (Step.ARRIVE, 1), (Step.FOLLOW_ALL, 1), (Step.APPEND, 20)):
        for _ in range(times):
            simulation.step(step, 0)
    simulation.heal()
    assert len(simulation.granted) == 20
    assert all(node.applied == simulation.granted for node in simulation.nodes)


class StartsAtTheEnd(SimulatedNode):
    """The expected position is the last sequence of the stream, not that of the own claim."""

    def lead(self, claim: Claim, engine: SimulatedEngine) -> AppendWindow[bytes]:
        return AppendWindow(CELL, claim._replace(sequence=len(engine.log)), size=3, part_size=PART_SIZE)


class ContinuesAfterRestart(SimulatedNode):
    """A node takes the epoch of its former life for its own."""

    def lead(self, claim: Claim, engine: SimulatedEngine) -> AppendWindow[bytes]:
        return AppendWindow(CELL, claim._replace(batch=len(self.applied) + 1, sequence=len(engine.log)), 3, PART_SIZE)

    def follow(self, engine: SimulatedEngine) -> None:
        super().follow(engine)
        claim = self.reader.leader
        if claim is not None and claim.node == self.name and self.window is None:
            self.window = self.lead(claim, engine)


class GrantsOutOfOrder(AppendWindow[bytes]):
    """Every acknowledged record is granted, whatever became of those before it."""

    def acknowledge(self, message_id: str, sequence: int) -> list[bytes]:
        for place, entry in enumerate(self._sent):
            if self._id(place) == message_id and not entry.is_acknowledged and entry.token is not None:
                super().acknowledge(message_id, sequence)
                return [entry.token]
        super().acknowledge(message_id, sequence)
        return []


class GrantsWithoutAnswer(AppendWindow[bytes]):
    """What was sent counts as acknowledged."""

    def look(self) -> None:
        super().look()
        for entry in self._sent:
            entry.is_acknowledged = True

    def found(self, sequence: int, payload: bytes | None) -> list[bytes]:
        return self._grant() if payload is None else super().found(sequence, payload)


class PassesOverClaims(AppendWindow[bytes]):
    def _judge(self, head: Head | None, payload: bytes) -> list[bytes]:
        if head is not None and head.epoch > self.epoch:
            self._pass_over()
            return []
        return super()._judge(head, payload)


class KeepsAcknowledgements(AppendWindow[bytes]):
    """An acknowledgement for a former prediction counts after the record has moved up."""

    def _pass_over(self) -> None:
        self._known += 1
        self._work.append(Read(self._known + 1))


class MatchesBySequence(AppendWindow[bytes]):
    """Acknowledgements are matched by the sequence alone."""

    def acknowledge(self, message_id: str, sequence: int) -> list[bytes]:
        place = sequence - self._known - 1
        if 0 <= place < len(self._sent):
            message_id = self._id(place)
        return super().acknowledge(message_id, sequence)


class ReadsEveryEpoch(LogReader):
    """The reader does not compare epochs."""

    def _counts(self, head: Head) -> bool:
        return super()._counts(head._replace(epoch=self.position.epoch))


class SkipsRecords(LogReader):
    """The reader takes a later batch for the next one."""

    def _counts(self, head: Head) -> bool:
        if head.epoch == self.position.epoch and head.batch > self.position.batch and not head.part:
            self._batch = head.batch - 1
        return super()._counts(head)


FAULTS = {
    "the position starts at the end of the stream": {"node": StartsAtTheEnd},
    "a restarted node continues its epoch": {"node": ContinuesAfterRestart},
    "grants are out of order": {"window": GrantsOutOfOrder},
    "grants do not wait for the engine": {"window": GrantsWithoutAnswer},
    "claims are passed over": {"window": PassesOverClaims},
    "acknowledgements of former predictions count": {"window": KeepsAcknowledgements},
    "acknowledgements are matched by sequence": {"window": MatchesBySequence},
    "the reader does not compare epochs": {"reader": ReadsEveryEpoch},
    "the reader skips batches": {"reader": SkipsRecords},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_simulation_finds_that(fault: str) -> None:
    for seed in range(RUNS):
        try:
            random_run(LogSimulation(**FAULTS[fault]), seed)
        except AssertionError as found:
            if "granted, but void" in str(found) or "other batches than the log" in str(found):
                return
    pytest.fail(f"{RUNS} runs did not show that {fault}")
