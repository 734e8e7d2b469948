"""Protection against cross-site requests, by the headers ``Origin`` and ``Sec-Fetch-Site`` that browsers send.

A page of another website can make a browser send requests to the broker, with credentials in the URL or remembered by
the browser, or with the session cookie. It cannot read the responses, so GET is allowed; requests that change something
are refused. Programs send no ``Origin``. The management UI sends the broker's own, and ``X-Requested-With``, which
another website cannot set: the browser would send a preflight request first, which the broker does not allow.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request

from leveret.http.errors import Forbidden

READS = frozenset({"GET", "HEAD", "OPTIONS"})
PAGE_HEADER = "x-requested-with"
OTHER_SITES = frozenset({"cross-site", "same-site"})  # same-site: another port or subdomain


def refuse_other_sites(request: Request) -> None:
    """For requests that change something, however they authenticate."""
    if request.method in READS or request.headers.get(PAGE_HEADER):
        return
    origins, site = request.headers.getlist("origin"), request.headers.get("sec-fetch-site", "")
    if all(_is_own(request, origin) for origin in origins) and (origins or site not in OTHER_SITES):
        return
    raise Forbidden(
        f"{request.method} {request.scope['path']} refused: it was sent by a page of another website "
        f"({', '.join(origins)[:255] or site}); send no Origin header, or add the header X-Requested-With"
    )


def refuse_unless_own_page(request: Request) -> None:
    """For requests with a cookie: browsers add it to any request, so the management UI must identify itself."""
    if request.headers.get(PAGE_HEADER) or _is_own(request, request.headers.get("origin", "")):
        return
    raise Forbidden(
        f"{request.method} {request.scope['path']} with a session cookie refused: another website may have sent it; "
        "add the header X-Requested-With, or use basic authentication"
    )


def _is_own(request: Request, origin: str) -> bool:
    return is_same_origin(origin, request.headers.get("host", ""))


def is_same_origin(origin: str, host: str) -> bool:
    """Whether the page was loaded from the host and port that it connects to. Ports default by scheme."""
    try:
        page = urlsplit(origin)
        usual = {"http": 80, "https": 443}.get(page.scheme)
        here = urlsplit(f"//{host}")
        return usual is not None and (page.hostname, page.port or usual) == (here.hostname, here.port or usual)
    except ValueError:
        return False
