"""Locates the libraries that CUDA's packages from PyPI bring, so that the extension can open them."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def announce(variable: str, library: str) -> None:
    """Tell the extension, by an environment variable, the folders that hold ``library``, unless the user set it.

    Every folder that Python imports from is searched: an environment can build on the packages of another.
    """
    folders = [found.parent for root in sys.path if root for found in Path(root).glob(f"nvidia/*/lib/{library}.so.*")]
    if folders:
        os.environ.setdefault(variable, ":".join(dict.fromkeys(map(str, folders))))
