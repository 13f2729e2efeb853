"""The choice of schedule and path: timed, printed, forced, and stored on disk."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from mpi_run import VARIABLES, finish, mpi_run, run_weft, start

SHARED_LINE = """
    import json
    import numpy as np
    from mpi4py import MPI
    import weft
    comm = MPI.COMM_WORLD
    ids = 1 + np.arange(400) + 300 * comm.rank      # a hundred ids shared with the next rank
"""


def lines(done) -> list:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_choice_is_timed_the_same_on_all_ranks_and_leaves_the_arrays_alone(ranks):
    code = (
        SHARED_LINE
        + """
    gs = weft.GatherScatter(ids, comm, fields=2)
    x = np.random.default_rng(comm.rank).random((400, 2))
    before = x.copy()
    tuning = gs.tuning
    assert (x == before).all()
    forced = weft.GatherScatter(ids, comm, fields=2, exchange="pairwise:direct")
    assert forced.tuning["gather_scatter"]["timings"] == []
    assert forced.tuning["gather_scatter"]["reason"] == "requested" or comm.size == 1
    assert (gs(x) == forced(before)).all()
    dofs = gs.gather(x)
    gs.scatter(dofs)
    everyone = comm.gather(gs.tuning)
    if comm.rank == 0:
        print(json.dumps([tuning, everyone]))
    """
    )
    [(first, everyone)] = lines(mpi_run(ranks, code))
    assert list(first) == ["gather_scatter"]
    assert all(tuning == everyone[0] for tuning in everyone)
    assert set(everyone[0]) == {"gather_scatter", "halo", "gather"}
    for tuning in everyone[0].values():
        assert not tuning["cached"]
        if ranks == 1:
            assert tuning["timings"] == []
            assert tuning["tuning_seconds"] == 0
            continue
        assert tuning["tuning_seconds"] > 0
        names = [row["exchange"] for row in tuning["timings"]]
        assert len(set(names)) == len(names)
        assert {"pairwise:direct", "crystal:direct"} <= set(names)
        for row in tuning["timings"]:
            assert row["failure"] == ""
            assert row["median_seconds"] > 0
            assert 1 <= row["repetitions"] <= 50
        chosen = next(row for row in tuning["timings"] if row["exchange"] == tuning["chosen"])
        assert not chosen["stopped_early"]
        smallest = min(
            row["median_seconds"]
            for row in tuning["timings"]
            if row["repetitions"] == chosen["repetitions"] and not row["stopped_early"]
        )
        apart = "cannot be distinguished" not in tuning["reason"]
        assert chosen["median_seconds"] == smallest or not apart, tuning


@pytest.mark.parametrize("text", ["teleport", "pairwise:teleport", "pairwise:", ""])
def test_an_exchange_that_does_not_exist_is_one_error_on_all_ranks(text):
    code = (
        SHARED_LINE
        + f"""
    try:
        weft.GatherScatter(ids, comm, exchange={text!r})
    except weft.mpi.CollectiveError as error:
        texts = comm.gather(str(error))
        if comm.rank == 0:
            print(json.dumps(texts))
    """
    )
    [texts] = lines(mpi_run(2, code))
    assert len(set(texts)) == 1
    assert "known: auto" in texts[0]


CACHED = (
    SHARED_LINE
    + """
    gs = weft.GatherScatter(ids, comm, cache=True)
    tuning = gs.tuning["gather_scatter"]
    if comm.rank == 0:
        print(json.dumps(tuning))
