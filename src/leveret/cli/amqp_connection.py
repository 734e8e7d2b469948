"""AMQP connections of commands: ``leveret.client``, with its errors as errors of the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from leveret import client
from leveret.cli.api_client import Address, Api, NotReachable, Refusal, trusting
from leveret.client import Cancelled, ClientError, Connection
from leveret.client.errors import PeerError
from leveret.errors import AmqpError


@asynccontextmanager
async def connected(
    api: Api, address: Address, vhost: str, purpose: str, kind: type[Connection] = Connection
) -> AsyncIterator[Connection]:
    """Closed properly at the end of the block: the broker requeues unacknowledged messages at once."""
    password = api.password  # may be prompted for: not within the timeout of the connection
    is_tls = address.scheme == "amqps"
    if is_tls:
        trusting(api.ca_file)  # an invalid file is reported by the name of its option
    place = client.Address(
        host=address.host,
        port=address.port,
        vhost=vhost,
        user=api.username,
        password=password,
        is_tls=is_tls,
        cacertfile=api.ca_file or "",
        name=f"leveret {purpose}",
    )
    with _command_errors(address.url):
        async with await kind.open(place) as connection:
            yield connection


@contextmanager
def _command_errors(url: str) -> Iterator[None]:
    try:
        yield
    except AmqpError as problem:
        text = str(problem) if isinstance(problem, PeerError) else problem.reply_text
        raise Refusal(f"{url}: {text}") from None
    except Cancelled:
        raise Refusal("the queue was deleted, or its consumers were cancelled: no more messages will arrive") from None
    except ClientError as problem:
        raise NotReachable(f"{problem}; check the broker's log, or pass another address with --amqp") from None
