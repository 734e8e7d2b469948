"""What is described of users and what they may, virtual hosts, policies, parameters, limits and definitions."""

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
from leveret.http.roles import ADMINISTRATOR, POLICYMAKER

users = Resource("Users")
permissions = Resource("Permissions")
vhosts = Resource("Virtual hosts")
policies = Resource("Policies")
parameters = Resource("Parameters")
limits = Resource("Limits")
definitions = Resource("Definitions")

TAGS: Json = {"oneOf": [list_of(text()), text("With commas between")]}
USER = record(
    {"tags": TAGS},
    password=text("Or password_hash; without both nobody can log in with a password"),
    password_hash=text("As exported"),
    hashing_algorithm=text("Of the hash"),
    limits=table("max-connections, max-channels"),
)
VHOST = record(
    description=text(),
    tags=TAGS,
    default_queue_type=text("Noted only"),
    metadata=table("The same, as in an export"),
    tracing=truth(),
)
RULE = record({"configure": text("A regular expression"), "write": text(), "read": text()})
TOPIC_RULE = record({"exchange": text(longest=255), "write": text("A regular expression"), "read": text()})
POLICY = record(
    {"pattern": text("Names that it is for, a regular expression"), "definition": table()},
    **{
        "priority": {"type": "integer"},
        "apply-to": text("all, queues, exchanges, classic_queues, quorum_queues or streams"),
    },
)
VALUE = record({"value": anything()})
LIMIT = record({"value": whole("Negative for none", -1)})
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
            "queues",
            "exchanges",
            "bindings",
        ]
    }
)
POLICY_SEES = Needs(POLICYMAKER, "see")
BY_COMPONENT = Needs(POLICYMAKER, "change", note="For all components but policy, administrator.")
OWN_OR_MONITOR = VIEWER._replace(note="Of other users for monitoring and administrator only.")


def _policies(kind: str, path: str, role: str) -> dict[str, Operation]:
    one = f"{path}/{{vhost}}/{{name}}"
    return {
        f"GET {path}": policies.lists(f"All {kind}", VIEWER),
        f"GET {path}/{{vhost}}": policies.lists(f"Of {kind}, those of a virtual host", SEES),
        f"GET {one}": policies.shows(f"One of the {kind}", SEES, *COLUMNS),
        f"PUT {one}": policies.puts(f"Set one of the {kind}", changes(role), POLICY),
        f"DELETE {one}": policies.deletes(f"Delete one of the {kind}", changes(role)),
    }


def _definitions(path: str, of_what: str) -> dict[str, Operation]:
    return {
        f"GET {path}": definitions.does(
            f"Definitions of {of_what}", ADMIN, {200: OBJECT}, Query("download", text("As a file of this name"))
        ),
        f"POST {path}": definitions.does(
            f"Take definitions into {of_what}: all, or none if one cannot be",
            ADMIN,
            {200: Answer("What a dry run would do", {"type": "object"}), 204: DONE},
            Query("dry_run", truth("Change nothing and tell what would be done")),
            body=Body(EXPORT, kinds=(JSON, FORM)),
        ),
    }


