"""What the commands of a guide need before they run: a broker, objects, files. By page and beginning of the command; ""
is the beginning of the page."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable

import pika
import pika.exceptions
import pytest
import trustme
import yaml

from tests.support.cell_ports import free_ports
from tests.support.guide_commands import Typed, parts
from tests.support.guide_pages import PAGES, blocks
from tests.support.guide_shell import PASSWORD, Shell, missing

Setup = Callable[[Shell], None]


def runs(*lines: str) -> Setup:
    """Commands that succeed."""

    def run(shell: Shell) -> None:
        for line in lines:
            shell.type(Typed("$", line, []))

    return run


def serving(*flags: str) -> Setup:
    return runs(" ".join(["leveret serve --data-dir /var/lib/leveret", *flags]))


def stopped(shell: Shell) -> None:
    shell.started[-1].terminate()
    assert shell.started[-1].exit_code() == 0, shell.started[-1].log()


def file_of(page: str, language: str, name: str) -> Setup:
    """The first block in the language."""

    def write(shell: Shell) -> None:
        text = next(part.text for part in parts(page) if part.language == language)
        text = re.sub(r"_port = \d+", "_port = 0", text)
        shell.path(name).write_text(text if has_ipv6() else text.replace(', "::1"', ""))

    return write


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as opened:
            opened.bind(("::1", 0))
    except OSError:
        return False
    return True


def certificates(shell: Shell) -> None:
    issued = trustme.CA().issue_cert("localhost")
    issued.private_key_pem.write_to_path(shell.path("server.key"))
    for blob in issued.cert_chain_pems:
        blob.write_to_path(shell.path("server.pem"), append=True)


# ---- setups of single pages


def operated(shell: Shell) -> None:
    """With TLS, an administrator of its own, and the file that the page checks."""
    certificates(shell)
    shell.path("/etc/leveret/leveret.toml").write_text('log_level = "info"\n')
    shell.username, shell.environ["LEVERET_PASSWORD"] = "admin", PASSWORD
    login = f"LEVERET_DEFAULT_USER=admin LEVERET_DEFAULT_PASSWORD='{PASSWORD}'"
    runs(f"{login} leveret serve --data-dir /var/lib/leveret --tls-cert server.pem --tls-key server.key")(shell)
    shell.words["127.0.0.1:5671"] = re.split("[@/]", shell.started[-1].url("amqps"))[-2]
    shell.words["PID"] = str(shell.started[-1].process.pid)


def named_host(shell: Shell) -> None:
    shell.words["leveret@host"] = f"leveret@{short_host_name()}"


def short_host_name() -> str:
    return socket.gethostname().partition(".")[0]


def exported(shell: Shell) -> None:
    """RabbitMQ's definitions as the page shows them; the broker has the user with other tags."""
    serving()(shell)
    runs("leveret users create till --tag monitoring")(shell)
    definitions = {
        "rabbit_version": "3.10.8",
        "vhosts": [{"name": "/"}, {"name": "warehouse"}],
        "users": [{"name": "till", "password_hash": "", "tags": "management"}],
        "permissions": [{"user": "till", "configure": "", "write": ".*", "read": ".*"}],
        "policies": [{"name": "mirrored", "pattern": "", "definition": {"ha-mode": "all"}, "apply-to": "all"}],
        "exchanges": [{"name": "stock", "type": "topic", "durable": True, "auto_delete": False, "internal": False}],
        "queues": [{"name": name, "durable": True, "auto_delete": False} for name in ("stock.in", "stock.out")],
        "bindings": [{"source": "stock", "destination": "stock.in", "destination_type": "queue", "routing_key": "in"}],
        "parameters": [{"name": "to-the-old-site", "component": "shovel", "value": {"src-queue": "stock.out"}}],
    }
    for kind in ("permissions", "policies", "exchanges", "queues", "bindings", "parameters"):
        definitions[kind] = [{"vhost": "warehouse", **each} for each in definitions[kind]]  # type: ignore[dict-item]
    shell.path("rabbit.json").write_text(json.dumps(definitions))


