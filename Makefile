# Two commands do all the set-up on a fresh machine: `make demo` and `make test`. CONTRIBUTING.md says what is fast.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

ENVIRONMENT := .venv
BIN := $(ENVIRONMENT)/bin
# Stamps of what stands in the environment: a second `make` finds them newer than what they are made from.
MADE := $(ENVIRONMENT)/.made
TESTS_READY := $(ENVIRONMENT)/.tests-ready
TORCH_READY := $(ENVIRONMENT)/.torch-ready
DEMO_READY := $(ENVIRONMENT)/.demo-ready
DIST_READY := $(ENVIRONMENT)/.dist-ready
DOCS_READY := $(ENVIRONMENT)/.docs-ready
PYTEST := $(BIN)/python -m pytest
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Whole scripts; the fragments that are rendered into one are checked by their own tests.
SHELL_FILES = $(shell git grep --untracked -lE '^#! ?/bin/sh' -- .ci scripts '*.sh')

# A person's own packages and settings of Python are no part of the environment. `make test-gpu` may have its torch there.
ifeq ($(filter test-gpu,$(MAKECMDGOALS)),)
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONWARNINGS PYTHONUSERBASE MYPYPATH
endif

.PHONY: help bytecode demo all-garbage less-garbage dist docs release test test-fast test-slurm test-long test-night test-changes test-gpu test-places lint bench bench-lab bench-launch clean packages-demo packages-fast packages-test packages-long

help: ## show this page
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: packages-demo $(DEMO_READY) bytecode ## a private Slurm cluster of four hosts, a job on all of them, and away with it
	@$(BIN)/python scripts/demo.py

test: packages-test $(TESTS_READY) $(TORCH_READY) bytecode less-garbage ## everything that CI runs: six shards and lint beside each other
	@$(BIN)/python scripts/run_tests.py

test-fast: packages-fast $(TESTS_READY) bytecode less-garbage ## lint, types, arrows and the tests that need no cluster and no torch
	@$(BIN)/python scripts/run_tests.py --fast --quiet

test-slurm: packages-test $(TORCH_READY) ## the lab's tests over every Slurm version; says what ran and what was skipped
	@$(PYTEST) -m "(lab or versions) and not long" --slurm system,24.11,26.05

test-long: packages-long $(TORCH_READY) all-garbage ## what takes minutes: before a release, and when its part has changed
	@$(PYTEST) -m long
	@$(PYTEST) -m "not (lab or torch or gpu or versions or long)" --hypothesis-profile=whole # 100 random inputs of each kind
	@$(MAKE) test-slurm

test-night: ## hours: the long tests, each Slurm and each Python, and 200 changes of the source that tests have to notice (SEED: the day)
	@$(MAKE) --keep-going test-long test-changes

test-changes: packages-test $(TESTS_READY)
	@$(BIN)/python scripts/mutate.py --fresh --jobs 2 --count 200 $(if $(SEED),--seed $(SEED)) --report .cache/mutations.txt

test-gpu: ## what one NVIDIA GPU can prove, in one report; PYTHON=… has a torch for CUDA, WHEELS=DIR what it lacks
	@$(or $(PYTHON),python3) scripts/test_gpu.py $(if $(WHEELS),--wheels $(WHEELS))

test-places: ## as root, the tests in six places where a person may clone: before a release; ONLY="closed tmp", TARGET=test-fast
	@python=$$(scripts/find-python) && "$$python" scripts/test_places.py --target $(or $(TARGET),test) $(ONLY)

lint: $(TESTS_READY) ## ruff, mypy, the arrows, Python 3.8 for the ranks and 3.9 for the rest, shellcheck
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/ruff check --quiet
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >/dev/null || $(BIN)/lint-imports
	@$(BIN)/vermin --no-config-file --no-parse-comments --target=3.8- --no-tips --violations --quiet src/muster/__init__.py src/muster/rank src/muster_bench/ranks src/muster_check/ranks
	@$(BIN)/vermin --no-config-file --no-parse-comments --target=3.9- --no-tips --violations --quiet --exclude-regex '/older\.py$$|/ranks?/' src/muster
	@if command -v shellcheck >/dev/null; then shellcheck $(SHELL_FILES); \
	  elif [ "$$CI" = true ]; then echo "lint: shellcheck is missing" >&2; exit 1; fi

