"""Distributed 3-D Fourier transforms of real fields, on your own arrays.

Each rank has a part of a field of ``nz x ny x nx`` points, and after the transform a part of its Fourier coefficients,
those of :func:`numpy.fft.rfftn`::

    import numpy as np
    from mpi4py import MPI
    import weft

    plan = weft.fft.Plan((64, 64, 64), MPI.COMM_WORLD)
    field = np.random.rand(*plan.physical_shape)     # this rank's part: the points of plan.physical_slices
    coefficients = plan.forward(field)               # the modes of plan.spectral_slices
    again = plan.backward(coefficients)              # equals field

Lines are transformed by a library opened at run time: on the host Intel's MKL or FFTW (``WEFT_FFT`` = ``auto``,
``mkl``, ``fftw`` or a file chooses), on GPUs cuFFT or hipFFT (``WEFT_CUFFT`` and ``WEFT_HIPFFT`` may name their
folders). Between the passes of a direction the ranks of a Pr x Pc grid exchange bricks by the schedules and paths of
`weft.exchange`.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike

from weft import _weft, fft_library
from weft import device as devices
from weft.arrays import DeviceArray, DType, Values

if TYPE_CHECKING:
    from weft.device import Device

__all__ = ["Plan", "library"]


def _find_cufft() -> None:
    """Point the extension to the cuFFT in Python's own packages, unless the user chose one."""
    if "WEFT_CUFFT" in os.environ:
        return
    roots = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    folders = {found.parent for root in roots for found in Path(root).glob("nvidia/*/lib/libcufft.so.*")}
    if folders:
        os.environ["WEFT_CUFFT"] = ":".join(sorted(map(str, folders)))


fft_library.announce()
_find_cufft()


def library(backend: str = "host") -> dict[str, str]:
    """The library that transforms lines on a ``backend`` (``host``, ``cuda`` or ``hip``).

    ``name``, ``version``, ``path`` (of the file, on the host) and ``problem``: why there is none and what to install,
    empty if there is one.
    """
    if backend not in ("host", "cuda", "hip"):
        raise ValueError(f"there is no backend '{backend}'; known: host, cuda, hip")
    return dict(_weft.fft.library(backend))


