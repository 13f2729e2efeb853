"""Idle, compute and overlap shares of ranks by weft and by Holistic Trace Analysis (HTA) on the same files.

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis
    python benchmarks/compare_hta.py FOLDER --hta hta/bin/python --output benchmarks/results/compare_hta.json

FOLDER has one trace of PyTorch's profiler per rank, such as `tests/data/trace_filter` of HTA's repository (0.6.0).

    python benchmarks/compare_hta.py --traces FILE... --hta hta/bin/python --output benchmarks/results/hta_traces.json

compares single traces, and the lengths of their critical paths. HTA 0.5.0 needs pandas before version 3. What HTA
cannot analyse is given as its error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

HTA = """
import json, sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={int(k): v for k, v in json.loads(sys.argv[1]).items()}, trace_dir="",
                         include_last_profiler_step=True)
rows = analysis.get_temporal_breakdown(visualize=False).merge(analysis.get_comm_comp_overlap(visualize=False))
print("HTA" + rows.to_json(orient="records"))
"""

SINGLE = """
import json, logging, sys
from hta.trace_analysis import TraceAnalysis
logging.disable(logging.CRITICAL)
def attempt(call):
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
def path(analysis):
    graph, _ = analysis.critical_path_analysis(rank=0, annotation="", instance_id=0)
    return int(sum(edge.weight for edge in graph.critical_path_edges_set))
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="", include_last_profiler_step=True)
row = lambda name: json.loads(getattr(analysis, name)(visualize=False).to_json(orient="records"))[0]
print("HTA" + json.dumps([attempt(lambda: row("get_temporal_breakdown")), attempt(lambda: row("get_comm_comp_overlap")),
                          attempt(lambda: path(analysis))]))
"""


def single(file: Path, hta: str) -> dict[str, object]:
    """The figures of one trace by both tools."""
    import numpy as np

    from weft.model.critical_path import critical_path
    from weft.traces import load
    from weft.traces.balance import balance, length, union

    done = subprocess.run([hta, "-c", SINGLE, str(file.absolute())], capture_output=True, text=True, check=True)
    times, overlap, path = json.loads(done.stdout.split("HTA[")[-1].join(["[", ""]))
    trace = load(file)
    rank, device = balance(trace)[0], np.flatnonzero(trace.on_stream())
    mine: dict[str, object] = {"critical path us": critical_path(trace).length / 1000}
    if len(device):
        busy = union(trace, device)
        span = int(busy[-1, 1] - busy[0, 0])
        hidden = None if rank.overlap_share is None else 100 * rank.overlap_share
        mine |= {"idle us": (span - length(busy)) / 1000, "compute us": rank.compute_seconds * 1e6,
                 "whole us": span / 1000, "overlap %": hidden}  # fmt: skip
    theirs: dict[str, object] = {"critical path us": path}
    if isinstance(times, dict):
        names = {"idle us": "idle_time(us)", "compute us": "compute_time(us)", "whole us": "kernel_time(us)"}
        theirs |= {name: times[key] for name, key in names.items()}
    else:
        theirs["idle us"] = times
    theirs["overlap %"] = overlap["comp_comm_overlap_pctg"] if isinstance(overlap, dict) else overlap
    return {"trace": "/".join(file.parts[-3:]), "weft": mine, "HTA": theirs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--traces", type=Path, nargs="+", metavar="FILE", help="single traces instead of a folder")
    parser.add_argument("--hta", default="python", help="Python that has HTA")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.traces:
        found = [single(file, options.hta) for file in options.traces]
        print(json.dumps(found, indent=1))
        if options.output:
            options.output.write_text(json.dumps(found, indent=1) + "\n")
        return
    if options.folder is None:
        parser.error("give a folder of ranks, or --traces")

    from weft.traces import Window, inside, load
    from weft.traces.balance import balance

    files = {load(path).rank: str(path.absolute()) for path in inside(options.folder)}
    done = subprocess.run([options.hta, "-c", HTA, json.dumps(files)], capture_output=True, text=True, check=True)
    theirs = {row["rank"]: row for row in json.loads(done.stdout.split("HTA[")[-1].join(["[", ""]))}
    ours = {b.rank: b for b in balance(load(options.folder, window=Window(ranks=tuple(files))))}
    rows = []
    for rank in sorted(files):
        mine, other = ours[rank], theirs[rank]
        idle = None if mine.idle_share is None else 100 * mine.idle_share
        overlap = None if mine.overlap_share is None else 100 * mine.overlap_share
        rows.append({
            "rank": rank,
            "weft": {"idle %": idle, "compute us": mine.compute_seconds * 1e6, "overlap %": overlap},
            "HTA": {"idle %": other["idle_time_pctg"], "compute us": other["compute_time(us)"],
                    "overlap %": other["comp_comm_overlap_pctg"]},
        })  # fmt: skip
        print(rows[-1])
    if options.output:
        options.output.write_text(json.dumps({"traces": options.folder.name, "ranks": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
