# Leveret. `make help` lists the commands. Needs Python 3.11 or newer, make, git and (for bench) a C compiler.

PYTHON ?= $(shell sh tools/find_python.sh)
BIN := .venv/bin
ARGS ?=
PACKAGE ?= $(ROOM)
TIME ?= 60
EXAMPLES ?= 200
REF ?= main
PYTEST_ARGS ?=
AMQPBENCH ?=
IMAGE_PYTHON ?= python3.13
NODE_DIR := tests/compat/node
RABBITMQ := /usr/lib/rabbitmq/bin/rabbitmq-server=rabbitmq-server

# Byte code is cached: without the cache, each of the several hundred processes of the tests compiles the source again.
unexport PYTHONDONTWRITEBYTECODE

# `make test PACKAGE=queues`: the unit tests of the package and the tests of other tiers that carry its name.
PATHS = $(if $(PACKAGE),$(wildcard tests/unit/$(PACKAGE) tests/*/test_*$(PACKAGE)*.py),tests)

.DEFAULT_GOAL := help
.PHONY: help run demo check lint test compat compat-suites spark-long fuzz fuzz-http pictures permissions-page lock crash attack bench bench-spark bench-clients bench-polling bench-deps bench-compare foreign clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 22

run: .venv/.installed ## install if needed and start the broker (ARGS="--amqp-port 0 ...")
	@exec $(BIN)/leveret serve $(ARGS)

demo: .venv/.installed-dev ## a broker, a shop, two pipelines on Spark, a live table and a chart: about a minute
	@sh tools/install_debian.sh java=openjdk-17-jre-headless 2>/dev/null || true
	@$(BIN)/python -m examples.demo $(ARGS)

check: .venv/.installed-dev ## format, lint, types, generated files, architecture, unit tests: under a minute
	@MAKE="$(MAKE)" sh tools/check.sh $(BIN)/python $(PYTEST_ARGS)

lint: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/generate_methods.py --check
	$(BIN)/python tools/generate_settings_page.py --check
	$(BIN)/python tools/generate_import_table.py --check
	@sh tools/check_web.sh

test: lint foreign ## everything, installing what the tests need (PACKAGE=queues for one package)
	@test -n "$(PATHS)" || { echo "no tests for the package '$(PACKAGE)'" >&2; exit 1; }
	@$(if $(PACKAGE),$(BIN)/python -m pytest $(PATHS),sh tools/run_tests.sh $(BIN)/python) $(PYTEST_ARGS)

compat: .venv/.installed-dev foreign ## other people's clients against a running broker
	$(BIN)/python -m pytest tests/compat $(PYTEST_ARGS)

compat-suites: .venv/.installed-dev ## the test suites of other AMQP clients, from PyPI, against a broker; needs root (ARGS="kombu aiormq")
	@sh tools/install_debian.sh ip=iproute2
	@$(BIN)/python -m tests.compat_suites $(ARGS)

spark-long: .venv/.installed-dev ## the long tests of the pipeline: random kills, speculation, the declarative project
	@sh tools/install_debian.sh java=openjdk-17-jre-headless
	$(BIN)/python -m pytest -s tests/spark_long $(PYTEST_ARGS)

fuzz: .venv/.installed-dev ## property and fuzz tests with fresh seeds for TIME seconds
	@sh tools/fuzz.sh $(BIN)/python $(TIME)

fuzz-http: .venv/.installed-dev ## EXAMPLES fresh requests to each endpoint of the HTTP API, right and wrong ones
	LEVERET_SCHEMATHESIS_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -q tests/integration/test_schemathesis.py $(PYTEST_ARGS)

pictures: .venv/.installed-dev ## take the pictures of the guide from a running broker (ARGS="overview queues")
	@sh tools/install_debian.sh chromium=chromium
	$(BIN)/python -m tools.take_pictures $(ARGS)

permissions-page: .venv/.installed-dev ## write docs/guide/permissions.md from the rules that the tests hold the broker to
	$(BIN)/python -m tests.support.permission_page

lock: ## write the lock files of the container image with its Python (IMAGE_PYTHON=python3.13), from the index of pip
	$(IMAGE_PYTHON) tools/lock_image.py

crash: .venv/.installed-dev ## kill -9 cycles and power cuts under load, round by round for TIME seconds; cuts need root
	@sh tools/crash.sh $(BIN)/python $(TIME)

attack: .venv/.installed-dev ## the attack tests with random sizes, round by round for TIME seconds; needs root
	@sh tools/attack.sh $(BIN)/python $(TIME)

bench: .venv/.installed ## speed and memory against RabbitMQ (AMQPBENCH=path/to/amqpbench.c ARGS="--scenarios a16,b16")
	@$(BIN)/python -m benchmarks.run --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-spark: .venv/.installed-dev ## the pipeline on Spark against its targets and RabbitMQ with pika (AMQPBENCH=..., ARGS="--scenarios noop")
	@$(BIN)/python -m benchmarks.pipeline.run --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-clients: .venv/.installed-dev ## leveret.client beside pika and aio-pika (ARGS="--smoke" for a try)
	@$(BIN)/python -m benchmarks.clients.run $(ARGS)

bench-polling: .venv/.installed ## what 10,000 queues polled every 5 s cost others (AMQPBENCH=...)
	@$(BIN)/python -m benchmarks.polling --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-deps: ## install RabbitMQ for the comparison (Debian, as root)
	@LEVERET_REQUIRE_ALL=1 sh tools/install_debian.sh $(RABBITMQ) cc=gcc

bench-compare: .venv/.installed ## the same benchmark for this tree and for REF (default main)
	@sh tools/bench_compare.sh "$(PYTHON)" "$(REF)" --amqpbench "$(AMQPBENCH)" $(ARGS)

foreign: .venv/.installed-dev ## the programs of other languages and the test suites of other clients that the tests need
	@sh tools/install_debian.sh amqp-publish=amqp-tools node=nodejs npm=npm Net::Stomp=libnet-stomp-perl cc=gcc mkfs.ext4=e2fsprogs systemd-analyze=systemd java=openjdk-17-jre-headless chromium=chromium ip=iproute2 nginx=nginx-light haproxy=haproxy $(RABBITMQ)
	@sh tools/install_node_modules.sh $(NODE_DIR)
	@sh tools/fetch_rabbitmqadmin.sh build/foreign/rabbitmqadmin
	@$(BIN)/python -m tests.compat_suites.sources

clean: ## remove everything that make made
	rm -rf .venv .bench dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage htmlcov $(NODE_DIR)/node_modules tools/web/node_modules
	find src tests tools benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
	-git worktree prune

.venv/bin/python:
	@sh tools/make_venv.sh "$(PYTHON)" .venv

.venv/.installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/.installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch .venv/.installed $@
