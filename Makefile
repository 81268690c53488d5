# Everything runs in .venv, which is made on first use and remade when the
# requirements change. Only make and Python >= 3.11 are needed beforehand.

PYTHON ?= python3
PYTEST_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers
DOCTOOLS := $(VENV)/.docs
# make docs: 0 leaves the examples of the gallery unrun
GALLERY ?= 1
# make bench: short or long; DOCS names a page whose tables are replaced
FORM ?= short
DOCS ?=

.PHONY: help demo test bench docs lint format clean

help:
	@echo "make demo    fit two structured models, with a table and figures in out/demo"
	@echo "make test    tests and doctests, without the slow ones (PYTEST_ARGS=...)"
	@echo "make bench   compare with other packages, with a table and a page in out/bench (FORM=long: hours)"
	@echo "make docs    documentation in docs/_build/html; warnings are errors (GALLERY=0: without running the examples)"
	@echo "make lint    ruff, mypy, import contracts"
	@echo "make format  let ruff rewrite the sources"
	@echo "make clean   remove caches and outputs"

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[all,lint,test]"
	@touch $@

demo: $(READY)
	$(BIN)/stochadmm demo --out out/demo

# One BLAS thread per process: the workers already use the cores.
test: export OPENBLAS_NUM_THREADS = 1
test: export MKL_NUM_THREADS = 1
test: export OMP_NUM_THREADS = 1
test: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not slow" $(PYTEST_ARGS)

$(PEERS): $(READY)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[peers]"
	@touch $@

# One thread for everybody.
bench: export OPENBLAS_NUM_THREADS = 1
bench: export MKL_NUM_THREADS = 1
bench: export OMP_NUM_THREADS = 1
bench: export NUMBA_NUM_THREADS = 1
bench: $(PEERS)
	$(BIN)/benchopt run benchmarks/peers --config benchmarks/peers/$(FORM).yml --no-cache --no-plot --output out/bench/$(FORM).parquet
	$(BIN)/python benchmarks/peers/summary.py out/bench/$(FORM).parquet $(if $(DOCS),--docs $(DOCS))

$(DOCTOOLS): $(READY)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[docs]"
	@touch $@

docs: export OPENBLAS_NUM_THREADS = 1
docs: export MPLBACKEND = Agg
docs: $(DOCTOOLS)
	$(BIN)/sphinx-build -W --keep-going -q -D plot_gallery=$(GALLERY) docs docs/_build/html
	@echo "open docs/_build/html/index.html"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist out .coverage htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +
