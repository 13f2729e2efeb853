"""Reader and writer of field files of Nek5000, nekRS and Neko (``name0.f00000``), in parallel on all ranks.

A file has a header of 132 characters, the number 6.54321 as a byte-order mark, the global numbers of its elements, and
for each variable the values at the GLL points of every element. The variables are coordinates (X), velocity (U),
pressure (P), temperature (T) and further scalars (S01, S02, ...). Vectors have their three components one after another
in each element. The file ends with the smallest and largest value of every component in each element, in single
precision. The format follows Nek5000's ``prepost.f`` (``mfo_write_hdr``, ``mfo_outv``, ``mfo_mdatav``);
docs/flow-files.md has the details. pymech reads whole files on one rank, while here each rank reads its own elements.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft import _weft
from weft.mesh import Mesh, MeshError

if TYPE_CHECKING:
    from mpi4py import MPI

    Values = npt.NDArray[np.floating]

HEADER_BYTES = 132
MARK = 6.54321
PIECE_BYTES = 16 << 20  # per transfer
MOST_SCALARS = 99  # in addition to the temperature, because the header has two digits
# Largest distance between the points of a file and those of the mesh, relative to the largest coordinate. It allows for
# single precision.
SAME_PLACE = 1e-5


@dataclass
class NekFields:
    """Fields at the points of this rank: vectors [3][E][n][n][n], scalars [E][n][n][n]. None stands for absent fields.

    If ``has_temperature``, the first of the ``scalars`` is Nek's temperature. The others are its passive scalars.
    """

    time: float = 0.0
    step: int = 0
    velocity: Values | None = None
    pressure: Values | None = None
    scalars: list[Values] = field(default_factory=list)
    has_temperature: bool = True


@dataclass(frozen=True)
class Header:
    """The contents of the header of a field file."""

    word: int  # bytes per number
    points: int  # per direction, n = order + 1
    elements: int  # in this file
    global_elements: int
    time: float
    step: int
    files: int
    coordinates: bool
    velocity: bool
    pressure: bool
    temperature: bool
    scalars: int

    @property
    def components(self) -> list[int]:
        """The number of components of each variable, in the order of the file."""
        vectors = [3] * (self.coordinates + self.velocity)
        return vectors + [1] * (self.pressure + self.temperature + self.scalars)

    def text(self) -> bytes:
        """The header as Nek5000 writes it."""
        code = "X" * self.coordinates + "U" * self.velocity + "P" * self.pressure + "T" * self.temperature
        code += f"S{self.scalars:02d}" if self.scalars else ""
        n = self.points
        words = f"#std {self.word:1d} {n:2d} {n:2d} {n:2d} {self.elements:10d} {self.global_elements:10d} "
        words += f"{self.time:20.13E} {self.step:9d} {0:6d} {self.files:6d} {code:10s}"
        return words.ljust(HEADER_BYTES).encode("ascii")

    @classmethod
    def parse(cls, text: bytes) -> Header:
        """The header in a text. Raises ValueError if it is invalid or of a file that weft does not support."""
        words = text.decode("latin-1").split()
        if not words or words[0] != "#std":
            raise ValueError(f"this is not a Nek field file: it begins with {text[:4]!r} instead of b'#std'")
        try:
            word, nx, ny, nz, elements, global_elements = (int(w) for w in words[1:7])
            time, step, files = float(words[7]), int(words[8]), int(words[10])
            code = re.fullmatch(r"(X?)(U?)(P?)(T?)(S\d\d)?", words[11])
        except (ValueError, IndexError):
            raise ValueError(f"the header is damaged: {text.rstrip()!r}") from None
        if code is None:
            raise ValueError(
                f"the header is damaged: it lists the variables {words[11]!r}, but allowed are X, U, P, T, S01 etc."
            )
        if word not in (4, 8) or not 1 <= elements <= global_elements or files < 1 or step < 0 or not np.isfinite(time):
            raise ValueError(f"the header is damaged: {text.rstrip()!r}")
        if nz == 1:
            raise ValueError("the file is for a 2-D mesh, but weft reads 3-D fields only")
        if not nx == ny == nz or not 2 <= nx <= 16:
            raise ValueError(
                f"the elements have {nx} x {ny} x {nz} points, but weft reads 2 to 16, the same in each direction"
            )
        if files != 1 or elements != global_elements:
            raise ValueError(f"the file is one of {files} and has {elements} of {global_elements} elements: let "
                             "Nek5000 write a single file (writeNFiles = 1), or merge the files")  # fmt: skip
        x, u, p, t, s = (bool(part) for part in code.groups(default=""))
        return cls(word, nx, elements, global_elements, time, step, files, x, u, p, t, int(code[5][1:]) if s else 0)


def write_nek(
    path: str | os.PathLike[str],
    mesh: Mesh,
    order: int,
    fields: NekFields,
    *,
    precision: str = "single",
    coordinates: bool = True,
) -> Path:
    """Writes one field file, to which every rank contributes its elements. (collective)

    The file gets its name when it is complete. Elements are in the order of their global numbers, so that the file does
    not depend on the number of ranks, and so that Neko, which ignores the numbers in the file when it restarts, finds
    its own order. ``precision`` is ``single`` or ``double``. ``coordinates`` includes the coordinates of the points,
    which the first file of a series needs. Raises MeshError, the same on every rank, for wrong shapes and if the file
    cannot be written.
    """
    from mpi4py import MPI

    path, comm, n = Path(path), mesh.comm, order + 1
    unfinished = path.with_name(path.name + ".tmp")
    dtype = np.dtype({"single": "<f4", "double": "<f8"}[precision])
    header = Header(
        dtype.itemsize,
        n,
        mesh.global_elements,
        mesh.global_elements,
        float(fields.time),
        int(fields.step),
        1,
        coordinates,
        fields.velocity is not None,
        fields.pressure is not None,
        fields.has_temperature and bool(fields.scalars),
        max(0, len(fields.scalars) - fields.has_temperature),
    )
    file = MPI.FILE_NULL
    variables: list[Values] = []
    most = comm.allreduce(mesh.elements, MPI.MAX)

    def prepare() -> None:
        if header.scalars > MOST_SCALARS:
            raise ValueError(f"a Nek field file holds at most {MOST_SCALARS} scalars in addition to the temperature")
        variables.extend(_by_element(mesh, n, fields, coordinates))
        if comm.rank == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.unlink(missing_ok=True)

    def open_() -> None:
        nonlocal file
        file = MPI.File.Open(comm, os.fspath(unfinished), MPI.MODE_CREATE | MPI.MODE_WRONLY)

    def write() -> None:
        records = _Records(file, mesh, most)
        if comm.rank == 0:
            records.attempt(file.Write_at, 0, header.text() + np.array(MARK, "<f4").tobytes())
        records.put(mesh.element_ids + 1, "<i4")
        for values in variables:
            records.put(values, dtype)
        for values in variables:
            records.put(np.stack([values.min(axis=2), values.max(axis=2)], axis=-1), "<f4")
        file.Sync()
        if records.problems:
            raise records.problems[0]

    def close() -> None:
        file.Close()
        if comm.rank == 0:
            os.replace(unfinished, path)

    _together(comm, path, prepare)
    _together(comm, path, open_)
    try:
        _together(comm, path, write)
    except MeshError:
        file.Close()  # all ranks get here
        if comm.rank == 0:
            unfinished.unlink(missing_ok=True)
        raise
    _together(comm, path, close)
    return path


class _Records:
    """The records of a file, one after another, which all ranks write together.

    ``most`` is the largest number of elements per rank. An MPI error is kept in ``problems`` and writing continues,
    because the other ranks wait in the next call.
    """

    def __init__(self, file: MPI.File, mesh: Mesh, most: int) -> None:
        self.problems: list[Exception] = []
        self._file, self._mesh, self._most = file, mesh, most
        self._order_in_file = np.argsort(mesh.element_ids)
        self._at = HEADER_BYTES + 4

    def attempt(self, call: Callable[..., None], *arguments: object) -> None:
        from mpi4py import MPI

        try:
            call(*arguments)
        except MPI.Exception as error:
            self.problems.append(error)

    def put(self, values: npt.NDArray[np.generic], kind: npt.DTypeLike) -> None:
        """Writes the next record: ``values`` per element. All ranks write equally often."""
        from mpi4py import MPI

        ids = self._mesh.element_ids
        each = np.dtype(kind).itemsize * int(np.prod(values.shape[1:]))
        element = MPI.BYTE.Create_contiguous(each).Commit()
        for piece in _pieces(self._most, each):
            mine = self._order_in_file[piece]
            places = element.Create_indexed_block(1, ids[mine].tolist()).Commit()
            self._file.Set_view(self._at, element, places)
            self.attempt(self._file.Write_all, [np.ascontiguousarray(values[mine], kind), len(mine), element])
            places.Free()
        element.Free()
        self._file.Set_view(0, MPI.BYTE, MPI.BYTE)
        self._at += self._mesh.global_elements * each


def _by_element(mesh: Mesh, n: int, fields: NekFields, coordinates: bool) -> list[Values]:
    """The values of each variable as [E][components][n^3], in the order of the file."""
    shape = (mesh.elements, n, n, n)
    found: list[Values] = []
    if coordinates:
        found.append(mesh.point_coordinates(n - 1).transpose(0, 2, 1))
    for name, values, components in [
        ("velocity", fields.velocity, 3),
        ("pressure", fields.pressure, 1),
        *(("a scalar", scalar, 1) for scalar in fields.scalars),
    ]:
        if values is None:
            continue
        whole = np.asarray(values).reshape(components, *np.shape(values)[-4:])
        if whole.shape[1:] != shape:
            raise ValueError(f"{name} has the shape {np.shape(values)}, but the points have the shape {shape}")
        found.append(np.moveaxis(whole, 0, 1).reshape(mesh.elements, components, n**3))
    return found


def _pieces(elements: int, element_bytes: int) -> Iterator[slice]:
    count = max(1, PIECE_BYTES // element_bytes)
    return (slice(begin, begin + count) for begin in range(0, elements, count))


def _together(comm: MPI.Intracomm, path: Path, work: Callable[[], None]) -> None:
    """Runs ``work``. If it fails on any rank, raises MeshError with the first rank's message on all. (collective)"""
    from mpi4py import MPI

    problem = None
    try:
        work()
    except OSError as error:
        problem = f"{path}: {error.strerror or error}"
    except ValueError as error:
        problem = f"{path}: {error}"
    except MPI.Exception as error:
        problem = f"{path}: {_weft.mpi.error_text(error.Get_error_code())}"
    except Exception as error:  # the other ranks wait for this one below
        problem = f"{path}: {error or type(error).__name__}"
    problems = [text for text in comm.allgather(problem) if text is not None]
    if problems:  # MPICH reports the cause of a failed collective write only on the ranks that wrote
        raise MeshError(min(problems, key=lambda text: text.endswith("Other I/O error")))


