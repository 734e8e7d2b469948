"""The files of the management UI in ``webui/``, read once at the start, and a page about command lines.

The content security policy allows scripts, styles and connections of this broker only, and no framing.

The front page names the other files with the digest of all of them in their path, ``/web/DIGEST/main.js``: browsers
keep these and do not request them again, and a new release has new paths. Under another digest, as of another node
during an upgrade, and without one, the same files are served, and browsers revalidate them.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

FOLDER = Path(__file__).parent.parent / "webui"
FRONT = "index.html"
WEB = "/web/"
DIGEST = re.compile("[0-9a-f]{16}")
KEEP = "public, max-age=31536000, immutable"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

COMMAND_LINES = """Command lines for this broker

leveret
    The command line of Leveret, in the same package as the broker:
        pip install 'leveret[server]'
        leveret status --url http://HOST:15672

rabbitmqadmin
    A program of RabbitMQ that works with this broker. Leveret does not contain a copy of it. Get it from RabbitMQ:
        https://www.rabbitmq.com/docs/management-cli
    or from the path /cli/rabbitmqadmin of a RabbitMQ node, and use it with
        rabbitmqadmin --host HOST --port 15672 --username NAME --password ... list queues
"""


class File:
    __slots__ = ("body", "headers")

    def __init__(self, kind: str, body: bytes) -> None:
        self.body = body
        self.headers = {**HEADERS, "Content-Type": kind, "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}

    def answer(self, request: Request, **headers: str) -> Response:
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if self.headers["ETag"] in known:
            return Response(status_code=304, headers=self.headers | headers)
        return Response(self.body, headers=self.headers | headers)


class WebFiles:
    """index.html is served at ``/``, all other files under ``/web/``."""

    def __init__(self, folder: Path = FOLDER) -> None:
        paths = [path for path in sorted(folder.rglob("*")) if path.suffix in KINDS and path.is_file()]
        self.by_name = {
            path.relative_to(folder).as_posix(): File(KINDS[path.suffix], path.read_bytes()) for path in paths
        }
        tags = ((name, file.headers["ETag"]) for name, file in self.by_name.items())
        self.digest = hashlib.sha256(repr([*tags]).encode()).hexdigest()[:16]
        front = self.by_name.pop(FRONT).body.replace(b'"web/', f'"web/{self.digest}/'.encode())
        self._front = File(KINDS[".html"], front)

    async def front(self, request: Request) -> Response:
        return self._front.answer(request)

    async def answer(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        digest, _, below = name.partition("/")
        file = self.by_name.get(below if DIGEST.fullmatch(digest) else name)
        if file is None:
            raise HTTPException(404)
        return file.answer(request, **{"Cache-Control": KEEP} if digest == self.digest else {})


def routes(prefix: str = "") -> list[Route]:
    """``prefix``: the path below which a proxy serves the broker (request_heads.py removes it from all others)."""
    files = WebFiles()
    found = [Route("/", files.front, methods=["GET"]), Route(f"{WEB}{{name:path}}", files.answer, methods=["GET"])]
    found += [Route(path, _command_lines, methods=["GET"]) for path in ("/cli", "/cli/", "/cli/index.html")]
    found.append(Route("/cli/rabbitmqadmin", _no_rabbitmqadmin, methods=["GET"]))
    return [*found, Route(prefix, _to_folder, methods=["GET"])] if prefix else found


async def _to_folder(request: Request) -> Response:
    """The addresses in index.html are relative: the browser must see the folder, with its slash."""
    return RedirectResponse(f"{request.scope['path']}/", 301)


async def _command_lines(request: Request) -> Response:
    return PlainTextResponse(COMMAND_LINES, headers=HEADERS)


async def _no_rabbitmqadmin(request: Request) -> Response:
    """Scripts save the response as a program, so its status must be an error."""
    return PlainTextResponse(COMMAND_LINES, 404, headers=HEADERS)
