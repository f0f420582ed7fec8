# The README's two commands are `make demo` and `make test`; each makes what it needs.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo demo-digits test coverage fuzz lock audit sbom test-newest test-oldest test-long lint types bench docs page clean

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "moso needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) --editable '.[test]'
	touch $@

# Features of a pretrained network, clean and with every fifth label drawn at random: the road that pays.
demo: $(VENV)/.installed
	$(BIN)/moso run --dataset demo --ratio 0.4 --ratio 0.8 --out runs/demo
	$(BIN)/moso run --dataset demo --label-noise 0.2 --ratio 0.4 --ratio 0.8 --out runs/demo-noise

# Pictures and a network that learns from nothing.
demo-digits: $(VENV)/.installed
	$(BIN)/moso run --dataset digits --out runs/digits
	$(BIN)/moso run --dataset digits --label-noise 0.2 --out runs/digits-noise

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m website.prose

types: $(VENV)/.installed-test
	$(BIN)/mypy

test: lint types
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not long'

# Apart from `test`, because tracing every line makes the suite 1.4 times as long.
coverage: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not long' --cov --cov-report=term

# The supply chain (SECURITY.md), with tools in an environment of their own: the base install with the hash of every file,
# what is known against its versions, and what it consists of.
TOOLS := .venv-tools
LOCK := requirements.lock

$(TOOLS)/.installed:
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check uv pip-audit cyclonedx-bom
	touch $@

lock: $(TOOLS)/.installed
	$(TOOLS)/bin/uv pip compile pyproject.toml --constraint constraints.txt --generate-hashes --no-header \
	    --no-annotate --universal --python-version 3.11 --quiet --output-file $(LOCK)

audit: $(TOOLS)/.installed
	$(TOOLS)/bin/pip-audit --requirement $(LOCK) --disable-pip --require-hashes --strict || { \
	    echo 'audit: a version has a known weakness, or the database of weaknesses was not reached (needs a network)'; \
	    exit 1; }

sbom: $(TOOLS)/.installed
	$(TOOLS)/bin/cyclonedx-py requirements $(LOCK) --output-file sbom.json

# 140 cases of each of 15 kinds of input (flags, settings, labels, Parquet, folders, texts, lists, runs, requests, ...):
# every one is answered or refused with a sentence, none takes two minutes. Another SEED tries others.
SEED ?= 0
fuzz: $(VENV)/.installed-test
	MOSO_FUZZ_CASES=140 $(BIN)/python -m pytest tests/fuzzing --hypothesis-seed=$(SEED) --hypothesis-show-statistics

# The README's commands and the tests on what pip finds today, and on the lowest versions that pyproject.toml admits,
# each in an environment of its own. Where the registry has torch for CUDA alone, an environment takes 5 to 7 GB.
NEWEST := .venv-newest
OLDEST := .venv-oldest
TEST_TOOLS := pytest pytest-cov pytest-xdist hypothesis playwright 'moto[s3]' flask flask-cors captum apricot-select build hatchling

test-newest:
	$(PYTHON) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	$(NEWEST)/bin/python -m pytest tests -n 2 --dist loadfile -m 'not long'

# Not torchrun: the processes of older versions of torch wait for each other for ever when they end (gloo). Not the
# benchmarks and the integrations, whose rivals and frameworks want newer versions.
test-oldest:
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt \
	    --editable '.[vision,text,neighbours,cleanlab,ray,store,watch]' $(TEST_TOOLS)
	$(OLDEST)/bin/python -m pytest tests -n 2 --dist loadfile -m 'not long' \
	    --ignore tests/executors/test_torchrun.py --ignore tests/benchmarks \
	    --ignore tests/integrations

test-long: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m long

$(VENV)/.installed-bench: $(VENV)/.installed
	$(PIP) --editable '.[bench]'
	touch $@

# Three quarters of an hour on two idle cores; the rivals come with their own extra.
bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.loading
	$(BIN)/python -m benchmarks.features
	$(BIN)/python -m benchmarks.zoo
	$(BIN)/python -m benchmarks.scoring
	$(BIN)/python -m benchmarks.page

# The page of `moso report` and `moso explore`, from TypeScript; its result is committed, so nobody else needs Node.
page:
	cd page && npm ci && npm run check && npm run build

# The site, into build/site: opens from the folder, without a network. A warning (a link that leads nowhere, a page in no
# part of the site, a reference that is not found) ends it.
docs: $(VENV)/.installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open build/site/index.html"

clean:
	rm -rf $(VENV) $(NEWEST) $(OLDEST) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
