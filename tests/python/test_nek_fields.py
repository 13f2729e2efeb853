"""Nek field files follow the format, pymech reads them, any number of ranks reads them back; damage is an error."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi_run import mpi_prints

from weft import Mesh
from weft.mesh import MeshError
from weft.mesh_io.nek_fields import HEADER_BYTES, Header, NekFields, read_nek, series_text, write_nek

COUNTS, ORDER = (3, 2, 1), 3
N = ORDER + 1


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh.box(COUNTS, upper=(3, 2, 1), deformation="smooth")


def functions(mesh: Mesh, order: int = ORDER, scalars: int = 3) -> NekFields:
    """Polynomials of degree 1 in each coordinate of an undeformed mesh, different for each field."""
    n = order + 1
    x, y, z = np.moveaxis(mesh.point_coordinates(order).reshape(-1, n, n, n, 3), -1, 0)
    several = [x + 2 * y, y - 3 * z, x * y, 1 + z, x - y + z, 7 * x, 2 - y]
    return NekFields(0.25, 42, np.array(several[:3]), several[3], several[4 : 4 + scalars])


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("coordinates", [True, False])
def test_bytes_are_those_of_the_format(tmp_path, mesh, precision, coordinates):
    fields = functions(mesh)
    path = write_nek(tmp_path / "a0.f00001", mesh, ORDER, fields, precision=precision, coordinates=coordinates)
    data = path.read_bytes()
    word, kind = (4, "f") if precision == "single" else (8, "d")
    code = "XUPTS02" if coordinates else "UPTS02"
    head = f"#std {word}  4  4  4          6          6  2.5000000000000E-01        42      0      1 {code}"
    assert data[:HEADER_BYTES] == head.ljust(HEADER_BYTES).encode()
    assert struct.unpack("<f", data[132:136]) == (pytest.approx(6.54321, abs=1e-6),)
    assert struct.unpack("<6i", data[136:160]) == tuple(int(e) + 1 for e in mesh.element_ids)
    at = 160
    places = mesh.point_coordinates(ORDER).transpose(2, 0, 1)
    vectors = [places] if coordinates else []
    vectors.append(fields.velocity.reshape(3, 6, -1))
    variables = vectors + [v.reshape(1, 6, -1) for v in (fields.pressure, *fields.scalars)]
    for values in variables:  # element by element, and in it component by component
        for e in range(6):
            for component in values:
                found = struct.unpack_from(f"<{N**3}{kind}", data, at)
                assert found == pytest.approx(component[e].tolist(), rel=1e-6 if word == 4 else 0, abs=1e-6)
                at += word * N**3
    for values in variables:  # and the bounds of each element
        for e in range(6):
            for component in values:
                low, high = struct.unpack_from("<2f", data, at)
                assert (low, high) == pytest.approx((component[e].min(), component[e].max()), rel=1e-6, abs=1e-6)
                at += 8
    assert at == len(data)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_pymech_reads_what_weft_writes_and_weft_what_pymech_writes(tmp_path, mesh, precision):
    from pymech.neksuite import readnek, writenek

    fields = functions(mesh)
    path = write_nek(tmp_path / "a0.f00001", mesh, ORDER, fields, precision=precision)
    data = readnek(str(path))
    assert (data.time, data.istep, data.nel, tuple(data.lr1)) == (0.25, 42, 6, (N, N, N))
    close = {"rel": 1e-6, "abs": 1e-6} if precision == "single" else {"rel": 0, "abs": 0}
    for e, number in enumerate(mesh.element_ids):
        element = data.elem[number]
        places = mesh.point_coordinates(ORDER)[e].T.reshape(3, N, N, N)
        assert element.pos == pytest.approx(places, **close)
        assert element.vel == pytest.approx(fields.velocity[:, e], **close)
        assert element.pres[0] == pytest.approx(fields.pressure[e], **close)
        assert element.temp[0] == pytest.approx(fields.scalars[0][e], **close)
        assert element.scal == pytest.approx(np.array([s[e] for s in fields.scalars[1:]]), **close)
    writenek(str(tmp_path / "b0.f00001"), data)
    again = read_nek(tmp_path / "b0.f00001", mesh, ORDER)
    assert again.velocity == pytest.approx(fields.velocity, **close)
    assert [s == pytest.approx(t, **close) for s, t in zip(again.scalars, fields.scalars, strict=True)] == [True] * 3


@pytest.mark.parametrize("fields", ["velocity", "pressure", "scalars", "temperature"])
def test_files_with_a_part_of_the_fields_come_back(tmp_path, mesh, fields):
    whole = functions(mesh)
    part = NekFields(1.5, 0, has_temperature=fields != "scalars")
    if fields == "velocity":
        part.velocity = whole.velocity
    elif fields == "pressure":
        part.pressure = whole.pressure
    else:
        part.scalars = whole.scalars[:2]
    path = write_nek(tmp_path / "a0.f00001", mesh, ORDER, part, precision="double", coordinates=False)
    found = read_nek(path, mesh, ORDER)
    assert (found.time, found.step) == (1.5, 0)
    assert found.has_temperature == (fields == "temperature")
    for one, other in [(found.velocity, part.velocity), (found.pressure, part.pressure)]:
        assert (one is None) == (other is None)
        assert one is None or np.array_equal(one, other)
    assert np.array_equal(found.scalars, part.scalars)


@pytest.mark.parametrize("to", [1, 2, 5, 9])
def test_a_file_of_another_order_is_interpolated(tmp_path, to):
    mesh = Mesh.box(COUNTS, upper=(3, 2, 1))
    path = write_nek(tmp_path / "a0.f00001", mesh, ORDER, functions(mesh), precision="double")
    found, expected = read_nek(path, mesh, to), functions(mesh, to)
    assert found.velocity == pytest.approx(expected.velocity, abs=1e-12)
    assert found.pressure == pytest.approx(expected.pressure, abs=1e-12)
    assert np.array(found.scalars) == pytest.approx(np.array(expected.scalars), abs=1e-12)


def swapped(data: bytes, words: str) -> bytes:
    """The file in the other byte order."""
    body = np.frombuffer(data[HEADER_BYTES:160], "<u4").byteswap().tobytes()
    count = 6 * N**3 * 10
    end = 160 + count * int(words[1])
    values = np.frombuffer(data[160:end], words).byteswap().tobytes()
    return data[:HEADER_BYTES] + body + values + np.frombuffer(data[end:], "<u4").byteswap().tobytes()


@pytest.mark.parametrize(("precision", "words"), [("single", "u4"), ("double", "u8")])
def test_files_of_the_other_byte_order_are_read(tmp_path, mesh, precision, words):
    path = write_nek(tmp_path / "a0.f00001", mesh, ORDER, functions(mesh), precision=precision)
    little = read_nek(path, mesh, ORDER)
    path.write_bytes(swapped(path.read_bytes(), words))
    big = read_nek(path, mesh, ORDER)
    assert np.array_equal(big.velocity, little.velocity)
    assert np.array_equal(big.scalars, little.scalars)


def test_any_number_of_ranks_reads_what_any_other_wrote(tmp_path):
    code = """
        import sys
        import numpy as np
        from mpi4py import MPI
        import weft
        from weft.mesh_io.nek_fields import NekFields, read_nek, write_nek

        world = MPI.COMM_WORLD
        parts = {}
        for ranks in range(1, world.size + 1):
            comm = world.Split(0 if world.rank < ranks else MPI.UNDEFINED, world.rank)
            if comm != MPI.COMM_NULL:
                parts[ranks] = weft.Mesh.box((3, 2, 2), deformation="smooth", comm=comm)

        def of(mesh):
            x = np.moveaxis(mesh.point_coordinates(3).reshape(-1, 4, 4, 4, 3), -1, 0)
            return NekFields(0.5, 3, x * 2, x[0] - x[1], [x[2] ** 2])

        for writers in range(1, world.size + 1):
            path = f"{sys.argv[1]}/w{writers}0.f00001"
            if writers in parts:
                write_nek(path, parts[writers], 3, of(parts[writers]), precision="double")
            world.Barrier()
            for readers, mesh in parts.items():
                found, expected = read_nek(path, mesh, 3), of(mesh)
                assert np.array_equal(found.velocity, expected.velocity), (writers, readers)
                assert np.array_equal(found.pressure, expected.pressure), (writers, readers)
                assert np.array_equal(found.scalars, expected.scalars), (writers, readers)
            world.Barrier()
    """
    mpi_prints(4, code, str(tmp_path))
    assert not list(tmp_path.glob("*.tmp"))
    written = {path.read_bytes() for path in tmp_path.glob("w*")}
    assert len(written) == 1, "the file depends on the ranks that write it"
    assert struct.unpack("<12i", written.pop()[136:184]) == tuple(range(1, 13))  # Neko uses only the order


def test_an_error_of_one_rank_is_that_of_all(tmp_path, mesh):
    path = write_nek(tmp_path / "a0.f00001", mesh, ORDER, functions(mesh))
    data = bytearray(path.read_bytes())
    data[160 + 5 * 3 * 4 * N**3 + 3] ^= 0x40  # a coordinate of the file's last element, which one rank holds
    path.write_bytes(bytes(data))
    code = """
        import sys, weft
        from weft.mesh_io.nek_fields import read_nek
        mesh = weft.Mesh.box((3, 2, 1), upper=(3, 2, 1), deformation="smooth")
        try:
            read_nek(sys.argv[1], mesh, 3)
        except weft.mesh.MeshError as error:
            assert "belongs to another mesh: the points of element" in str(error), error
        else:
            raise SystemExit("no error")
    """
    mpi_prints(3, code, str(path))


def test_a_file_that_cannot_be_written_whole_is_one_line_on_every_rank_and_leaves_nothing(tmp_path):
    code = """
        import resource, sys
        import numpy as np
        import weft
        from weft.mesh import MeshError
        from weft.mesh_io.nek_fields import NekFields, write_nek
        mesh = weft.Mesh.box((3, 2, 1))
        fields = NekFields(0.0, 1, np.zeros((3, mesh.elements, 4, 4, 4)))
        for most in (100, 2000):  # the header fails on rank 0 alone, the fields on several
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            try:
                said = write_nek(sys.argv[1], mesh, 3, fields)
            except MeshError as error:
                said = error
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert str(said).startswith(f"{sys.argv[1]}: File too large; raise the limit"), said
    """
    mpi_prints(3, code, str(tmp_path / "a0.f00001"))
    assert list(tmp_path.iterdir()) == []


def test_another_mesh_and_files_weft_does_not_read_are_refused(tmp_path, mesh):
    path = write_nek(tmp_path / "a0.f00001", mesh, ORDER, functions(mesh))
    with pytest.raises(MeshError, match="has 6 elements, but the mesh has 4"):
        read_nek(path, Mesh.box((2, 2, 1)), ORDER)
    with pytest.raises(MeshError, match="belongs to another mesh: the points of element 1 are up to"):
        read_nek(path, Mesh.box((1, 2, 3)), ORDER)
    with pytest.raises(MeshError, match="No such file"):
        read_nek(tmp_path / "none", mesh, ORDER)
    good = path.read_bytes()
    for old, new, message in [
        (b"  4  4  4 ", b"  4  4  1 ", "2-D"),
        (b"  4  4  4 ", b"  4  5  4 ", "4 x 5 x 4 points"),
        (b"     0      1 ", b"     0      2 ", "one of 2 and has 6 of 6 elements"),
        (b"#std", b"#max", "not a Nek field file"),
        (b"XUPTS02", b"XUPTQ02", "lists the variables"),
    ]:
        path.write_bytes(good.replace(old, new, 1))
        with pytest.raises(MeshError, match=message):
            read_nek(path, mesh, ORDER)
    path.write_bytes(good[:136] + good[140:144] + good[140:])
    with pytest.raises(MeshError, match="an element appears twice"):
        read_nek(path, mesh, ORDER)
    path.write_bytes(good[:160] + b"\xff" * 4 + good[164:])
    with pytest.raises(MeshError, match="belongs to another mesh"):
        read_nek(path, mesh, ORDER)
    with pytest.raises(
        MeshError, match=r"velocity has the shape \(3, 6, 2, 2, 2\), but the points have the shape \(6, 4, 4, 4\)"
    ):
        write_nek(path, mesh, ORDER, NekFields(velocity=np.zeros((3, 6, 2, 2, 2))))
    (tmp_path / "file").write_text("")
    with pytest.raises(MeshError):
        write_nek(tmp_path / "file" / "a0.f00001", mesh, ORDER, functions(mesh))


def test_headers_of_nek5000_and_neko_are_read():
    # With the reference pressure and the pressure's mesh behind the variables, and Fortran's way of writing reals.
    nek = (
        b"#std 4  8  8  8         48         48  0.1000000000000E+02       500      0      1 XUPT       1.0000000E+00 F"
    )
    assert Header.parse(nek.ljust(132)) == Header(4, 8, 48, 48, 10.0, 500, 1, True, True, True, True, 0)
    neko = b"#std 8  6  6  6        512        512  0.0000000000000E+00         0      1      1 UP"
    assert Header.parse(neko.ljust(132)) == Header(8, 6, 512, 512, 0.0, 0, 1, False, True, True, False, 0)


headers = st.builds(
    lambda word, n, elements, time, step, flags, scalars: Header(
        word, n, elements, elements, time, step, 1, *flags, scalars
    ),
    st.sampled_from([4, 8]),
    st.integers(2, 16),
    st.integers(1, 10**9),
    st.floats(-1e20, 1e20, allow_subnormal=False).map(lambda t: float(f"{t:.13E}")),
    st.integers(0, 10**9 - 1),
    st.tuples(*[st.booleans()] * 4).filter(any),
    st.integers(0, 99),
)


@given(headers)
def test_a_header_comes_back(header):
    text = header.text()
    assert len(text) == HEADER_BYTES
    assert Header.parse(text) == header


@pytest.fixture(scope="module")
def good(tmp_path_factory, mesh) -> bytes:
    return write_nek(tmp_path_factory.mktemp("good") / "a0.f00001", mesh, ORDER, functions(mesh)).read_bytes()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_headers_and_maps_are_errors_and_never_crash(tmp_path_factory, mesh, good, data):
    path = Path(tmp_path_factory.getbasetemp()) / "fuzz0.f00001"
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        bad[data.draw(st.integers(0, 159))] = data.draw(st.integers(0, 255))
    end = data.draw(st.one_of(st.just(len(good)), st.integers(0, len(good) - 1)))
    path.write_bytes(bytes(bad[:end]))
    try:
        found = read_nek(path, mesh, ORDER)
    except MeshError:
        return
    assert found.velocity is None or np.isfinite(found.velocity).all()


@settings(max_examples=30, deadline=None)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_an_error(tmp_path_factory, mesh, good, cut):
    path = Path(tmp_path_factory.getbasetemp()) / "cut0.f00001"
    values_end = 160 + 4 * 6 * 10 * N**3  # beyond are the bounds of elements, which nothing needs
    path.write_bytes(good[: int(cut * values_end)])
    with pytest.raises(MeshError):
        read_nek(path, mesh, ORDER)


def test_what_is_there_stays_until_the_new_file_is_whole(tmp_path, mesh, monkeypatch):
    import weft.mesh_io.nek_fields as nek_fields

    path = write_nek(tmp_path / "a0.f00001", mesh, ORDER, functions(mesh))
    before = path.read_bytes()

    def fails(*_):
        raise OSError("killed")

    monkeypatch.setattr(nek_fields, "_pieces", fails)
    with pytest.raises(MeshError, match="killed"):
        write_nek(path, mesh, ORDER, functions(mesh))
    assert path.read_bytes() == before


def test_the_series_is_what_paraview_reads():
    assert series_text("flow", 1, 12) == "filetemplate: flow%01d.f%05d\nfirsttimestep: 1\nnumtimesteps: 12\n"
