"""Requests of a channel that the home cell of a remote queue answers: until then the connection handles no input."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from leveret.errors import AmqpError
from leveret.wire.grammar import ChannelStep
from leveret.wire.methods import Method

if TYPE_CHECKING:
    from leveret.session.channel import Channel

ANOTHER_CELL = "answer of another cell"  # reason to halt, with a number: the reply to one may make the next request
numbers = count()

T = TypeVar("T")


def ask_home(
    channel: Channel,
    method: Method,
    ask: Callable[[Callable[[T | AmqpError], None]], None],
    reply: Callable[[T], object],
) -> None:
    connection = channel.connection
    reason = f"{ANOTHER_CELL} {next(numbers)}"

    def answered(answer: T | AmqpError) -> None:
        if not connection.is_over and channel.step is ChannelStep.OPEN:
            try:
                if isinstance(answer, AmqpError):
                    raise answer
                reply(answer)
            except AmqpError as error:
                channel.fail(error, method.id)
        connection.unhalt(reason)

    connection.halt(reason)
    ask(answered)
