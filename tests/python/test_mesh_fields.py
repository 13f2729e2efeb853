"""Fields for ParaView: the files have the given values at the nodes where VTK expects them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from mpi_run import mpi_prints

from weft import Mesh
from weft.mesh import MeshError
from weft.mesh_io.fields import lagrange_order, write_fields

# vtkHigherOrderHexahedron::PointIndexFromIJK of VTK 9.7 at order 3, turned round: the i + 4 j + 16 k of each node.
VTK_ORDER_3 = """0 3 15 12 48 51 63 60 1 2 7 11 13 14 4 8 49 50 55 59 61 62 52 56 16 32 19 35 31 47 28 44 20 24 36 40 23
27 39 43 17 18 33 34 29 30 45 46 5 6 9 10 53 54 57 58 21 22 25 26 37 38 41 42"""
DTYPES = {"Float64": "<f8", "Float32": "<f4", "Int64": "<i8", "UInt8": "u1"}


def read_vtu(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    head, blob = re.split(rb'<AppendedData encoding="raw">\s*_', data, maxsplit=1)
    root = ET.fromstring(head + b"</VTKFile>")
    assert root.attrib["version"] >= "2.1"  # older ones number the vertical edges otherwise
    arrays = {}
    for node in root.iter("DataArray"):
        at = int(node.attrib["offset"])
        (size,) = np.frombuffer(blob, "<u8", 1, at)
        values = np.frombuffer(
            blob, DTYPES[node.attrib["type"]], int(size) // np.dtype(DTYPES[node.attrib["type"]]).itemsize, at + 8
        )
        arrays[node.attrib["Name"]] = values.reshape(-1, int(node.attrib.get("NumberOfComponents", 1)))
    return arrays


def test_nodes_follow_vtk():
    assert lagrange_order(3).tolist() == [int(word) for word in VTK_ORDER_3.split()]
    for order in (1, 2, 7):
        assert sorted(lagrange_order(order)) == list(range((order + 1) ** 3))


def test_a_field_is_at_equidistant_nodes_and_a_polynomial_survives(tmp_path):
    mesh, order = Mesh.box((2, 1, 1), upper=(2, 1, 1)), 5
    x = mesh.point_coordinates(order)
    f = x[..., 0] ** 4 + x[..., 1] * x[..., 2] ** 3
    path = write_fields(
        tmp_path / "out" / "box", mesh, order, {"f": f, "v": x.astype(np.float32).reshape(2, 6, 6, 6, 3)}
    )
    assert path == tmp_path / "out" / "box.vtu"
    read = read_vtu(path)
    p = read["Points"]
    grid = np.stack(np.meshgrid(*[np.arange(6) / 5] * 3, indexing="ij")[::-1], -1).reshape(-1, 3)[lagrange_order(5)]
    assert p[:216] == pytest.approx(grid, abs=1e-14)
    assert read["f"][:, 0] == pytest.approx(p[:, 0] ** 4 + p[:, 1] * p[:, 2] ** 3, abs=1e-13)
    assert read["v"].dtype == np.float32
    assert read["v"] == pytest.approx(p, abs=1e-6)
    assert (read["types"] == 72).all()
    assert read["offsets"].ravel().tolist() == [216, 432]
    assert np.array_equal(read["connectivity"].ravel(), np.arange(432))


def test_vtk_reads_the_file_and_interpolates_in_it(tmp_path):
    vtk = pytest.importorskip("vtk", reason="VTK is not installed; the check against its node numbers ran")
    mesh, order = Mesh.box(1), 4
    x = mesh.point_coordinates(order)
    path = write_fields(tmp_path / "one.vtu", mesh, order, {"f": x[..., 0] ** 2 + x[..., 1] * x[..., 2]})
    reader = vtk.vtkXMLUnstructuredGridReader()
    reader.SetFileName(str(path))
    reader.Update()
    grid = reader.GetOutput()
    cell, values = grid.GetCell(0), grid.GetPointData().GetArray("f")
    for p in np.random.default_rng(0).random((20, 3)):
        place, weights, sub = [0.0] * 3, [0.0] * cell.GetNumberOfPoints(), vtk.reference(0)
        cell.EvaluateLocation(sub, list(p), place, weights)
        assert place == pytest.approx(p, abs=1e-12)
        f = sum(w * values.GetValue(cell.GetPointId(i)) for i, w in enumerate(weights))
        assert f == pytest.approx(p[0] ** 2 + p[1] * p[2], abs=1e-12)


def test_several_ranks_write_one_pvtu_and_a_piece_each(tmp_path):
    code = """
        import sys, weft
        from weft.mesh_io.fields import write_fields
        mesh = weft.Mesh.box((3, 2, 1))
        path = write_fields(sys.argv[1], mesh, 2, {"x & y": mesh.point_coordinates(2)[..., 0]})
        assert path.suffix == ".pvtu"
    """
    mpi_prints(3, code, str(tmp_path / "case.vtu"))
    root = ET.fromstring((tmp_path / "case.pvtu").read_bytes())
    pieces = [node.attrib["Source"] for node in root.iter("Piece")]
    assert pieces == ["case/0.vtu", "case/1.vtu", "case/2.vtu"]
    read = [read_vtu(tmp_path / piece) for piece in pieces]
    assert sum(len(r["types"]) for r in read) == 6
    for r in read:
        assert r["x & y"][:, 0] == pytest.approx(r["Points"][:, 0], abs=1e-14)


def test_wrong_shapes_kinds_and_places_are_refused(tmp_path):
    mesh = Mesh.box(1)
    with pytest.raises(MeshError, match=r"field 'f' has the shape \(1, 8\), but needs \(1, 27\)"):
        write_fields(tmp_path / "a.vtu", mesh, 2, {"f": np.zeros((1, 8))})
    with pytest.raises(MeshError, match="field 'z' has the type complex128"):
        write_fields(tmp_path / "a.vtu", mesh, 1, {"z": np.zeros((1, 8), complex)})
    (tmp_path / "file").write_text("")
    with pytest.raises(MeshError, match="cannot write"):
        write_fields(tmp_path / "file" / "a.vtu", mesh, 1, {"f": np.zeros((1, 8))})
