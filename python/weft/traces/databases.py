"""Traces in SQLite databases: opening them, and errors of the database as sentences."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from weft.traces.head import Head


def is_database(head: Head) -> bool:
    """Whether a file is an SQLite database, compressed or not."""
    return head.data.startswith(b"SQLite format 3\x00")


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads a database, with text that is not UTF-8 replaced.

    An error in the block that is caused by the content of the file becomes a ValueError that names the file.
    """
    with path.open("rb") as file:
        if file.read(2) == b"\x1f\x8b":
            raise ValueError(f"{path}: a gzipped SQLite file, which cannot be read; unpack it first")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", errors="replace")
            yield connection
    except (sqlite3.Error, OverflowError) as error:
        raise ValueError(f"{path}: the SQLite file is damaged or truncated ({error})") from None
    except (TypeError, AttributeError):  # SQLite keeps values of any type in any column
        raise ValueError(f"{path}: a table has values of the wrong type") from None
