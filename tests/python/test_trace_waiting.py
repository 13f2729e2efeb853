"""Events in which threads only wait: which events in traces of other programs count as work."""

import tracemalloc

import pytest

from weft.model.critical_path import critical_path
from weft.report.trace import figures
from weft.traces import Builder, Category, Trace, attribute
from weft.traces.waiting import recognise

LAUNCH, CPU, GPU, SYNC, OTHER = Category.launch, Category.cpu, Category.gpu, Category.sync, Category.other

# A process that launches a kernel and waits for it, to which the tests add threads.
RUN = [("main", 0, 2, LAUNCH, "cudaLaunchKernel", 1), ("stream 7", 3, 90, GPU, "kernel", 1),
       ("main", 2, 92, SYNC, "cudaDeviceSynchronize", 2)]  # fmt: skip


def build(*events: tuple) -> Trace:
    """A trace of (line, start, end, category, name[, correlation]); lines named 'stream' are streams."""
    builder = Builder("test", "test")
    for label, start, end, category, name, *correlation in events:
        line = builder.line(0, label, "stream" if "stream" in label else "host")
        builder.add(line=line, start=start, end=end, category=int(category), name=builder.name(name),
                    correlation=correlation[0] if correlation else -1)  # fmt: skip
    return recognise(builder.build())


def waiting(trace: Trace) -> list[str]:
    return sorted({trace.names[n] for n in trace.name[trace.category == Category.wait]})


@pytest.mark.parametrize(
    "name",
    [
        "threading.py(359): wait", "/usr/lib/python3.11/threading.py(1153): _wait_for_tstate_lock",
        "multiprocessing/connection.py(947): wait", "selectors.py(468): select", "queue.py(171): get",
        "<built-in method sleep>", "<built-in method acquire of _thread.lock object at 0x7f1>",
        "<method 'poll' of 'select.epoll' objects>", "<built-in method get of _queue.SimpleQueue object at 0x1>",
        "pthread_cond_timedwait", "nanosleep", "epoll_wait", "poll",
    ],
)  # fmt: skip
def test_a_call_named_as_waiting_is_not_work(name: str) -> None:
    trace = build(*RUN, ("other", 10, 40, CPU, name))
    assert waiting(trace) == [name]
    assert trace.notes == ()


@pytest.mark.parametrize(
    "name", ["<built-in method get of dict object at 0x1>", "Wait", "select_rows", "aten::wait", "my.py(3): wait",
             "kernels/pollution.py(5): run", "<built-in function linear>"],
)  # fmt: skip
def test_a_name_that_only_resembles_waiting_stays_work(name: str) -> None:
    assert waiting(build(*RUN, ("other", 10, 40, CPU, name))) == []


@pytest.mark.parametrize(("inside", "waits"), [
    (("main", 5, 6, CPU, "threading.py(1): notify"), True), (("main", 5, 6, CPU, "aten::mm"), False),
    (("main", 5, 6, LAUNCH, "cudaStreamWaitEvent"), False), (("main", 10, 12, CPU, "aten::mm"), True),
])  # fmt: skip
def test_a_wait_that_does_work_inside_is_work(inside: tuple, waits: bool) -> None:
    trace = build(("main", 0, 10, CPU, "<built-in method wait of torch._C.Future>"), inside)
    assert bool(waiting(trace)) is waits


def test_queries_count_as_waiting_only_on_a_thread_that_does_nothing_else_with_the_device() -> None:
    watchdog = [("watchdog", 10 * k, 10 * k + 3, LAUNCH, "cudaEventQuery") for k in range(5)]
    own = [("main", 93, 95, LAUNCH, "cudaEventQuery"), ("main", 96, 98, LAUNCH, "cudaEventQuery")]
    trace = build(*RUN, *watchdog, *own)
    assert [trace.lines[i].label for i in trace.line[trace.category == Category.wait]] == ["watchdog"] * 5
    assert trace.notes == ("5 calls count as waiting, not as work, because their threads only query events: "
                           "'cudaEventQuery'",)  # fmt: skip
    assert attribute(trace).nanoseconds.tolist() == [[2, 87, 0, 0, 9]]


@pytest.mark.parametrize(("start", "end", "waits"), [(1, 97, True), (1, 47, False), (45, 98, True), (60, 98, False)])
def test_a_call_that_fills_a_thread_beside_the_one_that_drives_the_device_waits(
    start: int, end: int, waits: bool
) -> None:
    monitor = [("monitor", 0 if start == 1 else start, end, CPU, "run"), ("monitor", start, end, CPU, "unknown")]
    trace = build(*RUN, *monitor, ("main", 92, 98, CPU, "more"))
    assert waiting(trace) == (["unknown"] if waits else [])
    assert any("fills a thread" in n for n in trace.notes) is waits


def test_a_thread_that_computes_alone_works_although_one_call_fills_it() -> None:
    assert waiting(build(("main", 0, 100, CPU, "solve"), ("worker", 0, 100, CPU, "solve part"))) == []


def test_the_critical_path_leads_through_kernels_and_not_through_a_waiting_thread() -> None:
    monitor = [("monitor", 0, 100, CPU, "run"), ("monitor", 1, 100, CPU, "threading.py(359): wait")]
    trace = build(*RUN, *monitor)
    found = critical_path(trace)
    assert found.length == 3 + 87  # launch to start of the kernel, and the kernel
    assert int(found.own[trace.category == Category.wait].sum()) == 0


def test_a_synchronise_waits_for_work_that_was_launched_before_the_trace_began() -> None:
    found = critical_path(build(*RUN[2:], ("stream 7", 0, 90, GPU, "kernel"), ("main", 92, 97, CPU, "more")))
    assert found.length == 90 + 5


def test_a_thread_that_only_waits_is_not_counted_among_those_that_work() -> None:
    trace = build(*RUN, ("main, system", 3, 90, OTHER, "poll"), ("monitor, system", 0, 98, OTHER, "nanosleep"))
    counts = figures(trace)
    assert (counts["host_lines"], counts["waiting_host_lines"], counts["streams"]) == (1, 1, 1)


def test_a_call_that_seems_to_end_after_its_caller_does_not_refuse_the_thread() -> None:
    found = critical_path(build(("main", 0, 10_000, CPU, "outer"), ("main", 8_000, 20_000, CPU, "inner")))
    assert found.length == 20_000


def test_memory_does_not_grow_with_the_numbers_of_processes() -> None:
    builder = Builder("test", "test")
    for process in (1, 300_000_000):
        line = builder.line(process, "main", "host")
        builder.add(line=line, start=0, end=2, category=int(LAUNCH), name=builder.name("cudaLaunchKernel"))
        line = builder.line(process, "other", "host")
        builder.add(line=line, start=0, end=2, category=int(CPU), name=builder.name("watchdog"))
    trace = builder.build()
    tracemalloc.start()
    assert waiting(recognise(trace)) == ["watchdog"]
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
