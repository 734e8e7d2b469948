"""Export and import of definitions, of the broker or of one virtual host. Administrators only."""

from __future__ import annotations

import asyncio
from email.message import Message

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.definitions_export import exported, exported_vhost
from leveret.api.definitions_import import carry_out, planned, refuse_problems, report
from leveret.http.authorization import known_vhost, name_of
from leveret.http.bodies import parse_definitions, read_body
from leveret.http.errors import BadRequest
from leveret.http.responses import encoded, json_bytes_response, no_content
from leveret.http.roles import ADMINISTRATOR, refuse_unless_role
from leveret.http.rows import Row
from leveret.http.values import boolean_of, query_parameter

LARGEST_FILE = 64 << 20
PATHS = ("/api/definitions", "/api/definitions/{vhost}", "/api/all-configuration")  # the last is an older path
FILE = "file"  # field of a form


def routes(context: ApiContext) -> list[Route]:
    definitions = Definitions(context)
    return [
        route
        for path in PATHS
        for route in (Route(path, definitions.show), Route(path, definitions.take, methods=["POST"]))
    ]


class Definitions:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._importing = asyncio.Lock()

    async def show(self, request: Request) -> Response:
        refuse_unless_role(request, ADMINISTRATOR)
        context = self._context
        if "vhost" in request.path_params:
            found = await exported_vhost(context, known_vhost(context.broker, name_of(request, "vhost")))
        else:
            found = await exported(context)
        answer = json_bytes_response(await context.in_worker(lambda: encoded(found)))
        if "download" in request.query_params:
            answer.headers["Content-Disposition"] = (
                f'attachment; filename="{_file_name(query_parameter(request, "download"))}"'
            )
        return answer

    async def take(self, request: Request) -> Response:
        """With ``?dry_run=true`` nothing is changed, and the response lists the changes that would be made. With
        ``?skip_unsupported=true`` objects that cannot be imported are left out, and the response lists them, too."""
        refuse_unless_role(request, ADMINISTRATOR)
        is_dry_run = boolean_of(request.query_params, "dry_run")
        skips = boolean_of(request.query_params, "skip_unsupported")
        definitions = await self._given(request)
        context = self._context
        async with self._importing:
            into = None
            if "vhost" in request.path_params:
                into = known_vhost(context.broker, name_of(request, "vhost")).name
            plan = await planned(context, definitions, into, hashes=not is_dry_run)
            if is_dry_run:
                return json_bytes_response(await context.in_worker(lambda: encoded(report(plan))))
            if not (skips and plan.can_skip):
                refuse_problems(plan)
            refuse_unless_role(request, ADMINISTRATOR)  # again: this import may have waited for others
            await carry_out(context, plan)
            if skips:
                return json_bytes_response(await context.in_worker(lambda: encoded(report(plan, is_dry_run=False))))
        return no_content()

    async def _given(self, request: Request) -> Row:
        content_type = request.headers.get("content-type", "")
        body = await read_body(request, LARGEST_FILE)
        what = f"the body of {request.url.path}"
        return await self._context.in_worker(lambda: parse_definitions(_uploaded(body, content_type), what))


def _file_name(asked: str) -> str:
    return (
        "".join(char for char in asked if char.isascii() and (char.isalnum() or char in "-_.@ ")) or "definitions.json"
    )


def _uploaded(body: bytes, content_type: str) -> bytes:
    """The body itself, or the file in a form."""
    head = Message()
    head["content-type"] = content_type
    if head.get_content_type() != "multipart/form-data":
        return body
    boundary = str(head.get_param("boundary", ""))
    if not boundary or not boundary.isascii():
        raise BadRequest("a multipart body needs a boundary in its content-type: send the file as JSON instead")
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary.encode())[1:]:
        header, blank, content = part.partition(b"\r\n\r\n")
        if blank and _field_name(header) == FILE:
            return content
    raise BadRequest(f"the form has no field '{FILE}': upload the definitions in a field of that name")


def _field_name(header: bytes) -> object:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-disposition":
            disposition = Message()
            disposition["content-disposition"] = value.decode("utf-8", "replace").strip()
            return disposition.get_param("name", header="content-disposition")
    return None
