"""One STOMP peer, without its socket: what its frames mean.

    bytes ─> StompReader ─> frame ─> StompSession ─> AmqpSide ─> Connection        (methods of AMQP)
    bytes <─ MESSAGE, RECEIPT, ERROR <─ StompSession <─ AmqpSide <─ Connection

The session has one connection of AMQP to itself (see amqp_side.py). CONNECT opens it; frames that follow wait until the
login is decided. Whatever goes wrong, there or here, ends the peer with one ERROR frame. A receipt is sent when the
connection has answered: for SEND by a confirm, for COMMIT by commit-ok, so after the disk.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

from leveret.errors import AccessRefused, NotAllowed
from leveret.logs import get_log
from leveret.session.connection import UNREAD, Connection
from leveret.session.limits import UNAUTHENTICATED_BYTES
from leveret.stomp.amqp_side import CONSUMING, AmqpSide
from leveret.stomp.destinations import shown
from leveret.stomp.frame import SUPPORTED, Frame, encode
from leveret.stomp.frame_reader import StompReader, after_login
from leveret.stomp.greeting import Greeting, connected, greeting_of, open_connection
from leveret.stomp.known_queues import KnownQueues
from leveret.stomp.message_headers import headers_of_message
from leveret.stomp.refusals import StompRefusal
from leveret.stomp.sending import Sending
from leveret.stomp.subscribing import Subscribing
from leveret.stomp.transactions import Transactions
from leveret.wire.grammar import Step
from leveret.wire.methods import BasicDeliver, ConnectionClose
from leveret.wire.properties import Properties


class Outside(Protocol):
    """The socket, as a STOMP session sees it."""

    def write_out(self, data: bytes) -> None: ...

    def beat(self, send: float, hear: float) -> None:
        """From now on say something every ``send`` seconds and close if nothing came for long; 0: no need."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call it from the loop, after what is under way."""

    def close(self) -> None:
        """Write what is left and close."""


