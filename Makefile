# The README's two commands are `make demo` and `make test`; each makes what it needs.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-long lint types bench docs page clean

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "moso needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) --editable '.[test]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/moso run --out runs/demo
	$(BIN)/moso run --label-noise 0.2 --out runs/demo-noise

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.installed-test
	$(BIN)/mypy

test: lint types
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not long' --cov --cov-report=term

test-long: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m long

$(VENV)/.installed-bench: $(VENV)/.installed
	$(PIP) --editable '.[bench]'
	touch $@

# Three quarters of an hour on two idle cores; the rivals come with their own extra.
bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.loading
	$(BIN)/python -m benchmarks.zoo
	$(BIN)/python -m benchmarks.scoring
	$(BIN)/python -m benchmarks.page

# The page of `moso report` and `moso explore`, from TypeScript; its result is committed, so nobody else needs Node.
page:
	cd page && npm ci && npm run check && npm run build

docs: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/test_docs.py
	$(BIN)/pdoc --no-show-source --output-directory docs/_build moso moso.gradients moso.evidence moso.scores moso.selection

clean:
	rm -rf $(VENV) build docs/_build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
