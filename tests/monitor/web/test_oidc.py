"""The login by OIDC through the pages: who gets in, as whom, with which role, and what everybody else is told."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc import jwk
from starlette.testclient import TestClient

from highwater.monitor.oidc.login import CALLBACK_PATH, OidcLogin
from highwater.monitor.oidc.refusal import Refusal, provider_fault
from highwater.monitor.users import Role, Users
from highwater.monitor.web.login_pages import BEGIN_PATH
from tests.monitor.oidc.provider import (
    ISSUER,
    KEY,
    OTHER_KEY,
    SECRET,
    SETTINGS,
    Claims,
    FakeProvider,
    public,
    signed,
    signed_by_secret,
    unsigned,
)
from tests.monitor.web.pages import ORIGIN, PASSWORD, Clock, Web, form_token, log_in, web_app


class Sso:
    """The monitor and its provider."""

    def __init__(self) -> None:
        self.provider = FakeProvider(lambda: self.clock())
        self.clock = Clock()
        self.web: Web

    def login(self, clock: Clock) -> OidcLogin:
        self.clock = clock
        return OidcLogin(SETTINGS, clock, clock, self.provider)

    def go(self, browser: TestClient, wanted: str = "/") -> str:
        """Where the browser is sent to."""
        answer = browser.get(BEGIN_PATH, params={"next": wanted})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    def log_in(self, browser: TestClient, wanted: str = "/", **changes: str) -> httpx2.Response:
        return browser.get(f"{CALLBACK_PATH}?{self.provider.come_back(self.go(browser, wanted), **changes)}")


@pytest.fixture
def sso(tmp_path: Path) -> Iterator[Sso]:
    made = Sso()
    with web_app(tmp_path, oidc=made.login) as web:
        made.web = web
        yield made


def is_logged_in(browser: TestClient) -> bool:
    return browser.get("/account").status_code == 200


def sentence(answer: httpx2.Response) -> str:
    found = re.search(r'<p class="lead" role="alert">(.*?)</p>', answer.text)
    assert found, answer.text
    return found[1]


def test_a_person_goes_to_the_provider_and_comes_back_with_a_role(sso: Sso) -> None:
    browser = sso.web.browser()
    page = browser.get("/topics?q=orders").headers["location"]
    assert page == "/login?next=/topics%3Fq%3Dorders"
    link = re.search(r'href="(/oidc/login[^"]*)">Log in with Example SSO', browser.get(page).text)
    assert link
    to = browser.get(link[1]).headers["location"]
    query = {name: values[0] for name, values in parse_qs(urlsplit(to).query).items()}
    assert to.startswith(f"{ISSUER}/authorize?")
    assert query["redirect_uri"] == f"{ORIGIN}/oidc/callback"
    assert (query["response_type"], query["client_id"], query["scope"]) == ("code", "highwater", "openid profile email")
    assert query["code_challenge_method"] == "S256"
    back = browser.get(f"{CALLBACK_PATH}?{sso.provider.come_back(to)}")
    assert (back.status_code, back.headers["location"]) == (303, "/topics?q=orders")
    assert is_logged_in(browser)
    account = browser.get("/account").text
    assert "ada has the role viewer" in account
    assert ISSUER in account
    assert "Present password" not in account
    assert browser.get("/users").status_code == 403
    entry = sso.web.users.audit(1)[0]
    assert sso.web.users.audit(2)[1].action == "login by OIDC"
    assert (entry.user, entry.action) == ("ada", "GET /users")
    (user,) = [each for each in sso.web.users.users() if each.issuer]
    assert (user.name, user.role, user.issuer) == ("ada", Role.VIEWER, ISSUER)


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "\n/", "/x" * 600, "x", ""],
)
def test_nobody_is_sent_to_another_site(sso: Sso, wanted: str) -> None:
    browser = sso.web.browser()
    assert sso.log_in(browser, wanted).headers["location"] == "/"
    assert browser.get(BEGIN_PATH, params={"next": wanted}).headers["location"] in (
        "/",
        wanted if len(wanted) > 900 else "/",
    )


def test_the_session_cookie_is_new_and_as_that_of_a_password(sso: Sso) -> None:
    browser = sso.web.browser()
    browser.cookies.set("highwater", "planted", domain="localhost.local")
    to = sso.go(browser)
    answer = browser.get(f"{CALLBACK_PATH}?{sso.provider.come_back(to)}")
    cookie = next(each for each in answer.headers.get_list("set-cookie") if each.startswith("highwater="))
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "planted" not in cookie
    assert sso.web.users.session("planted") is None


def test_a_state_works_once(sso: Sso) -> None:
    browser = sso.web.browser()
    query = sso.provider.come_back(sso.go(browser))
    assert browser.get(f"{CALLBACK_PATH}?{query}").status_code == 303
    asked = len(sso.provider.questions)
    again = sso.web.browser()
    again.cookies.set("highwater-visitor", "x", domain="localhost.local")
    for other in (again, sso.web.browser()):
        answer = other.get(f"{CALLBACK_PATH}?{query}")
        assert answer.status_code == 400
        assert "used already" in sentence(answer)
        assert not is_logged_in(other)
    browser.post("/logout", data={"form_token": form_token(browser.get("/account").text)})
    assert browser.get(f"{CALLBACK_PATH}?{query}").status_code == 400
    assert len(sso.provider.questions) == asked, "the provider is not asked"


def test_a_state_is_used_up_by_a_login_that_fails(sso: Sso) -> None:
    browser = sso.web.browser()
    query = sso.provider.come_back(sso.go(browser))
    sso.provider.fault = provider_fault("away")
    assert browser.get(f"{CALLBACK_PATH}?{query}").status_code == 502
    sso.provider.fault = None
    assert browser.get(f"{CALLBACK_PATH}?{query}").status_code == 400


def test_another_browser_cannot_finish_a_login(sso: Sso) -> None:
    """Else who begins a login could make somebody else work in the wrong account."""
    mine, other = sso.web.browser(), sso.web.browser()
    sso.go(other)
    query = sso.provider.come_back(sso.go(mine))
    assert other.get(f"{CALLBACK_PATH}?{query}").status_code == 400
    assert not is_logged_in(other)
    assert mine.get(f"{CALLBACK_PATH}?{query}").status_code == 303


def test_a_login_that_takes_too_long_begins_anew(sso: Sso) -> None:
    browser = sso.web.browser()
    query = sso.provider.come_back(sso.go(browser))
    sso.clock.now_s += 601
    assert "10 minutes" in sentence(browser.get(f"{CALLBACK_PATH}?{query}"))


def test_a_used_code_is_refused_in_words(sso: Sso) -> None:
    browser = sso.web.browser()
    answer = browser.get(f"{CALLBACK_PATH}?{sso.provider.come_back(sso.go(browser), code='stolen')}")
    assert answer.status_code == 400
    assert "used or too old" in sentence(answer)


def test_the_code_of_another_login_is_refused(sso: Sso) -> None:
    """By PKCE: a code that was stolen on its way fits no other login."""
    victim, thief = sso.web.browser(), sso.web.browser()
    stolen = parse_qs(sso.provider.come_back(sso.go(victim)))["code"][0]
    answer = thief.get(f"{CALLBACK_PATH}?{sso.provider.come_back(sso.go(thief), code=stolen)}")
    assert answer.status_code == 400
    assert not is_logged_in(thief)


@pytest.mark.parametrize(
    ("sign", "word"),
    [
        (unsigned, "not signed by one of"),
        (lambda claims: signed(claims, OTHER_KEY), "signature"),
        (
            lambda claims: signed_by_secret(claims, KEY.as_pem(private=False)),
            "not signed by one of",
        ),
        (lambda claims: signed_by_secret(claims, SECRET.encode()), "not signed by one of"),
        (lambda claims: signed({**claims, "nonce": "another"}), "another login"),
        (lambda claims: signed({**claims, "aud": "another"}), "another client"),
        (lambda claims: signed({**claims, "iss": "https://evil.example"}), "another issuer"),
        (lambda claims: signed({**claims, "exp": claims["iat"] - 3600}), "too old"),
        (lambda claims: signed({**claims, "sub": None}), "who the person is"),
        (lambda claims: "", "not a signed JSON Web Token"),
    ],
)
def test_a_token_that_cannot_be_believed_lets_nobody_in(sso: Sso, sign: Any, word: str) -> None:
    sso.provider.sign = sign
    browser = sso.web.browser()
    answer = sso.log_in(browser)
    assert answer.status_code == 502
    assert word in sentence(answer)
    assert not is_logged_in(browser)
    assert not [each for each in sso.web.users.users() if each.issuer]
    entry = sso.web.users.audit(1)[0]
    assert (entry.user, entry.action, entry.is_allowed) == ("(unknown)", "login by OIDC", False)
    assert word in entry.target


@pytest.mark.parametrize(
    ("claims", "word"),
    [
        ({"groups": None}, "there is no claim “groups”"),
        ({"groups": []}, "no value of the claim “groups”"),
        ({"groups": ["strangers", "Admins"]}, "no value of the claim “groups”"),
    ],
)
def test_who_has_no_role_gets_a_page_that_says_so(sso: Sso, claims: Claims, word: str) -> None:
    sso.provider.claims |= claims
    browser = sso.web.browser()
    answer = sso.log_in(browser)
    assert answer.status_code == 403
    assert "Example SSO knows you, but you have no access" in answer.text
    assert "ada (u1) has no role here" in sentence(answer)
    assert word in sentence(answer)
    assert "readers" not in answer.text
    assert not is_logged_in(browser)
    assert not [each for each in sso.web.users.users() if each.issuer]


def test_claims_of_the_provider_are_shown_as_text(sso: Sso) -> None:
    sso.provider.claims |= {"preferred_username": "<script>x</script>", "groups": []}
    answer = sso.log_in(sso.web.browser())
    assert "<script>x" not in answer.text
    assert "&lt;script&gt;x" in answer.text


@pytest.mark.parametrize(("groups", "role"), [(["readers"], "viewer"), (["readers", "admins"], "admin")])
def test_the_highest_role_counts(sso: Sso, groups: list[str], role: str) -> None:
    sso.provider.claims |= {"groups": groups}
    browser = sso.web.browser()
    sso.log_in(browser)
    assert f"has the role {role}" in browser.get("/account").text


def test_each_login_brings_the_role_of_that_moment(sso: Sso) -> None:
    first, second = sso.web.browser(), sso.web.browser()
    sso.provider.claims |= {"groups": ["admins"]}
    sso.log_in(first)
    assert first.get("/users").status_code == 200
    sso.provider.claims |= {"groups": ["readers"]}
    sso.log_in(second)
    assert first.get("/users").status_code == 403
    sso.provider.claims |= {"groups": []}
    assert sso.log_in(sso.web.browser()).status_code == 403
    assert not is_logged_in(first), "who has no role any more has no session either"
    assert not is_logged_in(second)


def test_a_name_that_somebody_has_is_not_taken_over(sso: Sso) -> None:
    sso.provider.claims |= {"preferred_username": "admin"}
    browser = sso.web.browser()
    sso.log_in(browser)
    (user,) = [each for each in sso.web.users.users() if each.issuer]
    assert re.fullmatch(r"admin\.[0-9a-f]{16}", user.name)
    assert user.role is Role.VIEWER
    assert browser.get("/users").status_code == 403
    sso.provider.claims |= {"sub": "u2", "preferred_username": user.name}
    sso.log_in(sso.web.browser())
    names = [each.name for each in sso.web.users.users() if each.issuer]
    assert len(set(names)) == 2


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": None, "email": "ada@example.org"}, "ada@example.org"),
        ({"preferred_username": None}, "u1"),
        ({"preferred_username": ["x"]}, "u1"),
        ({"preferred_username": "Ada Lovelace"}, "Ada_Lovelace"),
        ({"preferred_username": "\u202e<b>"}, "b_"),
        ({"preferred_username": "女"}, "oidc"),
        ({"preferred_username": "a" * 300}, "a" * 64),
    ],
)
def test_names_are_made_of_what_claims_say(sso: Sso, claims: Claims, name: str) -> None:
    sso.provider.claims |= claims
    sso.log_in(sso.web.browser())
    assert [each.name.lstrip("_") for each in sso.web.users.users() if each.issuer] == [name]


def test_claims_that_the_token_leaves_out_come_from_the_user_info(sso: Sso) -> None:
    sso.provider.claims = {"sub": "u1"}
    sso.provider.user_info = {"sub": "u1", "preferred_username": "ada", "groups": ["operators"], "iss": "x"}
    browser = sso.web.browser()
    sso.log_in(browser)
    assert "ada has the role operator" in browser.get("/account").text


def test_user_info_of_another_person_lets_nobody_in(sso: Sso) -> None:
    sso.provider.claims = {"sub": "u1"}
    sso.provider.user_info = {"sub": "u2", "groups": ["admins"]}
    answer = sso.log_in(sso.web.browser())
    assert answer.status_code == 502
    assert "another person" in sentence(answer)


def test_user_info_cannot_change_what_the_token_says(sso: Sso) -> None:
    sso.provider.claims = {"sub": "u1", "groups": ["readers"]}
    sso.provider.user_info = {"sub": "u1", "preferred_username": "ada", "groups": ["admins"]}
    browser = sso.web.browser()
    sso.log_in(browser)
    assert "ada has the role viewer" in browser.get("/account").text


def test_a_new_key_of_the_provider_is_found(sso: Sso) -> None:
    sso.log_in(sso.web.browser())
    new = jwk.ECKey.generate_key("P-256", {"kid": "two"})
    sso.provider.keys = public(KEY, new)
    sso.provider.sign = lambda claims: signed(claims, new, "ES256", kid="two")
    sso.clock.now_s += 31
    assert sso.log_in(sso.web.browser()).status_code == 303


def test_a_new_key_under_the_id_of_the_old_one_is_found(sso: Sso) -> None:
    sso.log_in(sso.web.browser())
    sso.provider.keys = public(OTHER_KEY)
    sso.provider.sign = lambda claims: signed(claims, OTHER_KEY)
    assert "signature" in sentence(sso.log_in(sso.web.browser()))
    sso.clock.now_s += 31
    assert sso.log_in(sso.web.browser()).status_code == 303
    sso.provider.sign = signed
    sso.clock.now_s += 31
    assert "signature" in sentence(sso.log_in(sso.web.browser())), "the old key is worth nothing"


@pytest.mark.parametrize(
    ("query", "status", "word"),
    [
        ("error=access_denied", 403, "cancelled it"),
        ("error=server_error", 502, "server_error"),
        ("error=%3Cb%3Eyour+account+is+blocked", 502, "not understood"),
        ("code=", 400, "no code"),
        ("x=y", 400, "no code"),
        ("code=a&iss=https%3A%2F%2Fevil.example", 400, "another provider"),
    ],
)
def test_what_else_comes_back_has_a_page(sso: Sso, query: str, status: int, word: str) -> None:
    browser = sso.web.browser()
    state = parse_qs(urlsplit(sso.go(browser)).query)["state"][0]
    answer = browser.get(f"{CALLBACK_PATH}?{query}&state={state}&error_description=call+555")
    assert answer.status_code == status
    assert word in sentence(answer)
    assert "blocked" not in answer.text
    assert "555" not in answer.text


def test_a_provider_that_says_its_name_must_say_it_each_time(sso: Sso) -> None:
    sso.provider.document = {"authorization_response_iss_parameter_supported": True}
    assert "another provider" in sentence(sso.log_in(sso.web.browser()))
    assert sso.log_in(sso.web.browser(), iss=ISSUER).status_code == 303


def test_a_wrong_secret_of_the_client_is_named_and_not_shown(sso: Sso, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sso.provider.login = "Basic another"
    answer = sso.log_in(sso.web.browser())
    assert answer.status_code == 502
    assert "client_id and client_secret" in sentence(answer)
    assert SECRET not in answer.text + caplog.text


def test_a_provider_that_is_away_is_a_page_and_passwords_work(sso: Sso) -> None:
    sso.provider.fault = provider_fault("The provider at sso.example does not answer within 10 s.")
    answer = sso.web.browser().get(BEGIN_PATH)
    assert answer.status_code == 502
    assert "does not answer" in sentence(answer)
    assert is_logged_in(sso.web.browser(Role.VIEWER))


def test_nothing_secret_is_in_the_log_or_the_file(sso: Sso, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    browser = sso.web.browser()
    to = sso.go(browser)
    back = sso.provider.come_back(to)
    browser.get(f"{CALLBACK_PATH}?{back}")
    sso.provider.sign = unsigned
    sso.log_in(sso.web.browser())
    verifiers = [(question.form or {}).get("code_verifier", "-") for question in sso.provider.questions]
    written = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    written += "\n".join(each.getMessage() for each in caplog.records if each.name.startswith("highwater")).encode()
    for secret in (*verifiers, browser.cookies["highwater"], "the-access-token", SECRET, *parse_qs(back)["state"]):
        assert secret == "-" or secret.encode() not in written  # noqa: S105 - for questions without a form


def test_tries_that_fail_have_to_wait_and_those_of_the_provider_do_not(sso: Sso) -> None:
    browser = sso.web.browser(address="10.1.1.1")
    sso.provider.fault = Refusal("away", 503)
    statuses = {browser.get(BEGIN_PATH).status_code for _ in range(30)}
    assert statuses == {503}
    sso.provider.fault = None
    sso.clock.now_s += 11
    statuses_of_guesses = [browser.get(f"{CALLBACK_PATH}?state=guess&code=x").status_code for _ in range(22)]
    assert statuses_of_guesses == [400] * 20 + [429] * 2
    waiting = browser.get(f"{CALLBACK_PATH}?state=guess&code=x")
    assert int(waiting.headers["retry-after"]) >= 1
    assert sso.log_in(sso.web.browser(address="10.1.1.2")).status_code == 303


def test_strangers_do_not_fill_the_log(sso: Sso, caplog: pytest.LogCaptureFixture) -> None:
    browser = sso.web.browser()
    for _ in range(25):
        browser.get(f"{CALLBACK_PATH}?state=guess&code=x")
    sso.provider.fault = provider_fault("away")
    for _ in range(25):
        browser.get(BEGIN_PATH)
    own = [record for record in caplog.records if record.name.startswith("highwater")]
    assert [record.getMessage() for record in own] == ["the OIDC provider: away"]


def test_a_login_while_one_is_there_changes_nothing(sso: Sso) -> None:
    """So that a link of somebody else cannot put another account in the place of one's own."""
    browser = sso.web.browser(Role.OPERATOR)
    token = browser.cookies["highwater"]
    assert browser.get(BEGIN_PATH, params={"next": "/topics"}).headers["location"] == "/topics"
    stranger = sso.web.browser()
    query = sso.provider.come_back(sso.go(stranger))
    assert browser.get(f"{CALLBACK_PATH}?{query}").headers["location"] == "/"
    assert browser.cookies["highwater"] == token
    assert "operator has the role operator" in browser.get("/account").text


