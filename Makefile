# `make demo` and `make test` do all their own set-up in .venv; they need Python 3.11+ only.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Most of a crash test is waiting for a heartbeat to run out, so more workers than cores pay.
TEST_WORKERS ?= 4

.PHONY: demo test lint format bench histories clean

demo: $(STAMP)
	@$(BIN)/zidane demo

test: $(STAMP) lint
	$(BIN)/pytest -n $(TEST_WORKERS) --dist loadgroup

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/basedpyright

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m benchmarks.turns --turns 200 --tool-bytes 1024
	$(BIN)/python -m benchmarks.turns --turns 200 --tool-bytes 1024 --read-only-tool
	$(BIN)/python -m benchmarks.long_conversation
	$(BIN)/python -m benchmarks.concurrency --runs 200 --turns 10
	$(BIN)/python -m benchmarks.crash

# Record the replay corpus anew; only for a new scenario, never to make a failing replay pass.
histories: $(STAMP)
	$(BIN)/python -m tests.histories.record

clean:
	rm -rf $(VENV) .zidane .pytest_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Zidane needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV) (once, about a minute)..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)
