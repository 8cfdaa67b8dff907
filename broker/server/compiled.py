"""Names the modules of the broker that a build may compile, and says which of them run compiled.

They are what a Produce and a Fetch run through. `setup.py` reads this list, so it needs the standard library alone.
Without a compiler the same files run as Python (docs/compiled.md).
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Final

MODULES: Final = (
    "highwater.broker.counters",
    "highwater.broker.handlers.dispatch",
    "highwater.broker.handlers.fetch",
    "highwater.broker.handlers.fetch_reads",
    "highwater.broker.handlers.produce",
    "highwater.broker.handlers.shared.reply",
    "highwater.broker.log.offset_index",
    "highwater.broker.log.partition_log",
    "highwater.broker.log.producer_state",
    "highwater.broker.log.segment",
    "highwater.broker.log.segment_file",
    "highwater.broker.log.segment_indexes",
    "highwater.broker.log.time_index",
    "highwater.broker.replica.alone",
    "highwater.broker.replica.partition",
    "highwater.broker.replica.readable_bytes",
    "highwater.broker.server.connection",
    "highwater.kafka.protocol.fetch",
    "highwater.kafka.protocol.frame",
    "highwater.kafka.protocol.primitives",
    "highwater.kafka.protocol.produce",
    "highwater.kafka.records.batch",
)


def compiled_modules() -> list[str]:
    """Those of MODULES that an import finds as machine code."""
    found = ((name, find_spec(name)) for name in MODULES)
    return [name for name, spec in found if spec is not None and is_machine_code(spec.origin)]


def is_machine_code(path: str | None) -> bool:
    return path is not None and path.endswith(tuple(EXTENSION_SUFFIXES))


def which_runs() -> str:
    """One line for the log of a broker."""
    count = len(compiled_modules())
    if count == 0:
        return "the hot modules run as Python"
    if count == len(MODULES):
        return f"the {count} hot modules run compiled"
    return f"{count} of the {len(MODULES)} hot modules run compiled, the others as Python"
