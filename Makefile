# The targets of a checkout. On a machine with Python 3.11 or 3.12, g++ and make, `make demo` and `make test` need no
# other target first. Every target is safe to repeat, and skips what is done.

CANDIDATES := python3.12 python3.11 python3 /usr/bin/python3.12 /usr/bin/python3.11 /usr/bin/python3
SUITABLE := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 13))
# Root prefers one outside its own folder: a worker of root runs scripts as another user, who must be able to run it.
OPEN := import os, sys, pathlib; sys.exit(os.geteuid() == 0 and \
	not all(folder.stat().st_mode & 1 for folder in pathlib.Path(os.path.realpath(sys.executable)).parents))
answers_no = $(shell $(1) -c '$(2)' 2>&1 || echo no)
that_fit := $(foreach python,$(CANDIDATES),$(if $(call answers_no,$(python),$(SUITABLE)),,$(python)))
PYTHON ?= $(firstword $(foreach python,$(that_fit),$(if $(call answers_no,$(python),$(OPEN)),,$(python))) $(that_fit))

UV := .uv/bin/uv
BIN := .venv/bin
# Node and npm of the environment, not those of the machine.
NPM := cd dashboard && PATH="$(CURDIR)/$(BIN):$$PATH" npm

.DEFAULT_GOAL := help
.PHONY: help setup dashboard docs demo quick test test-long test-all up down types check format chaos upgrade fuzz bench \
	screenshots compose-test gpu-build-test gpu-test lock clean prerequisites another-device

# What .venv holds, and whether HORA_DEVICE (auto, cpu or gpu) asks for something else.
HELD = $(if $(wildcard .venv/lib/python*/site-packages/tensorflow-[0-9]*.dist-info),gpu,cpu)
ANOTHER = $(if $(filter-out auto $(HELD),$(HORA_DEVICE)),another-device)

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 15

setup: .venv/ready ## Create .venv for GPUs if there are any, else for CPUs (or HORA_DEVICE=cpu|gpu), and build the pages
	@$(BIN)/python hatch_build.py
	@$(BIN)/python set_up.py hint

# hatch_build.py checks whether anything changed.
dashboard: .venv/ready ## Build the dashboard again if its sources have changed
	@$(BIN)/python hatch_build.py dashboard

docs: .venv/ready ## Build the documentation again if docs/ has changed, and compare it with the code
	@$(BIN)/python hatch_build.py docs
	@$(BIN)/pytest --quiet tests/unit/test_docs.py
	@echo "The start page: $(CURDIR)/api/help/docs/index.html"

# Two ranks are refused where there is one GPU: then the demo takes one.
SUBMIT = $(BIN)/hora --profile local submit examples/digits.yaml
# The stack stays up. A machine with one core gets two CPU slots, so that two ranks can start.
demo: setup ## Start the stack and train a real job on 2 ranks (1 on a host with one GPU), to its end
	@HORA_SLOTS=$${HORA_SLOTS:-$$([ $$(nproc) -gt 1 ] || echo 2)} $(BIN)/hora up -d
	@job=$$($(SUBMIT) 2>/dev/null || $(SUBMIT) --gpus 1) || exit; \
	$(BIN)/hora --profile local show $$job --wait; status=$$?; \
	echo "More of it: $(BIN)/hora show $$job, logs $$job, metrics $$job"; \
	echo "Stop the stack with: make down"; \
	echo "Open it in a browser, once and within ten minutes: $$($(BIN)/hora --profile local login)&next=/jobs/$$job"; \
	exit $$status

# Unit tests hardly wait: one process for each core. Each process imports TensorFlow first.
quick: .venv/ready ## Run the unit tests, in a minute
	$(BIN)/pytest tests/unit --numprocesses logical --maxprocesses 8 --dist loadfile

# PROCESSES share the files in their order. Files that train come first, so that no process works alone at the end.
# On two cores three are faster than two, because a quarter of the time a test waits. The tests start hundreds of
# processes of Hora. Each would compile all modules anew if none could store what it compiled.
PROCESSES ?= 3
SUITE = env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder --costs
test: setup .venv-peers/ready ## Run the tests that every change must pass
	$(SUITE) --tier short

PART ?= long
test-long: setup ## Run the long tests: what fails at random, clusters, releases (PART=faults, hosts or releases)
	$(SUITE) --tier $(PART)

test-all: test test-long ## Run all tests

up: setup ## Start the stack on this machine
	@$(BIN)/hora up -d

down: setup ## Stop it
	@$(BIN)/hora down

types: setup ## Write the dashboard's types of the api again
	@$(BIN)/python -m api.document > dashboard/node_modules/.openapi.json
	@$(NPM) exec --no -- openapi-typescript node_modules/.openapi.json -o src/api/schema.d.ts

check: types ## Lint, check formatting, types and import rules, build the documentation
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python hatch_build.py docs
	$(NPM) run check

