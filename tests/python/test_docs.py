"""Everything that README and docs name exists: commands and options, case keys, files, links; every page is listed."""

from __future__ import annotations

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from weft.cases import case_model
from weft.cases.schema import options
from weft.cli.main import weft_command

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
PAGES += (ROOT / "examples").glob("*/*.md")
GROUPS = "run|bench|mesh|model|trace|info|report|cases"
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


RUNNER = runpy.run_path(str(ROOT / "benchmarks" / "page_commands.py"))


def command_lines(text: str) -> Iterator[str]:
    """The commands of weft in the blocks of a page, without the launcher."""
    for line in RUNNER["commands"](text):
        command = re.match(rf"(?:mpiexec -n \d+ )?weft ((?:{GROUPS})\b.*)", line)
        if command:
            yield re.split("[>|]", command[1])[0].strip()


def parsed(words: list[str]) -> dict[str, object]:
    """The options of a command line; nothing runs. Raises click.UsageError."""
    command, context = weft_command, click.Context(weft_command, info_name="weft")
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None, f"no command '{name}'"
        command, context = found, click.Context(found, parent=context, info_name=name)
    values, left, _ = command.make_parser(context).parse_args(words)
    assert not left, f"{left} left over"
    return dict(values)


def key_pattern(key: str) -> str:
    return re.sub(r"<\\?\w+\\?>|<\w+>", r"[^.]+", re.escape(key).replace(r"\<", "<").replace(r"\>", ">"))


@every_page
def test_every_command_of_a_page_is_one(page: Path) -> None:
    for line in command_lines(page.read_text()):
        words = shlex.split(line)
        if "…" in line or "METHOD" in words:
            continue
        try:
            values = parsed(words)
        except (click.UsageError, AssertionError) as error:
            pytest.fail(f"weft {line}: {error}")
        if words[0] == "run":
            keys = [key_pattern(option.key) for option in options(case_model(words[1]))]
            for assignment in values.get("assignments") or []:
                key = assignment.partition("=")[0]
                assert any(re.fullmatch(k, key) for k in keys), f"weft {line}: no case key '{key}'"


@pytest.mark.parametrize("page", [ROOT / "README.md", *(ROOT / "docs").glob("*.md")], ids=lambda page: page.stem)
def test_every_mesh_that_a_command_reads_is_made_above_it(page: Path) -> None:
    made: set[str] = set()
    for line in RUNNER["commands"](page.read_text()):
        meshes = [word for word in shlex.split(line) if re.search(r"\.(re2|rea|msh|nmsh)$", word)]
        writes = line.startswith("python ") or line.startswith(("weft mesh extrude", "weft mesh convert"))
        reads = {mesh for mesh in meshes if mesh not in meshes[len(meshes) - writes :]}
        assert reads <= made, line
        made |= set(meshes)


@every_page
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), f"-> {target}"
        if anchor:
            heads = [line.strip("# ").lower().replace(" ", "-") for line in re.findall("^#.*", file.read_text(), re.M)]
            assert anchor in [re.sub(r"[^\w-]", "", head) for head in heads], f"-> {target}#{anchor}"


@every_page
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"(?<![\w/])((?:benchmarks|python/weft|cpp/weft|tests|cmake)/[\w/-]+\.\w+)", page.read_text())
    written = {"cpp/weft/kernels/NAME.hpp"}  # by the reader
    assert [f for f in named if not (ROOT / f).exists() and f not in written] == []


def test_every_table_that_a_benchmark_writes_has_its_place_in_one_page() -> None:
    texts = [page.read_text() for page in (ROOT / "docs").glob("*.md")]
    names = 0
    for program in (ROOT / "benchmarks").glob("*.py"):
        for name in re.findall(r'written_between\([^"]*(?:"utf-8"[^"]*)?"([^"]+)", "[^"]+"', program.read_text()):
            start, end = f"<!-- {name}: written by benchmarks/{program.name} -->", f"<!-- end of {name} -->"
            assert [text.count(end) for text in texts if 0 <= text.find(start) < text.find(end)] == [1], name
            names += 1
    assert names >= 5


def test_every_page_and_every_benchmark_is_in_its_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [p.name for p in (ROOT / "docs").glob("*.md") if f"({p.name})" not in index and p.name != "index.md"] == []
    programs = (ROOT / "benchmarks" / "README.md").read_text()
    files = [f for ending in ("py", "cpp", "c", "sh") for f in (ROOT / "benchmarks").glob(f"*.{ending}")]
    assert [f.name for f in files if f"`{f.name}`" not in programs] == []
