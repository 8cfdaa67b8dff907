"""The exceptions that a caller of the load generator may have to catch."""

from __future__ import annotations


class LoadSetupError(Exception):
    """The load cannot start as planned. The text is one line that names the cause and the remedy."""


class LoadFailed(Exception):  # noqa: N818 - an outcome, not a mistake of the caller's
    """The load broke while it ran. The text is one line."""
