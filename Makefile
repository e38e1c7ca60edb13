# Two commands do everything on a machine with Python 3.11 or newer and make: `make study` and `make test`.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: study test test-long tutorials lint check docs bench faults mutants clean

study: .venv/ready
	$(BIN)/headway study addition

# Whole files go to one process each, as many as there are cores and at most four; every process uses one thread. The
# longest files come first by name, not those with most tests: no process waits for another at the end.
TESTS := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: .venv/ready
	$(TESTS)

test-long: .venv/ready
	$(TESTS) -m "long or not long"

# The tutorials' code, and what their prose says of its results: about a minute on one core.
tutorials: .venv/ready
	$(BIN)/python -m pytest -m long tests/test_site.py

lint: .venv/ready
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

check: lint test

# The documentation site, with a warning as an error, and the explorer of the models that come with headway. Every page
# is looked at in Chromium, if there is one: what violates WCAG A or AA is an error.
docs: .venv/ready
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	$(BIN)/headway explore --out build/docs/models.html --quiet
	$(BIN)/python -m tests.site_accessibility build/docs
	@echo "the documentation is in build/docs/index.html"

bench: .venv/ready
	$(BIN)/python -m benchmarks

# Plants every bug of tests/mutants/planted, one at a time in a copy of the sources, and says which the tests notice. A
# run that was stopped goes on where it was; survivors are asked again with the tests of neighbouring rooms.
mutants: .venv/ready
	-$(BIN)/python -m tests.mutants
	$(BIN)/python -m tests.mutants --wider

# Hours: every attack of docs/faults.md in its long version. Mounting a small disk needs root.
faults: .venv/ready
	$(BIN)/python -m faults

clean:
	rm -rf .venv

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