def read_nek(path: str | os.PathLike[str], mesh: Mesh, order: int) -> NekFields:
    """Reads the fields of a file of any order at the points of ``order`` on a mesh. (collective)

    Raises MeshError, the same on every rank, if the file is not a field file, is truncated or damaged, is one of
    several files, or belongs to another mesh, with another number of elements or other coordinates.
    """
    path, comm = Path(path), mesh.comm
    header: Header | None = None
    endian, where = "<", np.empty(0, np.int64)

    def open_() -> None:
        nonlocal header, endian, where
        if comm.rank == 0:
            header, endian, where = _read_head(path)
            if header.global_elements != mesh.global_elements:
                raise ValueError(f"the file has {header.global_elements} elements, but the mesh has "
                                 f"{mesh.global_elements}: use the mesh that the file was written on")  # fmt: skip

    _together(comm, path, open_)
    header, endian, where = comm.bcast((header, endian, where))
    assert header is not None
    mine = where[mesh.element_ids]
    fields = NekFields(header.time, header.step, has_temperature=header.temperature)

    def read() -> None:
        data = np.memmap(path, np.uint8, "r")
        at = HEADER_BYTES + 4 + 4 * header.elements
        variables = []
        for components in header.components:
            variables.append(_take(data, at, header, components, endian, mine))
            at += header.elements * components * header.points**3 * header.word
        if header.coordinates:
            _check_places(mesh, header.points - 1, variables.pop(0))
        for values in variables:
            if not np.isfinite(values).all():
                raise ValueError("the file has values that are not finite numbers")
        at_order = [_at_order(values, header.points - 1, order) for values in variables]
        if header.velocity:
            fields.velocity = at_order.pop(0)
        if header.pressure:
            fields.pressure = at_order.pop(0)[0]
        fields.scalars = [values[0] for values in at_order]

    _together(comm, path, read)
    return fields


