"""The search over all names: brokers, topics, groups, clients, hosts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from highwater.common.units import plural
from highwater.monitor.figures.cluster import Figures
from highwater.monitor.figures.rows import Level
from highwater.monitor.model import Snapshot
from highwater.monitor.web import words
from highwater.monitor.web.pages import Seen, of_cluster, redirect, render_cluster
from highwater.monitor.web.routing import Call

PATH: Final = "/search"
_MOST: Final = 20
"""The most names of a kind that a page lists."""


class Thing(NamedTuple):
    """Something that can be searched for."""

    address: str
    name: str
    others: tuple[str, ...] = ()
    """What it is found by too."""
    note: str = ""
    level: Level | None = None
    state: str = ""
    """How it stands, in words; empty for what has no state of its own."""


class FoundNames(NamedTuple):
    title: str
    things: Sequence[Thing]
    """The best ones first."""
    left_out: int


@of_cluster(PATH)
def search_page(call: Call, seen: Seen) -> Response:
    """Show what has the text in a name; the only thing that has this very name, at once."""
    text = call.query.get("q", "").strip()
    found = search(text, seen.snapshot, seen.figures)
    same = {each.address for kind in found for each in kind.things if _rank(text.casefold(), each) == 0}
    if len(same) == 1:
        return redirect(same.pop())
    many = sum(len(kind.things) + kind.left_out for kind in found)
    return render_cluster(
        call, seen, "search.html.j2", "Search", PATH, text=text, found=found, many=plural(many, "name")
    )


def search(text: str, snapshot: Snapshot, figures: Figures) -> list[FoundNames]:
    """Return what has `text` in a name, in capitals or not; nothing for an empty text."""
    if not text:
        return []
    kinds = {
        "Brokers": [
            Thing(
                f"/broker?id={node_id}",
                f"broker {node_id}",
                (str(node_id), each.address),
                each.address,
                row.level,
                "alive" if row.is_alive else "gone",
            )
            for node_id, each in snapshot.brokers.items()
            if (row := figures.brokers[node_id])
        ],
        "Topics": [
            Thing(_address("/topic", name), name, level=topic.level, state=words.health(topic.health))
            for name in snapshot.topics
            if (topic := figures.topics[name])
        ],
        "Groups": [
            Thing(_address("/group", name), name, level=group.level, state=words.VERDICT_WORDS[group.verdict])
            for name in snapshot.groups
            if (group := figures.groups[name])
        ],
        "Clients": _clients(snapshot),
        "Hosts": [Thing(_address("/host", name), name) for name in snapshot.hosts],
    }
    return [found for title, things in kinds.items() if (found := _found(title, text.casefold(), things)).things]


def _clients(snapshot: Snapshot) -> Iterable[Thing]:
    """Members of groups; those of one group with one name are one client."""
    return dict.fromkeys(
        Thing(_address("/group", name), member.client_id, (member.host,), f"on {member.host}, in group {name}")
        for name, group in snapshot.groups.items()
        for member in group.members
    )


def _address(path: str, name: str) -> str:
    return f"{path}?name={quote(name, safe='')}"


def _found(title: str, text: str, things: Iterable[Thing]) -> FoundNames:
    ranked = sorted((rank, each.name, each) for each in things if (rank := _rank(text, each)) is not None)
    return FoundNames(title, [each for _, _, each in ranked[:_MOST]], max(0, len(ranked) - _MOST))


def _rank(text: str, thing: Thing) -> int | None:
    """0 if it is the very name, 1 if a name begins so, 2 if the text is within one; None if it is in none."""
    names = [name.casefold() for name in (thing.name, *thing.others)]
    if text in names:
        return 0
    if thing.address.startswith("/broker"):
        names = names[1:]  # all of them begin with "broker"
    if any(name.startswith(text) for name in names):
        return 1
    return 2 if any(text in name for name in names) else None
