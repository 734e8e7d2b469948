"""Virtual environments of their own for tests, with packages from the index that pip is configured with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def clean_environ() -> dict[str, str]:
    """Without what would make the source of the checkout, or settings of the user, visible."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("LEVERET_", "PYTHON", "PYTEST_"))}


def make_venv(folder: Path) -> Path:
    """Its Python. pip stays outside: installing it would take as long as all the rest."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    return folder / "bin" / "python"


def pip(*arguments: str, folder: Path, python: Path | None = None) -> None:
    """Run pip in ``folder``, for another Python if one is given."""
    target = [] if python is None else ["--python", str(python)]
    command = [sys.executable, "-m", "pip", *target, "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, cwd=folder, env=clean_environ(), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
