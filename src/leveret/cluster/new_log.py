"""A new log for a cell whose log is gone, empty, or without a leader for ever. It begins with the data of a member.

    ask         all members how much they have; enough of them must answer, and none may lead
    choose      the one that has everything that the others have
    create      a stream whose metadata names the former logs, their highest epoch, and the chosen member
    wait        the chosen member finds the stream, and claims with its whole data directory as the base; the others
                find that the log continues theirs, and copy a snapshot. Their own files are kept aside

Nothing that was confirmed is lost if all members are asked: a confirmed batch is in the journal of the leader that
confirmed it. Without that node, a batch may be lost that the engine had and no other member had read.

Positions can be compared in one log, and in those that continue each other. Data directories of logs that began
separately, such as that of a node that has led an empty cell on new servers, cannot: an operator has to choose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from leveret.cluster.cell_stream import (
    BUCKET,
    LOG,
    CellStream,
    Founding,
    LogFacts,
    bucket_configuration,
    facts_of,
    prepare_stream,
    read_log,
)
from leveret.cluster.engine import (
    NO_STREAM,
    Engine,
    EngineConnection,
    EngineOptions,
    EngineRefusal,
    EngineUnavailable,
    LoginProblem,
)
from leveret.cluster.lease import Lease
from leveret.cluster.link import LinkLost, LinkRefused, Peer
from leveret.cluster.log_faults import LogGone
from leveret.cluster.member_position import MemberPosition, ask_position
from leveret.cluster.members import Member, Members
from leveret.errors import ClusterError
from leveret.store.cell_file import CellFile

ENGINE_SECONDS = 30.0
ELECTION_SECONDS = 10.0  # after which a log or a bucket without a leader will not get one
STEP_DOWN_SECONDS = 20.0  # for a leader to find out that it has no log
LEAD_SECONDS = 60.0  # for the chosen member to lead
PAUSE = 0.5
COMMAND = "leveret cluster"  # in place of the name of a node
REPLACE = (
    "if they are lost for ever, start new ones at these addresses, with the same server_name and an empty store_dir. "
    "Then run this command again, unless a node leads"
)

Report = Callable[[str], None]
T = TypeVar("T")


class Survey(NamedTuple):
    """What there is to found a log from. ``log``: None if it is gone or does not answer. ``origin``: the node whose
    data an operator has chosen, if any."""

    log: LogFacts | None
    answered: list[MemberPosition]
    missing: dict[str, str]  # nodes that did not answer, and why
    followed: str  # the log that the members followed, as the engine knows
    origin: str = ""

    @property
    def filled(self) -> list[MemberPosition]:
        """Those that have data; the highest rank first."""
        found = [each for each in self.answered if not each.is_blank]
        return sorted(found, key=lambda each: each.rank, reverse=True)

    @property
    def best(self) -> MemberPosition:
        """Raises ClusterError if no member has data."""
        for each in self.filled:
            if self.origin in ("", each.member.node):
                return each
        if self.origin:
            raise ClusterError(f"node {self.origin!r} does not answer, or has no data: start it, or choose another")
        raise ClusterError(
            "no member that answers has data: start the nodes that have some, or begin with an empty cell under "
            "another name (--cell)"
        )

    @property
    def founding(self) -> Founding:
        former = {each.log for each in self.answered} | {self.followed}
        if self.log is not None:
            former |= {self.log.stream.log, *self.log.founding.previous}
        epoch = max(each.epoch for each in self.answered)
        return Founding(tuple(sorted(former - {""})), self.best.member.node, epoch)

    @property
    def log_id(self) -> str | None:
        return None if self.log is None else self.log.stream.log

    def check(self, force: bool) -> None:
        """Raises ClusterError if a new log must not be founded from this."""
        leading = [each.member.node for each in self.answered if each.leads]
        if leading:
            raise ClusterError(
                f"node {leading[0]} leads the cell: its log is in use. If it has founded an empty cell by mistake, "
                "stop it first"
            )
        able = [each.member.node for each in self.answered if not each.trouble]
        if able and self.log is not None and not force:
            raise ClusterError(
                f"the log of the cell is there, and {', '.join(sorted(able))} can follow it: wait until one of them "
                "leads, or found a new log all the same with --force"
            )
        self._check_logs(force)
        if self.missing and not force:
            reasons = "; ".join(f"{node}: {reason}" for node, reason in sorted(self.missing.items()))
            raise ClusterError(
                f"not all members answer ({reasons}): start them, remove those that are lost for ever with 'leveret "
                "cluster remove', or accept that the last confirmed messages may be missing with --force"
            )
        if len(self.answered) <= len(self.missing):
            raise ClusterError(
                f"{len(self.answered)} of {len(self.answered) + len(self.missing)} members answer, and a majority is "
                "needed: start the others"
            )

    def _check_logs(self, force: bool) -> None:
        one = set() if self.log is None else {self.log.stream.log, *self.log.founding.previous}
        logs = {"" if each.log in one else each.log for each in self.filled}
        if len(logs) > 1 and not self.origin:
            found = ", ".join(f"{each.member.node}: {each.log or 'none'}" for each in self.filled)
            raise ClusterError(
                f"the data directories belong to different logs ({found}), which cannot be compared: choose the node "
                "whose data is right with --from NODE"
            )
        best = self.best
        ahead = [each.member.node for each in self.filled if each.log == best.log and each.rank > best.rank]
        if ahead and not force:
            raise ClusterError(
                f"node {ahead[0]} has more of the same log than {best.member.node}: choose that one, or accept that "
                "confirmed messages may be missing with --force"
            )


class NewLog:
    """``survey``, then ``found``."""

    def __init__(
        self, options: EngineOptions, cell: str, saved: CellFile | None, addresses: Sequence[tuple[str, int]] = ()
    ) -> None:
        """``saved``: what a member of the cell has noted. ``addresses``: cluster ports of further members."""
        self._engine = Engine(options, COMMAND)
        self._stream = CellStream.of(cell)
        self._saved = saved
        self._addresses = addresses
        self._members = Members(self._stream)
        self._replicas = options.replicas
        self._is_deleted = False  # the former log

    async def survey(self, force: bool, origin: str = "", seconds: float = ELECTION_SECONDS) -> Survey:
        """``origin``: the node whose data is to count. ``seconds``: for the log to get a leader. Raises ClusterError if
        a log cannot be founded now."""
        await self._check_servers()
        log = await self._look_for_log(seconds)
        known, secret, followed = await self._bucket_facts()
        peer = Peer(self._stream.cell, COMMAND, secret)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STEP_DOWN_SECONDS
        while True:
            answered, missing = await self._ask(known, peer)
            found = Survey(log, answered, missing, followed, origin)
            if log is not None or not any(each.leads for each in answered) or loop.time() > deadline:
                break
            await asyncio.sleep(PAUSE)
        found.check(force)
        return found

    async def found(self, survey: Survey, force: bool, report: Report) -> CellStream:
        """Delete what is left of the former log, and found a new one. Asks all members again: an operator may have
        thought about it for long, while the cell came back or another operator founded a log."""
        before, survey = survey, await self.survey(force, survey.origin, seconds=0.0)
        if survey.log_id != before.log_id or survey.best.member.node != before.best.member.node:
            raise ClusterError("the cell has changed meanwhile: run the command again")
        await self._on_bucket(partial(self._enter, survey))  # before the former log is deleted: it may have no leader
        configuration = self._stream.configuration(self._replicas, survey.best.log_size, survey.founding)
        made = await self._engine.perform(
            lambda connection: self._create(connection, survey, configuration), ENGINE_SECONDS
        )
        if made.stream.log != configuration["metadata"][LOG]:
            raise ClusterError("another node has created a log meanwhile: run the command again")
        founder = survey.best.member.node
        report(f"log {made.stream.log} created, waiting for node {founder} to lead")
        await self._wait_for(founder)
        return made.stream

    # ---- what there is

    async def _check_servers(self) -> None:
        """Without a majority of its servers, the engine does not answer at all."""
        urls = self._engine.options.urls
        are_up = await asyncio.gather(*(self._is_up(url) for url in urls))
        down = [url for url, is_up in zip(urls, are_up, strict=True) if not is_up]
        if 2 * len(down) >= len(urls):
            raise ClusterError(
                f"{len(down)} of {len(urls)} NATS servers cannot be reached ({', '.join(down)}), and a majority is "
                f"needed: start them; {REPLACE}"
            )

    async def _is_up(self, url: str) -> bool:
        try:
            connection = await EngineConnection.open(url, COMMAND, self._engine.options.login)
        except LoginProblem:
            return True  # reported by the next connection
        except EngineUnavailable:
            return False
        await connection.close()
        return True

    async def _look_for_log(self, seconds: float) -> LogFacts | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            connection = await self._engine.connect_within(ENGINE_SECONDS)
            try:
                found = await read_log(connection, self._stream)
                if found.has_leader:
                    return found
            except LogGone:
                return None
            except EngineUnavailable:
                pass
            finally:
                await connection.close()
            if loop.time() >= deadline:
                return None  # without a leader
            await asyncio.sleep(PAUSE)

    async def _bucket_facts(self) -> tuple[dict[str, Member], bytes, str]:
        """The members, the secret and the log that is followed; the bucket is made again if it is gone."""
        try:
            saved = [] if self._saved is None else [msgspec.convert(row, Member) for row in self._saved.members]
        except msgspec.ValidationError as problem:
            raise ClusterError(
                f"cell.json was written by another version of Leveret ({problem}): run the command of that version"
            ) from problem
        await self._on_bucket(self._prepare_bucket)
        known, secret, log = await self._on_bucket(partial(self._read_bucket, saved))
        if not known and not self._addresses:
            raise ClusterError(
                "neither the engine nor a data directory names the members of the cell: run the command on a machine "
                "of a member, with its --data-dir"
            )
        return known, secret, log

    async def _on_bucket(self, job: Callable[[EngineConnection], Awaitable[T]]) -> T:
        """The bucket may be in use by other cells: this command does not delete it."""
        try:
            return await self._engine.perform(job, ENGINE_SECONDS)
        except ClusterError as problem:
            raise ClusterError(
                f"the bucket KV_{BUCKET} cannot be used: {problem}. If servers that have it are lost for ever, delete "
                f"it with 'nats stream rm KV_{BUCKET}', which may end with a timeout and is done all the same; then "
                "run this command again with --data-dir, on the machine of a member"
            ) from problem

    async def _prepare_bucket(self, connection: EngineConnection) -> None:
        await prepare_stream(connection, bucket_configuration(self._replicas), ELECTION_SECONDS)

    async def _read_bucket(
        self, saved: Sequence[Member], connection: EngineConnection
    ) -> tuple[dict[str, Member], bytes, str]:
        known = {member.node: member for member in saved}
        entered = await self._members.all(connection)
        for member in saved:
            if await self._members.was_removed(connection, member.node):
                del known[member.node]
        known |= {member.node: member for member in entered}
        secret = b"" if self._saved is None else bytes.fromhex(self._saved.secret)
        return known, await self._members.secret(connection, secret), await self._members.log(connection)

    async def _ask(self, known: dict[str, Member], peer: Peer) -> tuple[list[MemberPosition], dict[str, str]]:
        addresses = {member.node: member.address for member in known.values()}
        addresses |= {f"{host}:{port}": (host, port) for host, port in self._addresses}
        answers = await asyncio.gather(*(self._ask_one(address, peer) for address in addresses.values()))
        answered: dict[str, MemberPosition] = {}
        missing: dict[str, str] = {}
        for name, answer in zip(addresses, answers, strict=True):
            if isinstance(answer, str):
                missing[name] = answer
            else:
                answered[answer.member.node] = answer
        return list(answered.values()), missing

    async def _ask_one(self, address: tuple[str, int], peer: Peer) -> MemberPosition | str:
        try:
            return await ask_position(address, peer)
        except ConnectionRefusedError:
            return f"no process listens on {address[0]} port {address[1]}"
        except (OSError, LinkLost, LinkRefused, msgspec.ValidationError) as problem:
            return str(problem) or type(problem).__name__

    # ---- the new log

    async def _enter(self, survey: Survey, connection: EngineConnection) -> None:
        for answer in survey.answered:
            await self._members.enter(connection, answer.member)

    async def _create(self, connection: EngineConnection, survey: Survey, configuration: dict[str, Any]) -> LogFacts:
        """May be done twice: then the stream of the first attempt is found."""
        if not self._is_deleted:
            await self._check_unchanged(connection, survey)
            try:  # if it has no leader, the leader of the engine deletes it
                await connection.request(f"$JS.API.STREAM.DELETE.{self._stream.name}")
            except EngineRefusal as refusal:
                if refusal.code != NO_STREAM:
                    raise ClusterError(f"the engine keeps the stream {self._stream.name}: {refusal}") from refusal
            self._is_deleted = True
        try:
            return facts_of(self._stream.cell, await prepare_stream(connection, configuration))
        except ClusterError as problem:
            raise ClusterError(
                f"{problem}. NATS may have placed it on servers that have just failed: run this command again in a "
                "minute"
            ) from problem

    async def _check_unchanged(self, connection: EngineConnection, survey: Survey) -> None:
        """Two operators at once: the second one must not delete the log of the first."""
        try:
            found = await read_log(connection, self._stream)
        except (LogGone, EngineUnavailable):  # the latter: without a leader, as before
            return
        if found.has_leader and found.stream.log != survey.log_id:
            raise ClusterError("another node has created a log meanwhile: run the command again")

    async def _wait_for(self, founder: str) -> None:
        lease, loop = Lease(self._stream), asyncio.get_running_loop()
        deadline = loop.time() + LEAD_SECONDS
        while loop.time() < deadline:
            held = await self._engine.perform(lease.read, ENGINE_SECONDS)
            if held is not None and held.holder.node == founder and not held.holder.is_released:
                return
            await asyncio.sleep(PAUSE)
        raise ClusterError(f"the log was created, but node {founder} does not lead yet: see its log")


async def remove_member(options: EngineOptions, cell: str, node: str) -> None:
    """Delete its entry: when it runs, it stops following. Raises ClusterError if it leads, or is no member."""
    stream = CellStream.of(cell)
    members = Members(stream)

    async def remove(connection: EngineConnection) -> None:
        if await members.find(connection, node) is None:
            names = [member.node for member in await members.all(connection)]
            raise ClusterError(
                f"the cell {stream.cell} has no member {node!r}; its members are: {', '.join(names) or 'none'}"
            )
        held = await Lease(stream).read(connection)
        if held is not None and held.holder.node == node and not held.holder.is_released:
            raise ClusterError(f"node {node} leads the cell: hand over first, with 'leveret cluster handover'")
        await members.remove(connection, node)

    await Engine(options, COMMAND).perform(remove, ENGINE_SECONDS)
