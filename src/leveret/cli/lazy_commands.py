"""Commands whose modules are imported on use: ``leveret --help`` needs only their names and summaries."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

COMMANDS: dict[str, tuple[str, str]] = {
    "status": ("overview_commands:status_app", "Show the broker's status; exit code 1 if an alarm is in effect."),
    "overview": ("overview_commands:overview_app", "Show rates, totals and nodes."),
    "nodes": ("overview_commands:nodes_app", "List nodes."),
    "ping": ("liveness_commands:ping_app", "Test whether the broker answers; needs no password."),
    "wait": ("liveness_commands:wait_app", "Wait until the broker is ready; needs no password."),
    "report": ("report_command:app", "Print the state of the broker as one text, without secrets."),
    "doctor": ("doctor_command:app", "Check for problems, and suggest commands that help."),
    "queues": ("queue_commands:app", "List, show, create, delete, purge, pause, resume, move queues."),
    "exchanges": ("exchange_commands:app", "List, show, create, delete exchanges; test routing."),
    "bindings": ("binding_commands:app", "List, create and delete bindings."),
    "connections": ("connection_commands:app", "List, show and close connections."),
    "channels": ("connection_commands:channels_app", "List channels."),
    "consumers": ("connection_commands:consumers_app", "List consumers."),
    "publish": ("message_commands:publish_app", "Publish a message from the command line, a file or a pipe."),
    "get": ("message_commands:get_app", "Get messages from a queue; --ack removes them."),
    "consume": ("consume_commands:consume_app", "Print messages as they arrive; --ack removes them."),
    "tail": ("consume_commands:tail_app", "Follow an exchange, a queue or a stream."),
    "browse": ("message_commands:browse_app", "Browse messages without removing them from the queue."),
    "purge": ("queue_commands:purge_app", "Delete all ready messages of a queue."),
    "move": ("job_commands:move_app", "Move messages to another queue."),
    "copy": ("job_commands:copy_app", "Copy messages to another queue."),
    "redrive": ("job_commands:redrive_app", "Move dead letters back to their original queues."),
    "jobs": ("job_commands:app", "List, show and cancel jobs: moves, copies and redrives."),
    "bench": ("bench_command:app", "Measure throughput and latency."),
    "top": ("top_command:app", "Show rates, queues and connections, live."),
    "schedules": ("schedule_commands:app", "List and cancel scheduled messages."),
    "streams": ("stream_commands:app", "List and show streams: offsets, partitions, readers, lag."),
    "leases": ("lease_commands:app", "List and release messages leased by Spark readers."),
    "spark": ("lease_commands:spark_app", "List Spark queries; list and delete sink transactions."),
    "trace": ("trace_commands:app", "Trace messages: enable, disable, list, show."),
    "vhosts": ("vhost_commands:app", "List, show, create and delete virtual hosts."),
    "users": ("user_commands:app", "List, show, create, delete users; change passwords."),
    "permissions": ("permission_commands:app", "List, set, clear and test permissions."),
    "policies": ("policy_commands:app", "List, set, delete and explain policies."),
    "schemas": ("schema_commands:app", "List, add, show, delete and check schemas of message bodies."),
    "plugins": ("plugin_commands:app", "List, enable and disable plugins."),
    "cluster": ("cluster_group:app", "Show and change a cell of several nodes, or run a demo."),
    "cells": ("cell_commands:app", "List the cells of 'serve --cells'; add or remove one."),
    "definitions": ("definition_commands:app", "Export and import definitions."),
    "context": ("context_commands:app", "Manage named brokers."),
    "completion": ("completion_command:app", "Print the shell completion script."),
}


class LazyCommand(TyperCommand):
    """A name and a summary; ``load`` imports the command itself."""

    def __init__(self, name: str, place: str, text: str) -> None:
        super().__init__(name, help=text, rich_markup_mode=None)
        self._place = place

    def load(self) -> Any:
        module, _, attribute = self._place.partition(":")
        command = get_command(getattr(import_module(f"leveret.cli.{module}"), attribute))
        command.name = self.name
        return command


class LazyGroup(TyperGroup):
    """The root group: its own commands, and those of COMMANDS."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (place, text) in COMMANDS.items():
            self.add_command(LazyCommand(name, place, text))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            from leveret.cli.rabbitmq_commands import COUNTERPARTS, REMARKS

            if args[0] in COUNTERPARTS:
                ctx.fail(f"No such command '{args[0]}'. Use 'leveret {COUNTERPARTS[args[0]]}'.")
            if args[0] in REMARKS:
                ctx.fail(f"No such command '{args[0]}': {REMARKS[args[0]]}.")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest
