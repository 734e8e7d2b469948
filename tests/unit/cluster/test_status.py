"""The state of a cell: lag from samples, and whether the cell survives the loss of a node."""

from __future__ import annotations

import pytest

from leveret.cluster.history import TakeOvers
from leveret.cluster.status import (
    DOWN,
    LEADER,
    MOST_TAKE_OVERS,
    STANDBY,
    ClusterStatus,
    EngineServer,
    Lag,
    LagSamples,
    MemberStatus,
    TakeOver,
)


def samples_of(*samples: tuple[int, int, float]) -> LagSamples:
    made = LagSamples()
    for sample in samples:
        made.add(*sample)
    return made


def test_a_standby_that_has_everything_does_not_lag() -> None:
    assert samples_of((10, 0, 1.0), (20, 1000, 2.0)).lag(20, 2.0) == Lag(0, 0, 0.0)
    assert samples_of((10, 0, 1.0), (20, 1000, 2.0)).lag(21, 2.0) == Lag(0, 0, 0.0)
    assert LagSamples().lag(5, 2.0) == Lag(0, 0, 0.0)


def test_lag_is_counted_from_where_the_leader_was_at_the_same_position() -> None:
    samples = samples_of((10, 0, 1.0), (20, 1000, 2.0), (30, 5000, 3.0))
    assert samples.lag(20, 3.0) == Lag(10, 4000, 1.0)
    assert samples.lag(25, 3.0) == Lag(5, 2000, 1.0)
    assert samples.lag(10, 7.0) == Lag(20, 5000, 6.0)


def test_a_report_is_compared_with_the_position_of_its_time() -> None:
    samples = samples_of((10, 0, 1.0), (30, 4000, 3.0))
    assert samples.lag(20, 2.0) == Lag(0, 0, 0.0)
    assert samples.lag(15, 2.0) == Lag(5, 1000, 1.0)


def test_an_idle_time_does_not_count_as_lag() -> None:
    samples = samples_of((10, 0, 1.0), *((10, 0, float(second)) for second in range(2, 100)), (11, 50, 100.0))
    assert samples.lag(10, 100.0) == Lag(1, 50, 1.0)


def test_an_idle_time_does_not_use_up_samples() -> None:
    samples = LagSamples(most=16)
    for number in range(1, 11):
        samples.add(number, number * 10, float(number))
    for number in range(1000):
        samples.add(10, 100, 10.0 + number)
    assert samples.lag(8, 1009.0) == Lag(2, 20, 1001.0)


def test_records_from_before_the_first_sample_count_by_their_mean_size() -> None:
    samples = samples_of((100, 0, 50.0), (110, 1000, 60.0))
    assert samples.lag(90, 61.0, record_size=200.0) == Lag(20, 3000, 11.0)


def test_samples_are_bounded_and_the_first_one_stays() -> None:
    samples = LagSamples(most=16)
    for number in range(10_000):
        samples.add(number, number * 10, float(number))
    assert len(samples._samples) <= 16
    assert samples.lag(0, 9999.0) == Lag(9999, 99_990, 9999.0)
    assert samples.lag(9998, 9999.0) == Lag(1, 10, 1.0)
    assert samples.lag(5000, 9999.0).records == 4999


# ---- critical


def member(node: str, role: str = STANDBY, lag: float | None = 0.0, *, is_connected: bool = True) -> MemberStatus:
    return MemberStatus(node, role, "host", 1, {}, "1", is_connected, lag_seconds=lag)


def server(name: str, *, is_reachable: bool = True, is_current: bool = True) -> EngineServer:
    return EngineServer(name, "", "2.14.6", is_reachable, name == "s1", is_current, 0)


MEMBERS = (member("a", LEADER), member("b"), member("c"))
SERVERS = (server("s1"), server("s2"), server("s3"))


def status(
    members: tuple[MemberStatus, ...] = MEMBERS, servers: tuple[EngineServer, ...] = SERVERS, is_answering: bool = True
) -> ClusterStatus:
    return ClusterStatus("orders", "a", 3, 0.0, is_answering, members, servers)


def test_a_node_of_a_whole_cell_may_stop() -> None:
    assert status().why_critical("a") is None
    assert status().why_critical("b") is None


@pytest.mark.parametrize(
    "third",
    [
        member("c", DOWN, is_connected=False),
        member("c", is_connected=False),
        member("c", lag=6.0),
        member("c", lag=None),
    ],
)
def test_a_node_is_critical_if_another_member_is_missing(third: MemberStatus) -> None:
    reason = status((*MEMBERS[:2], third)).why_critical("a")
    assert reason is not None
    assert "(b)" in reason


def test_a_node_is_critical_if_the_engine_has_lost_a_server() -> None:
    for lost in (server("s3", is_reachable=False), server("s3", is_current=False)):
        reason = status(servers=(*SERVERS[:2], lost)).why_critical("a")
        assert reason is not None
        assert "(s3)" in reason
    five = (*SERVERS, server("s4"), server("s5", is_reachable=False))
    assert status(servers=five).why_critical("a") is None
    assert status(servers=(server("s1"),)).why_critical("a") is None
    assert "does not answer" in (status(is_answering=False).why_critical("a") or "")


# ---- history


def test_the_history_has_the_newest_and_counts_all() -> None:
    history = TakeOvers()
    for epoch in range(1, 61):
        history = history.with_one(TakeOver(epoch, "a", 0.0, "founded" if epoch == 1 else "restarted", 1.0))
    assert len(history.newest) == MOST_TAKE_OVERS
    assert history.newest[0].epoch == 60
    assert history.totals == {"founded": 1, "restarted": 59}
    assert history.has(60)
    assert not history.has(10)
