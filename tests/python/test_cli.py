"""The commands, run as a user runs them: real runs, real ranks, real files."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from mpi_run import (
    SECONDS,
    VARIABLES,
    alive,
    descendants,
    finish,
    interrupt,
    messages,
    run_weft,
    start,
    wait_until,
    weft_command,
)

import weft
from weft.cli.main import weft_command as weft_group
from weft.format import rate
from weft.model import formulas

SHARED_MESHES = Path(__file__).resolve().parents[3] / "shared" / "data" / "meshes"
SMALL = ["--set", "mesh.counts=[3, 2, 2]", "--order", "4"]
KEYS = ["schema", "case", "versions", "machine", "choices", "timings", "figures", "residuals"]


def run(*arguments: object, timeout: float = SECONDS) -> subprocess.CompletedProcess[str]:
    return run_weft(1, *arguments, timeout=timeout)


def poisson(tmp_path: Path, *arguments: object, ranks: int = 1) -> dict:
    """The record of a small run that must succeed."""
    words = ["run", "poisson", *SMALL, "--output", tmp_path, *arguments]
    done = run_weft(ranks, *words)
    assert done.returncode == 0, done.stderr
    return json.loads((tmp_path / "run.json").read_text())


# --- run poisson ---------------------------------------------------------------------------------------------------


def test_a_run_leaves_a_record_whose_figures_follow_from_its_sizes_and_times(tmp_path) -> None:
    record = poisson(tmp_path, "--trace")
    assert list(record) == KEYS
    figures, timings = record["figures"], record["timings"]
    assert (figures["elements"], figures["points"], figures["dofs"]) == (12, 12 * 125, 13 * 9 * 9)
    assert figures["iterations"] == 100
    assert figures["converged"] is None
    assert len(record["residuals"]) == 101
    flops = 12 * 12 * 5**4 + 34 * 12 * 5**3  # Eq. 3
    assert figures["fom_gflops"] == pytest.approx(flops * 100 / timings["solve_seconds"] / 1e9)
    throughput = 13 * 9 * 9 * 100 / timings["solve_seconds"]  # Eq. 6
    assert figures["throughput_dofs_per_second_per_rank"] == pytest.approx(throughput)
    size = formulas.Size(12, 4, 13 * 9 * 9)
    assert figures["iteration_bytes_paper"] == formulas.iteration_bytes(size).value
    assert figures["iteration_flops"] == formulas.iteration_flops(size).value
    assert figures["bandwidth_bytes_per_second"] > 1e8
    assert figures["peak_flops_per_second"] > 1e8
    assert record["machine"]["ranks"] == 1
    categories = timings["breakdown"]
    assert set(categories) == {"cpu", "gpu", "mpi", "copy", "launch"}
    # Each instant counts once: together they are as long as the span of the solve.
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    *_, span = (e for e in events if e["name"] == "conjugate gradients")  # after the one that warms up
    assert sum(c["max_seconds"] for c in categories.values()) == pytest.approx(1e-6 * span["dur"], rel=1e-4)
    assert timings["solve_seconds"] <= 1e-6 * span["dur"]


def test_the_output_says_what_ran_and_where_each_figure_comes_from(tmp_path) -> None:
    done = run("run", "poisson", *SMALL, "--output", tmp_path)
    for text in ("box 3 x 2 x 2", "N = 4", "N_G = 1,053", "N_L = 1,500", "FOM", "GFLOP/s", "hipBone Eq. 3", "Eq. 6",
                 "8 reads : 1 write", "roofline", "geometry", "kernels", "exchange", "run.json"):  # fmt: skip
        assert text in done.stdout, text
    assert said(done) == 0
    assert "\x1b" not in done.stdout, "control codes where there is no terminal"


def test_quiet_prints_nothing(tmp_path) -> None:
    done = run("run", "poisson", *SMALL, "--output", tmp_path, "--quiet")
    assert (done.returncode, done.stdout, said(done)) == (0, "", 0)


def test_two_ranks_print_once_and_repeat_the_residuals_of_one(tmp_path) -> None:
    one = poisson(tmp_path / "one", "--set", "solver.iterations=20")
    words = ["run", "poisson", *SMALL, "--set", "solver.iterations=20", "--output", tmp_path / "two"]
    done = run_weft(2, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("hipBone Eq. 3") == 1
    two = json.loads((tmp_path / "two" / "run.json").read_text())
    assert two["machine"]["ranks"] == two["figures"]["ranks"] == 2
    assert two["figures"]["dofs"] == one["figures"]["dofs"]
    assert two["residuals"] == pytest.approx(one["residuals"], rel=1e-9)


def test_ranks_share_the_cores_of_a_node_unless_the_user_says_how(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    words = weft_command("run", "poisson", *SMALL, "--set", "solver.iterations=2", "--output", tmp_path)
    cores = os.cpu_count() if os.cpu_count() == len(os.sched_getaffinity(0)) else 2 * len(os.sched_getaffinity(0))
    quick = {name: value for name, value in VARIABLES.items() if name != "OMP_NUM_THREADS"}
    for variables, threads in (({}, max(1, cores // 2)), ({"OMP_NUM_THREADS": "3"}, 3)):
        done = finish(start(words, {**quick, **variables}, ranks=2))
        assert done.returncode == 0, done.stderr
        record = json.loads((tmp_path / "run.json").read_text())
        assert record["machine"]["threads_per_rank"] == threads


@pytest.mark.parametrize("case", ["benchmark", "hipbone", "nekbone"])
def test_the_cases_that_come_with_weft_give_one_residual_history(case: str, tmp_path) -> None:
    record = poisson(tmp_path / case, "--case", case, "--set", "solver.iterations=15")
    plain = poisson(tmp_path / "plain", "--set", "solver.iterations=15")
    assert record["residuals"] == pytest.approx(plain["residuals"], rel=1e-8)


def test_a_solve_reaches_its_tolerance_and_the_known_solution(tmp_path) -> None:
    done = run(
        "run", "poisson", "--case", "solve", "--set", "mesh.counts=[2, 2, 2]", "--order", "9", "--output", tmp_path
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["figures"]["converged"] is True
    assert record["residuals"][-1] <= 1e-10 * record["residuals"][0]
    assert record["figures"]["l2_error"] < 1e-8
    assert "converged" in done.stdout


def test_the_screened_solution_on_a_periodic_box_is_the_known_one(tmp_path) -> None:
    record = poisson(
        tmp_path, "--tolerance", "1e-12", "--order", "9", "--set", "rhs=manufactured",
        "--set", "mesh.periodic=[true, false, false]", "--set", "lambda=2.5",
    )  # fmt: skip
    assert record["figures"]["converged"] is True
    assert record["figures"]["l2_error"] < 1e-7


def test_a_solve_that_misses_its_tolerance_exits_with_1_on_every_rank(tmp_path) -> None:
    words = ["run", "poisson", *SMALL, "--tolerance", "1e-12", "--set", "solver.max_iterations=3"]
    done = each_rank(2, *words, "--output", tmp_path)
    assert done.stdout.count("exit code 1.") == 2
    assert said(done) == 1
    assert "not converged" in done.stderr
    assert "3 iterations" in done.stderr
    assert json.loads((tmp_path / "run.json").read_text())["figures"]["converged"] is False


@pytest.mark.parametrize("geometry", ["stored", "trilinear"])
@pytest.mark.parametrize("precision", ["double", "single"])
def test_options_reach_the_operator(geometry: str, precision: str, tmp_path) -> None:
    record = poisson(tmp_path, "--set", f"geometry={geometry}", "--precision", precision)
    assert record["choices"]["geometry"].startswith(f"{geometry}: requested")
    assert record["case"]["precision"] == precision
    terms = "N_L" if geometry == "stored" else " E"
    assert terms in record["figures"]["formulas"]["iteration_bytes"]


def test_a_mesh_file_of_another_project_runs_on_two_ranks(tmp_path) -> None:
    mesh = SHARED_MESHES / "kershaw.re2"
    if not mesh.is_file():
        pytest.skip("../shared/data/meshes is not beside this checkout")
    words = ["run", "poisson", "--mesh", mesh, "--order", "2", "--set", "solver.iterations=5", "--output", tmp_path]
    done = run_weft(2, *words)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["figures"]["elements"] == 8000
    assert record["figures"]["dofs"] == 41**3
    assert record["figures"]["mesh"] == "kershaw.re2"


# --- bad input -----------------------------------------------------------------------------------------------------


def each_rank(ranks: int, *arguments: object, timeout: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Runs weft on several ranks, each of which prints its own exit code."""
    script = '"$@"; echo "exit code $?."'
    return finish(start(["sh", "-c", script, "sh", *weft_command(*arguments)], ranks=ranks), timeout)