bench: bench-lab bench-launch ## every figure that we promise, as ratios to a baseline of the same run

bench-lab: packages-test $(TESTS_READY) bytecode all-garbage ## the figures of the lab and of the command's start
	@$(BIN)/python benchmarks/startup.py
	@if [ -f benchmarks/lab.py ]; then $(BIN)/python benchmarks/lab.py; fi
	@$(BIN)/python benchmarks/life.py
	@$(BIN)/python benchmarks/sites.py
	@$(BIN)/python benchmarks/images.py
	@$(BIN)/python benchmarks/check.py
	@$(BIN)/python benchmarks/stage.py

bench-launch: packages-test $(TORCH_READY) bytecode all-garbage ## what a launch and joining cost, beyond a shell, srun and torchrun; what gloo gives beside a plain loop
	@$(BIN)/python benchmarks/launch.py
	@$(BIN)/python benchmarks/collectives.py
	@$(BIN)/python benchmarks/library.py
	@$(BIN)/python benchmarks/large.py
	@$(BIN)/python benchmarks/hang.py
	@$(BIN)/python benchmarks/roles.py

bytecode: $(MADE) # pip compiles what it installs; a checkout has no bytecode where PYTHONDONTWRITEBYTECODE is set
	@$(BIN)/python -m compileall -q src

# A rank of torch's spends two fifths of its processor time on searches for garbage, half of them as Python ends. What
# is measured, and `make test-long`, searches as Python does.
less-garbage: $(MADE)
	@cp tests/plugins/less_garbage.pth $(ENVIRONMENT)/lib/python*/site-packages

all-garbage: $(MADE)
	@rm -f $(ENVIRONMENT)/lib/python*/site-packages/less_garbage.pth

docs: $(DOCS_READY) ## the documents as pages for a browser, in dist/docs; every link checked, searched without a network
	@$(BIN)/python scripts/make_docs.py

dist: $(DIST_READY) ## a wheel, an sdist, recipes, and muster.pyz, one file for login nodes with an old Python
	@$(BIN)/python scripts/make_dist.py

release: $(MADE) ## check, build and tag this version in a fresh clone; uploading is a person's step; TESTS=test-fast
	@$(BIN)/python scripts/release.py --tests $(or $(TESTS),test)

clean: ## remove the environment and everything that was made here
	rm -rf $(ENVIRONMENT) dist build/lib .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

packages-demo:
	@scripts/set-up demo

packages-fast:
	@scripts/set-up fast

packages-test:
	@scripts/set-up test

packages-long:
	@scripts/set-up long

$(MADE):
	@python=$$(scripts/find-python) && echo "making the environment in $(ENVIRONMENT)" && "$$python" -m venv $(ENVIRONMENT)
	@scripts/with-clock "a newer pip in it" $(PIP) install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(TESTS_READY): pyproject.toml $(MADE)
	@$(PIP) install --quiet --editable . --group test
	@touch $@

# What builds packages and pages, and nothing of the tests: seconds, not minutes.
$(DIST_READY): pyproject.toml $(MADE)
	@$(PIP) install --quiet --group dist
	@touch $@

$(DOCS_READY): pyproject.toml $(MADE)
	@$(PIP) install --quiet --editable . --group docs
	@touch $@

$(TORCH_READY): $(TESTS_READY) scripts/install-torch
	@scripts/install-torch $(ENVIRONMENT) train
	@touch $@

# The demo needs torch and the data, nothing of the tests.
$(DEMO_READY): pyproject.toml $(MADE) scripts/install-torch
	@scripts/with-clock "installing Muster in $(ENVIRONMENT)" $(PIP) install --quiet --editable .
	@scripts/install-torch $(ENVIRONMENT) demo
	@touch $@
