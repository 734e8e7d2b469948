"""The architecture as data: which package may import which, which may do IO, and how long files and functions may be.

A package is a folder or a root file of `src/leveret`. Each check takes the root of a package, so that the last tests of
this file can show on a small bad package that every check is able to fail.

Length: the rules of the whole source, with an example of each that fails and one that passes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.source_modules import forget_trees, import_each_alone, imports_of, modules, nodes_of, tree_of

REPOSITORY = Path(__file__).resolve().parent.parent
SRC = REPOSITORY / "src" / "leveret"

ROOT_FILES = {"errors", "version", "message", "clock", "config", "config_sources", "setting_kinds", "bootstrap", "logs"}
ROOT_FILES |= {"machine", "cell_broker", "cell_pipeline", "cells_node", "replicated_cell", "embedded", "embedded_vhost"}
ROOT_FILES |= {"cell_moves", "pytest_plugin", "node", "cluster_node", "http_client", "embedded_jobs"}
ROOT_FILES |= {"embedded_settings"}
# What every package without IO may import besides the packages below it: values and their types.
VALUES = {"message", "wire.properties", "wire.fields", "clock", "logs"}
PACKAGES: dict[str, set[str]] = {
    "wire": set(),
    # Bindings may have selectors, which are the same for consumers.
    "routing": VALUES | {"delivery.selector"},
    "delivery": VALUES,
    "auth": VALUES,
    "schemas": set(),
    "store": VALUES,
    # The log holds batches of the journal.
    "replication": VALUES | {"store.batch", "store.definitions", "store.records", "store.replicator"},
    # The waiting messages of a queue: lanes, pages, leases. Body sizes are read from the content.
    "backlog": VALUES | {"store", "delivery", "wire.content"},
    # Groups, selectors and duplicates are decided by the headers of a message; streams write offsets into them.
    "queues": VALUES | {"backlog", "store", "delivery", "wire.content", "wire.constants", "wire.content_edit"},
    # The broker makes and reads content for callers in the process, and interceptors rewrite methods.
    "broker": VALUES
    | {"routing", "queues", "backlog", "store", "delivery", "auth", "schemas"}
    | {"wire.constants", "wire.content", "wire.methods", "wire.content_edit"},
    "session": VALUES | {"wire", "broker", "delivery", "auth", "queues", "routing", "store.log"},
    "server": VALUES
    | {"session", "stomp", "broker", "store", "config", "machine", "auth", "wire.constants", "wire.grammar"}
    | {"cells.link"},
    # Ordered resizing holds messages back: it moves them between queues, and watches what leaves them.
    "sharding": VALUES | {"broker", "routing", "queues", "backlog", "delivery", "wire.methods"},
    # A link is the client's side of a connection: frames of AMQP, gathered in an outbox.
    "cells": VALUES | {"broker", "queues", "backlog", "delivery", "routing", "auth", "session", "store", "wire"},
    # Another protocol over the same connections and channels: it calls a DirectChannel, and encodes no AMQP.
    "stomp": VALUES
    | {"session", "broker.broker", "auth.mechanisms", "delivery.confirms", "queues.options", "routing.bounds"}
    | {"wire.constants", "wire.content", "wire.grammar"},
    # HTTP itself: connections, logins, bodies, errors, lists; and byte streams inside WebSockets and tunnels.
    # Single sign-on sends requests to an identity provider.
    "http": VALUES
    | {"http_client", "setting_kinds"}
    | {"broker", "auth", "config", "queues", "routing", "session.limits", "wire.constants", "cells.api_request"}
    | {
        "server.acceptor",
        "server.admission",
        "server.ports",
        "server.logins",
        "server.proxied_transport",
        "server.proxy_header",
    },
    # The pipeline stands on the HTTP port; it makes and reads content, and filters by topic patterns.
    "pipeline": VALUES
    | {"http", "broker", "queues", "backlog", "store", "routing", "auth", "delivery", "schemas"}
    | {"wire.content", "wire.constants", "wire.frames", "wire.content_edit", "session.inspection"}
    | {"cells.api_request"},
    "stats": VALUES
    | {"http", "pipeline", "broker", "queues", "backlog", "delivery", "session", "machine"}
    | {"cluster.status"},
    # The management API shows what there is, and reads and makes messages.
    "api": VALUES
    | {"http", "stats", "pipeline", "broker", "auth", "config", "machine", "queues", "routing", "delivery", "session"}
    | {"backlog", "store", "wire.content", "wire.constants", "wire.frames", "server.admission", "server.loop_watch"}
    | {"cluster.status", "cluster.cell_summary", "cells.api_request", "schemas"},
    # Where the broker has no selectors, a subscriber to a topic sees to its own.
    "client": {"wire", "delivery.selector"},
    # The engine's servers tell their configuration over HTTP. Standbys apply the log to a data directory, or copy one.
    # Clients of a standby are accepted and counted as those of a broker.
    "cluster": VALUES
    | {"replication", "http_client", "store.replica", "store.replica_note", "store.received_snapshot"}
    | {"store.backup", "store.store", "store.cell_file", "store.checkpoint", "store.request_files", "config", "machine"}
    | {"server.admission", "server.ports", "server.proxy_header", "server.link_protocol"}
    | {"server.amqp_protocol", "server.handed_over_client", "server.listener", "broker.cells"}
    | {"broker.broker", "cells", "session"},
    "spark": {"http_client", "schemas"},
    # The command line reads the content of stored messages for `leveret dump`.
    "cli": {"wire", "node", "cluster_node", "cells_node", "config", "config_sources", "bootstrap", "logs", "store"}
    | {"replicated_cell", "cluster.local_cell", "cluster.new_log", "cluster.node_settings", "cluster.join_check"}
    | {"machine", "server.initial_definitions", "server.settings_reload"}
    | {"cluster.member_position", "cluster.members", "client", "spark", "http_client"},
}
SERVER_PACKAGES = PACKAGES.keys() - {"client", "spark", "cli"}
MAY_IMPORT: dict[str, set[str]] = PACKAGES | {
    **{key: set[str]() for key in ("errors", "version", "clock")},
    "config": {"machine", "setting_kinds", "bootstrap"},
    "config_sources": {"config", "bootstrap"},
    "setting_kinds": {"machine"},
    "bootstrap": {"setting_kinds"},
    "machine": set(),
    "http_client": set(),
    "logs": {"config"},
    "message": {"wire.properties", "wire.fields", "wire.constants"},
    "node": SERVER_PACKAGES | {"client", "message", "clock", "config", "bootstrap", "logs", "machine"},
    "replicated_cell": {"node", "cell_broker", "cells.definition_requests", "cluster", "config", "logs", "machine"}
    | {"setting_kinds", "store.data_dir"},
    "cluster_node": {"node", "cluster", "broker.broker", "replication.journal_replicator", "server.initial_definitions"}
    | {"replicated_cell", "store.store", "store.replica_note", "store.cell_file", "replication.claims"}
    | {"server.readiness", "server.settings_reload", "config", "logs", "machine"},
    "cell_broker": {"node", "cells", "cell_pipeline", "cell_moves", "cluster", "session.limits", "config"}
    | {"api.context", "api.cells", "http.app", "http.internal_requests", "server.listener", "queues.leader_locator"},
    "cell_moves": {"node", "cells", "cluster"},
    "cell_pipeline": {"node", "cluster", "pipeline"},
    "cells_node": {"node", "cell_broker", "cells.definition_requests", "cluster", "server", "store.data_dir", "config"}
    | {"machine", "setting_kinds"},
    "embedded_settings": {"config"},
    "embedded": SERVER_PACKAGES
    | {"embedded_settings"}
    | {"client", "node", "embedded_vhost", "message", "clock", "config", "bootstrap", "logs", "machine"},
    "embedded_vhost": SERVER_PACKAGES | {"node", "embedded_jobs", "message", "clock", "config", "logs"},
    "embedded_jobs": {"broker", "queues"},
    "pytest_plugin": {"embedded"},
    "__init__": {"embedded", "clock", "config"},
    "__main__": {"cli"},
}
FOR_ALL = {"errors", "version"}
PUBLIC_PACKAGES = {"__init__.py", "client/__init__.py", "client/jms/__init__.py", "spark/__init__.py"}

NO_IO = {"wire", "session", "routing", "queues", "backlog", "store", "delivery", "broker", "auth", "sharding", "stomp"}
NO_IO |= {"replication", "cells", "schemas"}
DOES_IO = {"store/files.py"}
IO = {"asyncio", "uvloop", "socket", "ssl", "select", "selectors", "subprocess", "multiprocessing"}
CHANCE = {"time", "random", "secrets", "uuid", "threading", "_thread", "concurrent"}
MAY_USE = {"auth": {"secrets"}, "broker": {"secrets", "uuid"}, "session": {"secrets"}, "sharding": {"secrets"}}
MAY_USE["stomp"] = {"secrets"}
# The command line and Spark have no AMQP or HTTP client of their own.
USES_CLIENTS = {"cli", "spark"}
CLIENT_PARTS = {"http.client", "urllib.request", "urllib3", "requests", "httpx", "socket"}
CLIENT_PARTS |= {"leveret.wire.methods", "leveret.wire.frames", "leveret.wire.grammar"}
SPEAKS_AMQP = {"cli/bench_frames.py"}  # encodes and compares whole batches, on connections of leveret.client
# Protocols besides AMQP call a DirectChannel. AMQP as bytes or method objects stays below it.
ADAPTERS = {"stomp"}
AMQP_PARTS = {f"leveret.wire.{name}" for name in ("methods", "frames", "reader")}
AMQP_PARTS |= {f"leveret.session.{name}" for name in ("amqp_channel", "amqp_connection", "amqp_consumer", "intake")}
CLOCK_READS = {"now", "utcnow", "today"}
NEVER_IMPORT = {"pickle", "cPickle", "marshal", "shelve", "dill", "yaml"}
NEVER_CALL = {"eval", "exec"}

# Where messages are passed to queues: one module, and the loop over publish frames, which spares a call for each run.
PASSES_TO_QUEUES = {"broker/publishes.py", "session/publishes.py"}
FILE_LINES = 400  # above that the docstring gives the reason, in a line that begins with "Length:"
MOST_FILE_LINES = 600
FUNCTION_LINES = 40
HOT_FUNCTION_LINES = 120
CONTRACT_METHODS = 8
PERMISSION_LOOKUPS = {"permits", "permits_topic", "permits_every_topic", "permits_everything", "permits_entry"}
LOOKS_PERMISSIONS_UP = {"auth/permissions.py", "broker/access.py"}
LANE_STATE = {"attempted", "fresh", "head", "holes", "in_turn", "incoming", "page_stop", "paged", "ready"}
LANE_STATE |= {"redelivered_below", "returned"}
QUEUE_FACTORY, QUEUE_TYPES = "queues/queue_types.py", {"ClassicQueue", "DeclaredQueue", "StreamQueue"}
REMOVALS = {"clear", "pop", "popleft", "remove", "rotate"}
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"}
GENERATED = re.compile("Generated (by|from) tools/")

Check = Callable[[Path], Iterator[str]]


def is_generated(text: str) -> bool:
    return GENERATED.search(text[:600]) is not None


def covers(allowed: set[str], name: str) -> bool:
    return any(name == entry or name.startswith(f"{entry}.") for entry in allowed)


def wrong_directions(src: Path) -> Iterator[str]:
    for relative, package, text in modules(src):
        if package not in MAY_IMPORT:
            yield f"{relative}: the package {package!r} is not in MAY_IMPORT"
            continue
        allowed = MAY_IMPORT[package] | FOR_ALL
        for line, full in imports_of(relative, text):
            top, _, name = full.partition(".")
            if top == "leveret" and not covers(allowed | {package}, name):
                yield f"{relative}:{line}: {package} must not import {full} (allowed: {', '.join(sorted(allowed))})"


def forbidden_io(src: Path) -> Iterator[str]:
    for relative, package, text in modules(src):
        if package not in NO_IO or relative in DOES_IO:
            continue
        for line, full in imports_of(relative, text):
            top = full.partition(".")[0]
            if top in (IO | CHANCE) - MAY_USE.get(package, set()):
                yield f"{relative}:{line}: {package} does no IO and must not import {top}; pass the value in"
        yield from (
            f"{relative}:{line}: {package} does no IO and must not call {call}"
            for line, call in io_calls(package, text)
        )


def io_calls(package: str, text: str) -> Iterator[tuple[int, str]]:
    for node in nodes_of(text):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name("open") if package != "store":
                yield node.lineno, "open()"
            case ast.Attribute(ast.Name("datetime" | "date") | ast.Attribute(_, "datetime" | "date"), attr) if (
                attr in CLOCK_READS
            ):
                yield node.lineno, f"datetime.{attr}()"


def dangerous(src: Path) -> Iterator[str]:
    for relative, _, text in modules(src):
        for line, full in imports_of(relative, text):
            if full.partition(".")[0] in NEVER_IMPORT:
                yield f"{relative}:{line}: must not import {full}"
        for node in nodes_of(text):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NEVER_CALL:
                yield f"{relative}:{node.lineno}: must not call {node.func.id}()"


def permission_lookups(src: Path) -> Iterator[str]:
    """A lookup outside of broker/access.py would be a permission rule outside of broker/permission_rules.py."""
    for relative, _, text in modules(src):
        for node in nodes_of(text):
            if not isinstance(node, ast.Attribute) or node.attr not in PERMISSION_LOOKUPS:
                continue
            if relative not in LOOKS_PERMISSIONS_UP:
                yield f"{relative}:{node.lineno}: check permissions by an operation of broker/permission_rules.py"


def stray_publishes(src: Path) -> Iterator[str]:
    """Calls of a queue's ``publish(run, size, timed)`` or ``place``, or of a remote log's ``submit``."""
    for relative, package, text in modules(src):
        if package == "queues" or relative in PASSES_TO_QUEUES:
            continue
        for node in nodes_of(text):
            match node:
                case ast.Call(ast.Attribute(_, "publish" | "place" as name), [_, _, last], []):
                    is_found = not (isinstance(last, ast.Constant) and isinstance(last.value, str | bytes))
                case ast.Call(ast.Attribute(ast.Attribute(_, "remote_log"), "submit" as name)):
                    is_found = True
                case _:
                    continue
            if is_found:
                yield f"{relative}:{node.lineno}: only broker/publishes.py passes messages to queues, by {name}()"


def own_clients(src: Path) -> Iterator[str]:
    for relative, package, text in modules(src):
        if package not in USES_CLIENTS or relative in SPEAKS_AMQP:
            continue
        for line, full in imports_of(relative, text):
            if covers(CLIENT_PARTS, full):
                yield f"{relative}:{line}: use leveret.client or leveret.http_client instead of {full}"


def amqp_in_adapters(src: Path) -> Iterator[str]:
    for relative, package, text in modules(src):
        for line, full in imports_of(relative, text) if package in ADAPTERS else ():
            if covers(AMQP_PARTS, full):
                yield f"{relative}:{line}: call session.direct_channel.DirectChannel instead of using {full}"


def too_long_files(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines <= FILE_LINES or is_generated(text):
            continue
        ceiling = MOST_FILE_LINES if "\nLength:" in (ast.get_docstring(tree_of(text)) or "") else FILE_LINES
        if lines > ceiling:
            yield f"{path.relative_to(root.parent)}: {lines} lines, the ceiling is {ceiling}"


def too_long_functions(src: Path) -> Iterator[str]:
    for relative, _, text in modules(src):
        if is_generated(text):
            continue
        tree = tree_of(text)
        ceiling = HOT_FUNCTION_LINES if "hot path" in (ast.get_docstring(tree) or "").lower() else FUNCTION_LINES
        for node in nodes_of(text):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > ceiling:
                    yield f"{relative}:{node.lineno}: {node.name} has {lines} lines, the ceiling is {ceiling}"


def wide_contracts(src: Path) -> Iterator[str]:
    for relative, _, text in modules(src):
        for node in nodes_of(text):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases):
                methods = sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)
                if methods > CONTRACT_METHODS:
                    yield f"{relative}:{node.lineno}: {node.name} has {methods} methods, over {CONTRACT_METHODS}"


def lane_changes(src: Path) -> Iterator[str]:
    """Only the backlog assigns to a lane or removes from it; publishing appends to ``incoming``."""
    for relative, package, text in modules(src):
        if package in {"backlog", "store"}:  # the lanes of the store are the rows of its index
            continue
        for node in nodes_of(text):
            match node:
                case ast.Attribute(holder, attr, ast.Store() | ast.Del()) if attr in LANE_STATE and is_lane(holder):
                    yield f"{relative}:{node.lineno}: {package} assigns to {ast.unparse(node)}: call the backlog"
                case ast.Call(ast.Attribute(ast.Attribute(holder, attr), verb)) if (
                    attr in LANE_STATE and is_lane(holder) and verb in REMOVALS
                ):
                    yield f"{relative}:{node.lineno}: {package} removes from a lane: call the backlog"


def is_lane(node: ast.expr) -> bool:
    """Whether the expression is called a lane: ``lane``, ``queue.lane``, ``queue.lanes[0]``."""
    match node:
        case ast.Name(name) | ast.Attribute(_, name):
            return name == "lane" or name.endswith("_lane")
        case ast.Subscript(ast.Name(name) | ast.Attribute(_, name)):
            return name == "lanes"
    return False


def queue_type_checks(src: Path) -> Iterator[str]:
    """Code asks a queue for its capabilities (queues/queue.py, queues/declared_queue.py), not for its class."""
    for relative, _, text in modules(src):
        for node in nodes_of(text):
            match node:
                case ast.Call(ast.Name("isinstance"), [_, classes]) if relative != QUEUE_FACTORY and any(
                    isinstance(part, ast.Name | ast.Attribute) and ast.unparse(part).split(".")[-1] in QUEUE_TYPES
                    for part in ast.walk(classes)
                ):
                    yield f"{relative}:{node.lineno}: {ast.unparse(node)}: use a capability of DeclaredQueue"


def replaced_callables(src: Path) -> Iterator[str]:
    """A callback is a method of an object that is passed in, with a Protocol: "go to definition" leads to its code.

    Found are attributes that begin as a lambda, and callables assigned to an attribute of another object. The client
    has such attributes in its public API (``channel.on_close``).
    """
    for relative, package, text in modules(src):
        if package in {"client", "cli", "spark"}:
            continue
        tree = ast.parse(text)
        methods = {part.name for part in ast.walk(tree) if isinstance(part, ast.FunctionDef) and not is_property(part)}
        for node in ast.walk(tree):
            for target, value in assignments(node):
                if not isinstance(target, ast.Attribute):
                    continue
                is_own = isinstance(target.value, ast.Name) and target.value.id == "self"
                if isinstance(value, ast.Lambda) or (not is_own and is_callable(value, methods)):
                    yield f"{relative}:{target.lineno}: {ast.unparse(target)} is replaced: pass an object instead"


def is_property(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(each) in ("property", "cached_property") for each in function.decorator_list)


def assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and values, also of ``a, b = x, y``."""
    match node:
        case ast.Assign(targets, value):
            for target in targets:
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    yield from zip(target.elts, value.elts, strict=True)
                else:
                    yield target, value
        case ast.AnnAssign(target, _, ast.expr() as value):
            yield target, value


