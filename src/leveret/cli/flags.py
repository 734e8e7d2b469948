"""Parameters of commands that are made by code, and command-line flags generated from the declared settings."""

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
    parameters = [option("config", Path | None, config)]
    parameters += [option(item.name, str | None, _option_of(item)) for item in DECLARED if item.flag]
    old_names = [item.old_name for item in DECLARED if item.old_name]
    parameters += [option(name, str | None, typer.Option(None, flag_of(name), hidden=True)) for name in old_names]
    parameters += [option(item.name, item.annotation, item.default) for item in own]
    return with_parameters(run, parameters, command)


def option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def with_parameters(
    run: Callable[..., None], parameters: list[inspect.Parameter], like: Callable[..., None]
) -> Callable[..., None]:
    """Declare the parameters of ``run`` for typer; its name and help are those of ``like``."""
    run.__name__, run.__doc__ = like.__name__, like.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _option_of(declared: Setting) -> Any:
    """Every flag is a string for the parser; the setting's kind parses and validates it."""
    shown = f"{declared.help[:1].upper()}{declared.help[1:]}.  [{_default_text(declared)}, env: {declared.env}]"
    return typer.Option(None, declared.flag or "", metavar=declared.kind.metavar, help=shown)


def _default_text(declared: Setting) -> str:
    if declared.name == "data_dir":
        return "default: the user's data directory"
    default = next(item.default for item in fields(Settings) if item.name == declared.name)
    return "default: depends on this machine" if default is MISSING else f"default: {declared.kind.show(default)}"
