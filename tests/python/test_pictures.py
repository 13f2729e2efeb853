"""Pictures of planes: colours that fit the field, cuts that a case names, films, views, and the order of a report."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from matplotlib.contour import ContourSet
from mpi4py import MPI
from mpi_run import run_weft
from PIL import Image

from weft.cases import FlowCase, TurbulenceCase
from weft.cases.schema import load
from weft.mpi import CollectiveError
from weft.record import read
from weft.report.film import save
from weft.report.planes import colours, figure_of
from weft.run import pictures


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


def test_no_contour_follows_the_rounding_errors_of_a_plateau() -> None:
    x = np.linspace(0.0, 1.0, 60)
    noise = 1e-9 * np.random.default_rng(0).standard_normal((60, 60))
    values = np.where(x < 0.5, 0.0, 2 * x - 1) + noise  # 0 on the left half, then up to 1
    head = {"name": "heat", "axis": "z", "at": 0.0, "time": 1.0, "extent": [0.0, 1.0, 0.0, 1.0], "values": values}
    axes = figure_of({**head, "outline": {}}, {}).axes[0]  # type: ignore[typeddict-item]
    (lines,) = (c for c in axes.collections if isinstance(c, ContourSet))
    assert 0.0 not in [level for level, path in zip(lines.levels, lines.get_paths(), strict=True) if len(path.vertices)]
    assert sum(len(path.vertices) > 0 for path in lines.get_paths()) >= 8


@pytest.mark.parametrize("word", ["speed@x", "speed@x=2", "speed@w=0.5", "spin", "speed@x=nan"])
def test_a_plane_that_is_none_is_an_error_that_names_the_key(word: str) -> None:
    with pytest.raises(ValueError, match=r"output\.slice"):
        load(FlowCase, "taylor-green", {}, [f'output.slice=["u", "{word}"]'])


def test_a_run_draws_every_plane_a_film_and_a_report_that_begins_with_them(tmp_path) -> None:
    folder = tmp_path / "flow"
    words = ["output.plots=true", "mesh.counts=[2,2,2]", 'output.slice=["vorticity_z", "speed@x=0.25"]',
             "output.pixels=24", "time.steps=6",
             "output.movie=2", "statistics.every=2"]  # fmt: skip
    settings = [part for word in words for part in ("--set", word)]
    done = run_weft(2, "run", "flow", "--order", 3, "--output", folder, "--exchange", "pairwise:direct", *settings)
    assert done.returncode == 0, done.stderr
    planes = read(folder)["statistics"]["planes"]
    assert [(p["name"], p["axis"]) for p in planes] == [("vorticity_z", "z"), ("speed", "x")]
    assert planes[1]["values"].shape == (24, 24)
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


def test_the_report_of_a_run_without_a_profiled_step_has_no_breakdown_and_no_warning(tmp_path) -> None:
    words = ["--order", 2, "--steps", 2, "--set", "mesh.counts=[2,2,2]", "--set", "output.slice=none"]
    done = run_weft(1, "run", "flow", *words, "--output", tmp_path / "short")
    assert done.returncode == 0, done.stderr
    page = run_weft(1, "report", tmp_path / "short")
    assert (page.returncode, page.stderr) == (0, "")
    assert "time in" not in page.stdout
    assert "Where the time went" not in (tmp_path / "short" / "run.html").read_text()


@pytest.mark.parametrize("workload", ["flow", "maxwell", "turbulence"])
def test_a_run_that_continues_in_its_folder_continues_its_film(tmp_path, workload: str) -> None:
    words = [workload, "--output", tmp_path, "--exchange", "pairwise:direct", "--set", "output.movie=2"]
    words += ["--set", "output.movie_format=gif", "--set", "checkpoint.at_end=true"]
    if workload == "turbulence":
        words += ["--grid", 16]
    else:
        words += ["--order", 3, "--set", "mesh.counts=[2,2,2]", "--set", "output.pixels=24"]
    for frames, restart in [(3, []), (6, ["--restart", tmp_path / "checkpoints"])]:
        done = run_weft(2, "run", *words, "--steps", 6, *restart)
        assert done.returncode == 0, done.stderr
        assert Image.open(tmp_path / "movie.gif").n_frames == frames
    earlier = sorted((tmp_path / "checkpoints").glob("checkpoint-0*"))[0]
    done = run_weft(2, "run", *words, "--steps", 6, "--restart", earlier)
    assert done.returncode == 0, done.stderr
    assert [path.stem for path in sorted((tmp_path / "frames").iterdir())] == [f"{n:08}" for n in range(2, 13, 2)]
    done = run_weft(2, "run", *words, "--steps", 2)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "frames").iterdir())) == 1
    done = run_weft(2, "run", *words, "--steps", 2, "--set", "checkpoint.at_end=false")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "movie.gif").exists()
    assert not (tmp_path / "frames").exists()


HEAD = {"name": "u", "axis": "z", "at": 0.5, "time": 0.0, "extent": [0.0, 2.0, 0.0, 1.0], "values": np.empty((0, 0)),
        "outline": {}}  # fmt: skip
FRAMES = [np.full((10, 20), float(n)) for n in range(5)]


@pytest.mark.skipif(not pictures.ffmpeg(), reason="there is no ffmpeg")
def test_ffmpeg_writes_every_frame_to_an_mp4(tmp_path) -> None:
    path = save(HEAD, range(5), FRAMES, {}, tmp_path, pictures.ffmpeg())
    assert [p.name for p in tmp_path.iterdir()] == ["movie.mp4"]
    shown = subprocess.run(
        [pictures.ffmpeg(), "-i", path, "-f", "framecrc", "-"], capture_output=True, text=True, check=True
    )
    assert len([line for line in shown.stdout.splitlines() if line.startswith("0,")]) == 5
    assert "h264" in shown.stderr


def test_without_ffmpeg_a_film_is_a_gif_with_every_frame(tmp_path) -> None:
    path = save(HEAD, range(5), FRAMES, {}, tmp_path, "")
    assert [p.name for p in tmp_path.iterdir()] == ["movie.gif"]
    assert Image.open(path).n_frames == 5


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("exit 3", "ffmpeg failed: it ended"),
        ("cat > /dev/null; echo odd pixels >&2; exit 1", "ffmpeg failed: odd pixels"),
        ("cat > /dev/null; printf 'file: No space left on device\\nConversion failed\\n' >&2; exit 1", "No space left"),
    ],
)
def test_an_ffmpeg_that_fails_is_one_error_and_leaves_no_file(tmp_path, end: str, reason: str) -> None:
    program = tmp_path / "ffmpeg"
    program.write_text(f"#!/bin/sh\n{end}\n")
    program.chmod(0o755)
    (tmp_path / "out").mkdir()
    with pytest.raises(OSError, match=reason) as error:
        save(HEAD, range(5), FRAMES * 40, {}, tmp_path / "out", str(program))
    assert error.value.filename == str(tmp_path / "out" / "movie.mp4")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("model", [FlowCase, TurbulenceCase])
def test_an_mp4_without_ffmpeg_is_refused_before_the_run(model, monkeypatch) -> None:
    settings = ["output.movie=2", "output.movie_format=mp4"]
    monkeypatch.setattr(pictures, "ffmpeg", lambda: "")
    with pytest.raises(CollectiveError, match="'mp4', but ffmpeg was not found; install it"):
        pictures.require_film(load(model, None, {}, settings), MPI.COMM_SELF)
    monkeypatch.setattr(pictures, "ffmpeg", lambda: str(Path("/usr/bin/ffmpeg")))
    pictures.require_film(load(model, None, {}, settings), MPI.COMM_SELF)
