"""Command-line flags generated from the declared settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import typer

from leveret.config import DECLARED, Setting, Settings, flag_of


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--config`` and a flag for every setting to a command, which is called with the file and the given flags.

    Further parameters of the command remain its own options.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[2:]

    def run(**given: Any) -> None:
        config: Path | None = given.pop("config")
        options = {parameter.name: given.pop(parameter.name) for parameter in own}
        command(config, {name: value for name, value in given.items() if value is not None}, **options)

    config = typer.Option(
        None, "--config", metavar="FILE", help="TOML file with settings; flags and LEVERET_... variables override it."
    )
    parameters = [_parameter("config", config, Path | None)]
    parameters += [_parameter(item.name, _option(item), str | None) for item in DECLARED if item.flag]
    old_names = [item.old_name for item in DECLARED if item.old_name]
    parameters += [_parameter(name, typer.Option(None, flag_of(name), hidden=True), str | None) for name in old_names]
    parameters += [_parameter(item.name, item.default, item.annotation) for item in own]
    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameter(name: str, option: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)


def _option(declared: Setting) -> Any:
    """Every flag is a string for the parser; the setting's kind parses and validates it."""
    shown = f"{declared.help[:1].upper()}{declared.help[1:]}.  [{_default_text(declared)}, env: {declared.env}]"
    return typer.Option(None, declared.flag or "", metavar=declared.kind.metavar, help=shown)


def _default_text(declared: Setting) -> str:
    if declared.name == "data_dir":
        return "default: the user's data directory"
    default = next(item.default for item in fields(Settings) if item.name == declared.name)
    return "default: depends on this machine" if default is MISSING else f"default: {declared.kind.show(default)}"
