"""Every sample trace: its events by kind, busy times, launches and bytes, counted by other means."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from test_trace_readers import DATA, sample
from trace_checks import counted
from trace_counts import counts

from weft.model.critical_path import critical_path
from weft.model.replay import Scenario, program, replay
from weft.model.result import ModelError
from weft.model.sources import coupling, read
from weft.traces import Category, Trace, attribute, load

OTF2 = find_spec("otf2") is not None


@cache
def trace_of(path: Path) -> Trace:
    return load(path)


def kineto(name: str) -> Trace:
    return trace_of(DATA / "kineto" / f"{name}.json.gz")


def samples() -> list[Path]:
    """All files of the samples, of equal ones the first."""
    found: dict[bytes, Path] = {}
    for path in sorted(DATA.rglob("*")) if DATA.is_dir() else []:
        if path.is_file() and not path.name.upper().startswith("LICEN"):
            found.setdefault(path.read_bytes(), path)
    return sorted(found.values())


@sample
@pytest.mark.parametrize("path", samples(), ids=lambda p: str(p.relative_to(DATA)))
def test_a_sample_holds_what_is_counted_by_other_means(path: Path) -> None:
    if path.suffix == ".otf2" and not OTF2:
        pytest.skip("PyPI has no otf2 for this Python: nothing to read with")
    expected = counts(path)
    if expected is None:
        with pytest.raises(ValueError, match="not in a trace format that weft reads"):
            load(path)
        return
    found = counted(trace_of(path))
    assert found.bytes == expected.bytes
    assert found.differences(expected, 1e-3) == []


@sample
def test_the_critical_path_of_an_inference_is_the_gpus_work_and_not_a_monitor() -> None:
    trace = kineto("h100_qwen")
    assert trace.processes == [25286]
    assert attribute(trace).t_gpu[0] == pytest.approx(45.647e-3, rel=1e-3)  # union of its kernels and memsets
    found = critical_path(trace)
    assert int(found.own[trace.category == Category.gpu].sum()) > 0.95 * 45.647e6
    assert found.length < trace.span
    assert int(found.own[trace.name == trace.names.index("threading.py(359): wait")].sum()) == 0


@sample
@pytest.mark.parametrize(("name", "polls"), [("ns_resolution_rank0", 58), ("negative_queue_rank0", 309)])
def test_watchdogs_of_nccl_wait(name: str, polls: int) -> None:
    assert int(np.sum(kineto(name).category == Category.wait)) == polls


@sample
def test_a_slower_gpu_prolongs_a_run_that_a_watchdog_polled_to_its_end() -> None:
    source = program(kineto("ns_resolution_rank0"))
    busy = 0.47246  # union of the work on the GPU, of 0.58 s
    slower = replay(source, Scenario(gpu_speed=0.5)).seconds
    assert source.traced_seconds + 0.9 * busy < slower < source.traced_seconds + 1.1 * busy


@sample
def test_a_few_overlaps_of_rounded_clocks_do_not_refuse_a_trace() -> None:
    for trace, clipped in ((kineto("negative_queue_rank0"), "1 of 7747"),
                           (trace_of(DATA / "rocprof" / "rocprofv3.json.gz"), "1275 of 43915")):  # fmt: skip
        trace.validate()
        assert any(n.startswith(f"{clipped} events on streams") for n in trace.notes)


@sample
def test_kernels_without_calls_do_not_claim_that_a_tighter_coupling_gains_nothing() -> None:
    with pytest.raises(ModelError, match="N/E"):
        coupling([read(DATA / "pipit" / "cloverleaf_gpu_trace.csv")], 10, 10)
