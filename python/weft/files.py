"""Files that are there whole or not at all, and errors that name them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Inside, the name to write a file under; once it is whole it becomes ``path``.

    An error removes what was written and leaves what was there before; an OSError then names ``path``. What exists and
    is no file (a pipe, a terminal) is written in place.
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
    """Errors of a file that do not say which, as that of a full disk, or that name ``others``, are about ``path``."""
    try:
        yield
    except OSError as error:
        if not error.strerror or error.filename not in (None, *map(str, others)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """A small file, `whole`."""
    with whole(path) as place:
        place.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """A record as JSON, `whole`; makes its folder."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(content, indent=1) + "\n")


def writable(folder: Path) -> Path:
    """A folder that is there or can be made; else OSError, before a command measures. Makes nothing."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    if not os.access(there, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))
    return folder
