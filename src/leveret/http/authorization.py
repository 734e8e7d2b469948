"""Authorization of an endpoint: the user, the virtual host, the role and the permissions that it needs.

The rules are those of the broker (broker/permission_rules.py) and of the tags (http/roles.py). Every refusal is an
error that names the object, the cause and the remedy.
"""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request

from leveret.broker.access import UserAccess, may_enter
from leveret.broker.broker import Broker
from leveret.broker.caller import Caller
from leveret.broker.vhost import Vhost
from leveret.http.errors import BadRequest, Blocked, Forbidden, ObjectNotFound, Paused
from leveret.http.login import broker_of, user_of
from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, POLICYMAKER, has_role, may_see, refuse_unless_role
from leveret.http.values import excerpt, is_valid_text

LONGEST_NAME = 255  # bytes


# ---- names


def name_of(request: Request, key: str) -> str:
    """A part of the path."""
    name = unquote(request.path_params[key])
    refuse_bad_name(name, key)
    return name


def refuse_bad_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not is_valid_text(name) or not 1 <= len(name.encode()) <= LONGEST_NAME:
        raise BadRequest(f"'{what}' must be a string of 1 to {LONGEST_NAME} bytes, not {excerpt(name)}")


# ---- virtual hosts


def known_vhost(broker: Broker, name: str) -> Vhost:
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise ObjectNotFound(f"vhost '{name}' not found: name an existing one, percent-encoded, in the path")
    return vhost


def vhost_of(request: Request) -> Vhost:
    """The virtual host of the path, for any user with permissions there."""
    vhost = known_vhost(broker_of(request), unquote(request.path_params["vhost"]))
    _refuse_stranger(request, vhost, is_known=_may_enter(request, vhost))
    return vhost


def seen_vhost(request: Request) -> Vhost:
    """The virtual host of the path, if the user may see its objects."""
    refuse_unless_role(request, MANAGEMENT)
    vhost = known_vhost(broker_of(request), name_of(request, "vhost"))
    _refuse_stranger(request, vhost, is_known=may_see(request, vhost.name))
    return vhost


def entered_vhost(request: Request) -> Vhost:
    """The virtual host of the path, for a management user with permissions there."""
    refuse_unless_role(request, MANAGEMENT)
    return vhost_of(request)


def other_vhost(request: Request, name: str) -> Vhost:
    """A virtual host besides that of the path, for a user with permissions there."""
    vhost = broker_of(request).vhosts.get(name)
    if vhost is None:
        raise ObjectNotFound(f"vhost '{name}' not found: name an existing one")
    _refuse_stranger(request, vhost, is_known=_may_enter(request, vhost))
    return vhost


def vhost_to_change(request: Request, role: str) -> Vhost:
    """The virtual host of the path, for a change that needs ``role``. Administrators need no permissions there."""
    user = refuse_unless_role(request, role)
    vhost = known_vhost(broker_of(request), name_of(request, "vhost"))
    _refuse_stranger(request, vhost, is_known=has_role(user, ADMINISTRATOR) or _may_enter(request, vhost))
    return vhost


def _may_enter(request: Request, vhost: Vhost) -> bool:
    return may_enter(broker_of(request).permissions, user_of(request).name, vhost.name)


def _refuse_stranger(request: Request, vhost: Vhost, *, is_known: bool) -> None:
    if not is_known:
        user = user_of(request).name
        raise Forbidden(f"access to vhost '{vhost.name}' refused for user '{user}': give it permissions there")


# ---- permissions


def role_to_change(component: str) -> str:
    """Limits and operator policies need the tag administrator, other policies policymaker."""
    return POLICYMAKER if component == "policy" else ADMINISTRATOR


def access_of(request: Request, vhost: Vhost) -> UserAccess:
    user = user_of(request)
    return UserAccess(broker_of(request).permissions, vhost, user.name, user.tags)


def caller_of(request: Request, vhost: Vhost) -> Caller:
    return Caller(access_of(request, vhost))


def refuse_while_blocked(broker: Broker) -> None:
    """Publishers are blocked during an alarm."""
    if broker.alarms:
        raise Blocked(f"publishers are blocked: {', '.join(broker.alarms.values())}; try again when the alarm is over")


def refuse_while_paused(broker: Broker) -> None:
    """An empty answer would mean an empty queue."""
    broker.deliveries.check()
    if broker.deliveries.reason is not None:
        raise Paused(f"deliveries are paused: {broker.deliveries.reason}; try again later")
