"""Writes the share of the streaming roofline that every GPU kernel can reach, as `weft model kernels` predicts it.

    python benchmarks/kernel_limits.py [--machine h200] [--output benchmarks/results/kernel_limits_h200.json]

If the output exists, each kernel's share in it is kept as `share_before`. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from weft.model import kernels
from weft.model.chips import CHIPS

RESULTS = Path(__file__).resolve().parent / "results"
PRECISIONS = {"double": "double", "float": "single"}


def name(kernel: str) -> str:
    """The name of a kernel without its file."""
    return kernel.rpartition(".")[2]


def rows(machine: str, before: dict[tuple[str, int, str], float]) -> list[dict[str, object]]:
    """One row per kernel, order and precision: its share, its limit, and the resources that it uses."""
    found = []
    for counters in kernels.recorded()[1]:
        predicted = kernels.predict(counters, CHIPS[machine])
        key = (name(counters.kernel), counters.order, PRECISIONS[counters.real])
        row: dict[str, object] = {"kernel": counters.kernel, "order": key[1], "precision": key[2]}
        if key in before:
            row["share_before"] = before[key]
        found.append(
            row
            | {
                "share": round(predicted.share, 3), "limit": predicted.limit, "registers": counters.registers,
                "warps_per_multiprocessor": predicted.occupancy.warps,
            }
        )  # fmt: skip
    return found


def shares(path: Path) -> dict[tuple[str, int, str], float]:
    """The shares in an earlier result, by kernel, order and precision; none if there is no such file."""
    if not path.exists():
        return {}
    record = json.loads(path.read_text(encoding="utf-8"))
    return {(name(row["kernel"]), row["order"], row["precision"]): row["share"] for row in record["kernels"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--machine", default="h200", choices=CHIPS, help="GPU to predict for")
    parser.add_argument("--output", type=Path, help="file to write; default: results/kernel_limits_MACHINE.json")
    options = parser.parse_args()
    path = options.output or RESULTS / f"kernel_limits_{options.machine}.json"
    found = rows(options.machine, shares(path))
    head = {
        "program": f"benchmarks/kernel_limits.py --machine {options.machine}",
        "what": "share of the streaming roofline that each kernel can reach, predicted (docs/model-kernels.md)",
        "gpu": CHIPS[options.machine].title, "recorded": kernels.recorded()[0],
    }  # fmt: skip
    lines = ",\n".join(f"  {json.dumps(row)}" for row in found)
    path.write_text(json.dumps(head, indent=1)[:-2] + f',\n "kernels": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    print(f"wrote {path}: {len(found)} kernels")


if __name__ == "__main__":
    main()
