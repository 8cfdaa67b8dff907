"""Writes one self-contained HTML page from one result directory, or from two.

The same input always gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from highwater.common.units import plural
from highwater.drawing.svg import STYLE, readable
from highwater.reports.blocks import Section
from highwater.reports.content import sections
from highwater.reports.facets import FacetKeys
from highwater.reports.moments import minute_text
from highwater.results.reader import RunResult

_ASSETS: Final = Path(__file__).parent
# Between a number and its unit, where large type must not break a line.
_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s\b|[KMGT]?i?B\b|s/))")
# In the name of a metric, where a narrow screen may break it.
_AFTER_DOT: Final = re.compile(r"(?<=[a-z0-9]\.)(?=[a-z])")


@dataclass(frozen=True)
class Document:
    """A report before it is written. `lead`: the sections before the navigation, which answer. `kind`: what it is."""

    title: str
    purpose: str
    meta: str
    sections: Sequence[Section]
    lead: Sequence[Section] = ()
    kind: str = "benchmark report"


def run_document(result: RunResult, facets: FacetKeys | None = None) -> Document:
    """Raises ResultDirectoryError and UnknownFactorError, as `content.sections` does."""
    manifest = result.manifest
    cells = len({plan.cell for plan in manifest.trials})
    trials = len([plan for plan in manifest.trials if plan.role == "measure"])
    meta = f"{plural(cells, 'cell')}, {plural(trials, 'trial')}, started {minute_text(manifest.created_utc)}"
    lead, rest = sections(result, facets or FacetKeys())
    return Document(manifest.name, manifest.purpose, meta, rest, lead)


def render(document: Document, reload_s: int | None = None) -> str:
    """reload_s: browsers read the page again after so many seconds."""
    script = _asset("report.js")
    template = templates(_ASSETS).get_template("report.html.j2")
    return template.render(
        # Browsers run only this script and this style, even if a name in the results contains markup.
        content_security_policy=(
            f"default-src 'none'; script-src '{csp_hash(script)}'; style-src '{csp_hash(style())}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        style=Markup(style()),
        script=Markup(script),
        document=document,
        reload_s=reload_s,
    )


@cache
def templates(folder: Path) -> Environment:
    """The templates of a folder, which escape all values. Each is compiled once."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FileSystemLoader(folder),
        finalize=lambda value: readable(value) if type(value) is str else value,
    )
    environment.filters["unbroken"] = lambda text: _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)
    environment.filters["breakable"] = lambda text: Markup("<wbr>").join(_AFTER_DOT.split(readable(text)))
    return environment


def style() -> str:
    """The look of the pages of this room."""
    return STYLE.read_text("utf-8") + _asset("report.css")


def csp_hash(text: str) -> str:
    """A text as a Content-Security-Policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")
