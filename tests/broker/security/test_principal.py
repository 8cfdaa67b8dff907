"""Names made of certificates' subjects (KIP-371)."""

from __future__ import annotations

import pytest

from highwater.broker.security.principal import name_of, parse_rules

SUBJECT = "CN=Broker-7.example,OU=Logs,O=Highwater"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", SUBJECT),
        ("", SUBJECT),
        (r"RULE:^CN=(.*?),.*$/$1/", "Broker-7.example"),
        (r"RULE:^CN=(.*?),.*$/$1/L", "broker-7.example"),
        (r"RULE:^CN=(.*?),OU=(.*?),.*$/$2:$1/U, DEFAULT", "LOGS:BROKER-7.EXAMPLE"),
        (r"RULE:^OU=.*$/x/, DEFAULT", SUBJECT),
        (r"RULE:^OU=.*$/x/", None),
        (r"RULE:^CN=(.*?)\.example,.*$/$1\/x/", r"Broker-7\/x"),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(rules: str, name: str | None) -> None:
    assert name_of(SUBJECT, parse_rules(rules)) == name


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("RULES", "is neither DEFAULT nor RULE"),
        ("RULE:a/b", "is neither DEFAULT nor RULE"),
        ("RULE:(/b/", "is not a pattern"),
        ("RULE:a/$1/", "refers to group 1"),
    ],
)
def test_rules_that_make_no_sense(rules: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_rules(rules)
