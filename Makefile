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
POSTGRESQL := /usr/lib/postgresql/15/bin/postgres=postgresql-15
RABBITMQ := /usr/lib/rabbitmq/bin/rabbitmq-server=rabbitmq-server

# Byte code is cached: without the cache, each of the several hundred processes of the tests compiles the source again.
unexport PYTHONDONTWRITEBYTECODE

# `make test PACKAGE=queues`: the unit tests of the package, the tier of its name and the tests of other tiers that carry it.
NAMED = $(filter-out tests/$(PACKAGE)/%,$(wildcard tests/*/test_*$(PACKAGE)*.py))
PATHS = $(if $(PACKAGE),$(wildcard tests/unit/$(PACKAGE) tests/$(PACKAGE)) $(NAMED),tests)

.DEFAULT_GOAL := help
.PHONY: help run demo check lint test compat compat-suites spark-long fuzz fuzz-http pictures permissions-page lock crash cluster-long cells-long attack bench bench-picture bench-spark bench-spark-reads bench-spark-all bench-clients bench-polling bench-pages bench-memory bench-profile bench-cells bench-cluster bench-deps bench-compare foreign clean

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

test: .venv/.installed-dev ## everything, installing what the tests need (PACKAGE=queues for one package)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint foreign
	@test -n "$(PATHS)" || { echo "no tests for the package '$(PACKAGE)'" >&2; exit 1; }
	@$(if $(PACKAGE),$(BIN)/python -m pytest $(PATHS),sh tools/run_tests.sh $(BIN)/python) $(PYTEST_ARGS)

compat: .venv/.installed-dev foreign ## other people's clients against a running broker
	$(BIN)/python -m pytest tests/compat $(PYTEST_ARGS)

compat-suites: .venv/.installed-dev ## the test suites of other AMQP clients, from PyPI, against a broker; needs root (ARGS="kombu aiormq")
	@sh tools/install_debian.sh ip=iproute2
	@$(BIN)/python -m tests.compat_suites $(ARGS)

spark-long: .venv/.installed-dev ## the long tests of the pipeline: kills at every point and at random, speculation, the declarative project
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

cluster-long: .venv/.installed-dev ## random faults of nodes and servers of a cell under load for TIME seconds (ARGS="--seed 1")
	@$(BIN)/python -m tests.cluster.long_run --time $(TIME) $(ARGS)

cells-long: .venv/.installed-dev ## faults of the links between cells under load for TIME seconds; needs root (ARGS="--seed 1")
	@$(BIN)/python -m tests.cluster.cells_long_run --time $(TIME) $(ARGS)

attack: .venv/.installed-dev ## the attack tests with random sizes, round by round for TIME seconds; needs root
	@sh tools/attack.sh $(BIN)/python $(TIME)

bench: .venv/.installed ## speed and memory against RabbitMQ, as one table (ARGS="--scenarios a16,b16")
	@$(BIN)/python -m benchmarks.run --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-picture: .venv/.installed ## draw docs/pictures/benchmarks.svg from the newest results
	@$(BIN)/python -m benchmarks.picture $(ARGS)

bench-spark: .venv/.installed-dev ## the pipeline on Spark against its targets and RabbitMQ with pika (ARGS="--scenarios noop")
	@$(BIN)/python -m benchmarks.pipeline.run --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-spark-reads: .venv/.installed-dev ## batch reads beside Parquet and an empty Python source (ARGS="--rows 800000 --rounds 5")
	@$(BIN)/python -m benchmarks.pipeline.reads $(ARGS)

bench-spark-all: .venv/.installed-dev ## all of the Spark pipeline in one run: bench-spark, then batch reads and writes beside Parquet and empty Python sources
	@failed=0; \
	$(BIN)/python -m benchmarks.pipeline.run --amqpbench "$(AMQPBENCH)" $(ARGS) || failed=1; \
	$(BIN)/python -m benchmarks.pipeline.reads --rounds 3 || failed=1; \
	$(BIN)/python -m benchmarks.pipeline.sink_rates || failed=1; \
	exit $$failed

bench-clients: .venv/.installed-dev ## leveret.client beside pika and aio-pika (ARGS="--smoke" for a try)
	@$(BIN)/python -m benchmarks.clients.run $(ARGS)

bench-polling: .venv/.installed ## what 10,000 queues polled every 5 s cost others
	@$(BIN)/python -m benchmarks.polling --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-pages: .venv/.installed-dev ## how fast pages of the management UI load with 5,000 queues and 5,000 msg/s
	@$(BIN)/python -m benchmarks.page_loads --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-memory: .venv/.installed ## memory after a load, and with many connections, queues and virtual hosts
	@$(BIN)/python -m benchmarks.idle_memory --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-profile: .venv/.installed-dev ## where the time of a lone message goes, with perf and strace (ARGS="--patterns rpc,dw1")
	@$(BIN)/python -m benchmarks.profiles --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-cells: .venv/.installed ## what several cells on one machine give and cost
	@$(BIN)/python -m benchmarks.cells --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-cluster: .venv/.installed-dev ## three nodes beside three of RabbitMQ, and times of take-overs
	@$(BIN)/python -m benchmarks.cluster --amqpbench "$(AMQPBENCH)" $(ARGS)

bench-deps: ## install RabbitMQ for the comparison (Debian, as root)
	@LEVERET_REQUIRE_ALL=1 sh tools/install_debian.sh $(RABBITMQ) cc=gcc

bench-compare: .venv/.installed ## the same benchmark for this tree and for REF (default main)
	@sh tools/bench_compare.sh "$(PYTHON)" "$(REF)" --amqpbench "$(AMQPBENCH)" $(ARGS)

foreign: .venv/.installed-dev ## the programs of other languages and the test suites of other clients that the tests need
	@sh tools/install_debian.sh amqp-publish=amqp-tools node=nodejs npm=npm Net::Stomp=libnet-stomp-perl cc=gcc mkfs.ext4=e2fsprogs systemd-analyze=systemd java=openjdk-17-jre-headless chromium=chromium ip=iproute2 nginx=nginx-light haproxy=haproxy promtool=prometheus $(POSTGRESQL) $(RABBITMQ)
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
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[server]'
	@touch $@

.venv/.installed-dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch .venv/.installed $@
