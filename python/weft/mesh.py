"""Hexahedral meshes, distributed over the ranks of a communicator.

A ``Mesh`` comes from the generator (``Mesh.box``) or from a file (``Mesh.read``). Arrays cover the elements of this
rank; ids are global. Points are the Gauss-Lobatto-Legendre points of a polynomial order, ``[element][k][j][i]`` with i
(the r direction) fastest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft import _weft
from weft.errors import raised

if TYPE_CHECKING:
    from mpi4py import MPI

    from weft.mesh_io import Extrusion
    from weft.mesh_io.raw import RawMesh

    CollectiveError = RuntimeError
else:
    from weft.mpi import CollectiveError

__all__ = ["Mesh", "MeshError"]

Map = Callable[..., Sequence[npt.ArrayLike]]  # (x, y, z) to x, y and z of moved points


class MeshError(CollectiveError):
    """A mesh that cannot be used; the message, the same on every rank, gives the file, the element and what to do."""


class Mesh:
    """A mesh, of which each rank holds a part. Create one with ``Mesh.box`` or ``Mesh.read``."""

    def __init__(
        self, core: _weft.mesh.Mesh, tags: npt.NDArray[np.int64] | None = None, names: dict[str, int] | None = None
    ) -> None:
        self._core = core
        #: [E] the region of each element: the physical volume of a Gmsh file, the group of a Nek file, else 0
        self.element_tags = np.zeros(self.elements, np.int64) if tags is None else tags
        #: the tag of each named region of the file
        self.tag_names: dict[str, int] = names or {}

    @classmethod
    def box(
        cls,
        counts: int | Sequence[int],
        *,
        lower: float | Sequence[float] = 0.0,
        upper: float | Sequence[float] = 1.0,
        periodic: bool | Sequence[bool] = False,
        deformation: str = "none",
        deformation_parameter: float | None = None,
        comm: MPI.Intracomm | None = None,
    ) -> Mesh:
        """A box of ``counts`` elements in x, y and z (one number for all three); each rank generates only its part.

        ``deformation``: ``"none"``; ``"smooth"``: curved elements, every point displaced by parameter times the size of
        the box times sin(2 pi x) sin(2 pi y) sin(2 pi z) in each direction (default 0.05); ``"kershaw"``: the trilinear
        mesh of the CEED preconditioner tests with eps_y = eps_z = parameter in (0, 1] (default 0.3). Boundaries are
        named ``x-``, ``x+``, ``y-``, ``y+``, ``z-``, ``z+``.

        Raises ValueError on every rank for invalid options, or more ranks than elements. (collective)
        """

        def three(value: float | Sequence[float], name: str) -> list[float]:
            given = np.asarray(value)
            values: list[float] = [given.item()] * 3 if given.ndim == 0 else given.tolist()
            if len(values) != 3:
                raise ValueError(f"box: {name} must be one value or three, found {len(values)}")
            return values

        whole = [int(c) for c in three(counts, "counts")]
        if any(int(c) != c for c in three(counts, "counts")):
            raise ValueError(f"box: counts must be whole numbers, found {counts}")
        return cls(
            _weft.mesh.make_box(
                whole,
                [float(x) for x in three(lower, "lower")],
                [float(x) for x in three(upper, "upper")],
                [bool(p) for p in three(periodic, "periodic")],
                deformation,
                deformation_parameter,
                comm,
            )
        )

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        comm: MPI.Intracomm | None = None,
        partitioner: str = "metis",
        geometry_order: int | None = None,
        extrude: Extrusion | None = None,
        region: str | int | None = None,
    ) -> Mesh:
        """Read a mesh of Nek (``.re2``, ``.rea``), Neko (``.nmsh``) or Gmsh (``.msh``), and distribute it.

        ``extrude`` (``weft.mesh_io.Extrusion``): how a 2-D mesh becomes 3-D; by default one periodic layer, as thick as
        the mean element is wide. ``region``: keep only the elements of this region of the file, by name or number.
        ``partitioner``: ``"metis"`` (fewest faces between ranks) or ``"rcb"`` (recursive coordinate bisection).
        ``geometry_order``: the polynomial order of curved elements, 1 to 15; by default the one that represents the
        file's geometry: 1 if all elements are trilinear, 2 for midside nodes and second-order elements, 7 if there are
        circular or spherical sides. Rank 0 reads the file; each rank keeps only its part.

        Raises MeshError, the same on every rank, if the file is missing, damaged or of another format, if the mesh is
        not conforming, or if there are more ranks than elements. (collective)
        """
        from weft.mesh_io import read_solid

        return cls._deal(lambda: read_solid(path, extrude, region), os.fspath(path), comm, partitioner, geometry_order)

    @classmethod
    def from_arrays(
        cls,
        points: npt.ArrayLike,
        hexahedra: npt.ArrayLike,
        faces: Mapping[str, npt.ArrayLike] | None = None,
        *,
        periodic: Sequence[tuple[str, str]] = (),
        regions: npt.ArrayLike | None = None,
        comm: MPI.Intracomm | None = None,
        partitioner: str = "metis",
        geometry_order: int | None = None,
    ) -> Mesh:
        """A mesh from the arrays of rank 0; those of other ranks are ignored.

        ``points`` [V][3]; ``hexahedra`` [E][8, 20 or 27]: numbers of points from 0, in VTK's order (corners around the
        bottom, then around the top, then the middles of edges, of faces and of the element); ``faces``: for each
        boundary its faces [K][4] by their corners (other outer faces are ``unnamed``); ``periodic``: pairs of
        boundaries to join, equal up to a shift; ``regions`` [E]: element tags. Raises MeshError for arrays that are not
        a conforming mesh; other options as in ``read``. (collective)
        """
        from weft.mesh_io.arrays import from_arrays

        def make() -> RawMesh:
            return from_arrays(points, hexahedra, faces, periodic, regions)

        return cls._deal(make, "arrays", comm, partitioner, geometry_order)

    @classmethod
    def from_meshio(
        cls,
        mesh: Any,
        *,
        periodic: Sequence[tuple[str, str]] = (),
        comm: MPI.Intracomm | None = None,
        partitioner: str = "metis",
        geometry_order: int | None = None,
    ) -> Mesh:
        """A mesh from the ``meshio.Mesh`` of rank 0, which must have hexahedra; meshio reads many formats.

        Boundaries are its named quadrilaterals (``gmsh:physical`` or ``cell_sets``). Errors and other options as in
        ``from_arrays``. (collective)
        """
        from weft.mesh_io.arrays import from_meshio

        return cls._deal(lambda: from_meshio(mesh, periodic), "meshio", comm, partitioner, geometry_order)

    @classmethod
    def from_raw(cls, raw: RawMesh, *, comm: MPI.Intracomm | None = None) -> Mesh:
        """A mesh that a reader of ``weft.mesh_io`` returned on rank 0, and that is 3-D. (collective)"""
        return cls._deal(lambda: raw, raw.source, comm, "metis", None)

    @classmethod
    def sphere(
        cls,
        radii: Sequence[float],
        *,
        side: int = 2,
        layers: Sequence[int] | int = 1,
        half_width: float = 0.0,
        box_layers: Sequence[float] = (),
        comm: MPI.Intracomm | None = None,
        geometry_order: int | None = None,
    ) -> Mesh:
        """Concentric spheres around the origin, inside a cube if ``half_width`` > 0; curved elements.

        The core is a cube of ``side``^3 elements, surrounded by layers of 6 ``side``^2 elements: ``layers[k]`` layers
        from radius ``radii[k-1]`` to ``radii[k]`` (the first from the cube). ``half_width``: one more layer that ends
        on the cube [-half_width, half_width]^3, surrounded by one layer of boxes per thickness in ``box_layers`` (for a
        perfectly matched layer). Element tags: k + 1 inside ``radii[k]``, one more up to the cube, one more outside it.
        The boundary is ``outer``. Raises ValueError for invalid arguments. (collective)
        """
        from weft.mesh_io.round import cubed_sphere

        def make() -> RawMesh:
            return cubed_sphere(radii, side, layers, half_width, box_layers)

        return cls._deal(make, "sphere", comm, "rcb", geometry_order)

    @classmethod
    def cylinder(
        cls,
        radius: float,
        length: float,
        *,
        side: int = 2,
        layers: int = 1,
        slices: int = 4,
        periodic: bool = False,
        comm: MPI.Intracomm | None = None,
        geometry_order: int | None = None,
    ) -> Mesh:
        """A cylinder around the z axis, starting at z = 0; curved elements.

        The cross-section is a square of ``side``^2 elements surrounded by ``layers`` layers of 4 ``side`` elements;
        there are ``slices`` elements along z. The boundaries are ``wall``, ``z-`` and ``z+``, the last two joined if
        ``periodic``. Raises ValueError for invalid arguments. (collective)
        """
        from weft.mesh_io.round import cylinder

        def make() -> RawMesh:
            return cylinder(radius, length, side, layers, slices, periodic)

        return cls._deal(make, "cylinder", comm, "rcb", geometry_order)

    def mapped(self, function: Map, *, geometry_order: int | None = None, name: str = "Mesh.mapped") -> Mesh:
        """The same elements with every point moved to ``function(x, y, z)``: three arrays of the shape of x.

        ``geometry_order``: the order of the curved elements, 1 to 15, at whose Gauss-Lobatto-Legendre points the
        function is evaluated; by default that of the mesh, at least 7. Boundaries and periodic pairs are kept. Raises
        MeshError, the same on every rank, if the function fails or returns anything else; an element that it folds is
        an error later, when geometric factors are computed. Errors call the function ``name``. (collective)
        """
        order = geometry_order or max(self.geometry_order, 7)

        def move() -> _weft.mesh.Mesh:
            x = np.moveaxis(self.point_coordinates(order), -1, 0)
            try:
                with np.errstate(all="ignore"):  # the result is checked below, and every rank would warn
                    places = [np.broadcast_to(np.asarray(part, float), x[0].shape) for part in function(*x)]
            except (Exception, SystemExit) as error:
                raise ValueError(f"{name}: the function failed: {raised(error)}") from None
            if len(places) != 3:
                raise ValueError(f"{name}: the function returned {len(places)} values, but 3 are needed: x, y and z")
            nodes = np.stack(places, axis=-1)
            if not np.isfinite(nodes).all():
                element, point = (int(index[0]) for index in np.nonzero(~np.isfinite(nodes).all(axis=-1)))
                at = ", ".join(f"{value:.6g}" for value in x[:, element, point])
                raise ValueError(f"{name}: the point ({at}) is moved to a place that is not finite")
            return self._core.with_nodes(order, nodes)

        from weft.mpi import together

        try:
            core = together(self.comm, move)
        except (CollectiveError, ValueError) as error:
            raise MeshError(str(error)) from None
        return Mesh(core, self.element_tags, self.tag_names)

    @classmethod
    def _deal(
        cls,
        make: Callable[[], RawMesh],
        source: str,
        comm: MPI.Intracomm | None,
        partitioner: str,
        geometry_order: int | None,
    ) -> Mesh:
        """Distributes the whole mesh that ``make`` returns on rank 0. (collective)"""
        from mpi4py import MPI

        from weft.mesh_io.partition import partition

        group = MPI.COMM_WORLD if comm is None else comm
        whole, parts, problem = None, None, None
        tags, names = None, None
        if group.rank == 0:
            try:
                raw = make()
                elements = len(raw.vertices)
                if group.size > elements:
                    raise ValueError(f"{group.size} ranks, but the mesh has only {elements} elements; use fewer ranks")
                whole = _weft.mesh.WholeMesh(
                    raw.vertices,
                    raw.nodes,
                    raw.boundaries,
                    raw.boundary_names,
                    raw.periodic,
                    raw.curve_sides,
                    raw.curve_values,
                    raw.source,
                )
                tags, names = (raw.tags if len(raw.tags) else None), raw.tag_names
                del raw
                parts = partition(whole, group.size, partitioner)
            except OSError as error:
                problem = f"{source}: {error.strerror or error}"
            except MemoryError:
                problem = f"{source}: too large for the memory of rank 0, which reads it"
            except (ValueError, RuntimeError) as error:
                problem = f"{source}: {error}"
            except Exception as error:  # the other ranks wait for a result from this one
                problem = f"{source}: unexpected {type(error).__name__} while reading: {error}"
        problem, tags, names = group.bcast((problem, tags, names), root=0)
        if problem is not None:
            raise MeshError(problem)
        try:
            core = _weft.mesh.distribute(whole, parts, geometry_order or 0, comm)
        except (CollectiveError, ValueError) as error:
            raise MeshError(str(error)) from None
        return cls(core, None if tags is None else tags[core.element_ids], names)

    @property
    def comm(self) -> MPI.Intracomm:
        """The mpi4py communicator (weft's duplicate of the one given)."""
        return self._core.comm

    @property
    def elements(self) -> int:
        """Number of this rank's elements."""
        return self._core.elements

    @property
    def global_elements(self) -> int:
        """Number of elements on all ranks."""
        return self._core.global_elements

    @property
    def element_ids(self) -> npt.NDArray[np.int64]:
        """[E] global number of each element, from 0, in the order of the file (or lexicographic in a box)."""
        return self._core.element_ids

    @property
    def straight(self) -> bool:
        """Whether every element of every rank is trilinear."""
        return self._core.straight

    @property
    def geometry_order(self) -> int:
        """Polynomial order of the element geometry; 1 if trilinear."""
        return self._core.geometry_order

    @property
    def boundaries(self) -> npt.NDArray[np.int32]:
        """[E][6] boundary of each face: 0 on interior and periodic faces, else 1 + index in ``boundary_names``; faces
        r-, r+, s-, s+, t-, t+."""
        return self._core.boundaries

    @property
    def boundary_names(self) -> list[str]:
        """Names of the boundaries of the whole mesh."""
        return self._core.boundary_names

    @property
    def source(self) -> str:
        """Where the mesh comes from: ``box 16 x 16 x 16``, for example, or the name of the file."""
        return self._core.source

    def global_points(self, order: int) -> int:
        """Number of distinct points over all ranks at ``order`` (1 to 15, else ValueError)."""
        return self._core.global_points(order)

    def point_ids(self, order: int) -> npt.NDArray[np.int64]:
        """[E][(order+1)^3] global ids from 1, equal exactly where points coincide or are periodic images."""
        return self._core.point_ids(order)

    def point_coordinates(self, order: int) -> npt.NDArray[np.float64]:
        """[E][(order+1)^3][3] coordinates, in the unit of the mesh."""
        return self._core.point_coordinates(order)

    def points_on_boundary(self, order: int) -> npt.NDArray[np.uint8]:
        """[E][(order+1)^3] 1 for points on a boundary face of their element."""
        return self._core.points_on_boundary(order)

    def geometric_factors(self, order: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """G [E][(order+1)^3][6] (rr, rs, rt, ss, st, tt; including weight and Jacobian) and mass [E][(order+1)^3].

        Raises MeshError naming the element if a Jacobian is not positive. (collective)
        """
        try:
            return self._core.geometric_factors(order)
        except CollectiveError as error:
            raise MeshError(str(error)) from None

    def mass_matrix(self, order: int) -> npt.NDArray[np.float64]:
        """[E][(order+1)^3] quadrature weight times Jacobian; sums to the volume of the mesh. Errors
        as in ``geometric_factors``."""
        try:
            return self._core.mass_matrix(order)
        except CollectiveError as error:
            raise MeshError(str(error)) from None

    def __repr__(self) -> str:
        return f"Mesh({self.source}: {self.elements} of {self.global_elements} elements)"


def face_points(face: int, elements: npt.NDArray[np.int64]) -> tuple[Any, ...]:
    """The index into values at points [E][t][s][r] of a face of some elements; faces are r-, r+, s-, s+, t-, t+."""
    where: list[Any] = [elements, slice(None), slice(None), slice(None)]
    where[3 - face // 2] = -(face % 2)
    return tuple(where)
