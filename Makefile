# make demo: from nothing to a picture of a real match.   make test: from nothing to a tested checkout.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= demo

.PHONY: demo test test-lowest check wheel docs train-smoke clean

demo: $(VENV)/.installed
	@mkdir -p $(OUT)
	@$(BIN)/dhpf match --sample cheetahs --out $(OUT)/cheetahs.png --json $(OUT)/cheetahs.json
	@echo "the picture is here: $(abspath $(OUT)/cheetahs.png)"
	@echo "to go on:  . $(VENV)/bin/activate   then:  dhpf match YOUR_A.jpg YOUR_B.jpg"

test: $(VENV)/.installed-for-tests
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

# A part of the tests with the lowest versions that pyproject.toml allows, in .venv-lowest.
test-lowest:
	.ci/lowest

check: $(VENV)/.installed-for-checks
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Gates and transformations learn on generated pairs: the loss falls, the PCK rises.
train-smoke: $(VENV)/.installed-for-tests
	$(BIN)/python -m tests.train.smoke

# The documentation as a website, in site/.
docs: $(VENV)/.installed-for-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The wheel must work in an empty environment outside the repository.
wheel: $(VENV)/.installed-for-tests
	$(BIN)/python -m tests.wheel

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-for-tests: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@

$(VENV)/.installed-for-checks: $(VENV)/.installed-for-tests
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,check]'
	@touch $@

$(VENV)/.installed-for-docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-lowest $(OUT) build dist site
