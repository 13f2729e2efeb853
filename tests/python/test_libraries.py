"""weft_gs and weft in another project: installed, found by CMake, linked from C, C++ and Fortran; and bad input."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mpi_run import finish, mpi_run, start, wait_until

from weft.mpi import library_version

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
pytestmark = pytest.mark.skipif(
    not (BUILD / "libweft_gs.so").exists(), reason="libweft_gs is not built: cmake -DWEFT_BUILD_LIBRARIES=ON"
)


def run(*command: object, seconds: float = 240, **environment: str) -> str:
    done = subprocess.run(
        [str(c) for c in command],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", where, "--component", "libraries")
    return where


@pytest.fixture(scope="module")
def examples(prefix, tmp_path_factory) -> Path:
    build = tmp_path_factory.mktemp("examples")
    run("cmake", "-S", ROOT / "examples", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    return build


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("language", ["c", "cpp", "fortran"])
def test_the_examples_build_against_an_install_prefix_and_give_the_right_answer(examples, language, ranks):
    if language == "fortran" and shutil.which("gfortran") is None:
        pytest.skip("no gfortran here (Debian: apt install gfortran)")
    done = finish(start([str(examples / f"direct_stiffness_{language}")], ranks=ranks))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "right" in done.stdout
    assert "WRONG" not in done.stdout


def test_the_cpp_tests_configure_without_the_python_extension(tmp_path):
    run("cmake", "-S", ROOT, "-B", tmp_path, "-DWEFT_BUILD_PYTHON=OFF", "-DWEFT_BUILD_TESTS=ON")
    assert "all_orders_test" in run("cmake", "--build", tmp_path, "--target", "help")


def test_a_project_finds_the_package_in_the_build_tree_too(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES C CXX)\nfind_package(weft REQUIRED)\n"
        "add_executable(consumer main.c)\ntarget_link_libraries(consumer PRIVATE weft::gs)\n"
    )
    (tmp_path / "main.c").write_text("#include <weft/gs/gs.h>\nint main(void) { return weft_gs_index_bytes == 0; }\n")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-Dweft_DIR={BUILD / 'weft-package'}")
    run("cmake", "--build", tmp_path / "build")
    run(tmp_path / "build" / "consumer")


def test_the_headers_that_are_installed_are_the_umbrella_and_what_it_includes(prefix, tmp_path):
    headers = sorted((prefix / "include" / "weft").rglob("*.h*"), reverse=True)
    installed = {header.relative_to(prefix / "include").as_posix() for header in headers}
    reached, left = {"weft/gs/gs.h"}, ["weft/weft.hpp"]
    while left:
        header = left.pop()
        if header not in reached:
            reached.add(header)
            left += re.findall(r'#include "(weft/[^"]+)"', (ROOT / "cpp" / header).read_text())
    assert installed == reached, "cmake/libraries.cmake lists them"
    source = tmp_path / "all.cpp"
    source.write_text("".join(f'#include "{header.relative_to(prefix / "include")}"\n' for header in headers * 2))
    run("mpicxx", "-std=c++20", "-fsyntax-only", "-I", prefix / "include", source)
    source = tmp_path / "gs.c"
    source.write_text("#include <weft/gs/gs.h>\n")
    run("mpicc", "-std=c99", "-pedantic", "-Wall", "-Werror", "-fsyntax-only", "-I", prefix / "include", source)


def test_libweft_gs_shows_no_name_but_its_own_and_gslibs():
    names = {line.split()[-1] for line in run("nm", "-D", "--defined-only", BUILD / "libweft_gs.so").splitlines()}
    early = {f"gs_{name}_" for name in ("setup", "op", "op_vec", "op_many", "op_fields", "free")}
    assert {n for n in names if not n.startswith(("weft_gs_", "gslib_", "fgslib_"))} == early
    fortran = ["setup", "setup_pick", "op", "op_vec", "op_many", "op_fields", "op_wait", "unique", "free"]
    assert {f"fgslib_gs_{name}_" for name in fortran} <= names


CALL = """
import ctypes, sys
from mpi4py import MPI
import numpy as np
lib = ctypes.CDLL(sys.argv[1])
lib.weft_gs_setup.restype = lib.gslib_gs_setup.restype = ctypes.c_void_p
world = MPI.COMM_WORLD
handle = {4: ctypes.c_int, 8: ctypes.c_void_p}[MPI._sizeof(MPI.Comm)]
comm = handle.from_address(MPI._addressof(world))
rank, size = world.rank, world.size
ids = np.arange(4, dtype=np.int64) + 1
u = np.ones(4)
def p(a): return ctypes.c_void_p(a.ctypes.data)
def setup(exchange=None, n=4):
    return ctypes.c_void_p(lib.weft_gs_setup(p(ids), ctypes.c_size_t(n), comm, 0, exchange))