def test_after_a_logout_the_page_names_the_session_of_the_provider(sso: Sso) -> None:
    browser = sso.web.browser()
    sso.log_in(browser)
    out = browser.post("/logout", data={"form_token": form_token(browser.get("/account").text)})
    page = browser.get(out.headers["location"]).text
    assert not is_logged_in(browser)
    assert (
        f'href="{ISSUER}/end?client_id=highwater&amp;post_logout_redirect_uri=http%3A%2F%2Flocalhost%3A8080%2Flogin"'
        in page
    )
    assert "end that session too" not in browser.get("/login").text
    local = sso.web.browser(Role.VIEWER)
    left = local.post("/logout", data={"form_token": form_token(local.get("/account").text)})
    assert left.headers["location"] == "/login"


def test_an_admin_can_disable_and_remove_but_give_neither_role_nor_password(sso: Sso) -> None:
    person = sso.web.browser()
    sso.log_in(person)
    admin = sso.web.browser(Role.ADMIN)
    page = admin.get("/users").text
    token = form_token(page)
    assert f"by {ISSUER}, at each login" in page
    for path, fields in (("role", {"role": "admin"}), ("password", {"password": PASSWORD})):
        answer = admin.post(f"/users/{path}", data={"form_token": token, "name": "ada", **fields})
        assert answer.status_code == 422
        assert "logs in by OIDC" in answer.text
    assert log_in(sso.web.browser(), "ada").status_code == 401
    assert log_in(sso.web.browser(), "ada", "").status_code == 401
    admin.post("/users/disable", data={"form_token": token, "name": "ada", "disabled": "yes"})
    assert not is_logged_in(person)
    refused = sso.log_in(sso.web.browser())
    assert refused.status_code == 403
    assert "is disabled here" in sentence(refused)
    admin.post("/users/remove", data={"form_token": token, "name": "ada"})
    assert sso.log_in(sso.web.browser()).status_code == 303