"""
)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def tuned(cache) -> dict:
    [tuning] = lines(mpi_run(2, CACHED, WEFT_CACHE=str(cache)))
    return tuning


def test_a_second_run_takes_what_the_first_found_and_another_pattern_does_not(cache):
    first = tuned(cache)
    assert not first["cached"]
    [entry] = cache.iterdir()
    assert entry.suffix == ".tuning"
    second = tuned(cache)
    assert second["cached"]
    assert {**second, "cached": False} == first
    [other] = lines(mpi_run(2, CACHED.replace("300 *", "299 *"), WEFT_CACHE=str(cache)))
    assert not other["cached"]
    [fields] = lines(mpi_run(2, CACHED.replace("cache=", "fields=2, cache="), WEFT_CACHE=str(cache)))
    assert not fields["cached"]
    assert len(list(cache.iterdir())) == 3


@pytest.mark.parametrize("damage", ["cut", "altered", "empty", "another version's"])
def test_a_damaged_entry_is_told_of_and_written_again(cache, damage):
    tuned(cache)
    [entry] = cache.iterdir()
    content = entry.read_bytes()
    entry.write_bytes(
        {
            "cut": content[:-10],
            "altered": content[:-10] + b"9" + content[-9:],
            "empty": b"",
            "another version's": content.replace(b"weft tuning 1", b"weft tuning 0", 1),
        }[damage]
    )
    done = mpi_run(2, CACHED, WEFT_CACHE=str(cache))
    assert not lines(done)[0]["cached"]
    assert done.stderr.count("damaged; timing again") == 1
    assert tuned(cache)["cached"]


def test_jobs_of_twelve_processes_at_once_leave_one_whole_entry(cache):
    words = [sys.executable, "-c", textwrap.dedent(CACHED)]
    variables = {**VARIABLES, "WEFT_CACHE": str(cache)}
    jobs = [start(words, variables, ranks=2) for _ in range(6)]
    written = [lines(finish(job))[0] for job in jobs]
    [entry] = cache.iterdir()
    assert entry.suffix == ".tuning"
    last = tuned(cache)
    assert last["cached"]
    assert {**last, "cached": False} in [{**tuning, "cached": False} for tuning in written]


def test_without_being_asked_nothing_is_kept(cache):
    lines(mpi_run(2, CACHED.replace("cache=True", "cache=False"), WEFT_CACHE=str(cache)))
    assert not cache.exists()


def weft_run(ranks: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    small = ["--order", 3, "--set", "mesh.counts=[3, 2, 2]", "--set", "solver.iterations=2"]
    return run_weft(ranks, "run", "poisson", *small, *arguments)


@pytest.mark.parametrize(
    ("storage", "order", "reused"),
    [
        ("assembled", 3, {"halo": False, "gather": False}),
        ("assembled", 1, {"halo": False, "gather": True}),  # short messages
        ("scattered", 3, {"gather_scatter": False}),
    ],
)
def test_a_run_tells_its_choice_and_keeps_the_table_in_its_record(tmp_path, storage, order, reused):
    done = weft_run(2, "--verbose", "--order", order, "--set", f"storage={storage}", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    tunings = json.loads((tmp_path / "run.json").read_text())["choices"]["exchange"]
    assert {use: tuning["reused"] for use, tuning in tunings.items()} == reused
    assert " ".join(done.stdout.split()).count("for an equal exchange") == sum(reused.values())
    shown = [tuning["timings"] for use, tuning in tunings.items() if not reused[use]]
    assert done.stdout.count("median of") == sum(map(len, shown))
    for use, tuning in tunings.items():
        assert tuning["tuning_seconds"] > 0
        assert f"{use.replace('_', '-')} {tuning['chosen']}: fastest of" in done.stdout
        for row in tuning["timings"]:
            assert row["median_seconds"] > 0
            assert row["exchange"] in done.stdout
    short = weft_run(2, "--set", f"storage={storage}", "--exchange", "pairwise:staged", "--output", tmp_path)
    assert short.returncode == 0, short.stderr
    assert "pairwise:staged: requested" in short.stdout
    assert "median of" not in short.stdout


def test_quiet_and_verbose_do_not_go_together(tmp_path):
    done = weft_run(1, "--quiet", "--verbose", "--output", tmp_path)
    assert done.returncode != 0
    assert "--quiet and --verbose cannot be used together" in done.stderr


def test_the_access_to_surface_points_is_kept_on_disk_and_told_by_verbose_alone(cache, tmp_path):
    case = ["--set", "mesh.counts=[3,3,3]", "--order", "7", "--exchange", "pairwise:direct"]
    kept = ["--set", "exchange_cache=true"]

    def access(*more: str) -> tuple[list[str], str]:
        folder = tmp_path / "run"
        done = run_weft(2, "run", "poisson", *case, *more, "--output", folder, WEFT_CACHE=str(cache))
        assert done.returncode == 0, done.stderr
        told = [line for line in done.stdout.splitlines() if line.strip().startswith("access")]
        return told, json.loads((folder / "run.json").read_text())["choices"]["access"]

    told, first = access(*kept)
    assert told == []
    assert first.split(":")[0] in ("gather", "loads", "gather and runs", "loads and runs")
    [line], second = access(*kept, "--verbose")
    assert second == first + ", kept from an earlier run"
    assert first.split(":")[0] in line
    assert "kept" not in access()[1]


METRIC = """
    import json
    import numpy as np
    import weft
    mesh = weft.Mesh.box((4, 4, 4), deformation="kershaw")
    found = {}
    for geometry in ("auto", "trilinear", "stored"):
        op = weft.Poisson(mesh, 4, geometry=geometry, exchange="pairwise:direct")
        x = op.cg(op.random_rhs(), iterations=20).x
        found[geometry] = [op.geometry, op.choices["geometry"], np.asarray(x).tobytes().hex()]
    everyone = mesh.comm.gather(found)
    if mesh.comm.rank == 0:
        print(json.dumps(everyone))
"""


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_metric_of_straight_elements_is_timed_once_and_later_runs_repeat_bit_for_bit(ranks, cache):
    [first] = lines(mpi_run(ranks, METRIC, WEFT_CACHE=str(cache)))
    [second] = lines(mpi_run(ranks, METRIC, WEFT_CACHE=str(cache)))
    [untimed] = lines(mpi_run(ranks, METRIC, WEFT_CACHE="off"))
    chosen = first[0]["auto"][0]  # mixed: some elements are parallelepipeds
    assert chosen in ("trilinear", "mixed")
    assert f"is {'recomputed' if chosen == 'trilinear' else 'stored'}, fastest of 2 ways" in first[0]["auto"][1]
    for before, after, off in zip(first, second, untimed, strict=True):
        assert after["auto"][:1] == before["auto"][:1] == [chosen]
        assert after["auto"][2] == before["auto"][2]
        assert off["auto"][0] == "trilinear"
        assert off["auto"][2] == before["trilinear"][2]
        for forced in ("trilinear", "stored"):
            assert before[forced][0] == forced
            assert before[forced][1].startswith(f"{forced}: requested")
            assert before[forced][2] == after[forced][2] == off[forced][2]
    assert ", kept from an earlier run" in second[0]["auto"][1]