def integer(i): return ctypes.byref(ctypes.c_int(i))
"""
MISTAKES = {
    "an unknown type": ("lib.weft_gs_op(setup(), p(u), 9, 0, 0)", "unknown type 9"),
    "an unknown operation": ("lib.weft_gs_op(setup(), p(u), 0, 4, 0)", "unknown operation 4"),
    "no handle": ("lib.weft_gs_op(None, p(u), 0, 0, 0)", "gs is NULL"),
    "a negative number of fields": ("lib.weft_gs_op_vec(setup(), p(u), -1, 0, 0, 0)", "k is -1"),
    "a negative number of fields of flagged points, from Fortran": (
        "ids *= -1; h = ctypes.c_int(); lib.fgslib_gs_setup_(ctypes.byref(h), p(ids), integer(4), "
        "integer(world.py2f()), integer(size)); "
        "lib.fgslib_gs_op_vec_(ctypes.byref(h), p(u), *map(integer, (-1, 1, 1, 0)))",
        "k is -1",
    ),
    "no ids": ("lib.weft_gs_setup(None, ctypes.c_size_t(4), comm, 0, None)", "the ids of 4 points are NULL"),
    "no array, on one rank": ("lib.weft_gs_op(setup(), p(u) if rank == 0 else None, 0, 0, 0)", "an array is NULL"),
    "no list of arrays": ("lib.weft_gs_op_many(setup(), None, 2, 0, 0, 0)", "the list of arrays is NULL"),
    "an inter-communicator": (
        "both = world.Split(rank % 2).Create_intercomm(0, world, 1 - rank)\n"
        "comm = handle.from_address(MPI._addressof(both))\nsetup()",
        "is an inter-communicator",
    ),
    "an unknown schedule": ("setup(b'pigeon')", "unknown schedule 'pigeon'"),
    "an id without absolute value, on one rank": (
        "ids[2] = -2**63 if rank == size - 1 else 5; setup()",
        "which has no absolute value",
    ),
    "a freed Fortran handle": (
        "h = ctypes.c_int(); c = integer(world.py2f()); np_ = integer(size)\n"
        "lib.fgslib_gs_setup_(ctypes.byref(h), p(ids), integer(4), c, np_)\n"
        "lib.fgslib_gs_free_(ctypes.byref(h)); lib.fgslib_gs_op_(ctypes.byref(h), p(u), *map(integer, (1, 1, 0)))",
        "no gather-scatter has the handle 0",
    ),
    "a Fortran datatype out of range": (
        "h = ctypes.c_int(); lib.fgslib_gs_setup_(ctypes.byref(h), p(ids), integer(4), integer(world.py2f()), "
        "integer(size)); lib.fgslib_gs_op_(ctypes.byref(h), p(u), *map(integer, (4, 1, 0)))",
        "datatype 4",
    ),
    "an early Fortran datatype out of range": (
        "h = ctypes.c_int(); lib.gs_setup_(ctypes.byref(h), p(ids), integer(4), integer(world.py2f()), "
        "integer(size)); lib.gs_op_(ctypes.byref(h), p(u), *map(integer, (5, 1, 0)))",
        "datatype 5; known: 1 double precision, 2 real",
    ),
    "ranks that ask for different exchanges": (
        "setup(b'crystal' if rank else b'pairwise')",
        "exchange must be the same on all ranks; rank 0 has 'pairwise'",
    ),
    "another number of values on one rank": (
        "lib.weft_gs_op_vec(setup(), p(u), 2 if rank else 1, 1, 0, 0)",
        "the halo exchange must be the same on all ranks; rank 0 has 1 field(s) of float",
    ),
    "a negative number of points": (
        "lib.fgslib_gs_unique_(p(ids), integer(-4), integer(world.py2f()), integer(size))",
        "n is -4; it must be 0 or more",
    ),
    "a wrong number of ranks": (
        "h = ctypes.c_int(); lib.fgslib_gs_setup_(ctypes.byref(h), p(ids), integer(4), integer(world.py2f()), "
        "integer(size + 1))",
        "the communicator has 2 ranks",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_the_job_with_one_message(mistake):
    code, message = MISTAKES[mistake]
    done = mpi_run(2, CALL + code, str(BUILD / "libweft_gs.so"))
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("weft: ")]
    assert len(lines) == 1, done.stderr
    assert message in lines[0]


def test_a_rank_that_waits_for_one_that_ended_leaves_the_message_to_that_one():
    code, message = MISTAKES["no array, on one rank"]
    process = start([sys.executable, "-c", CALL + code, str(BUILD / "libweft_gs.so")], ranks=2)
    wait_until(lambda: message in process.said("err"), process)
    process.send_signal(signal.SIGSTOP)  # a launcher that takes a while to end the other rank
    time.sleep(1)
    process.send_signal(signal.SIGCONT)
    done = finish(process)
    assert done.returncode != 0
    assert [line for line in done.stderr.splitlines() if line.startswith("weft: ")] == [
        f"weft: weft_gs_op: rank 1: {message}"
    ]


FIRST_CALL = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
ids, comm = (ctypes.c_longlong * 2)(1, 2), ctypes.c_int(0x44000000)
one, fortran_comm = ctypes.byref(ctypes.c_int(1)), ctypes.byref(comm)
"""


