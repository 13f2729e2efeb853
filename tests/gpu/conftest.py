"""Tests that need a GPU. Each runs on every GPU backend found, and skips itself with the reason where there is none.

``WEFT_GPU_TESTS_ON=host`` runs them on the host instead, which tests the tests.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from weft import device

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))  # mpi_run

BACKENDS = os.environ.get("WEFT_GPU_TESTS_ON", "cuda hip").split()


@pytest.fixture(params=BACKENDS)
def gpu(request):
    """An open device."""
    found = device.info()["backends"][request.param]
    if not found["available"]:
        pytest.skip(f"no {request.param} device: {found['reason']}")
    return device.open(request.param)
