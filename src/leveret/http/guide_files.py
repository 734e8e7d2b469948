"""The pages of the guide (``docs/guide``), which the management UI shows: ``/web/guide/NAME.md``.

The wheel has them in ``leveret/guide``. In a checkout they are read where they are. They are read at each request,
because they are seldom asked for; only names that were there at the start are served.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.http.static_files import HEADERS, WEB, File

INSTALLED = Path(__file__).parents[1] / "guide"
CHECKOUT = Path(__file__).parents[3] / "docs" / "guide"
MARKDOWN = "text/markdown; charset=utf-8"


class GuideFiles:
    def __init__(self, folder: Path) -> None:
        self._by_name = {path.stem: path for path in sorted(folder.glob("*.md"))}

    async def answer(self, request: Request) -> Response:
        path = self._by_name.get(request.path_params["name"])
        if path is None:
            raise HTTPException(404, headers=HEADERS)
        return File(MARKDOWN, await asyncio.to_thread(path.read_bytes)).answer(request)


def routes() -> list[Route]:
    files = GuideFiles(INSTALLED if INSTALLED.is_dir() else CHECKOUT)
    return [Route(f"{WEB}guide/{{name}}.md", files.answer, methods=["GET"])]
