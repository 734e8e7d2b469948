"""Which site a request comes from, as the browser that sends it says: by ``Origin``, or by ``Sec-Fetch-Site``.

A page of another site can have a browser send us what it likes: a form with a password in its address, or one that the
browser remembers; a request to which the cookie of a session is added. It does not see the answer, so it may ask. But
nothing is changed for it. Programs name no origin. Our own page names ours, and sends ``X-Requested-With``, which no
other site can set here: a browser would ask us before, and is not answered.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request

from leveret.http.errors import Refused

READS = frozenset({"GET", "HEAD", "OPTIONS"})
PAGE_HEADER = "x-requested-with"
OTHER_SITES = frozenset({"cross-site", "same-site"})  # the second: another port or name of the same owner


def refuse_other_sites(request: Request) -> None:
    """For whatever changes something, however it is logged in."""
    if request.method in READS or request.headers.get(PAGE_HEADER):
        return
    origins, site = request.headers.getlist("origin"), request.headers.get("sec-fetch-site", "")
    if all(_is_own(request, origin) for origin in origins) and (origins or site not in OTHER_SITES):
        return
    raise Refused(
        f"{request.method} {request.scope['path']} refused: it comes from a page of another site "
        f"({', '.join(origins)[:255] or site}); programs send no Origin, and a page of your own sends the header "
        "X-Requested-With"
    )


def refuse_unless_own_page(request: Request) -> None:
    """With a cookie: a browser adds it by itself, so who sent the request must show that it is our page."""
    if request.headers.get(PAGE_HEADER) or _is_own(request, request.headers.get("origin", "")):
        return
    raise Refused(
        f"{request.method} {request.scope['path']} with a session cookie refused: it may come from another site; "
        "send the header X-Requested-With, or log in by basic authentication"
    )


def _is_own(request: Request, origin: str) -> bool:
    return is_same_origin(origin, request.headers.get("host", ""))


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a page came from where it now connects to. A port that is not named is the usual one of its scheme."""
    try:
        page = urlsplit(origin)
        usual = {"http": 80, "https": 443}.get(page.scheme)
        here = urlsplit(f"//{host}")
        return usual is not None and (page.hostname, page.port or usual) == (here.hostname, here.port or usual)
    except ValueError:
        return False
