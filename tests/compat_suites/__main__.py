"""``make compat-suites``: fetches and runs the suites named on the command line, or all of them."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.compat_suites.runner import run
from tests.compat_suites.sources import CannotFetch, Source
from tests.compat_suites.suites import SUITES


def main(names: list[str]) -> int:
    unknown = set(names) - {suite.package for suite in SUITES}
    if unknown:
        known = ", ".join(suite.package for suite in SUITES)
        print(f"no suite {', '.join(sorted(unknown))}; there are: {known}", file=sys.stderr)
        return 2
    succeeded = True
    for suite in SUITES:
        if names and suite.package not in names:
            continue
        try:
            Source(suite).fetch()
        except CannotFetch as problem:
            print(problem, file=sys.stderr)
            succeeded = False
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            outcome = run(suite, Path(folder))
        if outcome.problems:
            print(outcome.output)
            succeeded = False
        print(f"{suite.package} {suite.version}: {outcome} ({time.monotonic() - begun:.0f} s)", flush=True)
        for problem in outcome.problems:
            print(f"  {problem}")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
