"""What all tests share: how examples are found, where is kept what many processes need, how a run is ended."""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# The same examples every time, whatever the clock says: no run fails for a rare example or a busy machine. To look for
# new examples, as often as one likes: python -m pytest --hypothesis-profile=explore
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", settings.get_profile("explore"), derandomize=True)
settings.load_profile("fixed")

# Searching the many objects of a test process for garbage would take a tenth of its time.
gc.set_threshold(100_000)

# The kernels that were compiled for tests (cpp/weft/kernels/CMakeLists.txt).
os.environ["WEFT_TEST_KERNELS"] = "1"

# Without a home that can be written each process would compile kernels and look for fonts anew.
if not os.access(os.environ.get("HOME", ""), os.W_OK) and "XDG_CACHE_HOME" not in os.environ:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="weft-cache-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

# Of SIGTERM, as of Ctrl-C, a run stops with a report and leaves no program of a test behind: `timeout` sends it.
signal.signal(signal.SIGTERM, signal.default_int_handler)

# Files that take half a minute or more, the longest first. They begin before the others, so that no worker is left
# alone with one at the end (make test passes --no-loadscope-reorder).
LONG = (
    "kernel_compile", "exchange", "cli", "bench_communication", "examples", "run_maxwell", "replay_waits", "fft",
    "pictures", "first_use", "turbulence_solver", "mpi", "exchange_paths", "turbulence_run", "libraries", "run_flow",
    "run_folder",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the files: the long ones, then the others by the number of their tests."""
    counts = Counter(item.path for item in items)
    place = {f"test_{name}.py": k for k, name in enumerate(LONG)}
    items.sort(key=lambda item: (place.get(item.path.name, len(LONG)), -counts[item.path], item.path))
