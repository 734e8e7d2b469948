"""Whether a user may do something, and which permission decides. Administrators may ask for any user; nothing is done.

GET /api/permission-check?user=anna&vhost=/&action=bind queue&name=orders&exchange=shop&routing_key=order.*
GET /api/permission-check?vhost=/&action=declare exchange&name=shop&arguments={"x-implicit-bindings": true}
GET /api/permission-check/actions
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.access_checks import ACTIONS, Action, Attempt, checks_of
from leveret.api.context import ApiContext
from leveret.broker.access import DEFAULT_EXCHANGE, UserAccess
from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.http.amqp_values import as_bad_request, short_text_of, table_of
from leveret.http.bodies import decode_object
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.listings import list_response, object_response
from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, refuse_unless_role
from leveret.http.rows import Row
from leveret.http.values import excerpt, query_parameter


def routes(context: ApiContext) -> list[Route]:
    question = Question(context)
    return [
        Route("/api/permission-check", question.answer),
        Route("/api/permission-check/actions", question.actions),
    ]


class Question:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._broker = context.broker

    async def actions(self, request: Request) -> Response:
        """The operations that can be asked about, and what each of them takes."""
        refuse_unless_role(request, MANAGEMENT)
        return await list_response(self._context, request, ACTIONS, _action_row)

    async def answer(self, request: Request) -> Response:
        user = _user_asked_about(request, self._broker)
        vhost = _vhost_asked_about(request, self._broker)
        word = query_parameter(request, "action")
        action = ACTIONS.get(word)
        if action is None:
            raise BadRequest(f"'action' must be one of {', '.join(ACTIONS)}, not {excerpt(word)}")
        attempt = _attempt(request, action, UserAccess(self._broker.permissions, vhost, user))
        with as_bad_request():
            return object_response(request, _decision(word, attempt))


def _action_row(word: str) -> Row:
    action = ACTIONS[word]
    return {
        "name": word,
        "what": action.what,
        "exchange": action.other,
        "needs_exchange": action.needs_other,
        "takes_routing_key": action.takes_key,
        "takes_arguments": bool(action.other_argument),
    }


def _user_asked_about(request: Request, broker: Broker) -> str:
    """The user in the query; without one, the user that asks."""
    asking = refuse_unless_role(request, MANAGEMENT).name
    user = query_parameter(request, "user", asking)
    if user != asking:
        refuse_unless_role(request, ADMINISTRATOR)
    if user not in broker.users:
        raise ObjectNotFound(f"user '{user}' not found: name an existing one in 'user'")
    return user


def _vhost_asked_about(request: Request, broker: Broker) -> Vhost:
    name = query_parameter(request, "vhost")
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise ObjectNotFound(f"vhost '{name}' not found: name an existing one in 'vhost'")
    return vhost


def _attempt(request: Request, action: Action, access: UserAccess) -> Attempt:
    given = request.query_params
    name, other = short_text_of(given, "name", ""), short_text_of(given, "exchange", "")
    if action.what != "queue" and name == DEFAULT_EXCHANGE:
        name = ""
    if action.what == "queue" and not name:
        raise BadRequest("'name' is missing: name the queue that it is about")
    if action.needs_other and not other:
        raise BadRequest(f"'exchange' is missing: name the {action.other}")
    second = (other if other != DEFAULT_EXCHANGE else "") if other and action.other else None
    key = short_text_of(given, "routing_key") if "routing_key" in given else None
    return Attempt(access, name, second, key, _arguments(request, action, second))


def _arguments(request: Request, action: Action, second: str | None) -> Mapping[str, object]:
    if not action.other_argument:
        return {}
    text = query_parameter(request, "arguments", "")
    given = table_of({"arguments": decode_object(text.encode(), "'arguments'")}, "arguments") if text else {}
    return given if second is None else {**given, action.other_argument: second}


def _decision(word: str, attempt: Attempt) -> Row:
    """With all checks; the first that fails decides, or the last if all pass."""
    checks, user, vhost = checks_of(word, attempt), attempt.access.user, attempt.access.vhost.name
    decided = next((check for check in checks if not check.passed), checks[-1])
    name = attempt.name or DEFAULT_EXCHANGE
    may = "may" if decided.passed else "may not"
    reason = f"user '{user}' {may} {word}: '{name}' in vhost '{vhost}': {decided.text}"
    return {
        "user": user,
        "vhost": vhost,
        "action": word,
        "name": name,
        "exchange": attempt.other,
        "routing_key": attempt.key,
        "allowed": decided.passed,
        "reason": reason,
        "remedy": decided.remedy,
        "decided_by": decided.row(),
        "checks": [check.row() for check in checks],
    }
