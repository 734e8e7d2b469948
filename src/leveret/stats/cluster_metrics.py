"""Metrics of a cell: members, servers of the engine, the log, take-overs. Only the leader has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from leveret.cluster.status import ClusterStatus, EngineServer, MemberStatus
from leveret.stats.metric_families import Family, Labels, Value, family_of

Samples = list[tuple[Labels, Value]]
ClusterMetric = tuple[Family, Samples]

OF_MEMBERS: dict[str, Callable[[MemberStatus], Value | None]] = {
    "cluster_member_up": lambda member: int(member.is_connected),
    "cluster_member_lag_records": lambda member: member.lag_records,
    "cluster_member_lag_bytes": lambda member: member.lag_bytes,
    "cluster_member_lag_seconds": lambda member: None if member.lag_seconds is None else round(member.lag_seconds, 3),
}
OF_SERVERS: dict[str, Callable[[EngineServer], Value]] = {
    "cluster_engine_server_up": lambda server: int(server.is_reachable),
    "cluster_engine_server_current": lambda server: int(server.is_current),
}


def cluster_metrics(status: ClusterStatus) -> Iterable[ClusterMetric]:
    """A member without a known lag has no sample of it."""
    for name, read in OF_MEMBERS.items():
        values = [(member, read(member)) for member in status.members]
        yield family_of(name), [((("node", each.node),), value) for each, value in values if value is not None]
    roles = [((("node", each.node), ("role", each.role)), 1) for each in status.members]
    yield family_of("cluster_member_role"), list(roles)
    for name, read_server in OF_SERVERS.items():
        yield family_of(name), [((("server", each.name),), read_server(each)) for each in status.engine]
    for name, value in _single_values(status).items():
        yield family_of(name), [((), value)]
    totals = [((("reason", reason),), number) for reason, number in sorted(status.totals.items())]
    yield family_of("cluster_take_overs_total"), list(totals)


def _single_values(status: ClusterStatus) -> dict[str, Value]:
    values: dict[str, Value] = {
        "cluster_epoch": status.epoch,
        "cluster_leader_start_time_seconds": round(status.leader_since, 3),
        "cluster_engine_up": int(status.is_answering),
        "cluster_quorum_critical": int(status.why_critical(status.leader) is not None),
    }
    if status.log is not None:
        values |= {
            "cluster_log_bytes": status.log.bytes,
            "cluster_log_limit_bytes": status.log.max_bytes,
            "cluster_log_records": status.log.last - status.log.first + 1,
        }
    return values
