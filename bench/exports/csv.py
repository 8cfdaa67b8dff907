"""The trials as CSV (RFC 4180); an empty field where a trial has no such figure."""

from __future__ import annotations

import csv
import io

from highwater.bench.exports import ExportedFile, text_file
from highwater.bench.exports.trials import columns, rows
from highwater.bench.results import RunResult


def export(result: RunResult) -> list[ExportedFile]:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(result), lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows(result))
    return [text_file(text.getvalue())]
