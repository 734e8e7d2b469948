"""Commands that are imported when they are used: ``leveret --help`` only needs their names and what they are for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

LATER: dict[str, tuple[str, str]] = {
    "status": ("overview_commands:status_app", "Say how the broker is; exit code 1 if an alarm is on."),
    "overview": ("overview_commands:overview_app", "Show rates, totals and nodes."),
    "doctor": ("doctor_command:app", "Look for what is wrong, and name the command that helps."),
    "queues": ("queue_commands:app", "List, show, create, delete, purge, pause, resume queues."),
    "exchanges": ("exchange_commands:app", "List, show, create, delete exchanges; try routes."),
    "bindings": ("binding_commands:app", "List, create and delete bindings."),
    "connections": ("connection_commands:app", "List, show and close connections."),
    "consumers": ("connection_commands:consumers_app", "List those who consume."),
    "publish": ("message_commands:publish_app", "Publish a message, as given or from a file or a pipe."),
    "get": ("message_commands:get_app", "Take messages; they go back unless --ack is given."),
    "consume": ("consume_commands:consume_app", "Show the messages of a queue as they come."),
    "tail": ("consume_commands:tail_app", "Follow what goes through an exchange, a queue or a stream."),
    "browse": ("message_commands:browse_app", "Look at the messages of a queue without taking them."),
    "purge": ("queue_commands:purge_app", "Throw away what waits in a queue."),
    "move": ("job_commands:move_app", "Move messages to another queue."),
    "copy": ("job_commands:copy_app", "Copy messages to another queue."),
    "redrive": ("job_commands:redrive_app", "Send dead letters back to the queues they died in."),
    "jobs": ("job_commands:app", "List, show and cancel moves, copies and redrives."),
    "bench": ("bench_command:app", "Put the broker under load and say how fast it is."),
    "top": ("top_command:app", "Watch rates, queues and connections, live."),
    "schedules": ("schedule_commands:app", "List and cancel messages that wait for their time."),
    "streams": ("stream_commands:app", "List and show streams and shards: offsets, readers, lag."),
    "leases": ("lease_commands:app", "List and release messages that readers hold."),
    "spark": ("lease_commands:spark_app", "List Spark queries; list and delete transactions of the sink."),
    "trace": ("trace_commands:app", "Follow single messages: switch tracing on, list, show."),
    "vhosts": ("vhost_commands:app", "List, show, create and delete virtual hosts."),
    "users": ("user_commands:app", "List, show, create, delete users; change passwords."),
    "permissions": ("permission_commands:app", "List, set and clear permissions; say who may do what."),
    "policies": ("policy_commands:app", "List, set, delete and explain policies."),
    "plugins": ("plugin_commands:app", "List, enable and disable what RabbitMQ ships as plugins."),
    "definitions": ("definition_commands:app", "Export and import all that is declared."),
    "context": ("context_commands:app", "Give brokers names, and choose among them."),
    "completion": ("completion_command:app", "Print the script by which a shell completes commands."),
}


class Later(TyperCommand):
    """A name and a help text; ``real`` is the command."""

    def __init__(self, name: str, place: str, text: str) -> None:
        super().__init__(name, help=text, rich_markup_mode=None)
        self._place = place

    def real(self) -> Any:
        module, _, attribute = self._place.partition(":")
        command = get_command(getattr(import_module(f"leveret.cli.{module}"), attribute))
        command.name = self.name
        return command


class LaterGroup(TyperGroup):
    """The root: its own commands, and those of LATER."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (place, text) in LATER.items():
            self.add_command(Later(name, place, text))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.real() if isinstance(command, Later) else command, rest
