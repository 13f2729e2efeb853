"""Emulates nodes on one machine: namespaces, each with its own host name, processes, shared memory and network.

    with Nodes(2) as nodes:
        nodes.set(Setting(latency=1e-3, rate=1e9 / 8))
        nodes.mpiexec(["weft", "bench", "pingpong", "--output", "pingpong"])

The network is a star of TAP devices around `network_relay.cpp`, whose first lines define rate and latency. This needs
root, Linux with /dev/net/tun, and commands of util-linux and iproute2. Leaving the block ends all processes of the
nodes; if this program is killed, the nodes and the relay notice the end of a pipe, and exit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).parent
MTU = 65521  # the largest of a TAP device: the relay works per frame
# Frames are neither lost nor reordered, however long they queue, so only an answer may trigger a retransmission.
ROUTE = ("rto_min", "20s", "initcwnd", "10000", "initrwnd", "10000")
KERNEL = {
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv4.tcp_early_retrans": "0",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_rmem": "4096 33554432 67108864",  # more than 10 Gb/s x 2 x 2 ms
    "net.ipv4.tcp_wmem": "4096 33554432 67108864",
}


class UnavailableError(Exception):
    """Raised if nodes cannot be created here; the text says why."""


@dataclass(frozen=True)
class Setting:
    """The link of a node: `latency` in seconds, `rate` in bytes per second."""

    latency: float
    rate: float

    def __str__(self) -> str:
        return f"{self.latency * 1e6:g} µs, {self.rate * 8e-9:g} Gb/s"


@dataclass(frozen=True)
class Traffic:
    """The work of the relay: its frames, their bytes, its processor time, and the delays of frames (s)."""

    frames: int
    bytes: int
    processor_seconds: float
    mean_lateness: float
    largest_lateness: float


def unavailable() -> str | None:
    """One line that says why nodes cannot be created here; None if they can."""
    if sys.platform != "linux":
        return "emulated nodes need Linux"
    missing = [
        name for name in ("ip", "unshare", "nsenter", "setpriv", "sysctl", "taskset") if shutil.which(name) is None
    ]
    if missing:
        return f"emulated nodes need the command '{missing[0]}', which is not installed"
    if os.geteuid() != 0:
        return "emulated nodes need root: namespaces, TAP devices and real-time priority are made for them"
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        return f"emulated nodes need TAP devices: {error}"
    return None


def relay_program() -> Path:
    """The relay, compiled once for each version of its source."""
    source = HERE / "network_relay.cpp"
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "weft"
    program = folder / f"network_relay-{source.stat().st_mtime_ns}"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = program.with_suffix(f".{os.getpid()}")
        compiler = os.environ.get("CXX", "g++")
        subprocess.run([compiler, "-std=c++20", "-O2", "-o", str(partial), str(source)], check=True)
        partial.replace(program)
    return program


class Nodes:
    """A context manager for `count` nodes with addresses 10.77.0.1, 10.77.0.2, …, which cleans up at the end."""

    def __init__(self, count: int = 2) -> None:
        self.count = count
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]
        self._stack = ExitStack()
        self._first: list[int] = []  # process id of each node's first process

    def __enter__(self) -> Nodes:
        why = unavailable()
        if why is not None:
            raise UnavailableError(why)
        with self._stack:
            self._start()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        devices = [f"weft{os.getpid()}.{i + 1}" for i in range(self.count)]
        self._relay = self._child([str(relay_program()), *devices])
        self.set(Setting(0, 1e12))  # its answer says that the devices are there
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-nodes-")))
        for i in range(self.count):
            self._start_node(i, devices[i])
        self._launcher = self._folder / "launch"
        cases = "\n".join(
            f'  {a}) exec {_shell(self.inside(i))} /bin/sh -c "$*" ;;' for i, a in enumerate(self.addresses)
        )
        self._launcher.write_text(
            f"#!/bin/sh\nshift  # the option -x of ssh\nnode=$1\nshift\ncase $node in\n{cases}\nesac\nexit 1\n"
        )
        self._launcher.chmod(0o755)

    def _start_node(self, i: int, device: str) -> None:
        spaces = ["--net", "--uts", "--ipc", "--mount"]
        settings = " ".join(f"'{key}={value}'" for key, value in KERNEL.items())
        made = (
            f"hostname node{i + 1} && mount -t tmpfs tmpfs /dev/shm && mount -t sysfs sysfs /sys"
            f" && sysctl -q -w {settings} && ip link set lo up && echo made && exec cat"
        )
        node = self._child(["unshare", *spaces, "sh", "-c", made])
        self._expect(node, "made")
        self._stack.callback(_end_all, node, os.stat(f"/proc/{node.pid}/ns/net").st_ino)
        self._first.append(node.pid)
        _run("ip", "link", "set", device, "netns", str(node.pid))
        inside = [*self.inside(i), "ip"]
        _run(*inside, "link", "set", device, "name", "weft0", "address", f"02:00:00:00:00:{i + 1:02x}", "mtu", str(MTU))
        _run(*inside, "link", "set", "weft0", "txqueuelen", "20000", "up")
        _run(*inside, "address", "add", f"{self.addresses[i]}/32", "dev", "weft0")
        for k, other in enumerate(self.addresses):
            if k != i:
                _run(*inside, "neighbour", "add", other, "lladdr", f"02:00:00:00:00:{k + 1:02x}", "dev", "weft0")
                _run(*inside, "route", "add", other, "dev", "weft0", "src", self.addresses[i], *ROUTE)

    def _child(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Starts a process that exits when its standard input is closed. Ctrl-C does not reach its process group."""
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._stack.callback(_end, process)
        return process

    def _expect(self, process: subprocess.Popen[str], word: str = "") -> str:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line or (word and line != word):
            raise UnavailableError(f"{process.args[0]} did not start; its message is above")  # type: ignore[index]
        return line

    def inside(self, node: int) -> list[str]:
        """The words that, put before a command, run it on a node, on its share of the cores."""
        cores = sorted(os.sched_getaffinity(0))
        share = max(1, len(cores) // self.count)
        own = [cores[(node * share + k) % len(cores)] for k in range(share)]
        enter = ["nsenter", "--target", str(self._first[node]), "--net", "--uts", "--ipc", "--mount"]
        return ["taskset", "--cpu-list", ",".join(map(str, own)), *enter]

    def set(self, setting: Setting) -> Traffic:
        """Sets the rate and the latency of all links; returns the traffic since the last call."""
        assert self._relay.stdin is not None
        try:
            self._relay.stdin.write(f"{setting.rate!r} {setting.latency!r}\n")
            self._relay.stdin.flush()
        except BrokenPipeError:
            raise UnavailableError("the relay has ended; its message is above") from None
        values = self._expect(self._relay).split()
        return Traffic(int(values[0]), int(values[1]), *map(float, values[2:]))

    def mpiexec(
        self, command: Sequence[str], ranks_per_node: int = 1, nodes: int | None = None,
        folder: Path | None = None, environment: Mapping[str, str] | None = None, seconds: float = 120,
    ) -> str:  # fmt: skip
        """Runs a program with MPICH's `mpiexec` on the first `nodes` nodes, with TCP for all messages between them.

        Returns its output; raises CalledProcessError with it, or TimeoutExpired after `seconds`.
        """
        hosts = self.addresses[: nodes or self.count]
        words = [
            "setpriv",
            "--pdeathsig",
            "TERM",
            *self.inside(0),
            "mpiexec",
            "-localhost",
            hosts[0],
            "-launcher",
            "ssh",
        ]
        words += ["-launcher-exec", str(self._launcher), "-hosts", ",".join(hosts), "-ppn", str(ranks_per_node)]
        words += ["-n", str(ranks_per_node * len(hosts)), *command]
        given = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "weft0", "OMP_NUM_THREADS": "1"}
        given["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # this environment's mpiexec and weft
        given |= dict(environment or {})
        return self._run_inside(words, folder, {**os.environ, **given}, seconds)

    @staticmethod
    def _run_inside(words: Sequence[str], folder: Path | None, environment: Mapping[str, str], seconds: float) -> str:
        with subprocess.Popen(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=seconds)
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)  # mpiexec passes it on to the other nodes
                try:
                    process.communicate(timeout=5)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode != 0:
            failed = subprocess.CalledProcessError(process.returncode, words, output)
            failed.add_note(output)
            raise failed
        return output


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_all(first: subprocess.Popen[str], network: int) -> None:
    """Ends the processes of a node, and returns when all have left its network. Without the first, none can enter."""
    _end(first)
    limit = time.monotonic() + 10
    while (others := _in_network(network)) and time.monotonic() < limit:
        for process in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def _in_network(network: int) -> set[int]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if os.stat(process / "ns/net").st_ino == network:
                found.add(int(process.name))
    return found


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


def _shell(words: Sequence[str]) -> str:
    return " ".join(words)
