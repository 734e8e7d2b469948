"""The command ``leveret``, also as ``python -m leveret``.

Without the extra ``server``, or with a typer that does not work with the installed click, it names what to install.
"""

from __future__ import annotations

import re
import sys
from typing import NoReturn

INSTALL = "pip install 'leveret[server]'"
NEEDED = ("typer", "click")
KNOWS_NEW_CLICK = (0, 15, 4)  # older versions of typer allow click 8.2, and fail with it


def main() -> None:
    try:
        from leveret.cli.main import main as run
    except ModuleNotFoundError as missing:
        if missing.name not in NEEDED:
            raise
        refuse(f"the command line needs {missing.name}: {INSTALL}")
    import typer

    if numbers(typer.__version__) < KNOWS_NEW_CLICK:
        refuse_new_click(typer.__version__)
    run()


def refuse_new_click(typer_version: str) -> None:
    from importlib.metadata import version

    if numbers(version("click")) >= (8, 2):
        refuse(f"typer {typer_version} does not work with click {version('click')}: pip install 'click<8.2'")


def refuse(reason: str) -> NoReturn:
    sys.stderr.write(f"leveret: {reason}\n")
    sys.exit(2)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


if __name__ == "__main__":
    main()
