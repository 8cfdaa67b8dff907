"""Writes one result directory."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from highwater.common.atomic_files import write_atomically
from highwater.results.analysis_file import Analysis, Search
from highwater.results.calibration import CALIBRATION_FILE, Calibration
from highwater.results.files import CLUSTER_HOSTS, WORKLOAD_FILE, ResultDirectoryError, dump, is_trial_id
from highwater.results.host import HostSample
from highwater.results.models import Environment, EventLine, Manifest, PartitionLine, TrialSummary, Window
from highwater.results.storage import StorageProbes

_FILES_OF_A_RUN: Final = (
    "manifest.json",
    "env.json",
    "probes.json",
    "analysis.json",
    "search.json",
    CALIBRATION_FILE,
    WORKLOAD_FILE,
    "checksums.sha256",
)


def _cannot_make(directory: Path, error: OSError) -> ResultDirectoryError:
    return ResultDirectoryError(
        f"cannot make the result directory {directory}: {error.strerror or error}; name another with --out"
    )


class ResultWriter:
    """Writes one result directory. Single files appear whole or not at all, so an interrupted run stays readable."""

    def __init__(self, directory: Path) -> None:
        """Create `directory`. Raises ResultDirectoryError when it is not empty or cannot be created."""
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_make(directory, error) from error
        self.check(directory)

    @staticmethod
    def check(directory: Path) -> None:
        """Check, and create nothing. Raises ResultDirectoryError when it is not empty or cannot be created."""
        parent = next(path for path in (directory, *directory.absolute().parents) if path.exists())
        if not parent.is_dir():
            raise _cannot_make(directory, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
        if not os.access(parent, os.W_OK | os.X_OK):
            raise _cannot_make(directory, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        if directory.is_dir() and any(directory.iterdir()):
            raise ResultDirectoryError(
                f"{directory} is not empty; name a new directory with --out"
                + (", or go on with what is there: --resume DIR" if (directory / "manifest.json").is_file() else "")
            )

    @classmethod
    def reopen(cls, directory: Path) -> ResultWriter:
        """A writer for the directory of an earlier run, whose manifest the caller has read."""
        writer = cls.__new__(cls)
        writer.directory = directory
        return writer

    def discard(self) -> None:
        """Remove all that was written, because the run failed early: the next try can then use the directory."""
        shutil.rmtree(self.directory / "trials", ignore_errors=True)
        for name in _FILES_OF_A_RUN:
            (self.directory / name).unlink(missing_ok=True)

    def forget_digests(self) -> None:
        """Remove the digests of a run that goes on: its files change, and it may be killed."""
        (self.directory / "checksums.sha256").unlink(missing_ok=True)

    def remove_if_empty(self) -> None:
        """Remove the empty directory of a run that could not start."""
        if not any(self.directory.iterdir()):
            self.directory.rmdir()

    def write_manifest(self, manifest: Manifest) -> None:
        write_atomically(self.directory / "manifest.json", dump(manifest))

    def write_workload(self, text: str) -> Path:
        """Write the workload file of a run that was given its load in one line; returns its path."""
        path = self.directory / WORKLOAD_FILE
        write_atomically(path, text)
        return path

    def write_environment(self, environment: Environment) -> None:
        write_atomically(self.directory / "env.json", dump(environment))

    def write_calibration(self, calibration: Calibration) -> None:
        write_atomically(self.directory / CALIBRATION_FILE, dump(calibration))

    def write_probes(self, probes: StorageProbes) -> None:
        write_atomically(self.directory / "probes.json", dump(probes))

    def write_analysis(self, analysis: Analysis) -> None:
        write_atomically(self.directory / "analysis.json", dump(analysis))

    def write_search(self, search: Search) -> None:
        write_atomically(self.directory / "search.json", dump(search))

    def clear_trial(self, trial_id: str) -> None:
        """Remove the files of an interrupted trial before it runs again."""
        shutil.rmtree(self.directory / "trials" / trial_id, ignore_errors=True)

    def keep_replaced(self, trial_id: str, kept_in: str) -> None:
        """Move the files of a trial that is measured again, unless that was done before the run was killed."""
        kept = self.directory / kept_in
        if kept.is_dir():
            return
        kept.parent.mkdir(exist_ok=True)
        folder = self.trial_directory(trial_id)
        folder.rename(kept)

    def has_summary(self, trial_id: str) -> bool:
        """Whether the trial is complete."""
        return (self.directory / "trials" / trial_id / "summary.json").is_file()

    def trial_directory(self, trial_id: str) -> Path:
        """The folder of one trial, created on first use (with its `hist/`)."""
        if not is_trial_id(trial_id):
            raise ValueError(f"trial id {trial_id!r} does not suit a folder name")
        path = self.directory / "trials" / trial_id
        (path / "hist").mkdir(parents=True, exist_ok=True)
        return path

    def write_series(
        self,
        trial_id: str,
        windows: Iterable[Window],
        host_samples: Iterable[HostSample],
        cluster_samples: Mapping[str, Iterable[HostSample]] | None = None,
    ) -> None:
        """Write the series per second; an interrupted trial has these and no summary.

        cluster_samples: of the hosts of an external cluster, by their names.
        """
        path = self.trial_directory(trial_id)
        write_atomically(path / "windows.jsonl", "".join(w.model_dump_json() + "\n" for w in windows))
        write_atomically(path / "host.jsonl", "".join(s.model_dump_json() + "\n" for s in host_samples))
        for name, samples in (cluster_samples or {}).items():
            (path / CLUSTER_HOSTS).mkdir(exist_ok=True)
            write_atomically(
                path / CLUSTER_HOSTS / f"{name}.jsonl", "".join(s.model_dump_json() + "\n" for s in samples)
            )

    def write_trial(
        self,
        summary: TrialSummary,
        windows: Iterable[Window],
        host_samples: Iterable[HostSample],
        partitions: Iterable[PartitionLine] = (),
        events: Iterable[EventLine] = (),
        cluster_samples: Mapping[str, Iterable[HostSample]] | None = None,
    ) -> None:
        """Write one finished trial. summary.json is written last, so its presence means that the trial is complete."""
        self.write_series(summary.trial_id, windows, host_samples, cluster_samples)
        path = self.trial_directory(summary.trial_id)
        write_atomically(path / "partitions.jsonl", "".join(p.model_dump_json() + "\n" for p in partitions))
        write_atomically(path / "events.jsonl", "".join(e.model_dump_json() + "\n" for e in events))
        write_atomically(path / "verdict.json", dump(summary.verdict))
        write_atomically(path / "summary.json", dump(summary))
