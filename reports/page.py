"""One self-contained HTML page from one result directory. The same directory always gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bench.results import ResultDirectoryError, RunResult
from reports import settings
from reports.cells import Run
from reports.figures import load_figures, spectrum_figures
from reports.findings import caution, findings
from reports.overview import overview
from reports.svg import readable
from reports.timelines import host_figures, timeline_figures
from reports.verdict import overall

_ASSETS: Final = Path(__file__).parent


def render(result: RunResult) -> str:
    """The whole page. Raises ResultDirectoryError when a file of the directory is missing or damaged."""
    for trial in result.trials:
        if not any(phase.name == "measure" for phase in trial.summary.phases):
            raise ResultDirectoryError(f"{trial.directory}: its summary names no measured phase, so it cannot be shown")
    run = Run.of(result)
    style, script = _asset("report.css"), _asset("report.js")
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FileSystemLoader(_ASSETS),
        finalize=lambda value: readable(value) if type(value) is str else value,
    )
    return environment.get_template("report.html.j2").render(
        # Only this very script and this very style may run, whatever a name in the results tries to smuggle in.
        content_security_policy=(
            f"default-src 'none'; script-src '{_csp_hash(script)}'; style-src '{_csp_hash(style)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        style=Markup(style),
        script=Markup(script),
        manifest=result.manifest,
        run=run,
        overall=overall(run),
        findings=findings(run),
        caution=caution(run),
        overview=overview(run),
        chart_groups=[
            ("Throughput and latency", load_figures(run)),
            ("Latency by percentile", spectrum_figures(run)),
            ("Over time", timeline_figures(run)),
            ("The host meanwhile", host_figures(run)),
        ],
        trial_columns=settings.TRIAL_COLUMNS,
        trial_rows=settings.trial_rows(run),
        workload=settings.workload_text(result.manifest.workload),
        how=settings.how_compared(run),
        systems=settings.system_sections(run),
        environment=settings.environment_sections(result),
        tuning=settings.tuning_rows(result),
        command=settings.command_to_repeat(result),
        checksums=settings.checksums(result),
    )


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