def _read_head(path: Path) -> tuple[Header, str, npt.NDArray[np.int64]]:
    """The header, the byte order, and the position of each element in the file."""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES + 4)
        size = os.fstat(file.fileno()).st_size
        header = Header.parse(head[:HEADER_BYTES])
        if len(head) < HEADER_BYTES + 4:
            raise ValueError("the file ends inside its header")
        endian = next((e for e in "<>" if abs(np.frombuffer(head, f"{e}f4", 1, HEADER_BYTES)[0] - MARK) < 1e-4), "")
        if not endian:
            raise ValueError("the byte-order mark 6.54321 after the header is damaged")
        need = HEADER_BYTES + 4 + 4 * header.elements
        need += sum(header.components) * header.points**3 * header.word * header.elements
        if size < need:
            raise ValueError(f"the file is truncated: it has {size} bytes, but its header requires at least {need}")
        ids = np.frombuffer(file.read(4 * header.elements), f"{endian}i4").astype(np.int64) - 1
    where = np.full(header.elements, -1)
    if ids.min() < 0 or ids.max() >= header.elements:
        raise ValueError("the list of element numbers is damaged: some numbers exceed the number of elements")
    where[ids] = np.arange(header.elements)
    if where.min() < 0:
        raise ValueError("the list of element numbers is damaged: an element appears twice")
    return header, endian, where


