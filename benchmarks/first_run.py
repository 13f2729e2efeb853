#!/usr/bin/env python3
"""Runs the command of `make run`, and writes its output into README.md between the marks.

benchmarks/first_run.py [--ranks 2]
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"(<!-- first run: [^\n]* -->\n```\n).*?(```\n<!-- end of first run -->)", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    ranks = parser.parse_args().ranks
    beside = Path(sys.executable).parent / "mpiexec"
    launcher = (
        str(beside)
        if beside.exists()
        else shutil.which("mpiexec")
        or sys.exit("mpiexec is not on PATH: activate the environment with . .venv/bin/activate")
    )
    with tempfile.TemporaryDirectory() as folder:
        command = [launcher, "-n", str(ranks), sys.executable, "-m", "weft.cli.main", "run", "poisson"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        text = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout
    shown = "".join(line + "\n" for line in text.splitlines() if not line.startswith("weft: "))
    README.write_text(BLOCK.sub(lambda match: match[1] + shown + match[2], README.read_text()))
    print(shown, end="")


if __name__ == "__main__":
    main()
