"""Print pip constraints with the lowest versions that pyproject.toml allows, for Leveret and some of its extras.

python tools/lowest_versions.py > lowest.txt
pip install --constraint lowest.txt '.[arrow,cluster,oidc]'
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = ("server", "arrow", "cluster", "oidc")
CLICK = "click<8.2"  # typer before 0.15.4 allows newer ones and fails with them


def lowest(requirement: Requirement) -> str:
    versions = [each.version for each in requirement.specifier if each.operator == ">="]
    if len(versions) != 1:
        raise ValueError(f"pyproject.toml has no lower bound for {requirement.name}: {requirement}")
    return f"{requirement.name}=={versions[0]}"


def constraints(project: Mapping[str, Any]) -> list[str]:
    """``project``: the table [project] of pyproject.toml."""
    extras = [Requirement(text) for extra in EXTRAS for text in project["optional-dependencies"].get(extra, [])]
    wanted = [*(Requirement(text) for text in project["dependencies"]), *extras]
    return [*(lowest(each) for each in wanted if each.name != "leveret"), CLICK]


def main() -> None:
    print("\n".join(constraints(tomllib.loads(PROJECT.read_text())["project"])))


if __name__ == "__main__":
    main()
