#!/usr/bin/env bash
# Builds, tests and measures weft on a machine with a GPU and without a network, within a fixed time, and compares the
# measurements with what weft predicted.
#
#   benchmarks/device.sh pack [PACK]   on a machine with a network and with weft: collects wheels and compiled kernels
#   benchmarks/device.sh [OUT]         on the machine with the GPU: measures, and writes OUT (default device-results)
#
# PACK (default device-pack) travels with the source tree. The machine with the GPU needs Python 3.11 or newer with
# NumPy, SciPy, Matplotlib and h5py, CMake, a C++ compiler, and NVRTC or hipRTC; other packages come from PACK.
#
# The steps run in order of importance. Each may use its share of the time that is left, and is stopped after that; what
# it had written stays. OUT/report.json and OUT/report.txt are written anew after every command, so that they are whole
# whenever the script is stopped. OUT/commands.jsonl says how long each command took and how it ended.
#
# Environment variables
#   BUDGET   seconds in all (default 540)            STEPS   the steps to run (default: all, as listed below)
#   PYTHON   the interpreter (default python3)       PACK    the folder of the wheels and kernels
#   BUILD    no: use the weft that PYTHON has        CHIP    the GPU to predict for, if its name does not say so
#   DOFS     unknowns of Poisson (default 6000000)   GRIDS   turbulence (default "512 1024")
#   POINTS   maxwell (default 4000000)               COUNTS  elements per side of flow and multigrid (default 24)
#   FFT_SIZES (default 256,512)                      RANKS   ranks that share the device in "communication" (default 2)
#   NCU      Nsight Compute (default: found)         WEFT_GPU_TESTS_ON=host goes on without a GPU, to try the script
# of pack: NVRTC (default 13.0: versions of NVRTC, as on the machine with the GPU), PYTHON_VERSION (default 3.12),
#   ARCHITECTURE (default sm_90), LIMIT (default 64: the most MiB that may travel, with the source tree), THERE (default
#   python3.12: the interpreter here of that version), ARCH (default x86-64-v3: the processor weft is built for)
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
say() { echo "device.sh: $*"; }

# What a machine for machine learning tends to lack, and what these packages need. NumPy and others would be too large.
packages=(mpich mpi4py nanobind pyamg pymetis pyfftw tomli-w pydantic pydantic-core annotated-types typing-inspection
  typing-extensions click rich markdown-it-py mdurl pygments pytest iniconfig pluggy packaging hypothesis
  sortedcontainers)

# --- an environment with the packages of the machine and those of the pack, and a build ---

# bounded SECONDS LOG COMMAND... : runs a command for at most so long; a signal to this script ends it, too.
bounded() {
  local limit=$1 log=$2 status=0
  shift 2
  [ "$limit" -ge 1 ] || return 124
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1 &
  wait $! 2>/dev/null || status=$?
  return $status
}

# environment : $work/venv, with the packages of $python and those of the pack; with the MPI of the pack if $packed.
environment() {
  local venv=$work/venv package missing=()
  if [ ! -x "$venv/bin/python" ]; then
    "$python" -m venv --without-pip "$venv"
    # A .pth file, because --system-site-packages does not cover a `python` that is itself in an environment.
    "$python" -c 'import site, sysconfig; print(*{sysconfig.get_path("purelib"), *site.getsitepackages()}, sep="\n")' \
      >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/machine.pth"
  fi
  PATH=$venv/bin:$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))'):$PATH
  for package in "${packages[@]}"; do
    case $package in
      # weft of the pack is built with the MPI of the pack, and needs an mpi4py that can load it.
      mpich | mpi4py) [ -z "$packed" ] || [ -x "$venv/bin/mpicxx" ] || { missing+=("$package"); continue; } ;;&
      mpich) ! command -v mpicxx >/dev/null || continue ;;
    esac
    "$venv/bin/python" -c "import importlib.metadata as m; m.version('$package')" 2>/dev/null || missing+=("$package")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    say "installing from $pack/wheels: ${missing[*]}"
    "$python" -m pip --python "$venv/bin/python" install --quiet --disable-pip-version-check --no-deps --no-index \
      --find-links "$pack/wheels" "${missing[@]}" || { say "run 'benchmarks/device.sh pack' first"; return 1; }
    hash -r
  fi
  interpreter=$venv/bin/python
  # mpi4py's wheel loads the first MPI it finds, which must be the one weft was built with.
  LD_LIBRARY_PATH=$(realpath "$(dirname "$(command -v mpicxx)")/../lib")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
}

