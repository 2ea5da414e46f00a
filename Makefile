# One virtual environment, made when first needed and again when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: test promises contract coverage compiled demo check bench docs site reproduce reproduce-quick walk minimum release clean

# Two workers share two cores best when each keeps to one thread (linear algebra and scikit-learn would take two and wait
# for each other), and when the one that is done first takes tests over from the other. Compiled files are kept: tests
# start a hundred processes, and each would compile the package again.
ALONE := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
PYTEST := $(ALONE) $(BIN)/python -m pytest -n 2 --dist worksteal
test: $(READY)  ## run the tests and doctests, those of promises and the full contract left out
	$(PYTEST) --ignore=tests/promises

promises: $(READY)  ## what pages promise: theory, coverage, known systems, real recordings, the blocks of pages and their numbers
	$(PYTEST) tests/promises

contract: $(READY)  ## every engine with every kind of filter, setting and pattern of gaps; make test tries pairs of them
	PSIMLEARN_CONTRACT=full $(PYTEST) tests/contract

coverage: $(READY)  ## the branches that make test takes, in one process; work in processes that tests start does not count
	$(BIN)/python -m pip install --quiet "coverage>=7.6"
	$(ALONE) $(BIN)/python -m coverage run --branch --source=src/psimlearn -m pytest -q --ignore=tests/promises
	$(BIN)/python -m coverage report --skip-covered

# numba is loaded by every process that filters, so that tests which start many would wait for it: these few do not.
compiled: $(READY)  ## run the tests of compiled loops, which need numba
	$(BIN)/python -m pip install --quiet --editable ".[fast]"
	$(PYTEST) tests/filter/test_compiling.py tests/contract/test_machine.py \
		tests/filter/test_live.py tests/filter/test_sizes.py tests/filter/test_reduction.py

demo: $(READY)  ## learn a filter from simulated recordings and compare it with the optimal one
	$(BIN)/python -m psimlearn demo --force

check: $(READY)  ## formatting, lint, types, import layers, then the tests
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

site: $(READY)  ## the documentation as web pages, in site/; a warning is an error, and so is a link that leads nowhere
	$(BIN)/python -m pip install --quiet --editable ".[site]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	$(BIN)/python docs/site/links.py site

reproduce: $(READY)  ## the paper's experiments: run what has no result yet, then write docs/reproduction.md
	$(BIN)/psimlearn reproduce

reproduce-quick: $(READY)  ## a look at each of them within two minutes; without recordings, those that need none
	$(BIN)/psimlearn reproduce --quick --fresh

walk: $(READY)  ## what a new user does first with the wheel: the core alone, its types, then data,plot
	sh tests/walk.sh $(BIN)/python

# Rooms of which the oldest versions are asked; libraries that only tests need are as new as these let them be.
ROOMS := recordings filter learners files evaluate estimator cli
OLDEST := $(BIN)/python tests/bounds.py data plot web pandas polars
minimum: $(READY)  ## core tests with exactly the oldest versions that pyproject.toml allows
	rm -rf $(VENV)-minimum
	$(PYTHON) -m venv $(VENV)-minimum
	$(OLDEST) > $(VENV)-minimum/oldest.txt
	$(VENV)-minimum/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-minimum/bin/python -m pip install --quiet --constraint $(VENV)-minimum/oldest.txt ".[core-test]"
	$(OLDEST) --beside $(VENV)-minimum/bin/python
	$(ALONE) $(VENV)-minimum/bin/python -m pytest -n 2 --dist worksteal $(ROOMS:%=tests/%)

release: $(READY)  ## everything that is asked of a release: archives, metadata, a walk, oldest versions
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m pytest -q tests/release
	$(MAKE) --no-print-directory walk minimum

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) $(VENV)-minimum dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