class Plan:
    """Transforms of real fields of one size, precision and device.

    Parameters
    ----------
    shape
        Points of the whole field ``(nz, ny, nx)``. Products of small primes are fastest.
    comm
        The mpi4py communicator, by default ``MPI.COMM_WORLD``.
    dtype
        ``float64`` or ``float32``: of physical fields; spectral ones are ``complex128`` or ``complex64``.
    process_grid
        ``"PrxPc"``, such as ``"2x4"``, or ``auto``: the fastest, by timing them (`tuning` tells the times). ``1xP`` are
        slabs, which exchange once a transform, the others pencils, which exchange twice.
    batch
        Q, how many variables a message holds, or ``auto``: the fastest. Message buffers take 2 Q fields.
    variables
        How many fields are transformed at a time: what ``auto`` times, and the largest Q it takes.
    exchange
        ``auto``, ``schedule`` or ``schedule:path``, such as ``alltoallv:direct``, as of `weft.GatherScatter`.
    norm
        Which direction divides by the number of points, as in NumPy: ``backward``, ``forward`` (coefficients are then
        the amplitudes of Eq. 1 of GESTS), or ``ortho`` (both by its root).
    modes_x
        Modes kept in x: ``kx < modes_x``. By default all, ``nx // 2 + 1``. Forward transforms drop the others, backward
        ones take them as zero.
    device
        ``host``, ``cuda``, ``hip``, ``auto``, or a device of `weft.device.open`. Arrays must be there.

    Arrays are C-contiguous, x fastest, and may be NumPy's or any library's with DLPack (CuPy's on a GPU); they are used
    where they are, without copies. Physical ones have the shape ``physical_shape``, spectral ones ``spectral_shape``,
    or with one more dimension in front for several variables; both differ from rank to rank and may be empty.
    Making a plan and transforming are collective; arguments are checked on all ranks before any sends: an error on one
    is a ``CollectiveError`` on all, at the cost of a reduction of three integers.

    Source: GESTS (Yeung, Ravikumar, Nichols and Uma-Vaideswaran, 2025), sections 2.1 to 2.3.
    """

    def __init__(
        self,
        shape: Sequence[int],
        comm: MPI.Intracomm | None = None,
        *,
        dtype: DTypeLike = np.float64,
        process_grid: str = "auto",
        batch: int | str = 1,
        variables: int = 1,
        exchange: str = "auto",
        norm: str = "backward",
        modes_x: int | None = None,
        device: str | Device = "host",
    ) -> None:
        comm = MPI.COMM_WORLD if comm is None else comm
        if comm == MPI.COMM_NULL:
            raise ValueError("comm is MPI.COMM_NULL: was the communicator freed?")
        sizes = tuple(int(n) for n in shape)
        if len(sizes) != 3:
            raise ValueError(f"shape must be (nz, ny, nx), not {tuple(shape)}")
        self._real = np.dtype(dtype)
        if self._real not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise TypeError(f"dtype must be float64 or float32, not {self._real}")
        if batch != "auto" and (not isinstance(batch, int) or batch < 1):
            raise ValueError(f"batch must be 'auto' or at least 1, not {batch!r}")
        if variables < 1:
            raise ValueError(f"variables must be at least 1, not {variables}")
        if modes_x is not None and modes_x < 1:
            raise ValueError(f"modes_x must be at least 1, not {modes_x}")
        where = devices.open(device) if isinstance(device, str) else device
        single = self._real == np.float32
        self._shape = sizes
        self._core = _weft.fft.Plan(
            sizes, comm, process_grid, batch if isinstance(batch, int) else 0, variables, single, exchange, norm,
            modes_x or 0, where,
        )  # fmt: skip

    def forward(self, physical: DeviceArray, out: DeviceArray | None = None) -> DeviceArray:
        """Fourier coefficients of ``physical``, an array of `physical_shape` or ``(variables, *physical_shape)``.

        Returns (or fills ``out``) an array of `spectral_shape`, with as many variables; for arrays other than NumPy's,
        ``out`` must be given.
        """
        if out is None:
            out = self._like(physical, self.physical_shape, self.spectral_shape, self.spectral_dtype)
        self._core.forward(physical, out)
        return out

    def backward(
        self, spectral: DeviceArray, out: DeviceArray | None = None, *, overwrite: bool = False
    ) -> DeviceArray:
        """The real field of Fourier coefficients ``spectral``: the inverse of `forward`.

        They are kept, unless ``overwrite`` allows to write to them, which is faster on one rank up to about 128^3.

        ``spectral`` has `spectral_shape` or ``(variables, *spectral_shape)``; returns (or fills ``out``) an array of
        `physical_shape` with as many variables. Of modes that are their own conjugate the imaginary part is ignored, as
        NumPy does it.
        """
        if out is None:
            out = self._like(spectral, self.spectral_shape, self.physical_shape, self.physical_dtype)
        self._core.backward(spectral, out, overwrite)
        return out

    def _like(self, array: DeviceArray, expected: tuple[int, ...], shape: tuple[int, ...], dtype: DTypeLike) -> Values:
        # What cannot be is refused by the collective check, with the same words for all ranks.
        leading = array.shape[:-3] if isinstance(array, np.ndarray) and array.shape[-3:] == expected else ()
        return np.empty((*leading, *shape), dtype)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Points of the whole field, (nz, ny, nx)."""
        return self._shape  # type: ignore[return-value]

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """This rank's points, (z, y, x): all of x, a share of y over Pc ranks and of z over Pr."""
        return tuple(self._core.physical_shape)

    @property
    def spectral_shape(self) -> tuple[int, ...]:
        """This rank's modes, (kz, ky, kx): all of ky, a share of kz over Pc ranks and of kx over Pr."""
        return tuple(self._core.spectral_shape)

    @property
    def physical_offset(self) -> tuple[int, ...]:
        """The first of this rank's points in the whole field, (z, y, x)."""
        return tuple(self._core.physical_offset)

    @property
    def spectral_offset(self) -> tuple[int, ...]:
        """The first of this rank's modes among all, (kz, ky, kx), in the order of `numpy.fft.fftfreq`."""
        return tuple(self._core.spectral_offset)

    @property
    def physical_slices(self) -> tuple[slice, ...]:
        """This rank's part of an array of the whole field: ``mine = field[plan.physical_slices]``."""
        return _slices(self.physical_offset, self.physical_shape)

    @property
    def spectral_slices(self) -> tuple[slice, ...]:
        """This rank's part of all coefficients: ``numpy.fft.rfftn(field)[plan.spectral_slices]``."""
        return _slices(self.spectral_offset, self.spectral_shape)

    @property
    def physical_dtype(self) -> DType:
        """Type of physical fields."""
        return self._real

    @property
    def spectral_dtype(self) -> DType:
        """Type of spectral fields."""
        return np.dtype(np.complex128 if self._real == np.float64 else np.complex64)

    @property
    def process_grid(self) -> str:
        """Pr x Pc, such as ``2x4``."""
        return str(self._core.grid)

    @property
    def batch(self) -> int:
        """Variables per message, Q."""
        return int(self.tuning["batch"])

    @property
    def tuning(self) -> dict[str, Any]:
        """The choices: ``process_grid``, ``batch``, ``row_exchange`` and ``column_exchange``.

        An exchange is empty where one rank alone makes up a row or column.
        Where there was something to choose: ``reason``, ``tuning_seconds``, and ``timings``, race by race: of every
        candidate ``race`` (``grid``, ``exchange``, ``row exchange`` or ``batch``: what it was about), the above,
        ``median_seconds`` (of a transform forward and backward of all variables, the slowest rank's),
        ``repetitions``, ``stopped_early`` and ``failure`` (why it could not be used, else empty).
        """
        return dict(self._core.tuning)

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Bytes that the plan holds on this rank, by name."""
        return dict(self._core.memory_bytes)

    @property
    def device(self) -> Device:
        """Where the arrays must be."""
        return self._core.device


def _slices(offset: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(first, first + count) for first, count in zip(offset, shape, strict=True))