# compile OPTION... : $work/site with weft, built in $work/build with these options of CMake.
compile() {
  local generator=()
  ! command -v ninja >/dev/null || generator=(-G Ninja)
  bounded $((budget - SECONDS)) "$out/configure.log" cmake -S . -B "$work/build" "${generator[@]}" \
    -DWEFT_BUILD_TESTS=OFF -DWEFT_BUILD_LIBRARIES=OFF -DWEFT_TYPES=all -DPython_EXECUTABLE="$interpreter" \
    -DMPI_CXX_COMPILER="$(command -v mpicxx)" -DMPIEXEC_EXECUTABLE="$(command -v mpiexec)" \
    -Dnanobind_DIR="$("$interpreter" -m nanobind --cmake_dir)" "$@" ||
    { tail -20 "$out/configure.log"; return 1; }
  # These two alone: the stubs and the programs of benchmarks/ serve nothing here.
  bounded $((budget - SECONDS)) "$out/build.log" cmake --build "$work/build" --parallel "$(nproc)" \
    --target _weft weft_mpi_probe || { tail -20 "$out/build.log"; return 1; }
  rm -rf "$work/site" && mkdir -p "$work/site"
  cp -r python/weft "$work/site/weft"
  cp --remove-destination "$work"/build/_weft*.so "$work/build/weft_mpi_probe" "$work/site/weft/"
}

