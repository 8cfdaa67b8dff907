"""The commands `highwater pipeline …`, imported when they are called."""

from __future__ import annotations

from typing import Final

from highwater.common.late_commands import Late, late_app

_ROOM: Final = "highwater.pipeline"

app = late_app(
    {
        "run": Late(
            f"{_ROOM}.run.command:run",
            "Run the flows of a pipeline: read topics and files, apply SQL and Python, write to sinks.",
        ),
        "drill": Late(
            f"{_ROOM}.drill.command:run_drill",
            "Check that a pipeline delivers exactly once: kill its parts at named crash points, then count every "
            "record.",
        ),
        "environment": Late(
            f"{_ROOM}.environment.command:environment",
            "Pack what tasks import, for executors that have none of it, without a network.",
        ),
    },
    pretty_exceptions_enable=False,
    help="Streams over topics, on Spark.\n\n"
    "Exit codes: 0 done; 2 usage error; 3 records to be read are gone; 5 failed; 130 interrupted. "
    "For a drill also: 4 not proven; 10 records were lost or duplicated.",
)
