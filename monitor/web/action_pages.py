"""Actions: a form, a page that shows what would change, and a page that says what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from highwater.monitor.actions import election, offsets, settings
from highwater.monitor.actions.acting import Actions, ChangedMeanwhileError
from highwater.monitor.actions.plan import ActionError, Outcome, Plan
from highwater.monitor.events import Event, EventKind
from highwater.monitor.users import Role, User
from highwater.monitor.web.pages import render
from highwater.monitor.web.routing import Call
from highwater.monitor.web.setting_words import setting_text
from highwater.monitor.web.tables import address

ROOT: Final = "/actions/"
_CONFIRMED: Final = "confirmed"
_MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    note: str = ""
    choices: tuple[str, ...] = ()
    """The values to choose from; empty for a text field."""
    is_long: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    title: str
    lead: str
    section: str
    fields: tuple[Field, ...]


_PARTITIONS: Final = Field("partitions", "Partitions", "such as 0,1,2; all if it is empty")
FORMS: Final[Mapping[str, Form]] = {
    "election": Form(
        "Elect leaders",
        "Preferred: the first replica leads, if it is in sync; nothing is lost. Unclean: a partition without a leader "
        "gets one that is not in sync, and the records that it lacks are lost.",
        "/topics",
        (
            Field("topic", "Topic", "all topics if it is empty"),
            _PARTITIONS,
            Field("kind", "Election", choices=election.KINDS),
        ),
    ),
    "reassignment": Form(
        "Move replicas",
        "Data are copied while the topic is used. Name brokers, and replicas are spread evenly with few moves; or "
        "write for each partition which brokers are to have it.",
        "/topics",
        (
            Field("topic", "Topic"),
            Field("brokers", "Spread over brokers", "such as 1,2,3; all that are alive if it is empty"),
            Field("replicas", "Or replicas of each partition", "a line for each, such as 0: 1,2", is_long=True),
            Field("throttle", "Throttle", "in and out of each broker per second, such as 50MiB; none if it is empty"),
        ),
    ),
    "reassignment-check": Form(
        "Check moves, and remove their throttle",
        "Shows what still moves. When all moves are done, their throttle is removed: without that, replicas that fall "
        "behind later would catch up slowly.",
        "/topics",
        (),
    ),
    "reassignment-cancel": Form(
        "Cancel moves",
        "Partitions stay on the brokers where they were before the move; what the others have copied is deleted.",
        "/topics",
        (Field("topic", "Topic", "all moves if it is empty"), _PARTITIONS),
    ),
    "offsets": Form(
        "Set the offsets of a group",
        "The group must have no members. It goes on from the new offsets when its consumers start again.",
        "/groups",
        (
            Field("group", "Group"),
            Field("topic", "Topic", "every topic that the group has committed if it is empty"),
            _PARTITIONS,
            Field("goal", "To", choices=offsets.GOALS),
            Field("value", "Offset, time or shift", "such as 1200, 2026-01-31T12:00:00 in UTC, or -100"),
        ),
    ),
    "settings": Form(
        "Change a setting",
        "It is in force at once, and stays. The broker tries it before you confirm.",
        "/topics",
        (
            Field("whose", "Of", choices=settings.WHOSE),
            Field("name", "Topic, or id of the broker"),
            Field("setting", "Setting", "such as retention.ms"),
            Field("operation", "What to do", choices=settings.OPERATIONS),
            Field("value", "Value"),
        ),
    ),
}


def of_topic(call: Call, name: str) -> list[tuple[str, str]]:
    """Links to actions as (address, title); none for who may not act."""
    return _links(
        call,
        ("election", {"topic": name}, "elect leaders"),
        ("reassignment", {"topic": name}, "move replicas"),
        ("reassignment-check", {}, "check moves"),
        ("reassignment-cancel", {"topic": name}, "cancel moves"),
        ("settings", {"whose": settings.OF_TOPIC, "name": name}, "change a setting"),
    )


def of_group(call: Call, name: str) -> list[tuple[str, str]]:
    return _links(call, ("offsets", {"group": name}, "set its offsets"))


def of_broker(call: Call, node_id: int) -> list[tuple[str, str]]:
    return _links(
        call,
        ("settings", {"whose": settings.OF_BROKER, "name": str(node_id)}, "change a setting"),
        ("election", {}, "elect the preferred leaders of all topics"),
    )


def _links(call: Call, *wanted: tuple[str, Mapping[str, str], str]) -> list[tuple[str, str]]:
    if call.site.actions is None or call.session is None or call.session.user.role < Role.OPERATOR:
        return []
    return [(address(ROOT + action, query), title) for action, query, title in wanted]


def form(call: Call) -> Response:
    """Asks nothing of the cluster."""
    return _form_page(call, call.query)


def act(call: Call) -> Response:
    """Without a confirmation it shows what would change; with one it carries out what was confirmed."""
    actions, user = _actions(call), _user(call)
    name, fields = _name(call), _own_fields(call)
    digest = call.form.get(_CONFIRMED, "")
    try:
        if not digest:
            return _plan_page(call, actions.plan(user, name, fields))
        made, outcomes = actions.carry_out(user, name, fields, digest, lambda plan: _record(call, plan))
    except ChangedMeanwhileError as error:
        return _plan_page(call, error.plan, str(error), 409)
    except ActionError as error:
        if digest:
            call.site.users.record(user.name, call.address, f"{name}: {error}"[:200], _target(fields), is_allowed=False)
        return _form_page(call, fields, str(error), 422)
    _note(call, made, outcomes)
    return _done_page(call, made, outcomes)


def _form_page(call: Call, values: Mapping[str, str], problem: str = "", status: int = 200) -> Response:
    made = FORMS[_name(call)]
    return render(
        call, "action_form.html.j2", made.title, status, section=made.section, form=made, values=values, problem=problem
    )


def _plan_page(call: Call, plan: Plan, problem: str = "", status: int = 200) -> Response:
    section = FORMS[_name(call)].section
    return render(
        call,
        "action_plan.html.j2",
        plan.title,
        status,
        section=section,
        plan=plan,
        problem=problem,
        confirmed=_CONFIRMED,
        setting_text=setting_text,
        back=address(call.route.path, plan.fields),
    )


def _done_page(call: Call, plan: Plan, outcomes: list[Outcome]) -> Response:
    failed = sum(bool(each.error) for each in outcomes)
    section = FORMS[_name(call)].section
    status = 200 if not failed else 422
    back = {"topic": "/topic?name=", "group": "/group?name=", "broker": "/broker?id="}.get(plan.entity, "")
    return render(
        call,
        "action_done.html.j2",
        plan.title,
        status,
        section=section,
        plan=plan,
        outcomes=outcomes,
        failed=failed,
        entity_path=back.partition("?")[0],
        entity_key=back.partition("?")[2].rstrip("="),
    )


def _record(call: Call, plan: Plan) -> None:
    """Write the action to the audit before its first change, so that an interrupted one is in it too."""
    call.site.users.record(_user(call).name, call.address, _name(call), plan.command)


def _note(call: Call, plan: Plan, outcomes: list[Outcome]) -> None:
    user, changed = _user(call), [each for each in plan.changes if each.is_one]
    failed = [each for each in outcomes if each.error]
    result = "done" if not failed else f"{len(failed)} of {len(outcomes)} failed, the first with: {failed[0].error}"
    text = f"{user.name} ({user.role.title}): {plan.title[0].lower()}{plan.title[1:]}: {result}"
    before, after = (_listed([(each.what, getattr(each, side)) for each in changed]) for side in ("before", "after"))
    now_ms = call.site.settings.now_ms()
    call.site.note(Event(now_ms, EventKind.ACTION, plan.entity, plan.name, text, before, f"{after}; {plan.command}"))
    if failed:
        call.site.users.record(
            user.name, call.address, f"{_name(call)}: {result}"[:200], plan.command, is_allowed=False
        )


def _listed(pairs: list[tuple[str, str]]) -> str:
    more = len(pairs) - _MOST_NAMED
    named = ", ".join(f"{what}: {text}" for what, text in pairs[:_MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named


def _own_fields(call: Call) -> dict[str, str]:
    return {field.name: call.form.get(field.name, "") for field in FORMS[_name(call)].fields}


def _target(fields: Mapping[str, str]) -> str:
    return fields.get("topic") or fields.get("group") or fields.get("name") or ""


def _name(call: Call) -> str:
    return call.route.path.removeprefix(ROOT)


def _actions(call: Call) -> Actions:
    # These routes exist with actions alone.
    assert call.site.actions is not None
    return call.site.actions


def _user(call: Call) -> User:
    assert call.session is not None
    return call.session.user
