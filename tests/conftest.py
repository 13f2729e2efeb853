"""What all tests share: how examples are found, where is kept what many processes need, how a run is ended."""

import atexit
import gc
import os
import shutil
import signal
import tempfile

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