ADMINISTRATION: Operations = {
    # ---- users and what they may
    "GET /api/users": users.lists("All users", ADMIN),
    "GET /api/users/without-permissions": users.lists("Users without permissions anywhere", ADMIN),
    "POST /api/users/bulk-delete": users.does(
        "Delete users: all, or none if one is not there",
        ADMIN,
        {204: DONE},
        body=Body(record({"users": list_of(text())})),
    ),
    "GET /api/users/{user}": users.shows("A user", ADMIN, *COLUMNS),
    "PUT /api/users/{user}": users.puts("Make or change a user", ADMIN, USER),
    "DELETE /api/users/{user}": users.deletes("Delete a user; its connections are closed", ADMIN),
    "GET /api/users/{user}/permissions": users.lists("Permissions of a user", ADMIN),
    "GET /api/users/{user}/topic-permissions": users.lists("Topic permissions of a user", ADMIN),
    "GET /api/permissions": permissions.lists("All permissions", ADMIN),
    "GET /api/permissions/{vhost}/{user}": permissions.shows("Of a user in a virtual host", ADMIN, *COLUMNS),
    "PUT /api/permissions/{vhost}/{user}": permissions.puts("Set permissions", ADMIN, RULE),
    "DELETE /api/permissions/{vhost}/{user}": permissions.deletes("Take permissions away", ADMIN),
    "GET /api/topic-permissions": permissions.lists("All topic permissions", ADMIN),
    "GET /api/topic-permissions/{vhost}/{user}": permissions.lists("Of a user in a virtual host", ADMIN),
    "PUT /api/topic-permissions/{vhost}/{user}": permissions.puts("Set one for an exchange", ADMIN, TOPIC_RULE),
    "DELETE /api/topic-permissions/{vhost}/{user}": permissions.deletes("Take all of them away", ADMIN),
    "GET /api/topic-permissions/{vhost}/{user}/{exchange}": permissions.lists("The one for an exchange", ADMIN),
    "DELETE /api/topic-permissions/{vhost}/{user}/{exchange}": permissions.deletes("Take that one away", ADMIN),
    "GET /api/permission-check": permissions.does(
        "May a user do that, and why",
        VIEWER._replace(note="Of other users for administrator only."),
        {200: OBJECT, 403: ERROR_ANSWERS[403], 404: ERROR_ANSWERS[404]},
        *COLUMNS,
        Query("user", text("Without one, whoever asks")),
        Query("vhost", text(), required=True),
        Query("action", text("One of /api/permission-check/actions"), required=True),
        Query("name", text("Of the queue or the exchange", longest=255)),
        Query("exchange", text("The other one that the action is about", longest=255)),
        Query("routing_key", text("On a topic exchange", longest=255)),
        Query("arguments", text("Arguments of the declaration, a JSON object")),
    ),
    "GET /api/permission-check/actions": permissions.lists("What can be asked about", VIEWER),
    # ---- virtual hosts
    "GET /api/vhosts": vhosts.lists("Virtual hosts that the user may see", VIEWER, *WINDOWS),
    "GET /api/vhosts/{vhost}": vhosts.shows("A virtual host", SEES, *COLUMNS, *WINDOWS),
    "PUT /api/vhosts/{vhost}": vhosts.puts("Make or change a virtual host", ADMIN, VHOST, may_be_empty=True),
    "DELETE /api/vhosts/{vhost}": vhosts.deletes("Delete a virtual host with all that is in it", ADMIN),
    "GET /api/vhosts/{vhost}/permissions": vhosts.lists("Permissions in a virtual host", ADMIN),
    "GET /api/vhosts/{vhost}/topic-permissions": vhosts.lists("Topic permissions in a virtual host", ADMIN),
    "POST /api/vhosts/{vhost}/start/{node}": vhosts.does("Start a virtual host: it runs", ADMIN, {204: DONE}),
    # ---- policies, parameters, limits
    **_policies("policies", "/api/policies", POLICYMAKER),
    **_policies("operator policies", "/api/operator-policies", ADMINISTRATOR),
    "GET /api/policies-explained/{vhost}/{kind}/{name}": policies.shows(
        "Which values hold for a queue or an exchange, and why",
        SEES,
        *COLUMNS,
        parts={"kind": text(one_of=("queue", "exchange"))},
    ),
    "GET /api/policy-keys": policies.lists("Keys that a policy can have", VIEWER),
    "GET /api/policy-matches/{vhost}": policies.shows(
        "What a pattern would match",
        SEES,
        Query("pattern", text("A regular expression")),
        Query("apply-to", text("As of a policy")),
    ),
    "GET /api/parameters": parameters.lists("All parameters but policies", POLICY_MAKER),
    "GET /api/parameters/{component}": parameters.lists("Parameters of a component", POLICY_MAKER),
    "GET /api/parameters/{component}/{vhost}": parameters.lists("Those of a virtual host", POLICY_SEES),
    "GET /api/parameters/{component}/{vhost}/{name}": parameters.shows("A parameter", POLICY_SEES, *COLUMNS),
    "PUT /api/parameters/{component}/{vhost}/{name}": parameters.puts(
        "Set a parameter", BY_COMPONENT, VALUE, parts=COMPONENT
    ),
    "DELETE /api/parameters/{component}/{vhost}/{name}": parameters.deletes(
        "Delete a parameter", BY_COMPONENT, parts=COMPONENT
    ),
    "GET /api/global-parameters": parameters.lists("Values that tools keep here", POLICY_MAKER),
    "GET /api/global-parameters/{name}": parameters.shows("One of them", POLICY_MAKER, *COLUMNS),
    "PUT /api/global-parameters/{name}": parameters.puts("Keep a value", POLICY_MAKER, VALUE),
    "DELETE /api/global-parameters/{name}": parameters.deletes("Forget a value", POLICY_MAKER),
    "GET /api/vhost-limits": limits.lists("Limits of virtual hosts", VIEWER),
    "GET /api/vhost-limits/{vhost}": limits.lists("Limits of a virtual host", SEES),
    "PUT /api/vhost-limits/{vhost}/{name}": limits.does(
        "Limit a virtual host", ADMIN, {204: DONE}, body=Body(LIMIT), parts=VHOST_LIMIT
    ),
    "DELETE /api/vhost-limits/{vhost}/{name}": limits.deletes("Take a limit away", ADMIN, parts=VHOST_LIMIT),
    "GET /api/user-limits": limits.lists("Limits of users", OWN_OR_MONITOR),
    "GET /api/user-limits/{user}": limits.lists("Limits of a user", OWN_OR_MONITOR),
    "PUT /api/user-limits/{user}/{name}": limits.does(
        "Limit a user", ADMIN, {204: DONE}, body=Body(LIMIT), parts=USER_LIMIT
    ),
    "DELETE /api/user-limits/{user}/{name}": limits.deletes("Take a limit away", ADMIN, parts=USER_LIMIT),
    # ---- definitions
    **_definitions("/api/definitions", "the broker"),
    **_definitions("/api/all-configuration", "the broker, by the old name"),
    **_definitions("/api/definitions/{vhost}", "a virtual host"),
}
