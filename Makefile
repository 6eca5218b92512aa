# make run: the main job.  make test: all tests.  Both set up what is missing first.  make help lists the rest.
MODEL ?= seq2seq
FRAMEWORK ?= tensorflow
HARDWARE ?= cpu
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# the files under tbd/models that are named otherwise than these are for every framework, or for CNTK, which is old
FRAMEWORKS := $(filter-out cntk,$(patsubst tbd/frameworks/%/adapter.py,%,$(wildcard tbd/frameworks/*/adapter.py)))

.DEFAULT_GOAL := help
.PHONY: help setup run test cluster test-cluster ui docs server server-setup lint parity-full server-faults bench-overhead bench-models lock clean

help: ## these lines
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(VENV)/ready ## the controller's environment, .venv, exactly as locked in requirements.lock

# uv, itself from the lock, installs the rest in seconds; the stamp is written last, so that a broken set-up is repeated.
# Compiled once, here: the server's account may not write into the environment, and would compile MLflow at each start
$(VENV)/ready: requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "tbd: $(PYTHON) is not here. On Debian or Ubuntu: apt-get install python3.11 python3.11-venv, or PYTHON=/path/to/python3.11 make $(MAKECMDGOALS)"; exit 1; }
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet "$$(grep -E '^uv==' requirements.lock)"
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

# what the shared server needs beside: SeaweedFS alone is 170 MB
server-setup: $(VENV)/server ## the shared server's packages, exactly as locked in requirements-server.lock

$(VENV)/server: $(VENV)/ready requirements-server.lock
	@echo "setting up the server's packages (once)"
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements-server.lock
	@touch $@

run: setup ## train MODEL=seq2seq in FRAMEWORK=tensorflow on HARDWARE=cpu and record the run
	@$(BIN)/python -m tbd.train model=$(MODEL) framework=$(FRAMEWORK) hardware=$(HARDWARE)

# without MLflow's job runners, which nothing here uses: 5 processes instead of 13
ui: setup ## the record in a browser
	@$(BIN)/python -m tbd.tracking.view
	@MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false $(BIN)/mlflow ui --backend-store-uri "$${MLFLOW_TRACKING_URI:-sqlite:///mlflow.db}"

server: server-setup ## the shared server on this machine: PostgreSQL, S3 and MLflow, with logins (docs/server.md)
	@$(BIN)/python -m tbd.serve

test: setup server-setup lint ## all tests
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --ignore tests/cluster

docs: setup ## the documentation as a site: site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

cluster: ## a real Slurm of two nodes on this machine, for tests; as root, with slurm-wlm, munge and iproute2 (RATE=1gbit)
	@cluster/slurm.sh up

test-cluster: setup ## the tests of several machines on that cluster, one after the other
	@$(BIN)/python -m pytest tests/cluster

parity-full: setup ## every network at its full size against PyTorch in float64, hours; the report: docs/parity.md
	@$(BIN)/python -m tests.parity.full

lint: setup ## style, types, and the syntax that old frameworks need
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/vermin --quiet --no-tips --violations -t=3.6- tbd/__init__.py tbd/worker tbd/data tbd/frameworks/*.py tbd/frameworks/*/__init__.py tbd/frameworks/cntk entrypoints/frameworks/cntk $$(find tbd/models -name '*.py' $(FRAMEWORKS:%=! -name %.py))

server-faults: server-setup ## every fault between a run and a real server, an hour (root; apt-get install faketime): docs/server-faults.md
	@$(BIN)/python -m tests.faults.server_table

bench-overhead: setup ## our timing pass against a bare loop of the same model, ratio a framework
	@$(BIN)/python benchmarks/overhead/compare.py

bench-models: setup ## our networks against the best public implementation in each framework, ratios (ARGUMENTS=--help)
	@$(BIN)/python benchmarks/models.py $(ARGUMENTS)

lock: setup ## requirements.lock and requirements-server.lock anew from pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --no-emit-index-url --no-emit-find-links -o requirements.lock pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra server -c requirements.lock --no-emit-index-url --no-emit-find-links -o requirements-server.lock pyproject.toml

clean: ## remove .venv (runs and records stay)
	rm -rf $(VENV)
