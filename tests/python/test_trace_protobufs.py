"""Readers of protobuf traces: Perfetto (rocprofv3), XSpace (JAX) and Chakra, and files that are none of them."""

import gzip
import json
import os
import re
import zlib
from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from protobuf_traces import NODES, Perfetto, delimited, graph, rocprofv3, xspace
from test_trace_fuzz import DAMAGE, damaged, outcome
from test_trace_readers import count, moved, names, sane

from weft.cli.main import weft_command
from weft.model.replay import AS_TRACED, duration, program
from weft.traces import Category, Trace, attribute, load, perfetto, protobufs

HERE = Path(__file__).parent / "traces"
CHAKRA = Path(__file__).parents[3] / "shared" / "data" / "traces" / "chakra" / "chakra.0.et.gz"


def loaded(data: bytes, tmp_path: Path, name: str = "trace.pb") -> Trace:
    path = tmp_path / name
    path.write_bytes(data)
    trace = load(path)
    sane(trace)
    return trace


def times(trace: Trace, name: str) -> tuple[int, int]:
    (event,) = np.flatnonzero(trace.name == trace.names.index(name))
    return int(trace.start[event]) + trace.origin, int(trace.end[event]) + trace.origin


# --- Perfetto ------------------------------------------------------------------------------------------------------


def test_slices_of_rocprofv3_are_calls_copies_kernels_and_markers(tmp_path) -> None:
    trace = loaded(rocprofv3().bytes(), tmp_path, "out_results.pftrace")
    assert trace.format == "perfetto"
    assert count(trace) == {"gpu": 1, "copy": 1, "launch": 2, "sync": 1, "other": 1}
    assert trace.processes == [77]
    assert {(line.label, line.kind) for line in trace.lines} == {
        ("thread 78", "host"), ("COMPUTE AGENT [4] STREAM [1] (GPU)", "stream"),
        ("COPY to AGENT [4] STREAM [1] (GPU)", "stream"),
    }  # fmt: skip
    assert times(trace, "axpy(double*)") == (7_500, 9_800)
    assert times(trace, "step 0") == (5_500, 9_950)
    assert moved(trace, "MEMORY_COPY_HOST_TO_DEVICE") == 4096
    launch, kernel = (trace.names.index(n) for n in ("hipLaunchKernel", "axpy(double*)"))
    assert trace.correlation[trace.name == launch] == trace.correlation[trace.name == kernel] == 2
    assert attribute(trace).t_gpu[0] == pytest.approx(2.3e-6)
    assert duration(program(trace), AS_TRACED).value == pytest.approx(trace.span * 1e-9, rel=0.1)


def test_nested_slices_marks_counters_and_open_ends_of_perfetto(tmp_path) -> None:
    trace = Perfetto().slice(11, 6_000, -1, "outer").slice(11, 6_100, 6_200, "inner").slice(11, 6_300, -1, "open")
    for kind in (3, 4):
        packet = trace.packet()
        trace.at(packet, 6_400)
        packet.track_event.type = kind
    trace.end(20, 6_500)
    found = loaded(trace.bytes(), tmp_path)
    assert times(found, "inner") == (6_100, 6_200)
    assert times(found, "outer") == (6_000, 6_500)
    assert sorted(n.split(" ", 1)[0] for n in found.notes) == ["1", "2", "2"]
    assert any("open at the end" in n for n in found.notes)


def test_clocks_of_perfetto_are_brought_to_one(tmp_path) -> None:
    """The snapshot says that the monotonic clock (3) is 4000 ns behind the boot clock (6)."""
    trace = Perfetto().slice(11, 6_000, 6_100, "boot")
    for kind, time in ((1, 2_500), (2, 2_700)):
        packet = trace.packet()
        packet.timestamp, packet.timestamp_clock_id = time, 3
        packet.track_event.type, packet.track_event.track_uuid, packet.track_event.name = kind, 20, "monotonic"
    lost = trace.packet()
    lost.timestamp, lost.timestamp_clock_id, lost.track_event.type = 1, 99, 1
    found = loaded(trace.bytes(), tmp_path)
    assert times(found, "monotonic") == (6_500, 6_700)
    assert any("on a clock that the file does not define" in n for n in found.notes)


def test_names_of_perfetto_that_are_not_utf8_are_shown(tmp_path) -> None:
    found = loaded(Perfetto().slice(11, 6_000, 6_100, "caf_").bytes().replace(b"caf_", b"caf\xe9"), tmp_path)
    assert names(found) == {"caf\ufffd": 1}


