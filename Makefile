# make run    train CTRL on bigfish and judge it on unseen levels (about 5 minutes)
# make test   lint, types and tests
# Both make .venv with the locked versions first; nothing else is needed but Python 3.11 or 3.12.

# The first of these that is there, works, and is a version the game engine has wheels for.
PYTHON ?= $(shell for p in python3.11 python3.12 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] not in [(3, 11), (3, 12)])' 2>/dev/null \
	&& echo $$p && break; done)
BIN := .venv/bin
READY := .venv/ready

.PHONY: run test setup
setup: $(READY)

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "crosstraj needs Python 3.11 or 3.12: install one, or give it: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# The same command again says that it is done, and where its files are.
FIRST := $(BIN)/crosstraj train --method ctrl --env bigfish --frames 65536 --evaluation.episodes 64
FIRST_RUN = $$($(FIRST) 2>/dev/null | sed -n 's|^  \(.*\)/config\.json$$|\1|p')

run: $(READY)
	$(FIRST)
	@page=$$($(BIN)/crosstraj report "$(FIRST_RUN)") && echo "open the report in a browser: $$page"

test: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist worksteal

.PHONY: bench bench-full outside-check
# Speed against the machine's limit and against peers: at most 15 minutes; growth: at most 60.
bench: $(READY)
	$(BIN)/python -m benchmarks.bench

bench-full: $(READY)
	$(BIN)/python -m benchmarks.full

# The shipped PPO run beside OpenAI's curve.
outside-check: $(READY)
	$(BIN)/python -m crosstraj.report.outside results/ppo-starpilot

.PHONY: results
# Every table and figure in results/, from the runs that are kept there.
results: $(READY) outside-check
	for run in results/*/metrics.jsonl; do \
		$(BIN)/crosstraj curves $$(dirname $$run) --out $$(dirname $$run)/curves.png || exit; done
	$(BIN)/crosstraj report results --out results/report

.PHONY: torture
# Every fault of docs/reliability.md tried on real runs: about half an hour.
torture: $(READY)
	$(BIN)/python -m tests.torture
