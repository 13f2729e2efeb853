"""Where the Python environment keeps the libraries for Fourier transforms that the extension opens.

As a program it prints their folders, separated by colons, for WEFT_FFT_PATH.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

_FILES = {"mkl": "libmkl_rt.so", "pyfftw": "libfftw3"}  # package: how the names of its libraries begin


def folders() -> list[str]:
    """The folders of MKL's and pyFFTW's libraries in this environment, and that of the environment's own libraries."""
    found = []
    for package, beginning in _FILES.items():
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        found += [str(Path(str(f.locate())).resolve().parent) for f in files if f.name.startswith(beginning)]
    return list(dict.fromkeys([*found, str(Path(sys.prefix) / "lib")]))


def announce() -> None:
    """Tell the extension, unless the user named folders."""
    os.environ.setdefault("WEFT_FFT_PATH", ":".join(folders()))


if __name__ == "__main__":
    print(":".join(folders()))
