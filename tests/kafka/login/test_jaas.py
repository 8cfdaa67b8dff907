"""Login entries as Kafka's documentation writes them."""

from __future__ import annotations

import pytest

from highwater.kafka.login.jaas import parse_login_entry, parse_login_text


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
        ("PlainLoginModule required user_a;", "number 1"),
        ('PlainLoginModule required user_a="b;', "quote"),
    ],
)
def test_entries_that_make_no_sense(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_login_entry(text)


FILE = """
// who this broker is
Client { /* in
    two lines */
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="kafka" password="a}; // \\"b";
};
KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required username=a;
};
"""


def test_a_section_of_a_file() -> None:
    entry = parse_login_text(FILE, "Client")
    assert entry.module == "DigestLoginModule"
    assert entry.options == {"username": "kafka", "password": 'a}; // "b'}
    assert parse_login_text(FILE, "KafkaServer").options == {"username": "a"}
    assert parse_login_text("x.Y required a=b;", "Client").options == {"a": "b"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FILE, "it has no section Server: write one as Server { … };"),
        (FILE + "x", "after 2 sections comes what is none"),
        ("Server { };", "write it as: module required"),
        ("", "write it as: module required"),
    ],
)
def test_files_that_make_no_sense(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_login_text(text, "Server")


@pytest.mark.parametrize("text", ['M required password="hush', "M required password=hush hush;", 'M required "hush";'])
def test_no_message_has_a_password(text: str) -> None:
    with pytest.raises(ValueError, match=r"required|character") as caught:
        parse_login_entry(text)
    assert "hush" not in str(caught.value)
