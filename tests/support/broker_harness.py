"""A broker with a store on a virtual disk, in one thread and without time (tests/support/store_harness.py)."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.broker.broker import Broker
from leveret.broker.publishes import write_run
from leveret.broker.restoration import load_seen, restore_definitions, restore_messages
from leveret.message import NEVER, Message
from leveret.queues.classic import ClassicQueue
from leveret.queues.declared_queue import GetResult
from leveret.store.recovered_lane import RecoveredLane
from leveret.store.recovery import recover
from tests.support.callback_listener import CallbackListener
from tests.support.ledger import Ledger
from tests.support.store_harness import FULL_SIZE, StoreHarness, message
from tests.support.virtual_disk import VirtualDisk

MOST_TURNS = 1_000


class BrokerHarness(StoreHarness):
    """Queues are known by their names."""

    def __init__(
        self,
        disk: VirtualDisk | None = None,
        *,
        full_size: int = FULL_SIZE,
        ledger: Ledger | None = None,
        checkpoint_every: int | None = None,
    ) -> None:
        super().__init__(disk, full_size=full_size, ledger=ledger, checkpoint_every=checkpoint_every)
        self.broker = Broker(
            node_name="harness",
            clock=self.clock,
            log=self.journal,
            memory_high_watermark=1 << 30,
            pages=self.pages,
            queue_memory=4096,
        )
        self.journal.listener = self.listener = CallbackListener(self._granted, self.broker.lost)
        self.listener.on_early = self.broker.granted_early
        self._full_size = full_size

    def _granted(self, receipt: int) -> None:
        self.ledger.granted(receipt)
        self.broker.granted(receipt)

    def begin(self) -> list[RecoveredLane]:
        recovered = recover(self.disk, self.disk.queues(), self._full_size)
        rows = self.disk.definitions()
        highest = max(rows.highest_queue, recovered.highest_queue)
        with self.broker.unrecorded():
            restore_definitions(self.broker, rows._replace(highest_queue=highest), "guest", "guest")
        lanes = self.adopt(recovered)
        restore_messages(self.broker, lanes)
        self.journal.seal()
        load_seen(self.broker, lambda: None)
        self.broker.add_vhost("/")
        self.rest()
        return lanes

    def turn(self) -> None:
        self.broker.tick()
        for _ in range(MOST_TURNS):
            if not self.broker.has_work:
                return
            self.broker.tick()
        raise AssertionError("the broker does not come to rest")

    # ---- what clients do

    def queue(self, name: str) -> ClassicQueue:
        return self.broker.vhost("/").queues[name]

    def make(self, *names: str, **arguments: object) -> None:
        """Durable queues; arguments are named without x- and with underscores."""
        table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        for name in names:
            self.broker.vhost("/").declare_queue(name, durable=True, arguments=table)

    def drop(self, name: str) -> None:
        self.broker.vhost("/").delete_queue(name)

    def purge(self, name: str) -> None:
        self.broker.vhost("/").purge_queue(name)

    def post(self, names: str, *bodies: bytes, **traits: int) -> int:
        """A run of persistent messages to the queues named, with spaces: the receipt."""
        return self.post_run(names, [message(body, **traits) for body in bodies])

    def post_run(self, names: str, run: Sequence[Message]) -> int:
        queues = [self.queue(name) for name in names.split()]
        timed = any(traits.deadline != NEVER for _, _, traits in run)
        return write_run(queues, self.journal, list(run), sum(len(content) for content, _, _ in run), timed)

    def take(self, name: str, number: int = 1) -> list[GetResult]:
        """By basic.get; fewer if there are no more."""
        self.queue(name).when_loaded(lambda: None)  # the first ones may be on disk
        taken = [self.queue(name).get(False) for _ in range(number)]
        return [each for each in taken if each is not None]

    def ack(self, name: str, *taken: GetResult) -> None:
        for each in taken:
            self.queue(name).settle(each.lane, each.sequence, [each.message])

    def requeue(self, name: str, *taken: GetResult) -> None:
        for each in taken:
            self.queue(name).requeue(each.lane, each.sequence, [each.message], each.delivery_count)

    def move(self, source: str, target: str, *taken: GetResult) -> None:
        """As dead letters go: out of one queue and into another, or neither."""
        with self.journal.group():
            for each in taken:
                self.post_run(target, [each.message])
                self.ack(source, each)
