"""A matrix as rows: for the terminal, and as CSV to quote and to compute with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from highwater.bench.matrix.answers import Answer, Effect, Key, Look, State, setting_order
from highwater.bench.matrix.stored import Matrix
from highwater.bench.matrix.study import load_name, name_of
from highwater.common.csv_text import csv_text

MARKS: Final[dict[State, str]] = {
    "better": "✓",
    "worse": "✕",
    "trade": "◆",
    "none": "=",
    "undecided": "?",
    "cannot": "–",
    "missing": "…",
}
MEANINGS: Final[dict[State, str]] = {
    "better": "better",
    "worse": "worse",
    "trade": "one figure better, another worse",
    "none": "no difference above a stated size",
    "undecided": "undecided",
    "cannot": "cannot be set here",
    "missing": "not measured yet",
}
COLUMNS: Final = (
    *("setting", "off", "on", "load", "disk", "answer", "figure", "ratio", "low", "high"),
    *("no_difference_above", "trials", "measured_again", "text"),
)
"""Ratios are on ÷ off. `no_difference_above` is a ratio too: 0.05 is 5 %. The answer `dummy` is of a column of a first
look that no setting has: its ratio is noise."""


def values_of(matrix: Matrix) -> dict[Key, tuple[str, str]]:
    """Cell to the setting's values off and on, as texts."""
    return {
        Key(each.setting, item.load, item.disk): (each.off_text, each.on_text)
        for item in matrix.rounds
        for each in item.settings
    }


def ordered(matrix: Matrix, found: Mapping[Key, Answer]) -> list[Key]:
    """What matters most first, then by disk and load."""
    study = matrix.questions
    order = setting_order(study.settings, found)
    return [Key(setting, load, disk) for setting in order for disk in study.disks for load in study.loads]


def csv_of(matrix: Matrix, found: Mapping[Key, Answer], dummies: Mapping[Key, Look]) -> str:
    values = values_of(matrix)
    rows = [_row(found[key], values.get(key, ("", ""))) for key in ordered(matrix, found)]
    rows += [_dummy_row(key, look.trials, effect) for key, look in dummies.items() for effect in look.effects]
    return csv_text(COLUMNS, rows)


def grid(matrix: Matrix, found: Mapping[Key, Answer]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: a mark for each load, a column for each disk."""
    study = matrix.questions
    header = ["setting", *study.disks]
    rows = []
    for setting in setting_order(study.settings, found):
        marks = [" ".join(MARKS[found[Key(setting, load, disk)].state] for load in study.loads) for disk in study.disks]
        rows.append([name_of(setting), *marks])
    return header, rows


def legend(found: Mapping[Key, Answer]) -> str:
    shown = {answer.state for answer in found.values()}
    return ", ".join(f"{MARKS[state]} {text}" for state, text in MEANINGS.items() if state in shown)


def _row(answer: Answer, values: tuple[str, str]) -> dict[str, object]:
    item = answer.item
    low, high = item.interval if item is not None else ("", "")
    return {
        "setting": name_of(answer.key.setting),
        "off": values[0],
        "on": values[1],
        "load": load_name(answer.key.load),
        "disk": answer.key.disk,
        "answer": answer.state,
        "figure": item.metric if item is not None else "",
        "ratio": item.ratio if item is not None else "",
        "low": low,
        "high": high,
        "no_difference_above": answer.unseen_ratio if answer.unseen_ratio is not None else "",
        "trials": answer.trials,
        "measured_again": "yes" if answer.confirmed else "no",
        "text": answer.text,
    }


def _dummy_row(key: Key, trials: str, effect: Effect) -> dict[str, object]:
    low, high = effect.interval
    return dict.fromkeys(COLUMNS, "") | {
        "setting": key.setting,
        "load": load_name(key.load),
        "disk": key.disk,
        "answer": "dummy",
        "figure": effect.metric,
        "ratio": effect.ratio,
        "low": low,
        "high": high,
        "trials": trials,
        "measured_again": "no",
        "text": effect.text,
    }
