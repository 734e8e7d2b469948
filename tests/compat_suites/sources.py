"""Source distributions from the package index, in build/foreign/suites; nothing of them is in the repository.

``python -m tests.compat_suites.sources`` fetches the suites that run in ``make test``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.compat_suites.suites import SUITES, Suite
from tests.support.programs import FETCHED, everything_is_required


class CannotFetch(Exception):
    """The package index did not provide what a suite needs."""


class Source:
    """The files of one suite: ``files`` is its source distribution, ``packages`` what it needs besides."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._folder = FETCHED / "suites" / f"{suite.package}-{suite.version}"
        self.files = self._folder / "files"
        self.packages = self._folder / "packages"
        self._complete = self._folder / "complete"  # written last; names what was fetched

    def is_fetched(self) -> bool:
        return self._complete.is_file() and self._complete.read_text(encoding="utf-8") == self._contents()

    def fetch(self) -> None:
        if self.is_fetched():
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._fetch_files()
        if self._suite.requirements:
            self._pip("install", "--target", str(self.packages), *self._suite.requirements)
        self._complete.write_text(self._contents(), encoding="utf-8")

    def _fetch_files(self) -> None:
        package = self._suite.package
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            folder = Path(name)
            pinned = f"{package}=={self._suite.version}"
            self._pip("download", "--no-deps", "--no-binary", package, "--dest", name, pinned)
            (archive,) = folder.glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(folder / "unpacked", filter="data")
            (top,) = (folder / "unpacked").iterdir()
            top.rename(self.files)

    def _pip(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise CannotFetch(
                f"cannot fetch the test suite of {self._suite.package} {self._suite.version}: "
                f"pip {arguments[0]} failed; check the network and pip's index settings\n"
                + done.stdout.decode(errors="replace")
            )

    def _contents(self) -> str:
        return "\n".join((self._suite.version, *self._suite.requirements))


def main() -> int:
    for suite in SUITES:
        if suite.quick:
            try:
                Source(suite).fetch()
            except CannotFetch as problem:
                print(f"missing: {problem}", file=sys.stderr)
                if everything_is_required():
                    return 1
                print("its tests are skipped", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
