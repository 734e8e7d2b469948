"""An Arrow stream is cut into messages, however it comes, and nothing else is taken for one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from leveret.management.errors import BadRequest, TooLarge
from leveret.pipeline import arrow_framing
from leveret.pipeline.arrow_framing import Framing
from tests.support.http_api import arrow_stream

BATCH = pa.record_batch({"body": pa.array([b"one", b"two"])})
STREAM = arrow_stream(BATCH, BATCH)


def framed(data: bytes, step: int) -> list[bytes]:
    framing = Framing()
    parts = [data[start : start + step] for start in range(0, len(data), step)]
    found = [b"".join(message) for part in parts for message in framing.feed(part)]
    framing.finish()
    assert framing.held == 0
    return found


@pytest.mark.parametrize("step", [1, 3, 8, 9, 100, 10_000])
def test_any_slicing_gives_the_same_messages(step: int) -> None:
    schema, first, second = framed(STREAM, step)
    kind = pa.ipc.read_schema(pa.ipc.read_message(schema))
    for message in (first, second):
        assert pa.ipc.read_record_batch(pa.ipc.read_message(message), kind).equals(BATCH)


@pytest.mark.parametrize("cut", [1, 7, 8, 8 + 1, 60, len(STREAM)])
def test_a_stream_that_ends_before_its_end_mark_is_refused(cut: int) -> None:
    """Also one that ends between two messages: its writer may have died there."""
    framing = Framing()
    list(framing.feed(STREAM[: len(STREAM) - cut]))
    with pytest.raises(BadRequest, match="without its end mark"):
        framing.finish()


def test_more_behind_the_end_is_refused() -> None:
    with pytest.raises(BadRequest, match="more follows"):
        list(Framing().feed(STREAM + b"x"))


@pytest.mark.parametrize("data", [b"{" * 8, b"\xff\xff\xff\xff\x08\x00\x00\x00" + b"\xfe" * 8, b"\x00" * 16])
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        list(Framing().feed(data))


def test_compressed_bodies_are_refused_before_they_grow() -> None:
    data = arrow_stream(
        pa.record_batch({"body": pa.array([bytes(100_000)])}), options=pa.ipc.IpcWriteOptions(compression="lz4")
    )
    with pytest.raises(BadRequest, match="compressed"):
        list(Framing().feed(data))


def test_sizes_are_bounded_before_anything_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooLarge, match="metadata"):
        list(Framing().feed(b"\xff\xff\xff\xff\xff\xff\xff\x7f"))
    monkeypatch.setattr(arrow_framing, "MOST_BODY", 100)
    with pytest.raises(TooLarge, match="send smaller batches"):
        list(Framing().feed(arrow_stream(pa.record_batch({"body": pa.array([bytes(200)])}))))
