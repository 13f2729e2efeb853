"""weft.GatherScatter compared with a serial NumPy reference, and its errors for bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi_run import Workers, mpi_prints, mpi_run

# One launch per number of ranks. If many ranks share few cores, a case takes long, so there are fewer. tests/cpp runs
# the schedules themselves on more numbers of ranks.
EXAMPLES = {1: 20, 2: 30, 3: 12, 4: 12, 5: 4, 6: 3, 7: 3, 8: 3, 13: 2, 16: 2}


@pytest.fixture(scope="module", params=EXAMPLES)
def ranks(request):
    workers = Workers(request.param, "exchange_worker.py")
    yield workers
    workers.close()


OPS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
TYPES = ("int64", "int32", "float64", "float32")
SCHEDULES = ("pairwise", "alltoallv", "neighbor", "crystal")
rank_ids = st.one_of(
    st.just([]),
    st.lists(st.integers(-2, 12), max_size=30),
    st.lists(st.sampled_from([-5, 0, 1, 7, 2**31, 2**31 + 1, 2**62, 2**63 - 1]), max_size=20),
    st.just(list(range(1, 13))),  # includes the cases of the small ones
)


def draw_case(data, number: int, rough: bool) -> dict:
    """Random ids of every rank; all schedules and paths run each case, in both layouts if that differs."""
    if number <= 4:
        ids = [data.draw(rank_ids, label=f"ids of rank {r}") for r in range(number)]
    else:  # of so few examples none should be a trivial one
        random = np.random.default_rng(data.draw(st.integers(0, 2**32), label="seed of the ids"))
        ids = [random.integers(-2, 40, random.choice([0, 5, 30])).tolist() for _ in range(number)]
    op = data.draw(st.sampled_from(sorted(OPS)), label="op")
    fields = data.draw(st.sampled_from([1, 2, 6]), label="fields")
    kind = data.draw(st.sampled_from(TYPES[2:] if rough else TYPES), label="type")
    case = {"ids": ids, "fields": fields, "type": kind, "op": op}
    case["layouts"] = ["points", "fields"] if fields > 1 else ["points"]
    case["exchange"] = data.draw(st.sampled_from(SCHEDULES), label="schedule of single fields")
    if rough:
        case["seed"] = data.draw(st.integers(0, 2**32), label="seed")
        return case
    # Exact in every type; drawn from one seed, because Hypothesis would take too long to draw so many numbers.
    random = np.random.default_rng(data.draw(st.integers(0, 2**32), label="seed of the values"))
    choices = [-1, 1] if op == "mul" else range(-50, 51)
    case["values"] = [random.choice(choices, len(i) * fields).tolist() for i in ids]
    return case


def many(examples_per_ranks):
    """Runs a property on the ranks of the fixture with as many examples as these can afford."""

    def decorate(check):
        def test(ranks):
            @settings(max_examples=examples_per_ranks[ranks.number], deadline=None)
            @given(data=st.data())
            def run(data):
                check(ranks, data)

            run()

        test.__name__ = check.__name__
        return test

    return decorate


@many(EXAMPLES)
def test_random_ids_agree_with_the_serial_reference_bit_for_bit(ranks, data):
    case = draw_case(data, ranks.number, rough=False)
    ids, fields, op = case["ids"], case["fields"], case["op"]
    values = [np.array(v, dtype=case["type"]).reshape(-1, fields) for v in case["values"]]
    reference: dict[int, np.ndarray] = {}
    for rank in range(ranks.number):
        for i, value in zip(ids[rank], values[rank], strict=True):
            if i > 0:
                reference[i] = OPS[op](reference[i], value) if i in reference else value
    answers = ranks.ask(case)
    for rank, answer in enumerate(answers):
        assert answer["wrong"] == []
        assert answer["dofs"] == len(reference)
        found = np.array(answer["gather-scatter"]).reshape(-1, fields)
        scattered = np.array(answer["scatter"]).reshape(-1, fields)
        for p, i in enumerate(ids[rank]):
            assert np.array_equal(found[p], reference[i] if i > 0 else values[rank][p])
            assert np.array_equal(scattered[p], reference[i] if i > 0 else 0 * values[rank][p])


@many({number: max(1, count // 2) for number, count in EXAMPLES.items()})
def test_rough_numbers_are_the_same_bits_for_every_schedule_path_layout_and_field_by_field(ranks, data):
    for answer in ranks.ask(draw_case(data, ranks.number, rough=True)):
        assert answer["wrong"] == []


SETUP = """
import numpy as np
from mpi4py import MPI
import weft, weft.mpi
comm = MPI.COMM_WORLD
last = comm.rank == comm.size - 1
def wrong(call):
    said = "NO ERROR"
    try:
        call()
    except (TypeError, ValueError, RuntimeError) as error:  # CollectiveError is a RuntimeError
        said = str(error)
    texts = comm.gather(said)  # lines that ranks print themselves may mix
    if comm.rank == 0:
        print(*texts, sep="\\n")
