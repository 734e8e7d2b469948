"""``leveret check``, ``dump``, ``backup`` and ``restore``: commands for a data directory.

Each returns the exit code: 0 success, 1 damaged data or a failed operation, 2 unreadable or unusable directory.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from leveret.cli.dump import definition_lines, message_lines
from leveret.cli.tables import numbered, plain_table
from leveret.errors import StoreError
from leveret.store.backup import (
    Made,
    Step,
    copy_over,
    hand_over,
    refuse_filled,
    refuse_target,
    snapshot_at_rest,
    snapshot_folder,
)
from leveret.store.data_dir import kept_still
from leveret.store.inspection import Inspection, inspect, read_contents, require_format
from leveret.store.recovery import Damaged
from leveret.store.request_files import AGAIN, DONE, FAILED, WORKING, leave_request, read_answer, withdraw
from leveret.store.stream_inspection import StreamDamaged

T = TypeVar("T")
SOUND, DAMAGED, UNUSABLE = 0, 1, 2
POLL = 0.05  # seconds between two reads of the answer
BROKER_POLL = 1.0  # seconds between two checks that the broker still runs


def run(command: Callable[[], int]) -> int:
    """Print an error as one line on standard error."""
    try:
        return command()
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SOUND
    except (StoreError, OSError) as problem:
        sys.stderr.write(f"leveret: {problem}\n")
        return UNUSABLE


@contextmanager
def not_in_use(path: Path) -> Iterator[None]:
    """Refuse to read a data directory while a broker runs on it."""
    require_format(path)
    with kept_still(path) as owner:
        if owner is not None:
            raise StoreError(
                f"{path} is {owner}: stop the broker first, or use a backup (leveret backup {path} TARGET)"
            )
        yield


def progress_lines(what: str) -> Callable[[int, int], None]:
    """Prints a line for every tenth of the work, if standard error is a terminal."""
    steps = [0]

    def progress(done: int, of: int) -> None:
        step = done * 10 // max(of, 1)
        if sys.stderr.isatty() and of > 4 and step > steps[0]:
            steps[0] = step
            sys.stderr.write(f"{what}: {done * 100 // of} %\n")

    return progress


# ---- check


def check(path: Path, as_json: bool) -> int:
    with not_in_use(path):
        found = inspect(path, progress_lines("reading segments"))
    sys.stdout.write(json.dumps(facts_of(found), indent=2) + "\n" if as_json else report(path, found))
    return SOUND if found.contents.is_sound else DAMAGED


def facts_of(found: Inspection) -> dict[str, object]:
    recovered = found.contents.recovered
    return {
        "sound": found.contents.is_sound,
        "stopped_in_good_order": recovered.clean,
        "messages": found.messages,
        "bytes": found.bytes,
        "definitions": found.definitions,
        "faults": found.contents.faults,
        "damage": [_damage_facts(damage) for damage in recovered.damages],
        "stream_damage": [_damage_facts(damage) for damage in found.contents.stream_damages],
        "queues": [queue._asdict() for queue in found.queues],
        "deleted_queues": [
            {"id": queue.id, "messages": queue.messages, "bytes": queue.bytes} for queue in found.deleted
        ],
        "segments": [segment._asdict() | {"live": round(segment.live, 4)} for segment in found.segments],
    }


def _damage_facts(damage: Damaged | StreamDamaged) -> dict[str, object]:
    facts = {name: value for name, value in damage._asdict().items() if name != "is_tail"}
    return facts | {"kind": "torn tail" if damage.is_tail else "damage"}


def report(path: Path, found: Inspection) -> str:
    contents = found.contents
    lines = [f"{path} is {'sound' if contents.is_sound else 'damaged'}."]
    lines += [f"  fault: {fault}" for fault in contents.faults]
    lines += [f"  {_damage_line(damage, f'segment {damage.segment:010d}')}" for damage in contents.recovered.damages]
    lines += [f"  {_damage_line(damage, damage.path)}" for damage in contents.stream_damages]
    kinds = ", ".join(numbered(number, name.replace("_", " ")) for name, number in found.definitions.items())
    lines += ["", f"Definitions: {kinds}"]
    within = numbered(len(found.queues), "queues")
    lines += ["", f"Messages: {found.messages} in {within}, {numbered(found.bytes, 'bytes')}"]
    lines += _table(
        ("vhost", "queue", "messages", "bytes"),
        [(shown(row.vhost), shown(row.name), row.messages, row.bytes) for row in found.queues],
    )
    if found.deleted:
        number, size = sum(row.messages for row in found.deleted), sum(row.bytes for row in found.deleted)
        lines.append(f"Of deleted queues: {numbered(number, 'messages')}, {size} bytes; removed with their segments")
    total = sum(segment.bytes for segment in found.segments)
    lines += ["", f"Segments: {len(found.segments)}, {total} bytes"]
    lines += _table(
        ("segment", "bytes", "messages", "live"),
        [(f"{row.id:010d}", row.bytes, row.messages, f"{row.live:.0%}") for row in found.segments],
    )
    if not contents.is_sound:
        lines += [
            "",
            "A broker started on this directory skips damaged data and logs it. To recover it, restore a backup.",
        ]
    return "\n".join(lines) + "\n"


def _damage_line(damage: Damaged | StreamDamaged, where: str) -> str:
    kind = "torn tail, left by a crash" if damage.is_tail else "damage"
    return f"{kind}: {where}, {damage.size} bytes at {damage.offset}: {damage.reason}"


def _table(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    return [f"  {line}" for line in plain_table(heads, rows)] if rows else []


def shown(name: str | None) -> str:
    """A user-chosen name, with control characters escaped."""
    return name if name and name.isprintable() else json.dumps(name)


# ---- dump


def dump(path: Path, queue: str | None, vhost: str | None, limit: int | None, bodies: bool) -> int:
    with not_in_use(path):
        contents = read_contents(path, progress_lines("reading segments"))
        rows = contents.definitions.queues
        chosen = [row for row in rows if queue in (None, row.name) and vhost in (None, row.vhost)]
        if queue is not None and not chosen:
            place = "" if vhost is None else f" in vhost {vhost!r}"
            raise StoreError(f"{path} has no queue {queue!r}{place}: see 'leveret check {path}'")
        for line in definition_lines(contents.definitions, queue, vhost):
            sys.stdout.write(line + "\n")
        for row in chosen:
            for line in message_lines(row, contents.messages(row.id, limit), bodies):
                sys.stdout.write(line + "\n")
        sys.stdout.flush()
    if not contents.is_sound:
        sys.stderr.write(f"leveret: {path} is damaged, messages may be missing: see 'leveret check {path}'\n")
        return DAMAGED
    return SOUND


# ---- backup


def backup(path: Path, target: Path, timeout: float) -> int:
    path, target = Path(os.path.abspath(path)), Path(os.path.abspath(target))
    require_format(path)
    id_ = uuid.uuid4().hex
    with kept_still(path) as owner:
        if owner is None:
            return _print_backup(path, target, *_backup_at_rest(path, target, snapshot_folder(path, id_)))
    try:
        leave_request(path, id_, {"kind": "backup", "target": str(target)})
        answer = _answer(path, id_, owner, timeout)
    finally:
        withdraw(path, id_)
    if answer["state"] == FAILED:
        raise StoreError(f"backup of {path} failed: {answer.get('error')}")
    return _print_backup(path, target, answer["segments"], answer["bytes"], answer["queues"])


def _backup_at_rest(path: Path, target: Path, folder: Path) -> Made:
    refuse_target(target, path)
    try:
        snapshot_at_rest(path, folder)
        return _finished(hand_over(path, folder, target), "copying")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _print_backup(path: Path, target: Path, segments: int, size: int, queues: int) -> int:
    parts = (numbered(queues, "queues"), numbered(segments, "segments"), numbered(size, "bytes"))
    sys.stdout.write(f"{path} backed up to {target}: {', '.join(parts)}\n")
    return SOUND


def _finished(steps: Generator[Step, None, T], what: str) -> T:
    progress = progress_lines(what)
    while True:
        try:
            progress(*next(steps))
        except StopIteration as end:
            result: T = end.value
            return result


def _answer(path: Path, id_: str, owner: str, timeout: float) -> dict[str, Any]:
    """Wait until the broker reports the result."""
    progress = progress_lines("copying")
    deadline = time.monotonic() + timeout
    next_look = time.monotonic() + BROKER_POLL
    answer: dict[str, Any] | None = None
    while True:
        answer = read_answer(path, id_) or answer
        if answer is not None and answer.get("state") in (DONE, FAILED):
            return answer
        if answer is not None and answer.get("state") == WORKING:
            progress(answer["done"], answer["of"])
        if time.monotonic() > next_look:
            next_look = time.monotonic() + BROKER_POLL
            with kept_still(path) as still:
                if still is None and read_answer(path, id_) is None:
                    raise StoreError(f"the broker on {path} stopped before the backup was complete: {AGAIN}")
        if time.monotonic() > deadline:
            state = "has not finished" if answer else "has not started"
            raise StoreError(
                f"{path} is {owner}, which {state} the backup after {timeout:g} seconds: check its log, or "
                "increase --timeout"
            )
        time.sleep(POLL)


# ---- restore


def restore(source: Path, path: Path, force: bool) -> int:
    source, path = Path(os.path.abspath(source)), Path(os.path.abspath(path))
    refuse_filled(path)
    with not_in_use(source):
        found = inspect(source, progress_lines("reading segments"))
        if not found.contents.is_sound:
            sys.stderr.write(report(source, found))
            if not force:
                sys.stderr.write(
                    f"leveret: {source} is damaged: use another backup, or restore the intact part with --force\n"
                )
                return DAMAGED
        _finished(copy_over(source, path), "copying")
    restored = f"{numbered(found.messages, 'messages')} in {numbered(len(found.queues), 'queues')}"
    sys.stdout.write(f"{path} restored from {source}: {restored}, {numbered(found.bytes, 'bytes')}\n")
    sys.stdout.write(f"To start a broker on it: leveret serve --data-dir {shlex.quote(str(path))}\n")
    return SOUND
