"""Writes the tables of published rows and projections into docs/model-project.md, between two marks.

python benchmarks/published_tables.py
"""

from __future__ import annotations

from pathlib import Path

from weft.model import comparison, comparison_tables

PAGE = Path(__file__).parents[1] / "docs" / "model-project.md"
MARKS = ("<!-- published rows: written by benchmarks/published_tables.py -->", "<!-- end of published rows -->")


def page(text: str) -> str:
    """The page with the tables between its marks."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n\n{comparison_tables.markdown(comparison.published_rows())}\n\n{MARKS[1]}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE}")
