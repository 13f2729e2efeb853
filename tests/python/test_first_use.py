"""Kernels of orders that were not compiled into the library are compiled on first use, once for all processes."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from mpi_run import COMPILING, mpi_run, run_weft

# Portable kernels: the quickest to compile.
CASE = ("--set", "mesh.counts=[3,2,2]", "--exchange", "pairwise:direct", "--set", "kernels=portable", "--quiet")
ORDER = "13"


def solve(tmp_path: Path, ranks: int, cache: object, order: str = ORDER, **environment: str):
    """Runs a solve; returns the line about its compilation, and its result."""
    folder = tmp_path / "run"
    done = run_weft(
        ranks, "run", "poisson", "--order", order, *CASE, "--output", folder, WEFT_CACHE=str(cache), **environment
    )
    residual = None
    if done.returncode == 0:
        residual = json.loads((folder / "run.json").read_text())["residuals"]
    return done, [line for line in done.stderr.splitlines() if line.startswith(COMPILING)], residual


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """What a first solve, with an empty cache, says and computes, and the cache that it leaves."""
    folder = tmp_path_factory.mktemp("first")
    done, said, residual = solve(folder, 1, folder / "cache")
    assert done.returncode == 0, done.stderr
    if not said:
        pytest.skip(f"weft was built with the kernels of order {ORDER} (WEFT_ORDERS)")
    return said, residual, folder / "cache"


@pytest.fixture
def cache(tmp_path: Path, compiled) -> Path:
    """A copy of that cache."""
    return Path(shutil.copytree(compiled[2], tmp_path / "cache"))


def test_the_first_run_says_so_on_one_line_and_the_second_compiles_nothing(tmp_path, compiled, cache) -> None:
    said, residual, first_cache = compiled
    assert len(said) == 1
    assert f"order {ORDER}" in said[0]
    assert str(first_cache) in said[0]
    done, said, again = solve(tmp_path, 1, cache)
    assert done.returncode == 0
    assert said == []
    assert again == residual


def test_of_four_ranks_one_compiles_and_all_compute(tmp_path, cache) -> None:
    _, said, residual = solve(tmp_path, 4, tmp_path / "other")
    assert len(said) == 1
    alone = solve(tmp_path, 4, cache)[2]
    assert residual == alone
    entries = [sorted(entry.name for entry in folder.glob("*.host")) for folder in (cache, tmp_path / "other")]
    assert entries[0] == entries[1]


@pytest.mark.parametrize("damage", ["cut", "altered", "emptied"])
def test_a_damaged_object_is_compiled_again(tmp_path, compiled, cache, damage: str) -> None:
    for entry in cache.glob("*.host"):
        whole = entry.read_bytes()
        broken = {"cut": whole[: len(whole) // 2], "altered": whole[:-50] + bytes(50), "emptied": b""}[damage]
        entry.write_bytes(broken)
    (cache / "host.lock").unlink()  # a line is not printed again within ten minutes
    done, said, residual = solve(tmp_path, 1, cache)
    assert done.returncode == 0, done.stderr
    assert len(said) == 1
    assert residual == compiled[1]


@pytest.mark.parametrize("ranks", [1, 4])
def test_without_a_compiler_the_error_says_what_to_do(tmp_path, compiled, ranks: int) -> None:
    done, _, _ = solve(tmp_path, ranks, tmp_path / "empty", WEFT_CXX="/nowhere/g++")
    assert done.returncode != 0
    for words in ("WEFT_CXX=/nowhere/g++", "-DWEFT_ORDERS=all -DWEFT_TYPES=all", f"N={ORDER}"):
        assert words in done.stderr
    assert done.stderr.count("compiled on first use") == 1
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_kernels_are_compiled_does_not_blame_the_compiler(tmp_path, compiled) -> None:
    compiler = tmp_path / "g++"  # as Ctrl-C ends it, also where the tests themselves ignore the signal
    compiler.write_text(
        f"#!{sys.executable}\nimport os, signal, sys\nif '--version' in sys.argv:\n    sys.exit()\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\nos.kill(os.getpid(), signal.SIGINT)\n"
    )
    compiler.chmod(0o755)
    done, _, _ = solve(tmp_path, 2, tmp_path / "empty", WEFT_CXX=str(compiler))
    assert done.returncode != 0
    assert "interrupted while compiling" in done.stderr
    assert "g++" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path, compiled) -> None:
    file = tmp_path / "file"
    file.write_text("where the folder should be")
    done, _, _ = solve(tmp_path, 2, file)
    assert done.returncode != 0
    for words in (str(file), "WEFT_CACHE", "-DWEFT_ORDERS=all -DWEFT_TYPES=all"):
        assert words in done.stderr
    assert done.stderr.count("compiled on first use") == 1


def test_without_a_cache_every_run_compiles(tmp_path, compiled) -> None:
    done, said, residual = solve(tmp_path, 1, "off")
    assert done.returncode == 0
    assert len(said) == 1
    assert residual == compiled[1]


def test_a_rank_that_cannot_compile_ends_all_with_one_message(tmp_path, compiled) -> None:
    code = f"""
        import os, sys
        from mpi4py import MPI
        rank = MPI.COMM_WORLD.rank
        os.environ["WEFT_CACHE"] = {str(tmp_path)!r} + f"/cache-{{rank}}"
        if rank == 1:
            os.environ["WEFT_CXX"] = "/nowhere/g++"
        sys.argv = ["weft", "run", "poisson", "--order", {ORDER!r}, *{CASE!r}, "--output", {str(tmp_path / "run")!r}]
        from weft.cli.main import main
        main()
    """
    done = mpi_run(2, code)
    assert done.returncode != 0
    assert done.stderr.count("compiled on first use") == 1
