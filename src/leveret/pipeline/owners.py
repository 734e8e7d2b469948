"""The user rules of the pipeline that are not about one exchange or queue: owners, and users that write nothing."""

from __future__ import annotations

from starlette.requests import Request

from leveret.broker.vhost import Vhost
from leveret.http.authorization import access_of
from leveret.http.errors import Forbidden
from leveret.http.login import user_of
from leveret.http.time_slice import TimeSlice


async def refuse_unless_writer(request: Request, vhost: Vhost) -> None:
    """Refuse a user that has no write permission on any exchange of the virtual host."""
    access, time_slice = access_of(request, vhost), TimeSlice()
    for exchange in list(vhost.exchanges):
        if access.has("write", exchange):
            return
        await time_slice.pause_if_over()
    raise Forbidden(
        f"user '{user_of(request).name}' has no write permission on any exchange in vhost '{vhost.name}': grant it one"
    )