def said(done: subprocess.CompletedProcess[str]) -> int:
    """The number of weft's own messages that a command printed besides its output; a traceback counts as too many."""
    assert "Traceback" not in done.stderr, done.stderr
    return len(messages(done.stderr))


@pytest.fixture(scope="module")
def bad_meshes(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("meshes")
    head = "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n"
    corners = [(x, y, z) for z in (0, 1) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))]

    def gmsh(points: list[tuple[float, ...]]) -> str:
        nodes = "".join(f"{i + 1} {x} {y} {z}\n" for i, (x, y, z) in enumerate(points))
        return f"{head}$Nodes\n8\n{nodes}$EndNodes\n$Elements\n1\n1 5 2 0 1 1 2 3 4 5 6 7 8\n$EndElements\n"

    (folder / "good.msh").write_text(gmsh(corners))
    (folder / "folded.msh").write_text(gmsh([*corners[:6], (0.1, 0.1, 0.1), corners[7]]))
    (folder / "truncated.msh").write_text(gmsh(corners)[:150])
    (folder / "truncated.re2").write_bytes(b"#v003        8  3        8 this is the header".ljust(80) + b"\x00" * 40)
    (folder / "mesh.vtk").write_text("# vtk DataFile Version 3.0\n")
    return folder


BAD = [
    (["--ordr", "3"], 2, "No such option '--ordr'"),
    (["--geometry", "stored"], 2, "as a case key: --set geometry=VALUE"),
    (["--order", "0"], 2, "'order': found 0"),
    (["--order", "16"], 2, "'order': found 16"),
    (["--set", "solver.tolrance=1e-8"], 2, "nearest: 'solver.tolerance'"),
    (["--set", "mesh.counts=[1, 1, 1]"], 1, "rank"),  # more ranks than elements
    (["--mesh", "absent.re2"], 1, "absent.re2"),
    (["--mesh", "mesh.vtk"], 1, "mesh.vtk"),
    (["--mesh", "truncated.re2"], 1, "truncated.re2"),
    (["--mesh", "truncated.msh"], 1, "truncated.msh"),
    (["--mesh", "folded.msh"], 1, "Jacobian"),
    (["--exchange", "pigeon"], 1, "pigeon"),
    (["--case", "absent.toml"], 2, "absent.toml"),
    (["--output", "mesh.vtk/inside"], 1, "mesh.vtk/inside"),
]


