"""What fio measured on the hosts of clusters elsewhere, before the run and not by it.

A JSON file: {cluster: {host: PROBE}}, where PROBE is the output of `highwater bench storage probe DIR --json` on that
host.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from highwater.common.errors import UsageError
from highwater.results.storage import TargetProbe

_FILE: Final = TypeAdapter(dict[str, dict[str, TargetProbe]])


def load_probes(file: Path, clusters: Collection[str]) -> list[TargetProbe]:
    """Probes of targets with the clusters' names. Raises UsageError for an invalid file or an unknown cluster."""
    try:
        given = _FILE.validate_json(file.read_bytes())
    except OSError as error:
        raise UsageError(f"--probes: cannot read {file}: {error.strerror or error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UsageError(f"--probes: {file}: {where}: {first['msg']}; it holds {{cluster: {{host: PROBE}}}}") from None
    for name in given:
        if name not in clusters:
            known = ", ".join(clusters) or "none"
            raise UsageError(f"--probes: {file}: {name!r} is not one of the workload's clusters ({known})")
    return [
        probe.model_copy(
            update={"target": probe.target.model_copy(update={"name": name}), "host": host, "moment": "before"}
        )
        for name, probes in given.items()
        for host, probe in probes.items()
    ]
