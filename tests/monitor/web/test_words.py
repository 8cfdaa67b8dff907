"""The clause of a sentence that stands in large type: complete, and short enough for two lines of a phone."""

from __future__ import annotations

import pytest

from highwater.monitor.web.words import headline

GROUP = "group b: c. d"


@pytest.mark.parametrize(
    ("sentence", "subject", "short", "rest"),
    [
        ("Healthy: 3 brokers, 2 groups.", "", "Healthy", "3 brokers, 2 groups."),
        ("Group a has stopped. orders-0: No one.", "group a", "Group a has stopped", "orders-0: No one."),
        ("Broker 1 (h:9092) is gone: see. More.", "broker 1", "Broker 1 (h:9092) is gone", "see. More."),
        ("2 brokers say so; one is right.", "", "2 brokers say so", "one is right."),
        ("Only 1.5 % is left.", "", "Only 1.5 % is left.", ""),
        (f"G{GROUP[1:]} is stalled. t-0: Why.", GROUP, f"G{GROUP[1:]} is stalled", "t-0: Why."),
        ("", "", "", ""),
    ],
)
def test_a_headline_is_the_first_clause(sentence: str, subject: str, short: str, rest: str) -> None:
    assert headline(sentence, subject) == (short, rest)
