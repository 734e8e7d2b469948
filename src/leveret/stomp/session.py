"""One STOMP client, without its socket: what its frames mean.

    bytes ─> StompReader ─> frame ─> StompSession ─> AmqpClient ─> Connection        (AMQP methods)
    bytes <─ MESSAGE, RECEIPT, ERROR <─ StompSession <─ AmqpClient <─ Connection

The session has an AMQP connection of its own (amqp_client.py). CONNECT opens it; frames that follow wait until the
login is decided. Every error closes the connection with one ERROR frame. A receipt is sent when the AMQP connection has
replied: to SEND with a confirm, to COMMIT with commit-ok, so after the message is on disk.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

from leveret.errors import AccessRefused, NotAllowed
from leveret.logs import get_log
from leveret.session.connection import UNREAD, Connection
from leveret.session.limits import UNAUTHENTICATED_BYTES
from leveret.stomp.amqp_client import CONSUMING, AmqpClient
from leveret.stomp.connect_frame import ConnectRequest, connect_request_of, connected, open_connection
from leveret.stomp.destinations import shown
from leveret.stomp.errors import StompError
from leveret.stomp.frame import SUPPORTED, Frame, encode
from leveret.stomp.frame_reader import StompReader, after_login
from leveret.stomp.known_queues import KnownQueues
from leveret.stomp.message_headers import headers_of_message
from leveret.stomp.sender import Sender
from leveret.stomp.subscriptions import Subscriptions
from leveret.stomp.transactions import Transactions
from leveret.wire.grammar import Step
from leveret.wire.methods import BasicDeliver, ConnectionClose
from leveret.wire.properties import Properties


class StompTransport(Protocol):
    """The socket of the client."""

    def write_out(self, data: bytes) -> None: ...

    def beat(self, send: float, receive: float) -> None:
        """Send heart-beats every ``send`` seconds, and close if none arrives for ``receive`` seconds; 0: never."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call it in the next iteration of the event loop."""

    def close(self) -> None:
        """Write what is buffered, then close."""


