"""Pages of metrics of several processes as one page, in which every sample says whose it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SAMPLE: Final = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(\{(.*)\})? (.*)")


def merged(pages: Mapping[int, str]) -> str:
    """Pages in the text format of Prometheus, by process; each sample gets the label `process`.

    All samples of a family stand together, behind its HELP and TYPE, as the format demands.
    """
    families: dict[str, tuple[list[str], list[str]]] = {}
    for process, page in pages.items():
        family = ""
        for line in page.splitlines():
            if line.startswith("# "):
                _, kind, family, *_ = line.split(" ", 3)
                heads, _ = families.setdefault(family, ([], []))
                if not any(head.startswith(f"# {kind} ") for head in heads):
                    heads.append(line)
            elif (found := _SAMPLE.fullmatch(line)) is not None:
                labels = f'process="{process}"' + (f",{found[3]}" if found[3] else "")
                _, samples = families.setdefault(family or found[1], ([], []))
                samples.append(f"{found[1]}{{{labels}}} {found[4]}")
    lines = [line for heads, samples in families.values() for line in (*heads, *samples)]
    return "".join(f"{line}\n" for line in lines)
