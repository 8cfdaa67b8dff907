"""The folders of finished batches: what a sink has stored in them, and their files for readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from highwater.common.nearest import did_you_mean
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.progress.batch import Progress, ProgressError, progress_from_json, progress_to_json

SUCCESS: Final = "_SUCCESS"
_CODECS: Final = ("zstd", "snappy", "gzip", "lz4", "brotli", "none")
DEFAULT_CODEC: Final = _CODECS[0]
_QUERY: Final = "query="
_BATCH: Final = "batch="


def check_folder(directory: str | Path) -> Path:
    """The folder of a sink as a path. Raises SettingsError for a place that is no folder of a file system."""
    text = str(directory).removeprefix("file://").removeprefix("file:")
    if "://" in text:
        raise SettingsError(
            f"{text}: the sink renames folders, which object stores and HDFS are not asked to do here: "
            "write to a file system that driver and executors share"
        )
    return Path(text).absolute()


def check_codec(compression: str) -> None:
    """Raises SettingsError for a codec that the sink does not know."""
    if compression not in _CODECS:
        raise SettingsError(
            f"compression={compression} is not known{did_you_mean(compression, _CODECS)}; {', '.join(_CODECS)} are"
        )


def batch_folder(directory: Path, query_id: str, batch_id: int) -> Path:
    """The query's id keeps the batches of an earlier checkpoint apart: each checkpoint counts from 0."""
    return directory / f"{_QUERY}{query_id}" / f"{_BATCH}{batch_id}"


def finished_files(directory: str | Path) -> list[str]:
    """The Parquet files of all finished batches, in the order in which they were written.

    For `pyarrow.dataset.dataset(files)`, `spark.read.parquet(*files)` and DuckDB's `read_parquet(files)`. Raises
    SettingsError if there is no such folder, ProgressError for a batch whose `_SUCCESS` is damaged.
    """
    root = Path(directory)
    if not root.is_dir():
        raise SettingsError(f"{root}: there is no such folder")
    folders = sorted((_success(folder)["sequence"], folder) for folder in _folders(root))
    return [str(path) for _, folder in folders for path in sorted(folder.glob("*.parquet"))]


def last_stored(directory: Path) -> Progress | None:
    """The progress of the batch that was written last; None if there is none. Raises ProgressError."""
    found = _last(directory)
    return None if found is None else progress_from_json(found)


def success_text(directory: Path, progress: Progress) -> str:
    """What `_SUCCESS` of the next batch says."""
    last = _last(directory)
    sequence = 0 if last is None else last["sequence"] + 1
    return json.dumps({"sequence": sequence, **progress_to_json(progress)}) + "\n"


def _last(directory: Path) -> dict[str, Any] | None:
    """The newest batch of all queries: it is the last batch of its query."""
    last_of: dict[Path, tuple[int, Path]] = {}
    for folder in _folders(directory):
        last_of[folder.parent] = max(last_of.get(folder.parent, (-1, folder)), (_batch_id(folder), folder))
    return max((_success(folder) for _, folder in last_of.values()), key=lambda each: each["sequence"], default=None)


def _folders(directory: Path) -> list[Path]:
    return [
        folder
        for query in directory.glob(f"{_QUERY}*")
        for folder in query.glob(f"{_BATCH}*")
        if folder.name.removeprefix(_BATCH).isdecimal() and (folder / SUCCESS).is_file()
    ]


def _batch_id(folder: Path) -> int:
    return int(folder.name.removeprefix(_BATCH))


def _success(folder: Path) -> dict[str, Any]:
    path = folder / SUCCESS
    try:
        found = json.loads(path.read_text("utf-8"))
        if not isinstance(found["sequence"], int):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        raise ProgressError(f"{path} is damaged: no sink wrote it so") from None
    return dict(found)
