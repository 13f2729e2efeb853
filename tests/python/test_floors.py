"""The layers of CONTRIBUTING.md ("floors"): every file uses only its own layer and those below."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {"cpp": ("*.hpp", "*.cpp", "*.in"), "python": ("*.py",)}


def floors() -> dict[str, int]:
    """The floor of every folder and file that CONTRIBUTING.md names, 0 at the top."""
    rows = re.findall(r"^\| ((?:`[\w/.]+`(?:, )?)+) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    return {place: floor for floor, row in enumerate(rows) for place in re.findall(r"`([\w/.]+)`", row)}


def place_of(path: Path, known: dict[str, int]) -> str:
    """The file or the nearest folder around it that has a floor."""
    inside = path.relative_to(ROOT)
    for place in (inside, *inside.parents):
        if place.as_posix() in known:
            return place.as_posix()
    raise AssertionError(f"{inside} has no line in CONTRIBUTING.md")


def used_by_cpp(file: Path) -> Iterator[Path]:
    """What a C++ file includes."""
    for header in re.findall(r'#\s*include "(weft/[^"]+)"', file.read_text()):
        yield ROOT / "cpp" / header


def used_by_python(file: Path) -> Iterator[Path]:
    """What a Python file imports, inside functions too."""
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, *inside = name.split(".")
            if package == "weft" and inside:
                folder = ROOT / "python" / "weft" / inside[0]
                yield folder if folder.is_dir() else folder.with_suffix(".py")


@pytest.mark.parametrize("top", ["cpp", "python"])
def test_every_file_uses_only_its_layer_and_those_below(top: str) -> None:
    known = floors()
    files = [file for pattern in FILES[top] for file in (ROOT / top / "weft").rglob(pattern)]
    assert len(files) > 100
    for file in files:
        own = place_of(file, known)
        for used in map(lambda path: place_of(path, known), (used_by_cpp if top == "cpp" else used_by_python)(file)):
            assert known[used] >= known[own], f"{file.relative_to(ROOT)} reaches up to {used}"


def test_a_flow_takes_only_solvers_from_poisson() -> None:
    used = {header for file in (ROOT / "cpp/weft/flow").glob("*.?pp") for header in used_by_cpp(file)}
    found = {header.stem for header in used if header.parent.name == "poisson"}
    assert found == {"operator", "component_passes", "multigrid_solver"}
