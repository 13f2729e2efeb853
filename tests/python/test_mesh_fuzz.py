"""Mesh files that are cut or have flipped bytes anywhere load or raise MeshError; nothing hangs or crashes."""

from __future__ import annotations

from pathlib import Path

import mesh_writers as nek
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft import Mesh
from weft.mesh import MeshError

OWN = Path(__file__).parent / "meshes"
LIMITS = {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


def sources() -> dict[str, tuple[str, bytes]]:
    corners, conditions = nek.box((2, 1, 2), periodic=(True, False, False))
    curves = [(0, 0, [0.9], "C"), (1, 8, [0.5, 0.02, 0.25], "m"), (3, 5, [1.02, 0.5, 1.0], "m")]
    found = {f"re2 v{v}": (".re2", nek.re2(corners, conditions, curves, version=v)) for v in (1, 2, 4)}
    found["rea"] = (".rea", nek.rea(corners, conditions, curves).encode())
    found["nmsh"] = (".nmsh", nek.nmsh(corners, conditions, curves))
    flat, sides = nek.rectangle((2, 2), periodic=(True, False))
    bent = [(0, 0, [3.0], "C"), (1, 0, [0.7, -0.02], "m")]
    found["re2 2-D, conjugate"] = (".re2", nek.re2(flat, sides, bent, fluid=2, thermal=sides))
    found["rea 2-D"] = (".rea", nek.rea(flat, sides, bent).encode())
    for path in sorted(OWN.glob("*.msh")):
        found[path.stem] = (".msh", path.read_bytes())
    return found


SOURCES = sources()


def load(folder: Path, suffix: str, data: bytes) -> bool:
    path = folder / f"fuzz{suffix}"
    path.write_bytes(data)
    try:
        mesh = Mesh.read(path)
        mesh.point_ids(2)
        mesh.geometric_factors(2)
    except MeshError as error:
        # Both outcomes are right, but not any other error.
        assert str(error).strip()  # noqa: PT017
        assert "unexpected" not in str(error)  # noqa: PT017
        return False
    return True


@pytest.mark.parametrize("name", SOURCES)
def test_the_unharmed_file_loads(tmp_path, name):
    assert load(tmp_path, *SOURCES[name])


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=60, **LIMITS)
@given(where=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_refused(tmp_path, name, where):
    suffix, data = SOURCES[name]
    cut = data[: int(where * len(data))]
    loaded = load(tmp_path, suffix, cut)
    if suffix == ".msh":  # what the mesh needs may end before the file does
        assert not loaded or b"$EndElements" in cut
    elif suffix == ".rea":
        assert not loaded or b"PRESOLVE" in data[len(cut) - 300 :]


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=100, **LIMITS)
@given(flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=8))
def test_flipped_bytes_load_or_are_refused(tmp_path, name, flips):
    suffix, data = SOURCES[name]
    harmed = bytearray(data)
    for where, bits in flips:
        harmed[int(where * len(data))] ^= bits
    load(tmp_path, suffix, bytes(harmed))


@pytest.mark.parametrize("name", ["re2 v2", "quarter_22_binary", "quarter_41_binary", "rea"])
@settings(max_examples=40, **LIMITS)
@given(where=st.floats(0, 1, exclude_max=True), noise=st.binary(min_size=1, max_size=24))
def test_inserted_bytes_load_or_are_refused(tmp_path, name, where, noise):
    suffix, data = SOURCES[name]
    at = int(where * len(data))
    load(tmp_path, suffix, data[:at] + noise + data[at:])
