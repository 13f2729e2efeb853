"""The emulated network of benchmarks/: the behaviour of its links, its clean-up, and its comparisons."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from mpi_run import mpi_prints

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def program(name: str) -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


nodes = program("emulated_nodes")
network = program("emulated_network")
why = nodes.unavailable()
on_nodes = pytest.mark.skipif(why is not None, reason=why or "")

# A byte there and back, several times, then a megabyte one way: seconds of the fastest, and of the megabyte.
SERVER = """
import socket
with socket.create_server(("10.77.0.2", 7000)) as server:
    print("ready", flush=True)
    other, _ = server.accept()
    with other:
        other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(10):
            other.sendall(other.recv(1))
        left = 1_000_000
        while left:
            left -= len(other.recv(left))
        other.sendall(b"x")
"""
CLIENT = """
import socket, time
with socket.create_connection(("10.77.0.2", 7000), 20) as other:
    other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    def timed(data):
        start = time.perf_counter()
        other.sendall(data)
        other.recv(1)
        return time.perf_counter() - start
    print(min(timed(b"x") for _ in range(10)), timed(bytes(1_000_000)))
"""


def left_behind() -> set[str]:
    """What a network of this machine would leave: devices, namespaces, mounts, processes and folders."""
    devices = {p.name for p in Path("/sys/class/net").iterdir() if p.name.startswith("weft")}
    folders = {str(p) for p in Path("/tmp").glob("weft-nodes-*")}
    mounts = {line for line in Path("/proc/mounts").read_text().splitlines() if "weft-nodes" in line}
    own, foreign = os.stat("/proc/self/ns/net").st_ino, set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.stat(process / "ns/net").st_ino != own or "network_relay" in (process / "comm").read_text():
                foreign.add(process.name)
        except OSError:
            continue
    return devices | folders | mounts | foreign


@on_nodes
@pytest.mark.timeout(120)
def test_links_are_faster_than_their_latency_and_rate_allow_or_leave_something_behind() -> None:
    before = left_behind()
    with nodes.Nodes(2) as made:
        made.set(nodes.Setting(latency=1e-3, rate=0.1e9 / 8))
        assert left_behind() > before
        server = [*made.inside(1), sys.executable, "-c", SERVER]
        with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            client = [*made.inside(0), sys.executable, "-c", CLIENT]
            found = subprocess.run(client, capture_output=True, text=True, check=True, timeout=60).stdout.split()
        traffic = made.set(nodes.Setting(0, 1e12))
    round_trip, megabyte = map(float, found)
    assert round_trip >= 2e-3
    assert megabyte >= 1e6 / (0.1e9 / 8) + 2e-3
    assert traffic.bytes > 1e6
    assert traffic.frames > 15  # of at most 65521 bytes
    assert traffic.processor_seconds > 0
    assert left_behind() <= before


@on_nodes
@pytest.mark.timeout(60)
def test_an_error_leaves_nodes_behind() -> None:
    before = left_behind()

    def fail() -> None:
        with nodes.Nodes(2) as made:
            other = subprocess.Popen([*made.inside(1), "sh", "-c", "echo ready; sleep 600"], stdout=subprocess.PIPE)
            assert other.stdout is not None
            assert other.stdout.readline() == b"ready\n"
            subprocess.Popen([*made.inside(1), "sleep", "600"])  # not inside yet, when the block ends
            subprocess.run([*made.inside(0), "false"], check=True)

    with pytest.raises(subprocess.CalledProcessError):
        fail()
    assert left_behind() <= before


@on_nodes
@pytest.mark.timeout(60)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_leaves_nodes_behind(how: signal.Signals) -> None:
    before = left_behind()
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import emulated_nodes, time\n"
    code += "with emulated_nodes.Nodes(2):\n    print('ready', flush=True)\n    time.sleep(600)"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as made:
        assert made.stdout is not None
        assert made.stdout.readline() == "ready\n"
        made.send_signal(how)
        assert made.wait(30) != 0
    folders = {name for name in left_behind() if "weft-nodes-" in name}
    for folder in folders if how == signal.SIGKILL else ():  # what nobody is left to remove: one file
        (Path(folder) / "launch").unlink()
        Path(folder).rmdir()
    end = time.monotonic() + 20
    while not left_behind() <= before and time.monotonic() < end:  # their first processes are ending
        time.sleep(0.1)
    assert left_behind() <= before


def test_clocks_of_nodes_are_not_compared() -> None:
    code = """
from mpi4py import MPI
from weft import _weft, trace
comm = MPI.COMM_WORLD
trace.start(comm)
_weft.trace.set_zero_ns(_weft.trace.zero_ns() + comm.rank * 1000 * 10**9)
print(comm.rank, trace._behind(comm) // 10**9)
"""
    said = sorted(mpi_prints(2, code).split("\n"))
    (first, second) = (int(line.split()[1]) for line in said if line)
    assert first == 0
    assert 900 < second < 1100  # seconds, of which a message takes few


def test_a_path_is_not_that_of_the_other_setting() -> None:
    base, other = nodes.Setting(1e-4, 1e8), nodes.Setting(1e-3, 1e7)
    path = network.MessagePath(1.5e-4, 1 / (1e-8 + 1e-9))
    assert network.moved(path, base, base).latency == pytest.approx(path.latency)
    there = network.moved(path, base, other)
    assert there.latency == pytest.approx(1.05e-3)
    assert 1 / there.bandwidth == pytest.approx(1e-7 + 1e-9)


def test_another_part_of_a_trace_is_compared(tmp_path: Path) -> None:
    def span(rank: int, name: str, begin: float, seconds: float) -> dict[str, object]:
        return {"ph": "X", "pid": rank, "tid": 0, "name": name, "cat": "cpu", "ts": begin, "dur": seconds, "args": {}}

    events = [
        e
        for rank, late in ((0, 0.0), (1, 50.0))
        for e in (
            span(rank, "conjugate gradients", late, 100.0), span(rank, "pack", late + 10, 5.0),
            span(rank, "conjugate gradients", late + 1000, 2000.0), span(rank, "pack", late + 1500, 5.0),
            span(rank, "barrier", late + 4000, 1.0),
        )
    ]  # fmt: skip
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": events}))
    found, seconds = network.cut(file, "poisson")
    assert seconds == pytest.approx(2e-3)
    kept = json.loads(found.read_text())["traceEvents"]
    assert sorted((e["pid"], e["ts"]) for e in kept) == [(0, 1000.0), (0, 1500.0), (1, 1050.0), (1, 1550.0)]


def test_the_steps_of_turbulence_are_not_those_between_two_spectra() -> None:
    assert network.timed("turbulence", [(0.0, 1.0), (2.0, 3.0), (90.0, 91.0)]) == (3.0, 90.0)


def test_a_user_without_root_is_not_told_so() -> None:
    script = str(BENCHMARKS / "emulated_network.py")
    code = f"import os, runpy, sys; os.geteuid = lambda: 1000; sys.argv = [{script!r}, 'measure']; "
    code += f"sys.path.insert(0, {str(BENCHMARKS)!r}); runpy.run_path({script!r}, run_name='__main__')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 1
    assert len(found.stderr.splitlines()) == 1
    assert "emulated nodes need" in found.stderr