@pytest.mark.parametrize(("arguments", "code", "text"), BAD, ids=[" ".join(b[0]) for b in BAD])
def test_bad_input_ends_every_rank_with_one_message_and_its_exit_code(
    arguments, code, text, bad_meshes, tmp_path
) -> None:
    words = [str(bad_meshes / a) if (bad_meshes / a).exists() or "inside" in a else a for a in arguments]
    ranks = 1 if "folded" in words[1] else 2  # that mesh has one element
    output = [] if "--output" in words else ["--output", tmp_path / "output"]
    box = [] if "--mesh" in words else ["--set", "mesh.counts=[3, 2, 2]"]
    done = each_rank(ranks, "run", "poisson", *box, *words, *output)
    assert done.stdout.count(f"exit code {code}.") == ranks, done.stdout + done.stderr
    assert said(done) == 1, done.stderr
    assert text in done.stderr
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize("backend", ["cuda", "hip"])
def test_a_gpu_asked_for_and_absent_is_one_message(backend: str, tmp_path) -> None:
    found = weft.device.info()["backends"][backend]
    if found["available"]:
        pytest.skip(f"there is a {backend} device here")
    done = each_rank(2, "run", "poisson", *SMALL, "--device", backend, "--output", tmp_path)
    assert done.stdout.count("exit code 1.") == 2
    assert said(done) == 1
    assert backend in done.stderr


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ctrl_c_ends_a_run_in_one_line_with_130_and_leaves_nothing(ranks: int, tmp_path) -> None:
    output = tmp_path / "output"
    words = weft_command("run", "poisson", "--order", "7", "--set", "solver.iterations=1000000", "--output", output)
    words += ["--set", "mesh.counts=[20, 20, 20]"]  # whose residual takes seconds to become zero
    process = start(words, ranks=ranks if ranks > 1 else None)
    wait_until(lambda: "solving" in process.said("out"), process)
    time.sleep(1.0)  # into the C++ loop
    started = descendants(process)
    assert len(started) >= ranks
    names = shared_memory(started)
    interrupt(process)
    done = finish(process)
    from weft import mpi

    # Open MPI's launcher answers Ctrl-C with SIGTERM to its ranks and an exit code of its own.
    launcher_code = ranks > 1 and mpi.library_version().startswith("Open MPI")
    assert done.returncode == (1 if launcher_code else 130)
    assert done.stderr.count("weft: terminated" if launcher_code else "weft: interrupted") == 1
    assert "Traceback" not in done.stderr
    wait_until(lambda: not alive(started))
    assert not output.exists()
    assert launcher_code or not [name for name in names if Path(name).exists()]


