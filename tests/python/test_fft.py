"""weft.fft.Plan compared with numpy.fft on 1 to 4 ranks, its choices, and its errors for bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi_run import SECONDS, Workers, mpi_prints, mpi_run

import weft
from weft import fft

EXAMPLES = {1: 12, 2: 12, 3: 8, 4: 8}


@pytest.fixture(scope="module", params=EXAMPLES)
def ranks(request):
    workers = Workers(request.param, "fft_worker.py")
    yield workers
    workers.close()


def grids(ranks: int) -> list[str]:
    return [f"{rows}x{ranks // rows}" for rows in range(1, ranks + 1) if ranks % rows == 0]


def check(answers: list[dict]) -> None:
    for answer in answers:
        assert answer["wrong"] == ""
        assert answer["forward"] < 1
        assert answer["backward"] < 1
        assert answer["round_trip"] < 1


# Also more ranks than planes, and odd and prime sizes.
SIZE = st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 20])


def test_plans_give_numpys_coefficients_for_any_size_grid_batch_and_precision(ranks):
    @settings(max_examples=EXAMPLES[ranks.number], deadline=None, derandomize=True)
    @given(
        shape=st.tuples(SIZE, SIZE, SIZE),
        grid=st.sampled_from(grids(ranks.number)),
        variables=st.integers(1, 3),
        batch=st.integers(1, 4),
        dtype=st.sampled_from(["float64", "float32"]),
        norm=st.sampled_from(["backward", "forward", "ortho"]),
        exchange=st.sampled_from(["pairwise:direct", "alltoallv:direct", "pairwise:staged"]),
        kept=st.floats(0, 1),
        seed=st.integers(0, 1000),
    )
    def run(shape, grid, variables, batch, dtype, norm, exchange, kept, seed):
        modes = shape[2] // 2 + 1
        case = {
            "shape": shape, "grid": grid, "variables": variables, "batch": batch, "dtype": dtype, "norm": norm,
            "exchange": exchange, "modes_x": None if kept > 0.6 else max(1, int(kept * modes)), "seed": seed,
        }  # fmt: skip
        answers = ranks.ask(case)
        check(answers)
        assert sum(a["points"] for a in answers) == np.prod(shape)
        assert sum(a["modes"] for a in answers) == shape[0] * shape[1] * (case["modes_x"] or modes)

    run()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((90, 98, 126), "float64"),
        ((110, 105, 200), "float32"),
        ((1500, 100, 8), "float64"),
        ((600000, 1, 2), "float64"),
    ],
)
def test_fields_between_the_second_level_cache_and_memory_are_numpys_too(shape, dtype):
    plan = fft.Plan(shape, dtype=dtype)
    field = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    coefficients = plan.forward(field)
    scale = np.sqrt(np.prod(shape)) * (1e-5 if dtype == "float32" else 1e-14)
    np.testing.assert_allclose(coefficients, np.fft.rfftn(field.astype("f8")), rtol=0, atol=scale)
    again = plan.backward(coefficients, overwrite=True)
    np.testing.assert_allclose(again, field, rtol=0, atol=1e-5 if dtype == "float32" else 1e-14)


def check_tuning(answers: list[dict]) -> dict:
    """Returns the tuning; checks that it is the same on all ranks, chose a candidate timed last, and gives a reason."""
    check(answers)
    tunings = [answer["tuning"] for answer in answers]
    assert all(tuning == tunings[0] for tuning in tunings)
    tuning = tunings[0]
    setting = ("process_grid", "batch", "row_exchange", "column_exchange")
    for row in tuning["timings"]:
        assert row["failure"] == ""
        assert row["median_seconds"] > 0
        assert row["repetitions"] > 0
    names = list(dict.fromkeys(row["race"] for row in tuning["timings"]))
    if names:
        last = [row for row in tuning["timings"] if row["race"] == names[-1]]
        assert any(all(row[key] == tuning[key] for key in setting) for row in last)
        timed = [part for part in tuning["reason"].split("; ") if "as in an earlier run" not in part]
        assert [part.split(":")[0] for part in timed] == names
    assert answers[0]["grid"] == tuning["process_grid"]
    return tuning


def test_the_tuner_tries_every_grid_and_batch_and_all_ranks_take_the_same(ranks):
    case = {
        "shape": (16, 12, 20), "grid": "auto", "variables": 3, "batch": "auto", "dtype": "float64", "norm": "backward",
        "exchange": "pairwise:direct", "modes_x": None, "seed": 1,
    }  # fmt: skip
    tuning = check_tuning(ranks.ask(case))
    # One rank's fields have races of their own.
    tried = {
        (row["race"], row["process_grid"], row["batch"])
        for row in tuning["timings"]
        if row["race"] in ("grid", "batch")
    }
    all_grids = grids(ranks.number)
    expected = {("batch", tuning["process_grid"], batch) for batch in (1, 2, 3)}
    assert tried == expected | ({("grid", grid, 1) for grid in all_grids} if len(all_grids) > 1 else set())


def test_the_tuner_tries_every_exchange_that_works_on_the_two_best_grids(ranks):
    case = {
        "shape": (16, 12, 20), "grid": "auto", "variables": 1, "batch": 1, "dtype": "float32", "norm": "forward",
        "exchange": "auto", "modes_x": 5, "seed": 1,
    }  # fmt: skip
    tuning = check_tuning(ranks.ask(case))
    if ranks.number == 1:  # nothing is exchanged; libraries, if there are several, are timed
        assert {row["race"] for row in tuning["timings"]} <= {"library"}
        return
    rows = [row for row in tuning["timings"] if row["race"] == "exchange"]
    assert len({row["process_grid"] for row in rows}) == 2
    for row in rows:
        rows_of, columns_of = (int(n) for n in row["process_grid"].split("x"))
        assert (row["row_exchange"] != "") == (rows_of > 1)
        assert (row["column_exchange"] != "") == (columns_of > 1)
    schedules = {(row["row_exchange"] or row["column_exchange"]).split(":")[0] for row in rows}
    assert schedules == {"pairwise", "alltoallv", "neighbor", "crystal"}
    for grid in {row["process_grid"] for row in rows}:
        mine = [row["row_exchange"] or row["column_exchange"] for row in rows if row["process_grid"] == grid]
        assert len(mine) == len(set(mine)) > 3


WAYS = """
    import json
    import numpy as np
    import weft.fft
    field = np.random.default_rng(1).standard_normal((12, 9, 10))
    plan = weft.fft.Plan(field.shape)
    modes = plan.forward(field)
    back = plan.backward(modes)
    print(json.dumps([plan.tuning, modes.tobytes().hex(), back.tobytes().hex(), weft.fft.libraries()[0]["name"]]))
