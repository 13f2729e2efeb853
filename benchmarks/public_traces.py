"""Checks weft on traces of other programs: counts, replays and their bounds for every trace in some folders.

    python benchmarks/public_traces.py FOLDER... --output benchmarks/results/public_traces.json

For every trace that weft detects in the folders (checkouts of repositories, for example; only the first of equal files)
it writes, as JSON:

- the number of events by kind, launches, busy time of the device and bytes, compared with counts that the tests make
  without weft's readers (`tests/python/trace_counts.py`);
- the span of the unchanged replay, relative to the recorded one;
- whether replays are monotone in bandwidth, latency, speeds and the network;
- whether replays are as long as the longest chain of their dependencies and no longer than the sum of all.

Refused files are listed with the message. Files whose content is already in the output are not read again. The exit
status is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from trace_checks import counted, dependencies, longest_path
from trace_counts import counts

from weft import traces
from weft.model import replay
from weft.model.program import Program
from weft.model.replaying import AS_TRACED, Scenario

WORSE = {
    "gpu_speed": [1e9, 2.0, 1.0, 0.5], "cpu_speed": [10.0, 1.0, 0.5], "bandwidth": [np.inf, 1e11, 1e9],
    "latency": [0.0, 1e-5, 1e-3], "message_latency": [0.0, 1e-6, 1e-3], "message_bandwidth": [np.inf, 1e9, 1e7],
}  # fmt: skip
BOUNDED = (AS_TRACED, Scenario(gpu_speed=2.0, cpu_speed=0.5, latency=5e-5))
ALLOWED = 1e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    rows, refused = known(given.output)
    seen = {row["sha256"] for row in (*rows, *refused)}
    for folder, path in files(given.folders):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest in seen:
            continue
        seen.add(digest)
        which = {"file": f"{folder.name}/{path.relative_to(folder)}", "sha256": digest}
        begin = time.process_time()
        try:
            trace = traces.load(path)
        except (ValueError, OSError) as error:
            refused.append({**which, "message": str(error).replace(f"{path}: ", "")})
            print("REFUSED", refused[-1], flush=True)
            continue
        row = {**which, **check(path, trace)}
        row["seconds"] = round(time.process_time() - begin, 2)
        rows.append(row)
        print("FAILED " if row["failed"] else "ok     ", row, flush=True)
        if given.output:
            write(given.output, rows, refused)
    failed = [row["file"] for row in rows if row["failed"]]
    print(f"{len(rows)} traces, {len(refused)} refused, {len(failed)} with a failed check")
    if given.output:
        write(given.output, rows, refused)
    sys.exit(bool(failed))


def known(output: Path | None) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The traces and the refused files that are already in the output."""
    if output is None or not output.exists():
        return [], []
    content = json.loads(output.read_text())
    return content["traces"], content["refused"]


def write(output: Path, rows: list[dict[str, object]], refused: list[dict[str, object]]) -> None:
    """Writes a trace per line."""
    parts = (
        ",\n".join(json.dumps(row) for row in sorted(part, key=lambda r: str(r["file"]))) for part in (rows, refused)
    )
    listed, refusals = parts
    output.write_text(f'{{"traces": [\n{listed}\n],\n"refused": [\n{refusals}\n]}}\n')


def files(folders: list[Path]) -> Iterator[tuple[Path, Path]]:
    """Each file in the folders, with its folder, whose format weft reads."""
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            if traces.detect(path):
                yield folder, path


def check(path: Path, trace: traces.Trace) -> dict[str, object]:
    """The figures of a trace; `failed` names the checks that fail."""
    found, expected = counted(trace), counts(path)
    row: dict[str, object] = {"format": trace.format, "span_seconds": trace.span * 1e-9, **found.figures()}
    failed = [] if expected is None else found.differences(expected, ALLOWED)
    row["counted"] = expected is not None
    try:
        source = replay.program(trace)
    except ValueError as error:
        return {**row, "not_replayed": str(error).replace(f"{path}: ", ""), "failed": failed}
    taken = replay.replay(source).seconds
    unchanged = taken / source.traced_seconds if source.traced_seconds else 1.0 + taken  # a schedule takes no time
    if abs(unchanged - 1) > ALLOWED:
        failed.append(f"replayed unchanged: {unchanged:.6f} of the span")
    failed += [f"not monotone in {name}" for name, worse in WORSE.items() if not monotone(source, name, worse)]
    failed += [f"out of bounds: {scenario}" for scenario in BOUNDED if not bounded(source, scenario)]
    return {**row, "unchanged": unchanged, "failed": failed}


def monotone(source: Program, name: str, worse: list[float]) -> bool:
    """Whether worse machines never take less time."""
    taken = [replay.replay(source, Scenario(**{name: value})).seconds for value in worse]  # type: ignore[arg-type]
    return all(b >= a * (1 - 1e-12) for a, b in pairwise(taken))


def bounded(source: Program, scenario: Scenario) -> bool:
    """Whether a replay takes as long as its longest chain, and no longer than the sum of all durations."""
    graph = dependencies(source, scenario)
    seconds, longest = replay.replay(source, scenario).seconds - source.rest, longest_path(graph)
    total = sum(sum(max(0.0, t) for t in earlier.values()) for earlier in graph.values())
    return abs(seconds - longest) <= 1e-6 * longest and seconds <= total * (1 + 1e-9)


if __name__ == "__main__":
    main()
