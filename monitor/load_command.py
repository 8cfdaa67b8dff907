"""`highwater monitor load-file`: draws a load file for `highwater plan` from the history."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from highwater.common.atomic_files import write_atomically
from highwater.common.units import plural
from highwater.monitor.config import MonitorConfig
from highwater.monitor.errors import MonitorError
from highwater.monitor.history.database import open_to_read
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.load_file import FILL_IN, load_text
from highwater.monitor.load_history import draw
from highwater.monitor.model import Topic
from highwater.monitor.sources import source_of


def run(path: Path, config: MonitorConfig, days: float, environment: Mapping[str, str]) -> str:
    """Write the file and return what to say of it. Raises MonitorError, and then nothing was written.

    If the configuration names brokers, they are asked for the settings of their topics.
    """
    if path.exists():
        raise MonitorError(f"{path} exists: name another file, or remove this one")
    database = open_to_read(config.history.address, config.folder(environment))
    try:
        drawn = draw(HistoryReader(database), database.shown, days)
    finally:
        database.close()
    if not drawn.topics:
        raise MonitorError(f"{database.shown}: nothing was produced to any topic, so there is no load to draw")
    text = load_text(drawn, asyncio.run(_settings(config)) if config.bootstrap_servers else None)
    try:
        write_atomically(path, text)
    except OSError as error:
        raise MonitorError(f"{path}: cannot write it: {error.strerror or error}") from None
    missing = sum(FILL_IN in line for line in text.splitlines())
    return (
        f"{path}: {plural(len(drawn.topics), 'topic')} of {drawn.cluster}; put what you plan in the place of {FILL_IN} "
        f"({plural(missing, 'line')}), then: highwater plan {path} --ceilings DIR"
    )


async def _settings(config: MonitorConfig) -> dict[str, Topic]:
    async with source_of(config) as source:
        snapshot = await source.snapshot(0)
    if not snapshot.topics:
        why = next((state.error for state in snapshot.sources.values() if state.error), "no broker answered")
        raise MonitorError(f"{config.bootstrap_servers}: {why}; --data DIR alone goes without the cluster's settings")
    return dict(snapshot.topics)