def is_callable(value: ast.expr, methods: set[str]) -> bool:
    """Whether it certainly is: a partial, or a method of a class in the same module."""
    match value:
        case ast.Call(ast.Name("partial") | ast.Attribute(_, "partial")):
            return True
        case ast.Attribute(ast.Name("self"), name):
            return name in methods
    return False


def vague_names(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        for part in (*relative.parts[:-1], relative.stem):
            if VAGUE_NAMES & set(part.split("_")):
                yield f"{relative}: a file is named for the noun it holds, not {part!r}"


def full_inits(src: Path) -> Iterator[str]:
    for relative, _, text in modules(src):
        if Path(relative).name == "__init__.py" and relative not in PUBLIC_PACKAGES:
            body = tree_of(text).body
            if any(not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)) for part in body):
                yield f"{relative}: only public packages put code into __init__.py"


def cycle(table: dict[str, set[str]]) -> list[str]:
    """One way round through the table, or nothing."""
    done: set[str] = set()

    def walk(package: str, path: list[str]) -> list[str]:
        if package in path:
            return [*path[path.index(package) :], package]
        if package in done:
            return []
        below = {entry.partition(".")[0] for entry in table.get(package, set())}
        found = next((way for way in (walk(one, [*path, package]) for one in sorted(below)) if way), [])
        done.add(package)
        return found

    return next((way for way in (walk(package, []) for package in table) if way), [])


