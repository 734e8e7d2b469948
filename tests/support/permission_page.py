"""docs/guide/permissions.md, generated from the rules: run ``make permissions-page`` after a change."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from leveret.api.openapi.description import Needs, Operation
from leveret.api.openapi.document import DESCRIBED
from leveret.broker.permission_rules import RULES
from leveret.broker.permission_rules import Operation as Permitted
from tests.support.matrix_arguments import ROWS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "permissions.md"

HEAD = """# Permissions

Access is controlled by permissions and by tags. **Permissions** are set for a user in one virtual host: three regular
expressions, for *configure*, *write* and *read*, matched against the names of queues and exchanges. **Tags** of a user
grant access to the HTTP API; they have no effect over AMQP.

| Tag | Over HTTP |
|---|---|
| none | only the pipeline (`/api/pipeline`), with permissions |
| `management` | sees the virtual hosts that it has permissions in, and its own connections |
| `policymaker` | the same, and sets policies and parameters there |
| `monitoring` | as management, and sees all virtual hosts, connections and nodes |
| `administrator` | everything; operations on queues, exchanges and messages need permissions for administrators too |

The response is 401 without a login, and for a user without a management tag where one is needed. All other refusals are
403 over HTTP; over AMQP they close the channel with 403, or the connection with 530 if the user may not access the
virtual host. A test tries every line of these tables with every kind of user.

## Operations

The same rules apply in every protocol. A user needs permissions in the virtual host, if only empty ones; then:

| Operation | AMQP method | Needs |
|---|---|---|
"""
AFTER_OPERATIONS = """
A passive declare is *look at*. A server-named queue needs *configure* on a name that begins with `amq.gen-`; the
default exchange has the name `amq.default` in permissions. Topic permissions (*write topic*, *read topic*) are checked
for topic exchanges, if the user has one for the exchange. AMQP methods that are not listed need nothing more.
"""

ARGUMENTS = """
## Arguments, headers and fields

An argument, header or field that names another object, or makes the broker act on one, needs permissions for that as
well, in every protocol. *new* is the name of the object that is declared; *x*, *t* (a topic exchange), *q* and *s* (a
stream) are the objects that are named. Topic permissions are checked only if the user has one for the exchange.
Policies need none of this: setting them takes the tag `policymaker`.

| Operation | Needs |
|---|---|
"""
HTTP = """
## HTTP

*Sees*: permissions in the virtual host, or the tag `monitoring` or `administrator`. *Enters*: permissions in the
virtual host, whatever the tags. *Changes*: permissions there, or `administrator`. An administrator has every role.
"""
WAYS = {"none": "", "see": "sees", "enter": "enters", "change": "changes"}


METHODS_OF: dict[Permitted, str] = {
    "declare queue": "queue.declare",
    "delete queue": "queue.delete",
    "look at queue": "queue.declare, passive",
    "bind queue": "queue.bind",
    "unbind queue": "queue.unbind",
    "consume": "basic.consume",
    "get": "basic.get",
    "settle": "basic.ack, basic.nack, basic.reject",
    "purge": "queue.purge",
    "publish": "basic.publish",
    "declare exchange": "exchange.declare",
    "delete exchange": "exchange.delete",
    "look at exchange": "exchange.declare, passive",
    "bind exchange": "exchange.bind",
    "unbind exchange": "exchange.unbind",
}


def render() -> str:
    operations = "".join(_operation(operation) for operation in RULES) + AFTER_OPERATIONS
    arguments = (f"| {name} | {', '.join(map(str, row.needs))} |\n" for name, row in ROWS.items())
    return HEAD + operations + ARGUMENTS + "".join(arguments) + HTTP + "".join(_http())


def _operation(operation: Permitted) -> str:
    needs = ", ".join(rule.text for rule in RULES[operation] if rule.text) or "nothing more"
    more = "; more for some arguments" if any(not rule.text for rule in RULES[operation]) else ""
    return f"| {operation} | {METHODS_OF.get(operation, 'none')} | {needs}{more} |\n"


def _http() -> Iterator[str]:
    rows = sorted(DESCRIBED.items(), key=lambda row: (row[1].tag, _path_first(row[0])))
    for tag, group in groupby(rows, key=lambda row: row[1].tag):
        yield f"\n### {tag}\n\n| Request | Tag | Virtual host | Permissions |\n|---|---|---|---|\n"
        yield from (_row(key, operation) for key, operation in group)


def _path_first(key: str) -> tuple[str, str]:
    method, _, path = key.partition(" ")
    return path, method


def _row(key: str, operation: Operation) -> str:
    needs = operation.needs
    said = "; ".join(part for part in (", ".join(needs.permissions), needs.note) if part)
    return f"| `{key}` | {_tag(needs)} | {WAYS[needs.entry]} | {said} |\n"


def _tag(needs: Needs) -> str:
    return {"": "no login", None: "any user"}.get(needs.role, f"`{needs.role}`")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