def test_without_local_users_passwords_are_worth_nothing(tmp_path: Path) -> None:
    sso = Sso()
    with web_app(tmp_path, oidc=sso.login, has_local=False) as web:
        sso.web = web
        browser = web.browser()
        page = browser.get("/login").text
        assert "Log in with Example SSO" in page
        assert 'type="password"' not in page
        token = form_token(browser.get("/setup").text) or "x"
        assert (
            browser.post("/login", data={"name": "admin", "password": PASSWORD, "form_token": token}).status_code == 403
        )
        assert web.users.password_is("admin", PASSWORD) is None
        sso.provider.claims |= {"groups": ["admins"]}
        assert sso.log_in(browser).status_code == 303
        users = browser.get("/users").text
        assert "Add a user" not in users
        form = {"form_token": form_token(users), "name": "eve", "password": PASSWORD, "role": "admin"}
        assert "Password login is switched off" in browser.post("/users/add", data=form).text


def test_sessions_of_those_whom_the_configuration_no_longer_lets_in_end_at_once(tmp_path: Path) -> None:
    sso = Sso()
    with web_app(tmp_path, oidc=sso.login) as web:
        sso.web = web
        browser = web.browser()
        sso.log_in(browser)
        by_oidc, local = browser.cookies["highwater"], web.browser(Role.VIEWER).cookies["highwater"]
    for issuer, has_local, kept in (
        (ISSUER, True, {by_oidc, local}),
        (ISSUER, False, {by_oidc}),
        ("", True, {local}),
        ("https://other.example", True, {local}),
    ):
        users = Users(tmp_path / "users.db", sso.clock, issuer=issuer, has_local=has_local)
        assert {token for token in (by_oidc, local) if users.session(token) is not None} == kept
        users.close()


def test_without_a_provider_its_routes_do_not_exist(tmp_path: Path) -> None:
    with web_app(tmp_path) as web:
        for path in (BEGIN_PATH, CALLBACK_PATH):
            assert web.browser().get(path).status_code == 404
        assert "oidc" not in web.browser().get("/login").text
