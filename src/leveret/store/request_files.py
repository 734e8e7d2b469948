"""Requests to a running broker, left as files in its data directory: for a command that cannot call it.

    requests/<id>.json      what is wanted: {"kind": "backup", "target": "/srv/backup"}
    requests/<id>.answer    {"state": "working", "done": 3, "of": 9}; at last "done" with figures, or "failed" with an
                            "error"

Both appear whole, by a rename. The broker makes the folder, for its own user only, looks into it now and then, and
removes a request that is answered for good. Whoever asks removes the answer. To remove the request is to take it back.
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
    """Why a request cannot be granted."""


# ---- who asks


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


# ---- who answers


def prepare(path: Path) -> None:
    """Make the folder, and remove the answers of an earlier life."""
    folder = path / FOLDER
    folder.mkdir(0o700, exist_ok=True)
    since = _begun(path)
    for entry in list(os.scandir(folder)):
        if NAME.fullmatch(entry.name) is None and entry.is_file() and entry.stat().st_mtime_ns < since:
            os.unlink(entry.path)


def next_request(path: Path) -> Request | None:
    """The oldest that nobody has begun with. What cannot be granted is answered on the way."""
    try:
        names = os.listdir(path / FOLDER)
    except FileNotFoundError:
        return None  # somebody tidied up; who asks makes it again
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
            continue  # taken back
        except _Unusable as problem:
            answer(path, id_, FAILED, error=str(problem))
    return None


def is_wanted(path: Path, id_: str) -> bool:
    return (path / FOLDER / f"{id_}.json").exists()


def answer(path: Path, id_: str, state: str, **facts: object) -> None:
    """Nothing if the request was taken back."""
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
        raise _Unusable(f"this broker knows no request of kind {kind!r}: use the leveret command of its version")
    if not isinstance(target, str) or "\0" in target or not os.path.isabs(target):
        raise _Unusable(f"a backup needs an absolute path to go to, not {target!r}")
    return Request(id_, kind, Path(target))


def _write(path: Path, name: str, what: dict[str, object]) -> None:
    """Readable for all who may enter the folder: root may ask a broker that is another user."""
    new = path / FOLDER / f"{name}.new"
    new.write_text(json.dumps(what), encoding="utf-8")
    new.chmod(0o644)
    os.replace(new, path / FOLDER / name)
