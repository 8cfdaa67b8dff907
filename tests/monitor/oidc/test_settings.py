"""`web.oidc` of the file: every key, and wrong values in one line with file, line and key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from highwater.common.errors import UsageError
from highwater.common.extras import how_to_install
from highwater.monitor.config import read_config
from highwater.monitor.oidc.roles import RoleTable
from highwater.monitor.users import Role

WHOLE = """
bootstrap_servers: broker1:9092
web:
  local_users: false
  oidc:
    issuer: https://sso.example/realms/main
    client_id: highwater
    client_secret: ${SECRET}
    name: Example SSO
    scopes: [openid, groups]
    name_claim: upn
    roles:
      claim: realm_access.roles
      viewer: [readers, guests]
      admin: kafka-admins
"""
SMALL = """
bootstrap_servers: broker1:9092
web:
  oidc:
    issuer: http://127.0.0.1:5556/dex
    client_id: highwater
    roles: {claim: groups, viewer: [readers]}
"""


def read(folder: Path, text: str) -> object:
    path = folder / "monitor.yaml"
    path.write_text(text)
    return read_config(path, yaml, {"SECRET": "s3cret"}).web


def test_every_key(tmp_path: Path) -> None:
    path = tmp_path / "monitor.yaml"
    path.write_text(WHOLE)
    web = read_config(path, yaml, {"SECRET": "s3cret"}).web
    assert not web.has_local_users
    oidc = web.oidc
    assert oidc is not None
    assert (oidc.issuer, oidc.client_id, oidc.client_secret) == (
        "https://sso.example/realms/main",
        "highwater",
        "s3cret",
    )
    assert (oidc.shown_name, oidc.scopes, oidc.name_claim) == ("Example SSO", ("openid", "groups"), "upn")
    roles = {"readers": Role.VIEWER, "guests": Role.VIEWER, "kafka-admins": Role.ADMIN}
    assert oidc.table == RoleTable("realm_access.roles", roles)
    assert oidc.tls is not None
    assert "s3cret" not in repr(web)


def test_defaults_and_a_secret_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of a file\n")
    path = tmp_path / "monitor.yaml"
    path.write_text(SMALL + "    client_secret_file: secret\n")
    web = read_config(path, yaml, {}).web
    assert web.has_local_users
    assert web.oidc is not None
    assert web.oidc.client_secret == "of a file"  # noqa: S105 - of a test
    assert web.oidc.shown_name == "127.0.0.1:5556"
    assert web.oidc.scopes == ("openid", "profile", "email")
    assert web.oidc.tls is None


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("http://127.0.0.1:5556/dex", "http://sso.example/", 5, "issuer: http://sso.example/ must be https"),
        ("http://127.0.0.1:5556/dex", "https://sso.example/?a=b", 5, "must not contain a query"),
        ("http://127.0.0.1:5556/dex", "sso.example", 5, "is not an https address"),
        ("    client_id: highwater\n", "", 4, "web.oidc.client_id: is missing"),
        ("client_id: highwater", "client_secret: tiger\n    client_id: x", 6, "a secret does not belong into a file"),
        ("client_id: highwater", "client_secret_file: none\n    client_id: x", 6, "cannot be read: No such file"),
        ("client_id: highwater", "client_di: highwater", 6, "unknown key; did you mean client_id?"),
        ("client_id: highwater", "client_id: highwater\n    scopes: [profile]", 7, "with openid among them"),
        ("client_id: highwater", "client_id: highwater\n    ca: none.pem", 7, "cannot use its certificates"),
        ("{claim: groups, viewer: [readers]}", "{claim: groups}", 7, "nobody could log in"),
        ("{claim: groups, viewer: [readers]}", "{viewer: [readers]}", 7, "has no claim"),
        ("{claim: groups, viewer: [readers]}", "{claim: g, viewer: [a], admin: [a]}", 7, "'a' gives viewer already"),
        ("{claim: groups, viewer: [readers]}", "{claim: g, king: [a]}", 7, "unknown key"),
        ("{claim: groups, viewer: [readers]}", "{claim: g, viewer: {a: b}}", 7, "is not a list of texts"),
        ("{claim: groups, viewer: [readers]}", "readers", 7, "is not a mapping"),
    ],
)
def test_mistakes_are_one_line_with_their_place(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    text = SMALL.replace(old, new)
    if "ca:" in text:
        text = text.replace("http://127.0.0.1:5556/dex", "https://sso.example")
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert words in message
    assert message.startswith(f"{tmp_path}/monitor.yaml:{line}: web.oidc")
    assert "\n" not in message
    assert "tiger" not in message


def test_two_secrets_exclude_each_other(tmp_path: Path) -> None:
    both = SMALL + "    client_secret_file: secret\n    client_secret: ${SECRET}\n"
    with pytest.raises(UsageError, match="exclude each other"):
        read(tmp_path, both)


def test_without_any_way_to_log_in_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"web\.local_users: without local users and without oidc nobody"):
        read(tmp_path, "bootstrap_servers: a:1\nweb: {local_users: false}\n")


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "joserfc":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from highwater.cli import main; main()
"""


def test_without_the_extra_the_monitor_says_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "monitor.yaml"
    path.write_text(f"{SMALL}data: {tmp_path}/data\n")
    command = [sys.executable, "-c", WITHOUT, "monitor", "serve", "-c", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: web.oidc needs joserfc: {how_to_install('oidc')}\n"
    assert not (tmp_path / "data").exists()
