"""A connection that reconnects when it is lost, to the same broker or to another one of its addresses.

For the application it remains one connection: channels, consumers and unconfirmed messages are kept, and calls and
publishes wait during an outage. Listeners get the events "lost", "reconnecting" and "reconnected".

It ends like any other connection after ``close``, after an error of the client for which the broker closes the
connection, if all brokers refuse the login, and after the last of a limited number of attempts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Self

from leveret.client.address import Address
from leveret.client.cluster_nodes import CLUSTER_NODES, node_addresses
from leveret.client.connection import CLOSE_SECONDS, Connection, Happening, Listener
from leveret.client.correlator import Correlator
from leveret.client.errors import ClientError, Closed, ConnectionLost, Interrupted
from leveret.client.failover_uri import FOR_EVER, Plan
from leveret.client.inflow import Inflow
from leveret.client.pending_calls import Gate
from leveret.client.recovering_channel import RecoveringChannel
from leveret.client.settlement import Audit
from leveret.client.topology_record import TopologyRecord
from leveret.client.topology_recovery import GracePeriod, SideChannel, TopologyRecovery
from leveret.errors import AmqpError, LeveretError, NotAllowed
from leveret.wire import methods as m

TEMPORARY = {320, 506, 541}  # after a close with one of these codes, another attempt or broker may succeed


@dataclass(slots=True, frozen=True)
class BrokerIdentity:
    """Tells whether two connections reach the same broker."""

    host: str
    port: int
    cluster: str
    is_clustered: bool  # other addresses may belong to the same cluster, which shares all queues

    @classmethod
    def of(cls, address: Address, properties: Mapping[str, object]) -> BrokerIdentity:
        is_leveret = str(properties.get("platform", "")).startswith("Leveret")
        is_clustered = not is_leveret or CLUSTER_NODES in properties
        return cls(address.host, address.port, str(properties.get("cluster_name", "")), is_clustered)

    def may_be(self, other: BrokerIdentity) -> bool:
        return self.is_surely(other) or self.cluster == other.cluster

    def is_surely(self, other: BrokerIdentity) -> bool:
        """Two brokers on one machine may have the same cluster name: then the address decides."""
        if (self.host, self.port) == (other.host, other.port):
            return True
        return self.is_clustered and other.is_clustered and self.cluster == other.cluster


class RecoveringConnection(Connection):
    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.addresses[0])
        self.plan = plan
        self.record = TopologyRecord()
        self.audit = Audit(plan.audit_depth) if plan.is_audited else None
        self.is_away = True
        self.broker = BrokerIdentity.of(self.address, {})  # of the last connection
        self._learnt: tuple[Address, ...] = ()  # announced by the last broker
        self._gate = Gate()
        self._is_leaving = False
        self._loss: Exception | None = None  # why the current connection is lost
        self._aside = asyncio.Lock()  # held by the user of the reserved channel number
        self._worker: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None

    @classmethod
    async def begin(cls, plan: Plan, listeners: Iterable[Listener] = ()) -> Self:
        """Returns when one of the brokers is connected."""
        self = cls(plan)
        self.listeners.extend(listeners)
        try:
            await self._reach(plan.startup_attempts)
        except BaseException:
            self._is_leaving = True
            self._abort()
            raise
        self._come_up("connected")
        return self

    @classmethod
    def begin_later(cls, plan: Plan) -> Self:
        """Returns at once: calls wait until a broker is connected."""
        self = cls(plan)
        self._worker = asyncio.ensure_future(self._recover(plan.startup_attempts, "connected"))
        return self

    @property
    def is_up(self) -> bool:
        return self._gate.is_open

    async def until_up(self) -> None:
        self.refuse_closed()
        self.refuse_in_outage()
        await self._gate.wait()

    def refuse_lost(self) -> None:
        """The broker cannot reply."""
        if self._loss is not None:
            raise Interrupted(str(self._loss))

    def refuse_in_outage(self) -> None:
        if self.outage_error is not None:
            raise self.outage_error.with_traceback(None)

    async def close(self) -> None:
        if self.is_closed:
            await self._clear()  # the close may not have been sent yet
            return
        self._is_leaving = True
        try:
            if self._worker is not None:
                self._worker.cancel()
                await asyncio.wait([self._worker])
            if self.is_up:
                await super().close()
                return
        finally:
            if not self.is_closed:
                self._finish(Closed(f"the connection to {self.plan.shown} is closed"))
                self._abort()
        await self._clear()
        self.notify(Happening("closed"))

    def new_channel(self) -> RecoveringChannel:
        """Not open yet: if there is no connection, it will be opened by the next one."""
        self.refuse_closed()
        number = self.free_number()
        channel = self._channels[number] = RecoveringChannel(self, number)
        return channel

    async def update_secret(self, secret: str, reason: str = "") -> None:
        """Later connections use it too."""
        await self.until_up()
        await super().update_secret(secret, reason)
        addresses = tuple(replace(each, password=secret) for each in self.plan.addresses)
        self.plan = replace(self.plan, addresses=addresses)
        self._learnt = tuple(replace(each, password=secret) for each in self._learnt)

    async def call_aside(self, method: m.Method) -> Any:
        """On a channel of its own, which alone is closed by an error. Repeated if the connection is lost."""
        while True:
            await self.until_up()
            with suppress(Interrupted):
                return await self.call_once_aside(method)

    async def call_once_aside(self, method: m.Method) -> Any:
        if len(self._channels) < self.channel_max - 1:
            return await self._side_channel(super().free_number()).run_once(method)
        async with self._aside:
            before = self._channels.get(self.channel_max)
            if isinstance(before, SideChannel):  # its caller was cancelled
                await before.until_gone()
            return await self._side_channel(self.channel_max).run_once(method)

    def _side_channel(self, number: int) -> SideChannel:
        channel = self._channels[number] = SideChannel(self, number)
        return channel

    def free_number(self) -> int:
        """For a channel of the application. The last number is reserved for ``call_aside``."""
        number = super().free_number()
        if number == self.channel_max:
            raise NotAllowed(
                f"all {number - 1} channels of the connection are open, and one is reserved for the client: close one"
            )
        return number

    @property
    def can_deduplicate(self) -> bool:
        """Whether queues of the broker can drop messages by their ID."""
        return self.plan.is_audited and str(self.server_properties.get("platform", "")).startswith("Leveret")

    # ---- the loss of the connection

    def _give_up(self, problem: Exception) -> None:
        self._suspend(problem)
        self._abort()

    def _fail(self, problem: Exception) -> None:
        is_temporary = isinstance(problem, ConnectionLost) or getattr(problem, "code", 0) in TEMPORARY
        if self._is_leaving or self.is_closed:
            super()._fail(problem)
        elif is_temporary or not self.is_up:
            self._suspend(problem)
        else:
            self._finish(problem)
            self.notify(Happening("lost", str(problem), problem))
            self.notify(Happening("closed", str(problem), problem))

    def _suspend(self, problem: Exception) -> None:
        was_up = self.is_up
        self._loss = problem
        self.is_away = True
        self._gate.shut()
        self._keep_alive.stop()
        self._correlator.end(problem)
        for channel in list(self._channels.values()):
            if isinstance(channel, RecoveringChannel):
                channel.suspend(problem)
            else:
                channel.end(Interrupted(str(problem)))
        self.congested(False)
        if self.is_blocked:
            self.is_blocked = False
            self.notify(Happening("unblocked", "the connection was lost"))
        if not was_up or self._is_leaving:
            return
        if self.plan.attempts == 0:
            self._finish(problem)
        self.notify(Happening("lost", str(problem), problem))
        if self.is_closed:
            self.notify(Happening("closed", str(problem), problem))
            return
        if self.plan.patience is not None:
            self._patience = self._loop.call_later(self.plan.patience, self._lose_patience)
        self._worker = asyncio.ensure_future(self._recover(self.plan.attempts, "reconnected"))

    def _lose_patience(self) -> None:
        text = f"there has been no connection to {self.plan.shown} for {self.plan.patience:g} s"
        self.outage_error = ConnectionLost(f"{text}: check the broker, or raise the option 'timeout' to wait longer")
        self._gate.turn_away(self.outage_error)
        for channel in self._recovering():
            channel.give_up_waiting(self.outage_error)

    def _finish(self, problem: Exception) -> None:
        """No further connection follows."""
        self._forget_patience()
        self.is_away = False
        self._problem = problem
        self._gate.turn_away(problem)
        self._end(problem)

    def _forget_patience(self) -> None:
        self.outage_error = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    # ---- the next connection

    async def _recover(self, rounds: int, kind: Any) -> None:
        self.notify(Happening("reconnecting", self.plan.shown))
        try:
            await self._reach(rounds)
        except Exception as problem:  # noqa: BLE001  # any error: no other task reconnects, and calls wait
            self._finish(problem)
            await self._clear()
            self.notify(Happening("closed", str(problem), problem))
        else:
            self._come_up(kind)

    def _come_up(self, kind: Any) -> None:
        """Called without an await after the last channel was restored."""
        self._forget_patience()
        for channel in self._recovering():
            channel.go_live()
        self.is_away = False
        self._gate.open()
        self.notify(Happening(kind, self.address.shown))

    async def _reach(self, rounds: int) -> None:
        problem: Exception | None = None
        for number, delay in zip(count(1), self.plan.backoff.delays(), strict=False):
            await asyncio.sleep(delay)
            refusals, addresses = 0, self._next_addresses()
            for address in addresses:
                try:
                    await self._try(address)
                    return
                except (ClientError, AmqpError) as trouble:
                    problem = trouble
                    refusals += _is_refusal(trouble)
                    self.notify(Happening("attempt failed", f"{address.shown}: {trouble}", trouble))
            if refusals == len(addresses) and problem is not None:
                raise problem
            if rounds != FOR_EVER and number >= rounds:
                raise ConnectionLost(
                    f"no connection to any of {self.plan.shown} after {number} attempts; the last problem: {problem}"
                ) from problem

    def _next_addresses(self) -> list[Address]:
        given = {(each.host, each.port) for each in self.plan.addresses}
        addresses = [*self.plan.addresses, *(each for each in self._learnt if (each.host, each.port) not in given)]
        if self.plan.is_shuffled:
            random.shuffle(addresses)
        return addresses

    async def _try(self, address: Address) -> None:
        await self._clear()
        self.address, self._inflow.limit, self._loss = address, address.frame_max, None
        await self._establish()
        self._learn_nodes()
        grace = self._grace()
        await TopologyRecovery(self, grace).everything()
        await self._restore_channels(grace)

    def _learn_nodes(self) -> None:
        """Of the broker that has accepted the login. Without an announcement, those that are known stay."""
        if self.plan.learns_nodes:
            announced = self.server_properties.get(CLUSTER_NODES)
            self._learnt = node_addresses(self.address, announced) or self._learnt

    def _grace(self) -> GracePeriod:
        grace = GracePeriod(self.heartbeat, self._retry_refused)
        before, self.broker = self.broker, BrokerIdentity.of(self.address, self.server_properties)
        if not before.may_be(self.broker):
            grace.end()
        return grace

    def _retry_refused(self, problem: AmqpError) -> None:
        text = f"{self.address.shown} has not yet detected the loss of the previous connection: {problem}"
        self.notify(Happening("attempt failed", text, problem))

    async def _clear(self) -> None:
        """Drop everything that belongs to the previous connection."""
        if self._transport is not None:
            self._abort()
            await asyncio.wait([self._over], timeout=CLOSE_SECONDS)
        self._transport = None
        self._over = self._loop.create_future()
        self._correlator = Correlator(self._loop)
        self._inflow = Inflow(self)
        self._out.clear()
        self._out_size = 0

    async def _restore_channels(self, grace: GracePeriod) -> None:
        done: set[RecoveringChannel] = set()
        while waiting := [each for each in self._recovering() if each not in done]:
            for channel in waiting:
                done.add(channel)
                try:
                    await channel.restore(grace)
                except LeveretError:
                    if not channel.is_closed:  # otherwise the channel has reported it
                        raise
            self.refuse_lost()

    def _recovering(self) -> list[RecoveringChannel]:
        return [each for each in self._channels.values() if isinstance(each, RecoveringChannel)]


def _is_refusal(problem: Exception) -> bool:
    """Another attempt would end the same way."""
    return isinstance(problem, AmqpError) and problem.code not in TEMPORARY
