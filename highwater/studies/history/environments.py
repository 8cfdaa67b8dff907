"""The environments of a history for people: their facts by human names, and what differs between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from highwater.results.environment_key import difference_text, human_name, unequal
from highwater.studies.history.series import Series


def fact_rows(series: Series) -> list[tuple[str, str]]:
    """The facts that are known of an environment, by their human names."""
    return [(human_name(fact), str(value)) for fact, value in series.facts().items() if value is not None]


def difference_lines(series: Sequence[Series]) -> Iterator[tuple[str, str]]:
    """The two environments, and what differs between them, for each change of environment of a workload."""
    by_workload: dict[str, list[Series]] = {}
    for one in series:
        by_workload.setdefault(one.workload, []).append(one)
    for workload, found in by_workload.items():
        for before, after in pairwise(sorted(found, key=lambda one: one.rows()[0]["time"])):
            differing = map(difference_text, unequal(before.facts(), after.facts()))
            yield f"{workload}, {before.environment} → {after.environment}", "; ".join(differing)
