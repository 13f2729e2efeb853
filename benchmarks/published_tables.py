"""Writes the tables of published rows and projections into docs/model-project.md, between two marks.

python benchmarks/published_tables.py
"""

from __future__ import annotations

from pathlib import Path

from weft.model import comparison, comparison_tables

PAGE = Path(__file__).parents[1] / "docs" / "model-project.md"


def written_between(page: str, name: str, program: str, text: str) -> str:
    """A page with the text between the two marks of a name. Raises ValueError if it lacks the marks."""
    mark, end = f"<!-- {name}: written by benchmarks/{program} -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(mark)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ValueError(f"the page has no '{mark}' followed by '{end}'")
    return f"{before}{mark}\n\n{text}\n\n{end}{after}"


def page(text: str) -> str:
    """The page with the tables between its marks."""
    tables = comparison_tables.markdown(comparison.published_rows())
    return written_between(text, "published rows", "published_tables.py", tables)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE}")
