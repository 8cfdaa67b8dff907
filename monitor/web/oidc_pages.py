"""Login by OIDC: to the provider, and back from it into a session of the monitor's own."""

from __future__ import annotations

import logging
from typing import Final

from starlette.responses import Response

from highwater.common.listener_rules import address_key
from highwater.common.units import wait_text
from highwater.monitor.oidc.login import OidcLogin, Person
from highwater.monitor.oidc.refusal import Refusal
from highwater.monitor.web.login_pages import BEGIN_PATH, let_in, origin
from highwater.monitor.web.pages import redirect, render, set_cookie
from highwater.monitor.web.request_checks import own_path
from highwater.monitor.web.routing import Call

_ACTION: Final = "login by OIDC"
_LONGEST_PATH: Final = 1000
_LOG: Final = logging.getLogger(__name__)


def begin(call: Call) -> Response:
    wanted = own_path(call.query.get("next", "/"))
    wanted = wanted if len(wanted) <= _LONGEST_PATH else "/"
    if call.session is not None:
        return redirect(wanted)
    to = _oidc(call).begin(address_key(call.address), call.form_token, origin(call), wanted)
    if isinstance(to, Refusal):
        return _refused(call, to)
    response = redirect(to)
    if call.new_visitor:
        set_cookie(call, response, call.site.settings.visitor_cookie, call.new_visitor)
    return response


def come_back(call: Call) -> Response:
    if call.session is not None:
        return redirect("/")
    key = address_key(call.address)
    wait_s = call.site.addresses.begin(key, call.site.settings.monotonic_s())
    if wait_s:
        refusal = Refusal(f"Too many attempts. Wait {wait_text(max(wait_s, 1))}, then try again.", 429)
        response = _refused(call, refusal)
        response.headers["Retry-After"] = str(int(wait_s) + 1)
        return response
    person = _oidc(call).finish(call.query, call.form_token)
    if isinstance(person, Refusal):
        if person.is_of_provider:
            # Nobody who logs in can help it: it is no try of theirs.
            call.site.addresses.take_back(key)
            _LOG.warning("login by OIDC: %s", person.sentence)
        call.site.users.record_stranger("(unknown)", call.address, _ACTION, person.sentence)
        return _refused(call, person)
    user = None if person.role is None else call.site.users.of_provider(person.subject, person.name, person.role)
    if user is None:
        return _not_let_in(call, person)
    call.site.addresses.take_back(key)
    response = let_in(call, user, person.wanted)
    call.site.users.record(user.name, call.address, _ACTION, user.role.title)
    return response


def _not_let_in(call: Call, person: Person) -> Response:
    call.site.users.end_sessions_of(person.subject)
    settings = _oidc(call).settings
    who = f"{person.name} ({person.subject})" if person.name != person.subject else person.subject
    if person.role is not None:
        sentence = f"{who} is disabled here. An admin of the monitor can change that."
    elif person.has_claim:
        sentence = f"{who} has no role here: no value of the claim “{settings.table.claim}” gives one."
    else:
        sentence = f"{who} has no role here: there is no claim “{settings.table.claim}”."
    hint = "" if person.role is not None else " Roles are given at the provider, and by web.oidc.roles of the monitor."
    # Names of the provider are any text: they are written down as what the login was of, and not as a user.
    call.site.users.record_stranger("(unknown)", call.address, _ACTION, sentence)
    return _page(call, f"{settings.shown_name} knows you, but you have no access", sentence + hint, 403)


def _refused(call: Call, refusal: Refusal) -> Response:
    return _page(call, "This login does not work", refusal.sentence, refusal.status)


def _page(call: Call, title: str, sentence: str, status: int) -> Response:
    return render(call, "oidc_refused.html.j2", title, status, sentence=sentence, again=BEGIN_PATH)


def _oidc(call: Call) -> OidcLogin:
    # The routes exist only with a provider.
    assert call.site.oidc is not None
    return call.site.oidc
