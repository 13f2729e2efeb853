"""Exact solutions: each fulfils Maxwell's equations, its boundary conditions and its interfaces."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.exact.maxwell import BoxMode, CylinderMode, Harmonic, LayeredMode, PlaneWave
from weft.exact.mie import Sphere

RANDOM = np.random.default_rng(7)


def curl(f, place: np.ndarray, step: float) -> np.ndarray:
    """Curls of E and H [6][points] of a phasor by differences of order 6."""
    weights = {-3: -1 / 60, -2: 3 / 20, -1: -3 / 4, 1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    d = np.stack(
        [
            sum(w * f(*(place + k * step * np.eye(3)[axis][:, None])) for k, w in weights.items()) / step
            for axis in range(3)
        ]
    )  # [axis][6][points]
    return np.stack(
        [d[(i + 1) % 3, o + (i + 2) % 3] - d[(i + 2) % 3, o + (i + 1) % 3] for o in (0, 3) for i in (0, 1, 2)]
    )


def assert_solves_maxwell(
    mode: Harmonic, place: np.ndarray, epsilon=1.0, mu=1.0, sigma=0.0, step: float = 1e-2, within: float = 1e-8
) -> None:
    field = mode.phasor(*place)
    turned = curl(mode.phasor, place, step)
    scale = np.abs(turned).max()
    assert scale > 0
    assert np.abs(turned[:3] - 1j * mode.omega * mu * field[3:]).max() < within * scale
    assert np.abs(turned[3:] - (sigma - 1j * mode.omega * epsilon) * field[:3]).max() < within * scale


def test_fields_turn_with_the_phasor() -> None:
    wave = PlaneWave((0, 0, 2.0), (1, 0, 0), epsilon=4.0)
    z = np.linspace(0, 1, 5)
    zero = 0 * z
    expected = np.cos(2.0 * z - 1.0 * 0.3)  # omega = k / sqrt(eps)
    fields = wave.fields(0.3, zero, zero, z)
    assert fields[0] == pytest.approx(expected)
    assert fields[4] == pytest.approx(2.0 * expected)  # H = sqrt(eps / mu) E
    assert wave.period == pytest.approx(2 * math.pi)


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*[st.floats(-4, 4)] * 3), st.tuples(*[st.complex_numbers(max_magnitude=2)] * 3),
    st.floats(0.5, 4), st.floats(0.5, 4), st.floats(0, 2),
)  # fmt: skip
def test_a_plane_wave_of_any_direction_and_polarization_solves_maxwell(k, p, epsilon, mu, sigma) -> None:
    k = np.array(k)
    normal = np.array(p) - k * (k @ np.array(p)) / max(k @ k, 1e-300)
    if np.linalg.norm(k) < 0.1 or np.linalg.norm(normal) < 0.1:
        return
    wave = PlaneWave(k, normal, epsilon, mu, sigma)
    if abs(wave.omega) < 1e-2:
        return
    # Uses its own points, so that the number of examples does not change those of the tests below.
    assert_solves_maxwell(wave, np.random.default_rng(7).random((3, 5)), epsilon, mu, sigma, within=1e-7)
    assert wave.omega.imag == pytest.approx(-sigma / (2 * epsilon)) or wave.omega.real == 0


def test_a_wave_whose_electric_field_is_not_transverse_is_refused() -> None:
    with pytest.raises(ValueError, match="not normal"):
        PlaneWave((1, 0, 0), (1, 1, 0))


@pytest.mark.parametrize("kind", ["te", "tm"])
@pytest.mark.parametrize("indices", [(1, 2, 3), (1, 1, 1), (2, 1, 1)])
def test_a_box_mode_solves_maxwell_and_its_walls_conduct(kind, indices) -> None:
    lengths, lower = (1.0, 1.5, 0.7), (-0.2, 0.1, 3.0)
    mode = BoxMode(lengths, indices, kind, lower, epsilon=2.0, mu=1.5)
    place = np.array(lower)[:, None] + RANDOM.random((3, 20)) * np.array(lengths)[:, None]
    assert_solves_maxwell(mode, place, 2.0, 1.5, step=3e-3)
    for axis in range(3):
        for wall in (lower[axis], lower[axis] + lengths[axis]):
            at = place.copy()
            at[axis] = wall
            field = mode.phasor(*at)
            assert np.abs(np.delete(field[:3], axis, axis=0)).max() < 1e-13  # n x E
            assert np.abs(field[3 + axis]).max() < 1e-13  # n . H
    assert np.abs(mode.phasor(*place)[2 if kind == "te" else 5]).max() == 0.0


@pytest.mark.parametrize(
    ("kind", "indices"), [("te", (1, 1, 0)), ("te", (0, 0, 2)), ("tm", (0, 1, 1)), ("tm", (1, -1, 0))]
)
def test_a_box_mode_that_vanishes_is_refused(kind, indices) -> None:
    with pytest.raises(ValueError, match="vanishes"):
        BoxMode((1, 1, 1), indices, kind)


@pytest.mark.parametrize("kind", ["te", "tm"])
@pytest.mark.parametrize(("m", "n", "kz"), [(0, 1, 0.0), (0, 2, 0.6), (1, 1, 1.2), (3, 2, -0.6)])
def test_a_cylinder_mode_solves_maxwell_and_its_wall_conducts(kind, m, n, kz) -> None:
    radius = 1.3
    mode = CylinderMode(radius, m, n, kind, kz, epsilon=2.0, mu=1.5)
    angle, r = 2 * np.pi * RANDOM.random(30), radius * np.sqrt(RANDOM.random(30))
    place = np.stack([r * np.cos(angle), r * np.sin(angle), RANDOM.random(30)])
    assert_solves_maxwell(mode, place, 2.0, 1.5)
    field = mode.phasor(radius * np.cos(angle), radius * np.sin(angle), place[2])
    along = -np.sin(angle) * field[0] + np.cos(angle) * field[1]
    normal = np.cos(angle) * field[3] + np.sin(angle) * field[4]
    assert np.abs(np.stack([along, field[2], normal])).max() < 1e-12


LAYERS = [(0.4, 1.0, 1.0), (0.35, 4.0, 1.0), (0.5, 2.0, 3.0)]


@pytest.mark.parametrize("polarization", ["s", "p"])
@pytest.mark.parametrize(("index", "ky"), [(1, 0.0), (3, 0.0), (1, 5.0), (2, 5.0)])
def test_a_layered_mode_solves_maxwell_in_each_layer_and_fits_at_walls_and_interfaces(polarization, index, ky) -> None:
    mode = LayeredMode(LAYERS, ky, polarization, index, lower=-0.1)
    start = -0.1
    for d, epsilon, mu in LAYERS:
        margin = 0.04
        x = start + margin + (d - 2 * margin) * RANDOM.random(10)
        assert_solves_maxwell(mode, np.stack([x, *RANDOM.random((2, 10))]), epsilon, mu, step=5e-3)
        start += d
    y = RANDOM.random(5)
    scale = np.abs(
        mode.phasor(np.linspace(-0.1, start, 50), 0 * np.linspace(0, 1, 50), 0 * np.linspace(0, 1, 50))
    ).max()
    for wall in (mode.starts[0], mode.starts[-1]):
        assert np.abs(mode.phasor(wall, y, y)[1:3]).max() < 1e-11 * scale
    for interface in mode.starts[1:-1]:
        left, right = (mode.phasor(interface + s * 1e-12, y, y) for s in (-1, 1))
        assert np.abs(left - right)[[1, 2, 4, 5]].max() < 1e-9 * scale


def test_modes_of_one_layer_are_those_of_an_empty_box() -> None:
    found = [LayeredMode([(2.0, 4.0, 1.0)], 0.0, kind, n).omega.real for kind in "sp" for n in (1, 2, 3)]
    assert found == pytest.approx([math.pi * n / 4.0 for _ in "sp" for n in (1, 2, 3)])
    assert LayeredMode([(1.0, 1.0, 1.0)] * 2, 3.0, "s", 1).omega.real == pytest.approx(math.hypot(math.pi / 2, 3.0))


def shell(low: float, high: float, count: int = 30) -> np.ndarray:
    direction = RANDOM.normal(size=(3, count))
    return direction / np.linalg.norm(direction, axis=0) * (low + (high - low) * RANDOM.random(count))


DIRECTIONS = [((0, 0, 3.0), (1, 0, 0)), ((2.0, -1.0, 1.0), (1.0, 1.0, -1.0))]


@pytest.mark.parametrize(("k", "p"), DIRECTIONS)
@pytest.mark.parametrize(("epsilon", "mu"), [(2.25, 1.0), (4.0, 1.5)])
def test_the_mie_series_solves_maxwell_inside_and_outside_and_fits_on_the_sphere(k, p, epsilon, mu) -> None:
    sphere = Sphere(0.8, k, p, epsilon, mu)
    assert_solves_maxwell(sphere, shell(0.05, 0.76), epsilon, mu)
    assert_solves_maxwell(sphere, shell(0.84, 2.0))
    normal = shell(1, 1)
    inside, outside = (sphere.phasor(*(r * normal)) for r in (0.8 * (1 - 1e-10), 0.8 * (1 + 1e-10)))
    jump = outside - inside
    for part in (jump[:3], jump[3:]):
        assert np.abs(np.cross(normal.T, part.T)).max() < 1e-7
    assert np.abs((normal * (outside[:3] - epsilon * inside[:3])).sum(axis=0)).max() < 1e-7


def test_a_sphere_of_vacuum_leaves_the_wave_alone() -> None:
    sphere = Sphere(1.0, *DIRECTIONS[1])
    place = shell(0.0, 2.0)
    assert np.abs(sphere.phasor(*place) - sphere.incident.phasor(*place)).max() < 1e-12
    assert np.abs(sphere.part("scattered", *place)).max() < 1e-12


@pytest.mark.parametrize(("k", "p"), DIRECTIONS)
def test_a_conducting_sphere_has_no_tangential_electric_field(k, p) -> None:
    sphere = Sphere(0.8, k, p, conducting=True)
    normal = shell(1, 1)
    field = sphere.phasor(*(0.8 * (1 + 1e-12) * normal))
    assert np.abs(np.cross(normal.T, field[:3].T)).max() < 1e-8
    assert np.abs((normal * field[3:]).sum(axis=0)).max() < 1e-8
    assert_solves_maxwell(sphere, shell(0.85, 2.0))


def test_efficiencies_are_those_of_bohren_and_huffman() -> None:
    # Appendix A of the book: m = 1.55, radius 0.525 um, wavelength 0.6328 um; Q_sca = Q_ext = 3.10543.
    x = 2 * math.pi * 0.525 / 0.6328
    scattering, extinction = Sphere(1.0, (0, 0, x), (1, 0, 0), epsilon=1.55**2).efficiencies()
    assert scattering == pytest.approx(3.10543, abs=5e-6)
    assert extinction == pytest.approx(scattering, rel=1e-12)


def test_the_sphere_s_centre_is_a_place_like_others() -> None:
    sphere = Sphere(0.8, *DIRECTIONS[0], epsilon=2.0)
    centre, near = (sphere.phasor(*np.array([[v], [0.0], [0.0]])) for v in (0.0, 1e-4))
    assert np.abs(centre - near).max() < 1e-3
