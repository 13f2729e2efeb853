"""Runs the examples as their pages say, and writes results, times and pictures into the pages.

    python benchmarks/gallery.py [--output benchmarks/results/gallery.json] [NAME ...]

Each page has a block of commands, which run in the folder of the example, and a block that this program writes, with
the output of the last command and the processor time of the commands. The picture combines those of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

from PIL import Image

from weft.run.launch import processor_name

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BLOCK = re.compile(r"(<!-- written by benchmarks/gallery.py -->\n).*?(<!-- end -->)", re.DOTALL)
PICTURES = {  # files in the folder "result", side by side
    "cavity": ["slice.png", "profiles.png"],
    "channel": ["slice.png", "profiles.png"],
    "cylinder": ["slice.png"],
    "eddies": ["slice.png"],
    "forced": ["enstrophy.png", "spectrum.png"],
    "heated_cavity": ["slice.png", "slice-2.png"],
    "mie": ["slice.png", "slice-2.png"],
    "taylor_green": ["enstrophy.png", "history.png"],
    "waveguide": ["slice.png", "slice-2.png"],
    "wing": ["slice.png"],
}
HEIGHT, WIDTH = 400, 900  # maximum width of the pictures in pixels
LARGEST = 148_000  # bytes of a picture with all of its colours


def commands(page: str) -> list[str]:
    """The commands of a page: its first block, without the change of folder and comments."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[:1]
    lines = [line.partition("  #")[0].strip() for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("cd ")]


def run(command: str, folder: Path) -> tuple[str, float]:
    """The output of a command, and its processor time in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PATH": path}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"{folder.name}: {command}: {done.stderr or done.stdout}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def picture(name: str, folder: Path) -> None:
    """Puts the pictures of a run side by side, small enough for a page."""
    parts = [Image.open(folder / "result" / file).convert("RGB") for file in PICTURES[name]]
    height = min(HEIGHT, min(part.height for part in parts))
    parts = [
        part.resize((round(part.width * height / part.height), height), Image.Resampling.LANCZOS) for part in parts
    ]
    whole = Image.new("RGB", (sum(part.width for part in parts), height), "white")
    left = 0
    for part in parts:
        whole.paste(part, (left, 0))
        left += part.width
    whole.thumbnail((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    path = folder / f"{name}.png"
    whole.save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        whole.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders of examples/; default: all")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "gallery.json")
    options = parser.parse_args()
    record = json.loads(options.output.read_text()) if options.output.exists() else {}
    for name in options.names or sorted(path.parent.name for path in EXAMPLES.glob("*/README.md")):
        folder = EXAMPLES / name
        page = folder / "README.md"
        outputs = [run(command, folder) for command in commands(page.read_text())]
        found, took = outputs[-1][0].strip(), sum(seconds for _, seconds in outputs)
        text = f"{found}\n\nProcessor time of the commands: {took:.0f} s, on one core ({processor_name()}).\n"
        page.write_text(BLOCK.sub(lambda block, text=text: block[1] + text + block[2], page.read_text()))
        if name in PICTURES:
            picture(name, folder)
        record[name] = {"prints": found.splitlines(), "processor_seconds": took, "processor": processor_name()}
        options.output.write_text(json.dumps(record, indent=1) + "\n")
        print(name, f"{took:.0f} s\n{found}", flush=True)


if __name__ == "__main__":
    main()
