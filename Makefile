# `make` alone lists the targets. A fresh machine needs Python >= 3.11 with venv, and make; `check` needs Node.

PYTHON ?= python3
UV_VERSION := 0.13.8
UV ?= $(or $(shell command -v uv),.tools/bin/uv)
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); [ $$n -gt 8 ] && echo 8 || echo $$n)
# Tests wait a fifth of their time, for processes and for timers: with one worker more no processor is idle.
WORKERS ?= $(shell expr $(JOBS) + 1)
GOAL := Which three regions sold most, and what changed from Q2 to Q3? Write a report.

# Without byte code the first import takes seconds. Python comes from the machine, never from a download.
export UV_COMPILE_BYTECODE := 1
export UV_PYTHON_DOWNLOADS := never
unexport PYTHONDONTWRITEBYTECODE
# Pyright is bundled in its wheel; without this it asks the network for a newer one on every call.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
unexport VIRTUAL_ENV
unexport UV_PROJECT_ENVIRONMENT

NEWEST := .tools/newest
WEB := src/artelier/server/static
WEB_INPUTS := $(shell find web -name node_modules -prune -o -type f ! -name schema.d.ts -print)
NODE := $(shell node -e 'const [a, b] = process.versions.node.split(".").map(Number); if (a > 20 || (a === 20 && b >= 19)) console.log("yes")' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup up check check-python check-web format test test-web fast newest bench docs clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.synced $(if $(NODE),$(WEB)/index.html) ## Make .venv and the web application (does nothing when they are up to date)
	@$(if $(NODE),,echo "make setup: without Node >= 20.19 on the PATH there is no Mission Control in the browser" >&2)

up: setup ## Open Mission Control on example data, with a goal at work (offline, unless ARTELIER_MODEL says otherwise)
	@.venv/bin/artelier up --open --workspace examples/data/sales --goal "$(GOAL)" --pace 3

check: setup ## Verify format, lint and types; changes nothing
	@$(node_is_there)
	@$(MAKE) --no-print-directory --jobs=2 check-python check-web

# Two threads of pyright read most files twice: on two cores, the other one is better at work for the page.
check-python:
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/pyright $(if $(filter-out 1 2,$(JOBS)),--threads $(JOBS))

check-web:
	@npm --prefix web run --silent check

test-web: check-web
	@npm --prefix web test --silent

format: setup ## Fix format, and what lint can fix
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .
	@npm --prefix web run --silent format

test: setup ## Check, then run all tests, those about the repository included
	@$(node_is_there)
	@$(MAKE) --no-print-directory --jobs=2 check-python test-web
	@.venv/bin/pytest -n $(WORKERS) --dist worksteal --hypothesis-profile=full --ignore=tests/browser
	@.venv/bin/pytest -n $(JOBS) --dist loadfile tests/browser # in processes of its own: the browser's driver keeps an event loop there

fast: setup ## Run the fast tests alone
	@.venv/bin/pytest -n $(WORKERS) --dist worksteal -m "not slow" --ignore=tests/browser

newest: setup ## Run the sandbox's tests on the newest releases of what it stands on, whatever pyproject.toml allows
	@UV_PROJECT_ENVIRONMENT=$(NEWEST) $(UV) sync --quiet --locked
	@$(UV) pip install --quiet --python $(NEWEST) --upgrade pydantic-monty duckdb cryptography
	@$(UV) pip list --python $(NEWEST) | grep -E '^(pydantic-monty|duckdb|cryptography) '
	@$(NEWEST)/bin/pytest -q -n $(JOBS) tests/sandbox tests/confinement tests/tools/test_tables.py tests/pii/test_vault.py tests/log/test_sealing.py

bench: setup ## Print the table of benchmarks
	@.venv/bin/artelier bench

docs: setup ## Write the generated pages of docs/, and build the site in .tools/site
	@.venv/bin/python -m tests.pages
	@.venv/bin/zensical build --clean --strict

clean: ## Remove what setup and the tools made; runs in .artelier stay
	rm -rf .venv .tools .pytest_cache .ruff_cache .hypothesis dist $(WEB) web/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.synced: pyproject.toml lab/pyproject.toml uv.lock $(filter .tools/bin/uv,$(UV))
	@.venv/bin/python -c "" 2>/dev/null || { $(python_is_new_enough) && $(UV) venv --quiet --clear --python "$(PYTHON)" .venv; }
	@$(UV) sync --locked
	@touch $@

web/node_modules/.installed: web/package.json web/package-lock.json
	@npm --prefix web ci --no-audit --no-fund --loglevel=error
	@touch $@

$(WEB)/index.html: web/node_modules/.installed $(WEB_INPUTS)
	@npm --prefix web run --silent build

.tools/bin/uv:
	@$(python_is_new_enough)
	@$(PYTHON) -m venv .tools
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# Syntax of Python 2 too, so that even the oldest interpreter answers with the sentence.
define python_is_new_enough
$(PYTHON) -c 'import sys; sys.exit("make setup: expected Python >= 3.11, got %d.%d from $(PYTHON). Say which: make PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
endef

define node_is_there
test -n "$(NODE)" || { echo "make check: expected Node >= 20.19 on the PATH; install nodejs" >&2; exit 1; }
endef
