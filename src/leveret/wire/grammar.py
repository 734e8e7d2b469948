"""The legal order of methods as tables: the methods that each side may receive in each step, and the next step.

Rules of this file:

- Server and client use the same tables, each its own column (``Role``). A step names what that side waits for.
- Connection methods are valid on channel 0 only, all other methods on every channel but 0: else 503.
- A connection method in the wrong step, a method on a channel that is not open and a second channel.open are 504.
- After sending close (CLOSING), ignore everything except close and close-ok: the peer may have sent it before it
  received the close. Answer a close that crosses the one sent, and continue to wait for close-ok.
- On receiving close, answer close-ok; the state is CLOSED at once.
- Steps that a side takes by itself are not in the tables: the server moves to AWAIT_SECURE_OK when the mechanism
  needs another round, either side moves to CLOSING when it sends a close.
- A method with content is followed on its channel by one header and then by bodies until the announced size is
  reached; any other frame of that channel in between is 505. Frames of other channels and heartbeats are allowed.
"""

from __future__ import annotations

from enum import Enum, auto

from leveret.errors import ChannelFault, CommandInvalid, FrameError, UnexpectedFrame
from leveret.wire import methods as m
from leveret.wire.constants import BASIC_CLASS, FRAME_BODY, FRAME_HEADER, FRAME_METHOD

MethodId = tuple[int, int]
CONNECTION_CLASS = 10


class Role(Enum):
    """The receiving side."""

    SERVER = auto()
    CLIENT = auto()


class Step(Enum):
    """What a connection waits for."""

    AWAIT_HEADER = auto()
    AWAIT_START_OK = auto()
    AWAIT_SECURE_OK = auto()
    AWAIT_TUNE_OK = auto()
    AWAIT_OPEN = auto()
    AWAIT_START = auto()  # the steps of a client start here
    AWAIT_TUNE = auto()
    AWAIT_OPEN_OK = auto()
    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


class ChannelStep(Enum):
    CLOSED = auto()  # never opened, or closed: the number is free
    AWAIT_OPEN_OK = auto()  # client only
    OPEN = auto()
    CLOSING = auto()


class Next(Enum):
    """Which frame may come next on a channel."""

    METHOD = auto()
    HEADER = auto()
    BODY = auto()


CONNECTION_ACCEPTS: dict[Role, dict[Step, dict[MethodId, Step]]] = {
    Role.SERVER: {
        Step.AWAIT_HEADER: {},
        Step.AWAIT_START_OK: {m.ConnectionStartOk.id: Step.AWAIT_TUNE_OK},
        Step.AWAIT_SECURE_OK: {m.ConnectionSecureOk.id: Step.AWAIT_TUNE_OK},
        Step.AWAIT_TUNE_OK: {m.ConnectionTuneOk.id: Step.AWAIT_OPEN, m.ConnectionClose.id: Step.CLOSED},
        Step.AWAIT_OPEN: {m.ConnectionOpen.id: Step.OPEN, m.ConnectionClose.id: Step.CLOSED},
        Step.OPEN: {m.ConnectionUpdateSecret.id: Step.OPEN, m.ConnectionClose.id: Step.CLOSED},
        Step.CLOSING: {m.ConnectionClose.id: Step.CLOSING, m.ConnectionCloseOk.id: Step.CLOSED},
        Step.CLOSED: {},
    },
    Role.CLIENT: {
        Step.AWAIT_START: {m.ConnectionStart.id: Step.AWAIT_TUNE, m.ConnectionClose.id: Step.CLOSED},
        Step.AWAIT_TUNE: {
            m.ConnectionSecure.id: Step.AWAIT_TUNE,
            m.ConnectionTune.id: Step.AWAIT_OPEN_OK,
            m.ConnectionClose.id: Step.CLOSED,
        },
        Step.AWAIT_OPEN_OK: {m.ConnectionOpenOk.id: Step.OPEN, m.ConnectionClose.id: Step.CLOSED},
        Step.OPEN: {
            m.ConnectionBlocked.id: Step.OPEN,
            m.ConnectionUnblocked.id: Step.OPEN,
            m.ConnectionUpdateSecretOk.id: Step.OPEN,
            m.ConnectionClose.id: Step.CLOSED,
        },
        Step.CLOSING: {m.ConnectionClose.id: Step.CLOSING, m.ConnectionCloseOk.id: Step.CLOSED},
        Step.CLOSED: {},
    },
}

