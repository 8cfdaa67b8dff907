"""A user's sink that is exactly once: the batch that was written last changes in the same transaction."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from pyspark.sql import DataFrame

TABLES = "create table if not exists out (key text, batch text); create table if not exists done (batch text)"


def write(frame: DataFrame, batch_id: int, folder: Path) -> None:
    rows = [(row.key, row.batch) for row in frame.select("key", "batch").collect()]
    with sqlite3.connect(folder / "out.db", isolation_level=None) as database:
        database.executescript(TABLES)
        if not rows:
            return
        database.execute("begin immediate")
        if not database.execute("select 1 from done where batch = ?", rows[0][1:]).fetchone():
            database.executemany("insert into out values (?, ?)", rows)
            database.execute("insert into done values (?)", rows[0][1:])
        database.execute("commit")


def read(folder: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(folder / "out.db") as database:
        database.executescript(TABLES)
        return list(database.execute("select key, batch from out"))
