"""The user rules of the pipeline that are not about one exchange or queue: owners, and users that write nothing."""

from __future__ import annotations

from starlette.requests import Request

from leveret.broker.vhost import Vhost
from leveret.http.authorization import access_of
from leveret.http.errors import Refused
from leveret.http.login import user_of
from leveret.http.time_slice import Turn


async def refuse_unless_writer(request: Request, vhost: Vhost) -> None:
    """Refuse a user that has no write permission on any exchange of the virtual host."""
    access, turn = access_of(request, vhost), Turn()
    for exchange in list(vhost.exchanges):
        if access.has("write", exchange):
            return
        await turn.rest()
    raise Refused(
        f"user '{user_of(request).name}' has no write permission on any exchange in vhost '{vhost.name}': grant it one"
    )
