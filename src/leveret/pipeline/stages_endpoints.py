"""Endpoints of stages and commits: the two steps of an exactly-once sink."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from itertools import islice

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.broker.vhost import Vhost
from leveret.errors import LeveretError
from leveret.http.authorization import access_of, vhost_of, vhost_to_change
from leveret.http.awaited import awaited
from leveret.http.bodies import read_body
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, Forbidden, ObjectNotFound
from leveret.http.login import user_of
from leveret.http.responses import json_response
from leveret.http.roles import ADMINISTRATOR, has_role
from leveret.http.time_slice import TimeSlice
from leveret.http.values import boolean_of, integer_of, query_parameter, text_of
from leveret.logs import get_log
from leveret.pipeline.commits import Commits, Committed, Committer
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.first_cell import in_first_cell
from leveret.pipeline.packs import Pack
from leveret.pipeline.row_upload import RowUpload, refuse_unless_writer
from leveret.pipeline.stages import MOST_OF_A_USER, Stage, Ticket
from leveret.pipeline.transactions import NO_OWNER, CommitRow
from leveret.pipeline.unroutable import unroutable_view

MOST_COMMIT_BYTES = 512 << 10  # the ids of as many stages as a user may have
LONGEST_TRANSACTION = 1_000  # characters
MOST_LISTED = 1_000

log = get_log("pipeline")


class CommitRequest(msgspec.Struct):
    transaction: str
    batch: int
    stages: list[str]


class StagesEndpoints:
    def __init__(self, context: PipelineContext) -> None:
        self.context = context
        self._broker = context.broker
        self._commits: Commits = context.commits
        self._stages = context.commits.stages

    # ---- stages

    @in_first_cell
    async def stage(self, request: Request) -> Response:
        arrival = RowUpload(self.context, request)
        given = request.query_params
        ticket = Ticket(
            transaction_of(query_parameter(request, "transaction")),
            integer_of(given, "batch"),
            integer_of(given, "partition", default=0),
            integer_of(given, "attempt", default=0),
        )
        await arrival.refuse_unless_permitted()
        committer = committer_of(request)
        self._commits.refuse_stranger(arrival.vhost, ticket.transaction, committer)
        stage = self._stages.begin(arrival.vhost, ticket, committer.user)
        stage.exchanges, stage.mandatory = arrival.admission.exchanges, arrival.admission.mandatory
        try:
            async with aclosing(arrival.packs()) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Pack):
                        self._stages.add_pack(stage, piece)
                    else:
                        self._stages.add(stage, piece.run, piece.look)
            self._stages.seal(stage)
            await wait_until_durable(self._broker)
            self._stages.mark_whole(stage)
        except BaseException:  # also if the client disconnected: an incomplete stage is dropped
            self._stages.drop(stage)
            raise
        counts = {"stage": stage.id, "messages": stage.messages, "bytes": stage.bytes}
        return json_response(counts | arrival.pace.view())

    @in_first_cell
    async def show(self, request: Request) -> Response:
        vhost = vhost_of(request)
        shown: list[dict[str, object]] = []
        time_slice = TimeSlice()
        for stage in list(self._stages.of(vhost)):
            if stage.is_whole and is_own(request, stage):
                shown.append(view_of(stage))
                if len(shown) == MOST_LISTED:
                    break
            await time_slice.pause_if_over()
        return json_response({"stages": shown})

    @in_first_cell
    async def drop(self, request: Request) -> Response:
        vhost = vhost_of(request)
        transaction, batch = query_parameter(request, "transaction"), integer_of(request.query_params, "batch")
        found = [stage for stage in self._stages.of_transaction(vhost, transaction) if stage.ticket.batch == batch]
        gone = [stage for stage in found if is_own(request, stage)]
        if found and not gone:
            raise Forbidden(
                f"the stages of transaction '{transaction}', batch {batch}, in vhost '{vhost.name}' belong to other "
                "users: drop them as their owner or as an administrator"
            )
        time_slice = TimeSlice()
        for stage in gone:
            self._stages.drop(stage)
            await time_slice.pause_if_over()
        await wait_until_durable(self._broker)
        return json_response({"dropped": len(gone)})

    @in_first_cell
    async def renew(self, request: Request) -> Response:
        """By tasks that compute their rows while those of others are staged."""
        vhost, transaction = vhost_of(request), transaction_of(query_parameter(request, "transaction"))
        return json_response({"renewed": self._stages.renew(vhost, transaction, user_of(request).name)})

    # ---- commits

    @in_first_cell
    async def commit(self, request: Request) -> Response:
        vhost = vhost_of(request)
        given = commit_in(await read_body(request, MOST_COMMIT_BYTES))
        if not given.stages:
            await refuse_unless_writer(request, vhost)
        time_slice = TimeSlice()
        for id_ in given.stages:
            stage = self._stages.find(vhost, id_)
            if stage is not None:
                refuse_unless_writable(request, stage)
            await time_slice.pause_if_over()
        outcome = await self._committed(vhost, given, committer_of(request))
        counts = unroutable_view(outcome.unroutable, outcome.unroutable_keys)
        lost = {"unroutable_mandatory": outcome.unroutable_mandatory} if outcome.unroutable_mandatory else {}
        before = {} if outcome.before is None else {"messages_before": outcome.before}
        return json_response({"duplicate": outcome.duplicate, "messages": outcome.messages, **counts, **lost, **before})

    async def _committed(self, vhost: Vhost, given: CommitRequest, by: Committer) -> Committed:
        def start(done: Callable[[Committed | LeveretError], None]) -> None:
            self._commits.commit(vhost, given.transaction, given.batch, given.stages, by, done)
            self._broker.wake()

        return await awaited(start)

    @in_first_cell
    async def show_commits(self, request: Request) -> Response:
        """The last batch of one transaction, or the transactions of the user; administrators get all transactions."""
        vhost = vhost_of(request)
        if "transaction" not in request.query_params:
            return self._list_commits(request, vhost)
        transaction = query_parameter(request, "transaction")
        self._commits.refuse_stranger(vhost, transaction, committer_of(request))
        row = self._commits.transactions(vhost).get(transaction)
        if row is not None and row.owner == NO_OWNER:
            await refuse_unless_writer(request, vhost)
        await wait_until_durable(self._broker)  # so that the response is still true after a crash
        return json_response({"transaction": transaction, "last_batch": None if row is None else row.batch})

    def _list_commits(self, request: Request, vhost: Vhost) -> Response:
        start = integer_of(request.query_params, "start", default=0)
        by, transactions = committer_of(request), self._commits.transactions(vhost)
        names = transactions.names(None if by.is_administrator else by.user)
        shown = [(name, transactions.get(name)) for name in islice(names, start, start + MOST_LISTED)]
        views = [commit_view(name, row) for name, row in shown if row is not None]
        return json_response({"total": len(names), "commits": views})

    @in_first_cell
    async def delete_commit(self, request: Request) -> Response:
        vhost, transaction = vhost_to_change(request, ADMINISTRATOR), query_parameter(request, "transaction")
        owner_only = boolean_of(request.query_params, "owner_only")
        row = self._commits.delete(vhost, transaction, owner_only=owner_only)
        if row is None:
            raise ObjectNotFound(f"no transaction '{transaction}' in vhost '{vhost.name}': it has no committed batch")
        log.info(
            "transaction owner removed" if owner_only else "transaction deleted",
            vhost=vhost.name,
            transaction=transaction,
            batch=row.batch,
            owner=row.owner,
            user=user_of(request).name,
        )
        await wait_until_durable(self._broker)
        return json_response({"transaction": transaction, "last_batch": row.batch})


def commit_in(body: bytes) -> CommitRequest:
    try:
        given = msgspec.json.decode(body, type=CommitRequest)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BadRequest(
            f"invalid commit: {problem}; send 'transaction', 'batch', and 'stages', a list of stage ids"
        ) from None
    transaction_of(text_of({"transaction": given.transaction}, "transaction"))
    integer_of({"batch": given.batch}, "batch")
    if len(given.stages) > MOST_OF_A_USER:
        raise BadRequest(f"{len(given.stages)} stages in 'stages': a commit has {MOST_OF_A_USER} at most")
    return given


def committer_of(request: Request) -> Committer:
    user = user_of(request)
    return Committer(user.name, has_role(user, ADMINISTRATOR))


def transaction_of(text: str) -> str:
    if not 0 < len(text) <= LONGEST_TRANSACTION:
        raise BadRequest(f"'transaction' must have 1 to {LONGEST_TRANSACTION} characters: it has {len(text)}")
    return text


def is_own(request: Request, stage: Stage) -> bool:
    """Whether the user owns the stage. A stage without an owner belongs to any user that may write to its exchanges."""
    access = access_of(request, stage.vhost)
    if stage.owner == NO_OWNER and all(access.has("write", exchange) for exchange in stage.exchanges):
        return True
    return committer_of(request).may_use(stage.owner)


def refuse_unless_writable(request: Request, stage: Stage) -> None:
    for exchange in stage.exchanges:
        access_of(request, stage.vhost).check("publish", exchange)


def view_of(stage: Stage) -> dict[str, object]:
    return {
        "stage": stage.id,
        **stage.ticket._asdict(),
        "owner": stage.owner,
        "messages": stage.messages,
        "bytes": stage.bytes,
        "since": stage.since,
    }


def commit_view(transaction: str, row: CommitRow) -> dict[str, object]:
    return {
        "transaction": transaction,
        "owner": row.owner,
        "last_batch": row.batch,
        "messages": row.messages,
        "since": row.since,
        "stages_to_move": len(row.stages),
    }


def routes(context: PipelineContext) -> list[Route]:
    endpoints = StagesEndpoints(context)
    stages, commits = "/api/pipeline/{vhost}/stages", "/api/pipeline/{vhost}/commits"
    return [
        Route(stages, endpoints.stage, methods=["POST"]),
        Route(stages, endpoints.show, methods=["GET"]),
        Route(stages, endpoints.drop, methods=["DELETE"]),
        Route(f"{stages}/renew", endpoints.renew, methods=["POST"]),
        Route(commits, endpoints.commit, methods=["POST"]),
        Route(commits, endpoints.show_commits, methods=["GET"]),
        Route(commits, endpoints.delete_commit, methods=["DELETE"]),
    ]
