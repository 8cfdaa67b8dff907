"""The errors of a drill."""

from __future__ import annotations

from highwater.pipeline.errors import PipelineError


class DrillSetupError(PipelineError):
    """The drill was asked for something that cannot work; nothing was run."""


class DrillError(PipelineError):
    """The drill cannot go on, and this is no verdict on the pipeline."""
