"""Measures the time and memory of `weft model replay` and `critical-path` for a large trace; writes JSON.

    python benchmarks/trace_replay.py --events 1000000 --output benchmarks/results/trace_replay.json

Generates the traces of `trace_reading.py` and runs both commands on each in a process of their own: reading, building
the program, and the replays behind what `replay` prints for another machine; reading and the path. The file has the
processor seconds of the commands and of each part of `replay`. The required limits are 20 s and 600 MB for 10^6 events.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from trace_reading import write_chrome, write_nsys

from weft.run.launch import processor_name

OPTIONS = ("--gpu-speed", "2", "--latency", "2", "--queue", "1000")
PARTS = """
import json, resource, sys, time
from weft import traces
from weft.model import replay

def seconds(call):
    begin = time.process_time()
    made = call()
    return made, time.process_time() - begin

trace, load = seconds(lambda: traces.load(sys.argv[1]))
source, build = seconds(lambda: replay.program(trace))
outcome, run = seconds(lambda: replay.replay(source, replay.Scenario(gpu_speed=2.0, latency=2e-6, queue=1000)))
print(json.dumps({"events": len(trace), "load_seconds": load, "build_seconds": build, "replay_seconds": run}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    record: dict[str, object] = {
        "processor": processor_name(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version(),
        "load_average": os.getloadavg()[0], "command": ["weft", "model", "replay", "TRACE", *OPTIONS],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name in ("weft", "kineto", "nsys"):
            path = Path(folder) / f"{name}.trace"
            if name == "nsys":
                write_nsys(path, given.events)
            else:
                write_chrome(path, given.events, name == "kineto")
            done = subprocess.run([sys.executable, "-c", PARTS, str(path)], capture_output=True, text=True, check=True)
            record[name] = {**json.loads(done.stdout), **command("command", "replay", path, *OPTIONS),
                            **command("critical_path", "critical-path", path)}  # fmt: skip
            print(name, record[name], flush=True)
            path.unlink()
    if given.output:
        given.output.write_text(json.dumps(record, indent=1) + "\n")


def command(key: str, method: str, path: Path, *options: str) -> dict[str, float]:
    """Processor seconds and the largest memory of a command."""
    child = subprocess.Popen([Path(sys.executable).with_name("weft"), "model", method, path, *options],
                             stdout=subprocess.DEVNULL)  # fmt: skip
    _, status, used = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"weft model {method} {path.name} failed")
    return {f"{key}_seconds": used.ru_utime + used.ru_stime,
            f"{key}_peak_bytes": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)}  # fmt: skip


if __name__ == "__main__":
    main()
