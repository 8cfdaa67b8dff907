"""Keys of an inventory: made once, made anew when they no longer fit, accepted by TLS, not shown."""

from __future__ import annotations

import datetime
import socket
import ssl
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.playbooks.modules import call, load
from tests.playbooks.playing import play_part

KEYS = load("library/highwater_keys.py")
NAMES = ["broker1.example.net", "192.0.2.11", "fd00::1"]


def ask(directory: Path, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
    return call("highwater_keys", check=check, directory=str(directory), **arguments)


def test_what_is_there_stays_and_belongs_to_the_operator_alone(tmp_path: Path) -> None:
    place = tmp_path / "config/keys"
    first = ask(place, name="agent-a", names=NAMES, secrets=["agent-a", "monitor-admin"])
    assert first["changed"]
    assert len(set(first["secrets"].values())) == 2
    assert min(len(text) for text in first["secrets"].values()) >= 32
    again = ask(place, name="agent-a", names=NAMES, secrets=["agent-a", "monitor-admin"])
    assert {**first, "changed": False} == again
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in place.iterdir() if path.name != ".lock"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_check_mode_says_that_it_would_make_something_and_makes_nothing(tmp_path: Path) -> None:
    answer = ask(tmp_path / "keys", check=True, name="a", names=NAMES, secrets=["b"])
    assert (answer["changed"], answer["authority"], answer["key"], answer["secrets"]) == (True, "", "", {"b": ""})
    assert list(tmp_path.iterdir()) == []
    made = ask(tmp_path / "keys", name="a", names=NAMES, secrets=["b"])
    assert ask(tmp_path / "keys", check=True, name="a", names=NAMES, secrets=["b"]) == {**made, "changed": False}


def test_a_certificate_is_made_anew_for_other_names_another_authority_and_near_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ask(tmp_path, name="a", names=NAMES)
    other = ask(tmp_path, name="a", names=NAMES[:2])
    assert other["certificate"] != first["certificate"]
    assert other["authority"] == first["authority"]
    for name in ("authority.pem", "authority.key"):
        (tmp_path / name).unlink()
    third = ask(tmp_path, name="a", names=NAMES[:2])
    assert third["authority"] != first["authority"]
    assert third["certificate"] != other["certificate"]
    monkeypatch.setattr(KEYS, "CERTIFICATE_DAYS", KEYS.RENEWED_DAYS_BEFORE - 1)
    late = KEYS.Keys(tmp_path, is_check_mode=False).answer("b", NAMES, [])
    monkeypatch.undo()
    assert ask(tmp_path, name="b", names=NAMES)["certificate"] != late["certificate"]


def test_a_run_that_was_killed_leaves_no_half(tmp_path: Path) -> None:
    first = ask(tmp_path, name="a", names=NAMES)
    (tmp_path / "a.pem").unlink()
    (tmp_path / ".a.pem").write_text("cut sh")
    again = ask(tmp_path, name="a", names=NAMES)
    assert again["certificate"] != first["certificate"]
    assert not (tmp_path / ".a.pem").exists()


def test_half_an_authority_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    ask(tmp_path)
    (tmp_path / "authority.pem").unlink()
    before = sorted(path.name for path in tmp_path.iterdir())
    assert "authority.pem and authority.key belong together" in ask(tmp_path, name="a", names=NAMES)["msg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["../authority", "a/b", ".a", "a\n"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    assert "cannot be a name of keys" in ask(tmp_path, name=name, names=NAMES)["msg"]
    assert "cannot be a name of keys" in ask(tmp_path, secrets=[name])["msg"]


def test_tls_accepts_the_certificate_for_its_names_alone(tmp_path: Path) -> None:
    """As strictly as Python 3.13 does by default."""
    made = ask(tmp_path, name="a", names=["localhost", "127.0.0.1"])
    assert handshake(tmp_path, made["authority"], "localhost") == ""
    assert handshake(tmp_path, made["authority"], "127.0.0.1") == ""
    assert "mismatch" in handshake(tmp_path, made["authority"], "broker2.example.net").lower()
    other = ask(tmp_path / "other")
    assert "verify failed" in handshake(tmp_path, other["authority"], "localhost")


def handshake(place: Path, authority: str, name: str) -> str:
    """What the client has against the certificate; nothing if it takes it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(place / "a.pem", place / "a.key")
    client = ssl.create_default_context(cadata=authority)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True):
                pass
        except OSError:
            pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours, server_hostname=name):
            return ""
    except ssl.SSLError as error:
        return str(error)
    finally:
        ours.close()
        thread.join()


def test_the_authority_signs_hosts_and_no_other_authorities(tmp_path: Path) -> None:
    made = ask(tmp_path, name="a", names=NAMES)
    authority, own = (x509.load_pem_x509_certificate(made[what].encode()) for what in ("authority", "certificate"))
    limits = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (limits.ca, limits.path_length) == (True, 0)
    assert own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert own.not_valid_after_utc < authority.not_valid_after_utc - datetime.timedelta(days=365)


def test_nothing_secret_is_in_the_most_that_ansible_prints(tmp_path: Path) -> None:
    place = tmp_path / "keys"
    variables = {"keys_directory": str(place), "keys_name": "a", "keys_names": ["b"], "keys_secrets": ["token"]}
    done = play_part(tmp_path, "keys", "main", {"hosts": {"one": None}}, "-vvv", **variables)
    assert done.returncode == 0, done.stdout
    secrets = [(place / "token.secret").read_text().strip(), (place / "a.key").read_text().splitlines()[1]]
    assert [text for text in secrets if text in done.stdout + done.stderr] == []
