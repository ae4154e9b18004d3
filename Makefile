# Two commands do everything: `make run` shows Leasehold at work, `make test` checks all of it.
# Both make the virtual environment and install what they need first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# What is imported is compiled once, whatever the surroundings say, and kept with the environment;
# so pip need not compile millions of lines of which most are never imported.
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help run test lint types mypy pyright layers compiled tests soak faces bench bench-postgres \
	against clean

help:            ## Show what can be made
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

$(VENV)/run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install --no-compile --editable ".[cli,dashboard]"
	@touch $@

$(VENV)/test: $(VENV)/run
	$(PIP) install --no-compile --group test
	@touch $@

$(VENV)/bench: $(VENV)/test
	$(PIP) install --no-compile --group bench
	@touch $@

# Other queues want other versions of what we use: they get an environment of their own.
$(VENV)/rivals: $(VENV)/test
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$@/bin/python -m pip install --quiet --disable-pip-version-check --group rivals
	$(PYTHON) -m venv $@/arq
	$@/arq/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$@/arq/bin/python -m pip install --quiet --disable-pip-version-check --group rivals-arq
	! command -v npm || npm install --silent --prefix $@ bullmq ioredis graphile-worker
	@touch $@

run: $(VENV)/run        ## See it work: jobs run, retried, dead-lettered, counted, and served over HTTP
	$(BIN)/python examples/tour.py
	$(BIN)/python examples/service.py

# The checks of the sources run beside each other, and the suite after them, when all are good.
# Where make can (from version 4 on), what each of them says stays together.
TOGETHER := --no-print-directory -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

test: $(VENV)/test      ## Run every check: style, types, layering and the whole suite
	$(MAKE) $(TOGETHER) mypy lint layers pyright compiled
	$(MAKE) --no-print-directory tests

lint: $(VENV)/test      ## Style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: mypy pyright     ## Types, strictly

mypy: $(VENV)/test
	$(BIN)/mypy

pyright: $(VENV)/test
	$(BIN)/basedpyright

layers: $(VENV)/test    ## Who may import whom
	$(BIN)/lint-imports

# Once, and not in each process of the suite at the same time; what is wrong the suite will say.
compiled: $(VENV)/test
	$(BIN)/python -m pytest --collect-only > /dev/null 2>&1 || true

# Many tests wait for processes they have started or killed: three at a time keep two cores busy.
tests: $(VENV)/test     ## The test suite
	$(BIN)/python -m pytest -n 3 --dist worksteal

# A long soak fails, too, if it has never met some rule of the contract.
MINUTES ?= 1
soak: $(VENV)/test      ## Every verb on every store under faults, for MINUTES=n [SEED=s]
	$(BIN)/python -m leasehold.testing.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

faces: $(VENV)/test     ## Write what is derived: after a change of a TaskQueue's methods
	$(BIN)/python -m tools.faces

bench-postgres: $(VENV)/rivals   ## Measure the PostgreSQL store, beside other queues
	PYTHONPATH=tests $(BIN)/python -m benchmarks.postgres --json $(VENV)/postgres.json

bench: $(VENV)/bench    ## Measure, beside the raw limit and a rival
	$(BIN)/python -m benchmarks

against: $(VENV)/rivals ## Measure beside other queues, each on a server of its own
	$(BIN)/python -m benchmarks.against --json $(VENV)/against.json --page

clean:           ## Remove what was made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
