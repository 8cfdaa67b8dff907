"""The trials as CSV (RFC 4180); an empty field where a trial has no such figure."""

from __future__ import annotations

from highwater.bench.exports import ExportedFile, text_file
from highwater.bench.exports.trials import columns, rows
from highwater.common.csv_text import csv_text
from highwater.results.reader import RunResult


def export(result: RunResult) -> list[ExportedFile]:
    return [text_file(csv_text(columns(result), rows(result), "\r\n"))]
