"""Files are written completely or not at all."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.files import named, whole, writable, write_json, write_text


def fails(path: Path, error: BaseException) -> None:
    """Writes half a file."""
    with whole(path) as place:
        assert place.suffix == path.suffix, "the ending is the format"
        place.write_text("half")
        raise error


def test_a_file_whose_writing_fails_is_as_it_was_and_leaves_no_part(tmp_path) -> None:
    path = tmp_path / "plot.png"
    for before in (None, "old"):
        if before:
            write_text(path, before)
        with pytest.raises(OSError, match=r"plot\.png"):
            fails(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))  # a full disk does not say which file
        with pytest.raises(KeyboardInterrupt):
            fails(path, KeyboardInterrupt())
        assert [p.name for p in tmp_path.iterdir()] == (["plot.png"] if before else [])
        assert not before or path.read_text() == before


def test_a_file_has_its_name_once_it_is_whole(tmp_path) -> None:
    path = tmp_path / "deep" / "run.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    assert [p.name for p in path.parent.iterdir()] == ["run.json"]
    with whole(path) as place:
        place.write_text("new")
        assert json.loads(path.read_text()) == {"a": 2}
    assert path.read_text() == "new"


def test_a_path_that_is_no_file_is_written_in_place_or_named_in_an_error(tmp_path) -> None:
    write_text("/dev/null", "text")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(IsADirectoryError, match=r"folder\.json"):
        write_text(tmp_path / "folder.json", "text")
    with pytest.raises(FileNotFoundError, match=r"absent/run\.json"):
        write_text(tmp_path / "absent" / "run.json", "text")


def test_a_full_disk_is_an_error_that_names_the_folder() -> None:
    with pytest.raises(OSError, match="results"), named(Path("results")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError, match="elsewhere"), named(Path("results")):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), "elsewhere")


@pytest.mark.parametrize(
    ("imports", "use"),
    [
        ("from weft.files import writable", "writable(folder)"),
        # The rest of a file is written once more when it is closed, whose error names nothing.
        (
            "from weft.cases import FlowCase as Case, load\nfrom weft.run import folder as run",
            "with run.holds_folder(load(Case)): run._lock(folder / 'unfinished.json', load(Case))",
        ),
    ],
)
def test_a_folder_without_room_is_found_and_named(tmp_path, imports: str, use: str) -> None:
    # As on a full disk, files can be created, but nothing written into them.
    full = "import pathlib, resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))"
    code = f"{imports}\n{full}\nfolder = pathlib.Path({str(tmp_path)!r})\n{use}"
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"OSError: [Errno 27] File too large: '{tmp_path}"), done.stderr
    assert list(tmp_path.iterdir()) == []
    assert writable(tmp_path) == tmp_path
