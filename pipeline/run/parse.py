"""Makes a pipeline of its file: each mistake in the file is an error with its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from highwater.common.nearest import did_you_mean
from highwater.common.quantities import DURATION
from highwater.common.units import NANOSECONDS
from highwater.common.yaml_nodes import Document
from highwater.common.yaml_part import Part
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.settings import PREFIX
from highwater.pipeline.option_values import spelled
from highwater.pipeline.resume import DELTA, PARQUET
from highwater.pipeline.run.model import (
    AVAILABLE_NOW,
    DATABASE_FORMAT,
    ICEBERG_FORMAT,
    PARQUET_FORMAT,
    TOPIC_FORMAT,
    Flow,
    Named,
    Pipeline,
    PythonFunction,
    Query,
    SampleTopic,
    SinkSettings,
    Source,
    Sql,
    View,
)
from highwater.pipeline.run.sink_formats import (
    CATALOG,
    FORMATS,
    check_sink_options,
    progress_name,
    with_transactional_ids,
)
from highwater.pipeline.run.storage import read_source_options
from highwater.pipeline.sink.options import PROPER as SINK_OPTIONS
from highwater.pipeline.source.options import PROPER as SOURCE_OPTIONS

BOOTSTRAP_SERVERS: Final = f"{PREFIX}bootstrap.servers"
_NO_BROKER_YET: Final = "127.0.0.1:9"
_SQLITE: Final = "sqlite:"
_SQLITE_URI: Final = "sqlite:///"
FILE_FORMATS: Final = ("parquet", "json", "csv", "orc", "text")
_GENERATORS: Final = ("rate", "rate-micro-batch")
_SOURCE_FORMATS: Final = (TOPIC_FORMAT, *FILE_FORMATS, *_GENERATORS)
EXAMPLE: Final = "name: orders"
"""A line that a file could begin with."""
_KEYS: Final = ("name", "storage", "configuration", "kafka", "trial", "sources", "views", "flows")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIPELINE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INTERVAL: Final = re.compile(r"(\d+ *(milliseconds?|seconds?|minutes?|hours?|days?) *)+", re.IGNORECASE)
_OUTPUT_MODES: Final = ("append", "update", "complete")
_QUERY_KEYS: Final = ("from", "sql", "python")
SESSION: Final = "spark"
"""The parameter of a Python step that takes the session, so that no source or view can have this name."""


def parse_pipeline(
    document: Document, environment: Mapping[str, str], folder: Path, trial_address: str | None
) -> Pipeline:
    """Check the document and make a pipeline of it.

    folder: where relative paths of the file begin. trial_address: HOST:PORT of the trial's broker, for a file with
    `trial`; None before it runs. Raises UsageError that begins with file and line.
    """
    return _Reader(Part(document, environment, folder), trial_address).pipeline()


def _sample_topic(name: str, part: Part) -> SampleTopic:
    part.check_keys(("partitions", "records"))
    records = part.path("records")
    if records is not None and not records.is_file():
        part.fail("records", f"there is no file {records}")
    return SampleTopic(name, part.count("partitions", 1), records)


class _Reader:
    def __init__(self, root: Part, trial_address: str | None) -> None:
        self._root = root
        self._folder = root.folder
        self._trial_address = trial_address
        root.check_keys(_KEYS)
        self._cluster = self._cluster_settings()
        # Before their contents: a query may name a part that stands below it.
        self._names = [*root.parts("sources"), *root.parts("views")]

    def pipeline(self) -> Pipeline:
        root = self._root
        name = root.text("name")
        if not _PIPELINE_NAME.fullmatch(name):
            root.fail("name", f"{name!r} names folders: use letters, digits, '.', '_' and '-'")
        sources = {each: self._source(each, part) for each, part in root.parts("sources").items()}
        views = {each: self._view(each, part) for each, part in root.parts("views").items()}
        for both in sorted(sources.keys() & views.keys()):
            root.part("views").fail(both, "a source has this name already")
        flows = {each: self._flow(each, part) for each, part in root.parts("flows").items()}
        _check_folders(flows.values(), root)
        if not sources:
            root.fail("sources", "there is no source: a pipeline reads from at least one")
        if not flows:
            root.fail("flows", "there is no flow: a flow is a query and the sink that it writes to")
        return Pipeline(
            name=name,
            origin=root.origin,
            storage=self._storage(),
            configuration=root.texts("configuration"),
            trial=tuple(_sample_topic(each, part) for each, part in root.parts("trial").items()),
            sources=sources,
            views=views,
            flows=flows,
        )

    def _storage(self) -> Path | None:
        root = self._root
        if "trial" in root:
            if "storage" in root:
                root.fail("storage", "a trial keeps nothing, as its topics are gone at the end: leave it out")
            return None
        if "storage" not in root:
            root.fail("storage", "is missing; it is the folder for checkpoints, such as 'storage: state'")
        return root.path("storage")

    def _cluster_settings(self) -> dict[str, str]:
        root = self._root
        given = {f"{PREFIX}{name.removeprefix(PREFIX)}": value for name, value in root.texts("kafka").items()}
        if "trial" not in root:
            return given
        if "kafka" in root:
            root.fail("kafka", "a trial has a broker of its own: keep either kafka or trial")
        return {BOOTSTRAP_SERVERS: self._trial_address or _NO_BROKER_YET}

    # -- parts ------------------------------------------------------------------------------------------------------

    def _source(self, name: str, part: Part) -> Source:
        _check_name(name, part)
        part.check_keys(("format", "read", "path", "schema", "options"))
        format_name = part.text("format")
        if format_name not in _SOURCE_FORMATS:
            hint = did_you_mean(format_name, _SOURCE_FORMATS) or f"; known are {', '.join(_SOURCE_FORMATS)}"
            part.fail("format", f"{format_name!r} is not a format of a source{hint}")
        is_stream = (
            part.choice("read", ("stream", "batch"), "batch" if format_name in FILE_FORMATS else "stream") == "stream"
        )
        options = part.texts("options")
        path = ""
        if format_name == TOPIC_FORMAT:
            options = self._with_cluster(part, options, SOURCE_OPTIONS)
            if "resumeFrom" in options:
                options["resumeFrom"] = self._stored_place(options["resumeFrom"])
            _check_options(part, options, is_stream=is_stream)
        elif format_name in FILE_FORMATS:
            path = self._path(part.text("path"))
        if format_name not in FILE_FORMATS:
            for key in ("path", "schema"):
                if key in part:
                    part.fail(key, f"{format_name} has none; leave it out")
        schema = part.text("schema", "")
        if format_name in FILE_FORMATS and is_stream and not schema:
            part.fail("schema", "is missing: a stream of files needs one, such as 'id INT, name STRING'")
        return Source(name, part.origin, format_name, is_stream, options, path, schema)

    def _view(self, name: str, part: Part) -> View:
        _check_name(name, part)
        part.check_keys(_QUERY_KEYS)
        return View(name, part.origin, self._query(part))

    def _flow(self, name: str, part: Part) -> Flow:
        if not _NAME.fullmatch(name):
            part.fail(None, "a flow's name has letters, digits and '_'")
        part.check_keys((*_QUERY_KEYS, "output_mode", "trigger", "sink"))
        trigger = part.text("trigger", AVAILABLE_NOW)
        if interval_ns := DURATION.amount(trigger):
            trigger = f"{interval_ns / NANOSECONDS['ms']:.0f} milliseconds"
        if trigger != AVAILABLE_NOW and not _INTERVAL.fullmatch(trigger):
            part.fail("trigger", f"{trigger!r} is neither {AVAILABLE_NOW} nor an interval such as 10s or '10 seconds'")
        return Flow(
            name=name,
            origin=part.origin,
            query=self._query(part),
            sink=self._sink(name, part.part("sink")),
            output_mode=part.choice("output_mode", _OUTPUT_MODES, _OUTPUT_MODES[0]),
            trigger=trigger,
        )

    def _sink(self, flow: str, part: Part) -> SinkSettings:
        part.check_keys(("format", "path", "options"), "; what else a sink takes stands under options")
        format_name = part.text("format")
        if format_name not in FORMATS:
            hint = did_you_mean(format_name, FORMATS) or f"; known are {', '.join(FORMATS)}"
            part.fail("format", f"{format_name!r} is not a format of a sink{hint}")
        options = part.texts("options")
        if "path" in options:
            part.fail("options", "path is not one of them; it stands beside format")
        if "path" in part:
            options["path"] = self._path(part.text("path"))
        if format_name == DATABASE_FORMAT and "url" in options:
            options["url"] = self._database_url(options["url"])
        if format_name == ICEBERG_FORMAT:
            options |= self._catalog_paths(options)
        if FORMATS[format_name].is_topic:
            name = progress_name(self._root.text("name"), flow)
            options = with_transactional_ids(self._with_cluster(part, options, SINK_OPTIONS), name)
        try:
            check_sink_options(format_name, options)
        except SettingsError as error:
            part.fail(None, str(error))
        return SinkSettings(format_name, part.origin, options)

    def _with_cluster(self, part: Part, options: Mapping[str, str], proper: Mapping[str, str]) -> dict[str, str]:
        """The options with the cluster's settings, and names in their proper spelling: capitals mean nothing."""
        try:
            return {**spelled(self._cluster, proper), **spelled(options, proper)}
        except SettingsError as error:
            part.fail("options", str(error))

    def _stored_place(self, text: str) -> str:
        """The value of resumeFrom, with the folder or the file of SQLite in it relative to the pipeline's file."""
        for kind in (PARQUET, DELTA):
            if text.startswith(kind):
                return f"{kind}{self._path(text.removeprefix(kind))}"
        return self._database_url(text)

    def _catalog_paths(self, options: Mapping[str, str]) -> dict[str, str]:
        """A catalog's file of SQLite, and its warehouse, relative to the pipeline's file."""
        found = {}
        warehouse, uri = f"{CATALOG}warehouse", f"{CATALOG}uri"
        if warehouse in options:
            found[warehouse] = self._path(options[warehouse])
        if options.get(uri, "").startswith(_SQLITE_URI):
            found[uri] = f"{_SQLITE_URI}{self._folder / options[uri].removeprefix(_SQLITE_URI)}"
        return found

    def _database_url(self, url: str) -> str:
        """A file of SQLite is relative to the pipeline's file, as all paths are."""
        if not url.startswith(_SQLITE):
            return url
        path = url.removeprefix(_SQLITE)
        # As other programs write it: three slashes before the path.
        return f"{_SQLITE}{self._folder / (path.removeprefix('///') if path.startswith('///') else path)}"

    def _query(self, part: Part) -> Query:
        given = [key for key in _QUERY_KEYS if key in part]
        if len(given) != 1:
            part.fail(None, f"needs one of {', '.join(_QUERY_KEYS)}" + (f", and has {len(given)}" if given else ""))
        match given[0]:
            case "sql":
                return Sql(part.raw_text("sql"))
            case "python":
                return self._function(part)
            case _:
                name = part.text("from")
                if name not in self._names:
                    part.fail("from", f"there is no source or view {name}{did_you_mean(name, self._names)}")
                return Named(name)

    def _function(self, part: Part) -> PythonFunction:
        text = part.text("python")
        file, colon, function = text.rpartition(":")
        if not (colon and file.endswith(".py") and function.isidentifier()):
            part.fail("python", f"{text!r} is not written as FILE.py:FUNCTION")
        path = self._folder / file
        if not path.is_file():
            part.fail("python", f"there is no file {path}")
        return PythonFunction(path, function)

    def _path(self, text: str) -> str:
        """Paths with a scheme, such as s3a://, are Spark's affair."""
        return text if "://" in text else str(self._folder / text)


def _check_folders(flows: Iterable[Flow], root: Part) -> None:
    """The progress in a folder of files is that of one flow."""
    owners: dict[str, str] = {}
    for flow in flows:
        if flow.sink.format == PARQUET_FORMAT:
            folder = str(Path(flow.sink.options["path"]).resolve())
            if owners.setdefault(folder, flow.name) != flow.name:
                root.part("flows").fail(
                    flow.name, f"flow {owners[folder]} writes files to {folder} too: give each flow a folder of its own"
                )


def _check_name(name: str, part: Part) -> None:
    if not _NAME.fullmatch(name) or name == SESSION:
        part.fail(None, f"a name is used in SQL and in Python: letters, digits and '_', and not {SESSION!r}")


def _check_options(part: Part, options: Mapping[str, str], *, is_stream: bool) -> None:
    try:
        read_source_options(options, is_stream=is_stream)
    except SettingsError as error:
        part.fail("options" if "options" in part else None, str(error))