def shared_memory(pids: Sequence[int]) -> set[str]:
    """The files of MPICH's shared memory that these processes have open."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= set(re.findall(r"/dev/shm/mpich_shm_\w+$", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE))
    return found


def test_a_sweep_that_is_told_to_end_takes_its_ranks_and_its_folder_along(tmp_path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    words = weft_command("bench", "exchange", "--ranks", "2", "--seconds", "1", "--output", tmp_path / "results")
    process = start(words, {**VARIABLES, "TMPDIR": str(folder)})
    wait_until(lambda: len(descendants(process)) > 3 and any(folder.glob("weft-exchange-*")), process)
    started = descendants(process)
    process.terminate()  # it alone, as a batch system may
    done = finish(process)
    assert done.returncode == 143
    assert done.stderr.count("weft: terminated") == 1
    assert "Traceback" not in done.stderr
    wait_until(lambda: not alive(started))
    assert not any(folder.glob("weft-exchange-*"))
    assert not (tmp_path / "results").exists()


# --- the command line itself ---------------------------------------------------------------------------------------


def test_output_to_an_ascii_terminal_respells_characters_that_it_lacks() -> None:
    code = "from weft.cli.spelling import *; spell_as_the_terminal_can(); print('3 µs of 2 … \u2603')"
    spelled = {
        encoding: finish(start([sys.executable, "-c", code], {**VARIABLES, "PYTHONIOENCODING": encoding})).stdout
        for encoding in ("ascii", "utf-8")
    }
    assert spelled == {"ascii": "3 us of 2 ... ?\n", "utf-8": "3 µs of 2 … \u2603\n"}


def shell(command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command line of the shell, in which "$@" are the words of ``weft``. Output is buffered, as usual."""
    return finish(start(["bash", "-c", f"unset PYTHONUNBUFFERED; {command}", "bash", *weft_command(*words)]))


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_run_whose_output_is_closed_writes_its_record_and_nothing_into_it(closed: str, tmp_path) -> None:
    done = shell(f'"$@" {closed}', "run", "poisson", *SMALL, "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads((tmp_path / "out" / "run.json").read_text())["figures"]["iterations"] > 0


def test_an_error_whose_output_is_closed_is_told_on_stderr_with_its_exit_code(tmp_path) -> None:
    done = shell('"$@" >&-', "run", "poisson", "--order", "99")
    assert done.returncode == 2
    assert said(done) == 1
    assert "'order'" in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["cases", "flow"], ["run", "poisson", *SMALL]])
def test_output_that_cannot_be_written_is_one_line_and_an_exit_code(words: list[str], tmp_path) -> None:
    if words[0] == "run":
        words = [*words, "--output", str(tmp_path / "out")]
    done = shell('"$@" >/dev/full', *words)
    assert done.returncode == 1
    assert done.stderr == "weft: standard output: No space left on device\n"


def test_a_reader_that_leaves_early_ends_a_command_in_silence() -> None:
    done = shell('"$@" | true; echo ${PIPESTATUS[0]}', "cases", "flow")
    assert done.stdout in ("1\n", "0\n")  # 0 if all was written before
    assert done.stderr == ""


def test_help_needs_neither_numpy_nor_the_cases() -> None:
    """These imports took half a second of the start, for which every user waits."""
    code = """
        import sys
        from click.testing import CliRunner
        from weft.cli.main import weft_command

        for words in (["--help"], ["model", "--help"]):
            assert CliRunner().invoke(weft_command, words).exit_code == 0
        heavy = {"numpy", "scipy", "pydantic", "matplotlib", "mpi4py", "weft._weft"} & set(sys.modules)
        assert not heavy, heavy
        """
    done = finish(start([sys.executable, "-c", textwrap.dedent(code)]))
    assert done.returncode == 0, done.stderr


