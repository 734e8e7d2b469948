"""Explains whether a user may perform an action, and which permission decides. For administrators also of other users.

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
from leveret.api.endpoints import Endpoints
from leveret.broker.access import DEFAULT_EXCHANGE, UserAccess
from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.http.amqp_values import as_bad_request, short_text_of, table_of
from leveret.http.bodies import decode_object
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.listings import object_response
from leveret.http.roles import ADMINISTRATOR, MANAGEMENT, refuse_unless_role
from leveret.http.rows import Field, Row, RowDescription
from leveret.http.values import excerpt, query_parameter


def routes(context: ApiContext) -> list[Route]:
    question = Question(context)
    return [
        Route("/api/permission-check", question.answer),
        Route("/api/permission-check/actions", question.actions),
    ]


class Question(Endpoints):
    async def actions(self, request: Request) -> Response:
        """The actions that can be checked, and the parameters of each."""
        refuse_unless_role(request, MANAGEMENT)
        return await self._listed(request, ACTIONS.items(), ACTION_ROWS)

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


ACTION_ROWS: RowDescription[tuple[str, Action]] = RowDescription(
    [
        Field(("name",), lambda item: item[0]),
        Field(("what",), lambda item: item[1].what),
        Field(("exchange",), lambda item: item[1].other),
        Field(("needs_exchange",), lambda item: item[1].needs_other),
        Field(("takes_routing_key",), lambda item: item[1].takes_key),
        Field(("takes_arguments",), lambda item: bool(item[1].other_argument)),
    ]
)


def _user_asked_about(request: Request, broker: Broker) -> str:
    """The user in the query, by default the user of the request."""
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
        raise BadRequest("'name' is missing: pass the name of the queue")
    if action.needs_other and not other:
        raise BadRequest(f"'exchange' is missing: pass the name of the {action.other}")
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