@pytest.mark.parametrize(
    "call",
    ["weft_gs_setup(ids, ctypes.c_size_t(2), comm, 0, None)", "fgslib_gs_setup_(one, ids, one, fortran_comm, one)"],
)
def test_a_call_before_mpi_init_says_so(call):
    done = finish(start([sys.executable, "-c", FIRST_CALL + f"lib.{call}", str(BUILD / "libweft_gs.so")]))
    assert done.returncode == 1
    assert "called before MPI_Init of " in done.stderr


def test_a_program_on_another_mpi_gets_an_error(tmp_path):
    source, shim = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(
        "#include <string.h>\nint MPI_Get_library_version(char *text, int *length) {\n"
        f'  strcpy(text, "{"MPICH" if "Open MPI" in library_version() else "Open MPI"} v5.1.0, package: other");\n'
        "  *length = (int)strlen(text);\n  return 0;\n}\n"
    )
    run("cc", "-shared", "-fPIC", "-o", shim, source)
    call = FIRST_CALL + "lib.weft_gs_setup(ids, ctypes.c_size_t(2), comm, 0, None)"
    done = finish(start([sys.executable, "-c", call, str(BUILD / "libweft_gs.so")], {"LD_PRELOAD": str(shim)}))
    assert done.returncode == 1
    assert " 5.1.0, but weft was built with " in done.stderr
    assert "build weft with the program's MPI" in done.stderr


def test_programs_that_do_not_ask_for_threads_get_none():
    code = (
        "import os\ndel os.environ['OMP_NUM_THREADS']\n"
        + CALL
        + "def threads(): return len(os.listdir('/proc/self/task'))\n"
        "lib.weft_gs_op(setup(), p(u), 0, 0, 0)\n"  # MPI has started what it needs
        "ids, u = np.arange(200_000) // 2 + 1, np.ones(200_000)\n"
        "before = threads()\n"
        "lib.weft_gs_op(setup(n=ids.size), p(u), 0, 0, 0)\n"
        "assert (u == 2 * size).all()\n"
        "assert threads() == before, (before, threads())\n"
    )
    done = mpi_run(1, code, str(BUILD / "libweft_gs.so"))
    assert done.returncode == 0, done.stderr