def without_shovel(shell: Shell) -> None:
    definitions = json.loads(shell.path("rabbit.json").read_text())
    shell.path("rabbit.json").write_text(json.dumps({**definitions, "parameters": []}))


def staged(shell: Shell) -> None:
    """By the programs of the page: one batch is committed. And one more stage."""
    serving()(shell)
    url = f"http://{shell.words['127.0.0.1:15672']}/api/pipeline/%2F"
    names: dict[str, object] = {}
    for _, text in blocks(PAGES["sink"], "python"):
        exec(text.replace("http://127.0.0.1:15672/api/pipeline/%2F", url), names)  # noqa: S102  the guide is ours
    shell.environ["URL"] = url
    shell.path("rows").write_bytes(names["rows"])  # type: ignore[arg-type]
    stage(8)(shell)


def stage(batch: int) -> Setup:
    return runs(
        "curl -u guest:guest -H 'content-type: application/vnd.apache.arrow.stream' --data-binary @rows "
        f'"$URL/stages?transaction=my-query&batch={batch}&partition=0&attempt=0&exchange=amq.topic"'
    )


COMMIT = runs("""curl -u guest:guest "$URL/commits" -d '{"transaction": "my-query", "batch": 9, "stages": []}'""")


def traced(shell: Shell) -> None:
    """The message of the page: published by one user, rejected by another."""
    amqp = shell.started[-1].url().partition("@")[2]
    with pika.BlockingConnection(pika.URLParameters(f"amqp://till:{PASSWORD.replace(' ', '%20')}@{amqp}")) as till:
        properties = pika.BasicProperties(message_id="order-4711", delivery_mode=2)
        channel = till.channel()
        channel.confirm_delivery()
        channel.basic_publish("shop", "order.paid", b"one tea", properties)
    with pika.BlockingConnection(pika.URLParameters(f"amqp://packer:{PASSWORD.replace(' ', '%20')}@{amqp}")) as packer:
        channel = packer.channel()
        method, _, _ = next(channel.consume("orders", consumer_tag="packer"))
        channel.basic_reject(method.delivery_tag, requeue=False)
        channel.cancel()


def shown_by(page: str, language: str, begin: str, line: str) -> Setup:
    """A block that begins like this is the output of the command."""

    def run(shell: Shell) -> None:
        (text,) = [part.text for part in parts(page) if part.language == language and part.text.startswith(begin)]
        shell.type(Typed("$", line, text.splitlines()))

    return run


def refused_login(shell: Shell) -> None:
    runs("leveret users create till --username admin")(shell)
    amqp = shell.started[-1].url().rpartition("@")[2]
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.URLParameters(f"amqp://till:wrong@{amqp}"))


def shown_log(shell: Shell) -> None:
    (text,) = [part.text for part in parts("operate") if part.text.startswith("2026-")]
    log = shell.unplaced(shell.started[0].log())
    assert missing(text.splitlines(), log.splitlines()) == [], log


def newer_format(shell: Shell) -> None:
    """The error is shown in a block of its own."""
    (text,) = [part.text for part in parts("operate") if part.text.startswith("leveret: cannot start")]
    before = shell.path("/var/lib/leveret/format").read_text()
    shell.path("/var/lib/leveret/format").write_text(before.replace("2", "9"))
    done = shell.run("leveret serve --data-dir /var/lib/leveret")
    assert missing(text.splitlines(), shell.unplaced(done.stderr).splitlines()) == [], done.stderr
    shell.path("/var/lib/leveret/format").write_text(before)


