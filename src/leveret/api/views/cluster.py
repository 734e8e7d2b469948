"""The state of a cell as JSON: the whole of it, and the fields of a node that only nodes of a cell have."""

from __future__ import annotations

from leveret.cluster.cell_summary import CellSummary, Move
from leveret.cluster.status import ClusterStatus, EngineServer, LogStatus, MemberStatus, TakeOver
from leveret.http.rows import Row

PRECISION = 3  # decimal places of seconds


def cluster_row(status: ClusterStatus) -> Row:
    return {
        "cell": status.cell,
        "leader": status.leader,
        "epoch": status.epoch,
        "leader_since": status.leader_since,
        "members": [{"name": each.node, **member_fields(each)} for each in status.members],
        "engine": {"answering": status.is_answering, "servers": [_server(each) for each in status.engine]},
        "log": None if status.log is None else _log(status.log),
        "take_overs": [_take_over(each) for each in status.take_overs],
        "take_over_totals": dict(status.totals),
        "quorum_critical": status.why_critical(status.leader),
    }


def member_fields(member: MemberStatus) -> Row:
    return {
        "role": member.role,
        "connected": member.is_connected,
        "version": member.version,
        "cluster_address": {"host": member.host, "port": member.port},
        "endpoints": dict(member.endpoints),
        "epoch": member.epoch,
        "batch": member.batch,
        "lag_records": member.lag_records,
        "lag_bytes": member.lag_bytes,
        "lag_seconds": None if member.lag_seconds is None else round(member.lag_seconds, PRECISION),
        "last_seen": member.last_seen,
        "problem": member.problem or None,
    }


def other_node_row(member: MemberStatus) -> Row:
    """A node that is not the leader, as RabbitMQ lists nodes without statistics."""
    return {
        "name": member.node,
        "type": "disc",
        "running": member.is_connected,
        "being_drained": False,
        "partitions": [],
        "cluster_links": [],
        "product_name": "Leveret",
        "product_version": member.version,
        **member_fields(member),
    }


def cell_row(cell: CellSummary) -> Row:
    return {
        "cell": cell.cell,
        "leader": cell.leader or None,
        "epoch": cell.epoch,
        "members": [
            {
                "name": each.node,
                "role": each.role,
                "connected": each.is_connected,
                "up_to_date": each.is_up_to_date,
                "lag_records": each.lag_records,
                "lag_seconds": None if each.lag_seconds is None else round(each.lag_seconds, PRECISION),
            }
            for each in cell.members
        ],
        "problem": cell.problem or None,
    }


def move_row(move: Move) -> Row:
    return {"cell": move.cell, "from": move.origin, "to": move.target}


def _server(server: EngineServer) -> Row:
    return {
        "name": server.name,
        "url": server.url,
        "version": server.version,
        "reachable": server.is_reachable,
        "leader": server.is_leader,
        "current": server.is_current,
        "lag": server.lag,
    }


def _log(log: LogStatus) -> Row:
    return {
        "first": log.first,
        "last": log.last,
        "bytes": log.bytes,
        "max_bytes": log.max_bytes,
        "replicas": log.replicas,
    }


def _take_over(take_over: TakeOver) -> Row:
    return {
        "epoch": take_over.epoch,
        "node": take_over.node,
        "at": take_over.at,
        "reason": take_over.reason,
        "seconds": round(take_over.seconds, PRECISION),
    }
