# The commands of the README are `make quickstart`, `make test` and `make test-slow`; each does its own set-up.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

# Where this is set, each of thousands of processes compiles our code anew, and each worker of pytest all tests.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
OUT ?= results/quickstart-$(shell date -u +%Y%m%dT%H%M%SZ)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: setup setup-dev
setup: ## Install what a benchmark, a pipeline and the monitor need into .venv, and compile the broker (COMPILED=0 leaves that out)
	@./setup.sh run
setup-dev:
	@./setup.sh dev

.PHONY: quickstart
# Exit status 4 means that some trial is no valid measurement, as on a busy laptop, and 12 that an objective was missed:
# the report says which and why.
quickstart: setup ## Benchmark the embedded broker with Spark and write an HTML report (about 3 minutes)
	@status=0; $(BIN)/highwater bench run workloads/quickstart.yaml --out "$(OUT)" || status=$$?; \
	if [ $$status -ne 0 ] && [ $$status -ne 4 ] && [ $$status -ne 12 ]; then exit $$status; fi; \
	$(BIN)/highwater report "$(OUT)"

.PHONY: test
# Tests wait for processes, so that cores are left for lint and types. What these say is whole, and comes last.
BESIDE := results/lint-and-types.log
test: setup-dev ## Lint, types and every test that is not slow: what a change must pass (a quarter of an hour on two cores)
	@mkdir -p results
	@printf '#### make test: tests, with lint and types beside them\n'
	@nice $(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync lint types > $(BESIDE) 2>&1 & beside=$$!; status=0; \
	$(MAKE) --no-print-directory unit || status=$$?; \
	wait $$beside || status=$$?; printf '#### make test: lint and types\n'; cat $(BESIDE); exit $$status
	@printf '#### make test: everything passed\n'

.PHONY: lint
lint: setup-dev build/playbooks-linted ## ruff, yamllint and ansible-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/yamllint -s .

# 40 s of processor time, so that it is done when a file is new, changed or gone.
build/playbooks-linted: $(shell find playbooks \( -name __pycache__ -o -name .ansible \) -prune -o ! -type l -print) constraints.txt | setup-dev
	cd playbooks && PATH="$(CURDIR)/$(BIN):$$PATH" ansible-lint --offline -q
	@mkdir -p build && touch $@

.PHONY: types
types: setup-dev ## mypy, strict
	$(BIN)/mypy

# Collects once, where each process of pytest-xdist does.
PYTEST := $(BIN)/python -m pytest -p tests.forks

.PHONY: unit
# Two processes for each of two cores, as tests wait for half of the time.
unit: setup-dev ## The tests of `make test` alone
	$(ONCE_MORE) $(PYTEST) --forks 4 -m "not slow"

.PHONY: test-slow
# Four processes, whatever the cores: each waits for JVMs and clusters for two thirds of its time, and needs memory for them.
test-slow: setup-dev ## The other tests: they start a JVM, take more than five seconds or break things on purpose
	$(ONCE_MORE) $(PYTEST) --forks 4 -m "slow and not compat" --timeout 600 --durations 25

.PHONY: format
format: setup-dev ## Let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: setup-dev ## Write the pages that are made from the code: modules.md, commands.md, tuning-knobs.md and the table of faults.md in docs/, and schemas/
	$(BIN)/python -m tests.modules_page
	$(BIN)/python -m tests.commands_page
	$(BIN)/python -m tests.faults_page
	$(BIN)/python -m tests.schemas_folder
	$(BIN)/python -m highwater.tuning.catalogue > docs/tuning-knobs.md

.PHONY: lock audit
lock: ## Pin anew the SHA-256 of what setup.sh installs: requirements/, from constraints.txt (fetches uv)
	@requirements/lock.sh
audit: setup-dev ## Ask for known vulnerabilities of the pinned releases (fetches pip-audit; 3: the index does not tell)
	@$(BIN)/python -m tests.dependency_audit

.PHONY: compat
compat: setup-dev ## What others wrote, run against our broker and files (Java, Maven, npm, gcc, Go)
	@$(BIN)/python -m tests.compat $(SUITES)

.PHONY: drills
drills: setup-dev ## Let files fail, kill, pause, cut off and starve brokers under load, poison every decoder, hold all to their promises (an hour; root)
	$(BIN)/python -m tests.drills.every_operation
	$(BIN)/python -m tests.drills.kill9 --rounds 200
	$(BIN)/python -m tests.drills.cluster
	$(BIN)/python -m tests.drills.cluster.transactions --coordinator
	$(BIN)/python -m tests.drills.cluster.transactions --coordinator --version 2
	$(BIN)/python -m tests.drills.lying_broker
	$(BIN)/python -m tests.drills.before_login
	$(BIN)/python -m tests.drills.poison
	$(BIN)/python -m tests.drills.bystander

.PHONY: drill-pipeline
drill-pipeline: setup-dev ## Kill parts of pipelines into every sink, on our broker and Apache Kafka (a night; goes on where it was stopped; ARGS=)
	$(BIN)/python -m tests.pipeline.messaging.history --histories 10000
	$(BIN)/python -m tests.drills.consumer
	$(BIN)/python -m tests.drills.pipeline $(ARGS)

.PHONY: simulate
simulate: setup-dev ## Seeded histories of a simulated cluster, and of a broker of several processes (SEEDS=10000, JOBS=2)
	$(BIN)/python -m tests.broker.simulation --seeds $(or $(SEEDS),10000) --jobs $(or $(JOBS),2)
	$(BIN)/python -m tests.broker.simulation --processes --seeds $$(( $(or $(SEEDS),10000) / 5 )) --jobs $(or $(JOBS),2)

.PHONY: lab-up lab-test lab-down
lab-up: setup-dev ## Boot N=3 Debian hosts with two disks each on this machine (root; the first time a minute or two more)
	@$(BIN)/python -m tests.lab up --hosts $(or $(N),3)
lab-test: setup-dev ## The playbooks against real booted hosts, from bare to torn down (root)
	@$(BIN)/python -m tests.lab test
lab-down: setup-dev ## Take the hosts away, whatever there is of them
	@$(BIN)/python -m tests.lab down

.PHONY: compiled
compiled: setup-dev ## A wheel in dist/ whose broker runs hot modules as machine code, for this Python and machine (gcc; docs/compiled.md)
	@rm -rf build/lib* build/bdist*
	HIGHWATER_COMPILED=1 $(BIN)/python -m pip wheel --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .

.PHONY: site
site: setup-dev ## The documentation as web pages in build/highwater-docs, from the files as they are (half a minute; ARGS="--older ARCHIVE")
	@$(BIN)/python -m tools.site $(ARGS)

.PHONY: release
# Compiled wheels need Maven, for headers of Python; Debian's hosts need root and debootstrap, those of the other processor QEMU.
release: setup-dev ## What is published, from the last commit into dist/: built twice, tested alone (half an hour of CPU time; ARGS="--only wheel --tests quick")
	@$(BIN)/python -m tools.release $(ARGS)

.PHONY: bench-broker
bench-broker: setup ## Compare the broker with Apache Kafka (about three hours; ARGS="--quick" to try it; Java, Maven, npm, gcc)
	@$(BIN)/python -m tools.beside_kafka $(ARGS)

.PHONY: bench-pipeline
bench-pipeline: setup-dev ## Compare sources and sinks of pipelines with others (half an hour; ARGS="--only databases"; Maven)
	@$(BIN)/python -m tools.pipeline_speed $(ARGS)

.PHONY: bench-micro
bench-micro: setup-dev ## Time steps of the broker's hot path and compare with the stored baseline
	@mkdir -p results && rm -f results/micro.json
	@$(BIN)/python -m tools.micro $(ARGS) -o results/micro.json
	@$(BIN)/python -m pyperf compare_to --table tools/micro/baseline.json results/micro.json

.PHONY: clean
clean: ## Remove .venv and what tools left behind
	rm -rf .venv build ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
