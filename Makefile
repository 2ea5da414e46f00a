# One virtual environment, made when first needed and again when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: test demo check bench docs site reproduce reproduce-quick walk clean

# Two workers share two cores best when each keeps to one thread (linear algebra and scikit-learn would take two and wait
# for each other), and when the one that is done first takes tests over from the other.
test: $(READY)  ## run the tests, doctests and documentation included
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

demo: $(READY)  ## learn a filter from simulated recordings and compare it with the optimal one
	$(BIN)/python -m psimlearn demo --force

check: $(READY)  ## everything that CI runs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory test

bench: $(READY)  ## speed and memory of training, and of filtering against other libraries, interleaved in one run each
	$(BIN)/python -m pip install --quiet ".[bench]"
	$(BIN)/python benchmarks/online.py
	$(BIN)/python benchmarks/long.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/grad.py
	$(BIN)/python benchmarks/stream.py

docs: $(READY)  ## the pages and pictures that scripts make
	$(BIN)/python docs/make_api.py
	$(BIN)/python docs/figures.py

site: $(READY)  ## the documentation as web pages, in site/; a warning is an error
	$(BIN)/python -m pip install --quiet --editable ".[site]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

reproduce: $(READY)  ## the paper's experiments: run what has no result yet, then write docs/reproduction.md
	$(BIN)/psimlearn reproduce

reproduce-quick: $(READY)  ## a look at each of them within two minutes; without recordings, those that need none
	$(BIN)/psimlearn reproduce --quick --fresh

walk: $(READY)  ## what a new user does first, in an environment of its own that has only the core and data,plot
	sh tests/walk.sh $(BIN)/python

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
