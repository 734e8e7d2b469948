"""The schema registry of a virtual host: versions of schemas by name, and schemas by ID.

Schemas are checked and compared in a thread. The comparison is repeated if another request changed the name meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import Endpoints, routes_of, vhost_lists
from leveret.api.views.schema import (
    SCHEMA_ROWS,
    compatibility_given,
    named_row,
    schema_given,
    schema_row,
    version_row,
)
from leveret.broker.schemas import NamedSchema
from leveret.broker.vhost import Vhost
from leveret.http.authorization import name_of, seen_vhost, vhost_to_change
from leveret.http.bodies import read_object
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, Conflict
from leveret.http.listings import object_response
from leveret.http.responses import json_response
from leveret.http.roles import POLICYMAKER
from leveret.http.rows import Row
from leveret.schemas.schema import MODES, Schema, checked_schema, incompatibilities

LATEST = "latest"
ATTEMPTS = 3


def routes(context: ApiContext) -> list[Route]:
    schemas, path = Schemas(context), "/api/schemas/{vhost}/{name}"
    return [
        *vhost_lists(context, "/api/schemas", SCHEMA_ROWS, schemas.found),
        *routes_of(path, GET=schemas.show, PUT=schemas.put, DELETE=schemas.delete),
        *routes_of(f"{path}/check", POST=schemas.check),
        *routes_of(f"{path}/{{version}}", GET=schemas.show_version, DELETE=schemas.delete_version),
        Route("/api/schema-ids/{vhost}/{id}", schemas.show_id),
    ]


class Schemas(Endpoints):
    def found(self, request: Request, vhosts: Sequence[Vhost]) -> Iterator[tuple[Vhost, NamedSchema]]:
        for vhost in vhosts:
            for name in vhost.schemas.names():
                if (named := vhost.schemas.get(name)) is not None:
                    yield vhost, named

    async def show(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        return object_response(request, named_row((vhost, vhost.schemas.existing(name_of(request, "name")))))

    async def show_version(self, request: Request) -> Response:
        vhost, name = seen_vhost(request), name_of(request, "name")
        number, schema = vhost.schemas.version(name, _number(request))
        return object_response(request, version_row(vhost, name, number, schema))

    async def show_id(self, request: Request) -> Response:
        vhost = seen_vhost(request)
        return object_response(
            request, {"vhost": vhost.name, **schema_row(vhost.schemas.by_id(name_of(request, "id")))}
        )

    async def put(self, request: Request) -> Response:
        """Add a version. The same schema again changes nothing but the compatibility."""
        _to_change(request)
        name, given = name_of(request, "name"), await read_object(request, required=["schema"])
        schema = await self._schema(given)
        for _ in range(ATTEMPTS):
            vhost = _to_change(request)  # again: it may have been deleted meanwhile
            before, mode = _latest(vhost, name), _mode(given, vhost.schemas.get(name))
            problems = await self._problems(schema, before, mode)
            if problems:
                raise Conflict(
                    f"schema '{name}' is not {mode} compatible with version {before and before[0]}: {problems[0]}; "
                    "change it, use another name, or set another compatibility",
                    problems=problems,
                )
            vhost = _to_change(request)
            if _latest(vhost, name) == before:
                number, is_new = vhost.schemas.add(name, schema, mode)
                await wait_until_durable(self._broker)
                return json_response(version_row(vhost, name, number, schema), 201 if is_new else 200)
        raise Conflict(f"other requests change schema '{name}' at the same time: try again")

    async def check(self, request: Request) -> Response:
        """Whether the schema could be added as the next version."""
        seen_vhost(request)
        name, given = name_of(request, "name"), await read_object(request, required=["schema"])
        schema = await self._schema(given)
        vhost = seen_vhost(request)
        before, mode = _latest(vhost, name), _mode(given, vhost.schemas.get(name))
        problems = await self._problems(schema, before, mode)
        return json_response(
            {"compatible": not problems, "compatibility": mode, "version": before and before[0], "problems": problems}
        )

    async def delete(self, request: Request) -> Response:
        _to_change(request).schemas.delete(name_of(request, "name"))
        return await self._changed()

    async def delete_version(self, request: Request) -> Response:
        vhost, name = _to_change(request), name_of(request, "name")
        number, _ = vhost.schemas.version(name, _number(request))
        vhost.schemas.delete_version(name, number)
        return await self._changed()

    async def _schema(self, given: Row) -> Schema:
        parts = schema_given(given)
        return await self._context.in_worker(lambda: checked_schema(*parts))

    async def _problems(self, schema: Schema, before: tuple[int, Schema] | None, mode: str) -> list[str]:
        if before is None:
            return []
        return await self._context.in_worker(lambda: incompatibilities(schema, before[1], mode))


def _mode(given: Row, named: NamedSchema | None) -> str:
    return compatibility_given(given, MODES[0] if named is None else named.compatibility)


def _latest(vhost: Vhost, name: str) -> tuple[int, Schema] | None:
    return None if vhost.schemas.get(name) is None else vhost.schemas.version(name)


def _to_change(request: Request) -> Vhost:
    return vhost_to_change(request, POLICYMAKER)


def _number(request: Request) -> int | None:
    text = name_of(request, "version")
    if text == LATEST:
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > 9:
        raise BadRequest(f"version '{text[:80]}' is not a number: name a version, or '{LATEST}', in the path")
    return int(text)