format: setup ## Format, fix what the linter can fix, and write what is made from code: tables in docs/, types of the client
	$(BIN)/python -m tests.command_table
	$(BIN)/python -m tests.field_tables
	$(BIN)/python -m tests.typed_fields
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format
	$(NPM) run format

# SEED is of the first round; each of the others has the next one.
SEED ?= 1
ROUNDS ?= 1
chaos: setup ## Break everything while jobs run, ROUNDS times (some minutes each; SEED=7 ROUNDS=5 SHARES=1)
	$(BIN)/python -m tests.chaos --seed $(SEED) --rounds $(ROUNDS) $(if $(SHARES),--shares)

upgrade: setup ## Upgrade a stack from FROM (a revision of git) to this version while jobs train
	$(BIN)/python -m tests.upgrade $(if $(FROM),--from $(FROM))

FUZZ_SECONDS ?= 1200
fuzz: setup ## Send the api requests that fit its OpenAPI document, and many that do not (20 minutes)
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

bench: setup .venv-peers/ready ## Compare Hora with other ways to do the same (an hour; one: python -m bench NAME)
	$(BIN)/python -m bench

gpu-test: setup ## Check Hora on the GPUs of this machine, and print a table for an issue (half an hour)
	@$(BIN)/python -m tests.gpu

screenshots: setup ## Take pictures of every page of the dashboard into screenshots/ (six minutes; needs Chromium)
	$(BIN)/python -m tests.browser.screenshots

compose-test: setup ## Bring docker-compose.yml up in docker or podman and run a job: new, upgraded (FROM=REVISION), GPU=1 or STORE=1
	$(BIN)/python -m tests.compose $(if $(FROM),--from $(FROM)) $(if $(GPU),--gpu) $(if $(STORE),--store)

gpu-build-test: .venv-gpu/ready ## Compile Horovod with NCCL from NVIDIA's wheels and train with it on CPUs (no GPU needed)
	.venv-gpu/bin/python -m tests.gpu_build

# `make lock LOCK_FLAGS=--upgrade` moves to the newest versions.
LOCK = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header $(LOCK_FLAGS)
SAME = $(LOCK) --constraints requirements/dev.txt
lock: $(UV) ## Write requirements/*.txt again from pyproject.toml and requirements/*.in
	$(LOCK) requirements/uv.in -o requirements/uv.txt
	$(LOCK) requirements/build.in -o requirements/build.txt
	$(LOCK) requirements/compose.in -o requirements/compose.txt
	$(LOCK) requirements/peers.in -o requirements/peers.txt
	$(LOCK) pyproject.toml --extra api --extra worker --extra embedded --group dev -o requirements/dev.txt
	$(SAME) pyproject.toml --extra api --extra worker-gpu --extra embedded --group dev -o requirements/dev-gpu.txt
	$(SAME) pyproject.toml --extra api -o requirements/api.txt
	$(SAME) pyproject.toml --extra worker -o requirements/worker.txt
	$(SAME) pyproject.toml --extra worker-gpu -o requirements/worker-gpu.txt
	$(LOCK) --constraints requirements/worker-gpu.txt requirements/nccl.in -o requirements/nccl.txt
	$(LOCK) requirements/nvcc.in -o requirements/nvcc.txt

clean: ## Remove what these targets created here; a running stack and its state stay
	rm -rf .venv .venv-peers .venv-gpu .cuda .uv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
		dashboard/node_modules dashboard/src/api/schema.d.ts api/dashboard api/help screenshots
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

prerequisites:
	@$(or $(PYTHON),false) -c '$(SUITABLE)' 2>/dev/null || { echo 'make: Python 3.11 or 3.12 with its venv module is missing (Debian: apt-get install python3-venv; another one: make PYTHON=...)' >&2; exit 1; }
	@command -v $(CXX) >/dev/null || { echo 'make: g++ is missing (Debian: apt-get install g++)' >&2; exit 1; }

$(UV): requirements/uv.txt | prerequisites
	@$(PYTHON) set_up.py uv
	@touch $@

GPU_PACKAGES := requirements/dev-gpu.txt requirements/nccl.txt requirements/nvcc.txt requirements/gpu.uv.toml

.venv/ready: pyproject.toml requirements/dev.txt requirements/build.txt $(GPU_PACKAGES) $(UV) $(ANOTHER)
	@$(PYTHON) set_up.py environment
	@touch $@

.venv-gpu/ready: requirements/build.txt $(GPU_PACKAGES) $(UV)
	@$(PYTHON) set_up.py gpu .venv-gpu requirements/dev-gpu.txt
	@touch $@

# MLflow, for comparison: it needs other versions than Hora.
.venv-peers/ready: requirements/peers.txt $(UV)
	@$(PYTHON) set_up.py peers
	@touch $@
