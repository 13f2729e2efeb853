#!/usr/bin/env bash
# Builds weft on a machine with a GPU and without a network, runs tests/gpu and the benchmarks, and writes JSON results.
#
#   benchmarks/device.sh [OUT]        OUT: the folder of the results, default device-results
#
# The machine needs Python 3.11 or newer with the packages that weft depends on, CMake, a C++ compiler, and NVRTC or
# hipRTC. Missing packages come from wheels in the folder WHEELS (default ./wheels). Collect them on another machine:
#   pip download --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 --platform
#     manylinux2014_x86_64 -d wheels mpich==5.0.2 mpi4py nanobind meshio pymech pymetis pyfftw
# Environment variables: PYTHON selects the interpreter; RANKS (default "1 2") the numbers of ranks that share the device;
# STEPS (default "tests operator communication fft poisson multigrid maxwell turbulence flow") the steps to run; POINTS
# (default 10 million) the size of the problems; FFT_SIZES (default 256,512) the sizes of transforms; GRID (default 512)
# the grid of the turbulence. WEFT_GPU_TESTS_ON=host continues without a GPU, to try the script.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-device-results}")
wheels=$(realpath -m "${WHEELS:-wheels}")
python=${PYTHON:-python3}
work=$PWD/build/device
mkdir -p "$out" "$work"
say() { echo "device.sh: $*"; }

# --- an environment with the packages of the machine, and the missing ones from wheels ---
venv=$work/venv
if [ ! -x "$venv/bin/python" ]; then
  "$python" -m venv --without-pip "$venv"
  # A .pth file, because --system-site-packages does not cover a `python` that is itself in an environment.
  "$python" -c 'import site, sysconfig; print(*{sysconfig.get_path("purelib"), *site.getsitepackages()}, sep="\n")' \
    >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/machine.pth"
