# Every target does its own set-up; a second run does none again. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
CACHE  := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tablewright
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST ?= -n 2 --dist loadgroup
# What tools remember goes into the virtual environment: a run leaves nothing else in the checkout.
# Without bytecode every run would compile a thousand modules again.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/.cache/pycache
export HYPOTHESIS_STORAGE_DIRECTORY := $(CURDIR)/$(VENV)/.cache/hypothesis
export UV_PROJECT_ENVIRONMENT := $(VENV)
SYNCED := $(VENV)/.synced

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(SYNCED): pyproject.toml uv.lock
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	  uv=$$(PYTHON=$(PYTHON) CACHE='$(CACHE)' tools/ensure-uv) && \
	  TMPDIR="$$scratch" "$$uv" sync --locked --all-extras --python $(PYTHON) # it leaves locks there
	@touch $@

.PHONY: install
install: $(SYNCED) ## Install the command line into .venv, with everything that it needs but Java
	@echo "tablewright is $(CURDIR)/$(BIN)/tablewright"

.PHONY: setup
setup: $(SYNCED) ## Install the locked dependencies, and build or fetch the servers that tests use
	@$(BIN)/python -m tests.servers.binaries test

.PHONY: demo
demo: $(SYNCED) ## Declare tables, write small files, and watch them being compacted, without a cluster
	@$(BIN)/python -m tests.servers.binaries demo
	@$(BIN)/python examples/demo.py

.PHONY: unit
unit: $(SYNCED) ## Run the unit tests, which need no server (two minutes from a fresh clone)
	@$(BIN)/python tools/clean_run.py $(BIN)/python -m pytest $(PYTEST) tests/unit

.PHONY: test
test: setup ## Run the default test suite
	@$(BIN)/python tools/clean_run.py $(BIN)/python -m pytest $(PYTEST) tests/unit tests/integration

.PHONY: walkthrough
walkthrough: setup ## Run a small demo, and what README and the quickstart tell people to type
	@$(BIN)/python tools/clean_run.py $(BIN)/python -m pytest -n 2 --dist loadfile tests/walkthrough

.PHONY: interop
interop: $(SYNCED) ## Run drivers on Spark, share tables with it and with Java, and compare with the reference
	@$(BIN)/python -m tests.servers.binaries interop
	@$(BIN)/python tools/clean_run.py $(BIN)/python -m pytest tests/drivers tests/interop tests/differential

.PHONY: chaos
chaos: setup ## Crowds of writers, breaking connections, and an operator killed after each of its writes (long)
	@$(BIN)/python tools/clean_run.py $(BIN)/python -m pytest tests/chaos

.PHONY: images
images: $(SYNCED) ## Build both container images from their Dockerfiles, and run what is in them
	@$(BIN)/python -m tests.servers.binaries images
	@$(BIN)/python tools/clean_run.py $(BIN)/python -m pytest tests/images

.PHONY: e2e
CLUSTER ?= node
e2e: $(SYNCED) ## Run everything on a real Kubernetes node (or CLUSTER=kind, or CLUSTER=a kubeconfig)
	@$(BIN)/python -m tests.servers.binaries e2e $(filter node,$(CLUSTER))
	@$(BIN)/python tools/clean_run.py $(BIN)/python -m tests.e2e --cluster $(CLUSTER)

.PHONY: bench
bench: setup ## Measure side by side with Iceberg Java, and the operator with many tables (an hour)
	@$(BIN)/python -m tests.servers.binaries interop
	@$(BIN)/python -m benchmarks.compaction
	@$(BIN)/python -m benchmarks.planning
	@$(BIN)/python -m benchmarks.maintenance
	@$(BIN)/python -m benchmarks.operator
	@$(BIN)/python -m benchmarks.fleet

.PHONY: bench-node
bench-node: $(SYNCED) ## Measure a small run part by part, on the node of the end-to-end suite
	@$(BIN)/python -m tests.servers.binaries e2e node
	@$(BIN)/python tools/clean_run.py $(BIN)/python -m tests.e2e -s -p tests.conftest -p tests.e2e.conftest \
	  benchmarks/startup.py

.PHONY: lint
lint: $(SYNCED) ## Check format, style, types and the layers between packages
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --cache-dir $(VENV)/.cache/import-linter

.PHONY: docs
docs: $(SYNCED) ## Write docs/api.md anew from the custom resource definitions
	@$(BIN)/python tools/api_docs.py

.PHONY: format
format: $(SYNCED) ## Format the code and mend what ruff can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: lock
lock: ## Resolve the dependencies anew into uv.lock
	@uv=$$(PYTHON=$(PYTHON) CACHE='$(CACHE)' tools/ensure-uv) && "$$uv" lock --upgrade

.PHONY: clean
clean: ## Remove the virtual environment (the cache of servers stays)
	@rm -rf $(VENV)
