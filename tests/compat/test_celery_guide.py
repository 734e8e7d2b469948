"""docs/guide/celery.md and the projects below examples/ run: tests, a broker and real workers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from celery import Celery

import leveret
from leveret.config import DECLARED
from tests.support.celery_worker import Worker
from tests.support.guide_pages import GUIDE, ROOT, blocks, leveret_commands, problem_of

PAGE = GUIDE / "celery.md"
EXAMPLES = ROOT / "examples"
SECONDS = 120
PRINTED = ["order 7 packed", "tea reserved at attempt 3", "order 8 packed", "5 orders packed"]


def run(folder: Path, *arguments: str, **environ: str) -> str:
    """A Python program that must succeed; what it printed."""
    path = os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environ},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copied(example: str, folder: Path) -> Path:
    """The tests of an example write files beside it."""
    ignored = shutil.ignore_patterns("__pycache__", "*.sqlite3")
    return Path(shutil.copytree(EXAMPLES / example, folder / example, ignore=ignored))


@contextmanager
def worker_of(module: str, folder: Path, environ: dict[str, str]) -> Iterator[None]:
    app = Celery("caller", broker=environ["BROKER_URL"], set_as_current=False)
    worker = Worker(app, module, folder, folder / "log", environ, "-P", "solo", "-n", f"{module}@test")
    try:
        worker.await_ready()
        yield
    finally:
        worker.ask_to_stop()
        app.close()
        worker.await_end()


# ---- the projects


def test_the_tests_of_the_celery_project_pass(tmp_path: Path) -> None:
    assert "2 passed" in run(copied("celery", tmp_path), "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_the_tests_of_the_django_project_pass(tmp_path: Path) -> None:
    folder = copied("django", tmp_path)
    run(folder, "manage.py", "makemigrations", "--check")
    run(folder, "manage.py", "test")


def test_the_projects_run_in_worker_processes(tmp_path: Path) -> None:
    """One broker and one worker after the other, as the two pages README.md show it."""
    shop, site = copied("celery", tmp_path), copied("django", tmp_path)
    with leveret.Broker() as broker:
        environ = {"BROKER_URL": broker.amqp_url}
        with worker_of("shop", shop, environ):
            printed = run(shop, "shop.py", **environ).splitlines()
        assert printed == PRINTED
        assert "\n".join(PRINTED) in (EXAMPLES / "celery" / "README.md").read_text()
        run(site, "manage.py", "migrate", **environ)
        (place,) = re.findall(r"manage.py shell -c '(.*)'", (EXAMPLES / "django" / "README.md").read_text())
        wait = "; import time; from orders.models import Order; end = time.monotonic() + 60"
        wait += (
            "\nwhile not Order.objects.filter(state='packed').count(): assert time.monotonic() < end; time.sleep(0.05)"
        )
        with worker_of("shop", site, environ):
            run(site, "manage.py", "shell", "--no-imports", "-c", place + wait, **environ)


# ---- the page


def test_the_python_of_the_page_runs(tmp_path: Path) -> None:
    """As one module with a test that uses the fixture, as does the application of README.md; Django's settings and
    application beside it."""
    app, priorities, chords, settings, django, test = [text for _, text in blocks(PAGE, "python")]
    more = """

def test_the_backend_of_the_tests_has_no_chords():
    with pytest.raises(NotImplementedError):
        pack_all([1, 2])
"""
    (tmp_path / "test_page.py").write_text(app + priorities + chords + test + more)
    assert "2 passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    (folder := tmp_path / "readme").mkdir()
    (readme,) = [text for _, text in blocks(ROOT / "README.md", "python") if "import Celery" in text]
    (folder / "test_readme.py").write_text(readme + test)
    assert "1 passed" in run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    site = copied("django", tmp_path)
    with (site / "shop" / "settings.py").open("a") as file:
        file.write(settings)
    (site / "shop" / "celery.py").write_text(django)
    shown = (
        "from shop.celery import app; print(app.conf.broker_url, app.conf.task_acks_late, app.conf.task_ignore_result)"
    )
    printed = run(site, "manage.py", "shell", "--no-imports", "-c", shown)
    assert printed.split() == ["amqp://shop:PASSWORD@broker.example:5672/shop", "True", "True"]


def commands_in(document: Any) -> Iterator[str]:
    """Of jobs of GitHub and GitLab, and of services of Compose."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name in ("run", "command"):
                yield value
            elif name == "script":
                yield from value
            elif name == "test" and isinstance(value, list):
                yield " ".join(value[1:])
            else:
                yield from commands_in(value)
    elif isinstance(document, list):
        for each in document:
            yield from commands_in(each)


def test_the_commands_of_pipelines_and_services_exist() -> None:
    documents = [yaml.safe_load(text) for _, text in blocks(PAGE, "yaml")]
    actions, gitlab, with_broker, compose = documents
    assert set(actions) == {True, "jobs"}  # YAML reads "on" as true, and so does GitHub
    assert all("script" in one["test"] for one in (gitlab, with_broker))
    commands = [command for document in documents for command in commands_in(document)]
    assert len(commands) == 11
    for command in commands:
        for arguments in leveret_commands(command):
            assert problem_of(arguments) is None, f"{command}: {problem_of(arguments)}"
        program, *words = command.split()
        module = words[1] if words[:1] == ["-m"] else program
        if program != "leveret":
            run(ROOT, "-m", module, "--version")
    assert Path(ROOT / compose["services"]["broker"]["build"]["dockerfile"]).exists()
    assert set(compose["services"]["broker"]["environment"]) <= {item.env for item in DECLARED}