# Methods that an open channel may receive besides close; the step stays OPEN. Both sides send ack, nack and cancel.
SERVER_ACCEPTS = frozenset(
    method.id
    for method in (
        *(m.ChannelFlow, m.ChannelFlowOk),
        *(m.ExchangeDeclare, m.ExchangeDelete, m.ExchangeBind, m.ExchangeUnbind),
        *(m.QueueDeclare, m.QueueBind, m.QueuePurge, m.QueueDelete, m.QueueUnbind),
        *(m.BasicQos, m.BasicConsume, m.BasicCancel, m.BasicCancelOk, m.BasicPublish, m.BasicGet),
        *(m.BasicAck, m.BasicReject, m.BasicNack, m.BasicRecover, m.BasicRecoverAsync),
        *(m.ConfirmSelect, m.TxSelect, m.TxCommit, m.TxRollback),
    )
)
CLIENT_ACCEPTS = frozenset(
    method.id
    for method in (
        *(m.ChannelFlow, m.ChannelFlowOk),
        *(m.ExchangeDeclareOk, m.ExchangeDeleteOk, m.ExchangeBindOk, m.ExchangeUnbindOk),
        *(m.QueueDeclareOk, m.QueueBindOk, m.QueuePurgeOk, m.QueueDeleteOk, m.QueueUnbindOk),
        *(m.BasicQosOk, m.BasicConsumeOk, m.BasicCancel, m.BasicCancelOk, m.BasicReturn, m.BasicDeliver),
        *(m.BasicGetOk, m.BasicGetEmpty, m.BasicAck, m.BasicNack, m.BasicRecoverOk),
        *(m.ConfirmSelectOk, m.TxSelectOk, m.TxCommitOk, m.TxRollbackOk),
    )
)

CHANNEL_ACCEPTS: dict[Role, dict[ChannelStep, dict[MethodId, ChannelStep]]] = {
    Role.SERVER: {
        ChannelStep.CLOSED: {m.ChannelOpen.id: ChannelStep.OPEN},
        ChannelStep.OPEN: dict.fromkeys(SERVER_ACCEPTS, ChannelStep.OPEN) | {m.ChannelClose.id: ChannelStep.CLOSED},
        ChannelStep.CLOSING: {m.ChannelClose.id: ChannelStep.CLOSING, m.ChannelCloseOk.id: ChannelStep.CLOSED},
    },
    Role.CLIENT: {
        ChannelStep.CLOSED: {},
        ChannelStep.AWAIT_OPEN_OK: {m.ChannelOpenOk.id: ChannelStep.OPEN, m.ChannelClose.id: ChannelStep.CLOSED},
        ChannelStep.OPEN: dict.fromkeys(CLIENT_ACCEPTS, ChannelStep.OPEN) | {m.ChannelClose.id: ChannelStep.CLOSED},
        ChannelStep.CLOSING: {m.ChannelClose.id: ChannelStep.CLOSING, m.ChannelCloseOk.id: ChannelStep.CLOSED},
    },
}


def name_of(method_id: MethodId) -> str:
    method = m.METHODS.get(method_id)
    return method.NAME if method is not None else f"{method_id[0]}.{method_id[1]}"


def check_place(channel: int, method_id: MethodId) -> None:
    """Connection methods are valid on channel 0 only, all others elsewhere."""
    if (method_id[0] == CONNECTION_CLASS) != (channel == 0):
        raise CommandInvalid(f"{name_of(method_id)} is not allowed on channel {channel}", method=method_id)


def connection_step(step: Step, method_id: MethodId, role: Role = Role.SERVER) -> Step:
    """The step after receiving a method on channel 0."""
    check_place(0, method_id)
    after = CONNECTION_ACCEPTS[role].get(step, {}).get(method_id)
    if after is not None:
        return after
    if step is Step.CLOSING:
        return step
    raise ChannelFault(f"unexpected {name_of(method_id)} in connection state {step.name.lower()}", method=method_id)


def channel_step(step: ChannelStep, method_id: MethodId, role: Role = Role.SERVER) -> ChannelStep:
    """The step after receiving a method on a channel other than 0."""
    check_place(1, method_id)
    after = CHANNEL_ACCEPTS[role].get(step, {}).get(method_id)
    if after is not None:
        return after
    if step is ChannelStep.CLOSING:
        return step
    if step is not ChannelStep.OPEN:
        raise ChannelFault(f"{name_of(method_id)} on a channel that is not open", method=method_id)
    if method_id == m.ChannelOpen.id:
        raise ChannelFault("second channel.open on an open channel", method=method_id)
    raise CommandInvalid(f"unexpected {name_of(method_id)}", method=method_id)


# --- frames and content

KIND_OF = {Next.METHOD: FRAME_METHOD, Next.HEADER: FRAME_HEADER, Next.BODY: FRAME_BODY}


def check_frame(expected: Next, kind: int, channel: int) -> None:
    """Refuse a method, header or body frame that may not come next on its channel."""
    if kind != KIND_OF[expected]:
        raise UnexpectedFrame(f"expected a {expected.name.lower()} frame on channel {channel}, got type {kind}")
    if channel == 0 and kind != FRAME_METHOD:
        raise UnexpectedFrame("content on channel 0")


def check_heartbeat(channel: int, size: int) -> None:
    if channel:
        raise UnexpectedFrame(f"heartbeat on channel {channel}")
    if size:
        raise FrameError(f"heartbeat with a payload of {size} bytes")


def after_header(class_id: int, body_size: int) -> Next:
    if class_id != BASIC_CLASS:
        raise UnexpectedFrame(f"content header of class {class_id}, expected {BASIC_CLASS}")
    return Next.BODY if body_size else Next.METHOD


def after_body(left: int) -> Next:
    """``left`` is the announced body size minus the bytes received."""
    if left < 0:
        raise FrameError(f"body is {-left} bytes longer than announced")
    return Next.BODY if left else Next.METHOD
