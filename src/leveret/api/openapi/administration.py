"""Descriptions of users, permissions, virtual hosts, policies, parameters, limits and definitions."""

from __future__ import annotations

from leveret.api.openapi.description import (
    ADMIN,
    COLUMNS,
    DONE,
    ERROR_ANSWERS,
    FORM,
    JSON,
    OBJECT,
    POLICY_MAKER,
    SEES,
    VIEWER,
    WINDOWS,
    Answer,
    Body,
    Json,
    Needs,
    Operation,
    Operations,
    Query,
    Resource,
    anything,
    changes,
    list_of,
    record,
    table,
    text,
    truth,
    whole,
)
from leveret.api.parameters import GLOBAL_ROWS, PARAMETER_ROWS, USER_LIMIT_ROWS, VHOST_LIMIT_ROWS
from leveret.api.permission_check import ACTION_ROWS
from leveret.api.permissions import RULE_ROWS, TOPIC_RULE_ROWS
from leveret.api.policies import POLICY_ROWS
from leveret.api.vhosts import VHOST_ROWS
from leveret.api.views.policy_key import KEY_ROWS
from leveret.api.views.schema import SCHEMA_ROWS
from leveret.api.views.user import USER_ROWS
from leveret.http.roles import ADMINISTRATOR, POLICYMAKER

users = Resource("Users", USER_ROWS)
permissions = Resource("Permissions", RULE_ROWS)
topic_permissions = Resource("Permissions", TOPIC_RULE_ROWS)
vhosts = Resource("Virtual hosts", VHOST_ROWS)
policies = Resource("Policies", POLICY_ROWS)
parameters = Resource("Parameters", PARAMETER_ROWS)
global_parameters = Resource("Parameters", GLOBAL_ROWS)
vhost_limits, user_limits = Resource("Limits", VHOST_LIMIT_ROWS), Resource("Limits", USER_LIMIT_ROWS)
schemas = Resource("Schemas", SCHEMA_ROWS)
definitions = Resource("Definitions")

TAGS: Json = {"oneOf": [list_of(text()), text("Comma-separated")]}
USER = record(
    {"tags": TAGS},
    password=text("Or password_hash; without both the user cannot log in with a password"),
    password_hash=text("Salted hash, as exported"),
    hashing_algorithm=text("Algorithm of password_hash"),
    limits=table("max-connections, max-channels"),
)
VHOST = record(
    description=text(),
    tags=TAGS,
    default_queue_type=text("The type of queues that are declared without x-queue-type"),
    metadata=table("description, tags and default_queue_type, as in exported definitions"),
    tracing=truth(),
    cell=text("The cell where it lives, of a broker with several cells; by default it spans all cells"),
)
RULE = record({"configure": text("A regular expression"), "write": text(), "read": text()})
TOPIC_RULE = record({"exchange": text(longest=255), "write": text("A regular expression"), "read": text()})
POLICY = record(
    {"pattern": text("A regular expression that matches names of queues and exchanges"), "definition": table()},
    **{
        "priority": {"type": "integer"},
        "apply-to": text("all, queues, exchanges, classic_queues, quorum_queues or streams"),
    },
)
ONE_SCHEMA = "/api/schemas/{vhost}/{name}"
SCHEMA = record(
    {"schema": text("JSON of Avro, base64 of a FileDescriptorSet, or fields of JSON in Spark's DDL", longest=65536)},
    type=text("Default: avro", one_of=("avro", "protobuf", "json")),
    message=text("Full name of the message, for protobuf only"),
    compatibility=text("Default: that of the name, or backward", one_of=("backward", "forward", "full", "none")),
)
VERSION = {"version": text("A number, or latest")}
VALUE = record({"value": anything()})
LIMIT = record({"value": whole("A negative value removes the limit", -1)})
VHOST_LIMIT = {"name": text(one_of=("max-connections", "max-queues"))}
USER_LIMIT = {"name": text(one_of=("max-connections", "max-channels"))}
COMPONENT = {"component": text(one_of=("vhost-limits", "policy", "operator_policy"))}
EXPORT = record(
    **{
        kind: list_of(table())
        for kind in [
            "vhosts",
            "users",
            "permissions",
            "topic_permissions",
            "parameters",
            "global_parameters",
            "policies",
            "schemas",
            "queues",
            "exchanges",
            "bindings",
        ]
    }
)
POLICY_SEES = Needs(POLICYMAKER, "see")
BY_COMPONENT = Needs(POLICYMAKER, "change", note="Components other than policy need administrator.")
OWN_OR_MONITOR = VIEWER._replace(note="Other users need monitoring or administrator.")


def _policies(kind: str, path: str, role: str) -> dict[str, Operation]:
    one = f"{path}/{{vhost}}/{{name}}"
    return {
        **policies.vhost_lists(path, kind),
        f"GET {one}": policies.shows(f"Get one of the {kind}", SEES, *COLUMNS),
        f"PUT {one}": policies.puts(f"Set one of the {kind}", changes(role), POLICY),
        f"DELETE {one}": policies.deletes(f"Delete one of the {kind}", changes(role)),
    }


