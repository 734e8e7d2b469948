"""One STOMP client, without its socket: what its frames mean.

    bytes ─> StompReader ─> frame ─> StompConnection ─> StompChannel ─> broker
    bytes <─ outbox <─ MESSAGE, RECEIPT, ERROR <───────────────────────────┘

CONNECT logs in; frames that follow wait until the login is decided. Every error closes the connection with one ERROR
frame. A receipt is sent when the broker has done what was requested, as durable as promised: to SEND with the confirm,
to COMMIT with the commit, so after the message is on disk.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

from leveret.auth.mechanisms import Credentials, parse
from leveret.broker.broker import Broker
from leveret.delivery.confirms import Confirm
from leveret.errors import AccessRefused, AmqpError, NotAllowed
from leveret.logs import get_log
from leveret.routing.bounds import BYTE_STEPS
from leveret.session.connection import Connection, Login, Peer
from leveret.session.handover import Handover
from leveret.session.limits import UNAUTHENTICATED_BYTES, Limits
from leveret.session.outbox import MOST_GATHERED
from leveret.stomp.channel import StompChannel
from leveret.stomp.connect_frame import ConnectRequest, connect_request_of, connected, vhost_of
from leveret.stomp.declarations import KnownQueues
from leveret.stomp.errors import StompError, internal_error
from leveret.stomp.frame import SUPPORTED, Frame, encode
from leveret.stomp.frame_reader import StompReader, after_login
from leveret.stomp.sender import Sender
from leveret.stomp.subscriptions import Subscriptions
from leveret.stomp.transactions import Transactions
from leveret.wire.constants import DEFAULT_FRAME_MAX
from leveret.wire.fields import encode_table
from leveret.wire.grammar import Step

PUBLISHING, CONSUMING = 1, 2  # numbers of channels
AGREED = ("version", "host", "send_every", "receive_every")  # of CONNECT, for another cell


class StompTransport(Peer, Protocol):
    """The socket of the client."""

    def beat(self, send: float, receive: float) -> None:
        """Send heart-beats every ``send`` seconds, and close if none arrives for ``receive`` seconds; 0: never."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call it in the next iteration of the event loop."""


