"""Makes the DataFrame of a flow; Spark says which views a query needs, and these are made first."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from highwater.common.nearest import did_you_mean
from highwater.pipeline.errors import PipelineError, SettingsError
from highwater.pipeline.run.failures import reason_of
from highwater.pipeline.run.model import Flow, Named, Pipeline, PythonFunction, Query, Source, Sql
from highwater.pipeline.run.parse import SESSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"
_IDENTIFIER: Final = re.compile(r"`([^`]+)`")

SourceOptions = Callable[[Source], Mapping[str, str]]
"""The options to read a source with in the flow at hand."""


class Frames:
    """Makes the frames of one flow. Another flow needs another object: each query has offsets of its own."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, options: SourceOptions) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._options = options
        self._made: dict[str, DataFrame] = {}
        self._open: list[str] = []
        self._modules: dict[Path, ModuleType] = {}
        # PySpark would print each table that is not there yet as JSON with a trace.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        # A view of another flow with the same name would hide that this flow has not made its own.
        for name in (*pipeline.sources, *pipeline.views):
            spark.catalog.dropTempView(name)

    @property
    def used(self) -> tuple[str, ...]:
        """The sources and views that were made, each after those that it needs."""
        return tuple(self._made)

    def of(self, flow: Flow) -> DataFrame:
        """The frame whose rows go to the sink. Raises SettingsError that begins with file and line."""
        return self._query(flow.query, flow.origin, f"flows.{flow.name}")

    def _named(self, name: str) -> DataFrame:
        if name in self._made:
            return self._made[name]
        if name in self._open:
            circle = " -> ".join((*self._open[self._open.index(name) :], name))
            raise SettingsError(f"{self._pipeline.views[name].origin}: views.{name}: views need each other: {circle}")
        self._open.append(name)
        try:
            if name in self._pipeline.sources:
                frame = self._read(self._pipeline.sources[name])
            else:
                view = self._pipeline.views[name]
                frame = self._query(view.query, view.origin, f"views.{name}")
        finally:
            self._open.pop()
        frame.createOrReplaceTempView(name)
        self._made[name] = frame
        return frame

    def _read(self, source: Source) -> DataFrame:
        reader: Any = (self._spark.readStream if source.is_stream else self._spark.read).format(source.format)
        reader = reader.options(**self._options(source))
        if source.schema:
            reader = reader.schema(source.schema)
        try:
            frame: DataFrame = reader.load(source.path) if source.path else reader.load()
            return frame
        except Exception as error:
            raise SettingsError(f"{source.origin}: sources.{source.name}: {reason_of(error)}") from error

    def _query(self, query: Query, origin: str, where: str) -> DataFrame:
        try:
            match query:
                case Named(name):
                    return self._named(name)
                case Sql(text):
                    return self._sql(text)
                case PythonFunction():
                    return self._call(query)
        except PipelineError as error:
            # Of a part that this one needs: it says its own place.
            raise (
                error if str(error).startswith(str(origin).rpartition(":")[0]) else _placed(origin, where, str(error))
            ) from None
        except Exception as error:
            raise _placed(origin, where, reason_of(error)) from error

    def _sql(self, text: str) -> DataFrame:
        """Spark itself says which tables a query needs: one that is missing is made, and the query tried again."""
        from pyspark.errors import AnalysisException

        tried: set[str] = set()
        while True:
            try:
                return self._spark.sql(text)
            except AnalysisException as error:
                if error.getCondition() != _NOT_FOUND:
                    raise
                parameters = error.getMessageParameters() or {}
                missing = ".".join(_IDENTIFIER.findall(parameters.get("relationName", "")))
            names = self._names()
            if missing not in names or missing in tried:
                raise SettingsError(f"there is no source or view {missing}{did_you_mean(missing, names)}")
            tried.add(missing)
            self._named(missing)

    def _names(self) -> tuple[str, ...]:
        return (*self._pipeline.sources, *self._pipeline.views)

    def _call(self, step: PythonFunction) -> DataFrame:
        from pyspark.sql import DataFrame

        function = getattr(self._module(step.file), step.function, None)
        if not callable(function):
            raise SettingsError(f"{step.file} has no function {step.function}")
        names = self._names()
        arguments: dict[str, object] = {}
        for name in inspect.signature(function).parameters:
            if name == SESSION:
                arguments[name] = self._spark
            elif name in names:
                arguments[name] = self._named(name)
            else:
                raise SettingsError(
                    f"{step.function} has a parameter {name}, and there is no source or view {name}"
                    f"{did_you_mean(name, names)}"
                )
        found = function(**arguments)
        if not isinstance(found, DataFrame):
            raise SettingsError(f"{step.function} returned {type(found).__name__}, and a step returns a DataFrame")
        return found

    def _module(self, file: Path) -> ModuleType:
        if file not in self._modules:
            self._modules[file] = _imported(file)
        return self._modules[file]


def _placed(origin: str, where: str, what: str) -> SettingsError:
    return SettingsError(f"{origin}: {where}: {what}")


def _imported(file: Path) -> ModuleType:
    from pyspark.cloudpickle import register_pickle_by_value

    name = f"highwater_step_{file.stem}"
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    # Workers cannot import the file, so that its functions travel as code.
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module
