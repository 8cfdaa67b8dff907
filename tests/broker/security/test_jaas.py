"""Login entries as Kafka's documentation writes them."""

from __future__ import annotations

import pytest

from highwater.broker.security.jaas import parse_login_entry


def test_a_login_entry() -> None:
    entry = parse_login_entry(
        "org.apache.kafka.common.security.plain.PlainLoginModule required\n"
        '  username="admin" password=secret user_admin = "a \\"b\\" ; = c" user_bob="";'
    )
    assert entry.module == "PlainLoginModule"
    assert entry.options == {
        "username": "admin",
        "password": "secret",
        "user_admin": 'a "b" ; = c',
        "user_bob": "",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "write it as"),
        ("PlainLoginModule user_a=b;", "write it as"),
        ("PlainLoginModule required user_a=b", "semicolon"),
        ("PlainLoginModule required user_a;", "'user_a'"),
        ('PlainLoginModule required user_a="b;', "quote"),
    ],
)
def test_entries_that_make_no_sense(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_login_entry(text)
