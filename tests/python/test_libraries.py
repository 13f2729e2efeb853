"""weft_gs and weft as another project gets them: installed, found by CMake, linked from C, C++ and Fortran, and what
they say of bad input."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from mpi_run import finish, mpi_run, start

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


def test_a_project_finds_the_package_in_the_build_tree_too(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES C CXX)\nfind_package(weft REQUIRED)\n"
        "add_executable(consumer main.c)\ntarget_link_libraries(consumer PRIVATE weft::gs)\n"
    )
    (tmp_path / "main.c").write_text("#include <weft/gs/gs.h>\nint main(void) { return weft_gs_index_bytes == 0; }\n")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-Dweft_DIR={BUILD / 'weft-package'}")
    run("cmake", "--build", tmp_path / "build")
    run(tmp_path / "build" / "consumer")


def test_every_header_that_an_installed_header_needs_is_installed(prefix, tmp_path):
    headers = sorted((prefix / "include" / "weft").rglob("*.h*"), reverse=True)
    assert {"gs.h", "gather_scatter.hpp", "comm.hpp", "device.hpp"} <= {h.name for h in headers}
    source = tmp_path / "all.cpp"
    source.write_text("".join(f'#include "{header.relative_to(prefix / "include")}"\n' for header in headers * 2))
    run("mpicxx", "-std=c++20", "-fsyntax-only", "-I", prefix / "include", source)
    source = tmp_path / "gs.c"
    source.write_text("#include <weft/gs/gs.h>\n")
    run("mpicc", "-std=c99", "-pedantic", "-Wall", "-Werror", "-fsyntax-only", "-I", prefix / "include", source)


def test_libweft_gs_shows_no_name_but_its_own_and_gslibs():
    names = {line.split()[-1] for line in run("nm", "-D", "--defined-only", BUILD / "libweft_gs.so").splitlines()}
    assert {n for n in names if not n.startswith(("weft_gs_", "gslib_", "fgslib_"))} == set()
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
    "an unknown type": ("lib.weft_gs_op(setup(), p(u), 9, 0, 0)", "there is no type 9"),
    "an unknown operation": ("lib.weft_gs_op(setup(), p(u), 0, 4, 0)", "there is no operation 4"),
    "no handle": ("lib.weft_gs_op(None, p(u), 0, 0, 0)", "gs is NULL"),
    "a negative number of fields": ("lib.weft_gs_op_vec(setup(), p(u), -1, 0, 0, 0)", "k is -1"),
    "an unknown schedule": ("setup(b'pigeon')", "there is no schedule 'pigeon'"),
    "an id without absolute value, on one rank": (
        "ids[2] = -2**63 if rank == size - 1 else 5; setup()",
        "which has no absolute value",
    ),
    "a freed Fortran handle": (
        "h = ctypes.c_int(); c = integer(world.py2f()); np_ = integer(size)\n"
        "lib.fgslib_gs_setup_(ctypes.byref(h), p(ids), integer(4), c, np_)\n"
        "lib.fgslib_gs_free_(ctypes.byref(h)); lib.fgslib_gs_op_(ctypes.byref(h), p(u), *map(integer, (1, 1, 0)))",
        "there is no gather-scatter with the handle 0",
    ),
    "a Fortran datatype out of range": (
        "h = ctypes.c_int(); lib.fgslib_gs_setup_(ctypes.byref(h), p(ids), integer(4), integer(world.py2f()), "
        "integer(size)); lib.fgslib_gs_op_(ctypes.byref(h), p(u), *map(integer, (4, 1, 0)))",
        "datatype 4",
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
