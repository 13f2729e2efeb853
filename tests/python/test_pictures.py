"""Pictures of planes: colours that fit the field, cuts that a case names, films, views, and the order of a report."""

from __future__ import annotations

import json

import numpy as np
import pytest
from mpi_run import run_weft
from PIL import Image

from weft.cases import FlowCase
from weft.cases.schema import load
from weft.report.planes import colours


def test_a_magnitude_that_dips_below_zero_by_interpolation_is_not_signed() -> None:
    values = np.linspace(-0.04, 1.0, 400).reshape(20, 20)
    assert (colours("speed", values).cmap, colours("speed", values).norm.vmin) == ("viridis", 0.0)
    assert colours("temperature", values).cmap == "viridis"


def test_a_field_of_both_signs_has_white_at_zero() -> None:
    values = np.linspace(-2.0, 1.0, 400).reshape(20, 20)
    shades = colours("vorticity_z", values)
    assert shades.cmap == "RdBu_r"
    assert (shades.norm.vmin, shades.norm.vmax) == pytest.approx((-2.0, 2.0), rel=0.02)


def test_a_peak_in_a_corner_does_not_hide_the_rest() -> None:
    values = np.random.default_rng(0).uniform(0, 1, (100, 100))
    values[0, 0] = 1000.0
    shades = colours("vorticity", values)
    assert shades.norm.vmax < 1.1
    assert shades.extend == "max"


@pytest.mark.parametrize("word", ["speed@x", "speed@x=2", "speed@w=0.5", "spin", "speed@x=nan"])
def test_a_plane_that_is_none_is_an_error_that_names_the_key(word: str) -> None:
    with pytest.raises(ValueError, match=r"output\.slice"):
        load(FlowCase, "taylor-green", {}, [f'output.slice=["u", "{word}"]'])


def test_a_run_draws_every_plane_a_film_and_a_report_that_begins_with_them(tmp_path) -> None:
    folder = tmp_path / "flow"
    words = ["mesh.counts=[2,2,2]", 'output.slice=["vorticity_z", "speed@x=0.25"]', "output.pixels=24", "time.steps=6",
             "output.movie=2", "statistics.every=2"]  # fmt: skip
    settings = [part for word in words for part in ("--set", word)]
    done = run_weft(2, "run", "flow", "--order", 3, "--output", folder, "--exchange", "pairwise:direct", *settings)
    assert done.returncode == 0, done.stderr
    planes = json.loads((folder / "run.json").read_text())["statistics"]["planes"]
    assert [(p["name"], p["axis"]) for p in planes] == [("vorticity_z", "z"), ("speed", "x")]
    assert np.array(planes[1]["values"]).shape == (24, 24)
    assert planes[1]["at"] == pytest.approx(np.pi / 2)
    assert (folder / "slice-2.png").exists()
    film = next(folder.glob("movie.*"))
    if film.suffix == ".gif":
        assert Image.open(film).n_frames == 3
    page = run_weft(1, "report", folder)
    assert page.returncode == 0, page.stderr
    text = (folder / "run.html").read_text()
    heads = [
        text.index(f"<h2>{head}</h2>") for head in ("Vorticity", "Speed", "Result", "Where the time went", "Choices")
    ]
    assert heads == sorted(heads)
    assert text.index("<details>") > heads[3]
    missing = run_weft(1, "report", folder, "--view", "q")
    assert missing.returncode != 0
    assert "output.fields" in missing.stderr or "pip install pyvista" in missing.stderr
    assert len(missing.stderr.strip().splitlines()) == 1