class StompSession:
    def __init__(self, transport: StompTransport, connection: Connection) -> None:
        self._transport = transport
        self._connection = connection
        connection.channel_errors_close_connection = True  # or an ACK after a failed SEND would still be handled
        self._log = get_log("stomp").bind(connection=connection.name)
        self._reader = StompReader()
        self._name = f"session-{secrets.token_urlsafe(16)}"
        self._amqp = AmqpClient(connection, self)
        known = KnownQueues(self._amqp)
        self._subscriptions = Subscriptions(self._amqp, known, self._name)
        self._sender = Sender(self._amqp, known, self._subscriptions, connection.broker.clock.wall)
        limit = connection.limits.max_partial_bytes
        self._transactions = Transactions(self._amqp, known, self._subscriptions, limit, connection.hold_partial)
        self._request: ConnectRequest | None = None
        self._is_open = False  # logged in
        self._is_over = False
        self._leaving: str | None = None  # the receipt that DISCONNECT requests
        self._gathered = 0  # bytes received of a WebSocket frame that is incomplete
        self._held = 0  # bytes of incomplete frames, with those
        self._out: list[bytes] = []
        self._handlers: dict[str, Callable[[Frame], None]] = {
            "SEND": self._send,
            "SUBSCRIBE": self._subscribe,
            "UNSUBSCRIBE": self._unsubscribe,
            "ACK": self._settle,
            "NACK": self._settle,
            "BEGIN": self._begin,
            "COMMIT": self._commit,
            "ABORT": self._abort,
            "DISCONNECT": self._disconnect,
        }

    # ---- bytes from the client

    def receive(self, data: bytes) -> None:
        """Bytes in any slicing."""
        self._connection.intake.has_received = True
        if self._is_done():
            return
        self._reader.feed(data)
        if self._request is None or self._is_open:  # else the login is still being verified
            self._go_on()
        if not (self._is_open or self._is_done()) and self._reader.size > UNAUTHENTICATED_BYTES:
            self._refuse(StompError("Too much data", f"more than {UNAUTHENTICATED_BYTES} bytes before the login"), None)
            self._flush()

    def gather(self, size: int) -> None:
        """The number of bytes received of a WebSocket frame that is incomplete."""
        if size != self._gathered:
            self._gathered = size
            self._note_partial()

    def _go_on(self) -> None:
        if self._is_done():
            return
        frame: Frame | None = None
        try:
            for frame in self._reader.frames():
                self._take(frame)
                if self._is_done() or not self._is_open:
                    break
                frame = None
        except StompError as refusal:
            self._refuse(refusal, frame)
        except Exception as bug:  # noqa: BLE001 - an internal error ends this connection only
            self._log.exception("internal error while handling a frame")
            self._refuse(StompError("internal_error", f"INTERNAL_ERROR - {type(bug).__name__}"), frame)
        self._note_partial()
        self._amqp.flush()
        self._flush()
        if not self._is_done():
            self._connection.check_unread()  # many replies are written here, past the connection

    def _is_done(self) -> bool:
        """Whether further frames of the client are ignored."""
        return self._is_over or self._leaving is not None

    def _take(self, frame: Frame) -> None:
        if frame.command in ("CONNECT", "STOMP"):
            if self._is_open:
                raise StompError("Illegal command", "this connection is already logged in")
            self._request = connect_request_of(frame, is_certified=bool(self._connection.peer.certificate))
            self._reader.version = self._request.version
            self._connection.protocol = f"STOMP {self._request.version}"
            open_connection(self._amqp, self._request, self._opened)
        elif not self._is_open:
            raise StompError("Illegal command", "You must log in using CONNECT first")
        else:
            self._handlers[frame.command](frame)

    def _opened(self) -> None:
        assert self._request is not None
        self._is_open = True
        self._reader.limits = after_login(self._connection.limits.max_message_size)
        self._write("CONNECTED", connected(self._request, self._name))
        self._flush()  # before the first heart-beat
        self._transport.beat(self._request.send_every / 1000, self._request.receive_every / 1000)
        self._transport.soon(self._go_on)

    def _note_partial(self) -> None:
        """Count the memory of incomplete frames. A frame larger than any head is a message: during an alarm it blocks
        the connection before it is complete."""
        size = 0 if self._is_over else self._reader.size + self._gathered
        if size != self._held:
            grown, self._held = size - self._held, size
            if not self._connection.hold_partial(grown) and not self._is_done():
                text = "unfinished frames of this user use all the memory that they may use: send fewer at a time"
                self._refuse(StompError("Frame too large", text), None)
        if self._is_open and size > self._reader.limits.head:
            self._block_if_alarm()

    def _block_if_alarm(self) -> None:
        if self._connection.broker.alarms:
            self._connection.block()

    # ---- frames

    def _send(self, frame: Frame) -> None:
        transaction = self._transactions.named(frame)
        if transaction is None:
            self._sender.send(frame)
        else:
            self._block_if_alarm()  # no transaction grows during an alarm
            self._transactions.add(transaction, self._sender.message(frame, CONSUMING))
            needed = self._sender.needed(frame)
            if needed is not None:
                self._transactions.need(transaction, needed)
            self._receipt(frame)

    def _subscribe(self, frame: Frame) -> None:
        self._subscriptions.subscribe(frame, self._later(frame))

    def _unsubscribe(self, frame: Frame) -> None:
        self._sender.forget(self._subscriptions.unsubscribe(frame, self._later(frame)))

    def _settle(self, frame: Frame) -> None:
        names_it = "id" if self._reader.version == "1.2" else "message-id"
        done = self._later(frame) if "receipt" in frame.headers else None
        if not self._transactions.settle(frame, names_it, done):
            self._receipt(frame)

    def _begin(self, frame: Frame) -> None:
        self._transactions.begin(frame)
        self._receipt(frame)

    def _commit(self, frame: Frame) -> None:
        self._transactions.commit(frame, self._later(frame))

    def _abort(self, frame: Frame) -> None:
        self._transactions.abort(frame)
        self._receipt(frame)

    def _disconnect(self, frame: Frame) -> None:
        self._leaving = frame.get("receipt") or ""
        self._leave_if_done()

    def _leave_if_done(self) -> None:
        """When every request has its reply."""
        if self._leaving is not None and not self._sender.is_waiting and not self._amqp.is_waiting:
            if self._leaving:
                self._write("RECEIPT", [("receipt-id", self._leaving)])
            self._end()

    # ---- replies

    def _receipt(self, frame: Frame) -> None:
        receipt = frame.get("receipt")
        if receipt is not None:
            self._write("RECEIPT", [("receipt-id", receipt)])

    def _later(self, frame: Frame) -> Callable[[], None]:
        return lambda: self._receipt(frame)

    def _write(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        self._out.append(encode(self._reader.version, command, headers, body))

    def _flush(self) -> None:
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._transport.write_out(data)

    def receive_amqp(self, data: bytes) -> None:
        """Frames of the connection. Called while it writes its outbox, so nothing may be passed to it here."""
        if self._is_over:
            return
        try:
            self._amqp.receive(data)
            self._leave_if_done()
        except StompError as refusal:
            self._refuse(refusal, None)
        except Exception as bug:  # noqa: BLE001 - the turn must go on for the others
            self._log.exception("internal error while handling a request")
            self._refuse(StompError("internal_error", f"INTERNAL_ERROR - {type(bug).__name__}"), None)
        self._flush()

    def delivered(self, envelope: BasicDeliver, properties: Properties, body: bytes) -> None:
        subscription, name = self._subscriptions.subscription_of(envelope.consumer_tag, envelope.delivery_tag)
        headers = [
            ("destination", shown(envelope.exchange, envelope.routing_key)),
            ("message-id", name),
            ("redelivered", "true" if envelope.redelivered else "false"),
        ]
        if subscription.id:
            headers.insert(0, ("subscription", subscription.id))
        if subscription.mode != "auto" and self._reader.version == "1.2":
            headers.append(("ack", name))
        headers += headers_of_message(properties)
        headers.append(("content-length", str(len(body))))
        self._write("MESSAGE", headers, body)

    def confirmed(self, tag: int, multiple: bool, is_confirmed: bool) -> None:
        for receipt in self._sender.confirmed(tag, multiple):
            if not is_confirmed:
                self._refuse_unconfirmed(receipt)
            elif receipt is not None:
                self._write("RECEIPT", [("receipt-id", receipt)])

    def _refuse_unconfirmed(self, receipt: str | None) -> None:
        """Without a receipt nothing is reported, unless DISCONNECT with a receipt has followed."""
        wanted = receipt if receipt is not None else self._leaving or None
        if wanted is not None:
            text = "a queue did not take the message: it is full or was deleted; send it again"
            raise StompError("Message refused", text, {"receipt-id": wanted})

    def cancelled(self, consumer_tag: str) -> None:
        """The queue of a subscription was deleted: the other subscriptions continue, as in RabbitMQ."""
        gone = self._subscriptions.cancelled(consumer_tag)
        if gone is not None:
            self._sender.forget(gone.queue)
            name = gone.id or gone.tag
            text = f"The server has canceled a subscription.\nNo more messages will be delivered for {name}.\n"
            headers = [("message", "Server cancelled subscription")]
            self._error([*headers, ("subscription", gone.id)] if gone.id else headers, text)

    def ended(self, code: int, text: str) -> None:
        """A channel or the connection was closed by an error."""
        if not self._is_open and self._request is not None:
            request = self._request
            if code == AccessRefused.code and request.login:
                text = f"Access refused for user '{request.login}'"
            elif code == NotAllowed.code and request.host not in self._connection.broker.vhosts:
                raise StompError("Bad CONNECT", f"Virtual host '{request.host}' access denied", ending="")
            raise StompError("Bad CONNECT", text)
        raise StompError(text.partition(" - ")[0].lower(), text)

    # ---- the end

    def _refuse(self, refusal: StompError, frame: Frame | None) -> None:
        self._log.warning("connection closed with an error", error=str(refusal))
        headers = [("message", refusal.message), *refusal.more.items()]
        if frame is not None and "receipt" in frame.headers:
            headers.append(("receipt-id", frame.headers["receipt"]))
        self._error(headers, refusal.detail + refusal.ending)
        self._end()

    def _error(self, headers: list[tuple[str, str]], text: str) -> None:
        body = text.encode("utf-8", "replace")
        plain = [("content-type", "text/plain"), ("version", SUPPORTED), ("content-length", str(len(body)))]
        self._write("ERROR", headers + plain, body)

    def _end(self) -> None:
        self._is_over = True
        self._transport.soon(self._leave)

    def _leave(self) -> None:
        """Requeue unacknowledged messages now, not when the client has read everything that was sent to it."""
        self._connection.unhalt(UNREAD)
        if self._connection.step is Step.OPEN:
            self._amqp.send(0, ConnectionClose(200, "Normal shutdown"))
            self._amqp.flush()
        self._transport.close()

    def lost(self) -> None:
        """The socket was closed."""
        self._is_over = True
        self._transactions.forget()
        self._note_partial()
