"""Mesh files whose points differ from the geometry of their example, because its user code (.usr, .udf) moves them."""

from __future__ import annotations

import re
from pathlib import Path

# Meshes without their user code, by name (lower case) and number of elements, and what that code makes of them.
KNOWN = {
    ("periodichill", 12500): "a box, which becomes the flow over periodic hills",
    ("turbchannel", 10368): "a unit cube, which becomes a channel with elements that are thin at the walls",
    ("ktauchannel", 60): "a box, whose points move towards the wall",
    ("kershaw", 8000): "a cube, whose elements are distorted",
    ("stenosis", 400): "a straight pipe, which is narrowed",
    ("eddy_uv", 256): "a unit square, which is enlarged to a side of 2 pi",
}
# Assignments to coordinates, and the routines that scale or shift them.
_MOVES = re.compile(
    r"\b[xyz](?:m1|c)\s*\([^=()]*(?:\([^()]*\))?[^=()]*\)\s*=(?!=)"
    r"|\bcall\s+(?:rescale_x|cmult|cmult2|cadd|cadd2|chsign|copy)\s*\(\s*[xyz]m1\b"
    r"|\brescale\s*\([^;]*mesh->[xyz]\b"
    r"|\bmesh->[xyz]\s*\[[^\]]*\]\s*[-+*/]?=(?!=)",
    re.IGNORECASE,
)


def moved_by(path: Path, elements: int) -> str:
    """Says what moves the points of a mesh in its original code; empty if nothing is known to move them.

    The code is the ``.usr`` or ``.udf`` file next to the mesh, with its name or as the only one.
    """
    for suffix in (".usr", ".udf"):
        code = path.with_suffix(suffix)
        others = sorted(path.parent.glob(f"*{suffix}"))
        if not code.exists() and len(others) == 1:
            code = others[0]
        line = _line_that_moves(code)
        if line:
            return f"{code.name} next to it moves its points (line {line})"
    made = KNOWN.get((path.stem.lower(), elements))
    return f"it is {made} in the code of its example" if made else ""


def _line_that_moves(code: Path) -> int:
    try:
        lines = code.read_text(encoding="latin-1").splitlines()
    except OSError:
        return 0
    for number, line in enumerate(lines, 1):
        comment = code.suffix == ".usr" and line[:1] in ("c", "C", "*", "!")
        if not comment and _MOVES.search(re.split("!|//", line)[0]):
            return number
    return 0
