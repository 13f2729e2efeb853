"""weft's gather-scatter compared with gslib's: the same ids and arrays, in one process, in alternating rounds.

    git clone https://github.com/Nek5000/gslib && make -C gslib CC=mpicc CFLAGS="-O3 -march=native"
    python benchmarks/compare_gslib.py --gslib gslib/build --output results.json

The program builds compare_gslib.c against the gslib in PREFIX (`--gslib` or the environment variable GSLIB: the folder
with include/ and lib/) and the libweft_gs of `--build` (or of an install prefix). It runs every case, number of ranks,
number of fields and layout. gslib runs with each of its methods and with the method that it chooses itself. A ratio is
gslib's median over weft's: weft is faster where it is above 1. A round takes `--seconds` per contestant. The medians
are over `--rounds` rounds, from the first rank's start to the last rank's end; weft's median comes with its quartiles.
Set-up is timed alone, and together with the first call, in which weft makes and tunes its exchange of six fields. Ranks
that share processors wait for one another's time slices of some ms. With more ranks than processors a round therefore
takes ten times as long, and the slowest parts are left out: gslib's all-reduce, and all set-ups but one.

Bytes are those that the calls must move, each counted once: the index (as weft_gs_index_bytes counts it), and every
64-byte line of the arrays that holds a combined value, read and written. They are compared with a bandwidth (8 reads :
1 write, arrays larger than the caches) measured in the same run on as many ranks; above 100 % of it, caches hold part
of the arrays. Arrays are in huge pages for both codes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
POINTS = 2**21  # of a box, about, over all ranks
LINE = 64


def counts_for(order: int) -> tuple[int, int, int]:
    """Elements per direction for about POINTS points."""
    each = max(1, round((POINTS / (order + 1) ** 3) ** (1 / 3)))
    return (each, each, max(1, round(POINTS / (order + 1) ** 3 / each**2)))


def write_ids(folder: Path, cases: list[str]) -> None:
    """On every rank of an MPI job: the ids of each case, the lines they touch, and on rank 0 what the machine is."""
    from mpi4py import MPI

    import weft
    import weft.mpi

    comm = MPI.COMM_WORLD
    facts: dict[str, object] = {}
    for case in cases:
        name, order = case.rsplit(":", 1)
        box = name == "box"
        mesh = weft.Mesh.box(counts_for(int(order)), comm=comm) if box else weft.Mesh.read(name, comm=comm)
        ids = np.ascontiguousarray(mesh.point_ids(int(order)).ravel(), dtype=np.int64)
        ids.tofile(folder / f"{Path(name).name}_{order}_{comm.size}.{comm.rank}")
        gs = weft.GatherScatter(ids, comm, check=False)
        several = gs(np.ones(ids.size)) > 1
        lines = {}
        for fields in (1, 6):
            per_line = LINE // 8
            bytes_of = np.flatnonzero(np.repeat(several, fields)) // per_line
            lines[fields] = comm.allreduce(int(np.unique(bytes_of).size), MPI.SUM)
        facts[case] = {
            "points": comm.allreduce(ids.size, MPI.SUM),
            "combined_points": comm.allreduce(int(several.sum()), MPI.SUM),
            "lines": lines,
        }
    comm.Barrier()
    host = weft.device.open("host")
    bandwidth = comm.allreduce(weft.device.measure_bandwidth(host), MPI.SUM)
    if comm.rank == 0:
        placement = sorted(os.sched_getaffinity(0))
        result = {
            "mpi": weft.mpi.library_version(),
            "processor": host.name,
            "placement": f"{comm.size} rank(s) on one node, cores {placement} open to each",
            "bandwidth_bytes_per_second": bandwidth,
            "cases": facts,
        }
        (folder / f"facts_{comm.size}.json").write_text(json.dumps(result))


def build_driver(gslib: Path, weft_at: Path, folder: Path) -> Path:
    if not (gslib / "lib" / "libgs.a").exists():
        sys.exit(
            f"{gslib} does not contain gslib (lib/libgs.a is missing): pass its install prefix as --gslib (see --help)"
        )
    installed = weft_at / "lib" / "libweft_gs.so"
    library = installed if installed.exists() else weft_at / "libweft_gs.so"
    if not library.exists():
        sys.exit(f"{weft_at} does not contain libweft_gs: build it with ninja -C build weft_gs")
    driver = folder / "compare_gslib"
    headers = [weft_at / "include" if installed.exists() else ROOT / "cpp", gslib / "include"]
    command = ["mpicc", "-O2", "-std=gnu99", *(f"-I{h}" for h in headers), f"-I{gslib / 'include' / 'gslib'}"]
    command += [ROOT / "benchmarks" / "compare_gslib.c", "-o", driver, gslib / "lib" / "libgs.a", library]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent.resolve()}", "-lm"], check=True)
    return driver


def run(ranks: int, *command: object) -> str:
    launcher = shutil.which("mpiexec") or "mpiexec"
    done = subprocess.run(
        [launcher, "-n", str(ranks), *map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed on {ranks} rank(s):\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gslib", type=Path, default=os.environ.get("GSLIB"), help="gslib's install prefix")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="weft's build folder or install prefix")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 7, 15])
    parser.add_argument("--fields", type=int, nargs="+", default=[1, 6], choices=[1, 6])
    parser.add_argument("--meshes", nargs="*", default=["box", str(ROOT.parent / "shared/data/meshes/hemi.re2")])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=0.02, help="seconds per round and contestant")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--write-ids", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write_ids:
        write_ids(Path(arguments.write_ids[0]), arguments.write_ids[1:])
        return
    if arguments.gslib is None:
        parser.error("say where gslib is: --gslib PREFIX, or GSLIB in the environment")
    meshes = [m for m in arguments.meshes if m == "box" or Path(m).exists()]
    for absent in set(arguments.meshes) - set(meshes):
        print(f"left out: the mesh {absent} does not exist")
    cases = [f"{mesh}:{order}" for mesh in meshes for order in arguments.orders]

    result: dict[str, object] = {
        "rounds": arguments.rounds,
        "runs": {},
        "rows": [],
    }
    slower = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        driver = build_driver(arguments.gslib, arguments.build, folder)
        print("gslib's time over weft's (above 1: weft is faster); share of the bandwidth by lines touched, see --help")
        for ranks in arguments.ranks:
            run(ranks, sys.executable, __file__, "--write-ids", folder, *cases)
            facts = json.loads((folder / f"facts_{ranks}.json").read_text())
            result["runs"][str(ranks)] = facts
            crowded = ranks > len(os.sched_getaffinity(0))
            seconds, number = (10 * arguments.seconds, 4) if crowded else (arguments.seconds, 5)
            for case in cases:
                mesh, order = case.rsplit(":", 1)
                known = facts["cases"][case]
                for fields in arguments.fields:
                    for layout in ["vec"] if fields == 1 else ["vec", "many"]:
                        prefix = folder / f"{Path(mesh).name}_{order}_{ranks}"
                        setups = (
                            3 if fields == 1 and not crowded else 1
                        )  # with one field: set-up does not depend on the fields
                        words = [fields, layout, arguments.rounds, seconds, setups, number]
                        text = run(ranks, driver, prefix, *words)
                        row = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
                        contestants = row["contestants"]
                        medians = {who: statistics.median(c["rounds"]) for who, c in contestants.items()}
                        quartiles = {
                            who: np.percentile(c["rounds"], (25, 75)).tolist() for who, c in contestants.items()
                        }
                        ratios = {who: m / medians["weft"] for who, m in medians.items() if who != "weft"}
                        setup = {who: c["setup_seconds"] for who, c in contestants.items()}
                        ready = {who: s + contestants[who]["first_call_seconds"] for who, s in setup.items()}
                        # Separate arrays have separate lines; values next to each other share them.
                        lines = known["lines"][str(fields)] if layout == "vec" else fields * known["lines"]["1"]
                        moved = 2 * LINE * lines + row["index_bytes_of_rank_0"] * ranks
                        row |= {
                            "mesh": Path(mesh).name,
                            "order": int(order),
                            "ranks": ranks,
                            "fields": fields,
                            "layout": layout,
                            "seconds_a_round": seconds,
                            "median_seconds": medians,
                            "quartile_seconds": quartiles,
                            "ratios": ratios,
                            "setup_ratio": setup["gslib auto"] / setup["weft"],
                            "setup_and_first_call_ratio": ready["gslib auto"] / ready["weft"],
                            "of_bandwidth": moved / medians["weft"] / facts["bandwidth_bytes_per_second"],
                        }
                        result["rows"].append(row)
                        if min(*ratios.values(), row["setup_ratio"], row["setup_and_first_call_ratio"]) <= 1:
                            slower.append(row)
                        print(
                            f"{row['mesh']:9s} N={order:2s} {ranks} rank(s) {fields} {layout:4s} "
                            f"weft {1e3 * medians['weft']:8.3f} ms "
                            f"({1e3 * quartiles['weft'][0]:.3f} - {1e3 * quartiles['weft'][1]:.3f}; "
                            f"{100 * row['of_bandwidth']:3.0f} % of bandwidth); "
                            + ", ".join(f"{who.removeprefix('gslib ')} {r:.2f}" for who, r in ratios.items())
                            + f"; set-up {setup['weft']:.3f} s, {row['setup_ratio']:.1f}, with the first call "
                            + f"{ready['weft']:.3f} s, {row['setup_and_first_call_ratio']:.1f}",
                            flush=True,
                        )
    print("weft is faster at every point" if not slower else f"weft is slower at {len(slower)} point(s)")
    if arguments.output:
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