"""


@pytest.mark.parametrize("libraries", ["auto", "fftw"])
def test_the_way_of_one_ranks_fields_is_timed_once_and_kept_so_that_runs_repeat(tmp_path, libraries):
    def run(cache: str) -> list:
        return json.loads(mpi_prints(1, WAYS, WEFT_CACHE=cache, WEFT_FFT=libraries))

    tuning, *values, library = run(str(tmp_path))
    for race in ("forward", "backward", "overwriting"):
        rows = [row for row in tuning["timings"] if row["race"] == race]
        assert all(row["failure"] == "" for row in rows)
        ways = {row[race].split(",")[0] for row in rows}
        assert ways == {"panels", "planes", "3-D plan"}
        assert "planes, fftw-measured" in {row[race] for row in rows}
        assert tuning[race] in {row[race] for row in rows}
        assert f"{race}: fastest of" in tuning["reason"]
    kept, *again, _ = run(str(tmp_path))
    assert again == values
    assert kept["timings"] == []
    for race in ("forward", "backward", "overwriting"):
        assert kept[race] == tuning[race]
        assert f"{race}: {tuning[race]}, as in an earlier run" in kept["reason"]
    untimed, *_ = run("off")
    assert untimed["timings"] == []
    assert untimed["forward"] == f"planes, {library}"


def test_one_rank_needs_no_mpi_of_its_own_and_arrays_may_be_given():
    plan = fft.Plan((6, 4, 10), exchange="pairwise:direct")
    field = np.random.default_rng(1).standard_normal((6, 4, 10))
    field.flags.writeable = False  # inputs are only read
    out = np.empty(plan.spectral_shape, complex)
    assert plan.forward(field, out) is out
    np.testing.assert_allclose(out, np.fft.rfftn(field), atol=1e-12)
    assert plan.process_grid == "1x1"
    assert plan.physical_slices == (slice(0, 6), slice(0, 4), slice(0, 10))
    assert plan.shape == (6, 4, 10)
    assert fft.Plan(np.array([6, 4, 10]), exchange="pairwise:direct", batch=np.int64(2), variables=2).batch == 2
    assert sum(plan.memory_bytes.values()) >= 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"process_grid": "2x2"}, r"2x2.*1x1"),
        ({"process_grid": "two"}, "two"),
        ({"shape": (0, 4, 4)}, "at least 1"),
        ({"shape": (4, 4)}, r"\(nz, ny, nx\)"),
        ({"shape": (4, 4, 8.5)}, "integer"),
        ({"batch": 0}, "batch"),
        ({"batch": "2"}, "batch"),
        ({"variables": 0}, "variables"),
        ({"norm": "none"}, "backward, forward, ortho"),
        ({"modes_x": 6}, "modes_x|modes"),
        ({"modes_x": 0}, "modes_x"),
        ({"exchange": "pigeon"}, "pigeon"),
        ({"dtype": "int32"}, "float64 or float32"),
        ({"device": "abacus"}, "abacus"),
    ],
)
def test_a_plan_that_cannot_be_is_an_error_that_names_what_is_wrong(change, words):
    arguments = {"shape": (4, 4, 8), **change}
    with pytest.raises((ValueError, TypeError, RuntimeError), match=words):
        fft.Plan(**arguments)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: np.zeros((4, 4, 9)), ValueError, "4 x 4 x 9; expected 4 x 4 x 8"),
        (lambda: np.zeros((4, 8)), ValueError, "expected 4 x 4 x 8"),
        (lambda: np.zeros((1, 2, 4, 4, 8)), ValueError, "expected 4 x 4 x 8"),
        (lambda: np.zeros((4, 4, 8), "f4"), TypeError, "float64"),
        (lambda: np.zeros((4, 4, 8), complex), TypeError, "float64"),
        (lambda: np.zeros((4, 4, 16))[..., ::2], ValueError, "not contiguous"),
        (lambda: np.zeros((8, 4, 4)).T, ValueError, "not contiguous"),
        (lambda: [1.0], TypeError, "array of NumPy"),
    ],
)
def test_an_array_that_does_not_fit_is_refused_by_name(make, error, words):
    plan = fft.Plan((4, 4, 8))
    with pytest.raises(error, match=f"physical.*{words}"):
        plan.forward(make())


def test_outputs_that_do_not_fit_are_refused():
    plan = fft.Plan((4, 4, 8))
    field = np.zeros((4, 4, 8))
    with pytest.raises(ValueError, match="2 and 3"):
        plan.forward(np.zeros((2, 4, 4, 8)), np.zeros((3, 4, 4, 5), complex))
    read_only = np.zeros((4, 4, 5), complex)
    read_only.flags.writeable = False
    with pytest.raises(TypeError, match="spectral must be a writable array"):
        plan.forward(field, read_only)


def test_a_wrong_array_on_one_rank_is_one_error_on_all_and_no_rank_waits():
    code = """
        import numpy as np
        from mpi4py import MPI
        import weft.fft
        from weft.mpi import CollectiveError
        comm = MPI.COMM_WORLD
        plan = weft.fft.Plan((8, 8, 8), comm, process_grid="3x1", exchange="pairwise:direct")
        good = np.ones(plan.physical_shape)
        bad = np.ones((1, 2, 3)) if comm.rank == 1 else good
        texts = []
        for call in (lambda: plan.forward(bad),
                     lambda: plan.forward(good) if comm.rank else plan.backward(np.ones(plan.spectral_shape, complex)),
                     lambda: plan.forward(np.ones((2 if comm.rank else 1, *plan.physical_shape)))):
            try:
                call()
            except CollectiveError as error:
                texts.append(str(error))
        assert len(texts) == 3 and len(set(comm.allgather(tuple(texts)))) == 1, texts
        assert "1 x 2 x 3" in texts[0] and "rank 1" in texts[0], texts
        assert "different calls" in texts[1] and "number of variables" in texts[2], texts
        plan.forward(good)
    """
    done = mpi_run(3, code)
    assert done.returncode == 0, done.stderr


def test_the_library_is_told_and_the_choice_of_the_user_is_kept():
    assert [(found["name"], found["problem"]) for found in fft.libraries()] in (
        [("fftw", "")],
        [("mkl", ""), ("fftw", "")],
    )
    for backend in ("cuda", "hip"):
        (found,) = fft.libraries(backend)
        assert (found["problem"] == "") == bool(found["version"])
    with pytest.raises(ValueError, match="abacus"):
        fft.libraries("abacus")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WEFT_FFT": "/nowhere/libfftw3.so.3"}, "WEFT_FFT=/nowhere/libfftw3.so.3 is neither"),
        ({"WEFT_FFT": "libm.so.6"}, "it lacks "),
    ],
)
def test_a_library_that_cannot_be_used_is_an_error_that_says_why(variables, words):
    code = "import weft.fft; weft.fft.Plan((4, 4, 4), exchange='pairwise:direct')"
    done = mpi_run(1, code, **variables)
    assert done.returncode != 0
    assert words in done.stderr


def test_the_folders_of_the_environments_libraries_can_be_printed():
    done = subprocess.run([sys.executable, "-P", fft.fft_library.__file__], capture_output=True, text=True, check=True)
    assert done.stdout.strip().split(":") == fft.fft_library.folders()
    assert weft.fft is fft


def test_turbulence_alone_knows_the_libraries_of_this_environment() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "WEFT_FFT_PATH"}
    code = "import os, weft.turbulence; print(os.environ['WEFT_FFT_PATH'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=SECONDS
    )
    assert done.stdout.strip().split(":") == fft.fft_library.folders()
