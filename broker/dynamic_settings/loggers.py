"""Levels of the loggers of this process, in Kafka's words: set while it runs, and not stored."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.dynamic_settings.altering import AlterConfigOp, Operation
from highwater.kafka.protocol.problem import Problem

_logger = logging.getLogger(__name__)

_ROOT: Final = "root"
_LEVELS: Final[Mapping[str, int]] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG // 2,
}
"""The order is from the fewest lines to the most."""


def levels() -> dict[str, str]:
    """Return the level of each logger that there is; one without a level of its own has that of the logger above it."""
    return {name: _word(logging.getLogger(name)) for name in [_ROOT, *sorted(logging.root.manager.loggerDict)]}


def _word(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return next((word for word, number in _LEVELS.items() if number <= level), "TRACE")


def alter(changes: Sequence[AlterConfigOp], *, validate_only: bool) -> Problem | None:
    """Set or remove levels, all or none; or return why not, as Kafka's RuntimeLoggerManager does."""
    for change in changes:
        problem = _refusal(change)
        if problem is not None:
            return problem
    for name, operation, value in () if validate_only else changes:
        level = logging.NOTSET if operation == Operation.DELETE else _LEVELS[str(value)]
        logging.getLogger(name).setLevel(level)
        _logger.warning("the level of the logger %s is %s now", name, _word(logging.getLogger(name)))
    return None


def _refusal(change: AlterConfigOp) -> Problem | None:
    name, operation, value = change
    if operation not in (Operation.SET, Operation.DELETE):
        known = operation in tuple(Operation)
        what = f"{Operation(operation).name} operation" if known else f"Unknown operation type {operation}"
        return Problem(ErrorCode.invalid_request, f"{what} is not allowed for the BROKER_LOGGER resource")
    if name != _ROOT and name not in logging.root.manager.loggerDict:
        return Problem(ErrorCode.invalid_config, f"Logger {name} does not exist!")
    if operation == Operation.DELETE:
        if name == _ROOT:
            reason = f"Removing the log level of the {_ROOT} logger is not allowed"
            return Problem(ErrorCode.invalid_request, reason)
    elif value not in _LEVELS:
        return Problem(
            ErrorCode.invalid_config,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. Valid log levels are "
            f"{', '.join(sorted(_LEVELS))}",
        )
    return None
