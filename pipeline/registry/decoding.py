"""Keys and values of a registry's formats become columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa

from highwater.common.extras import how_to_install
from highwater.pipeline.errors import RecordsError, SettingsError
from highwater.pipeline.kafka.columns import schema_of
from highwater.pipeline.kafka.reader import OffsetRange
from highwater.pipeline.registry.client import Registered, RegistrySettings, client_of, latest, schema_of_id
from highwater.pipeline.registry.wire import Reading, UnreadableValueError, split

_FITTING: Final = Reading("it does not fit its column", UnreadableValueError)
KINDS: Final = ("avro", "json", "protobuf")


class Format(Protocol):
    """type: the Arrow type of the column."""

    type: Any

    def decode(self, payload: bytes, writer_schema: str) -> Any:
        """The value as Python has it. Raises UnreadableValueError."""


@dataclass(frozen=True)
class ColumnFormat:
    """The format of `key` or `value`. reader: the schema that the column has; None before it is known."""

    column: str
    kind: str
    subject: str
    is_null_on_error: bool
    message: str = ""
    """Which message of a Protobuf file; by default the first."""
    reader: Registered | None = None

    def resolved(self, registry: RegistrySettings) -> ColumnFormat:
        """Return the format with the newest schema of the subject. Raises SettingsError, ClientError."""
        if self.reader is not None:
            return self
        found = latest(registry, self.subject)
        if found.kind.lower() != self.kind:
            raise SettingsError(
                f"{self.column}.format={self.kind}, and subject {self.subject} is {found.kind}: "
                f"set {self.column}.format={found.kind.lower()}"
            )
        return replace(self, reader=found)

    def format(self) -> Format:
        """Raises SettingsError for a schema without an Arrow type, and without the extra `registry`."""
        assert self.reader is not None, "resolved first"
        try:
            return self._format(self.reader)
        except ImportError as error:
            raise SettingsError(
                f"{self.column}.format={self.kind} needs {error.name}: {how_to_install('registry')}"
            ) from None
        except SettingsError as error:
            raise SettingsError(f"{self.column}.format={self.kind}, subject {self.subject}: {error}") from None

    def _format(self, reader: Registered) -> Format:
        # Each format has a library of its own, which a reader of another one need not have.
        match self.kind:
            case "avro":
                from highwater.pipeline.registry.avro_format import AvroFormat

                return AvroFormat(reader.text)
            case "json":
                from highwater.pipeline.registry.json_format import JsonFormat

                return JsonFormat(reader.text)
            case _:
                from highwater.pipeline.registry.protobuf_format import ProtobufFormat

                return ProtobufFormat(reader.text, reader.references, self.message)


@dataclass(frozen=True)
class Formats:
    """What a source was asked to decode. A stream keeps the schemas of its start until it is started again."""

    registry: RegistrySettings
    columns: tuple[ColumnFormat, ...]

    def resolved(self) -> Formats:
        """Return the formats with the newest schemas. Raises SettingsError, ClientError."""
        return replace(self, columns=tuple(each.resolved(self.registry) for each in self.columns))

    def schema_of(self, names: Sequence[str]) -> Any:
        """The Arrow schema of rows with these columns. Raises SettingsError."""
        types = {each.column: each.format().type for each in self.columns}
        return pa.schema([field.with_type(types.get(field.name, field.type)) for field in schema_of(names)])


class Decoder:
    """Decodes rows in a task."""

    def __init__(self, formats: Formats) -> None:
        """formats: resolved. Raises SettingsError."""
        self._registry = formats.registry
        self._formats = [(each, each.format()) for each in formats.columns]
        # A library that is missing here is no fault of a value, which could become null.
        client_of(formats.registry)

    def rows(self, rows: Any, of: OffsetRange) -> Any:
        """A pyarrow.RecordBatch of the range with decoded columns.

        Raises RecordsError, which names the offset if the column `offset` is there; and ClientError.
        """
        for wanted, format_ in self._formats:
            index = rows.schema.get_field_index(wanted.column)
            if index >= 0:
                column = self._column(rows.column(index), format_, partial(_unreadable, rows, of, wanted))
                rows = rows.set_column(index, pa.field(wanted.column, format_.type), column)
        return rows

    def _column(self, payloads: Any, format_: Format, unreadable: Callable[[UnreadableValueError, int], None]) -> Any:
        """unreadable: raises, or returns for a null in the place of the value."""
        values: list[Any] = []
        for row, payload in enumerate(payloads):
            try:
                values.append(self._value(payload.as_py(), format_))
            except UnreadableValueError as error:
                unreadable(error, row)
                values.append(None)
        try:
            return _array(values, format_.type)
        except UnreadableValueError:
            # Arrow takes what Python has: a number of more bits, half a character. Which value it is, it does not say.
            for row, value in enumerate(values):
                try:
                    _array([value], format_.type)
                except UnreadableValueError as error:
                    unreadable(error, row)
                    values[row] = None
            return _array(values, format_.type)

    def _value(self, payload: bytes | None, format_: Format) -> Any:
        if payload is None:
            return None
        schema_id, data = split(payload)
        return format_.decode(data, self._writer(schema_id))

    def _writer(self, schema_id: int) -> str:
        try:
            return schema_of_id(self._registry, schema_id).text
        except SettingsError as error:
            raise UnreadableValueError(str(error)) from None


def _unreadable(rows: Any, of: OffsetRange, wanted: ColumnFormat, error: UnreadableValueError, row: int) -> None:
    if not wanted.is_null_on_error:
        what = f"{wanted.column}: {error}; {wanted.column}.onError=null makes it null"
        raise RecordsError(of.topic, of.partition, _offset(rows, row, of), what) from None


def _offset(rows: Any, row: int, of: OffsetRange) -> int:
    index = rows.schema.get_field_index("offset")
    return of.start_offset if index < 0 else int(rows.column(index)[row].as_py())


def _array(values: list[Any], kind: Any) -> Any:
    """Raises UnreadableValueError."""
    with _FITTING:
        return pa.array(values, kind)
