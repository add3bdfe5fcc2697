# Two commands do all the set-up: `make run` and `make test`. The rest is for those who work on the project.
PYTHON ?= python3.11
BIN := .venv/bin
PACKAGES := freshkeeper simulator maintenance policies

.PHONY: run test test-fast check fuzz bench notebooks lock java chromium clean

run: .venv/ready            ## the main job: policies side by side under one budget
	@$(BIN)/freshkeeper demo

test: .venv/ready java chromium  ## everything that is tested
	$(BIN)/python -m pytest $(ARGS)

test-fast: .venv/ready      ## what is tested in a minute: no Spark, kills, browser or notebooks
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

check: .venv/ready          ## lint, format, types and import rules
	$(BIN)/ruff check $(PACKAGES) tests benchmarks
	$(BIN)/ruff check --extend-select ARG,D1 $(PACKAGES) benchmarks
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: .venv/ready           ## 50,000 hostile inputs of every kind; FUZZ="5000 lines --seed 7" says otherwise
	$(BIN)/python tests/fuzz/fuzz.py $(or $(FUZZ),50000)

bench: .venv/ready          ## measured speed, as ratios
	@for b in $(filter-out benchmarks/stopwatch.py,$(wildcard benchmarks/*.py)); do echo "== $$b"; $(BIN)/python $$b || exit 1; done

notebooks: .venv/ready java  ## run the notebooks and keep their outputs
	@$(BIN)/python scripts/run-notebooks

.venv/ready: pyproject.toml constraints.txt
	@echo "Setting up .venv (about a minute, once) ..."
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: install it, or name another one (>= 3.11): make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

java:                       ## Java 17 for Spark, installed where that is possible
	@command -v java >/dev/null || scripts/install-java || true

chromium:                   ## a browser that looks at the report page, installed where that is possible
	@command -v chromium >/dev/null || scripts/install-chromium || true

lock:                       ## write constraints.txt anew from what pyproject.toml allows
	rm -rf .venv && $(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt
	touch .venv/ready

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
