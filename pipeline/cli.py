"""The commands `highwater pipeline …`; what they need is imported when they run."""

from __future__ import annotations

import typer

from highwater.pipeline.drill.command import run_drill
from highwater.pipeline.environment.command import environment
from highwater.pipeline.run.command import run

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Streams over topics, on Spark.\n\n"
    "Exit codes: 0 done; 2 bad input or set-up; 3 records are gone that were to be read; 5 failed; 130 interrupted. "
    "Of a drill also: 4 not proven; 10 records were lost or are there twice.",
)


app.command()(run)
app.command("drill")(run_drill)
app.command()(environment)
