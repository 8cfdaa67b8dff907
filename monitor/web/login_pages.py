"""Login, logout, the first login by a set-up link, and a user's own account."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from highwater.common.listener_rules import address_key
from highwater.common.units import wait_text
from highwater.monitor.users import Session, User, UsersError
from highwater.monitor.web.pages import redirect, render, set_cookie
from highwater.monitor.web.request_checks import own_origin, own_path
from highwater.monitor.web.routing import Call

BEGIN_PATH: Final = "/oidc/login"
_WRONG: Final = "The name or the password is wrong, or the account is disabled."
_NO_PASSWORDS: Final = "Password login is switched off."


def login_form(call: Call) -> Response:
    if call.session is not None:
        return redirect("/")
    return _login_page(call, call.query.get("next", "/"))


def login(call: Call) -> Response:
    name, wanted = call.form.get("name", "")[:200], call.form.get("next", "/")
    if not call.site.users.has_local:
        return _login_page(call, wanted, _NO_PASSWORDS, 403)
    wait_s = _wait_s(call, name)
    if wait_s:
        call.site.users.record_stranger(_known(call, name), call.address, "login throttled")
        return _too_many(call, wanted, wait_s)
    user = call.site.users.password_is(name, call.form.get("password", ""))
    if user is None:
        call.site.users.record_stranger(_known(call, name), call.address, "login")
        return _login_page(call, wanted, _WRONG, status=401)
    _forget_tries(call, name)
    if call.session is not None:
        call.site.users.end_session(call.session.id)
    response = let_in(call, user, wanted)
    call.site.users.record(user.name, call.address, "login")
    return response


def _known(call: Call, name: str) -> str:
    """The name may be a password that was typed into the wrong field: only names that exist are written down."""
    return name if any(each.name == name for each in call.site.users.users()) else "(unknown)"


def let_in(call: Call, user: User, wanted: str) -> Response:
    """Open a new session, so that a cookie from before the login is worth nothing."""
    token = call.site.users.open_session(user, call.address, call.agent)
    response = redirect(own_path(wanted))
    set_cookie(call, response, call.site.settings.session_cookie, token)
    response.delete_cookie(call.site.settings.visitor_cookie, path="/", secure=call.site.settings.is_tls)
    return response


def logout(call: Call) -> Response:
    session = _session(call)
    call.site.users.end_session(session.id)
    call.site.users.record(session.user.name, call.address, "logout")
    # The provider has a session of its own, which the page then offers to end.
    response = redirect("/login?ended=oidc" if session.user.issuer else "/login")
    response.delete_cookie(call.site.settings.session_cookie, path="/", secure=call.site.settings.is_tls)
    return response


def set_up_form(call: Call) -> Response:
    token = call.query.get("token", "")
    if not (_is_loopback(call.address) and call.site.users.is_set_up_offered(token)):
        return _no_set_up(call)
    return render(call, "set_up.html.j2", "First login", token=token, name="", problem="")


def set_up(call: Call) -> Response:
    token, name = call.form.get("token", ""), call.form.get("name", "")
    if not (_is_loopback(call.address) and call.site.users.is_set_up_offered(token)):
        return _no_set_up(call)
    password = call.form.get("password", "")
    problem = "" if password == call.form.get("again", "") else "The two passwords differ."
    if not problem:
        try:
            call.site.users.set_up(token, name, password)
        except UsersError as error:
            problem = str(error)
    if problem:
        return render(call, "set_up.html.j2", "First login", 422, token=token, name=name, problem=problem)
    call.site.users.record(name, call.address, "first user made", name)
    return redirect("/login?after=set-up")


def account(call: Call) -> Response:
    return _account_page(call)


def change_password(call: Call) -> Response:
    user = _session(call).user
    new = call.form.get("new", "")
    if new != call.form.get("again", ""):
        return _account_page(call, "The two new passwords differ.", 422)
    wait_s = _wait_s(call, user.name)
    if wait_s:
        return _account_page(call, f"Too many attempts. Wait {wait_text(wait_s)}.", 429)
    if call.site.users.password_is(user.name, call.form.get("password", "")) is None:
        call.site.users.record(user.name, call.address, "change own password", is_allowed=False)
        return _account_page(call, "The current password is wrong.", 422)
    _forget_tries(call, user.name)
    try:
        call.site.users.set_password(user.name, new)
    except UsersError as error:
        return _account_page(call, str(error), 422)
    call.site.users.record(user.name, call.address, "change own password")
    return redirect("/login?after=password")


def end_own_session(call: Call) -> Response:
    session, wanted = _session(call), call.form.get("id", "")
    own = {each.id for each in call.site.users.sessions() if each.user.name == session.user.name}
    ended = wanted in own and call.site.users.end_session(wanted)
    call.site.users.record(session.user.name, call.address, "end own session", wanted[:12], is_allowed=ended)
    return redirect("/account")


def _account_page(call: Call, problem: str = "", status: int = 200) -> Response:
    session = _session(call)
    own = [each for each in call.site.users.sessions() if each.user.name == session.user.name]
    return render(call, "account.html.j2", "Account", status, sessions=own, problem=problem)


def _session(call: Call) -> Session:
    # The route table gives these pages a role, so that the guard lets nobody else through.
    assert call.session is not None
    return call.session


def _login_page(call: Call, wanted: str, problem: str = "", status: int = 200) -> Response:
    is_new = call.site.users.has_local and call.site.users.is_empty()
    oidc = call.site.oidc
    return render(
        call,
        "login.html.j2",
        "Log in",
        status,
        next=wanted,
        problem=problem,
        is_new=is_new,
        has_local=call.site.users.has_local,
        oidc_name="" if oidc is None else oidc.settings.shown_name,
        oidc_address=f"{BEGIN_PATH}?next={quote(own_path(wanted))}",
        end_address=oidc.end_address(origin(call)) if oidc is not None and call.query.get("ended") == "oidc" else "",
    )


def origin(call: Call) -> str:
    """Return the address of the pages as this browser calls it, without a slash at its end."""
    settings = call.site.settings
    return own_origin(call.headers.get("host", ""), is_tls=settings.is_tls) + settings.base_path


def _too_many(call: Call, wanted: str, wait_s: float) -> Response:
    response = _login_page(call, wanted, f"Too many attempts. Wait {wait_text(max(wait_s, 1))}, then try again.", 429)
    response.headers["Retry-After"] = str(int(wait_s) + 1)
    return response


def _no_set_up(call: Call) -> Response:
    return render(call, "no_set_up.html.j2", "This link does not work", 404)


def _wait_s(call: Call, name: str) -> float:
    """0 if this try may go on. The address comes first: an address that has to wait does not make an account wait."""
    now_s = call.site.settings.monotonic_s()
    return call.site.addresses.begin(address_key(call.address), now_s) or call.site.accounts.begin(name, now_s)


def _forget_tries(call: Call, name: str) -> None:
    """Who knows one password may try others from the same address: only this try of the address is taken back."""
    call.site.accounts.forget(name)
    call.site.addresses.take_back(address_key(call.address))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
