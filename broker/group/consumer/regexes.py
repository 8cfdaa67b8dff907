"""Regular expressions of a consumer group: when to resolve them, and what becomes of the result.

They are resolved for the whole group at once, off the heartbeat, with what the member may see that asked last. Until
then a regular expression matches nothing. (Apache Kafka 4.4's GroupMetadataManager)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Final

from highwater.broker.group.consumer.draft import Draft
from highwater.broker.group.consumer.events import Topics
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.schemas import GroupRecord, RecordKind, ResolvedRegex
from highwater.broker.group.events import Now
from highwater.kafka.regular_expressions import Pattern, PatternError

Resolved = Mapping[str, frozenset[str]]
"""The topics that each regular expression matches."""

_LEAST_DISTANCE_MS: Final = 10_000
"""Between two resolutions of a group: members may change theirs at each heartbeat."""
_NO_METADATA_VERSION: Final = 0
"""There is no version of the metadata here; to Kafka it means that topics may be new."""
_YIELD_EACH: Final = 512


def is_due(group: ConsumerGroup, refresh_interval_ms: int, now: Now) -> bool:
    """Whether to resolve all that members subscribe to now. The caller must then do it, or nobody does for a time.

    That is so when one was never resolved, when there are new topics, and now and then, as what members may see can
    change; the first of a group at once.
    """
    # A clock that was set back, or is behind that of the coordinator before, leaves times that are still to come.
    resolved_ms = [at_ms for each in group.regexes.values() if (at_ms := each.timestamp_ms) <= now.wall_ms]
    elapsed_ms = now.wall_ms - max(resolved_ms, default=0)
    if not group.regex_counts or (resolved_ms and elapsed_ms < _LEAST_DISTANCE_MS):
        return False
    has_all = group.regex_counts.keys() <= group.regexes.keys()
    if has_all and not group.has_new_topics and elapsed_ms < refresh_interval_ms:
        return False
    group.has_new_topics = False
    return True


def resolve(patterns: Iterable[str], names: Iterable[str]) -> Generator[None, None, Resolved]:
    """Match every pattern against every name. One that is none for RE2, but was for RE2/J, matches nothing."""
    result: dict[str, frozenset[str]] = {}
    names = tuple(names)
    for text in patterns:
        matches = _matcher(text)
        matched: list[str] = []
        for start in range(0, len(names), _YIELD_EACH):
            matched += filter(matches, names[start : start + _YIELD_EACH])
            yield
        result[text] = frozenset(matched)
    return result


def _matcher(text: str) -> Callable[[str], bool]:
    try:
        return Pattern(text).matches
    except PatternError:
        return lambda _: False


def resolved(group: ConsumerGroup, result: Resolved, topics: Topics, now: Now) -> list[GroupRecord]:
    """The records that make this result the group's; maybe none. Other topics than before call for a new target.

    Of the others one is written again, with the time. The ones with most topics are the last, as the log may refuse
    what is too large for it.
    """
    # A first result calls for a new target even if it is empty: the member may have had other topics before.
    patterns = sorted(result.keys() & group.regex_counts.keys(), key=lambda pattern: (len(result[pattern]), pattern))
    others = [
        pattern
        for pattern in patterns
        if (before := group.regexes.get(pattern)) is None or before.topics != result[pattern]
    ]
    draft = Draft(group)
    for pattern in others or patterns[:1]:
        draft.write(RecordKind.REGEX, pattern, ResolvedRegex(result[pattern], _NO_METADATA_VERSION, now.wall_ms))
    if others:
        draft.bump(topics)
    return draft.records
