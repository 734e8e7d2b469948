"""Common parts of the API's resources: routes, lists by virtual host, and changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.broker.vhost import Vhost
from leveret.http.authorization import seen_vhost
from leveret.http.durability import wait_until_durable
from leveret.http.listings import list_response
from leveret.http.responses import no_content, put_response
from leveret.http.roles import MANAGEMENT, refuse_unless_role, visible_vhosts
from leveret.http.rows import RowDescription

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]
Found = Iterable[T] | Awaitable[Iterable[T]]


def routes_of(path: str, **handlers: Handler) -> list[Route]:
    """The routes of one path, by method: ``routes_of(path, GET=show, PUT=put)``."""
    return [Route(path, handler, methods=[method]) for method, handler in handlers.items()]


def vhost_lists(
    context: ApiContext,
    path: str,
    description: RowDescription[T],
    find: Callable[[Request, Sequence[Vhost]], Found[T]],
    role: str = MANAGEMENT,
    cached: Callable[[T], bytes | None] | None = None,
) -> list[Route]:
    """Two lists: of the objects in all virtual hosts that the user may see, and of those in one of them.

    ``find`` returns the objects. It may return an iterator, over copies of the broker's collections: other tasks run
    while the list is made. ``cached``: as for ``list_response``.
    """

    async def list_all(request: Request) -> Response:
        refuse_unless_role(request, role)
        return await listed(request, visible_vhosts(request))

    async def list_of_vhost(request: Request) -> Response:
        refuse_unless_role(request, role)
        return await listed(request, [seen_vhost(request)])

    async def listed(request: Request, vhosts: Sequence[Vhost]) -> Response:
        found = find(request, vhosts)
        things = await found if isawaitable(found) else found
        return await list_response(context, request, things, description, cached)

    return [Route(path, list_all), Route(f"{path}/{{vhost}}", list_of_vhost)]


class Endpoints:
    """The endpoints of one resource."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._broker = context.broker

    async def _listed(self, request: Request, things: Iterable[T], description: RowDescription[T]) -> Response:
        return await list_response(self._context, request, things, description)

    async def _put(self, is_new: bool) -> Response:
        """201 or 204, once all changes are durable."""
        await wait_until_durable(self._broker)
        return put_response(is_new)

    async def _changed(self) -> Response:
        """204, once all changes are durable."""
        await wait_until_durable(self._broker)
        return no_content()
