"""The errors of sinks, and how one line is found in what Spark reports of a task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from highwater.pipeline.errors import WAY_OUT, DataLossError, PipelineError

_OURS: Final = re.compile(r"(?<![\w.])highwater\.pipeline\.[\w.]*\b([A-Z]\w*Error): (.+)")
_LOST: Final = re.compile(
    r"Python worker exited unexpectedly|ExecutorLostFailure|FetchFailed|Python worker failed to connect back"
    r"|[Ee]xecutor heartbeat timed out|Remote RPC client disassociated"
)


class SinkError(PipelineError):
    """A micro-batch was not written; its transaction, if one was open, is aborted."""


class TaskLostError(SinkError):
    """A task did not end, or would have written a second time: the whole batch can be tried again."""


@contextmanager
def errors_of_job() -> Iterator[None]:
    """Around a Spark job: raises what `of_job` makes of its error."""
    try:
        yield
    except Exception as error:
        ours = of_job(error)
        if ours is error:
            raise
        raise ours from None


def of_job(error: Exception) -> Exception:
    """The error of a Spark job as one line if it is one of ours or a lost task; otherwise the error itself."""
    text = str(error)
    if ours := _OURS.search(text):
        # The source reads in the tasks of the sink's job: what it has lost is no failure of the sink.
        if ours[1] == DataLossError.__name__:
            return DataLossError(ours[2].strip().removesuffix(WAY_OUT))
        kind = TaskLostError if ours[1] == TaskLostError.__name__ else SinkError
        return kind(ours[2].strip())
    if lost := _LOST.search(text):
        return TaskLostError(f"a task was lost: {lost[0]}")
    return error
