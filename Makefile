# `make help` lists the targets. All of them set up .venv first, from Python 3.11 or newer alone.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test engine-test check bench bench-peers setup local lock clean

# Settings of the caller's own Python must not leak into ours.
unexport PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

MEMBERS := ./hookspecs ./host ./extensions/compactor ./extensions/diagnostics ./extensions/mcp
PY := .venv/bin/python
STAMP := .venv/.unipi-installed
PIP := PYTHONUTF8=1 $(PY) -m pip -qq --no-input
PYTEST_ARGS ?=
export UNIPI_FULL := $(FULL)
BENCH_ARGS ?=
DEMO_ARGS ?=

# What is installed depends on these, and on where the checkout lies (the installs are editable).
KEY = { pwd; cat requirements-dev.txt $(MEMBERS:%=%/pyproject.toml); } | cksum
LOCAL_KEY = { pwd; cat requirements-local.txt; } | cksum

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s  %s\n", $$1, $$2 }' Makefile

demo: local ## watch the prefix hold, break and be defended; offline
	@$(PY) -m unipi demo $(DEMO_ARGS)

test: setup ## run every test (FULL=1: with the long ones at full length)
	@$(PY) -m pytest -n 2 $(PYTEST_ARGS)

engine-test: local ## the tests on the real local engine alone
	@$(PY) -m pytest -n 2 -m engine $(PYTEST_ARGS)

check: setup ## ruff, mypy, import rules, and the documentation's own tests
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -c 'from importlinter.cli import lint_imports_command as run; run()'
	@$(PY) docs/make_hooks.py --check
	@$(PY) -m pytest -n 2 tests/test_docs_commands.py tests/test_docs_hooks.py tests/test_repo_rules.py

bench: setup ## measure every claim that has a number
	@$(PY) -m benchmarks $(BENCH_ARGS)

bench-peers: setup ## measure our claims about others beside them (installs them; not in CI)
	@$(PY) -m benchmarks.peers $(BENCH_ARGS)

setup: ## make .venv and install the workspace into it
	@if [ -x $(PY) ] && $(PY) -c '' 2>/dev/null && [ "$$($(KEY))" = "$$(cat $(STAMP) 2>/dev/null)" ]; then exit 0; fi; \
	set -e; \
	if ! { [ -x $(PY) ] && $(PY) -m pip --version >/dev/null 2>&1; }; then \
	  found=; \
	  for python in $(PYTHON) python3.11 python3 python3.12 python3.13 python3.14 python; do \
	    if "$$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	    then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "make: no Python 3.11 or newer with venv and ensurepip was found;" \
	      "install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; \
	  fi; \
	  echo "Making .venv with $$found ..."; "$$found" -m venv --clear .venv; \
	fi; \
	echo "Installing the workspace into .venv ..."; \
	rm -f $(STAMP); \
	$(PIP) install --require-hashes -r requirements-dev.txt; \
	$(PIP) install --no-deps --no-build-isolation $(MEMBERS:%=-e %); \
	$(KEY) > $(STAMP)

local: setup ## add the local engine where it has a wheel (the demo uses it)
	@if [ "$$($(LOCAL_KEY))" = "$$(cat $(STAMP)-local 2>/dev/null)" ]; then exit 0; fi; \
	echo "Installing the local engine ..."; \
	if $(PIP) install --only-binary :all: --require-hashes -r requirements-local.txt; \
	then $(LOCAL_KEY) > $(STAMP)-local; \
	else echo "The local engine cannot be installed here: the simulator takes its place."; fi

lock: setup ## write the pinned requirements again (needs uv)
	@sh -c 'uv="$$(command -v uv || echo .venv/bin/uv)"; \
	export UV_NO_PROGRESS=1; \
	flags="--universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-header --no-annotate --quiet"; \
	ours="--no-emit-package unipi --no-emit-package unipi-hookspecs --no-emit-package unipi-compactor \
	  --no-emit-package unipi-diagnostics --no-emit-package unipi-mcp"; \
	"$$uv" pip compile $$flags $$ours $(MEMBERS:%=%/pyproject.toml) --group pyproject.toml:dev \
	  -o requirements-dev.txt && \
	"$$uv" pip compile $$flags $$ours host/pyproject.toml --extra local -c requirements-dev.txt \
	  -o requirements-local.txt'

clean: ## remove .venv and what the tools left behind
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
