"""Array types used in signatures."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]  # of float64 or float32, as a solver's precision says
DType = np.dtype[Any]  # theirs
#: On the host a NumPy array; on a GPU a CuPy array where CuPy is installed, else any array with ``__dlpack__``.
DeviceArray = Any
