"""The keys in docs/from-nek.md exist, and its example is a valid case."""

from __future__ import annotations

import re
from pathlib import Path

from weft.cases import FlowCase
from weft.cases.schema import load, options

PAGE = (Path(__file__).parents[2] / "docs" / "from-nek.md").read_text()


def test_every_key_of_the_tables_exists():
    known = {option.key for option in options(FlowCase)}
    rows = [row.split("|") for row in PAGE.splitlines() if row.startswith("| ")]
    keys = {key for row in rows for key in re.findall(r"`([a-z_]+(?:\.[a-z_<>]+)+)(?: = 0)?`", row[3])}
    assert len(keys) > 25, "the tables were not found"
    missing = {key for key in keys if key not in known and not any(k.startswith(key + ".") for k in known)}
    assert not missing


def test_the_example_is_a_case(tmp_path):
    example = re.search(r"```toml\n(workload.*?)```", PAGE, re.S)
    assert example is not None
    path = tmp_path / "pipe.toml"
    path.write_text(example[1])
    case = load(FlowCase, str(path))
    assert case.constants["nu"] == 1 / 500
    assert case.boundaries["v"].velocity[2] == "2 * (1 - 4 * (x**2 + y**2))"
