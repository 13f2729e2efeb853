"""Gather-scatter over the ranks, on your own arrays: the exchange layer of weft, for any code.

Every point of every rank has a global id. A gather-scatter gives each point the sum (product, minimum or maximum) of
the values of all points with its id, wherever they are::

    import numpy as np
    from mpi4py import MPI
    import weft

    ids = np.array([1, 2, 3, 3]) if MPI.COMM_WORLD.rank == 0 else np.array([3, 4])
    gs = weft.GatherScatter(ids, MPI.COMM_WORLD)
    x = np.ones(ids.size)
    gs(x)                      # in place: points with id 3 are now 3.0 (two points here, one there)
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI
from numpy.typing import ArrayLike, NDArray

from weft import _weft, mpi
from weft.arrays import DeviceArray, Values

if TYPE_CHECKING:
    from weft.device import Device
    from weft.record import Tuning

__all__ = ["GatherScatter", "paths"]


def paths(device: Device, comm: MPI.Intracomm | None = None) -> list[tuple[str, bool, str]]:
    """The paths by which the ranks of ``comm`` can exchange data of ``device``, as rows (path, usable, reason).

    Each path is tested by a transfer; all ranks get the same result. (collective)
    """
    return [(path, usable, reason) for path, usable, reason in _weft.exchange.paths(device, comm)]


class GatherScatter:
    """Gather-scatter of points with global ids.

    Parameters
    ----------
    ids
        Global id of each of this rank's points, integers of any type and shape; points in C order. Ids need not be
        contiguous, may repeat, and may be shared by any number of ranks. Points with ids <= 0 take no part. The number
        of points may differ from rank to rank and be 0.
    comm
        The mpi4py communicator, by default ``MPI.COMM_WORLD``.
    fields
        Number of values per point: arrays have the shape ``(points, fields)``. All go in one message.
    layout
        ``points``: the values of a point are next to each other in memory. ``fields``: one field comes after the
        other, and arrays have the shape ``(fields, points)``. Results of both are bit-identical.
    exchange
        ``auto``, ``schedule`` or ``schedule:path``, such as ``pairwise:staged``: how messages travel, and whether MPI
        is given device memory (``direct``) or copies in host memory (``staged``), or ranks of one node read each
        other's memory (``ipc``). ``schedule:path:bytes`` sends messages up to that size by a different schedule. The
        parts that are not given are chosen by timing every candidate on the messages of these ids (see ``tuning``).
        Results are bit-identical for every choice.
    cache
        Keep timings on disk (``WEFT_CACHE``, by default ``~/.cache/weft``) and reuse them for the same ids on the same
        ranks, machine, MPI library and version of weft.
    check
        Check before every call that the arguments are valid on all ranks. An error on one rank is then a
        ``CollectiveError`` on all, instead of a deadlock. Costs one reduction of three integers per call.

    Arrays may be NumPy's, or any library's with DLPack (CuPy on a GPU): writable (except the points of `gather`),
    C-contiguous, of float64, float32, int32 or int64. The order in which values are combined depends only on ids and
    ranks: results are bit-identical from run to run, and at all points of an id. Creating the object and every method
    are collective; the first call with arrays of a new type or device sets up buffers for them.

    Source: the operators Z and Z^T of hipBone (Chalmers et al., Eq. 2), and gs of Nek5000.
    """

    def __init__(
        self,
        ids: ArrayLike,
        comm: MPI.Intracomm | None = None,
        fields: int = 1,
        layout: str = "points",
        exchange: str = "auto",
        check: bool = True,
        cache: bool = False,
    ) -> None:
        comm = MPI.COMM_WORLD if comm is None else comm
        if comm == MPI.COMM_NULL:
            raise ValueError("comm is MPI.COMM_NULL: was the communicator freed?")
        numbers, count = mpi.together(comm, lambda: _checked(ids, fields, layout, exchange, cache, check))
        self._core = _weft.exchange.GatherScatter(numbers, comm, count, layout, exchange, cache, check)
        self._layout = layout

    def __call__(self, points: DeviceArray, op: str = "add") -> DeviceArray:
        """Combine in place and return ``points``; ``op`` is ``add``, ``mul``, ``min`` or ``max``."""
        self._core.gather_scatter(points, op)
        return points

    def start(self, points: DeviceArray, op: str = "add") -> None:
        """Begin a gather-scatter: messages are in flight when it returns. Do not use ``points`` until `finish`.

        If the object is destroyed before `finish` (an exception, garbage collection), the memory of its messages is
        leaked.
        """
        self._core.start(points, op)

    def finish(self) -> None:
        """Complete what `start` began."""
        self._core.finish()

    def gather(self, points: DeviceArray, op: str = "add", out: DeviceArray | None = None) -> DeviceArray:
        """Z^T: combine points into degrees of freedom, one per id.

        Returns (or fills ``out``) an array of ``local_dofs + 1`` entries: the first ``owned_dofs`` are complete, the
        next, up to ``local_dofs``, hold this rank's part of what other ranks own, the last is 0. For arrays other than
        NumPy's, ``out`` must be given. It shares no memory with the points.
        """
        if out is None:
            out = self._like(points, self.local_dofs + 1)
        self._core.gather(points, out, op)
        return out

    def scatter(self, dofs: DeviceArray, out: DeviceArray | None = None) -> DeviceArray:
        """Z: give every point the value of its degree of freedom, points with ids <= 0 the value 0.

        ``dofs`` has ``local_dofs + 1`` entries of which the first ``owned_dofs`` count; the rest is filled with the
        owners' values. Returns (or fills ``out``) an array of ``points`` entries.
        """
        if out is None:
            out = self._like(dofs, self.points)
        self._core.scatter(dofs, out)
        return out

    def _like(self, array: DeviceArray, entries: int) -> Values | None:
        if not isinstance(array, np.ndarray):
            return None  # raises the error collectively
        shape = (entries, self.fields) if self._layout == "points" else (self.fields, entries)
        return np.empty(shape if self.fields > 1 else entries, dtype=array.dtype)

    @property
    def points(self) -> int:
        """Points of this rank."""
        return int(self._core.points)

    @property
    def fields(self) -> int:
        """Number of values per point."""
        return int(self._core.fields)

    @property
    def shared_ids(self) -> int:
        """Number of distinct ids that this rank shares with other ranks."""
        return int(self._core.shared_ids)

    @property
    def owned_dofs(self) -> int:
        """Number of degrees of freedom that this rank owns. (collective the first time, like the other counts of
        DOFs)"""
        return int(self._core.owned)

    @property
    def local_dofs(self) -> int:
        """Number of distinct ids of this rank: those it owns come first, then those owned by others."""
        return int(self._core.local)

    @property
    def global_dofs(self) -> int:
        """Number of distinct ids over all ranks."""
        return int(self._core.global_dofs)

    @property
    def dof_ids(self) -> NDArray[np.int64]:
        """Global id of each local degree of freedom."""
        return np.array(self._core.dof_ids)

    @property
    def choice(self) -> str:
        """Schedule and path of the gather-scatter (see `tuning`), such as ``pairwise:direct``."""
        return str(self.tuning["gather_scatter"]["chosen"])

    @property
    def tuning(self) -> dict[str, Tuning]:
        """How schedule and path were chosen, for arrays of the type and device used last.

        The keys are ``gather_scatter`` and, after a call of `gather` or `scatter`, ``halo`` (for `scatter`) and
        ``gather``. Each entry has ``chosen``, ``reason``, ``cached`` (an earlier run timed it), ``reused`` (timed for
        an equal exchange on this communicator), ``tuning_seconds`` and ``timings``: for every candidate its
        ``exchange``, ``median_seconds`` (per transfer, slowest rank), ``repetitions``, ``stopped_early`` and
        ``failure`` (why it could not be used, else empty). There are no timings if the exchange was given, or if no
        rank has neighbours. Read before the first call, the property tunes for float64 on the host (collective then).
        """
        return dict(self._core.tuning)


def _checked(
    ids: ArrayLike, fields: int, layout: str, exchange: str, cache: bool, check: bool
) -> tuple[NDArray[np.int64], int]:
    """The ids and fields of a GatherScatter as the extension expects them; raises if any argument is invalid."""
    if isinstance(fields, bool) or not hasattr(fields, "__index__"):
        raise TypeError(f"fields must be an integer, not {fields!r}")
    if not 1 <= operator.index(fields) <= np.iinfo(np.int32).max:
        raise ValueError(f"fields must be at least 1, and a 32-bit integer, not {fields}")
    for name, value, kind in [
        ("layout", layout, str),
        ("exchange", exchange, str),
        ("cache", cache, bool),
        ("check", check, bool),
    ]:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be of type {kind.__name__}, not {value!r}")
        if isinstance(value, str) and not value.isprintable():
            raise ValueError(f"there is no {name} {value!r}")  # C++ cannot represent every Python string
    return _as_ids(ids), operator.index(fields)


def _as_ids(ids: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(ids)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers of at most 64 bits, not {array.dtype}")
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"id {array.max()} does not fit into a signed 64-bit integer")
    return np.ascontiguousarray(array, dtype=np.int64).reshape(-1)
