#!/usr/bin/env bash
# The stages of the set-up, called by make: environment, install, module, tools, wheel. Long steps print what they do.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath -m "$VENV")/bin
say() { echo "weft: $*"; }

# apt PACKAGES... : installs Debian packages; fails without apt or without root.
apt() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  say "installing Debian packages: $*"
  { apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"; } >/dev/null 2>&1
}

pip_install() { "$bin/pip" install --quiet --disable-pip-version-check "$@"; }

# need WHAT PACKAGE CHECK... : if CHECK fails, installs PACKAGE and checks again; if it still fails, says what to do.
need() {
  local what=$1 package=$2
  shift 2
  "$@" >/dev/null 2>&1 && return
  apt "$package" && "$@" >/dev/null 2>&1 && return
  say "$what is missing: install it (Debian: apt install $package) and run make again" >&2
  exit 1
}

python_headers() { "$PYTHON" -c 'import os, sysconfig; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")'; }
python_version() { "$PYTHON" -c 'import sys; assert sys.version_info >= (3, 11)'; }
has_header() { echo "#include <$1>" | g++ -E -x c++ - >/dev/null; }

# Succeeds if there is an MPI compiler whose programs run under its own mpiexec.
mpi_works() {
  local folder status=0
  command -v mpicxx >/dev/null && command -v mpiexec >/dev/null || return 1
  folder=$(mktemp -d)
  cat >"$folder/try.cpp" <<'EOF'
#include <mpi.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Finalize();
  return size == 2 ? 0 : 1;
}
EOF
  { mpicxx "$folder/try.cpp" -o "$folder/try" && timeout 60 mpiexec -n 2 "$folder/try"; } >/dev/null 2>&1 || status=1
  rm -rf "$folder"
  return $status
}

environment() {
  python_version || { say "$PYTHON is missing or too old: weft needs Python 3.11 or newer; select one with make PYTHON=..." >&2; exit 1; }
  need "a C++ compiler" g++ command -v g++
  need "Python's venv module" python3-venv "$PYTHON" -c 'import venv, ensurepip'
  need "Python's headers" python3-dev python_headers
  [ -x "$bin/python" ] || "$PYTHON" -m venv "$VENV"
  local mpich=
  if [ -n "${MPICXX:-}" ]; then
    # Programs built with a cluster's MPI often run only on its compute nodes.
    command -v "$MPICXX" >/dev/null || { say "MPICXX=$MPICXX is not found" >&2; exit 1; }
    say "using the MPI of $(command -v "$MPICXX") (MPICXX)"
  elif mpi_works; then
    say "using the MPI of $(command -v mpicxx)"
  else
    if command -v mpicxx >/dev/null; then say "programs compiled with $(command -v mpicxx) do not run"; fi
    mpich='mpich==5.0.2'
  fi
  say "installing the build tools${mpich:+ and MPICH} into $VENV"
  pip_install 'cmake>=3.25,<5' ninja 'scikit-build-core>=1.1' 'nanobind>=3.1' $mpich
  if [ -n "$mpich" ]; then
    hash -r
    mpi_works || { say "the MPICH package does not work here: install an MPI, put its mpicxx and mpiexec on PATH, and run make again" >&2; exit 1; }
  fi
}

install() {
  local mpi=${MPICXX:-mpicxx} kept dependencies
  say "building weft and installing it with its dependencies into $VENV (takes some minutes the first time)"
  dependencies &  # downloaded while the compiler works
  dependencies=$!
  # A build that has more kernels, such as that of `make test`, keeps them.
  kept=$(sed -nE 's/^(WEFT_ORDERS|WEFT_TYPES):STRING=(.*)/--config-settings=cmake.define.\1=\2/p' build/CMakeCache.txt 2>/dev/null || true)
  # Without this hint CMake prefers the system's MPI to the first one on PATH.
  CMAKE_ARGS="${CMAKE_ARGS:-} -DMPI_CXX_COMPILER=$(command -v "$mpi") -DMPIEXEC_EXECUTABLE=$(command -v mpiexec || true)" \
    pip_install --no-build-isolation --no-deps --force-reinstall \
    ${kept:---config-settings=cmake.define.WEFT_ORDERS=7 --config-settings=cmake.define.WEFT_TYPES=double} .
  wait $dependencies
  # On a cluster, programs of its MPI often do not run here.
  [ -n "${MPICXX:-}" ] || "$bin/python" -c 'import weft.mpi' || {
    say "mpi4py does not start with the MPI of $(command -v "$mpi"): remove that from PATH, or name the library that mpi4py is to take with MPI4PY_LIBMPI, and run make again" >&2
    exit 1
  }
  # Where mypy and editors find the types of the extension module.
  ln -sfn ../../build/stubs/weft/_weft python/weft/_weft
}

