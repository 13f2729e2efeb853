"""Distributed 3-D Fourier transforms of real fields, on your own arrays.

Each rank holds a part of a field of ``nz x ny x nx`` points and, after the transform, a part of its Fourier
coefficients, defined as in :func:`numpy.fft.rfftn`::

    import numpy as np
    from mpi4py import MPI
    import weft

    plan = weft.fft.Plan((64, 64, 64), MPI.COMM_WORLD)
    field = np.random.rand(*plan.physical_shape)     # this rank's part: the points of plan.physical_slices
    coefficients = plan.forward(field)               # the modes of plan.spectral_slices
    again = plan.backward(coefficients)              # equals field

Lines, or on one rank whole fields, are transformed by a library opened at run time: on the host Intel MKL or FFTW
(``WEFT_FFT``: ``auto``, ``mkl``, ``fftw`` or a file), on GPUs cuFFT or hipFFT (``WEFT_CUFFT``, ``WEFT_HIPFFT``: their
folders). Between the passes in each direction, the ranks of a Pr x Pc grid exchange bricks by the schedules and paths
of `weft.exchange`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike

from weft import _weft, cuda_wheels, fft_library
from weft import device as devices
from weft.arrays import DeviceArray, DType, Values

if TYPE_CHECKING:
    from weft.device import Device
    from weft.record import Choices

__all__ = ["Plan", "libraries"]

fft_library.announce()
cuda_wheels.announce("WEFT_CUFFT", "libcufft")


def libraries(backend: str = "host") -> list[dict[str, str]]:
    """The libraries that can transform lines on a ``backend`` (``host``, ``cuda`` or ``hip``), or why there is none.

    Keys: ``name``, ``version``, ``path`` (of the file, on the host) and ``problem`` (why no library was found and what
    to install; empty if one was, and then the list has no others). On the host there may be two. Without timing the
    first is taken.
    """
    if backend not in ("host", "cuda", "hip"):
        raise ValueError(f"unknown backend '{backend}'; known: host, cuda, hip")
    return [dict(found) for found in _weft.fft.libraries(backend)]


class Plan:
    """Transforms of real fields of one size, precision and device.

    Parameters
    ----------
    shape
        Points of the whole field ``(nz, ny, nx)``. Products of small primes are fastest.
    comm
        The mpi4py communicator, by default ``MPI.COMM_WORLD``.
    dtype
        Type of physical fields, ``float64`` or ``float32``; spectral fields are ``complex128`` or ``complex64``.
    process_grid
        ``"PrxPc"``, such as ``"2x4"``, or ``auto``: the fastest, by timing (see `tuning`). ``1xP`` is a slab
        decomposition, with one exchange per transform; others are pencil decompositions, with two.
    batch
        Q, the number of variables per message, or ``auto``: the fastest. Message buffers take 2 Q fields.
    variables
        Number of fields transformed at a time. ``auto`` times transforms of this many fields, and chooses Q up to it.
    exchange
        ``auto``, ``schedule`` or ``schedule:path``, such as ``alltoallv:direct``, as in `weft.GatherScatter`.
    norm
        Direction that divides by the number of points, as in NumPy: ``backward``, ``forward`` (coefficients are then
        the amplitudes of Eq. 1 of GESTS), or ``ortho`` (both divide by its square root).
    modes_x
        Modes kept in x: ``kx < modes_x``. By default all, ``nx // 2 + 1``. Forward transforms drop the others,
        backward transforms treat them as zero.
    device
        ``host``, ``cuda``, ``hip``, ``auto``, or a device of `weft.device.open`. Arrays must be in its memory.

    Arrays are C-contiguous, x fastest, and may be NumPy's or any library's with DLPack (CuPy's on a GPU); they are not
    copied. Physical arrays have the shape ``physical_shape`` and spectral arrays ``spectral_shape``, with one more
    dimension in front for several variables; both differ from rank to rank and may be empty. Making a plan and
    transforming are collective; arguments are checked on all ranks before any message is sent, so that an error on one
    is a ``CollectiveError`` on all; this costs a reduction of three integers.

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
        sizes = tuple(operator.index(n) for n in shape)
        if len(sizes) != 3:
            raise ValueError(f"shape must be (nz, ny, nx), not {tuple(shape)}")
        self._real = np.dtype(dtype)
        if self._real not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise TypeError(f"dtype must be float64 or float32, not {self._real}")
        if batch != "auto" and (isinstance(batch, str) or operator.index(batch) < 1):
            raise ValueError(f"batch must be 'auto' or at least 1, not {batch!r}")
        at_once = 0 if isinstance(batch, str) else operator.index(batch)
        if variables < 1:
            raise ValueError(f"variables must be at least 1, not {variables}")
        if modes_x is not None and modes_x < 1:
            raise ValueError(f"modes_x must be at least 1, not {modes_x}")
        where = devices.open(device) if isinstance(device, str) else device
        single = self._real == np.float32
        self._shape = sizes
        self._core = _weft.fft.Plan(
            sizes, comm, process_grid, at_once, variables, single, exchange, norm, modes_x or 0, where
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

        ``spectral`` is preserved unless ``overwrite`` is true, which is faster on one rank. It has `spectral_shape` or
        ``(variables, *spectral_shape)``; returns (or fills ``out``) an array of `physical_shape` with as many
        variables. The imaginary part of self-conjugate modes is ignored, as in NumPy.
        """
        if out is None:
            out = self._like(spectral, self.spectral_shape, self.physical_shape, self.physical_dtype)
        self._core.backward(spectral, out, overwrite)
        return out

    def _like(self, array: DeviceArray, expected: tuple[int, ...], shape: tuple[int, ...], dtype: DTypeLike) -> Values:
        # The collective check rejects bad arguments, with the same message on all ranks.
        leading = array.shape[:-3] if isinstance(array, np.ndarray) and array.shape[-3:] == expected else ()
        return np.empty((*leading, *shape), dtype)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Points of the whole field, (nz, ny, nx)."""
        return self._shape  # type: ignore[return-value]

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """Shape of this rank's points, (z, y, x): all of x; y is divided over Pc ranks and z over Pr."""
        return tuple(self._core.physical_shape)

    @property
    def spectral_shape(self) -> tuple[int, ...]:
        """Shape of this rank's modes, (kz, ky, kx): all of ky; kz is divided over Pc ranks and kx over Pr."""
        return tuple(self._core.spectral_shape)

    @property
    def physical_offset(self) -> tuple[int, ...]:
        """Index of this rank's first point in the whole field, (z, y, x)."""
        return tuple(self._core.physical_offset)

    @property
    def spectral_offset(self) -> tuple[int, ...]:
        """Index of this rank's first mode in the whole array, (kz, ky, kx), in the order of `numpy.fft.fftfreq`."""
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
    def tuning(self) -> Choices:
        """The choices: ``process_grid``, ``batch``, ``row_exchange`` and ``column_exchange``.

        An exchange is empty if a row or column consists of one rank. On the host, ``library`` is the library of the
        transforms. On one rank, ``forward``, ``backward`` and (with ``overwrite=True``) ``overwriting`` say how whole
        fields are transformed and by which library, such as ``"planes, mkl"``: by ``panels``, ``planes`` or a
        ``3-D plan`` (backward only with FFTW).

        If anything was chosen by timing, there are also ``reason``, ``tuning_seconds`` and ``timings``. Each entry of
        ``timings`` describes a candidate: the ``race`` in which it took part (``library``, ``grid``, ``exchange``,
        ``row exchange``, ``batch``, ``forward``, ``backward`` or ``overwriting``), its choices as above,
        ``median_seconds`` (per transform of all variables, slowest rank; forward and backward, unless the race is about
        one direction), ``repetitions``, ``stopped_early`` and ``failure`` (why it could not be used, else empty). The
        library and the method for whole fields are timed once and the result is kept on disk (``WEFT_CACHE``), because
        candidates differ in rounding; with ``WEFT_CACHE=off`` they are not timed.
        """
        return cast("Choices", self._core.tuning)

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Memory of the plan on this rank in bytes, by name."""
        return dict(self._core.memory_bytes)

    @property
    def device(self) -> Device:
        """The device that arrays must be on."""
        return self._core.device


def _slices(offset: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(first, first + count) for first, count in zip(offset, shape, strict=True))