def gitlab_job(shell: Shell) -> None:
    """The job with a broker: ``leveret wait`` begins before the broker listens."""
    (job,) = [
        yaml.safe_load(part.text)
        for part in parts("celery")
        if "leveret serve" in part.text and part.language == "yaml"
    ]
    serve, wait = [line for line in job["test"]["script"] if line.startswith("leveret ")]
    (port,) = free_ports(1)
    shell.environ |= {"LEVERET_AMQP_PORT": "0", "LEVERET_HTTP_PORT": str(port), "LEVERET_STOMP_PORT": "off"}
    shell.reach(f"http://127.0.0.1:{port}")
    runs(f"({serve} broker=$!; {wait}; code=$?; kill $broker; wait $broker; exit $code)")(shell)


def shown_banner(shell: Shell) -> None:
    text = next(part.text for part in parts("install") if part.language == "")
    banner = shell.started[-1].banner().replace(short_host_name(), "myhost")
    banner = re.sub(r"/\S+/data$", "/home/me/.local/share/leveret", banner, flags=re.MULTILINE)
    assert missing(text.splitlines(), banner.splitlines()) == [], banner


TRACED = (
    "leveret exchanges create shop --type topic",
    "leveret queues create dead",
    "leveret queues create orders --argument x-dead-letter-exchange= --argument x-dead-letter-routing-key=dead",
    "leveret bindings create shop orders --routing-key 'order.#'",
    *(f"leveret users create {user}" for user in ("till", "packer")),
    *(f"leveret permissions set {user} --configure '' --write '.*' --read '.*'" for user in ("till", "packer")),
)
TEA = "leveret publish orders 'one tea'"
ADMIN = ("leveret users create ann --tag administrator",)
NIGHTLY = """curl -u guest:guest -d '{"queue": "orders", "consumer": "nightly", "after": 1, "max_messages": 9}' \\
  http://127.0.0.1:15672/api/pipeline/%2F/leases"""

BEFORE: dict[str, dict[str, tuple[Setup, ...]]] = {
    "README": {
        "": (),
        "leveret serve --config": (file_of("configuration", "toml", "leveret.toml"),),
    },
    "backup": {
        "": (serving(), runs("leveret queues create orders", "leveret queues create mail", TEA)),
        "leveret restore /srv/backup/monday": (stopped, runs("mv /var/lib/leveret /var/lib/leveret-old")),
    },
    "celery": {"": (), "after": (gitlab_job,)},
    "cells": {
        "": (),
        "curl": (named_host,),
        "leveret queues move": (runs("leveret queues create orders", TEA),),
    },
    "configuration": {"": (file_of("configuration", "toml", "leveret.toml"),)},
    "http": {
        "": (serving(), runs("leveret queues create orders --type stream", TEA)),
        "after": (
            shown_by(
                "http",
                "json",
                '{"sources"',
                "curl -u guest:guest http://127.0.0.1:15672/api/pipeline/%2F/sources?queue=orders",
            ),
        ),
    },
    "install": {"": (), "after": (shown_banner,)},
    "leases": {
        "": (serving(), runs("leveret queues create orders", TEA)),
        "curl -u guest:guest 'http://127.0.0.1:15672/api/pipeline/%2F/leases?queue=orders'": (runs(TEA, NIGHTLY),),
    },
    "migrate": {"": (exported,), "leveret definitions import rabbit.json\n": (without_shovel,)},
    "operate": {
        "": (operated,),
        "# /opt/leveret/bin/leveret backup": (refused_login,),
        "# mv": (shown_log, stopped, newer_format),
    },
    "pipelines": {"": (serving(),)},
    "pipelines-monitoring": {"": (serving(),)},
    "schemas": {"": (serving(), file_of("schemas", "json", "orders.avsc"))},
    "security": {"": (), "leveret serve --tls-cert": (certificates,)},
    "sink": {
        "": (staged,),
        "curl -u guest:guest -X POST": (stage(8),),
        'curl -u guest:guest -X DELETE "$URL/commits?transaction=my-query&owner_only': (stage(9), COMMIT),
    },
    "stomp": {"": (certificates,)},
    "tracing": {"": (serving(), runs(*TRACED)), "leveret trace list": (traced,)},
}
