"""The record of a run: runs write what weft.record describes and docs/run-record.md lists; and records can be read."""

from __future__ import annotations

import json
import re
import types
import typing
from pathlib import Path

import numpy as np
import pytest
from mpi_run import run_weft

from weft import record
from weft.model import sources
from weft.model.result import ModelError

ROOT = Path(__file__).resolve().parents[2]
CLASSES = [c for c in vars(record).values() if typing.is_typeddict(c)]
RUNS = {
    "poisson": ["--order", "2", "--set", "mesh.counts=[2,2,2]"],
    "multigrid": ["--case", "solve", "--order", "2", "--set", "mesh.counts=[2,2,2]", "--preconditioner", "multigrid"],
    "maxwell": ["--case", "cavity", "--order", "2", "--set", "time.steps=2", "--set", "time.end=0",
                "--set", "output.slice=ex", "--set", "output.compare_paths=true"],
    "flow": ["--case", "taylor-green", "--order", "2", "--set", "mesh.counts=[2,2,2]", "--set", "time.steps=4",
             "--set", "time.end=0"],
    "turbulence": ["--set", "grid=16", "--set", "time.steps=2", "--set", "time.end=0"],
}  # fmt: skip


@pytest.fixture(scope="module", params=RUNS)
def written(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    workload = "poisson" if request.param == "multigrid" else request.param
    done = run_weft(1, "run", workload, *RUNS[request.param], "--quiet", "--output", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def mismatch(value: object, kind: typing.Any, where: str) -> str:
    """The place where a JSON value does not have a type, or nothing."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind is typing.Any:
        return ""
    if origin in (typing.Union, types.UnionType):
        return "" if any(not mismatch(value, k, where) for k in inside) else f"{where}: {value!r} is none of {inside}"
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        found = list(value) if isinstance(value, dict) else []
        if not isinstance(value, dict) or set(found) - set(hints) or kind.__required_keys__ - set(found):
            return f"{where}: {found} are not the fields of {kind.__name__}"
        return next(filter(None, (mismatch(value[k], hints[k], f"{where}.{k}") for k in value)), "")
    if origin is dict:
        if not isinstance(value, dict):
            return f"{where}: no object"
        return next(filter(None, (mismatch(v, inside[1], f"{where}.{k}") for k, v in value.items())), "")
    if origin is list:
        if not isinstance(value, list):
            return f"{where}: no list"
        return next(filter(None, (mismatch(v, inside[0], f"{where}[{i}]") for i, v in enumerate(value))), "")
    right = isinstance(value, (int, float) if kind is float else origin or kind)
    return "" if right else f"{where}: {value!r} is no {kind}"


def test_a_run_writes_what_the_schema_says(written) -> None:
    content = json.loads((written / "run.json").read_text())
    assert mismatch(content, record.Record, "record") == ""
    assert content["schema"] == record.SCHEMA
    found = record.read(written)
    for plane in content.get("statistics", {}).get("planes", []):
        stored = plane["values"]
        plane["values"] = np.load(written / stored["file"])[stored["array"]].tolist()
    for plane in found.get("statistics", {}).get("planes", []):
        plane["values"] = plane["values"].tolist()
    assert found == content


PLANE = {"name": "u", "axis": "z", "at": 0.5, "time": None, "extent": [0, 1, 0, 1], "outline": {}}


def test_planes_are_read_from_beside_the_record_or_from_older_records(tmp_path) -> None:
    content = {"case": {"workload": "flow"}, **{key: {} for key in record.SECTIONS[1:]}}
    values = np.array([[1.0, np.nan], [0.25, 1e9]], np.float32)
    planes = [{**PLANE, "values": values}, {**PLANE, "values": -values}]
    record.write(tmp_path, {**content, "statistics": {"planes": planes}})
    assert (tmp_path / "run.json").stat().st_size < 2000
    planes = record.read(tmp_path)["statistics"]["planes"]
    assert np.array_equal(planes[0]["values"], values, equal_nan=True)
    assert np.array_equal(planes[1]["values"], -values, equal_nan=True)
    (tmp_path / "planes.npz").write_bytes(b"PK")
    with pytest.raises(record.RecordError, match=r"planes\.npz: not the planes of run\.json"):
        record.read(tmp_path)
    (tmp_path / "planes.npz").unlink()
    left = record.read(tmp_path)["statistics"]
    assert (left["planes"], left["missing_file"]) == ([], "planes.npz")
    old = {**content, "schema": 1, "statistics": {"planes": [{**PLANE, "values": [[1.0, None], [0.25, 1e9]]}]}}
    (tmp_path / "run.json").write_text(json.dumps(old))
    assert np.array_equal(record.read(tmp_path)["statistics"]["planes"][0]["values"], values, equal_nan=True)


def test_the_page_lists_every_field_and_no_other() -> None:
    page = (ROOT / "docs" / "run-record.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    listed = {name for row in rows for name in re.findall(r"`([a-z0-9_]+)`", row)}
    fields = {name for c in CLASSES for name in typing.get_type_hints(c)}
    assert fields - listed == set()
    assert listed - fields == set()


def test_a_record_of_weft_0_1_0_is_shown_as_one_of_today(written, tmp_path) -> None:
    today = json.loads((written / "run.json").read_text())
    del today["schema"]
    if "exchange" in today["choices"]:
        today["choices"]["exchange"] = "pairwise:direct"  # as before exchanges were tuned
    if "parts" in today["timings"]:
        today["timings"]["breakdown"] = today["timings"].pop("parts")
    (tmp_path / "run.json").write_text(json.dumps(today))
    content = record.read(tmp_path / "run.json")
    assert mismatch(content, record.Record, "record") == ""
    shown = run_weft(1, "report", tmp_path / "run.json")
    assert shown.returncode == 0, shown.stderr
    assert ("pairwise:direct" in shown.stdout) == ("exchange" in today["choices"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not the record of a run"),
        ("[]", "not the complete record of a run: case"),
        ('{"case": {}}', "versions, machine, choices, timings, figures missing"),
    ],
)
def test_a_file_that_is_no_record_is_one_clear_error(tmp_path, content: str, message: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(record.RecordError, match=message):
        record.read(tmp_path)


def test_a_record_of_a_newer_version_says_what_to_do(tmp_path) -> None:
    sections = {key: {} for key in record.SECTIONS}
    newer = {"schema": record.SCHEMA + 1, **sections, "versions": {"weft": "9.0.0"}}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(newer))
    with pytest.raises(record.RecordError, match=r"written by weft 9.0.0.*install a newer weft"):
        record.read(path)
    with pytest.raises(ModelError, match=r"written by weft 9.0.0.*install a newer weft"):
        sources.read(path)
