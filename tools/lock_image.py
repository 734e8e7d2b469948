"""Write the lock files of the container image: every package that goes into it, with its version and the hashes of its
wheels for Linux on x86_64 and aarch64.

    python3.13 tools/lock_image.py             resolves again, with the newest versions that pyproject.toml allows
    python3.13 tools/lock_image.py --check     checks whether the files still satisfy pyproject.toml

pip resolves from the index that it is configured with; the files name none. It evaluates environment markers for the
interpreter that runs it, so this must be the Python version of the image.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "packaging" / "container"
CONTAINER = FOLDER / "Containerfile"
MACHINES = ("x86_64", "aarch64")
OLDEST_GLIBC, GLIBC = 5, 36  # 2.36 is that of Debian bookworm; its pip prefers wheels for newer ones
HEAD = """\
# {what}
# Written by tools/lock_image.py: do not edit. Installed with `pip install --require-hashes`.
"""


class Pin(NamedTuple):
    name: str
    version: str


class Lock(NamedTuple):
    file: Path
    what: str
    requirements: tuple[str, ...]


def locks() -> list[Lock]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    chosen = ("arrow", "cluster", "oidc", "server")
    wanted = [*project["project"]["dependencies"], *(each for name in chosen for each in extras[name])]
    wanted = [each for each in wanted if not each.startswith("leveret[")]  # an extra that is in the list itself
    return [
        Lock(FOLDER / "requirements.lock", "What Leveret needs in the container image.", tuple(wanted)),
        Lock(FOLDER / "build.lock", "What builds Leveret's wheel.", tuple(project["build-system"]["requires"])),
    ]


def python_of_image() -> str:
    found = re.search(r"python:(\d+\.\d+)", CONTAINER.read_text())
    assert found is not None, f"{CONTAINER} names no image of Python"
    return found[1]


def pins_of(text: str) -> dict[Pin, list[str]]:
    """The hashes of each pinned package in a lock file."""
    pins: dict[Pin, list[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            pinned, *options = line.split()
            name, _, version = pinned.partition("==")
            pins[Pin(name, version)] = [option.removeprefix("--hash=") for option in options]
    return pins


def resolved(requirements: Iterable[str], machine: str) -> dict[Pin, str]:
    """By pip, without installing anything; the hash of the wheel that it would take."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(OLDEST_GLIBC, GLIBC + 1)]
    platforms += [f"{name}_{machine}" for name in ("manylinux1", "manylinux2010", "manylinux2014", "linux")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
        command += ["--ignore-installed", "--only-binary=:all:", f"--target={folder}", f"--report={report}"]
        command += [f"--python-version={python_of_image()}", *(f"--platform={each}" for each in platforms)]
        subprocess.run([*command, *requirements], check=True)
        found = json.loads(report.read_text())["install"]
    return {
        Pin(canonical(each["metadata"]["name"]), each["metadata"]["version"]): (
            "sha256:" + each["download_info"]["archive_info"]["hashes"]["sha256"]
        )
        for each in found
    }


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: Lock) -> str:
    hashes: dict[Pin, set[str]] = defaultdict(set)
    for machine in MACHINES:
        # The versions of the first machine for the second too: one lock, one set of versions.
        wanted = [f"{pin.name}=={pin.version}" for pin in hashes] or lock.requirements
        for pin, digest in resolved(wanted, machine).items():
            hashes[pin].add(digest)
    lines = [HEAD.format(what=lock.what)]
    for pin in sorted(hashes):
        parts = [f"{pin.name}=={pin.version}", *(f"--hash={digest}" for digest in sorted(hashes[pin]))]
        lines.append(" \\\n    ".join(parts) + "\n")
    return "".join(lines)


def faults() -> list[str]:
    """What pyproject.toml asks for and the lock files do not have."""
    from packaging.requirements import Requirement

    found = []
    for lock in locks():
        versions = {pin.name: pin.version for pin in pins_of(lock.file.read_text())}
        for requirement in map(Requirement, lock.requirements):
            version = versions.get(canonical(requirement.name))
            if version is None or not requirement.specifier.contains(version):
                found.append(f"{lock.file.name} has {requirement.name} {version}: {requirement} is wanted")
    return found


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        print("\n".join(faults()) or "the lock files satisfy pyproject.toml")
        return bool(faults())
    if "{}.{}".format(*sys.version_info[:2]) != python_of_image():
        print(f"the image has Python {python_of_image()}: run this with python{python_of_image()}", file=sys.stderr)
        return 2
    for lock in locks():
        lock.file.write_text(locked(lock))
        print(f"{lock.file.relative_to(ROOT)}: {len(pins_of(lock.file.read_text()))} packages")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
