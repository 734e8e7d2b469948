"""Whether a log may be founded again, and with which member's data."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from leveret.cluster.cell_stream import LOG, CellStream, Founding, LogFacts, facts_of
from leveret.cluster.engine import EngineOptions
from leveret.cluster.member_position import MemberPosition
from leveret.cluster.members import Member
from leveret.cluster.new_log import NewLog, Survey
from leveret.errors import ClusterError

LOST = "its data is lost"


def position(
    node: str, epoch: int = 3, end: tuple[int, int] = (5, 100), batch: int = 9, log: str = "log1", trouble: str = LOST
) -> MemberPosition:
    return MemberPosition(Member(node, "host", 1, "life", "1"), log, epoch, batch, end, trouble=trouble)


def survey(*answered: MemberPosition, missing: tuple[str, ...] = (), log: LogFacts | None = None) -> Survey:
    return Survey(log, list(answered), dict.fromkeys(missing, "refused"), "log1")


@pytest.mark.parametrize(
    "others",
    [
        (position("b", epoch=2, end=(9, 900), batch=20), position("c", end=(5, 99), batch=12)),
        (position("b", end=(4, 900)), position("c", batch=8)),
        (position("b", epoch=0, end=(0, 0), batch=0, log=""), position("c", epoch=2)),
    ],
)
def test_the_newest_epoch_counts_then_the_journal_then_the_batch(others: tuple[MemberPosition, ...]) -> None:
    found = survey(others[0], position("a"), others[1])
    assert found.best.member.node == "a"
    assert found.founding == Founding(("log1",), "a", 3)


def test_the_new_log_continues_all_that_are_known() -> None:
    log = LogFacts(CellStream("c", "log5"), 1, 0, Founding(("log0",)))
    founding = survey(position("a"), position("b", log="log2", epoch=7, end=(1, 1)), log=log).founding
    assert founding == Founding(("log0", "log1", "log2", "log5"), "b", 7)


def test_members_without_data_found_nothing() -> None:
    with pytest.raises(ClusterError, match="no member that answers has data"):
        _ = survey(position("a", 0, (0, 0), 0, "")).best


def test_all_members_are_needed_or_a_majority_by_force() -> None:
    two, one = survey(position("a"), position("b"), missing=("c",)), survey(position("a"), missing=("b", "c"))
    with pytest.raises(ClusterError, match="c: refused"):
        two.check(force=False)
    two.check(force=True)
    with pytest.raises(ClusterError, match="1 of 3 members"):
        one.check(force=True)
    survey(position("a"), position("b"), position("c")).check(force=False)


def test_a_log_that_is_in_use_stays() -> None:
    log = LogFacts(CellStream("c", "log1"), 1, 9, Founding())
    leads = MemberPosition(Member("a", "host", 1, "life", "1"), "log1", 3, 9, (5, 1), leads=True)
    with pytest.raises(ClusterError, match="node a leads"):
        survey(leads).check(force=True)
    able = survey(position("a", trouble=""), position("b"), log=log)
    with pytest.raises(ClusterError, match="a can follow it"):
        able.check(force=False)
    able.check(force=True)
    able._replace(log=None).check(force=False)  # without a leader for ever


def test_data_of_separate_logs_is_chosen_by_an_operator() -> None:
    """A node that has led an empty cell on new servers may have a higher epoch than those with the data."""
    found = survey(position("a"), position("b", log="log2", epoch=7, end=(1, 1)))
    with pytest.raises(ClusterError, match=r"different logs \(b: log2, a: log1\)"):
        found.check(force=True)
    chosen = found._replace(origin="a")
    chosen.check(force=False)
    assert chosen.founding == Founding(("log1", "log2"), "a", 7)
    continued = LogFacts(CellStream("c", "log2"), 1, 9, Founding(("log1",)))
    found._replace(log=continued).check(force=False)
    with pytest.raises(ClusterError, match="'c' does not answer, or has no data"):
        found._replace(origin="c").check(force=True)


def test_a_node_that_has_less_is_chosen_by_force() -> None:
    found = survey(position("a"), position("b", end=(4, 1)))._replace(origin="b")
    with pytest.raises(ClusterError, match="node a has more of the same log than b"):
        found.check(force=False)
    found.check(force=True)
    assert found.best.member.node == "b"


class ChangedCell(NewLog):
    """``later``: what is found when the operator has answered. The engine has the log ``present``."""

    def __init__(self, later: Survey, present: str) -> None:
        super().__init__(EngineOptions(()), "c", None)
        self.later = later
        self.present = present
        self.requests: list[str] = []
        self._engine = self  # type: ignore[assignment]

    async def survey(self, force: bool, origin: str = "", seconds: float = 0.0) -> Survey:
        return self.later

    async def perform(self, job: Any, seconds: float) -> Any:
        return await job(self)

    async def request(self, subject: str, body: object = None, seconds: float = 2.0) -> dict[str, Any]:
        self.requests.append(subject)
        metadata = {LOG: self.present}
        return {"config": {"metadata": metadata}, "state": {"first_seq": 1, "last_seq": 9}}

    async def append(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> int:
        """Members are entered."""
        return 1


BEFORE = survey(position("a"), position("b", end=(4, 1)), log=LogFacts(CellStream("c", "log1"), 1, 9, Founding()))


@pytest.mark.parametrize(
    ("later", "present"),
    [
        (BEFORE._replace(log=LogFacts(CellStream("c", "log2"), 1, 9, Founding())), "log2"),
        (BEFORE._replace(answered=[position("b", end=(6, 1)), position("a")]), "log1"),
        (BEFORE, "log2"),
    ],
    ids=["another log", "another node has more", "another log at the last moment"],
)
def test_a_cell_that_has_changed_since_the_question_is_not_founded_again(later: Survey, present: str) -> None:
    cell = ChangedCell(later, present)
    with pytest.raises(ClusterError, match="meanwhile: run the command again"):
        asyncio.run(cell.found(BEFORE, False, print))
    assert not any("DELETE" in subject for subject in cell.requests)


def test_a_log_without_a_leader_is_not_another_log() -> None:
    """The engine still answers about it."""
    config: dict[str, Any] = {"config": {"metadata": {LOG: "log1"}}, "state": {"first_seq": 1, "last_seq": 9}}
    assert facts_of("c", config | {"cluster": {"leader": "s1"}}).has_leader
    assert facts_of("c", config).has_leader  # a server without others
    assert not facts_of("c", config | {"cluster": {"replicas": []}}).has_leader
