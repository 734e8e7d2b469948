"""Exchanges, queues and bindings of a definitions file, looked at as import_checks.py looks at the rest.

They are judged by the broker's own rules, on objects that are made for the plan and thrown away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from leveret.api.import_plan import Impossible, Plan, Step, amqp_name_in, short_text_in
from leveret.api.views.parameter import vhost_limits_of
from leveret.broker.equivalence import check_same_exchange, check_same_queue, refuse_reserved
from leveret.broker.vhost import MADE_UP
from leveret.http.errors import BadRequest
from leveret.http.rows import Row
from leveret.http.values import boolean_of, excerpt, text_of
from leveret.queues.options import QueueOptions
from leveret.queues.queue_types import refuse_kind
from leveret.routing.bindings import Binding, Destination
from leveret.wire.fields import encode_table


def check_exchange(plan: Plan, row: Row) -> Step:
    name, vhost = amqp_name_in(row), plan.vhost_of(row)
    kind, arguments = text_of(row, "type"), _arguments(row)
    flags = {key: boolean_of(row, key, default=key == "durable") for key in ("durable", "auto_delete", "internal")}
    wanted = plan.broker.exchange_types.make(kind, name, **flags, arguments=arguments)
    current = plan.exchange(vhost, name)
    if current is not None:
        check_same_exchange(current, wanted, vhost)
        return Step("exchanges", name, vhost, "existing", None)
    refuse_reserved(name, "exchange", vhost)
    plan.broker.plugins.refuse_exchange(wanted, vhost)
    plan.exchanges[vhost, name] = wanted

    def apply() -> None:
        plan.broker.vhost(vhost).declare_exchange(name, kind, **flags, arguments=arguments)

    return Step("exchanges", name, vhost, "created", apply)


def check_queue(plan: Plan, row: Row) -> Step:
    name, vhost = amqp_name_in(row), plan.vhost_of(row)
    arguments = _arguments(row)
    durable, auto_delete = boolean_of(row, "durable", default=True), boolean_of(row, "auto_delete")
    refuse_kind(QueueOptions.of(arguments, durable), auto_delete, is_named=True)
    is_made_up = name.startswith(MADE_UP)  # by a broker: exports have such queues, ours and those of RabbitMQ
    if not is_made_up:
        refuse_reserved(name, "queue", vhost)
    here = plan.here(vhost)
    current = here.queues.get(name) if here is not None else None
    facts = (durable, auto_delete, arguments)
    if current is not None:
        check_same_queue(current, vhost, durable, False, auto_delete, arguments)
        return Step("queues", name, vhost, "existing", None)
    if (vhost, name) in plan.queues:
        if plan.queues[vhost, name] != facts:
            raise Impossible(f"queue '{name}' is defined twice, with different values", "leave one of them out")
        return Step("queues", name, vhost, "existing", None)
    plan.queues[vhost, name] = facts

    def apply() -> None:
        plan.broker.vhost(vhost).declare_queue(
            name, durable=durable, auto_delete=auto_delete, arguments=arguments, is_made_up=is_made_up
        )

    return Step("queues", name, vhost, "created", apply)


def check_binding(plan: Plan, row: Row) -> Step:
    vhost, arguments = plan.vhost_of(row), _arguments(row)
    source, key, destination = short_text_in(row, "source"), short_text_in(row, "routing_key"), _destination(row)
    label = f"{source} -> {destination.name}"
    if not source and destination == Destination("queue", key) and plan.has_queue(vhost, key):
        return Step("bindings", label, vhost, "existing", None)  # the default exchange knows every queue
    exchange = plan.exchange(vhost, source)
    if exchange is None or not source:
        raise Impossible(f"no exchange '{source}' in vhost '{vhost}'", "have the file define it under 'exchanges'")
    is_queue = destination.kind == "queue"
    if not (plan.has_queue(vhost, destination.name) if is_queue else plan.exchange(vhost, destination.name)):
        raise Impossible(
            f"no {destination.kind} '{destination.name}' in vhost '{vhost}'",
            f"have the file define it under '{destination.kind}s'",
        )
    binding = Binding(source, destination, key, arguments)
    exchange.validate_binding(binding)
    here = plan.here(vhost)
    if here is not None and binding in here.bindings:
        return Step("bindings", label, vhost, "existing", None)

    def apply() -> None:
        plan.broker.vhost(vhost).bind(binding)

    return Step("bindings", label, vhost, "created", apply)


def _destination(row: Row) -> Destination:
    kind, name = row.get("destination_type"), amqp_name_in(row, "destination")
    if kind == "queue":
        return Destination("queue", name)
    if kind == "exchange":
        return Destination("exchange", name)
    raise BadRequest(f"'destination_type' must be queue or exchange, not {excerpt(kind)}")


def _arguments(row: Row) -> dict[str, Any]:
    """RabbitMQ writes an empty table as a list at times."""
    given = row.get("arguments", {})
    if given == []:
        return {}
    if not isinstance(given, dict):
        raise BadRequest(f"'arguments' must be a table, not {excerpt(given)}")
    encode_table(given)
    return given


def too_many_queues(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Virtual hosts whose limit does not leave room for what is to come: name, cause and remedy."""
    for vhost, coming in sorted(Counter(vhost for vhost, _ in plan.queues).items()):
        here = plan.here(vhost)
        limits = plan.limits.get(vhost, {} if here is None else vhost_limits_of(here))
        most = limits.get("max-queues")
        present = 0 if here is None else len(here.queues)
        if most is not None and present + coming > most:
            yield (
                vhost,
                f"queue limit in vhost '{vhost}' ({most}) would be passed: {present} queues are there, {coming} more "
                "would come",
                "raise max-queues of the vhost, or import fewer queues",
            )
