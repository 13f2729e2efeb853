"""Locates the libraries for Fourier transforms in the Python environment, so that the extension can open them.

Run as a program, it prints their folders, separated by colons, as a value for WEFT_FFT_PATH.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

_FILES = {"mkl": "libmkl_rt.so", "pyfftw": "libfftw3"}  # package: prefix of the names of its libraries


def folders() -> list[str]:
    """The folders of the libraries of MKL and pyFFTW in this environment, and its own lib folder."""
    found = []
    for package, beginning in _FILES.items():
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        found += [str(Path(str(f.locate())).resolve().parent) for f in files if f.name.startswith(beginning)]
    return list(dict.fromkeys([*found, str(Path(sys.prefix) / "lib")]))


def announce() -> None:
    """Tell the extension these folders, unless the user set WEFT_FFT_PATH."""
    os.environ.setdefault("WEFT_FFT_PATH", ":".join(folders()))


if __name__ == "__main__":
    print(":".join(folders()))
