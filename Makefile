# make run    train CTRL on coinrun, judge it on unseen levels, and end with one page to look at
#             (a few minutes, after the set-up)
# make test   lint, types and tests; with another Python: make test PYTHON=python3.13
# make test-all   the slow tests and the browser's as well, on every Python that is here
# make docs   the site, in build/site; without a network, and a warning is an error
# make test-browser   the pages of first runs, `explore` and `report` in chromium; fails without it
# All make .venv with the locked versions first; nothing else is needed but Python 3.11 to 3.13.

# The first of these that is there, works, and is a version the game engine has wheels for.
KNOWN := python3.11 python3.12 python3.13
FOUND := $(shell for p in $(KNOWN) python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& echo $$p && break; done)
PYTHON ?= $(FOUND)
version = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VERSION := $(call version,$(PYTHON))
LOCK := requirements-$(VERSION).lock
ifeq ($(wildcard $(LOCK)),)
$(error crosstraj needs Python 3.11, 3.12 or 3.13: install one, or give it: make PYTHON=/path/to/python3.11)
endif
# Another Python than the one that is found has a place of its own, and leaves .venv alone.
VENV := .venv$(addprefix -,$(filter-out $(call version,$(FOUND)),$(VERSION)))
BIN := $(VENV)/bin
READY := $(VENV)/ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-all test-browser setup lock
setup: $(READY)

# Without what the engine's packages ask for: the old gym and more, which nothing imports.
$(READY): $(LOCK) requirements-engine.lock pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) --requirement $(LOCK)
	$(PIP) --no-deps --requirement requirements-engine.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# What pyproject.toml asks for, as exact versions; with KEEP=1 nothing moves that is locked already.
lock:
	$(PYTHON) -m tools.lock $(if $(KEEP),$(LOCK)) > $(LOCK).new
	mv $(LOCK).new $(LOCK)

run: $(READY)
	$(BIN)/crosstraj first

# mypy keeps one core busy for a minute or more, so pytest runs beside it.
test: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(MAKE) --no-print-directory --jobs 2 types pytest

.PHONY: types pytest
types: $(READY)
	$(BIN)/mypy

pytest: $(READY)
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist worksteal

# Those of KNOWN that work, or the one that was found or given under another name.
HERE := $(foreach p,$(KNOWN),$(if $(call version,$p),$p))
test-all:
	@echo "tests on: $(or $(HERE),$(PYTHON)); not here: $(or $(filter-out $(HERE),$(KNOWN)),none)"
	for python in $(or $(HERE),$(PYTHON)); do \
		$(MAKE) test test-slow test-browser PYTHON=$$python || exit; done

.PHONY: test-slow
test-slow: $(READY)
	$(BIN)/pytest -m slow

test-browser: $(READY)
	NEED_BROWSER=1 $(BIN)/pytest -m browser

.PHONY: bench bench-full outside-check
# Speed against the machine's limit and against peers: 25 minutes; growth: at most 60.
bench: $(READY)
	$(BIN)/python -m benchmarks.bench

bench-full: $(READY)
	$(BIN)/python -m benchmarks.full

# The shipped runs beside published curves: PPO's by OpenAI, DAAC's by IDAAC's release.
outside-check: $(READY)
	$(BIN)/python -m tools.outside_check results/ppo-starpilot results/outside/*

.PHONY: learning results
# The pages that have tables and numbers from results/.
learning: $(READY)
	for page in learning searches environments recipe; do \
		$(BIN)/python -m tools.fill_docs docs/$$page.in.md docs/$$page.md || exit; done

# The curves and the report of the runs kept in results/, and the page on learning.
results: $(READY) outside-check learning
	for run in results/*/metrics.jsonl; do \
		$(BIN)/crosstraj curves $$(dirname $$run) --out $$(dirname $$run)/curves.png || exit; done
	$(BIN)/crosstraj report $$(dirname results/*/metrics.jsonl) --out results/report

.PHONY: docs
# The site: pages of docs/, and lists that are read off the code and results/ (tools/site).
docs: $(READY)
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -d build/doctrees docs build/site
	@echo "open the site in a browser: build/site/index.html"

.PHONY: torture
# Every fault of docs/reliability.md tried on real runs: 37 minutes on two cores.
torture: $(READY)
	$(BIN)/python -m tests.torture

.PHONY: torture-cluster
# Nodes and drivers killed under real runs on a simulated cluster: 16 minutes, never more than 30.
torture-cluster: $(READY)
	$(BIN)/python -m tests.torture_cluster
