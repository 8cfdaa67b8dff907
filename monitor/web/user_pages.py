"""Users, their sessions and the audit: pages for admins."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from highwater.monitor.users import Role, UsersError
from highwater.monitor.web.pages import redirect, render
from highwater.monitor.web.routing import Call


def users_page(call: Call) -> Response:
    return _page(call)


def add_user(call: Call) -> Response:
    name = call.form.get("name", "")
    return _change(call, "add user", lambda: call.site.users.add(name, call.form.get("password", ""), _role(call)))


def set_role(call: Call) -> Response:
    return _change(call, "set role", lambda: call.site.users.set_role(call.form.get("name", ""), _role(call)))


def set_password(call: Call) -> Response:
    name, password = call.form.get("name", ""), call.form.get("password", "")
    return _change(call, "set password", lambda: call.site.users.set_password(name, password))


def set_disabled(call: Call) -> Response:
    name, is_disabled = call.form.get("name", ""), call.form.get("disabled") == "yes"
    action = "disable user" if is_disabled else "enable user"
    return _change(call, action, lambda: call.site.users.set_disabled(name, is_disabled))


def remove_user(call: Call) -> Response:
    return _change(call, "remove user", lambda: call.site.users.remove(call.form.get("name", "")))


def end_session(call: Call) -> Response:
    def end() -> None:
        if not call.site.users.end_session(call.form.get("id", "")):
            raise UsersError("This session has ended already.")

    return _change(call, "end session", end)


def _change(call: Call, action: str, change: Callable[[], None]) -> Response:
    """Carries out `change` and writes down who asked for it, also if it is refused."""
    target = call.form.get("name", "") or call.form.get("id", "")[:12]
    try:
        change()
    except UsersError as error:
        _record(call, action, target, is_allowed=False)
        return _page(call, str(error), 422)
    _record(call, action, target, is_allowed=True)
    return redirect("/users")


def _record(call: Call, action: str, target: str, is_allowed: bool) -> None:
    assert call.session is not None
    call.site.users.record(call.session.user.name, call.address, action, target, is_allowed)


def _role(call: Call) -> Role:
    wanted = call.form.get("role", "")
    for role in Role:
        if role.title == wanted:
            return role
    raise UsersError(f"There is no role {wanted!r}. Roles are viewer, operator and admin.")


def _page(call: Call, problem: str = "", status: int = 200) -> Response:
    users = call.site.users
    return render(
        call,
        "users.html.j2",
        "Users",
        status,
        users=users.users(),
        has_local=users.has_local,
        sessions=users.sessions(),
        audit=users.audit(100),
        roles=[role.title for role in Role],
        problem=problem,
    )
