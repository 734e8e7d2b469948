"""``leveret config check``, ``config show`` and ``config import``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from leveret.bootstrap import Bootstrap
from leveret.config import BY_NAME, DECLARED, env_of
from leveret.config_sources import load_with_sources
from leveret.errors import ConfigError

OTHER_VARIABLES = ("LEVERET_CONFIG", "LEVERET_CONTEXT", "LEVERET_PASSWORD")
CLOSE = 0.85  # similarity; 1 is equal


def check(config: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> str:
    """One line if the settings are valid, else ConfigError. Checks that the TLS files exist, too."""
    loaded = load_with_sources(config, environ, flags)
    for name in ("tls_cert", "tls_key", "tls_ca", "tls_crl"):
        path: Path | None = getattr(loaded.settings, name)
        if path is not None and not path.is_file():
            raise ConfigError(f"{name} = {str(path)!r} (from {loaded.sources[name]}) is invalid: no such file")
    changed = sum(source != "default" for source in loaded.sources.values())
    lines = [f"Settings are valid: {changed} given, {len(DECLARED) - changed} by default."]
    lines += [f"Renamed: {notice}." for notice in loaded.notices]
    lines += [
        f"{name} is not a setting and has no effect. Did you mean {near}?" for name, near in mistyped(environ).items()
    ]
    return "\n".join(lines)


def import_rabbitmq_conf(file: Path, output: Path | None) -> str:
    """The text for standard output. The file that is written may have a password: only its owner can read it."""
    from leveret.cli.rabbitmq_conf import translated

    try:
        result = translated(file.read_text(encoding="utf-8-sig"), file.name)
    except OSError as problem:
        raise ConfigError(f"{file} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8: pass RabbitMQ's configuration file, rabbitmq.conf") from None
    text = result.as_toml(file.name)
    if output is None:
        return text
    try:
        with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as new:
            new.write(text)
    except OSError as problem:
        raise ConfigError(f"{output} cannot be written: {problem.strerror}") from None
    return (
        f"{len(result.settings)} settings written to {output}, {len(result.remarks)} keys not translated: see its "
        f"comments. To validate it: leveret config check --config {output}\n"
    )


def mistyped(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables whose name resembles a setting, each with the nearest setting. Other LEVERET_ variables are ignored."""
    known = [env_of(name) for name in BY_NAME]
    unknown = [name for name in environ if name.startswith("LEVERET_") and name not in (*known, *OTHER_VARIABLES)]
    near = {name: get_close_matches(name, known, 1, CLOSE) for name in sorted(unknown)}
    return {name: found[0] for name, found in near.items() if found}


def show(config: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> str:
    """One line per setting: name, value, source."""
    rows = _rows(config, environ, flags)
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{name:{widths[0]}}  {value:{widths[1]}}  {source}" for name, value, source in rows)


def show_json(config: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> str:
    rows = _rows(config, environ, flags)
    return json.dumps({name: {"value": value, "source": source} for name, value, source in rows}, indent=2)


def _rows(config: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> list[tuple[str, str, str]]:
    loaded = load_with_sources(config, environ, flags)
    rows = []
    for declared in DECLARED:
        value = "***" if declared.secret else declared.kind.show(getattr(loaded.settings, declared.name))
        rows.append((declared.name, value, loaded.sources[declared.name]))
    return rows + _bootstrap_rows(loaded.settings.bootstrap)


def _bootstrap_rows(bootstrap: Bootstrap) -> list[tuple[str, str, str]]:
    names = {
        "bootstrap.vhosts": [vhost.name for vhost in bootstrap.vhosts],
        "bootstrap.users": [user.name for user in bootstrap.users],
        "bootstrap.permissions": [f"{rule.user} on {rule.vhost}" for rule in bootstrap.permissions],
        "bootstrap.topic_permissions": [f"{rule.user} on {rule.vhost}" for rule in bootstrap.topic_permissions],
    }
    return [(name, ", ".join(listed), "config file") for name, listed in names.items() if listed]