class StompConnection(Connection):
    protocol = "STOMP"
    channels: dict[int, StompChannel]
    _sender: Sender  # these three are set at login
    subscriptions: Subscriptions
    _handlers: dict[str, Callable[[Frame, bytes], None]]

    def __init__(self, broker: Broker, transport: StompTransport, login: Login, limits: Limits, name: str) -> None:
        super().__init__(broker, transport, login, limits, name)
        self.log = get_log("stomp").bind(connection=name)
        self.client_properties = {"product": "STOMP client"}
        self.frame_max = max(limits.frame_max, DEFAULT_FRAME_MAX)  # of stored contents
        self._transport = transport
        self._reader = StompReader()
        self.version = self._reader.version
        self._session = f"session-{secrets.token_urlsafe(16)}"
        self._request: ConnectRequest | None = None
        self._is_handling = False  # ``go_on`` is running
        self._waiting: Frame | None = None  # SEND that waits for the end of an alarm
        self._leaving: str | None = None  # the receipt that DISCONNECT requests
        self._gathered = 0  # bytes received of a WebSocket frame that is incomplete
        self._held = 0  # bytes of frames that are incomplete or wait, with those

    # ---- bytes from the client

    def receive(self, data: bytes) -> None:
        self.has_received = True
        if self._is_done():
            return
        self._reader.feed(data)
        self.go_on()
        if self.step is Step.AWAIT_HEADER and self._reader.size > UNAUTHENTICATED_BYTES:
            self._refuse(StompError("Too much data", f"more than {UNAUTHENTICATED_BYTES} bytes before the login"))
        self.input_handled()

    def gather(self, size: int) -> None:
        """The number of bytes received of a WebSocket frame that is incomplete."""
        if size != self._gathered:
            self._gathered = size
            self._note_partial()

    def go_on(self) -> None:
        if self._is_handling:
            return
        self._is_handling = True
        frame: Frame | None = None
        try:
            while not (self.halted or self._is_done()):
                frame = None  # the next one may be malformed
                frame = self._next_frame()
                if frame is None:
                    break
                self._take(frame)
        except StompError as refusal:
            self._refuse(refusal, frame)
        except AmqpError as error:
            self._refuse(self._translated(error), frame)
        except Exception as bug:
            self.log.exception("internal error while handling a frame")
            self._refuse(internal_error(bug), frame)
        finally:
            self._is_handling = False
        self._note_partial()

    def _is_done(self) -> bool:
        """Whether further frames of the client are ignored."""
        return self.is_over or self._leaving is not None

    def _next_frame(self) -> Frame | None:
        """None if no frame is complete, or if a SEND has to wait for the end of an alarm."""
        frame, self._waiting = self._waiting or self._reader.next_frame(), None
        if frame is not None and frame.command == "SEND" and self.broker.alarms and self.step is Step.OPEN:
            self._waiting = frame
            self.block()
            return None
        return frame

    def _take(self, frame: Frame) -> None:
        if frame.command in ("CONNECT", "STOMP"):
            if self._request is not None:
                raise StompError("Illegal command", "this connection is already logged in")
            self._connect(frame)
        elif self.step is not Step.OPEN:
            raise StompError("Illegal command", "You must log in using CONNECT first")
        else:
            self._handlers[frame.command](frame, self._receipt(frame))
            is_send = frame.command == "SEND"
            self.charge(0 if is_send else BYTE_STEPS * sum([len(value) for value in frame.headers.values()]))
            if self.outbox.size > MOST_GATHERED:
                self.flush_and_check_unread()

    def _note_partial(self) -> None:
        """Count the memory of incomplete frames. A frame larger than any head is a message: during an alarm it blocks
        the connection before it is complete."""
        size = self._reader.size + self._gathered + (0 if self._waiting is None else len(self._waiting.body))
        size = 0 if self.is_over else size
        if size != self._held:
            grown, self._held = size - self._held, size
            if not self.hold_partial(grown) and not self._is_done():
                text = "unfinished frames of this user use all the memory that they may use: send fewer at a time"
                self._refuse(StompError("Frame too large", text))
        if size > self._reader.limits.head and self.broker.alarms:
            self.block()

    # ---- login

    def _connect(self, frame: Frame) -> None:
        certificate = self.peer.certificate
        self._request = request = connect_request_of(frame, is_certified=bool(certificate))
        self._reader.version = self.version = request.version
        self.protocol = f"STOMP {request.version}"
        if certificate and not request.login:
            self.log_in(parse("EXTERNAL", b"", certificate), "EXTERNAL")
        else:
            self.log_in(Credentials(request.login, request.passcode), "PLAIN")

    def logged_in(self) -> None:
        request = self._request
        assert request is not None
        vhost = vhost_of(request, self.broker.vhosts)
        try:
            if self.is_relayed(vhost):
                return
            self.open_vhost(vhost)
            self._open_channels()
        except AmqpError as error:
            self._refuse(self._translated(error))
            return
        self.step = Step.OPEN
        self._reader.limits = after_login(self.limits.max_message_size)
        self._write("CONNECTED", connected(request, self._session))
        self.outbox.flush()  # before the first heart-beat
        self._transport.beat(request.send_every / 1000, request.receive_every / 1000)

    def handover(self) -> Handover:
        request = self._request
        assert request is not None
        agreed, properties = {name: getattr(request, name) for name in AGREED}, encode_table(self.client_properties)
        return Handover("stomp", self.wanted_vhost, self.user.name, self.mechanism, properties, agreed)

    def open_handed_over(self, handover: Handover) -> None:
        self._request = ConnectRequest(**handover.agreed, login=handover.user, passcode="")
        self._reader.version = self.version = self._request.version
        self.protocol = f"STOMP {self.version}"
        self.logged_in()

    def unhandled_input(self) -> bytes:
        return self._reader.rest()

    def _open_channels(self) -> None:
        self.channels[PUBLISHING] = publishing = StompChannel(self, PUBLISHING)
        self.channels[CONSUMING] = consuming = StompChannel(self, CONSUMING)
        publishing.select_confirms()
        known = KnownQueues(self.vhost.queues)
        version, most = self.version, self.limits.max_partial_bytes
        self.subscriptions = subscriptions = Subscriptions(consuming, known, self._session, version)
        self._sender = Sender(publishing, known, subscriptions, self.broker.clock.wall)
        transactions = Transactions(consuming, subscriptions, self._sender, most, self.hold_partial)
        self._handlers = {
            "SEND": transactions.send,
            "SUBSCRIBE": subscriptions.subscribe,
            "UNSUBSCRIBE": subscriptions.unsubscribe,
            "ACK": transactions.settle,
            "NACK": transactions.settle,
            "BEGIN": transactions.begin,
            "COMMIT": transactions.commit,
            "ABORT": transactions.abort,
            "DISCONNECT": self._disconnect,
        }

    def _translated(self, error: AmqpError) -> StompError:
        request = self._request
        if self.step is Step.OPEN or request is None:
            return StompError(error.title.lower(), error.reply_text)
        if error.code == AccessRefused.code and request.login:
            return StompError("Bad CONNECT", f"Access refused for user '{request.login}'")
        if error.code == NotAllowed.code and request.host not in self.broker.vhosts:
            return StompError("Bad CONNECT", f"Virtual host '{request.host}' access denied", ending="")
        return StompError("Bad CONNECT", error.reply_text)

    # ---- DISCONNECT

    def _disconnect(self, frame: Frame, receipt: bytes) -> None:
        self._leaving = frame.get("receipt") or ""
        self.leave_if_done()

    def leave_if_done(self) -> None:
        """After DISCONNECT, when every request has its reply."""
        if self._leaving is None or self._sender.is_waiting:
            return
        if not any(channel.is_waiting for channel in self.channels.values()):
            self._transport.soon(self._finish)

    def _finish(self) -> None:
        """Deliver what has arrived before the DISCONNECT, and reply to it."""
        if not self.is_over:
            for channel in self.channels.values():
                channel.catch_up()
            if self._leaving:
                self._write("RECEIPT", [("receipt-id", self._leaving)])
            self._end()

    # ---- to the client

    def _receipt(self, frame: Frame) -> bytes:
        """The RECEIPT of a frame, empty if it requests none."""
        receipt = frame.get("receipt")
        return b"" if receipt is None else encode(self.version, "RECEIPT", [("receipt-id", receipt)])

    def _write(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        self.send(encode(self.version, command, headers, body))

    def confirmed(self, confirms: list[Confirm]) -> None:
        for tag, multiple, is_confirmed in confirms:
            for receipt in self._sender.confirmed(tag, multiple):
                if not is_confirmed:
                    self._refuse_unconfirmed(receipt)
                elif receipt is not None:
                    self._write("RECEIPT", [("receipt-id", receipt)])
        self.leave_if_done()

    def _refuse_unconfirmed(self, receipt: str | None) -> None:
        """Without a receipt nothing is reported, unless DISCONNECT with a receipt has followed."""
        wanted = receipt if receipt is not None else self._leaving or None
        if wanted is not None:
            text = "a queue did not take the message: it is full or was deleted; send it again"
            self._refuse(StompError("Message refused", text, {"receipt-id": wanted}))

    def cancelled(self, consumer_tag: str) -> None:
        """The queue of a subscription was deleted: the other subscriptions continue, as in RabbitMQ."""
        gone = self.subscriptions.cancelled(consumer_tag)
        if gone is not None:
            name = gone.id or gone.tag
            text = f"The server has canceled a subscription.\nNo more messages will be delivered for {name}.\n"
            headers = [("message", "Server cancelled subscription")]
            self._error([*headers, ("subscription", gone.id)] if gone.id else headers, text)

    # ---- the end

    def _refuse(self, refusal: StompError, frame: Frame | None = None) -> None:
        if self.is_over:
            return
        if not self.login_was_refused:
            self.log.warning("connection closed with an error", error=str(refusal))
        headers = [("message", refusal.message), *refusal.more.items()]
        if frame is not None and "receipt" in frame.headers:
            headers.append(("receipt-id", frame.headers["receipt"]))
        self._error(headers, refusal.detail + refusal.ending)
        self._end()

    def delivery_failed(self, bug: Exception) -> None:
        self.log.exception("internal error while delivering a message")
        self._refuse(internal_error(bug))

    def end_with(self, error: AmqpError) -> None:
        self._refuse(self._translated(error))

    def _error(self, headers: list[tuple[str, str]], text: str) -> None:
        body = text.encode("utf-8", "replace")
        plain = [("content-type", "text/plain"), ("version", SUPPORTED), ("content-length", str(len(body)))]
        self._write("ERROR", headers + plain, body)

    def _end(self) -> None:
        """Send nothing more, and close in the next iteration of the loop: a queue may be delivering right now."""
        self.step = Step.CLOSING
        self.send = self._discard
        self._transport.soon(self._leave)

    def _discard(self, data: bytes) -> None:
        """Replaces ``send`` once the connection has ended."""

    def _leave(self) -> None:
        """Requeue unacknowledged messages now, not when the client has read everything that was sent to it."""
        if self.step is not Step.CLOSED:
            self.release()
            self.over()
            self.broker.wake()

    def release(self) -> None:
        super().release()
        self.hold_partial(-self.partial)  # open transactions too: nothing of them is committed
        self._held = 0