fi
export PATH=$venv/bin:$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))'):$PATH
missing=()
has() { "$venv/bin/python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }
for package in numpy scipy mpi4py click rich pydantic matplotlib meshio pymech pymetis h5py pytest nanobind pyfftw; do
  has "$package" || missing+=("${package//_/-}")
done
command -v mpicxx >/dev/null || missing+=(mpich)
if [ ${#missing[@]} -gt 0 ]; then
  say "installing from $wheels: ${missing[*]}"
  "$python" -m pip --python "$venv/bin/python" install --quiet --no-index --find-links "$wheels" "${missing[@]}"
  hash -r
fi

# --- build ---
say "building"
cmake -S . -B "$work/build" -DWEFT_BUILD_TESTS=OFF -DPython_EXECUTABLE="$venv/bin/python" \
  -DMPI_CXX_COMPILER="$(command -v mpicxx)" -DMPIEXEC_EXECUTABLE="$(command -v mpiexec)" \
  -Dnanobind_DIR="$("$venv/bin/python" -m nanobind --cmake_dir)" >"$out/configure.log"
cmake --build "$work/build" --parallel "$(nproc)" >"$out/build.log" 2>&1 || { tail -50 "$out/build.log"; exit 1; }
rm -rf "$work/site" && mkdir -p "$work/site"
cp -r python/weft "$work/site/weft"
cp --remove-destination "$work"/build/_weft*.so "$work/site/weft/"
export PYTHONPATH=$work/site OMP_NUM_THREADS=${OMP_NUM_THREADS:-4} WEFT_CACHE=$work/kernels
# mpi4py's wheel loads the first MPI it finds, which must be the one weft was built with.
export LD_LIBRARY_PATH=$(realpath "$(dirname "$(command -v mpicxx)")/../lib")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
weft() { "$venv/bin/python" -m weft.cli.main "$@"; }

weft info | tee "$out/info.txt"
"$venv/bin/python" - >"$out/device.json" <<'EOF'
import json
from weft import device
gpu = device.open("auto")
print(json.dumps({
    "device": gpu.name, "backend": gpu.backend, "architecture": gpu.architecture, "memory_bytes": gpu.memory_bytes,
    "bandwidth_bytes_per_second": device.measure_bandwidth(gpu),
    "peak_double_flops_per_second": device.measure_peak(gpu, "double"),
    "peak_single_flops_per_second": device.measure_peak(gpu, "single"),
}, indent=1))
EOF
cat "$out/device.json"
[ "${WEFT_GPU_TESTS_ON:-}" = host ] ||
  "$venv/bin/python" -c "from weft import device; raise SystemExit(device.open('auto').is_host)" ||
  { say "no GPU backend works here (see above), so there is nothing to measure"; exit 1; }

# --- tests, then benchmarks; failures are listed at the end and stop nothing ---
failed=()
step() {
  local name=$1
  shift
  say "$name"
  "$@" >"$out/$name.log" 2>&1 || { failed+=("$name"); tail -30 "$out/$name.log"; }
}
points=${POINTS:-10000000}
for part in ${STEPS:-tests operator communication fft poisson multigrid maxwell turbulence flow}; do
  case $part in
    tests) step tests-gpu "$venv/bin/python" -m pytest -q tests/gpu --junitxml "$out/tests-gpu.xml" ;;
    operator)
      for precision in double single; do
        step "operator-$precision" weft bench operator --precision $precision --dofs "$points" \
          --output "$out/operator-$precision"
      done
      ;;
    communication)
      for ranks in ${RANKS:-1 2}; do
        [ "$ranks" -ge 2 ] || continue
        for what in pingpong exchange alltoall; do
          step "$what-ranks-$ranks" mpiexec -n "$ranks" "$venv/bin/python" -m weft.cli.main bench $what \
            --output "$out/$what-ranks-$ranks"
        done
      done
      ;;
    fft) # cuFFT or hipFFT: WEFT_CUFFT or WEFT_HIPFFT may name its folder
      for ranks in ${RANKS:-1 2}; do
        step "fft-ranks-$ranks" mpiexec -n "$ranks" "$venv/bin/python" -m weft.cli.main bench fft \
          --sizes "${FFT_SIZES:-256,512}" --output "$out/fft-ranks-$ranks"
      done
      ;;
    poisson)
      for ranks in ${RANKS:-1 2}; do
        for order in 3 7 11 15; do
          step "poisson-$order-ranks-$ranks" mpiexec -n "$ranks" "$venv/bin/python" -m weft.cli.main run poisson \
            --order "$order" --set mesh.points="$points" --output "$out/poisson-$order-ranks-$ranks"
        done
      done
      step poisson-7-single weft run poisson --precision single --set mesh.points="$points" \
        --output "$out/poisson-7-single"
      ;;
    maxwell) # NekCEM's Figs. 5 to 7 and 9
      for precision in double single; do
        step "maxwell-$precision" weft bench scaling maxwell --ranks 1 --orders 7,14 --elements 1-4096 --steps 100 \
          --set precision=$precision --output "$out/maxwell-$precision"
      done
      for ranks in ${RANKS:-1 2}; do
        for order in 7 14; do
          step "maxwell-$order-ranks-$ranks" mpiexec -n "$ranks" "$venv/bin/python" -m weft.cli.main run maxwell \
            --case timing --order "$order" --set mesh.points="$points" --set mesh.counts=[0,0,0] \
            --output "$out/maxwell-$order-ranks-$ranks"
        done
      done
      ;;
    multigrid)
      for order in 5 7 9; do
        step "multigrid-$order" weft run poisson --preconditioner multigrid --tolerance 1e-8 --order "$order" \
          --set boundary=dirichlet --set lambda=0 --set mesh.points="$points" --output "$out/multigrid-$order"
      done
      ;;
    turbulence)
      for precision in double single; do
        for ranks in ${RANKS:-1 2}; do
          step "turbulence-$precision-ranks-$ranks" mpiexec -n "$ranks" "$venv/bin/python" -m weft.cli.main run \
            turbulence --grid "${GRID:-512}" --precision $precision --steps 20 --set dealiasing=phase-shift \
            --output "$out/turbulence-$precision-ranks-$ranks"
        done
      done
      ;;
    flow) # the Taylor-Green vortex
      for ranks in ${RANKS:-1 2}; do
        for order in 7 9; do
          step "flow-$order-ranks-$ranks" mpiexec -n "$ranks" "$venv/bin/python" -m weft.cli.main run flow \
            --case taylor-green --order "$order" --set mesh.counts=[24,24,24] --set time.steps=50 \
            --output "$out/flow-$order-ranks-$ranks"
        done
      done
      ;;
    *) say "unknown step '$part' in STEPS" && exit 1 ;;
  esac
done

say "the results are in $out"
if [ ${#failed[@]} -gt 0 ]; then
  say "failed: ${failed[*]}"
  exit 1
fi