pack() {
  local pack version size kept=build/device-pack there=${THERE:-python${PYTHON_VERSION:-3.12}} packed=yes
  pack=$(realpath -m "${1:-${PACK:-device-pack}}")
  mkdir -p "$pack/wheels" "$kept"
  download() { # FOLDER PACKAGE...
    local platform platforms=()
    for platform in _2_28 _2_27 _2_24 _2_17 2014 2010 1; do
      platforms+=(--platform "manylinux${platform}_x86_64")
    done
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp \
      --python-version "${PYTHON_VERSION:-3.12}" "${platforms[@]}" -d "$@"
  }
  say "wheels for Python ${PYTHON_VERSION:-3.12}"
  download "$pack/wheels" "${packages[@]/#mpich/mpich==5.0.2}"
  # What is compiled is kept in build/, so that a pack that was stopped goes on where it was.
  for version in ${NVRTC:-13.0}; do
    say "kernels by NVRTC $version"
    [ -n "$(find "$kept/nvrtc-$version" -name 'libnvrtc.so.*' 2>/dev/null)" ] || {
      download "$kept/nvrtc-$version" "nvidia-cuda-nvrtc==$version.*"
      "$python" -m zipfile -e "$kept/nvrtc-$version"/*.whl "$kept/nvrtc-$version"
    }
    WEFT_NVRTC=$(dirname "$(find "$PWD/$kept/nvrtc-$version" -name 'libnvrtc.so.*' | head -1)") \
      WEFT_CACHE=$PWD/$kept/kernels "$python" benchmarks/device_kernels.py "${ARCHITECTURE:-sm_90}"
  done
  (cd "$kept" && "$python" -m tarfile -c "$pack/kernels.tar.xz" kernels)
  if command -v "$there" >/dev/null; then
    say "weft for ${ARCH:-x86-64-v3}"
    out=$PWD/$kept work=$PWD/$kept budget=36000 python=$there
    environment
    compile "-DWEFT_ARCH=${ARCH:-x86-64-v3}"
    (cd "$kept" && "$python" -m tarfile -c "$pack/site.tar.xz" site)
  else
    say "no $there here: weft has to be compiled on the machine with the GPU"
  fi
  size=$(($( (git ls-files -z && find "$pack" -type f -print0) | du -cb --files0-from=- | tail -1 | cut -f1) >> 20))
  say "$pack and the source tree: $size MiB"
  [ "$size" -lt "${LIMIT:-64}" ] || { say "more than LIMIT=${LIMIT:-64} MiB: pack fewer versions of NVRTC"; exit 1; }
}
if [ "${1:-}" = pack ]; then
  pack "${@:2}"
  exit
fi

budget=${BUDGET:-540}
out=$(realpath -m "${1:-device-results}")
pack=$(realpath -m "${PACK:-device-pack}")
work=$PWD/build/device
mkdir -p "$out" "$work"
rm -f "$out"/commands.jsonl "$out"/report.*

# The steps in order of importance, each with the seconds it is expected to take on an H100.
plan="tests:160 limits:5 shapes:12 orders:45 small:14 turbulence:45 maxwell:40 flow:18 fft:60 multigrid:14 counters:70
  single:45 communication:20"
if [ -n "${STEPS:-}" ]; then
  chosen=
  for name in $STEPS; do
    [[ " ${plan//$'\n'/ } " =~ \ ($name:[0-9]+)\  ]] || { say "unknown step '$name' in STEPS"; exit 2; }
    chosen+=" ${BASH_REMATCH[1]}"
  done
  plan=$chosen
fi

# --- commands with a time limit ---

stop() {
  local running
  trap '' TERM INT HUP
  say "stopped after $SECONDS s"
  mapfile -t running < <(jobs -pr)
  if [ ${#running[@]} -gt 0 ]; then
    kill -TERM "${running[@]}" 2>/dev/null || true
    wait "${running[@]}" 2>/dev/null || true
    note "$command" 143 "stopped from outside"
  fi
  report
  exit 143
}
trap stop TERM INT HUP

failed=()
command=build
began=0
# note COMMAND STATUS WORDS : a line about a command in commands.jsonl
note() {
  printf '{"command": "%s", "status": %d, "seconds": %d, "ended": "%s"}\n' "$1" "$2" $((SECONDS - began)) "$3" \
    >>"$out/commands.jsonl"
  [ "$2" = 0 ] || { failed+=("$1 ($3)"); }
}

report() {
  [ -x "$interpreter" ] || return 0
  "$interpreter" benchmarks/device_report.py "$out" ${CHIP:+--chip "$CHIP"} >"$out/report.log" 2>&1 ||
    say "the report cannot be written: $(tail -1 "$out/report.log")"
}

deadline=0
commands=1
# measure NAME COMMAND... : runs one of the `commands` that are left of a step, for its part of the time until the
# step's deadline; its output goes to OUT/NAME.log.
measure() {
  local status=0 words='done' limit=$(((deadline - SECONDS) / commands))
  command=$1 began=$SECONDS
  shift
  if [ $commands -gt 1 ]; then commands=$((commands - 1)); fi
  say "$command (at most $limit s)"
  bounded $limit "$out/$command.log" "$@" || status=$?
  case $status in
    0) ;;
    124 | 137) if [ "$limit" -ge 1 ]; then words="stopped at its time limit"; else words="no time was left"; fi ;;
    *) words="failed, see $command.log" && tail -5 "$out/$command.log" ;;
  esac
  note "$command" $status "$words"
  report
}

interpreter=$(command -v "$python" || true)
[ -n "$interpreter" ] || { say "$python is not there: set PYTHON"; exit 1; }
# prepare : weft as it is in the pack, if that loads here, otherwise built here.
prepare() {
  local packed=
  [ ! -f "$pack/site.tar.xz" ] || packed=yes
  environment || return 1
  export PYTHONPATH=$work/site
  if [ -f "$pack/site.tar.xz" ]; then
    rm -rf "$work/site"
    "$interpreter" -m tarfile -e "$pack/site.tar.xz" "$work"
    "$interpreter" -c 'from weft import _weft' && return 0
    say "the weft of $pack does not load here"
  fi
  say "building"
  compile
}
if [ "${BUILD:-yes}" = no ]; then
  PATH=$(dirname "$interpreter"):$PATH
else
  prepare || { note build 1 "failed or used up the budget, see build.log"; say "no build within $SECONDS s"; exit 1; }
  note build 0 'done'
fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)} WEFT_CACHE=${WEFT_CACHE:-$work/kernels}
mkdir -p "$WEFT_CACHE"
[ ! -f "$pack/kernels.tar.xz" ] || {
  "$interpreter" -m tarfile -e "$pack/kernels.tar.xz" "$work" && cp -rn "$work/kernels/." "$WEFT_CACHE"
}
weft=("$interpreter" -m weft.cli.main)
[ "${WEFT_GPU_TESTS_ON:-}" = host ] ||
  "$interpreter" -c "from weft import device; raise SystemExit(device.open('auto').is_host)" ||
  { "${weft[@]}" info; say "no GPU backend works here (see above), so there is nothing to measure"; exit 1; }

# --- the steps ---

dofs=${DOFS:-6000000}
side=${COUNTS:-24}
run() { # NAME WORKLOAD OPTION... : one `weft run`, whose steps matter here and not its pictures
  local picture=none
  [ "$2" != turbulence ] || picture=false
  measure "$1" "${weft[@]}" run "$2" --quiet --set output.slice=$picture --output "$out/$1" "${@:3}"
}
operator() { # NAME OPTION... : one `weft bench operator`
  measure "$1" "${weft[@]}" bench operator --kernels portable --output "$out/$1" "${@:2}"
}

step_tests() { # the headers first: they say whether weft calls the driver as it is
  local parallel=() tests
  read -ra tests <<<"${TESTS:-tests/python/test_gpu_headers.py tests/gpu}"
  parallel=(--ignore=tests/gpu/test_gpu_device.py)
  ! "$interpreter" -c 'import xdist' 2>/dev/null || parallel+=(-n 12)
  commands=2
  # Alone, because it times the device.
  measure tests-device "$interpreter" -m pytest -v -p no:cacheprovider tests/gpu/test_gpu_device.py
  measure tests env OMP_NUM_THREADS=1 "$interpreter" -m pytest -v -p no:cacheprovider "${parallel[@]}" "${tests[@]}"
}
step_limits() { measure limits "$interpreter" benchmarks/device_report.py --limits "$out/limits.json"; }
step_shapes() { operator shapes --orders 3,7,14,15 --threads points,columns --dofs "$dofs"; }
step_orders() { operator orders --orders "${ORDERS:-1-15}" --cg 100 --dofs "$dofs"; }
step_single() { operator single --orders "${ORDERS:-1-15}" --cg 100 --dofs "$dofs" --precision single; }
step_small() {
  local size
  commands=2
  for size in 10000 100000; do operator "small-$size" --orders 7 --cg 400 --dofs $size; done
}
step_turbulence() { # a run that does not fit into the memory is refused before anything is allocated
  local grid grids
  read -ra grids <<<"${GRIDS:-512 1024}"
  commands=${#grids[@]}
  for grid in "${grids[@]}"; do
    run "turbulence-$grid" turbulence --grid "$grid" --precision single --steps 10 --set statistics.at_end=false
  done
}
step_maxwell() {
  local order
  commands=2
  for order in 7 14; do
    run "maxwell-$order" maxwell --case timing --order $order --set mesh.points="${POINTS:-4000000}" \
      --set 'mesh.counts=[0,0,0]' --set time.steps=100
  done
}
step_flow() {
  run flow-7 flow --case taylor-green --order 7 --set "mesh.counts=[$side,$side,$side]" --set time.steps=20
}
step_fft() {
  commands=2
  measure fft "${weft[@]}" bench fft --sizes "${FFT_SIZES:-256,512}" --output "$out/fft"
  ! "$interpreter" -c 'import cupy' 2>/dev/null ||
    measure compare-fft "$interpreter" benchmarks/compare_fft_gpu.py --sizes "${FFT_SIZES:-256,512}" \
      --output "$out/compare_fft_gpu.json"
}
step_multigrid() {
  run multigrid-7 poisson --preconditioner multigrid --tolerance 1e-8 --order 7 --set boundary=dirichlet \
    --set lambda=0 --set "mesh.counts=[$side,$side,$side]"
}
step_counters() {
  local ncu found order metrics
  ncu=${NCU:-$(command -v ncu || true)}
  for found in /usr/local/cuda*/bin/ncu /opt/nvidia/nsight-compute/*/ncu; do
    [ -n "$ncu" ] || [ ! -x "$found" ] || ncu=$found
  done
  [ -n "$ncu" ] || { say "counters: ncu is not there"; began=$SECONDS; note counters 127 "ncu is not there"; return 0; }
  metrics=$("$interpreter" benchmarks/device_report.py --metrics)
  profile() { # NAME KERNELS COMMAND...
    measure "$1" "$ncu" --csv --page raw --print-units base --metrics "$metrics" --clock-control none \
      --launch-count 100 --kernel-name "regex:$2" --log-file "$out/$1.csv" "${@:3}"
  }
  commands=5
  for order in 7 3 15 14; do
    profile "ncu-poisson-$order" '^(poisson_|gather_|cg_)' "${weft[@]}" bench operator --kernels portable \
      --orders $order --cg $((order == 7 ? 2 : 0)) --repeats 1 --threads points,columns --dofs $((dofs / 4)) \
      --output "$out/ncu-poisson-$order"
  done
  profile ncu-maxwell-7 '^maxwell_' "${weft[@]}" run maxwell --quiet --case timing --order 7 --set 'mesh.counts=[0,0,0]' \
    --set mesh.points=$((dofs / 4)) --set time.steps=2 --output "$out/ncu-maxwell-7"
}
step_communication() {
  local what
  commands=2
  for what in pingpong exchange; do
    measure $what mpiexec -n "${RANKS:-2}" "${weft[@]}" bench $what --output "$out/$what"
  done
}

weights=0
for entry in $plan; do weights=$((weights + ${entry#*:})); done
for entry in $plan; do
  weight=${entry#*:}
  left=$((budget - SECONDS))
  deadline=$((SECONDS + left * weight / weights))
  weights=$((weights - weight)) commands=1
  "step_${entry%:*}"
done
report
cat "$out/report.txt" 2>/dev/null || true
say "the results are in $out ($SECONDS s)"
if [ ${#failed[@]} -gt 0 ]; then
  say "not whole: ${failed[*]}"
  exit 1
fi
