"""Requests to a running broker as files in its data directory, for commands without a connection to it.

    requests/<id>.json      what is wanted: {"kind": "backup", "target": "/srv/backup"}
    requests/<id>.answer    {"state": "working", "done": 3, "of": 9}; at last "done" with figures, or "failed" with an
                            "error"

Both are written atomically, by a rename. The broker creates the folder, for its own user only, polls it, and removes a
request when it is done. The requesting command removes the answer. Removing the request cancels it.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from leveret.errors import StoreError
from leveret.store.data_dir import LOCK_FILE

FOLDER = "requests"
NAME = re.compile(r"([0-9a-f]{32})\.json")
LARGEST = 64 << 10  # bytes of a request
WORKING, DONE, FAILED = "working", "done", "failed"
AGAIN = "run the command again"


class Request(NamedTuple):
    id: str
    kind: str
    target: Path


class _Unusable(Exception):
    """Why a request cannot be served."""


# ---- for the command


def leave_request(path: Path, id_: str, what: dict[str, object]) -> None:
    try:
        (path / FOLDER).mkdir(0o700, exist_ok=True)
        _write(path, f"{id_}.json", what)
    except PermissionError as problem:
        raise StoreError(
            f"the broker cannot be asked ({problem}): run the command as the broker's own user"
        ) from problem


def withdraw(path: Path, id_: str) -> None:
    for name in (f"{id_}.json", f"{id_}.answer"):
        (path / FOLDER / name).unlink(missing_ok=True)


def read_answer(path: Path, id_: str) -> dict[str, Any] | None:
    """The latest; None if there is none yet."""
    try:
        found = json.loads((path / FOLDER / f"{id_}.answer").read_bytes())
    except FileNotFoundError:
        return None
    return found if isinstance(found, dict) else None


# ---- for the broker


def prepare(path: Path) -> None:
    """Create the folder, and remove the answers of previous runs."""
    folder = path / FOLDER
    folder.mkdir(0o700, exist_ok=True)
    since = _begun(path)
    for entry in list(os.scandir(folder)):
        if NAME.fullmatch(entry.name) is None and entry.is_file() and entry.stat().st_mtime_ns < since:
            os.unlink(entry.path)


def next_request(path: Path) -> Request | None:
    """The oldest request that has not been started. Invalid ones are answered on the way."""
    try:
        names = os.listdir(path / FOLDER)
    except FileNotFoundError:
        return None  # the folder was removed; the command creates it again
    waiting = [name for name in names if NAME.fullmatch(name) and f"{name.removesuffix('.json')}.answer" not in names]
    if not waiting:
        return None  # by far the most often
    since = _begun(path)
    times = {name: _time(path / FOLDER / name) for name in waiting}
    for name in sorted(waiting, key=lambda name: times[name]):
        id_ = name.removesuffix(".json")
        try:
            if times[name] < since:
                raise _Unusable(f"the request is older than this broker: {AGAIN}")
            return _read(path / FOLDER / name, id_)
        except FileNotFoundError:
            continue  # cancelled
        except _Unusable as problem:
            answer(path, id_, FAILED, error=str(problem))
    return None


def is_wanted(path: Path, id_: str) -> bool:
    return (path / FOLDER / f"{id_}.json").exists()


def answer(path: Path, id_: str, state: str, **facts: object) -> None:
    """Does nothing if the request was cancelled."""
    if is_wanted(path, id_):
        _write(path, f"{id_}.answer", {"state": state, **facts})
        if state != WORKING:
            (path / FOLDER / f"{id_}.json").unlink(missing_ok=True)


def _begun(path: Path) -> int:
    """When the broker took the directory: it wrote its process id into the lock then."""
    return _time(path / LOCK_FILE)


def _time(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns
    return 0


def _read(path: Path, id_: str) -> Request:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except PermissionError as problem:
        raise _Unusable(f"the broker may not read the request ({problem}): ask as the broker's own user") from problem
    if len(data) > LARGEST:
        raise _Unusable(f"the request has more than {LARGEST} bytes: use the leveret command")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise _Unusable(f"the request is not JSON ({problem}): use the leveret command") from problem
    kind = found.get("kind") if isinstance(found, dict) else None
    target = found.get("target") if isinstance(found, dict) else None
    if kind != "backup":
        raise _Unusable(
            f"this broker does not support requests of kind {kind!r}: use the leveret command of its version"
        )
    if not isinstance(target, str) or "\0" in target or not os.path.isabs(target):
        raise _Unusable(f"a backup needs an absolute path to go to, not {target!r}")
    return Request(id_, kind, Path(target))


def _write(path: Path, name: str, what: dict[str, object]) -> None:
    """Readable for every user with access to the folder: root may send requests to a broker of another user."""
    new = path / FOLDER / f"{name}.new"
    new.write_text(json.dumps(what), encoding="utf-8")
    new.chmod(0o644)
    os.replace(new, path / FOLDER / name)