class StompSession:
    def __init__(self, outside: Outside, connection: Connection) -> None:
        self._outside = outside
        self._connection = connection
        connection.one_for_all = True  # or an ACK behind a SEND that failed would still be done, on the other channel
        self._log = get_log("stomp").bind(connection=connection.name)
        self._reader = StompReader()
        self._name = f"session-{secrets.token_urlsafe(16)}"
        self._amqp = AmqpSide(connection, self)
        known = KnownQueues(self._amqp)
        self._subscribing = Subscribing(self._amqp, known, self._name)
        self._sending = Sending(self._amqp, known, self._subscribing, connection.broker.clock.wall)
        limit = connection.limits.max_partial_bytes
        self._transactions = Transactions(self._amqp, known, self._subscribing, limit, connection.hold_partial)
        self._greeting: Greeting | None = None
        self._is_open = False  # logged in
        self._is_over = False
        self._leaving: str | None = None  # the receipt that DISCONNECT asked for
        self._gathered = 0  # bytes that came so far of what will be handed to us whole
        self._held = 0  # bytes of a partial frame, with those
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

    # ---- bytes from the peer

    def receive(self, data: bytes) -> None:
        """Bytes in any slicing."""
        self._connection.intake.heard = True
        if self._is_done():
            return
        self._reader.feed(data)
        if self._greeting is None or self._is_open:  # else the login is not decided yet
            self._go_on()
        if not (self._is_open or self._is_done()) and self._reader.size > UNAUTHENTICATED_BYTES:
            self._refuse(
                StompRefusal("Too much data", f"more than {UNAUTHENTICATED_BYTES} bytes before the login"), None
            )
            self._flush()

    def gather(self, size: int) -> None:
        """So many bytes have come of a frame of a WebSocket that is not whole yet."""
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
        except StompRefusal as refusal:
            self._refuse(refusal, frame)
        except Exception as bug:  # noqa: BLE001 - a bug of ours must not take the loop down with it
            self._log.exception("internal error while handling a frame")
            self._refuse(StompRefusal("internal_error", f"INTERNAL_ERROR - {type(bug).__name__}"), frame)
        self._note_partial()
        self._amqp.flush()
        self._flush()
        if not self._is_done():
            self._connection.heed_unread()  # much is answered here, of which the connection does not know

    def _is_done(self) -> bool:
        """Nothing that the peer still says has a meaning."""
        return self._is_over or self._leaving is not None

    def _take(self, frame: Frame) -> None:
        if frame.command in ("CONNECT", "STOMP"):
            if self._is_open:
                raise StompRefusal("Illegal command", "this connection is logged in already")
            self._greeting = greeting_of(frame, is_certified=bool(self._connection.peer.certificate))
            self._reader.version = self._greeting.version
            self._connection.protocol = f"STOMP {self._greeting.version}"
            open_connection(self._amqp, self._greeting, self._opened)
        elif not self._is_open:
            raise StompRefusal("Illegal command", "You must log in using CONNECT first")
        else:
            self._handlers[frame.command](frame)

    def _opened(self) -> None:
        assert self._greeting is not None
        self._is_open = True
        self._reader.limits = after_login(self._connection.limits.max_message_size)
        self._say("CONNECTED", connected(self._greeting, self._name))
        self._flush()  # before the first heart-beat
        self._outside.beat(self._greeting.send_every / 1000, self._greeting.hear_every / 1000)
        self._outside.soon(self._go_on)

    def _note_partial(self) -> None:
        """A frame under way is memory like any other. One that is larger than any head is a message: during an alarm it
        blocks the connection before all of it has arrived."""
        size = 0 if self._is_over else self._reader.size + self._gathered
        if size != self._held:
            grown, self._held = size - self._held, size
            if not self._connection.hold_partial(grown) and not self._is_done():
                text = "unfinished frames of this user use all the memory they may: send fewer at a time"
                self._refuse(StompRefusal("Frame too large", text), None)
        if self._is_open and size > self._reader.limits.head:
            self._heed_alarms()

    def _heed_alarms(self) -> None:
        if self._connection.broker.alarms:
            self._connection.block()

    # ---- frames

    def _send(self, frame: Frame) -> None:
        transaction = self._transactions.named(frame)
        if transaction is None:
            self._sending.send(frame)
        else:
            self._heed_alarms()  # no transaction grows during an alarm
            self._transactions.add(transaction, self._sending.message(frame, CONSUMING))
            needed = self._sending.needed(frame)
            if needed is not None:
                self._transactions.need(transaction, needed)
            self._receipt(frame)

    def _subscribe(self, frame: Frame) -> None:
        self._subscribing.subscribe(frame, self._later(frame))

    def _unsubscribe(self, frame: Frame) -> None:
        self._sending.forget(self._subscribing.unsubscribe(frame, self._later(frame)))

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
        """Once everything that was asked for is answered."""
        if self._leaving is not None and not self._sending.is_waiting and not self._amqp.is_waiting:
            if self._leaving:
                self._say("RECEIPT", [("receipt-id", self._leaving)])
            self._end()

    # ---- answers

    def _receipt(self, frame: Frame) -> None:
        receipt = frame.get("receipt")
        if receipt is not None:
            self._say("RECEIPT", [("receipt-id", receipt)])

    def _later(self, frame: Frame) -> Callable[[], None]:
        return lambda: self._receipt(frame)

    def _say(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        self._out.append(encode(self._reader.version, command, headers, body))

    def _flush(self) -> None:
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._outside.write_out(data)

    def hear(self, data: bytes) -> None:
        """The connection says something. Called while its outbox is written, so nothing is handed to it here."""
        if self._is_over:
            return
        try:
            self._amqp.hear(data)
            self._leave_if_done()
        except StompRefusal as refusal:
            self._refuse(refusal, None)
        except Exception as bug:  # noqa: BLE001 - the turn must go on for the others
            self._log.exception("internal error while handling a request")
            self._refuse(StompRefusal("internal_error", f"INTERNAL_ERROR - {type(bug).__name__}"), None)
        self._flush()

    def delivered(self, envelope: BasicDeliver, properties: Properties, body: bytes) -> None:
        subscription, name = self._subscribing.hand_out(envelope.consumer_tag, envelope.delivery_tag)
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
        self._say("MESSAGE", headers, body)

    def confirmed(self, tag: int, multiple: bool, is_taken: bool) -> None:
        for receipt in self._sending.confirmed(tag, multiple):
            if not is_taken:
                self._refuse_untaken(receipt)
            elif receipt is not None:
                self._say("RECEIPT", [("receipt-id", receipt)])

    def _refuse_untaken(self, receipt: str | None) -> None:
        """Unless nobody asked; but DISCONNECT asks for all that is not decided when it comes."""
        asked = receipt if receipt is not None else self._leaving or None
        if asked is not None:
            text = "a queue did not take the message: it is full, or gone; send it again"
            raise StompRefusal("Message refused", text, {"receipt-id": asked})

    def cancelled(self, consumer_tag: str) -> None:
        """A queue was deleted under its subscription: the others live on, as with RabbitMQ."""
        gone = self._subscribing.cancelled(consumer_tag)
        if gone is not None:
            self._sending.forget(gone.queue)
            name = gone.id or gone.tag
            text = f"The server has canceled a subscription.\nNo more messages will be delivered for {name}.\n"
            headers = [("message", "Server cancelled subscription")]
            self._error([*headers, ("subscription", gone.id)] if gone.id else headers, text)

    def ended(self, code: int, text: str) -> None:
        """A channel or the connection was closed by an error."""
        if not self._is_open and self._greeting is not None:
            greeting = self._greeting
            if code == AccessRefused.code and greeting.login:
                text = f"Access refused for user '{greeting.login}'"
            elif code == NotAllowed.code and greeting.host not in self._connection.broker.vhosts:
                raise StompRefusal("Bad CONNECT", f"Virtual host '{greeting.host}' access denied", ending="")
            raise StompRefusal("Bad CONNECT", text)
        raise StompRefusal(text.partition(" - ")[0].lower(), text)

    # ---- the end

    def _refuse(self, refusal: StompRefusal, frame: Frame | None) -> None:
        self._log.warning("connection closed with an error", error=str(refusal))
        headers = [("message", refusal.message), *refusal.more.items()]
        if frame is not None and "receipt" in frame.headers:
            headers.append(("receipt-id", frame.headers["receipt"]))
        self._error(headers, refusal.detail + refusal.ending)
        self._end()

    def _error(self, headers: list[tuple[str, str]], text: str) -> None:
        body = text.encode("utf-8", "replace")
        plain = [("content-type", "text/plain"), ("version", SUPPORTED), ("content-length", str(len(body)))]
        self._say("ERROR", headers + plain, body)

    def _end(self) -> None:
        self._is_over = True
        self._outside.soon(self._leave)

    def _leave(self) -> None:
        """What is unacked goes back now, not when the peer has read our last words, or what it has left lying."""
        self._connection.unhalt(UNREAD)
        if self._connection.step is Step.OPEN:
            self._amqp.tell(0, ConnectionClose(200, "Normal shutdown"))
            self._amqp.flush()
        self._outside.close()

    def lost(self) -> None:
        """The socket is gone."""
        self._is_over = True
        self._transactions.forget()
        self._note_partial()
