"""The controller: what one broker of a cluster decides for all; one event after another."""

from __future__ import annotations