def test_stages_of_gpus_and_compressed_packets_of_perfetto(tmp_path) -> None:
    inner = Perfetto().slice(11, 6_000, 6_100, "packed")
    stage = inner.packet()
    inner.at(stage, 7_000)
    stage.interned_data.gpu_specifications.add(iid=1, name="compute")
    stage.gpu_render_stage_event.hw_queue_iid, stage.gpu_render_stage_event.duration = 1, 300
    stage.gpu_render_stage_event.name = "saxpy"
    outer = Perfetto()
    outer.builder.add_packet().compressed_packets = zlib.compress(inner.bytes())
    found = loaded(outer.bytes(), tmp_path)
    assert times(found, "packed") == (6_000, 6_100)
    assert times(found, "saxpy") == (7_000, 7_300)
    assert names(found, Category.gpu) == {"saxpy": 1}


PHASES = (Phase.explicit, Phase.generate)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "end", "end", "mark", "define", "clear"]), st.sampled_from([0, 11, 20, 2**63 + 5]),
        st.integers(0, 300), st.sampled_from(["", "axpy", "caf\u00e9"]),
        st.sampled_from(["", "app", "hip_api", "kernel_dispatch"]), st.sampled_from([0, 6, 3, 64, 70]), st.booleans(),
        st.integers(0, 2**64 - 1),
    ),
    max_size=40,
)  # fmt: skip


def rows(trace: Trace) -> list[tuple]:
    """The events of a trace and its notes, in an order that does not depend on the file."""
    texts = [(trace.names[n], trace.lines[i]) for n, i in zip(trace.name, trace.line, strict=True)]
    columns = (trace.start, trace.end, trace.category, trace.bytes, trace.correlation)
    return [sorted(zip(texts, *(c.tolist() for c in columns), strict=True), key=repr), sorted(trace.notes)]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(EVENTS)
def test_runs_of_slices_by_columns_are_what_perfettos_library_reads(tmp_path, events: list[tuple]) -> None:
    """Each packet by itself, decoded by Perfetto's library, gives the same table as runs decoded at once."""
    trace = Perfetto().slice(11, 6_000, 6_100, "first")
    for kind, track, time, name, category, clock, interned, value in events:
        packet = trace.packet(1 if kind == "clear" else 2)
        packet.timestamp, packet.trusted_packet_sequence_id = time, 3 + time % 2
        if clock:
            packet.timestamp_clock_id = clock
        if kind == "define":
            packet.interned_data.event_names.add(iid=1 + time % 3, name=name)
            continue
        event = packet.track_event
        event.type = {"begin": 1, "end": 2}.get(kind, 3)
        if track:
            event.track_uuid = track
        if interned:
            event.name_iid, event.category_iids[:] = 1 + time % 3, [1, 2]
        else:
            event.name, event.categories[:] = name, [category] * bool(category)
        event.debug_annotations.add(name="corr_id", uint_value=value)
        event.debug_annotations.add(name="copy_bytes", int_value=value >> 1)
    tables = []
    for few in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(perfetto, "_FEW", few)
            try:
                tables.append(rows(loaded(trace.bytes(), tmp_path)))
            except ValueError as error:
                tables.append(str(error))
    assert tables[0] == tables[1]


