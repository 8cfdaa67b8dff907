"""The process that a drill kills: a Spark session, and the queries that its standard input asks for.

    python -m highwater.pipeline.drill.driver LAUNCH

LAUNCH is the JSON of a Launch. Each line on standard input is the JSON of a QuerySpec: it stops the query of that name,
and starts this one. Each line on standard output is an object with `event`: `ready` with the process id of the JVM,
`refused` with the reason, `ended` with the name and the error of a query that was not stopped.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TextIO

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from highwater.pipeline.crash_points import QUERY_PROPERTY
from highwater.pipeline.drill.controls import FormatNames, without
from highwater.pipeline.drill.drilled_source import QUERY_OPTION, DrilledSource
from highwater.pipeline.drill.model import Launch, QuerySpec, SinkSpec
from highwater.pipeline.drill.user_file import UserFileError, load
from highwater.pipeline.drill.writing import start_writing
from highwater.pipeline.source import register

_WARM_ROWS: Final = 10


def query_of(text: str) -> QuerySpec:
    given = json.loads(text)
    return QuerySpec(**{**given, "sink": SinkSpec(**given["sink"])})


class Driver:
    """One session; for each name one query after the other."""

    def __init__(self, launch: Launch, events: TextIO) -> None:
        self._events = events
        self._telling = threading.Lock()
        self._queries: dict[str, StreamingQuery] = {}
        self._formats = FormatNames()
        self._without = ""
        self._transform: Callable[[DataFrame], DataFrame] = _plain
        if launch.transform:
            self._transform = load(Path(launch.transform), ("transform",)).transform
        builder = SparkSession.builder.master(launch.master).appName("highwater pipeline drill")
        self._session = builder.config(map=dict(launch.settings)).getOrCreate()
        register(self._session)
        self._session.dataSource.register(DrilledSource)
        # A worker is started and its imports are done before the first query needs them.
        self._session.range(_WARM_ROWS).mapInArrow(_same, "id long").collect()

    def obey(self, commands: TextIO) -> None:
        jvm = self._session.sparkContext._jvm
        assert jvm is not None
        self.tell("ready", jvm=int(jvm.java.lang.ProcessHandle.current().pid()))
        for line in commands:
            spec = query_of(line)
            try:
                self._stop(spec.name)
                query = self._queries[spec.name] = self._start(spec)
            except Exception as error:
                self.tell("ended", query=spec.name, error=_in_one_line(error))
            else:
                threading.Thread(target=self._watch, args=[spec.name, query], daemon=True).start()

    def tell(self, event: str, **more: Any) -> None:
        with self._telling:
            self._events.write(json.dumps({"event": event, **more}) + "\n")
            self._events.flush()

    def _start(self, spec: QuerySpec) -> StreamingQuery:
        if spec.without and not self._without:
            self._formats = without(spec.without, spec.sink.kind, self._session)
            self._without = spec.without
        source = {**spec.source, QUERY_OPTION: spec.name}
        frame = self._session.readStream.format(self._formats.source).options(**source).load()
        # The thread of the query inherits it, and so do all its tasks.
        self._session.sparkContext.setLocalProperty(QUERY_PROPERTY, spec.name)
        return start_writing(self._transform(frame), replace(spec, sink_format=self._formats.sink))

    def _stop(self, name: str) -> None:
        if (query := self._queries.pop(name, None)) is not None:
            query.stop()

    def _watch(self, name: str, query: StreamingQuery) -> None:
        error = ""
        try:
            query.awaitTermination()
        except Exception as reason:
            error = _in_one_line(reason)
        if query is self._queries.get(name):
            self.tell("ended", query=name, error=error)


def _same(frame: Any) -> Any:
    return frame


def _plain(frame: DataFrame) -> DataFrame:
    """The query of a drill without one of the user."""
    return frame.selectExpr("string(key)", "string(value)", "partition", "offset")


def _in_one_line(error: Exception) -> str:
    """The last error of Python in it, which is the cause; else its first line."""
    lines = str(error).splitlines() or [""]
    causes = [line for line in lines if re.match(r"\w[\w.]*(?:Error|Exception): ", line)]
    return " ".join((causes[-1] if causes else f"{type(error).__name__}: {lines[0]}").split())[:500]


def main() -> None:
    """Whoever started this has died when standard input ends."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a user's code prints is no event
    try:
        driver = Driver(Launch(**json.loads(sys.argv[1])), events)
    except UserFileError as error:
        events.write(json.dumps({"event": "refused", "error": str(error)}) + "\n")
        events.flush()
        return
    driver.obey(sys.stdin)


if __name__ == "__main__":
    main()
