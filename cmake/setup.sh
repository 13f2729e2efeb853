#!/usr/bin/env bash
# The stages of the set-up, called by make: environment, install, tools. Says what it does where that takes time.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(realpath -m "$VENV")/bin
say() { echo "weft: $*"; }

# apt PACKAGES... : installs Debian packages; fails where there is no apt or no root.
apt() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  say "installing Debian packages: $*"
  { apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"; } >/dev/null 2>&1
}

# need WHAT PACKAGE CHECK... : unless CHECK succeeds, installs PACKAGE and checks again; else says what to do.
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

# Whether an MPI compiler is there and makes a program that its own mpiexec runs.
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
  python_version || { say "$PYTHON is too old or absent: weft needs Python 3.11 or newer (make PYTHON=...)" >&2; exit 1; }
  need "a C++ compiler" g++ command -v g++
  need "Python's venv module" python3-venv "$PYTHON" -c 'import venv, ensurepip'
  need "Python's headers" python3-dev python_headers
  [ -x "$bin/python" ] || "$PYTHON" -m venv "$VENV"
  say "installing the build tools into $VENV"
  "$bin/pip" install --quiet --disable-pip-version-check 'cmake>=3.25,<5' ninja 'scikit-build-core>=1.1' 'nanobind>=3.1'
  if mpi_works; then
    say "using the MPI of $(command -v mpicxx)"
  else
    if command -v mpicxx >/dev/null; then say "$(command -v mpicxx) does not make programs that run"; fi
    say "installing MPICH into $VENV"
    "$bin/pip" install --quiet --disable-pip-version-check 'mpich==5.0.2'
    hash -r
    mpi_works || { say "MPICH's wheel does not work here; install an MPI with mpicxx and mpiexec on PATH" >&2; exit 1; }
  fi
}

install() {
  say "building weft, and installing it and what it depends on into $VENV (some minutes the first time)"
  # CMake is told which MPI was chosen: with no hint it prefers a system's own over the first on PATH.
  CMAKE_ARGS="${CMAKE_ARGS:-} -DMPI_CXX_COMPILER=$(command -v mpicxx) -DMPIEXEC_EXECUTABLE=$(command -v mpiexec)" \
    "$bin/pip" install --quiet --disable-pip-version-check --no-build-isolation .
}

tools() {
  say "installing what the tests need into $VENV"
  "$bin/python" - <<'EOF' >"$VENV/tools.txt"
import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["test"], sep="\n")
EOF
  "$bin/pip" install --quiet --disable-pip-version-check -r "$VENV/tools.txt"
  need "GoogleTest" libgtest-dev has_header gtest/gtest.h
  # Only the check that kernels compile for gfx90a needs this: without it that check says so and is skipped.
  has_header hip/hip_runtime_api.h 2>/dev/null || apt hipcc libamdhip64-dev libhiprtc-builtins5 ||
    say "no hipRTC here (Debian: hipcc libamdhip64-dev libhiprtc-builtins5): kernels are not compiled for AMD GPUs"
}

"$1"
