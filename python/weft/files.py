"""Atomic writing of files, and errors that name the file."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary name to write a file under; on success the file is renamed to ``path``.

    On an error, the temporary file is removed, an earlier file at ``path`` is kept, and an OSError names ``path``. A
    ``path`` that is not a regular file (a pipe, a terminal) is written directly.
    """
    target = Path(path)
    place = target.with_name(f"{target.stem}.tmp{target.suffix}")
    if target.exists() and not target.is_file():
        place = target
    with named(target, place):
        try:
            yield place
            if place != target:
                place.replace(target)
        finally:
            if place != target:
                place.unlink(missing_ok=True)


@contextlib.contextmanager
def named(path: Path, *others: Path) -> Iterator[None]:
    """Sets ``path`` as the file name of OSErrors that name no file (a full disk, for example) or one of ``others``."""
    try:
        yield
    except OSError as error:
        if not error.strerror or error.filename not in (None, *map(str, others)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a small file atomically."""
    with whole(path) as place:
        place.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], content: object) -> None:
    """Writes a record as JSON atomically; creates its folder."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, indent=1) + "\n")


def require_room(path: str | os.PathLike[str], size: int) -> None:
    """Raises OSError for ``path``, as on a full disk, unless ``size`` more bytes can be written in its folder.

    Needed for HDF5, whose library crashes with a segmentation fault when a disk fills up.
    """
    with named(Path(path)), tempfile.TemporaryFile(dir=Path(path).parent) as file:
        os.posix_fallocate(file.fileno(), 0, size)


def writable(folder: Path) -> Path:
    """Raises OSError unless the folder can be created, or exists, and a file can be written in it.

    A command calls this before it measures. It leaves nothing behind, and all ranks may call it at once. It writes a
    file, because permissions do not show that /proc or a full disk cannot be written.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists() or path.is_symlink())
    try:
        with tempfile.TemporaryDirectory(dir=there) as tried, tempfile.TemporaryFile(dir=tried, buffering=0) as file:
            file.write(bytes(4096))  # a full disk still has room for empty files
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(folder)) from None
    return folder