@pytest.fixture(scope="module", autouse=True)
def _trees_of_this_module_only() -> Iterator[None]:
    yield
    forget_trees()


def assert_none(found: Iterator[str]) -> None:
    problems = list(found)
    assert not problems, "\n  " + "\n  ".join(problems)


CHECKS: list[Check] = [
    own_clients,
    amqp_in_adapters,
    wrong_directions,
    forbidden_io,
    dangerous,
    permission_lookups,
    stray_publishes,
    too_long_files,
    too_long_functions,
    wide_contracts,
    lane_changes,
    queue_type_checks,
    replaced_callables,
    vague_names,
    full_inits,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_package_has_no(check: Check) -> None:
    assert_none(check(SRC))


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_tests_and_benchmarks_stay_small_and_well_named(folder: str) -> None:
    assert_none(too_long_files(REPOSITORY / folder))
    assert_none(vague_names(REPOSITORY / folder))


def test_packages_form_no_cycle() -> None:
    assert cycle(MAY_IMPORT) == []


def test_the_table_names_only_known_packages() -> None:
    known = PACKAGES.keys() | ROOT_FILES
    assert {entry.partition(".")[0] for entries in MAY_IMPORT.values() for entry in entries} <= known


def test_each_module_imports_alone() -> None:
    problems = import_each_alone(SRC)
    assert not problems, problems


BAD = [
    (wrong_directions, "routing/a.py", "from leveret.queues.classic import Classic"),
    (wrong_directions, "routing/a.py", "from leveret import queues"),
    (wrong_directions, "routing/a.py", "from ..queues import classic"),
    (wrong_directions, "routing/a.py", "from leveret.wire.frames import ENVELOPE"),
    (wrong_directions, "attic/a.py", ""),
    (forbidden_io, "queues/a.py", "def f() -> None:\n    import time"),
    (forbidden_io, "broker/a.py", "from asyncio import sleep"),
    (forbidden_io, "delivery/a.py", "import secrets"),
    (forbidden_io, "auth/a.py", "open('x')"),
    (forbidden_io, "queues/a.py", "import datetime\ndatetime.datetime.now()"),
    (dangerous, "cli/a.py", "import pickle"),
    (dangerous, "cli/a.py", "eval('1')"),
    (own_clients, "cli/a.py", "import http.client"),
    (own_clients, "cli/a.py", "from http.client import HTTPConnection"),
    (own_clients, "spark/a.py", "def f() -> None:\n    from urllib.request import urlopen"),
    (own_clients, "spark/a.py", "import socket"),
    (own_clients, "cli/a.py", "from leveret.wire.methods import BasicConsume"),
    (amqp_in_adapters, "stomp/a.py", "from leveret.wire.methods import BasicPublish"),
    (amqp_in_adapters, "stomp/a.py", "from leveret.wire import frames"),
    (
        amqp_in_adapters,
        "stomp/a.py",
        "def f() -> None:\n    from leveret.session.amqp_connection import AmqpConnection",
    ),
    (permission_lookups, "http/a.py", "broker.permissions.permits('ann', '/', 'read', 'q')"),
    (permission_lookups, "session/a.py", "lookup = self.permissions.permits_topic"),
    (permission_lookups, "broker/caller.py", "permissions.permits_every_topic('ann', '/', 'x', 'write')"),
    (permission_lookups, "api/a.py", "permissions.permits_entry('ann', '/')"),
    (stray_publishes, "broker/a.py", "queue.publish(run, size, timed)"),
    (stray_publishes, "session/a.py", "self.target.queue.place([message], 5, False)"),
    (stray_publishes, "sharding/a.py", "shard.remote_log.submit(size, timed, publish)"),
    (too_long_files, "cli/a.py", "x = 1\n" * 401),
    (too_long_files, "cli/a.py", '"""A.\n\nLength: one noun."""\n' + "x = 1\n" * 600),
    (too_long_functions, "cli/a.py", "def f() -> None:\n" + "    x = 1\n" * 40),
    (too_long_functions, "wire/a.py", '"""Hot path."""\ndef f() -> None:\n' + "    x = 1\n" * 120),
    (wide_contracts, "store/a.py", "class A(Protocol):\n" + "".join(f"    def f{n}(self): ...\n" for n in range(9))),
    (lane_changes, "queues/a.py", "def f(queue):\n    queue.lane.head += 1"),
    (lane_changes, "pipeline/a.py", "def f(lane):\n    first, lane.head = lane.head, 2"),
    (lane_changes, "sharding/a.py", "def f(queue):\n    queue.lanes[0].ready.popleft()"),
    (queue_type_checks, "api/a.py", "def f(queue):\n    return isinstance(queue, StreamQueue)"),
    (queue_type_checks, "broker/a.py", "def f(queue):\n    assert isinstance(queue, DeclaredQueue)"),
    (queue_type_checks, "stats/a.py", "def f(queue):\n    return isinstance(queue, Pool | stream.StreamQueue)"),
    (replaced_callables, "broker/a.py", "class A:\n    def f(self):\n        self.wake: Wake = lambda: None"),
    (replaced_callables, "server/a.py", "class A:\n    def f(self, broker):\n        broker.wake = self.f"),
    (replaced_callables, "server/a.py", "class A:\n    def f(self, b):\n        b.read, b.write = self.f, 1"),
    (replaced_callables, "broker/a.py", "def f(ranges, queue):\n    ranges.deleted = partial(f, queue)"),
    (vague_names, "cli/utils.py", ""),
    (vague_names, "cli/queue_manager.py", ""),
    (full_inits, "cli/__init__.py", "import os"),
]
GOOD = [
    (
        wrong_directions,
        "routing/a.py",
        "from leveret.wire.properties import Properties\nfrom leveret.wire import fields",
    ),
    (wrong_directions, "routing/a.py", "from leveret.errors import NotFound\nfrom leveret.routing.topic import Topic"),
    (forbidden_io, "auth/a.py", "import secrets"),
    (forbidden_io, "store/files.py", "import threading, time"),
    (permission_lookups, "broker/access.py", "permissions.permits('ann', '/', 'read', 'q')"),
    (permission_lookups, "http/a.py", "access.check('get', 'q')\naccess.has('read', 'q')"),
    (stray_publishes, "api/a.py", "session.publish('', 'q', b'body')"),
    (stray_publishes, "broker/publishes.py", "queue.publish(run, size, timed)"),
    (stray_publishes, "queues/a.py", "self.publish(run, size, timed)"),
    (
        own_clients,
        "cli/a.py",
        "from http import HTTPStatus\nfrom urllib.parse import quote\nimport leveret.http_client",
    ),
    (own_clients, "spark/a.py", "from leveret.client import connect\nfrom leveret.wire.properties import Properties"),
    (own_clients, "client/a.py", "import http.client, socket"),
    (too_long_files, "wire/methods.py", '"Generated by tools/generate_methods.py."\n' + "x = 1\n" * 500),
    (too_long_files, "cli/a.py", '"""A.\n\nLength: one noun."""\n' + "x = 1\n" * 590),
    (too_long_functions, "wire/a.py", '"""Hot path."""\ndef f() -> None:\n' + "    x = 1\n" * 100),
    (lane_changes, "backlog/a.py", "def f(lane):\n    lane.head += 1"),
    (
        lane_changes,
        "queues/a.py",
        "def f(lane, run):\n    lane.incoming.extend(run)\n    return lane.take(2)",
    ),
    (queue_type_checks, "api/a.py", "def f(queue):\n    return queue.has_offsets or isinstance(queue, Pool)"),
    (queue_type_checks, "queues/queue_types.py", "def f(queue):\n    return isinstance(queue, StreamQueue)"),
    (replaced_callables, "broker/a.py", "class A:\n    def f(self, call):\n        self._a, self._b = call, self.f"),
    (replaced_callables, "broker/a.py", "class A:\n    def f(self, timers):\n        timers.attach(self)"),
    (full_inits, "cli/__init__.py", '"""The command line."""'),
]


def package_with(tmp_path: Path, relative: str, text: str) -> Path:
    path = tmp_path / "leveret" / relative
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return tmp_path / "leveret"


@pytest.mark.parametrize(("check", "relative", "text"), BAD)
def test_a_check_sees(check: Check, relative: str, text: str, tmp_path: Path) -> None:
    assert list(check(package_with(tmp_path, relative, text)))


@pytest.mark.parametrize(("check", "relative", "text"), GOOD)
def test_a_check_lets_pass(check: Check, relative: str, text: str, tmp_path: Path) -> None:
    assert list(check(package_with(tmp_path, relative, text))) == []


def test_a_cycle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c.part"}, "c": {"a"}}) == ["a", "b", "c", "a"]


def test_a_module_that_does_not_import_is_found(tmp_path: Path) -> None:
    assert "leveret.cli.a does not import alone" in import_each_alone(package_with(tmp_path, "cli/a.py", "1 / 0"))


def test_a_module_that_needs_another_first_is_found(tmp_path: Path) -> None:
    src = package_with(tmp_path, "cli/a.py", "from leveret.cli.b import B\nA = 1")
    (src / "cli" / "b.py").write_text("import leveret.cli.a\nB = leveret.cli.a.A")
    problems = import_each_alone(src)
    assert "leveret.cli.a does not import alone" in problems
