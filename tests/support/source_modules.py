"""The source as data: its modules, what each imports, and whether each can be imported without the others."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path


def modules(src: Path) -> Iterator[tuple[str, str, str]]:
    """Path, package and text of every module."""
    for path in sorted(src.rglob("*.py")):
        relative = path.relative_to(src)
        yield relative.as_posix(), relative.parts[0].removesuffix(".py"), path.read_text(encoding="utf-8")


@cache
def tree_of(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def nodes_of(text: str) -> list[ast.AST]:
    return list(ast.walk(tree_of(text)))


def forget_trees() -> None:
    """They are large: tests that run later in this process should not carry them."""
    tree_of.cache_clear()
    nodes_of.cache_clear()


def imports(nodes: Iterable[ast.AST], package: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything imported, also inside functions and for types only."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)


def imports_of(relative: str, text: str) -> Iterator[tuple[int, str]]:
    return imports(nodes_of(text), ("leveret", *Path(relative).parts[:-1]))


IMPORT_EACH = """
import importlib, sys, traceback
failed = 0
for name in sys.argv[1:]:
    if name.startswith("alone:"):
        name = name.removeprefix("alone:")
        for old in [key for key in sys.modules if key == "leveret" or key.startswith("leveret.")]:
            del sys.modules[old]
    try:
        importlib.import_module(name)
    except Exception:
        failed = 1
        print(name, "does not import alone:", traceback.format_exc(limit=-3))
sys.exit(failed)
"""


def needed_at_import(tree: ast.Module, package: tuple[str, ...]) -> Iterator[str]:
    """What a module imports when it is imported itself: not in functions, and not for types only."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (name for _, name in imports([node], package))


def module_graph(src: Path) -> dict[str, set[str]]:
    """Which modules of the package each module needs, by their dotted names."""
    trees: dict[str, tuple[ast.Module, tuple[str, ...]]] = {}
    for relative, _, text in modules(src):
        parts = ("leveret", *Path(relative).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if parts[-1] != "__main__":
            trees[name] = tree_of(text), ("leveret", *Path(relative).parts[:-1])
    return {
        name: {
            known
            for wanted in needed_at_import(tree, package)
            for known in (wanted, wanted.rpartition(".")[0])
            if known in trees and known != name
        }
        for name, (tree, package) in trees.items()
    }


def on_a_cycle(graph: dict[str, set[str]]) -> set[str]:
    """Those that need themselves, by way of others: only for them does it matter which comes first."""
    found: set[str] = set()
    for start in graph:
        seen: set[str] = set()
        ahead = list(graph[start])
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen.add(name)
                ahead += graph[name]
        if start in seen:
            found.add(start)
    return found


def import_each_alone(src: Path) -> str:
    """What fails when each module is imported into a process without the rest of the package; empty if nothing does."""
    graph = module_graph(src)
    names = [*sorted(graph), *(f"alone:{name}" for name in sorted(on_a_cycle(graph)))]
    code = f"import sys; sys.path.insert(0, {str(src.parent)!r})\n{IMPORT_EACH}"
    result = subprocess.run(
        [sys.executable, "-c", code, *names], capture_output=True, text=True, timeout=300, check=False
    )
    return "" if result.returncode == 0 else result.stdout + result.stderr
