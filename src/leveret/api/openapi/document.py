"""The OpenAPI document of all endpoints of the HTTP port, at ``/api/openapi.json``.

Paths and methods come from the routes: every mounted endpoint is in the document. Descriptions come from the tables in
this package, by method and path; a test checks that tables and routes match. The document is built on the first
request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from leveret.api.context import ApiContext
from leveret.api.openapi.administration import ADMINISTRATION
from leveret.api.openapi.description import (
    ERROR,
    ERROR_ANSWERS,
    LOGGED_IN,
    OBJECT,
    Answer,
    Json,
    Operation,
    Operations,
    name,
)
from leveret.api.openapi.messages import MESSAGES
from leveret.api.openapi.node import NODE
from leveret.api.openapi.pipeline import PIPELINE
from leveret.api.openapi.topology import TOPOLOGY
from leveret.http.responses import encoded, json_bytes_response
from leveret.http.roles import MANAGEMENT, refuse_unless_role
from leveret.version import VERSION

PATH = "/api/openapi.json"
DESCRIBED: Operations = {**NODE, **TOPOLOGY, **MESSAGES, **ADMINISTRATION, **PIPELINE}
ANSWERED = ("GET", "PUT", "POST", "DELETE", "PATCH")  # HEAD is as GET
UNDESCRIBED = "Undescribed"

USUAL_ERRORS = (400, 401, 403, 404, 408, 409, 413, 503)
SECURITY = {
    "basic": {"type": "http", "scheme": "basic"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "leveret_session_15672",
        "description": "Set by POST /api/login; its name ends with the port. Requests other than GET also need the "
        "header X-Requested-With.",
    },
}


class Endpoint(NamedTuple):
    method: str
    path: str
    about: str  # docstring of the handler

    @property
    def key(self) -> str:
        return f"{self.method} {self.path}"


def routes(context: ApiContext) -> list[Route]:
    made: list[bytes] = []

    async def openapi(request: Request) -> Response:
        """This document."""
        refuse_unless_role(request, MANAGEMENT)
        if not made:
            every_route: Sequence[BaseRoute] = request.scope["router"].routes
            made.append(await context.in_worker(lambda: encoded(document(endpoints(every_route)))))
        return json_bytes_response(made[0])

    return [Route(PATH, openapi)]


def endpoints(every_route: Iterable[BaseRoute]) -> Iterator[Endpoint]:
    """All endpoints but the files of the management UI."""
    for route in every_route:
        if isinstance(route, Route) and route.path.startswith(("/api/", "/metrics", "/health/")):
            for method in ANSWERED:
                if method in (route.methods or ()):
                    path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
                    yield Endpoint(method, path, " ".join((route.endpoint.__doc__ or "").split()))


def document(found: Iterable[Endpoint]) -> Json:
    paths: dict[str, Json] = {}
    for endpoint in found:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation_of(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Leveret", "version": VERSION, "description": ABOUT, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "/"}],
        "security": [{"basic": []}, {"session": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in DESCRIBED.values())],
        "paths": dict(sorted(paths.items())),
        "components": {"securitySchemes": SECURITY, "schemas": {"Error": ERROR}},
    }


ABOUT = (
    "RabbitMQ's management API, extended by browsing, moving and redriving messages and by the pipeline to Spark. "
    "Percent-encode names in paths: the virtual host / is %2F."
)


def operation_of(endpoint: Endpoint) -> Json:
    described = DESCRIBED.get(endpoint.key)
    if described is None:
        described = Operation(UNDESCRIBED, endpoint.about or endpoint.key, LOGGED_IN, {200: OBJECT})
    told: Json = {
        "operationId": _id_of(endpoint),
        "tags": [described.tag],
        "summary": described.summary,
        "parameters": [*_path_parameters(endpoint.path, described), *_query_parameters(described)],
        "responses": _responses(endpoint, described),
        "description": f"{endpoint.about} {needs_text(described)}".strip(),
    }
    if described.body is not None:
        content = {kind: {"schema": described.body.schema} for kind in described.body.kinds}
        told["requestBody"] = {"required": described.body.required, "content": content}
    if described.needs.role == "":
        told["security"] = []
    return told


def _id_of(endpoint: Endpoint) -> str:
    words = re.findall(r"\w+", endpoint.path.removeprefix("/api/"))
    return "_".join([endpoint.method.lower(), *words])


def _path_parameters(path: str, described: Operation) -> list[Json]:
    return [
        {"name": part, "in": "path", "required": True, "schema": described.parts.get(part, name())}
        for part in re.findall(r"\{(\w+)\}", path)
    ]


def _query_parameters(described: Operation) -> list[Json]:
    return [
        {"name": each.name, "in": "query", "required": each.required, "schema": each.schema} for each in described.query
    ]


def _responses(endpoint: Endpoint, described: Operation) -> Json:
    told = {str(status): _response(answer) for status, answer in sorted(described.answers.items())}
    for status in USUAL_ERRORS:
        if str(status) not in told and _can_end_with(status, endpoint, described):
            told[str(status)] = _response(ERROR_ANSWERS[status])
    return told


def _can_end_with(status: int, endpoint: Endpoint, described: Operation) -> bool:
    needs = described.needs
    if status == 401:
        return needs.role != "" or endpoint.method == "POST"
    if status == 403:
        return endpoint.method != "GET" or needs.role not in ("", None, MANAGEMENT) or needs.entry != "none"
    if status == 404:
        return "{" in endpoint.path
    if status == 409:
        return endpoint.method != "GET"
    if status in (408, 413):
        return described.body is not None
    return True


def _response(answer: Answer) -> Json:
    told: Json = {"description": answer.about}
    if answer.schema is not None:
        told["content"] = {answer.kind: {"schema": answer.schema}}
    return told


# ---- permissions as text


def needs_text(described: Operation) -> str:
    needs = described.needs
    parts = ROLE_TEXTS.get(needs.role, f"Needs the tag {needs.role}, or administrator.")
    parts += ENTRY_TEXTS[needs.entry]
    if needs.permissions:
        parts += f" Needs {' and '.join(needs.permissions)}."
    return f"{parts} {needs.note}".strip()


ROLE_TEXTS = {
    "": "No login needed.",
    None: "Needs a login.",
    MANAGEMENT: "Needs a management tag.",
    "administrator": "Needs the tag administrator.",
}
ENTRY_TEXTS = {
    "none": "",
    "see": " Needs permissions in the virtual host, or the tag monitoring or administrator.",
    "enter": " Needs permissions in the virtual host.",
    "change": " Needs permissions in the virtual host, or the tag administrator.",
}
