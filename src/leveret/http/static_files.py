"""The files of the management UI in ``webui/``, read once at the start. No other file is served.

The content security policy allows scripts, styles and connections of this broker only, and no framing. Browsers
revalidate the files on each visit; unchanged ones are answered with 304.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parent.parent / "webui"
FRONT = "index.html"
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


class File:
    __slots__ = ("body", "headers", "path")

    def __init__(self, path: str, kind: str, body: bytes) -> None:
        self.path = path
        self.body = body
        self.headers = {**HEADERS, "Content-Type": kind, "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}

    async def answer(self, request: Request) -> Response:
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if self.headers["ETag"] in known:
            return Response(status_code=304, headers=self.headers)
        return Response(self.body, headers=self.headers)


def files(folder: Path = FOLDER) -> list[File]:
    """index.html is served at ``/``, all other files under ``/web/``."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in KINDS and path.is_file():
            name = path.relative_to(folder).as_posix()
            found.append(File("/" if name == FRONT else f"/web/{name}", KINDS[path.suffix], path.read_bytes()))
    return found


def routes() -> list[Route]:
    return [Route(file.path, file.answer, methods=["GET"]) for file in files()]
