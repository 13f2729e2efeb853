"""Idle, compute and overlap shares of ranks by weft and by Holistic Trace Analysis (HTA) on the same files.

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis
    python benchmarks/compare_hta.py FOLDER --hta hta/bin/python --output benchmarks/results/compare_hta.json

FOLDER has one trace of PyTorch's profiler per rank, such as `tests/data/trace_filter` of HTA's repository (0.6.0).
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hta", default="python", help="Python that has HTA")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()

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
