"""Write the table of packages in ARCHITECTURE.md from tests/test_architecture.py and the packages' docstrings.

python tools/generate_import_table.py            write the table
python tools/generate_import_table.py --check    write nothing; exit 1 if the table is not what would be written
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.test_architecture import PACKAGES, VALUES  # noqa: E402

TARGET = REPOSITORY / "ARCHITECTURE.md"
SOURCE = REPOSITORY / "src" / "leveret"
BEGIN, END = "<!-- packages: generated -->\n", "<!-- /packages -->\n"
HEAD = "| Package | Contents | May import (besides `errors`, `version`) |\n|---|---|---|\n"


def contents_of(package: str) -> str:
    """The first sentence of the package's docstring."""
    path = SOURCE / package / "__init__.py"
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split()).rstrip(".")


def imports_of(package: str) -> str:
    allowed = PACKAGES[package]
    names = ["values"] if allowed >= VALUES else []
    names += [f"`{name}`" for name in sorted(allowed - VALUES)]
    return ", ".join(names) or "nothing"


def table() -> str:
    return HEAD + "".join(
        f"| `{package}` | {contents_of(package)} | {imports_of(package)} |\n"
        for package in PACKAGES
        if (SOURCE / package).is_dir()
    )


def main() -> int:
    text = TARGET.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    wanted = before + BEGIN + table() + END + rest.partition(END)[2]
    if "--check" in sys.argv:
        if text != wanted:
            print("ARCHITECTURE.md: run `python tools/generate_import_table.py`", file=sys.stderr)
        return int(text != wanted)
    TARGET.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
