"""What a matrix keeps beside its runs: the study, its disks and its rounds (`matrix.json`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from highwater.bench.matrix.study import Study
from highwater.bench.prove.subjects import Subject
from highwater.common.atomic_files import write_atomically
from highwater.common.errors import UsageError
from highwater.results.base import Model
from highwater.results.files import ResultDirectoryError, dump, parse
from highwater.results.reader import RunResult

MATRIX_FILE: Final = "matrix.json"
Stage = Literal["first", "confirming"]


class StoredSetting(Model):
    """A setting of a round with its values. `off` and `on` are variants of a confirming run, and empty in a first."""

    setting: str
    off_text: str
    on_text: str
    off: str = ""
    on: str = ""

    @classmethod
    def of(cls, setting: str, subject: Subject, off: str = "", on: str = "") -> StoredSetting:
        changes = subject.changes
        return cls(
            setting=setting,
            off_text=", ".join(change.off_text for change in changes),
            on_text=", ".join(change.on_text for change in changes),
            off=off,
            on=on,
        )


class StoredRound(Model):
    """One run under one load, on one disk: the first look at all settings, or a confirming one at a few."""

    disk: str
    load: str
    stage: Stage
    number: int
    seed: int
    settings: list[StoredSetting]
    rows: dict[str, list[str]] = Field(
        default={}, description="of a first look: variant of the run to the settings and dummies that are on in it"
    )

    @property
    def place(self) -> tuple[str, str, Stage]:
        return self.disk, self.load, self.stage

    @property
    def folder(self) -> str:
        return f"{self.disk}/{self.load}/{self.stage}-{self.number}"


class StoredDisk(Model):
    storage: str = Field(description="device, medium and file system, in words")
    cannot: dict[str, str] = Field(description="settings that cannot be set there, with the reason")
    complete: bool = False


class Matrix(Model):
    schema_: Literal["bench.matrix-results/2"] = Field(default="bench.matrix-results/2", alias="schema")
    study: dict[str, Any]
    quick: bool = Field(description="first looks alone: nothing is measured a second time")
    host: str
    data_dir: str
    seed: int
    created_utc: str
    disks: dict[str, StoredDisk] = Field(default={})
    rounds: list[StoredRound] = Field(default=[])

    @property
    def questions(self) -> Study:
        return Study.model_validate(self.study)


def holds_matrix(directory: Path) -> bool:
    return (directory / MATRIX_FILE).is_file()


def read_matrix(directory: Path) -> Matrix:
    """Raises UsageError when the file is missing or damaged."""
    path = directory / MATRIX_FILE
    try:
        return parse(Matrix, path.read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError, ResultDirectoryError) as error:
        raise UsageError(f"{path} cannot be read ({error}); begin a matrix anew with another --out") from None


def write_matrix(directory: Path, matrix: Matrix) -> None:
    write_atomically(directory / MATRIX_FILE, dump(matrix))


def finished(directory: Path, item: StoredRound) -> RunResult | None:
    """The run of a round; None until it is complete."""
    if not (directory / item.folder / "manifest.json").is_file():
        return None
    result = RunResult(directory / item.folder)
    return result if result.manifest.status == "done" else None
