"""What the verbs share: options, reading a workload with the options applied, errors in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from highwater.bench.runs.launchers import LauncherKind
from highwater.common.secret_names import has_secret_word
from highwater.common.spark_master import checked_master

if TYPE_CHECKING:
    from highwater.bench.workload.specification import Specification
    from highwater.results.calibration import Calibration
    from highwater.results.storage import TargetProbe

Value = TypeVar("Value")
Trials = Annotated[int | None, typer.Option(min=1, max=1000, help="Trials of each cell; overrides the file.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed for order and payload; overrides the file.")]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH", help="Storage target, used unless the matrix chooses another one; may be repeated."
    ),
]
CalibrationFile = Annotated[
    Path | None, typer.Option("--calibration", metavar="FILE", help="Output of bench calibrate on this host.")
]
Launcher = Annotated[LauncherKind, typer.Option(help="Start the load with Spark, or with plain processes.")]
SparkMaster = Annotated[
    str | None, typer.Option(metavar="URL", help="Spark master; default: local[*].", callback=checked_master)
]
EngineMaster = Annotated[
    str, typer.Option("--master", metavar="URL", help="Spark master, for --engine spark.", callback=checked_master)
]
SparkConf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Spark configuration; may be repeated.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the outcome, in one line.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


def specification_of(
    file: Path | None,
    trials: int | None = None,
    payload_file: Path | None = None,
    storage: list[str] | None = None,
    bootstrap_servers: str | None = None,
    command_config: Path | None = None,
    objectives: dict[str, str] | None = None,
    *,
    load: Mapping[str, str] | None = None,
    resume: Path | None = None,
) -> Specification:
    """The workload of a command line. load: the options of a load in one line; resume: the run to continue.

    Without a file, the load in one line is the workload, or else the one that the continued run was given in one line.
    Raises UsageError.
    """
    from highwater.bench.workload import one_line
    from highwater.bench.workload.layers import read_with_includes
    from highwater.bench.workload.specification import specification_of_document
    from highwater.common.errors import UsageError
    from highwater.results.files import WORKLOAD_FILE

    load = load or {}
    if file is None and resume is not None and not load and (resume / WORKLOAD_FILE).is_file():
        file = resume / WORKLOAD_FILE
    if file is None and resume is not None and not load:
        if not resume.exists():
            raise UsageError(f"--resume {resume}: there is no such directory; begin a run with --out {resume}")
        raise UsageError(f"name the workload FILE that {resume} was started with")
    document = one_line.default_document(load) if file is None else read_with_includes(file)
    overrides = one_line.overrides_of(load, document)
    if file is None and payload_file is not None and "--size" not in load:
        overrides["records", "size"] = (None, "--payload-file")
    if trials is not None:
        overrides["trials", "n"] = (trials, "--trials")
    if payload_file is not None:
        overrides["records", "payload_file"] = (str(payload_file.absolute()), "--payload-file")
        overrides["records", "compress_ratio"] = (None, "--payload-file")
    for name, path in pairs_of(storage, "--storage").items():
        overrides["storage", "targets", name] = ({"path": path}, "--storage")
        overrides["storage", "target"] = (name, "--storage")
    if bootstrap_servers is not None:
        overrides["system", "kind"] = ("external", "--bootstrap-servers")
        overrides["system", "bootstrap_servers"] = (bootstrap_servers, "--bootstrap-servers")
        # The workload's login is for the workload's own cluster only.
        overrides["system", "command_config"] = (None, "--bootstrap-servers")
    if command_config is not None:
        overrides["system", "command_config"] = (str(command_config.absolute()), "--command-config")
    for metric, bound in (objectives or {}).items():
        overrides["slo", metric] = (bound, "--slo")
    specification = specification_of_document(document, file or Path(WORKLOAD_FILE), overrides)
    return specification if file is not None else replace(specification, text=one_line.as_text(document))


def calibration_of(file: Path | None) -> Calibration | None:
    from highwater.bench.trials.given_calibration import load_calibration

    return None if file is None else load_calibration(file)


def probes_of(file: Path | None, specification: Specification) -> Sequence[TargetProbe]:
    from highwater.bench.storage.given_probes import load_probes

    return () if file is None else load_probes(file, specification.workload.system.clusters)


def pairs_of(options: list[str] | None, name: str) -> dict[str, str]:
    from highwater.common.errors import UsageError

    pairs = {}
    for option in options or []:
        key, equals, value = option.partition("=")
        if not (key and equals and value):
            given = "(a secret)" if has_secret_word(option) else repr(option)
            raise UsageError(f"{name}: {given} is not of the form NAME=VALUE")
        pairs[key] = value
    return pairs


def parsed(option: str, parse: Callable[[str], Value], text: str) -> Value:
    """Parse the value of an option. Raises UsageError, which names the option."""
    from highwater.common.errors import UsageError

    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End with one line for an expected error, and the exit code of its kind."""
    from highwater.common.command_errors import errors_in_one_line, fail
    from highwater.common.errors import NotComparableError, StoppedError, UsageError, is_full, text_of
    from highwater.common.exit_codes import EXIT_ENVIRONMENT, EXIT_INVALID, EXIT_USAGE
    from highwater.results.files import ResultDirectoryError
    from highwater.spark_loadgen.errors import LoadSetupError

    mistakes: dict[type[Exception], int] = dict.fromkeys((UsageError, ResultDirectoryError, LoadSetupError), EXIT_USAGE)
    with errors_in_one_line(mistakes | {NotComparableError: EXIT_ENVIRONMENT}, interrupted="interrupted"):
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            fail(text_of(error), EXIT_INVALID if is_full(error) else EXIT_USAGE)
        except StoppedError:
            raise KeyboardInterrupt from None
