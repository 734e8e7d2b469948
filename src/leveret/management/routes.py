"""Every endpoint of the management. One resource, one file: each has a function ``routes``."""

from __future__ import annotations

from starlette.routing import Route

from leveret.management import api_whoami
from leveret.management.office import Office


def routes(office: Office) -> list[Route]:
    resources = (api_whoami,)
    return [route for resource in resources for route in resource.routes(office)]
