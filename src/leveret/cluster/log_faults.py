"""Why a member cannot follow the log of its cell."""

from __future__ import annotations

from leveret.errors import ClusterError

REFOUND = "create the log again from the members' data directories with 'leveret cluster refound'"


class LogFault(ClusterError):
    """The log is not the one that the data directory belongs to. The member neither follows nor leads, and looks again
    later: an operator may bring the log back, or found a new one."""


class LogGone(LogFault):
    """The engine has no log of this cell."""


class OtherLog(LogFault):
    """The engine has another log of this cell, or one that lacks records that this member has."""


class SnapshotNeeded(ClusterError):
    """The log alone does not lead from this data directory to the present: the leader's files have to be copied."""