gs = weft.GatherScatter([1, 2, 3], comm, fields=2)
major = weft.GatherScatter([1, 2, 3], comm, fields=2, layout="fields", exchange="crystal")
good = np.ones((3, 2))
room = np.ones((7, 2))  # for the four degrees of freedom of a rank and for its points
"""


WRONG = [
    ("gs(np.ones((2, 2)) if last else good)", "expected 3 entries of 2 fields"),
    ("gs(np.ones((2, 3)) if last else good)", "the last dimension"),
    ("gs(np.ones((3, 2), dtype=np.float16) if last else good)", "float64, float32, int32 or int64"),
    ("gs(np.ones((3, 4))[:, ::2] if last else good)", "not contiguous"),
    ("gs(np.asfortranarray(good) if last else good)", "not contiguous"),
    ("gs([1.0] * 6 if last else good)", "must be a writable array"),
    ("gs(np.frombuffer(bytes(48)).reshape(3, 2) if last else good)", "must be a writable array"),
    ("gs(good, 'sum' if last else 'add')", "unknown operation 'sum'"),
    ("gs(None if last else good)", "must be a writable array"),
    ("gs(np.empty(49, dtype=np.uint8)[1:].view(float).reshape(3, 2) if last else good)", "not aligned to its type"),
    ("gs(good, None if last else 'add')", "op must be a text"),
    ("gs(good, '\\udc80' if last else 'add')", "op must be a text"),
    ("gs(good.astype('>f8') if last else good)", "in the machine's byte order"),
    ("gs(np.array(1.0) if last else good)", "has the shape ()"),
    ("gs.gather([1.0] * 6 if last else good)", "give out= for arrays that are not NumPy's"),
    ("gs.gather(good, out=np.ones((3, 2), dtype=np.float32) if last else np.ones((gs.local_dofs + 1, 2)))", "dofs"),
    ("gs.gather(room[3:6] if last else room[4:], out=room[:4])", "share memory"),
    ("gs.scatter(room[1:5] if last else room[:4], out=room[4:])", "share memory"),
    ("weft.GatherScatter([1.5] if last else [1], comm)", "ids must be integers"),
    ("weft.GatherScatter(np.array([2**63], dtype=np.uint64) if last else [1], comm)", "does not fit"),
    ("weft.GatherScatter([2**63] if last else [1], comm)", "does not fit"),
    ("weft.GatherScatter([2**70] if last else [1], comm)", "ids must be integers of at most 64 bits"),
    ("weft.GatherScatter([2.0**53 + 2] if last else [1], comm)", "ids must be integers"),
    ("weft.GatherScatter([np.nan] if last else [1], comm)", "ids must be integers"),
    ("weft.GatherScatter(None if last else [1], comm)", "ids must be integers"),
    ("weft.GatherScatter([[1], [2, 3]] if last else [1], comm)", "inhomogeneous"),
    ("weft.GatherScatter([1], comm, fields=0 if last else 1)", "fields must be at least 1"),
    ("weft.GatherScatter([1], comm, fields=2**31 if last else 1)", "a 32-bit integer"),
    ("weft.GatherScatter([1], comm, fields=2.0 if last else 2)", "fields must be an integer"),
    ("weft.GatherScatter([1], comm, layout=None if last else 'points')", "layout must be of type str"),
    ("weft.GatherScatter([1], comm, exchange=None if last else 'auto')", "exchange must be of type str"),
    ("weft.GatherScatter([1], comm, check='no' if last else False)", "check must be of type bool"),
    ("weft.GatherScatter([1], comm, layout='rows' if last else 'points')", "known: points, fields"),
    ("major(np.ones((3, 2)) if last else np.ones((2, 3)))", "the first dimension"),
    ("weft.GatherScatter([1], comm, exchange='carrier-pigeon' if last else 'auto')", "known: auto, pairwise"),
    ("weft.GatherScatter([1], comm, exchange='\\udc80' if last else 'auto')", "there is no exchange '\\udc80'"),
]


@pytest.fixture(scope="module", params=[1, 3])
def errors(request) -> list[list[str]]:
    """The error of each rank for each wrong call; the object still works afterwards, so no rank hangs in a call."""
    code = SETUP + "".join(
        f"wrong(lambda: {call})\nassert gs(good.copy())[0, 0] == comm.size\n"
        "assert gs.scatter(gs.gather(room[4:], out=room[:4]), out=room[4:]) is not None\n"
        for call, _ in WRONG
    )
    printed = mpi_prints(request.param, code)
    lines = printed.splitlines()
    assert len(lines) == request.param * len(WRONG)
    return [lines[n : n + request.param] for n in range(0, len(lines), request.param)]


@pytest.mark.parametrize(
    ("number", "said"), [(n, said) for n, (_, said) in enumerate(WRONG)], ids=[c for c, _ in WRONG]
)
def test_bad_input_on_one_rank_is_a_clear_error_on_all(errors, number, said):
    for line in errors[number]:
        assert said in line


def test_what_is_only_read_may_be_read_only():
    code = SETUP + ("dofs = gs.gather(good)\ngood.flags.writeable = False\nassert (gs.gather(good) == dofs).all()\n")
    mpi_prints(2, code)


LENT = """
import ctypes
class Lent:
    # An array of another library: NumPy's memory behind DLPack, as if it were on another device if asked.
    def __init__(self, array, device=None):
        self.array, self.device = array, device
    def __dlpack_device__(self):
        return self.device or (1, 0)
    def __dlpack__(self, **how):
        capsule = self.array.__dlpack__(**how)
        if self.device:
            api = ctypes.pythonapi
            api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
            api.PyCapsule_GetPointer.restype = ctypes.c_void_p
            api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
            name = api.PyCapsule_GetName(capsule)
            at = api.PyCapsule_GetPointer(capsule, name) + (40 if name == b"dltensor_versioned" else 8)
            (ctypes.c_int32 * 2).from_address(at)[:] = self.device  # DLTensor.device
        return capsule