def _take(
    data: npt.NDArray[np.uint8], at: int, header: Header, components: int, endian: str, mine: npt.NDArray[np.int64]
) -> Values:
    """The values of a variable that begins at ``at``, for the elements of this rank: [components][E][n][n][n]."""
    n = header.points
    each = components * n**3
    raw = data[at : at + header.elements * each * header.word]
    values = raw.view(f"{endian}f{header.word}").reshape(header.elements, components, n, n, n)[mine]
    return np.moveaxis(values.astype(np.float64), 1, 0)


def _check_places(mesh: Mesh, order: int, found: Values) -> None:
    expected = mesh.point_coordinates(order)
    places = found.reshape(3, len(expected), -1).transpose(1, 2, 0)
    away = np.abs(places - expected).max(axis=(1, 2))
    wrong = np.flatnonzero(~(away <= SAME_PLACE * np.abs(expected).max()))
    if len(wrong):
        number = int(mesh.element_ids[wrong[0]]) + 1
        raise ValueError(
            f"the file belongs to another mesh: the points of element {number} are up to {away[wrong[0]]:.3g} away "
            "from those of the mesh; use the mesh that the file was written on"
        )


def _at_order(values: Values, order: int, to: int) -> Values:
    """Values interpolated to the GLL points of another order: [components][E][n][n][n]."""
    if order == to:
        return np.ascontiguousarray(values)
    matrix = _weft.mesh.interpolation(_weft.mesh.gll(order)[0], _weft.mesh.gll(to)[0])
    for axis in (2, 3, 4):
        values = np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(values)


def series_text(name: str, first: int, count: int) -> str:
    """The text of the ``.nek5000`` file with which ParaView and VisIt open the series ``name0.f00000`` etc."""
    return f"filetemplate: {name}%01d.f%05d\nfirsttimestep: {first}\nnumtimesteps: {count}\n"