def test_every_command_and_option_has_help_that_fits_80_columns() -> None:
    commands: list[tuple[list[str], click.Command]] = [([], weft_group)]
    for words, command in commands:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None, name
                commands.append(([*words, name], below))
        assert command.help, words
        for option in command.params:
            assert isinstance(option, click.Argument) or getattr(option, "help", None), (words, option.name)
        shown = CliRunner().invoke(weft_group, [*words, "--help"], terminal_width=80).output
        assert shown.startswith(f"Usage: {' '.join(['weft', *words])} "), shown
        assert max(map(len, shown.splitlines())) <= 80, shown
        assert "..." not in shown.partition("Options:")[2].replace("[ARGS]...", "").replace(", ...]", ""), shown
        assert "RANGE" not in shown, "what people call a number is N or X"
    assert len(commands) > 40


# --- other commands ------------------------------------------------------------------------------------------------


def test_a_trace_of_two_ranks_has_both_and_is_summarised(tmp_path) -> None:
    poisson(tmp_path, "--trace", "--set", "solver.iterations=5", ranks=2)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in spans} == {0, 1}
    assert {"cpu", "mpi"} <= {e["cat"] for e in spans}
    done = run("trace", "summary", tmp_path / "trace.json")
    assert done.returncode == 0
    events = sum(max(1, len(e["args"].get("sends", ())) + len(e["args"].get("receives", ()))) for e in spans)
    assert f"weft: {events} events of 2 processes" in done.stdout
    assert "mpi" in done.stdout


def test_a_report_of_an_older_record_is_shown_or_said_to_be_too_old(tmp_path) -> None:
    record = poisson(tmp_path)
    del record["schema"]
    record["choices"]["exchange"] = "pairwise:direct"  # as in records of 0.1.0, before exchanges were tuned
    (tmp_path / "old.json").write_text(json.dumps(record))
    done = run("report", tmp_path / "old.json")
    assert done.returncode == 0, done.stderr
    assert "pairwise:direct" in done.stdout
    del record["figures"]["elements"]
    (tmp_path / "old.json").write_text(json.dumps(record))
    done = run("report", tmp_path / "old.json")
    assert done.returncode == 1
    assert "written by weft 0.1.0" in done.stderr
    assert "'elements'" in done.stderr


def test_a_report_is_one_page_that_needs_nothing_else(tmp_path) -> None:
    record = poisson(tmp_path)
    done = run("report", tmp_path / "run.json")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "run.html").read_text()
    fom = rate(1e9 * record["figures"]["fom_gflops"], "FLOP/s")
    assert fom in page
    assert fom in done.stdout
    assert page.count("data:image/svg+xml;base64,") == 2
    assert "<script" not in page
    assert 'src="http' not in page


def test_a_report_of_something_else_says_so(tmp_path) -> None:
    (tmp_path / "run.json").write_text('{"case": {}}')
    done = run("report", tmp_path / "run.json")
    assert done.returncode == 1
    assert said(done) == 1
    assert "missing" in done.stderr


def test_info_names_every_backend_and_why_one_is_absent() -> None:
    done = run("info")
    assert done.returncode == 0, done.stderr
    lines = {line[:17].strip(): line for line in done.stdout.splitlines()}
    for name, found in weft.device.info()["backends"].items():
        assert ("found" if found["available"] else f"absent: {found['reason']}") in lines[f"backend {name}"]
    for name in ("weft", "threads", "MPI", "GPU-aware", "host bandwidth"):
        assert name in lines


def test_bench_operator_measures_each_order_and_geometry(tmp_path) -> None:
    done = run("bench", "operator", "--orders", "1,3", "--dofs", 5000, "--repeats", 3, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "operator.json").read_text())
    assert [(r["order"], r["geometry"]) for r in record["rows"]] == [
        (n, g) for n in (1, 3) for g in ("stored", "trilinear", "box")
    ]
    for row in record["rows"]:
        n = row["order"] + 1
        assert row["flops"] == row["elements"] * (12 * n**4 + 18 * n**3)
        assert row["dofs"] == math.prod(c * row["order"] + 1 for c in row["box"])
        assert row["gflops"] == pytest.approx(row["flops"] / row["seconds"] / 1e9)
        roofline = row["flops"] / row["bytes_paper"] * record["rates"]["bandwidth_bytes_per_second"] / 1e9
        assert row["roofline_gflops"] == pytest.approx(min(roofline, record["rates"]["peak_flops_per_second"] / 1e9))
        assert row["bytes_formula"] in ("16 N_G + 4 E ((N+1)^3 - (N-1)^3) + 48 N_L",
                                        "16 N_G + 4 E ((N+1)^3 - (N-1)^3) + 192 E")  # fmt: skip
    assert (tmp_path / "operator.png").stat().st_size > 10000