@pytest.mark.parametrize("few", [0, 10**9])
def test_slices_alone_and_in_runs(few: int, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(perfetto, "_FEW", few)
    test_slices_of_rocprofv3_are_calls_copies_kernels_and_markers(tmp_path)
    test_nested_slices_marks_counters_and_open_ends_of_perfetto(tmp_path)
    test_clocks_of_perfetto_are_brought_to_one(tmp_path)


# --- XSpace --------------------------------------------------------------------------------------------------------


def test_file_that_jax_wrote_has_what_its_own_reader_finds() -> None:
    """jax.profiler.ProfileData: 75, 8 and 23 events; traces/README.md says how the file was made."""
    trace = load(HERE / "jax-cpu.xplane.pb")
    sane(trace)
    assert trace.format == "xplane"
    assert sorted(np.bincount(trace.line).tolist()) == [8, 23, 75]
    own = {"$profiler.py:151 start_trace": 1, "$profiler.py:271 stop_trace": 1, "$profiler.py:307 trace": 2}
    assert names(trace, Category.other) == {f"train step {k}": 1 for k in range(4)} | own
    fusion = trace.name == trace.names.index("ynn_fusion")
    assert fusion.sum() == 4
    first = np.flatnonzero(fusion)[0]
    # start 333117 ns and duration 1111968 ns, where the first event of the file starts at 7091 ns
    assert (trace.start[first], trace.end[first] - trace.start[first]) == (333_117 - 7_091, 1_111_968)


def test_streams_of_a_gpu_in_an_xspace(tmp_path) -> None:
    trace = loaded(xspace().SerializeToString(), tmp_path, "vm.xplane.pb")
    assert trace.processes == [42]
    assert names(trace, Category.other) == {"train step 7": 1, "while": 1, "jit_f(1)": 1}
    assert names(trace, Category.gpu) == {"fusion": 1}
    assert names(trace, Category.mpi) == {"ncclDevKernel_AllReduce": 1}
    assert names(trace, Category.launch) == {"cuLaunchKernel": 1}
    assert moved(trace, "MemcpyH2D") == 640
    assert times(trace, "cuLaunchKernel") == (1_001_000, 1_001_500)
    assert [line.label for line in trace.lines if line.kind == "stream"] == ["GPU:0 Stream #14"]


@pytest.mark.parametrize(("name", "category"), [
    ("hipModuleLaunchKernel", "launch"), ("cuStreamSynchronize", "sync"), ("hsa_signal_wait_scacquire", "sync"),
    ("custom-call.1", "cpu"), ("cudnn-conv.1", "cpu"), ("$api.py:3165 try_to_block", "sync"),
    ("$profiler.py:101 start_trace", "other"), ("$builtins isinstance", "cpu"),
])  # fmt: skip
def test_categories_of_a_threads_events_in_an_xspace(name: str, category: str, tmp_path) -> None:
    """The names are those of traces that JAX wrote on GPUs of AMD; XLA's operations are no calls of the runtime."""
    space = xspace()
    (event,) = [e for e in space.planes[0].events if e.value.name == b"cuLaunchKernel"]
    event.value.name = name.encode()
    found = loaded(space.SerializeToString(), tmp_path)
    (row,) = np.flatnonzero(found.name == found.names.index(name))
    assert Category(found.category[row]).name == category


# --- Chakra --------------------------------------------------------------------------------------------------------


def test_graph_of_chakra_starts_nodes_when_dependencies_and_line_allow(tmp_path) -> None:
    trace = loaded(graph(NODES), tmp_path, "chakra.3.et")
    assert trace.processes == [3]
    found = {trace.names[n]: (int(a), int(b)) for n, a, b in zip(trace.name, trace.start, trace.end, strict=True)}
    assert found == {
        "aten::mm(0)": (0, 20_000), "aten::add(0)": (20_000, 50_000), "gemm": (20_000, 120_000),
        "add": (120_000, 130_000), "allreduce (ncclKernel)": (120_000, 170_000),
        "isend (to the next)": (170_000, 175_000),
    }  # fmt: skip
    assert trace.requires is not None
    assert len(trace.requires) == 6
    send = trace.names.index("isend (to the next)")
    assert (trace.peer[trace.name == send], trace.bytes[trace.name == send], trace.group[trace.name == send]) == (
        1,
        64,
        2,
    )
    assert trace.group[trace.name == trace.names.index("allreduce (ncclKernel)")] == 3
    assert duration(program(trace), AS_TRACED).value == pytest.approx(trace.span * 1e-9, rel=1e-3)


GRAPHS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 9), st.lists(st.integers(0, 99), max_size=3)),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(GRAPHS, st.randoms(use_true_random=False), st.booleans())
def test_no_line_of_a_chakra_graph_is_idle_while_a_node_could_start(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple], shuffled: Random, packed: bool
) -> None:
    """Nodes depend on some of those before them, and their ids and places in the file have no order."""
    ids = shuffled.sample(range(1000), len(drawn) + 1)
    nodes = [(ids[-1], "n0", 4, [], 3, {"is_cpu_op": True, "tid": 0})]
    for k, (host, place, length, needs) in enumerate(drawn):
        earlier = sorted({nodes[i % len(nodes)][0] for i in needs})
        where = {"is_cpu_op": host, "tid" if host else "stream": place}
        nodes.append((ids[k], f"n{k + 1}", 4, earlier, length, where))
    written = shuffled.sample(nodes, len(nodes))
    trace = loaded(graph(written, packed=packed), tmp_path_factory.mktemp("graph"))
    starts = dict(zip((trace.names[n] for n in trace.name), trace.start.tolist(), strict=True))
    end = {n[0]: starts[n[1]] + 1000 * n[4] for n in nodes}
    for number, name, _, needs, _, where in nodes:
        ready = max((end[i] for i in needs), default=0)
        assert starts[name] >= ready
        others = sorted((starts[n[1]], end[n[0]], n[0]) for n in nodes if n[5] == where and n[0] != number)
        # From when it is ready until it starts, others are on its line, one after another.
        free = ready
        for start, stop, _ in others:
            if start <= free < stop and stop <= starts[name]:
                free = stop
        assert free == starts[name]


