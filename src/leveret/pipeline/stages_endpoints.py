"""Stages and commits over HTTP: the two steps of a sink that writes each batch once."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.broker.vhost import Vhost
from leveret.errors import LeveretError
from leveret.management.answers import json_answer
from leveret.management.bodies import json_of, query_of, text_of, whole_number_of
from leveret.management.doors import may, refuse_unless, vhost_of
from leveret.management.errors import BadRequest
from leveret.management.settling import settled
from leveret.pipeline.commits import Commits, Committed
from leveret.pipeline.house import House
from leveret.pipeline.receiving import Arrival
from leveret.pipeline.stages import Stage, Ticket

MOST_COMMIT_BYTES = 8 << 20
LONGEST_TRANSACTION = 1_000  # characters


class StagesEndpoints:
    def __init__(self, house: House) -> None:
        self._house = house
        self._broker = house.broker
        self._commits: Commits = house.commits
        self._stages = house.commits.stages

    # ---- stages

    async def stage(self, request: Request) -> Response:
        arrival = Arrival(self._house, request)
        given = request.query_params
        ticket = Ticket(
            transaction_of(query_of(request, "transaction")),
            whole_number_of(given, "batch"),
            whole_number_of(given, "partition", default=0),
            whole_number_of(given, "attempt", default=0),
        )
        stage = self._stages.begin(arrival.vhost, ticket)
        stage.exchanges = arrival.admission.exchanges
        try:
            async with aclosing(arrival.pieces()) as pieces:
                async for run, look in pieces:
                    self._stages.add(stage, run, look)
            self._stages.seal(stage)
            await settled(self._broker)
            self._stages.mark_whole(stage)
        except BaseException:  # also when the client has gone: of a stage, all or nothing
            self._stages.drop(stage)
            raise
        return json_answer({"stage": stage.id, "messages": stage.messages, "bytes": stage.bytes})

    async def show(self, request: Request) -> Response:
        vhost = vhost_of(request)
        shown = [stage for stage in self._stages.of(vhost) if stage.is_whole and may_write_all(request, stage)]
        return json_answer({"stages": [view_of(stage) for stage in shown]})

    async def drop(self, request: Request) -> Response:
        vhost = vhost_of(request)
        transaction, batch = query_of(request, "transaction"), whole_number_of(request.query_params, "batch")
        gone = [stage for stage in self._stages.of(vhost) if stage.ticket[:2] == (transaction, batch)]
        for stage in gone:
            refuse_unless_writable(request, stage)
        for stage in gone:
            self._stages.drop(stage)
        await settled(self._broker)
        return json_answer({"dropped": len(gone)})

    # ---- commits

    async def commit(self, request: Request) -> Response:
        vhost = vhost_of(request)
        given = await json_of(request, MOST_COMMIT_BYTES)
        transaction, batch = transaction_of(text_of(given, "transaction")), whole_number_of(given, "batch")
        ids = given.get("stages")
        if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids):
            raise BadRequest("'stages' must be a list of the ids that the stages were answered with")
        for id_ in ids:
            stage = self._stages.find(vhost, id_)
            if stage is not None:
                refuse_unless_writable(request, stage)
        outcome = await self._committed(vhost, transaction, batch, ids)
        return json_answer(outcome._asdict())

    async def _committed(self, vhost: Vhost, transaction: str, batch: int, ids: list[str]) -> Committed:
        answer: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()

        def done(outcome: Committed | LeveretError) -> None:
            if answer.done():
                return  # the client has gone; what it asked for is done all the same
            if isinstance(outcome, Committed):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

        self._commits.commit(vhost, transaction, batch, ids, done)
        self._broker.wake()
        return await answer

    async def last(self, request: Request) -> Response:
        vhost, transaction = vhost_of(request), query_of(request, "transaction")
        batch = self._commits.last_batch(vhost, transaction)
        await settled(self._broker)  # whoever builds on the answer finds it true after a crash
        return json_answer({"transaction": transaction, "last_batch": batch})


def transaction_of(text: str) -> str:
    if not 0 < len(text) <= LONGEST_TRANSACTION:
        raise BadRequest(f"'transaction' must have 1 to {LONGEST_TRANSACTION} characters: it has {len(text)}")
    return text


def may_write_all(request: Request, stage: Stage) -> bool:
    return all(may(request, "write", exchange) for exchange in stage.exchanges)


def refuse_unless_writable(request: Request, stage: Stage) -> None:
    for exchange in stage.exchanges:
        refuse_unless(request, "write", exchange)


def view_of(stage: Stage) -> dict[str, object]:
    return {
        "stage": stage.id,
        **stage.ticket._asdict(),
        "messages": stage.messages,
        "bytes": stage.bytes,
        "since": stage.since,
    }


def routes(house: House) -> list[Route]:
    endpoints = StagesEndpoints(house)
    stages, commits = "/api/pipeline/{vhost}/stages", "/api/pipeline/{vhost}/commits"
    return [
        Route(stages, endpoints.stage, methods=["POST"]),
        Route(stages, endpoints.show, methods=["GET"]),
        Route(stages, endpoints.drop, methods=["DELETE"]),
        Route(commits, endpoints.commit, methods=["POST"]),
        Route(commits, endpoints.last, methods=["GET"]),
    ]
