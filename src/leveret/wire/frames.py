"""Frames as bytes: an envelope, the payload, and the end byte 0xCE."""

from __future__ import annotations

from struct import Struct

from leveret.errors import FrameError, Unsupported
from leveret.wire.constants import BASIC_CLASS, END_BYTE, FRAME_BODY, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD
from leveret.wire.methods import METHODS, Method

ENVELOPE = Struct(">BHI")  # kind, channel, payload size
METHOD_IDS = Struct(">HH")
CONTENT_HEADER = Struct(">HHQ")  # class, weight (always zero), body size; the properties follow


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return ENVELOPE.pack(kind, channel, len(payload)) + payload + END_BYTE


def method_frame(channel: int, method: Method) -> bytes:
    return frame(FRAME_METHOD, channel, method.encode())


def content_frames(channel: int, properties_bytes: bytes, body: bytes, frame_max: int) -> bytes:
    """The header frame and the body frames as one ``bytes``; ``frame_max`` 0 means unlimited.

    Only the body is split: AMQP cannot split a header, even if it exceeds the peer's ``frame_max``.
    """
    size = len(body)
    header = CONTENT_HEADER.pack(BASIC_CLASS, 0, size) + properties_bytes
    parts = [frame(FRAME_HEADER, channel, header)]
    step = max(frame_max - FRAME_OVERHEAD, 1) if frame_max else max(size, 1)
    parts += [frame(FRAME_BODY, channel, body[start : start + step]) for start in range(0, size, step)]
    return b"".join(parts)


def decode_method(payload: bytes) -> Method:
    if len(payload) < METHOD_IDS.size:
        raise FrameError("method frame without a method")
    ids = METHOD_IDS.unpack_from(payload)
    method = METHODS.get(ids)
    if method is None:
        raise Unsupported(f"unknown method {ids[1]} of class {ids[0]}", method=ids)
    return method.decode(payload, METHOD_IDS.size, len(payload))


def decode_header(payload: bytes) -> tuple[int, int]:
    """Class id and body size of a content header; its properties begin at ``CONTENT_HEADER.size``."""
    if len(payload) < CONTENT_HEADER.size:
        raise FrameError("content header too short")
    class_id, _, size = CONTENT_HEADER.unpack_from(payload)
    return class_id, size
