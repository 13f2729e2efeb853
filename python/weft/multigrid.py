"""The coarse level of a p-multigrid: coarsened algebraically by PyAMG on one rank, for all ranks.

Source: Bell, Olson and Schroder, "PyAMG: Algebraic Multigrid Solvers in Python", JOSS 7 (2022). weft runs the V-cycle
itself (cpp/weft/solver/amg.hpp), so that no part of a solve runs in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft import mpi

if TYPE_CHECKING:
    import scipy.sparse
    from mpi4py import MPI

#: The hierarchy in the form that the extension takes.
# (offsets, indices, values, columns) of a matrix in compressed rows.
Csr = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float64], int]
# For each level its matrix and the prolongation from the next level (none for the last); the inverse of the last
# matrix.
Hierarchy = tuple[list[tuple[Csr, Csr | None]], npt.NDArray[np.float64]]

COARSEST = 200  # unknowns of the coarsest level, at most


def coarsen(
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    size: int,
    singular: bool,
    comm: MPI.Intracomm,
) -> tuple[Hierarchy, list[int]]:
    """The hierarchy of a matrix whose entries are distributed over the ranks, and the sizes of its levels. (collective)

    ``rows``, ``columns``, ``values``: this rank's triplets, in global numbers below ``size``; duplicate entries are
    summed. ``singular``: the constants are the null space. Raises ``CollectiveError`` on all ranks if PyAMG fails.
    """
    parts = comm.gather((rows, columns, values))
    hierarchy: Hierarchy | None = None
    problem = ""
    if parts is not None:
        try:
            rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
            hierarchy = _on_one_rank(rows, columns, values, size, singular)
        except Exception as error:  # on one rank only: the others must not wait forever
            problem = f"multigrid: the coarse level of {size} unknowns could not be coarsened: {error}"
    problem = comm.bcast(problem)
    if problem:
        raise mpi.CollectiveError(problem)
    shared: Hierarchy = comm.bcast(hierarchy)
    return shared, [len(a[0]) - 1 for a, _ in shared[0]]


def _on_one_rank(
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    size: int,
    singular: bool,
) -> Hierarchy:
    if size <= COARSEST:  # the matrix is the coarsest level: importing PyAMG would take longer than a small run
        dense = np.zeros((size, size))
        np.add.at(dense, (rows, columns), values)
        dense = 0.5 * (dense + dense.T)
        rows, columns = np.nonzero(dense)
        offsets = np.searchsorted(rows, np.arange(size + 1))
        level = (offsets.astype(np.int64), columns.astype(np.int32), dense[rows, columns], size)
        return [(level, None)], _inverse(dense, singular)
    import pyamg
    import scipy.sparse

    matrix = scipy.sparse.coo_matrix((values, (rows, columns)), shape=(size, size)).tocsr()
    matrix = (
        0.5 * (matrix + matrix.T)
    ).tocsr()  # entries on either side of the diagonal were summed in different orders
    levels = pyamg.ruge_stuben_solver(matrix, max_coarse=COARSEST, max_levels=25).levels
    arrays = [(_csr(level.A), _csr(level.P) if i + 1 < len(levels) else None) for i, level in enumerate(levels)]
    return arrays, _inverse(levels[-1].A.toarray(), singular)


def _inverse(matrix: npt.NDArray[np.float64], singular: bool) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(np.linalg.pinv(matrix, hermitian=True) if singular else np.linalg.inv(matrix))


def _csr(matrix: scipy.sparse.spmatrix) -> Csr:
    matrix = matrix.tocsr()
    matrix.sort_indices()
    return (
        np.asarray(matrix.indptr, np.int64),
        np.asarray(matrix.indices, np.int32),
        np.asarray(matrix.data, np.float64),
        int(matrix.shape[1]),
    )
