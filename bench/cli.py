"""`highwater bench …` and `highwater plan`: mounts the verbs of `highwater.bench.commands`."""

from __future__ import annotations

import typer

from highwater.bench.commands import (
    calibrate,
    capacity,
    ceilings,
    compare,
    env,
    export,
    gate,
    history,
    host,
    import_omb,
    inspect,
    lake,
    run,
    search,
    storage,
    telemetry,
)

app = typer.Typer(
    no_args_is_help=True,
    help="Measure a broker with load from Spark executors.\n\n"
    "Exit codes: 0 all well; 2 bad input or set-up; 3 the system failed or lost data; 4 a measurement is not valid; "
    "5 environments are not comparable; 10 a regression; 11 inconclusive (with --strict); "
    "12 an objective was missed; "
    "130 interrupted, with what was measured so far kept.",
)
for verb in (
    run.run,
    run.plan,
    search.search,
    inspect.schema,
    inspect.metrics,
    inspect.verify,
    compare.compare,
    export.export,
    gate.gate,
    calibrate.calibrate,
    ceilings.ceilings,
):
    app.command()(verb)
app.add_typer(import_omb.app, name="import")
app.add_typer(storage.app, name="storage")
app.add_typer(host.app, name="host")
app.add_typer(env.app, name="env")
app.add_typer(history.app, name="history")
app.add_typer(lake.app, name="lake")
app.add_typer(telemetry.app, name="telemetry")

plan = capacity.plan
