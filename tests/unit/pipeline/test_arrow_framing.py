"""An Arrow stream is cut into messages, however it comes, and nothing else is taken for one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from leveret.http.errors import BadRequest, ContentTooLarge
from leveret.pipeline.arrow_frames import Framing
from tests.support.arrow_bombs import (
    ROWS_OF_NOTHING,
    V4,
    compressed_by_deprecated_key,
    rows_of_nothing,
    shared_buffers,
)
from tests.support.http_api import arrow_stream

BATCH = pa.record_batch({"body": pa.array([b"one", b"two"])})
STREAM = arrow_stream(BATCH, BATCH)


def framed(data: bytes, step: int) -> list[bytes]:
    framing = Framing()
    parts = [data[start : start + step] for start in range(0, len(data), step)]
    found = [bytes(message) for part in parts for message in framing.feed(part)]
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
    with pytest.raises(BadRequest, match="is incomplete"):
        framing.finish()


def test_more_behind_the_end_is_refused() -> None:
    with pytest.raises(BadRequest, match="data after the end"):
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


def test_sizes_are_bounded_before_anything_is_kept() -> None:
    with pytest.raises(ContentTooLarge, match="metadata"):
        list(Framing().feed(b"\xff\xff\xff\xff\xff\xff\xff\x7f"))
    with pytest.raises(ContentTooLarge, match="send smaller batches"):
        list(Framing(100).feed(arrow_stream(pa.record_batch({"body": pa.array([bytes(200)])}))))


MANY_COLUMNS = pa.record_batch({str(number): pa.array([b"x"]) for number in range(600)})


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (arrow_stream(BATCH, options=pa.ipc.IpcWriteOptions(metadata_version=V4)), "metadata version V4"),
        (arrow_stream(BATCH, custom_metadata={"a": "b"}), "custom metadata"),
        (compressed_by_deprecated_key(1 << 20), "metadata version V4"),
        (shared_buffers(100), "buffers of a record batch overlap"),
        (rows_of_nothing(), f"a record batch of {ROWS_OF_NOTHING} rows in 0 bytes"),
        (arrow_stream(MANY_COLUMNS), "1800 buffers"),
        (arrow_stream(pa.record_batch({"body": pa.array(["a"]).dictionary_encode()})), "no dictionaries"),
    ],
)
def test_what_grows_when_it_is_decoded_is_refused(stream: bytes, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        list(Framing().feed(stream))


def test_metadata_of_the_schema_is_no_harm() -> None:
    """pandas writes some."""
    schema, _ = framed(arrow_stream(BATCH.replace_schema_metadata({"pandas": "{}"})), 100)
    assert pa.ipc.read_schema(pa.ipc.read_message(schema)).metadata == {b"pandas": b"{}"}