def test_any_kind_of_number_is_an_attribute_of_a_chakra_node(tmp_path) -> None:
    values = [("int32", 3), ("uint32", 3), ("uint64", 3), ("sint32", 3), ("sint64", 3), ("bool", True)]
    nodes = [(k, f"n{k}", 4, [], 1, {"is_cpu_op": ("sint32", 1), "tid": value}) for k, value in enumerate(values)]
    negative = [("int32", -5), ("int64", -5), ("sint32", -5), ("sint64", -5)]
    nodes += [(9 + k, f"n{9 + k}", 4, [], 1, {"tid": value, "pg_name": "text"}) for k, value in enumerate(negative)]
    trace = loaded(graph(nodes), tmp_path)
    found = {trace.names[n]: trace.lines[line].label for n, line in zip(trace.name, trace.line, strict=True)}
    assert set(found.values()) == {"thread 3", "thread 1", "stream -5"}
    assert [n for n, label in found.items() if label == "stream -5"] == ["n9", "n10", "n11", "n12"]


def test_equal_graphs_of_a_ring_are_ranks_and_take_the_time_of_its_messages(tmp_path) -> None:
    """Each rank sends to the next and receives, three times: by hand 3 (s/B + L), and 2 kernels between."""
    for rank in range(4):
        nodes = []
        for step in range(3):
            there, here = {"comm_dst": (rank + 1) % 4}, {"comm_src": (rank - 1) % 4}
            size = {"is_cpu_op": False, "stream": 0, "comm_size": 262_144, "comm_tag": step}
            n, last = 3 * step, [3 * step] if step else []
            nodes += [(n + 1, "to", 5, last, 0, size | there), (n + 2, "from", 6, [n + 1], 0, size | here),
                      (n + 3, "add", 4, [n + 2], 7, {"is_cpu_op": False, "stream": 0})]  # fmt: skip
        (tmp_path / f"ring.{rank}.et").write_bytes(graph(nodes))
    trace = load(tmp_path)
    assert list(trace.processes) == [0, 1, 2, 3]
    assert not any("inside" in note for note in trace.notes)
    found = CliRunner().invoke(weft_command, ["model", "network", str(tmp_path)])
    assert found.exit_code == 0, found.output
    (time,) = re.findall(r"^time, \S+\s+(\S+) µs", found.output, re.MULTILINE)
    assert float(time) == pytest.approx(3 * (262_144 / 25e9 * 1e6 + 2) + 2 * 7, rel=1e-3)


def test_a_chakra_graph_in_json_is_that_of_the_protobuf(tmp_path) -> None:
    """JSON as Chakra's feeder reads it has no threads, streams and process groups."""
    kept = ("is_cpu_op", "comm_type", "comm_size", "comm_dst", "comm_tag")
    nodes = [(*node, {k: v for k, v in given.items() if k in kept}) for *node, given in NODES]
    keys = ("Id", "Name", "NodeType", "data_deps", "runtime")
    content = {"workload_graph": [{**dict(zip(keys, node, strict=True)), **given} for *node, given in nodes]}
    read = loaded(json.dumps(content, indent=1).encode(), tmp_path, "graph.3.json")
    same = loaded(graph(nodes), tmp_path, "graph.3.et")
    assert (read.format, read.names, read.lines, read.processes) == ("chakra", same.names, same.lines, [3])
    for column in ("start", "end", "category", "name", "bytes", "peer", "correlation", "group", "line", "requires"):
        assert np.array_equal(getattr(read, column), getattr(same, column)), column


def test_json_of_chakra_with_a_wrong_field_says_which(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"event 1 cannot be read .*data_deps"):
        loaded(b'{"workload_graph": [{"Id": 1}, {"Id": 2, "data_deps": ["x"]}]}', tmp_path, "wrong.json")


def test_execution_traces_of_pytorch_say_what_to_give_instead(tmp_path) -> None:
    with pytest.raises(ValueError, match="operators have no times: give the profiler's trace"):
        loaded(b'{"schema": "1.1.0-chakra.0.0.4", "pid": 7, "nodes": [{"id": 1}]}', tmp_path, "et.json")


def test_times_of_a_chakra_trace_are_taken_if_it_has_them(tmp_path) -> None:
    trace = loaded(graph(NODES[:2], start=True), tmp_path)
    assert trace.start.tolist() == [0, 10_000]
    assert not any("has no times" in n for n in trace.notes)


