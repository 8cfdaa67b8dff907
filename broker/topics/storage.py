"""The log directories of a broker, and the duties that their owner has for its parts.

The server does these duties with threads, the simulation and the tests in their own ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from highwater.broker.log.files import FilePiece
from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.replica.partition import Partition
from highwater.broker.slices import RunAside

BringIntoCache = Callable[[Sequence[FilePiece], Callable[[OSError | None], None]], None]
"""Read pieces of files into the page cache off the event loop; the callback comes later, with the first failure if any.

A file that is gone is no failure: whoever asked has to look again what there is to read.
"""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Storage:
    log_directories: LogDirectories
    request_flush: Callable[[Partition], None]
    """Have the log of a partition flushed soon."""
    storage_failed: Callable[[OSError, Partition], None]
    """Report that the log directory of a partition cannot be relied on any more."""
    request_checkpoint: Callable[[Callable[[OSError | None], None]], None]
    """Have the checkpoints of the logs written soon; the callback gets the failure, if any."""
    run_aside: RunAside | None = None
    """Do in a thread what waits for the disk; None where that is done in the event loop."""
    bring_into_cache: BringIntoCache | None = None
    """None where fetches read what is not in the page cache like everything else."""
