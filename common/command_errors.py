"""How every command ends: an error is one line on standard error with the way out, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from .exit_codes import EXIT_INTERRUPTED, EXIT_USAGE
from .log_lines import one_line


def report_error(text: str) -> None:
    """Print `error: TEXT` in one line on standard error."""
    _say(f"error: {text}")


def fail(text: object, exit_code: int = EXIT_USAGE) -> NoReturn:
    """End the command with an error in one line."""
    report_error(str(text))
    raise SystemExit(exit_code) from None


@contextmanager
def errors_in_one_line(
    exit_codes: Mapping[type[Exception], int],
    text_of: Callable[[Exception], str] = str,
    interrupted: str = "",
) -> Iterator[None]:
    """End the command with one line for an error of `exit_codes`; the first class that fits decides.

    interrupted: the line for Ctrl-C; none if it is empty.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the output. Python flushes standard output once more at exit, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except tuple(exit_codes) as error:
        fail(text_of(error), next(code for kind, code in exit_codes.items() if isinstance(error, kind)))
    except KeyboardInterrupt:
        if interrupted:
            _say(interrupted)
        raise SystemExit(EXIT_INTERRUPTED) from None


def _say(text: str) -> None:
    sys.stderr.write(f"{one_line(text)}\n")
    sys.stderr.flush()
