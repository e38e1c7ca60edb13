# Two commands do everything on a machine with Python 3.11 or newer and make: `make study` and `make test`.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: study test test-long lint check bench clean

study: .venv/ready
	$(BIN)/headway study addition

# Whole files go to one process each, as many as there are cores and at most four; every process uses one thread. The
# longest files come first by name, not those with most tests: no process waits for another at the end.
TESTS := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: .venv/ready
	$(TESTS)

test-long: .venv/ready
	$(TESTS) -m "long or not long"

lint: .venv/ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

check: lint test

bench: .venv/ready
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
