"""What is wrong with files of a result directory: the first section of the report of a damaged one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.common.units import plural
from highwater.reports.blocks import Column, Field, Paragraph, Section, table
from highwater.results.salvage import FileFault

_TEXT: Final = (
    "These files are damaged, missing, or not as the run left them. What needs a damaged or missing file is left out "
    "of this report. What was computed from a changed file may be wrong. Restore the directory from a copy, or check "
    "it with “highwater bench verify”."
)


def damage_sections(faults: Sequence[FileFault]) -> list[Section]:
    """One section; none for a directory that is whole."""
    if not faults:
        return []
    header = [Column("file", text=True), Column("what is wrong", text=True, prose=True)]
    found = table(header, [[Field(fault.file), Field(fault.what, tone="bad")] for fault in faults], "Damaged files")
    title = f"Damaged directory: {plural(len(faults), 'file')}"
    return [Section("damage", title, [Paragraph(_TEXT, "caution"), found], "bad", nav="Damage")]
