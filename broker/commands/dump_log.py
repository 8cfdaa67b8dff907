"""`highwater broker dump-log`: prints and verifies segments, indexes, snapshots and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from highwater.admin.terminal import (
    JsonOption,
    UsageError,
    bytes_text,
    json_bytes,
    print_json_line,
    reporting,
    say,
    time_text,
)
from highwater.broker.commands.log_files import Options, Row, UnknownFile, inspect, log_files_below
from highwater.common.exit_codes import EXIT_NO
from highwater.kafka.records.batch import NO_PRODUCER_ID


def dump_log(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE|DIR...", help="Log files, or directories with log files.")
    ],
    print_data: Annotated[
        bool, typer.Option("--print-data", "--print-data-log", help="Print the records too, decompressed.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", "--deep-iteration", help="Check CRCs, records, offsets, and indexes against their segments."
        ),
    ] = False,
    allow_gaps: Annotated[
        bool, typer.Option("--allow-gaps", help="Do not report missing offsets as damage: the topic is compacted.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print damage only.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print and check log files; needs no broker, never writes, and can read the files of a running broker.

    They are batches of .log, entries of .index, .timeindex and .txnindex, producers of .snapshot, and checkpoints.
    With --json every row is one line of JSON. Exit code: 0 no damage, 1 damage, 2 not a log file.
    """
    with reporting():
        options = Options(verify, print_data, not allow_gaps)
        printer = _print_json if as_json else _print_text
        problem_count = 0
        files = _files(paths)
        for path in files:
            problem_count += _dump(path, options, printer, quiet)
        if quiet and not as_json:
            plural = "file" if len(files) == 1 else "files"
            typer.echo(
                f"{len(files)} {plural}: {problem_count or 'no'} {'problem' if problem_count == 1 else 'problems'}"
            )
    if problem_count:
        raise typer.Exit(EXIT_NO)


def _files(paths: list[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = log_files_below(path)
            if not found:
                raise UsageError(f"{path}: there is no file of a log in this folder or below it")
            files += found
        elif path.exists():
            files.append(path)
        else:
            raise UsageError(f"{path}: there is no such file or folder")
    return files


Printer = Callable[[Path, Row], None]


def _dump(path: Path, options: Options, print_row: Printer, quiet: bool) -> int:
    """Print one file. Returns the number of its problems."""
    problem_count = 0
    for row in _rows(path, options):
        problem_count += row.kind == "problem"
        if not quiet or row.kind == "problem":
            print_row(path, row)
    return problem_count


def _rows(path: Path, options: Options) -> Iterator[Row]:
    """Yield the rows of a file. An error while a row is printed does not pass through here."""
    try:
        rows = inspect(path, options)
    except UnknownFile as error:
        raise UsageError(str(error)) from None
    yield Row("file", {})
    while True:
        try:
            row = next(rows, None)
        except FileNotFoundError:
            row = Row("note", {"message": "the file was removed meanwhile, as a running broker does with old segments"})
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
        if row is None:
            return
        yield row


def _print_json(path: Path, row: Row) -> None:
    fields = dict(row.fields)
    if row.kind == "record":
        fields |= json_bytes("key", fields.pop("key")) | json_bytes("value", fields.pop("value"))
        fields["headers"] = [{"key": key} | json_bytes("value", value) for key, value in fields["headers"]]
    print_json_line({"file": str(path), "kind": row.kind, **fields})


_BATCH_HEADING: Final = "  position  offsets                records    bytes  codec   largest timestamp"


def _print_text(path: Path, row: Row) -> None:
    fields = row.fields
    if row.kind == "file":
        say(str(path))
        if path.suffix == ".log":
            say(_BATCH_HEADING)
        return
    if row.kind == "problem":
        text = f"  DAMAGE in {path.name}: {fields['message']}"
    elif row.kind == "note":
        text = f"  note: {fields['message']}"
    else:
        text = "  " + _TEXTS[row.kind](fields)
    say(text)


def _batch_text(batch: dict[str, Any]) -> str:
    offsets = f"{batch['base_offset']}..{batch['last_offset']}"
    text = (
        f"{batch['position']:>8}  {offsets:<21}  {batch['records']:>7}  {batch['bytes']:>7}  {batch['codec']:<6}  "
        f"{time_text(batch['max_timestamp_ms'])}"
    )
    more = []
    if batch["timestamp_type"] != "CreateTime":
        more.append(batch["timestamp_type"])
    if batch["producer_id"] != NO_PRODUCER_ID:
        sequences = f"{batch['base_sequence']}..{batch['last_sequence']}"
        more.append(f"producer {batch['producer_id']} epoch {batch['producer_epoch']} sequence {sequences}")
    more += [word for word in ("transactional", "control") if batch[f"is_{word}"]]
    return text + (f"\n            {', '.join(more)}" if more else "")


def _record_text(record: dict[str, Any]) -> str:
    headers = "".join(f" {key}={bytes_text(value)}" for key, value in record["headers"])
    return (
        f"  {record['offset']} {time_text(record['timestamp_ms'])} "
        f"key: {bytes_text(record['key'])} value: {bytes_text(record['value'])}"
        + (f" headers:{headers}" if headers else "")
    )


def _summary_text(summary: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('end_offset', 'next offset')}: {value}" for name, value in summary.items())


def _producer_text(producer: dict[str, Any]) -> str:
    first = producer["transaction_first_offset"]
    return (
        f"producer {producer['producer_id']} epoch {producer['producer_epoch']} "
        f"last sequence {producer['last_sequence']} last offset {producer['last_offset']} "
        f"at {time_text(producer['timestamp_ms'])}" + (f", transaction open from offset {first}" if first >= 0 else "")
    )


_TEXTS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "batch": _batch_text,
    "record": _record_text,
    "end_marker": lambda marker: (
        f"  {marker['offset']} {time_text(marker['timestamp_ms'])} {'COMMIT' if marker['is_commit'] else 'ABORT'} "
        f"coordinator epoch: {marker['coordinator_epoch']}"
    ),
    "summary": _summary_text,
    "producer": _producer_text,
    "index_entry": lambda entry: f"offset {entry['offset']} at {entry['position']}",
    "time_index_entry": lambda entry: f"{time_text(entry['timestamp_ms'])} at offset {entry['offset']}",
    "aborted_transaction": lambda entry: (
        f"producer {entry['producer_id']} aborted {entry['first_offset']}..{entry['last_offset']}, "
        f"last stable offset {entry['last_stable_offset']}"
    ),
    "checkpoint_entry": lambda entry: f"{entry['topic']}-{entry['partition']} {entry['offset']}",
    "leader_epoch": lambda entry: f"epoch {entry['epoch']} from offset {entry['start_offset']}",
    "property": lambda entry: f"{entry['name']}={entry['value']}",
}
