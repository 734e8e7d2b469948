"""Publishes to a queue of another cell: sent on a channel with confirms, in the order in which they were submitted.

While the cell is away they wait here, for a limited time; after that they are lost, and their publishers get a nack.
What was sent and not confirmed when the link was lost may have arrived or not: that is a nack too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from leveret.cells.home_cell import PATIENCE, HomeCell
from leveret.cells.link import FRAME_MAX, LinkChannel
from leveret.delivery.receipts import CREDIT, PendingPublish, Publisher, Receipt, Unattended
from leveret.logs import get_log
from leveret.message import Message
from leveret.queues.context import QueueContext
from leveret.session.run_frames import MOST_RUN, run_frame, traits_flags
from leveret.wire.constants import END_BYTE
from leveret.wire.content import refit
from leveret.wire.frames import ENVELOPE, method_frame
from leveret.wire.methods import ChannelClose, ConfirmSelect, QueueDeclare

PUBLISH = b"\x00\x3c\x00\x28\x00\x00"
MANDATORY = b"\x01"


class Unsent(NamedTuple):
    run: list[Message]
    size: int
    receipt: Receipt
    until: float  # when it is lost
    queue: str


class Sent:
    """Consecutive publishes with one receipt: first..last are not confirmed yet, except those in ``seen``."""

    __slots__ = ("_start", "first", "is_lost", "is_unanswered", "last", "receipt", "refused", "seen", "size")

    def __init__(self, first: int, last: int, receipt: Receipt, size: int) -> None:
        self._start = self.first = first
        self.last = last
        self.receipt = receipt
        self.size = size
        self.is_lost = False
        self.is_unanswered = False  # the link was lost
        self.seen: set[int] = set()
        self.refused: list[int] | None = None  # the places in the run of those that were refused

    def confirm(self, tag: int, multiple: bool, ack: bool) -> bool:
        """Whether nothing is left to confirm."""
        if not ack:
            tags = range(self.first, min(tag, self.last) + 1) if multiple else (tag,)
            self.refused = self.refused or []
            self.refused += [each - self._start for each in tags if each not in self.seen]
        if multiple:
            self.first = max(self.first, tag + 1)
        else:
            self.seen.add(tag)
        while self.first in self.seen:
            self.seen.remove(self.first)
            self.first += 1
        return self.first > self.last

    def resolve(self) -> None:
        if self.is_lost:
            self.receipt.lost()
        elif self.is_unanswered:
            self.receipt.unanswered(self.refused)
        elif self.refused:
            self.receipt.refused(self.refused)
        else:
            self.receipt.granted()


class Forwarded(Sent):
    """Consecutive publishes of a tick that expect no answer: they get their credits back."""

    __slots__ = ("credits",)

    def __init__(self, first: int) -> None:
        super().__init__(first, first - 1, Receipt(PendingPublish(Unattended(), []), 0), 0)
        self.credits: dict[Publisher, int] = {}

    def add(self, number: int, size: int, publisher: Publisher) -> None:
        self.last += number
        self.size += size
        credits = number + size // CREDIT
        self.credits[publisher] = self.credits.get(publisher, 0) + credits
        publisher.spend(credits)

    def resolve(self) -> None:
        self.receipt.granted()
        for publisher, number in self.credits.items():
            publisher.refund(number)


class RemotePublishes(LinkChannel):
    """The log of a remote queue (delivery.receipts.RemoteLog), but for ``sync``."""

    def __init__(self, queue: str, home: HomeCell, context: QueueContext) -> None:
        super().__init__()
        self._queue = queue
        self._addressed = ""  # the queue that the channel publishes to
        self._home = home
        self._context = context
        self._sent: deque[Sent] = deque()
        self._unsent: deque[Unsent] = deque()
        self._gathered: list[Message] = []  # in this tick, and not yet written
        self._gathered_size = 0
        self._next = 1  # number of the next publish
        self._is_returned = False  # the publish that is confirmed next
        self.is_held = False  # nothing is sent: the queue moves
        self._on_confirmed: list[Callable[[], None]] = []

    def submit(self, size: int, run: list[Message], publish: PendingPublish) -> None:
        receipt = publish.open(size)
        if not self._unsent and self._is_open():
            self._context.gauge.used += size
            self._send(run, size, receipt)
            return
        self.wait([Unsent(run, size, receipt, self._context.now() + PATIENCE, self._queue)])

    def wait(self, runs: list[Unsent]) -> None:
        """These are sent when the cell can be reached."""
        if runs and not self._unsent:
            self._context.schedule(runs[0].until, self._expire)
        self._context.gauge.used += sum([each.size for each in runs])
        self._unsent += runs

    def forward(self, size: int, run: list[Message], publisher: Publisher) -> None:
        """The same, for a publisher that waits for no answer."""
        if self._unsent or not self._is_open():
            publish = PendingPublish(publisher, run)
            self.submit(size, run, publish)
            publish.resolve(True)
            return
        last = self._sent[-1] if self._sent and self._gathered else None
        if not isinstance(last, Forwarded):
            last = Forwarded(self._next)
            self._sent.append(last)
        last.add(len(run), size, publisher)
        self._next += len(run)
        self._context.gauge.used += size
        self._gather(run, size)

    def unanswered(self) -> list[Receipt]:
        return [*[each.receipt for each in self._sent], *[each.receipt for each in self._unsent]]

    def resume(self) -> None:
        """The link is up again."""
        while self._unsent and self._is_open():
            run, size, receipt, _, self._queue = self._unsent.popleft()
            self._send(run, size, receipt)

    # ---- the queue moves to another cell (cells/queue_move.py)

    def when_confirmed(self, call: Callable[[], None]) -> None:
        """Call back when everything that was sent so far is confirmed or lost. The caller holds further publishes."""
        if self._sent:
            self._on_confirmed.append(call)
        else:
            call()

    def take_unsent(self) -> list[Unsent]:
        unsent, self._unsent = self._unsent, deque()
        self._context.gauge.used -= sum([each.size for each in unsent])
        return list(unsent)

    def end(self) -> None:
        self._home.publishing.close(self)

    def _tell_confirmed(self) -> None:
        calls, self._on_confirmed = self._on_confirmed, []
        for call in calls:
            call()

    def lose(self) -> None:
        """The queue was deleted."""
        self._home.publishing.close(self)
        self._drop_sent(is_lost=True)
        self._drop_unsent()

    def _is_open(self) -> bool:
        link = self._home.publishing
        if self.is_held:
            return False
        if self.number:
            return True
        if not link.open(self):
            return False
        self._address()
        link.send(method_frame(self.number, ConfirmSelect(nowait=True)))
        return True

    def _address(self) -> None:
        self.send_gathered()
        self._addressed = self._queue
        method = QueueDeclare(self._queue, passive=True, nowait=True)
        self._home.publishing.send(method_frame(self.number, method))

    def _send(self, run: list[Message], size: int, receipt: Receipt) -> None:
        first, self._next = self._next, self._next + len(run)
        self._sent.append(Sent(first, self._next - 1, receipt, size))
        self._gather(run, size)

    def _gather(self, run: list[Message], size: int) -> None:
        if self._queue != self._addressed:
            self._address()
        if not self._gathered:
            self._home.publishing.gather(self)
        self._gathered += run
        self._gathered_size += size
        if self._gathered_size > MOST_RUN // 2:
            self.send_gathered()

    def send_gathered(self) -> None:
        run, size = self._gathered, self._gathered_size
        self._gathered, self._gathered_size = [], 0
        if not run or not self.number:
            return
        for part in [run] if size <= MOST_RUN else [[message] for message in run]:
            if size > MOST_RUN and len(part[0][0]) > MOST_RUN:
                self._send_large(part[0])
            else:
                self._home.publishing.send(run_frame(self.number, 0, traits_flags(part), part))

    def _send_large(self, message: Message) -> None:
        content, address, _ = message
        payload = PUBLISH + address.tail[1:-1] + MANDATORY
        frame = ENVELOPE.pack(1, self.number, len(payload)) + payload + END_BYTE
        content = refit(content, self.number, FRAME_MAX)
        self._home.publishing.send_pieces([frame, content], len(frame) + len(content))

    # ---- from the link

    @property
    def is_idle(self) -> bool:
        return not self._sent

    def returned(self) -> None:
        self._is_returned = True

    def confirmed(self, tag: int, multiple: bool, ack: bool) -> None:
        is_lost, self._is_returned = self._is_returned, False
        sent = self._sent
        while multiple and sent and sent[0].last <= tag:
            whole = sent.popleft()
            whole.is_lost = whole.is_lost or is_lost
            whole.confirm(tag, multiple, ack)
            self._resolve(whole)
        part = self._find(tag)
        if part is not None and part.first <= tag:
            part.is_lost = part.is_lost or is_lost
            if part.confirm(tag, multiple, ack):
                sent.remove(part)
                self._resolve(part)
        if self._on_confirmed and not self._sent:
            self._tell_confirmed()

    def _find(self, tag: int) -> Sent | None:
        return next((entry for entry in self._sent if tag <= entry.last), None)

    def _resolve(self, entry: Sent) -> None:
        self._context.gauge.used -= entry.size
        entry.resolve()

    def closed(self, reason: ChannelClose | None) -> None:
        self._drop_sent(is_lost=reason is not None)
        if reason is not None:  # the queue does not exist there
            get_log("cells").warning(
                "publishes to a queue of another cell refused",
                queue=self._queue,
                cell=self._home.name,
                reason=reason.reply_text,
            )
            self._drop_unsent()

    def _drop_sent(self, *, is_lost: bool) -> None:
        """``is_lost``: there is no queue (mandatory messages are returned). Otherwise the cell has
        not answered."""
        sent, self._sent = self._sent, deque()
        self._next = 1
        self._gathered, self._gathered_size = [], 0
        self._is_returned = False
        for entry in sent:
            entry.is_lost = entry.is_lost or is_lost
            entry.is_unanswered = True
            entry.confirm(entry.last, True, False)
            self._resolve(entry)
        self._tell_confirmed()

    def _drop_unsent(self) -> None:
        unsent, self._unsent = self._unsent, deque()
        for each in unsent:
            self._context.gauge.used -= each.size
            each.receipt.lost()

    def _expire(self) -> None:
        now = self._context.now()
        while self._unsent and self._unsent[0].until <= now:
            late = self._unsent.popleft()
            self._context.gauge.used -= late.size
            late.receipt.unanswered()
        if self._unsent:
            self._context.schedule(self._unsent[0].until, self._expire)