def test_bench_scaling_sweeps_sizes_and_ranks(tmp_path) -> None:
    done = run("bench", "scaling", "poisson", "--ranks", "1,2", "--orders", "3", "--sizes", "500-2000", "--steps", 2,
               "--set", "solver.iterations=5", "--output", tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "scaling.json").read_text())["rows"]
    assert sorted({r["ranks"] for r in rows}) == [1, 2]
    assert len(rows) == 4
    for row in rows:
        assert 300 < row["dofs"] / row["ranks"] < 3500
        assert row["fom_gflops"] > 0
    assert (tmp_path / "scaling-N3.png").stat().st_size > 10000


def test_bench_scaling_stops_at_a_run_that_fails_and_says_what_it_said(tmp_path) -> None:
    done = run("bench", "scaling", "poisson", "--ranks", "2", "--orders", "3", "--sizes", "500-500", "--steps", 1,
               "--set", "exchange=pigeon", "--output", tmp_path)  # fmt: skip
    assert done.returncode == 1
    assert said(done) == 1
    assert "pigeon" in done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["bench", "operator", "--orders", "0-3"], "between 1 and 15"),
        (["bench", "operator", "--orders", "x"], "found 'x'"),
        (["bench", "operator", "--geometry", "round"], "stored, trilinear, box"),
        (["bench", "scaling", "poisson", "--sizes", "5"], "two integers"),
        (["run", "poison"], "Did you mean 'poisson'"),
        (["trace", "summary", "absent.json"], "absent.json: No such file"),
    ],
)
def test_other_commands_refuse_nonsense_in_one_line(words: list[str], text: str) -> None:
    done = run(*words)
    assert done.returncode in (1, 2)
    assert said(done) == 1
    assert text in done.stderr


def test_help_of_run_lists_the_shared_options() -> None:
    done = run("run", "poisson", "--help")
    for flag in ("--case", "--mesh", "--order", "--device", "--precision", "--exchange", "--set", "--output", "--trace",
                 "--quiet", "--preconditioner", "--tolerance"):  # fmt: skip
        assert flag in done.stdout


def test_cases_lists_every_key_with_unit_and_help_and_writes_a_file_that_runs(tmp_path) -> None:
    done = run("cases", "poisson")
    assert "solver.tolerance" in done.stdout
    assert "hipbone" in done.stdout
    path = tmp_path / "mine.toml"
    path.write_text(run("cases", "poisson", "--toml").stdout)
    assert poisson(tmp_path, "--case", path)["figures"]["order"] == 4


@pytest.mark.parametrize("name", ["operator", "ratio", "fft", "pingpong", "exchange", "alltoall", "scaling flow"])
def test_an_output_that_cannot_be_written_ends_a_benchmark_before_it_measures(tmp_path, name: str) -> None:
    (tmp_path / "file").touch()
    words = ["bench", *name.split(), "--output", str(tmp_path / "file" / "folder")]
    done = CliRunner().invoke(weft_group, words, standalone_mode=False)
    assert isinstance(done.exception, NotADirectoryError)
    assert not done.output


# --- README --------------------------------------------------------------------------------------------------------

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_python_of_the_readme_runs_on_one_and_two_ranks_and_solves_its_problem(tmp_path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (tmp_path / "script.py").write_text(code)
    for ranks in (1, 2):
        done = finish(start([sys.executable, str(tmp_path / "script.py")], ranks=ranks))
        assert done.returncode == 0, done.stderr
        assert len(re.findall("19683 unknowns", done.stdout)) == ranks
        assert float(re.search(r"error (\S+)", done.stdout)[1]) < 1e-8


def test_the_output_in_the_readme_has_the_lines_a_run_prints(tmp_path) -> None:
    text = README.read_text()
    [shown] = re.findall(r"<!-- first run.*?```\n(.*?)```", text, re.DOTALL)
    done = run("run", "poisson", *SMALL, "--output", tmp_path)

    def labels(output: str) -> set[str]:
        lines = (line[:12].strip() for line in output.splitlines() if not line.startswith("weft"))
        return {label for label in lines if label}  # none: a line that goes on

    assert labels(shown) == labels(done.stdout)
