"""Run beside FastAPI and Typer of an earlier year, Django and Celery: the versions, and a task of Celery."""

from __future__ import annotations

from importlib.metadata import version

import celery
import django
import fastapi

import leveret


def test_the_other_packages_have_the_versions_that_were_asked_for() -> None:
    assert fastapi.__version__.startswith("0.115.")
    assert version("typer").startswith("0.12.")
    assert django.VERSION >= (5,)


def test_a_task_of_celery_waits_in_its_queue(leveret_broker: leveret.Broker) -> None:
    app = celery.Celery(broker=leveret_broker.amqp_url)
    app.send_task("shop.charge", [17], ignore_result=True)
    message = leveret_broker.vhost().get("celery")
    assert message is not None
    assert message.body.startswith(b"[[17], ")
    app.close()
