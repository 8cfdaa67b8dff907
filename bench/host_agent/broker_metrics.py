"""Reads a broker's own page of metrics, for the agent that passes its numbers on."""

from __future__ import annotations

import math
import urllib.error
import urllib.request
from typing import Final

TIMEOUT_S: Final = 2.0
_LARGEST_BYTES: Final = 32 << 20
_MOST_SAMPLES: Final = 1_000


class NoMetricsError(Exception):
    """Why there are none, in one sentence."""


def is_page_address(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def read_metrics(url: str) -> dict[str, float]:
    """The samples without labels. Raises NoMetricsError."""
    try:
        # An opener of its own: a proxy in the environment is not for a broker on this host.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            text = answer.read(_LARGEST_BYTES).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        raise NoMetricsError(f"{url} answers {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NoMetricsError(f"{url} does not answer: {getattr(reason, 'strerror', None) or reason}") from None
    return plain_samples(text)


def plain_samples(text: str) -> dict[str, float]:
    """Samples without labels of a page in Prometheus' text format; a line that is none is left out."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if line.startswith("#") or "{" in name or not rest:
            continue
        try:
            value = float(rest.split()[0])
        except (ValueError, IndexError):
            continue
        if math.isfinite(value):
            found[name] = value
        if len(found) == _MOST_SAMPLES:
            break
    return found
