# make        builds everything into .venv        make run    runs the Poisson benchmark on 2 ranks
# make test   runs every check that CI makes      make clean  removes the build folder
# make wheel  makes wheels/weft-*.whl, for machines without a compiler (docs/cluster.md); takes over an hour
# PYTHON=python3.12 selects the interpreter, VENV=folder the environment, JOBS=4 the number of parallel compilations.
PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= $(shell nproc)
bin    := $(abspath $(VENV))/bin

.PHONY: all run test test-style test-kernels test-programs format wheel clean
all: $(VENV)/installed

include cmake/setup.mk

run: all
	$(launch) 2 $(bin)/weft run poisson

# One more than there are processors, since programs of tests often wait.
test_workers = $(shell expr $(JOBS) + 1)
# Threads that wait for each other sleep, since tests of several ranks and threads share the processors: GNU's OpenMP
# would let them spin for milliseconds. Tests stay on one node, so UCX needs no hooks (python/weft/run/memory_hooks.py).
test_environment = OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive UCX_MEM_MMAP_HOOK_MODE=none

# The first kernels are compiled while the tools are downloaded and installed.
test: all
	@$(MAKE) --no-print-directory --jobs 2 $(VENV)/tools test-kernels
	cmake -S . -B build -DWEFT_BUILD_TESTS=ON -DWEFT_BUILD_LIBRARIES=ON > build/configure.log || { cat build/configure.log; exit 1; }
	@$(MAKE) --no-print-directory --jobs 2 test-style test-programs
	$(test_environment) timeout 1800 ctest --test-dir build --output-on-failure --no-tests=error --parallel $(JOBS) --timeout 600
	@cmake/setup.sh module
	$(test_environment) timeout 2400 $(bin)/python -m pytest --timeout 600 --numprocesses $(test_workers) --dist loadfile --no-loadscope-reorder

# These two side by side: the first occupies one processor, and that not all the time.
test-style:
	$(bin)/clang-format --dry-run --Werror $$(git ls-files '*.cpp' '*.hpp')
	$(bin)/ruff check . && $(bin)/ruff format --check .
	$(bin)/mypy

test-kernels:
	cmake -S . -B build -DWEFT_BUILD_TESTS=kernels > build/configure.log || { cat build/configure.log; exit 1; }
	cmake --build build --parallel $(JOBS) --target test_kernels

test-programs:
	cmake --build build --parallel $(JOBS)

format: $(VENV)/tools
	$(bin)/clang-format -i $$(git ls-files '*.cpp' '*.hpp')
	$(bin)/ruff check --fix . && $(bin)/ruff format .

# Lists such as "1;3;7" and double make a smaller wheel in less time.
WHEEL_ORDERS ?= all
WHEEL_TYPES  ?= all

wheel:
	WHEEL_ORDERS="$(WHEEL_ORDERS)" WHEEL_TYPES="$(WHEEL_TYPES)" cmake/setup.sh wheel

clean:
	rm -rf build $(VENV)/installed