"""


def test_arrays_of_other_libraries_are_combined_in_place_through_dlpack():
    code = SETUP + LENT + (
        "ours = good.copy()\ntheirs = good.copy()\n"
        "lent = Lent(theirs)\n"
        "assert gs(lent) is lent\n"
        "gs(ours)\n"
        "assert (theirs == ours).all() and ours[0, 0] == comm.size\n"
        "dofs = np.zeros((gs.local_dofs + 1, 2))\n"
        "gs.gather(Lent(good), out=Lent(dofs))\n"
        "assert (dofs == gs.gather(good)).all()\n"
        "wrong(lambda: gs.gather(Lent(good)))\n"
    )  # fmt: skip
    printed = mpi_prints(2, code)
    assert printed.count("give out= for arrays that are not NumPy's") == 2


@pytest.mark.parametrize("ranks_number", [1, 2])
@pytest.mark.parametrize(
    ("device", "said"), [((8, 0), "has no backend"), ((2, 99), "cuda device 99"), ((10, 99), "hip device 99")]
)
def test_an_array_on_a_device_that_is_not_here_is_an_error_on_all_ranks_before_a_message(ranks_number, device, said):
    code = SETUP + LENT + (
        f"wrong(lambda: gs(Lent(good.copy(), {device}) if last else good.copy()))\n"
        "assert gs(good.copy())[0, 0] == comm.size\n"
    )  # fmt: skip
    printed = mpi_prints(ranks_number, code)
    lines = printed.splitlines()
    assert len(lines) == ranks_number
    for line in lines:
        assert said in line
        assert "NO ERROR" not in line


def test_ranks_that_make_different_calls_get_an_error():
    code = SETUP + (
        "wrong(lambda: gs(good, 'min' if last else 'max'))\n"
        "wrong(lambda: gs(good.astype('f4') if last else good))\n"
        "assert gs(good.copy())[0, 0] == comm.size\n"
    )
    printed = mpi_prints(2, code)
    assert printed.count("made different calls") == 4


def test_ranks_that_ask_for_different_gather_scatters_get_an_error():
    code = SETUP + (
        "for given in ({'fields': 2}, {'exchange': 'crystal'}, {'exchange': 'pairwise:ipc'}, {'check': False}, "
        "{'cache': True}):\n"
        "    wrong(lambda: weft.GatherScatter([1], comm, **given if last else {}))\n"
        "    assert gs(good.copy())[0, 0] == comm.size\n"
    )
    printed = mpi_prints(3, code)
    assert printed.count("must be the same on all ranks; rank 0 has") == 15


def test_a_communicator_that_is_gone_or_of_another_kind_is_a_clear_error_on_all_ranks():
    code = SETUP + (
        "freed = comm.Dup()\n"
        "kept = weft.GatherScatter([1], freed)\n"
        "freed.Free()\n"
        "other_half = comm.Split(comm.rank % 2).Create_intercomm(0, comm, 1 - comm.rank)\n"
        "for c in (freed, MPI.COMM_NULL, 'world', other_half):\n"
        "    wrong(lambda: weft.GatherScatter([1], c))\n"
        "assert kept(np.ones(1))[0] == comm.size\n"  # weft's duplicate of it lives
        "under_way = weft.GatherScatter([1], comm, exchange='pairwise:direct')\n"
        "unchecked = weft.GatherScatter([1], comm, exchange='pairwise:direct', check=False)\n"
        "under_way.start(np.ones(1))\n"
        "MPI.Finalize()\n"
        "for call in (lambda: weft.GatherScatter([1]), lambda: gs(good), under_way.finish,\n"
        "             lambda: unchecked(np.ones(1)), lambda: under_way.local_dofs,\n"
        "             lambda: under_way.gather(np.ones(1)), lambda: unchecked.tuning):\n"
        "    try:\n"
        "        call()\n"
        "    except RuntimeError as error:\n"
        "        print(error)\n"
    )  # fmt: skip
    printed = mpi_prints(2, code)
    assert printed.count("was the communicator freed") == 4
    assert printed.count("must be an intracommunicator") == 4
    assert printed.count("weft was used after MPI_Finalize") == 14


def test_mpi_that_was_not_started_is_started():
    code = """
    import mpi4py
    mpi4py.rc.initialize = False
    import numpy as np
    import weft
    from mpi4py import MPI
    x = weft.GatherScatter([1])(np.ones(1))
    assert x[0] == MPI.COMM_WORLD.size == 2
    """
    mpi_prints(2, code)


def test_a_rank_that_raises_in_setup_leaves_no_schedule_waiting():
    # One rank cannot read its ids while the others are in the middle of their set-up; all continue afterwards.
    code = SETUP + (
        "class Broken:\n"
        "    def __array__(self, *args, **kwargs): raise MemoryError('no memory left')\n"
        "for s in ('pairwise', 'alltoallv', 'neighbor', 'crystal'):\n"
        "    wrong(lambda: weft.GatherScatter(Broken() if last else [1, 2], comm, exchange=s))\n"
        "    x = np.ones(2)\n"
        "    assert (weft.GatherScatter([1, 2], comm, exchange=s)(x) == comm.size).all()\n"
    )
    printed = mpi_prints(3, code)
    assert printed.count("rank 2: MemoryError: no memory left") == 12


def test_start_and_finish_hide_other_work_and_guard_against_misuse():
    code = SETUP + (
        "x, y = np.ones((3, 2)), np.ones(1)\n"
        "other = weft.GatherScatter([7], comm)\n"
        "gs.start(x)\n"
        "wrong(lambda: gs.start(x))\n"
        "other.start(y)\n"
        "del y\n"  # the object keeps what it works on
        "other.finish()\n"
        "gs.finish()\n"
        "wrong(gs.finish)\n"
        "assert (x == comm.size).all()\n"
    )
    printed = mpi_prints(2, code)
    assert printed.count("already started") == 2
    assert printed.count("no gather-scatter is started") == 2


def test_a_second_thread_in_one_object_gets_an_error_and_breaks_nothing():
    # Rank 1 comes late, so that rank 0's thread stays in its call while the other thread tries.
    code = SETUP + (
        "import threading, time\n"
        "one = weft.GatherScatter([1], comm, exchange='pairwise:direct', check=False)\n"
        "x, y = np.ones(1), np.ones(1)\n"
        "one(y)\n"
        "if comm.rank == 0:\n"
        "    thread = threading.Thread(target=one, args=(x,))\n"
        "    thread.start()\n"
        "    said = ''\n"
        "    for attempt in range(6000):\n"
        "        try:\n"
        "            one.tuning\n"
        "        except RuntimeError as error:\n"
        "            said = str(error)\n"
        "            break\n"
        "        time.sleep(0.01)\n"
        "    comm.send('come', 1)\n"
        "    thread.join()\n"
        "    print(said)\n"
        "else:\n"
        "    comm.recv(source=0)\n"
        "    one(x)\n"
        "assert x[0] == 2 and one(np.ones(1))[0] == 2\n"
    )
    assert "give each thread one of its own" in mpi_prints(2, code)


@pytest.mark.parametrize("path", ["direct", "staged", "ipc"])
def test_an_exchange_that_is_dropped_in_flight_writes_into_no_memory_of_others(path):
    code = SETUP + (
        "import gc\n"
        "ids = np.arange(1, 20_001)\n"
        "for schedule in ('pairwise', 'alltoallv', 'neighbor', 'crystal'):\n"
        "    def make(): return weft.GatherScatter(ids, comm, exchange=f'{schedule}:" + path + "')\n"
        "    dropped, by_one = make(), make()\n"
        "    dropped.start(np.ones(ids.size))\n"
        "    del dropped\n"
        "    others = [np.zeros(ids.size) for _ in range(20)]\n"
        "    comm.Barrier()\n"
        "    assert (make()(np.ones(ids.size)) == comm.size).all()\n"
        "    if schedule != 'crystal' and '" + path + "' != 'ipc':\n"  # whose finish takes part in later steps
        "        x = np.ones(ids.size)\n"
        "        by_one.start(x)\n"
        "        if not last:\n"
        "            by_one.finish()\n"
        "            assert (x == comm.size).all()\n"
        "    del by_one\n"
        "    comm.Barrier()\n"
        "    assert not any(other.any() for other in others)\n"
        "print('done')\n"
    )  # fmt: skip
    printed = mpi_prints(3, code)
    assert printed.count("done") == 3


def test_threads_with_a_communicator_each_do_not_disturb_one_another():
    code = SETUP + (
        "from threading import Thread\n"
        "right = []\n"
        "def work(number, own):\n"
        "    gs = weft.GatherScatter(np.arange(1, 500 + number), own, exchange='pairwise')\n"
        "    for step in range(20):\n"
        "        gs(x := np.full(499 + number, step))\n"
        "        right.append((x == step * own.size).all())\n"
        "threads = [Thread(target=work, args=(n, comm.Dup())) for n in range(3)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "assert right == [True] * 60\n"
    )  # fmt: skip
    mpi_prints(2, code)


@pytest.mark.parametrize("ranks_number", [1, 2])
def test_arrays_that_leave_the_caches_get_the_same_bits_as_field_by_field(ranks_number):
    # Six fields of more than 8 or 24 MiB are written with non-temporal stores, a single field is not.
    code = """
    import numpy as np
    from mpi4py import MPI
    import weft
    comm = MPI.COMM_WORLD
    random = np.random.default_rng(comm.rank)
    common, own = random.integers(0, 9, 1500), np.arange(540_000) + 10 * 10**6 * (comm.rank + 1)
    again = random.integers(own[0], own[-1], 80_000)
    ids = np.concatenate([own, common, np.sort(again)])
    single = weft.GatherScatter(ids, comm)
    for layout in ("points", "fields"):
        on = (lambda x: x) if layout == "points" else (lambda x: np.ascontiguousarray(x.T))
        gs = weft.GatherScatter(ids, comm, fields=6, layout=layout)
        for kind, op in (("float64", "add"), ("int64", "max")):
            x = (1e6 * random.standard_normal((ids.size, 6))).astype(kind)
            dofs = gs.gather(on(x), op)
            points = gs.scatter(dofs.copy())
            assert min(points.nbytes, dofs.nbytes) > 24.5 * 2**20
            for f in range(6):
                column = np.ascontiguousarray(x[:, f])
                expected = single.gather(column, op)
                assert (dofs[:, f] if layout == "points" else dofs[f]).tobytes() == expected.tobytes(), (layout, f)
                expected = single.scatter(expected)
                assert (points[:, f] if layout == "points" else points[f]).tobytes() == expected.tobytes(), (layout, f)
    """
    mpi_prints(ranks_number, code)


def test_rows_of_points_get_the_bits_of_points_one_by_one_in_ascending_order():
    # The host combines points that are consecutive in memory and in their ids together; from 65,536 points on, kernels
    # prefetch.
    code = """
    import numpy as np
    from mpi4py import MPI
    import weft
    OPS = {"add": np.add, "max": lambda a, b: np.where(b > a, b, a)}

    def expected(x, op):
        total = x[order[first]]
        for m in range(1, combined.max()):
            more = combined > m
            total[more] = op(total[more], x[order[first[more] + m]])
        result = x.copy()
        result[order] = np.repeat(total, count, axis=0)
        result[ids <= 0] = x[ids <= 0]
        return result

    def box(order, counts):
        return weft.Mesh.box(counts).point_ids(order).ravel()

    random = np.random.default_rng(1)
    holes = box(7, (6, 6, 5)).copy()
    holes[random.random(holes.size) < 0.02] = 0
    cases = {
        "N = 3": box(3, (11, 11, 10)),
        "N = 7": box(7, (6, 6, 5)),
        "N = 15": box(15, (3, 3, 2)),
        "N = 7 with points that take no part": holes,
        "the same id twice in a row": np.repeat(np.arange(1, 40_001), 2),
        "rows that meet backwards": np.concatenate([np.arange(1, 40_001), np.arange(40_000, 0, -1)]),
        "rows shifted by one": np.concatenate([np.arange(k, k + 7) for k in range(1, 12_001)]),
        "one row three times": np.tile(np.arange(1, 38), 3),
    }
    for name, ids in cases.items():
        order = np.argsort(ids, kind="stable")
        first = np.flatnonzero(np.diff(ids[order], prepend=-(2**60)))
        count = np.diff(first, append=ids.size)
        combined = np.where(ids[order[first]] > 0, count, 1)
        rough = random.standard_normal((ids.size, 6)) * 2.0 ** random.integers(-20, 20, (ids.size, 6))
        rough[random.random(rough.shape) < 0.01] = np.nan
        rough[random.random(rough.shape) < 0.05] = -0.0
        for fields, layout, kind in ((1, "points", "float64"), (6, "points", "float32"), (6, "fields", "float64"),
                                     (3, "points", "float64"), (2, "fields", "float32"), (5, "fields", "float32")):
            x = np.ascontiguousarray(rough[:, :fields]).astype(kind)
            on = (lambda a: np.ascontiguousarray(a.T)) if layout == "fields" else (lambda a: a.copy())
            if fields == 1:
                on = lambda a: a.ravel().copy()
            gs = weft.GatherScatter(ids, MPI.COMM_WORLD, fields=fields, layout=layout)
            for op, reference in OPS.items():
                right = expected(x, reference)
                assert gs(on(x), op).tobytes() == on(right).tobytes(), (name, fields, layout, kind, op)
                right[ids <= 0] = 0
                again = gs.scatter(gs.gather(on(x), op))
                assert again.tobytes() == on(right).tobytes(), (name, fields, layout, kind, op)
    """
    mpi_prints(1, code)


def test_sums_of_rough_numbers_are_the_same_bits_on_every_path_rerun_and_rank():
    code = """
    import hashlib
    import numpy as np
    from mpi4py import MPI
    import weft
    comm = MPI.COMM_WORLD
    random = np.random.default_rng(comm.rank)
    ids = random.integers(1, 400, 1000)
    x = random.standard_normal(1000) * 10.0 ** random.integers(-12, 12, 1000)
    choices = [f"{s}:{p}" for s in ("pairwise", "alltoallv", "neighbor", "crystal") for p in ("direct", "staged")]
    results = [weft.GatherScatter(ids, comm, exchange=e)(x.copy()) for e in choices * 2]
    assert all(r.tobytes() == results[0].tobytes() for r in results)
    value = dict(zip(ids.tolist(), results[0].tolist()))
    for other in comm.allgather(value):
        assert all(value.get(i, v) == v for i, v in other.items())
    assert not np.array_equal(results[0], x)
    digest = comm.allgather(hashlib.sha256(results[0].tobytes()).hexdigest())
    if comm.rank == 0: print(digest)
    """
    first, second = mpi_run(3, code), mpi_run(3, code)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    assert first.stdout
