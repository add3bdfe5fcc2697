# Two commands do all the set-up: `make run` and `make test`. The rest is for those who work on the project.
# The first Python that works: the versions in constraints.txt are chosen on 3.11, their check sums hold for all of these.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && echo "$$p" && break; done)
PROCESSES ?= 3  # on two cores: tests that wait by the clock leave none idle
BIN := .venv/bin
PACKAGES := freshkeeper simulator maintenance policies
PROGRAMS := scripts/check-prose scripts/cohesion scripts/compare-figures scripts/compare-speed scripts/figures.py scripts/speed.py scripts/run-notebooks scripts/write-lock scripts/write-sbom
unexport PYTHONDONTWRITEBYTECODE  # what every process of a test run imports is compiled once
TOGETHER = -n $(PROCESSES) --no-loadscope-reorder

.PHONY: run test test-fast test-long fuzz check bench notebooks lock sbom java chromium databases peers clean

run: .venv/runnable         ## the main job: policies side by side under one budget; then, in a terminal, live on a page until Ctrl-C
	@$(BIN)/freshkeeper demo --serve

test: .venv/spark.jsa chromium databases peers  ## everything that is tested
	$(BIN)/python -m pytest $(TOGETHER) $(ARGS)

test-fast: .venv/ready      ## what is tested in a minute and a half: no Spark, kills, commands in processes of their own, browser, notebooks or pages
	$(BIN)/python -m pytest $(TOGETHER) -m "not slow" $(ARGS)

check: .venv/ready          ## lint, format, types (tests, benchmarks and scripts too), import rules, names and prose
	$(BIN)/ruff check $(PACKAGES) tests benchmarks notebooks docs $(PROGRAMS)
	$(BIN)/ruff check --extend-select ARG,D1 --ignore ARG002,D102,D103,D105,D107 $(PACKAGES) benchmarks
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=benchmarks:scripts $(BIN)/mypy --scripts-are-modules benchmarks docs/*.py notebooks/*.py $(PROGRAMS)
	$(BIN)/lint-imports
	$(BIN)/python scripts/check-prose --quiet

test-long: test fuzz         ## what takes longer than `make test` may: `make fuzz`, ten minutes with 20 kills of a service, 200 damaged states, 50 kills of a run's outputs, soaks of a service, an enricher of 10 million rows
	CHAOS_KILLS=20 CHAOS_SECONDS=600 FRESHKEEPER_FLIPS=200 FRESHKEEPER_KILLS=50 $(BIN)/python -m pytest -s --timeout 3600 \
		tests/maintenance/serve/test_kills_of_a_service.py tests/maintenance/state/test_damage.py tests/maintenance/state/test_outputs.py
	$(BIN)/python benchmarks/serve.py --long
	$(BIN)/python benchmarks/enricher.py --only memory --rows 10000000

fuzz: .venv/ready           ## 50,000 hostile inputs, 100,000 random queries, 10,000 on both evaluators, 10,000 requests to a service; FUZZ="5000 lines --seed 7", FUZZ_SEED=word
	$(BIN)/python tests/fuzz/fuzz.py $(or $(FUZZ),50000)
	FUZZ_QUERIES=100000 $(BIN)/python -m pytest -s tests/fuzz/queries tests/fuzz/test_conjunctions.py
	FUZZ_REQUESTS=10000 $(BIN)/python -m pytest -s tests/fuzz/test_service_requests.py --timeout 3600

bench: .venv/ready          ## measured speed, as ratios; of two checkouts: scripts/compare-speed OLD NEW, and of their figures scripts/compare-figures OLD NEW
	@for b in $(filter-out benchmarks/stopwatch.py benchmarks/answers_in_sql.py,$(wildcard benchmarks/*.py)); do echo "== $$b"; $(BIN)/python $$b || exit 1; done

notebooks: .venv/ready java  ## run the notebooks and keep their outputs
	@$(BIN)/python scripts/run-notebooks

.venv/runnable: pyproject.toml constraints-run.txt  # what `make run` needs: no Spark, no tools
	@test -n "$(PYTHON)" || { echo "there is no Python 3.11 to 3.14: install one, or name it: make PYTHON=/path/to/python3.12"; exit 1; }
	@echo "Setting up .venv with $(PYTHON) (half a minute, once) ..."
	@$(PYTHON) -m venv .venv
	@$(call install,constraints-run.txt)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/ready: .venv/runnable constraints.txt  # what tests and checks need as well
	@echo "Adding what tests need (a minute, once) ..."
	@$(call install,constraints.txt)
	@touch $@

install = $(BIN)/python -m pip install --quiet --require-hashes --no-deps --requirement $(1) || \
	{ echo "$(1) has no files for $(PYTHON) on this system: name another Python (make clean; make PYTHON=python3.11), or make lock"; exit 1; }

.venv/spark.jsa: .venv/ready | java  # Spark's classes as Java maps them: tests that start Spark do so in half the time
	@command -v java >/dev/null && echo "Archiving Spark's classes (half a minute, once) ..." && $(BIN)/python tests/support/quick_java.py || true

java:                       ## Java 17 for Spark, installed where that is possible
	@command -v java >/dev/null || scripts/install-java || true

chromium:                   ## a browser that looks at pages, installed where that is possible
	@command -v chromium >/dev/null || scripts/install-chromium || true

databases:                  ## PostgreSQL, Redis and Prometheus' promtool for the tests, installed where that is possible
	@command -v redis-server >/dev/null && command -v promtool >/dev/null && ls /usr/lib/postgresql >/dev/null 2>&1 || scripts/install-databases || true

peers:                      ## a server and a client of fragments, and axe-core, for the tests, from npm, installed where that is possible
	@test -d .peers/ldf-server -a -d .peers/comunica -a -d .peers/axe || scripts/install-peers || true

lock:                       ## write constraints.txt and constraints-run.txt anew from what pyproject.toml allows, with check sums
	rm -rf .venv && $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python scripts/write-lock
	touch .venv/runnable .venv/ready

sbom: .venv/ready           ## what is installed, as sbom.json (CycloneDX)
	@$(BIN)/python scripts/write-sbom > sbom.json

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