@pytest.mark.skipif(not CHAKRA.is_file(), reason=f"the sample trace is not at {CHAKRA}")
def test_trace_of_chakras_own_tests() -> None:
    """A count of the fields of its nodes: 2448 on CPUs, and 7 collectives with a type."""
    trace = load(CHAKRA)
    sane(trace)
    assert count(trace) == {"cpu": 2448, "gpu": 1209, "mpi": 7}
    assert trace.bytes[trace.category == Category.mpi].sum() == 102_441_032
    assert duration(program(trace), AS_TRACED).value == pytest.approx(trace.span * 1e-9, rel=1e-3)


# --- bad input -----------------------------------------------------------------------------------------------------


def files() -> dict[str, bytes]:
    return {"perfetto": rocprofv3().bytes(), "xplane": xspace().SerializeToString(), "chakra": graph(NODES)}


@pytest.mark.parametrize("format", ["perfetto", "xplane", "chakra"])
def test_formats_tell_each_other_apart_also_gzipped(format: str, tmp_path) -> None:
    data = files()[format]
    assert loaded(data, tmp_path).format == format
    assert loaded(gzip.compress(data), tmp_path, "t.gz").format == format
    for other in files().keys() - {format}:
        with pytest.raises(ValueError, match=r"trace\.pb: "):
            load(tmp_path / "trace.pb", other)


@pytest.mark.parametrize("format", ["perfetto", "xplane", "chakra"])
def test_a_protobuf_cut_short_says_so(format: str, tmp_path) -> None:
    path = tmp_path / "cut"
    data = files()[format]
    path.write_bytes(data[:-3])
    with pytest.raises(ValueError, match=r"cut short|damaged"):
        load(path)


def test_protobufs_of_another_kind_are_not_traces(tmp_path) -> None:
    from google.protobuf import descriptor_pb2

    path = tmp_path / "other.pb"
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="b")
    file.message_type.add(name="M").field.add(name="f", number=1)
    for data in (
        file.SerializeToString(),
        descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(),
        delimited(file, file),
        b"\x08\x96\x01",
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"other\.pb: not in a trace format that weft reads"):
            load(path)


@pytest.mark.parametrize("format", ["kineto", "perfetto"])
def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(format: str, tmp_path) -> None:
    path = tmp_path / "bomb.gz"
    start = {"kineto": b'{"schemaVersion": 1, "traceEvents": ["', **files()}[format]
    packer = zlib.compressobj(9, wbits=31)
    with path.open("wb") as file:
        file.write(packer.compress(start))
        for _ in range(80):
            file.write(packer.compress(bytes(1 << 20)))
        file.write(packer.flush())
    with pytest.raises(ValueError, match="expands to more than 200 times"):
        load(path, format)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([(1, "a", 4, [2], 1, {}), (2, "b", 4, [1], 1, {})], "dependencies of 2 nodes have a cycle"),
        ([(1, "a", 4, [], 1, {}), (1, "b", 4, [], 1, {})], "1 nodes have the id of another"),
        ([(1, "a", 4, [], 2**60, {})], "is too long"),
        ([(1, "a", 1, [], 1, {})], "has no nodes"),
    ],
)
def test_a_wrong_graph_of_chakra_is_an_error(nodes: list, said: str, tmp_path) -> None:
    path = tmp_path / "wrong.et"
    path.write_bytes(graph(nodes))
    with pytest.raises(ValueError, match=said):
        load(path)


def test_a_perfetto_trace_without_slices_says_what_it_has(tmp_path) -> None:
    path = tmp_path / "empty.pftrace"
    trace = Perfetto()
    packet = trace.packet()
    trace.at(packet, 6_000)
    packet.track_event.type = packet.track_event.TYPE_INSTANT
    path.write_bytes(trace.bytes())
    with pytest.raises(ValueError, match="no slices of tracks and no GPU stages; it has 1 marks"):
        load(path)


MANY = int(os.environ.get("WEFT_FUZZ", "60"))


@pytest.mark.parametrize("format", ["perfetto", "xplane", "chakra"])
def test_a_damaged_protobuf_is_a_trace_or_an_error_in_a_sentence(format: str, tmp_path) -> None:
    path, data = tmp_path / "damaged", files()[format]

    @settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(DAMAGE, min_size=1, max_size=4), st.booleans())
    def run(damages: list[tuple], named: bool) -> None:
        path.write_bytes(damaged(data, damages))
        outcome(path, format if named else None)

    run()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_no_protobuf(data: bytes) -> None:
    try:
        found = list(protobufs.fields(data))
    except ValueError:
        return
    assert all(number > 0 for number, _, _ in found)
