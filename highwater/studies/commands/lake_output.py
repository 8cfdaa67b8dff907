"""What `bench lake query` prints: the answer and its rows, and the list of questions."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from highwater.bench.display.wrapping import wrapped
from highwater.common.csv_text import csv_text
from highwater.common.figure_table import FigureTable
from highwater.studies.lake.answers import UNIT, cell_text
from highwater.studies.lake.asking import Answer
from highwater.studies.lake.functions import FUNCTIONS
from highwater.studies.lake.questions import questions
from highwater.studies.lake.tables import SCHEMAS


def text_of(answer: Answer, format_: str) -> str:
    """The answer as `table`, `json` or `csv`."""
    match format_:
        case "json":
            found = {
                "question": answer.question.name,
                "title": answer.question.title,
                "parameters": dict(answer.parameters),
                "answer": answer.sentence,
                "columns": answer.columns,
                "rows": answer.rows,
            }
            return json.dumps(found, indent=2, ensure_ascii=False, default=str) + "\n"
        case "csv":
            return csv_text(answer.columns, answer.rows)
    return _table_text(answer)


def _table_text(answer: Answer) -> str:
    console = Console(highlight=False, file=io.StringIO(), force_terminal=False)
    shown = [name for name in answer.columns if not (name == UNIT or name.endswith("_json"))]
    texts = {name: [cell_text(row, name) for row in answer.rows] for name in shown}
    # What all rows have in common stands once, above them.
    common = [name for name in shown if len(answer.rows) > 1 and len(set(texts[name])) == 1]
    table = FigureTable(gap=2)
    for name in (name for name in shown if name not in common):
        numbers = any(isinstance(row[name], int | float) for row in answer.rows)
        (table.add_figures if numbers else table.add_names)(escape(name))
    for cells in zip(*(texts[name] for name in shown if name not in common), strict=True):
        table.add_row(*map(Text, cells))
    with console.capture() as printed:
        console.print(wrapped(answer.sentence, console.width), soft_wrap=True, markup=False)
        if common:
            about = ", ".join(f"{name} {texts[name][0]}" for name in common)
            console.print(wrapped(f"in all rows: {about}", console.width), soft_wrap=True, markup=False)
        if table.columns and answer.rows:
            table.print_to(console)
    return printed.get()


def catalogue() -> str:
    """Every question with its parameters, the tables, and the functions beside those of SQL."""
    return "\n".join(_catalogue())


def _catalogue() -> Iterator[str]:
    for question in questions().values():
        yield f"{question.name:<4} {question.title}"
        for parameter in question.parameters:
            default = "must be given" if parameter.default is None else f"default: {parameter.default}"
            yield f"       --param {parameter.name}=…  {parameter.meaning} ({default})"
    yield "tables (--sql):"
    yield from (f"  {name}: {', '.join(schema.names)}" for name, schema in SCHEMAS.items())
    yield "functions beside those of SQL:"
    yield from (f"  {function.meaning}" for function in FUNCTIONS)