# Installs weft's dependencies and byte-compiles them (except their tests), at low priority while the compiler runs.
dependencies() {
  listed dependencies >"$VENV/dependencies.txt"
  pip_install --no-compile -r "$VENV/dependencies.txt"
  [ -e "$VENV/installed" ] || nice -n 19 "$bin/python" -m compileall -qq -x '/tests?/' "$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || true
}

# listed KEY... : the requirements under a key of [project] in pyproject.toml, one per line.
listed() {
  "$bin/python" - "$@" <<'EOF'
import functools, sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*functools.reduce(lambda table, key: table[key], sys.argv[1:], project), sep="\n")
EOF
}

# Replaces the installed module by that of the build folder, which may have kernels of more orders. A process that has
# the old one open keeps it.
module() {
  local folder
  folder=$("$bin/python" -c 'import importlib.util; print(importlib.util.find_spec("weft").submodule_search_locations[0])')
  cp build/_weft.*.so "$folder/new"
  mv "$folder/new" "$folder/$(basename build/_weft.*.so)"
}

# Builds a wheel with one extension for AVX2 and one for AVX-512, for PyPI's MPICH, whatever MPI is installed here.
wheel() {
  local folder=$PWD/build/wheel
  local tools=$folder/tools/bin
  # MPICH is in lib/ of the environment that the package is installed into. It is found relative to the package's folder,
  # not in the folder of this build, which the flags of mpicxx name.
  local definitions=(MPI_CXX_COMPILER="$tools/mpicxx" MPIEXEC_EXECUTABLE="$tools/mpiexec"
    MPI_CXX_LINK_FLAGS=-Wl,--as-needed WEFT_BUILD_TESTS=OFF WEFT_BUILD_LIBRARIES=OFF
    WEFT_ORDERS="$WHEEL_ORDERS" WEFT_TYPES="$WHEEL_TYPES")
  if [ ! -x "$tools/mpicxx" ]; then
    say "installing the build tools into $folder/tools"
    "$PYTHON" -m venv "$folder/tools"
    "$tools/pip" install --quiet --disable-pip-version-check 'cmake>=3.25,<5' ninja 'scikit-build-core>=1.1' 'nanobind>=3.1' 'mpich==5.0.2'
  fi
  export PATH=$tools:$PATH
  say "building the extension for AVX-512"
  cmake -S . -B "$folder/avx512" -G Ninja -DCMAKE_BUILD_TYPE=Release "${definitions[@]/#/-D}" -DWEFT_ARCH=x86-64-v4 \
    -Dnanobind_DIR="$(python -m nanobind --cmake_dir)" -DPython_EXECUTABLE="$tools/python" \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON '-DCMAKE_INSTALL_RPATH=$ORIGIN/../../../..' >"$folder.log" || { cat "$folder.log"; exit 1; }
  cmake --build "$folder/avx512" --target _weft
  strip --strip-unneeded "$folder"/avx512/_weft.*.so
  say "building the extension for AVX2, and the wheel"
  definitions+=(WEFT_ARCH=x86-64-v3 WEFT_AVX512_MODULE="$(echo "$folder"/avx512/_weft.*.so)" 'CMAKE_INSTALL_RPATH=$ORIGIN/../../..')
  pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir wheels \
    --config-settings=build-dir="$folder/avx2" "${definitions[@]/#/--config-settings=cmake.define.}" .
  say "wrote $(ls -t wheels/weft-*.whl | head -1)"
}

tools() {
  say "installing the test tools into $VENV"
  listed optional-dependencies test >"$VENV/tools.txt"
  pip_install -r "$VENV/tools.txt"
  need "GoogleTest" libgtest-dev has_header gtest/gtest.h
  # Only the test that compiles kernels for gfx90a needs this. Without it the test is skipped and says why.
  has_header hip/hip_runtime_api.h 2>/dev/null || apt hipcc libamdhip64-dev libhiprtc-builtins5 ||
    say "hipRTC is missing (Debian: hipcc libamdhip64-dev libhiprtc-builtins5): the tests skip compiling kernels for AMD GPUs"
}

"$1"