def _definitions(path: str, of_what: str) -> dict[str, Operation]:
    return {
        f"GET {path}": definitions.does(
            f"Export the definitions of {of_what}",
            ADMIN,
            {200: OBJECT},
            Query("download", text("Name of the downloaded file")),
        ),
        f"POST {path}": definitions.does(
            f"Import definitions into {of_what}: all of them, or none if one is invalid",
            ADMIN,
            {
                200: Answer("The changes (dry run), or those made and the objects left out", {"type": "object"}),
                204: DONE,
            },
            Query("dry_run", truth("Return the changes without making them")),
            Query("skip_unsupported", truth("Leave out objects that cannot be imported, and return them")),
            body=Body(EXPORT, kinds=(JSON, FORM)),
        ),
    }


ADMINISTRATION: Operations = {
    # ---- users and permissions
    "GET /api/users": users.lists("List users", ADMIN),
    "GET /api/users/without-permissions": users.lists("List users without permissions in any virtual host", ADMIN),
    "POST /api/users/bulk-delete": users.does(
        "Delete users: all of them, or none if one does not exist",
        ADMIN,
        {204: DONE},
        body=Body(record({"users": list_of(text())})),
    ),
    "GET /api/users/{user}": users.shows("Get a user", ADMIN, *COLUMNS),
    "PUT /api/users/{user}": users.puts("Create or update a user", ADMIN, USER),
    "DELETE /api/users/{user}": users.deletes("Delete a user and close its connections", ADMIN),
    "GET /api/users/{user}/permissions": users.lists("List permissions of a user", ADMIN, rows=RULE_ROWS),
    "GET /api/users/{user}/topic-permissions": users.lists(
        "List topic permissions of a user", ADMIN, rows=TOPIC_RULE_ROWS
    ),
    "GET /api/permissions": permissions.lists("List permissions", ADMIN),
    "GET /api/permissions/{vhost}/{user}": permissions.shows(
        "Get permissions of a user in a virtual host", ADMIN, *COLUMNS
    ),
    "PUT /api/permissions/{vhost}/{user}": permissions.puts("Set permissions of a user in a virtual host", ADMIN, RULE),
    "DELETE /api/permissions/{vhost}/{user}": permissions.deletes(
        "Clear permissions of a user in a virtual host", ADMIN
    ),
    "GET /api/topic-permissions": topic_permissions.lists("List topic permissions", ADMIN),
    "GET /api/topic-permissions/{vhost}/{user}": topic_permissions.lists(
        "List topic permissions of a user in a virtual host", ADMIN
    ),
    "PUT /api/topic-permissions/{vhost}/{user}": topic_permissions.puts(
        "Set topic permissions for an exchange", ADMIN, TOPIC_RULE
    ),
    "DELETE /api/topic-permissions/{vhost}/{user}": topic_permissions.deletes(
        "Clear all topic permissions of a user in a virtual host", ADMIN
    ),
    "GET /api/topic-permissions/{vhost}/{user}/{exchange}": topic_permissions.lists(
        "Get topic permissions for an exchange", ADMIN
    ),
    "DELETE /api/topic-permissions/{vhost}/{user}/{exchange}": topic_permissions.deletes(
        "Clear topic permissions for an exchange", ADMIN
    ),
    "GET /api/permission-check": permissions.does(
        "Check whether a user may perform an action, and why",
        VIEWER._replace(note="Other users need administrator."),
        {200: OBJECT, 403: ERROR_ANSWERS[403], 404: ERROR_ANSWERS[404]},
        *COLUMNS,
        Query("user", text("Default: the user of the request")),
        Query("vhost", text(), required=True),
        Query("action", text("One of /api/permission-check/actions"), required=True),
        Query("name", text("Name of the queue or exchange", longest=255)),
        Query("exchange", text("Name of the other exchange, for actions on two objects", longest=255)),
        Query("routing_key", text("Routing key, for topic exchanges", longest=255)),
        Query("arguments", text("Arguments of the declaration, a JSON object")),
    ),
    "GET /api/permission-check/actions": permissions.lists(
        "List the actions that can be checked", VIEWER, rows=ACTION_ROWS
    ),
    # ---- virtual hosts
    "GET /api/vhosts": vhosts.lists("List virtual hosts that the user may see", VIEWER, *WINDOWS),
    "GET /api/vhosts/{vhost}": vhosts.shows("Get a virtual host", SEES, *COLUMNS, *WINDOWS),
    "PUT /api/vhosts/{vhost}": vhosts.puts("Create or update a virtual host", ADMIN, VHOST, may_be_empty=True),
    "DELETE /api/vhosts/{vhost}": vhosts.deletes("Delete a virtual host and everything in it", ADMIN),
    "GET /api/vhosts/{vhost}/permissions": vhosts.lists("List permissions in a virtual host", ADMIN, rows=RULE_ROWS),
    "GET /api/vhosts/{vhost}/topic-permissions": vhosts.lists(
        "List topic permissions in a virtual host", ADMIN, rows=TOPIC_RULE_ROWS
    ),
    "POST /api/vhosts/{vhost}/start/{node}": vhosts.does(
        "Start a virtual host (no effect: every virtual host runs)", ADMIN, {204: DONE}
    ),
    # ---- policies, parameters, limits
    **_policies("policies", "/api/policies", POLICYMAKER),
    **_policies("operator policies", "/api/operator-policies", ADMINISTRATOR),
    "GET /api/policies-explained/{vhost}/{kind}/{name}": policies.shows(
        "Explain the effective policy of a queue or exchange",
        SEES,
        *COLUMNS,
        parts={"kind": text(one_of=("queue", "exchange"))},
    ),
    "GET /api/policy-keys": policies.lists("List the keys of a policy definition", VIEWER, rows=KEY_ROWS),
    "GET /api/policy-matches/{vhost}": policies.shows(
        "List the queues and exchanges that a pattern matches",
        SEES,
        Query("pattern", text("A regular expression")),
        Query("apply-to", text("As in a policy")),
    ),
    "GET /api/parameters": parameters.lists("List parameters, without policies", POLICY_MAKER),
    "GET /api/parameters/{component}": parameters.lists("List parameters of a component", POLICY_MAKER),
    "GET /api/parameters/{component}/{vhost}": parameters.lists(
        "List parameters of a component in a virtual host", POLICY_SEES
    ),
    "GET /api/parameters/{component}/{vhost}/{name}": parameters.shows("Get a parameter", POLICY_SEES, *COLUMNS),
    "PUT /api/parameters/{component}/{vhost}/{name}": parameters.puts(
        "Set a parameter", BY_COMPONENT, VALUE, parts=COMPONENT
    ),
    "DELETE /api/parameters/{component}/{vhost}/{name}": parameters.deletes(
        "Delete a parameter", BY_COMPONENT, parts=COMPONENT
    ),
    "GET /api/global-parameters": global_parameters.lists("List global parameters", POLICY_MAKER),
    "GET /api/global-parameters/{name}": global_parameters.shows("Get a global parameter", POLICY_MAKER, *COLUMNS),
    "PUT /api/global-parameters/{name}": global_parameters.puts("Set a global parameter", POLICY_MAKER, VALUE),
    "DELETE /api/global-parameters/{name}": global_parameters.deletes("Delete a global parameter", POLICY_MAKER),
    "GET /api/vhost-limits": vhost_limits.lists("List limits of virtual hosts", VIEWER),
    "GET /api/vhost-limits/{vhost}": vhost_limits.lists("List limits of a virtual host", SEES),
    "PUT /api/vhost-limits/{vhost}/{name}": vhost_limits.does(
        "Set a limit of a virtual host", ADMIN, {204: DONE}, body=Body(LIMIT), parts=VHOST_LIMIT
    ),
    "DELETE /api/vhost-limits/{vhost}/{name}": vhost_limits.deletes(
        "Clear a limit of a virtual host", ADMIN, parts=VHOST_LIMIT
    ),
    "GET /api/user-limits": user_limits.lists("List limits of users", OWN_OR_MONITOR),
    "GET /api/user-limits/{user}": user_limits.lists("List limits of a user", OWN_OR_MONITOR),
    "PUT /api/user-limits/{user}/{name}": user_limits.does(
        "Set a limit of a user", ADMIN, {204: DONE}, body=Body(LIMIT), parts=USER_LIMIT
    ),
    "DELETE /api/user-limits/{user}/{name}": user_limits.deletes("Clear a limit of a user", ADMIN, parts=USER_LIMIT),
    # ---- schemas
    **schemas.vhost_lists("/api/schemas", "schemas"),
    f"GET {ONE_SCHEMA}": schemas.shows("Get the versions of a schema", SEES, *COLUMNS),
    f"PUT {ONE_SCHEMA}": schemas.does(
        "Add a version of a schema; the same schema again returns its version",
        changes(POLICYMAKER),
        {201: OBJECT, 200: OBJECT},
        body=Body(SCHEMA),
    ),
    f"DELETE {ONE_SCHEMA}": schemas.deletes("Delete a schema with all versions", changes(POLICYMAKER)),
    f"POST {ONE_SCHEMA}/check": schemas.does(
        "Check whether a schema could be added as the next version", SEES, {200: OBJECT}, body=Body(SCHEMA)
    ),
    f"GET {ONE_SCHEMA}/{{version}}": schemas.shows("Get a version of a schema", SEES, *COLUMNS, parts=VERSION),
    f"DELETE {ONE_SCHEMA}/{{version}}": schemas.deletes(
        "Delete a version of a schema", changes(POLICYMAKER), parts=VERSION
    ),
    "GET /api/schema-ids/{vhost}/{id}": schemas.shows("Get a schema by its ID", SEES, *COLUMNS),
    # ---- definitions
    **_definitions("/api/definitions", "the broker"),
    **_definitions("/api/all-configuration", "the broker (older path)"),
    **_definitions("/api/definitions/{vhost}", "a virtual host"),
}
