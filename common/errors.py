"""The errors that several rooms turn into complaints of their own."""

from __future__ import annotations


class MissingDependencyError(Exception):
    """This host lacks a program or a package. The text is one line that says how to get it."""
