# The set-up: a virtual environment, an MPI if the site has none, and a Debian package only where a step needs it.
# Every stage leaves a file in $(VENV), so that it runs only once.
export PATH := $(bin):$(PATH)
export PYTHON VENV
# Open MPI refuses to run as root, and more ranks than cores, unless these are set. MPICH ignores them.
export OMPI_ALLOW_RUN_AS_ROOT = 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = 1
export OMPI_MCA_rmaps_base_oversubscribe = 1
export PRTE_MCA_rmaps_default_mapping_policy = :oversubscribe
export CMAKE_BUILD_PARALLEL_LEVEL = $(JOBS)
launch = OMP_NUM_THREADS=1 mpiexec -n

$(VENV)/environment: cmake/setup.sh
	@cmake/setup.sh environment
	@touch $@

sources := $(shell find cpp python cmake CMakeLists.txt pyproject.toml -type f 2>/dev/null | grep -v __pycache__)
$(VENV)/installed: $(VENV)/environment $(sources)
	@cmake/setup.sh install
	@touch $@

$(VENV)/tools: $(VENV)/environment pyproject.toml cmake/setup.sh
	@cmake/setup.sh tools
	@touch $@
