"""The browser of ZooKeeper: one znode, read on demand, with its children, its data and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from highwater.monitor.model import Snapshot
from highwater.monitor.web.byte_texts import FORMS, byte_text
from highwater.monitor.web.pages import look, render
from highwater.monitor.web.routing import Call
from highwater.monitor.web.tables import arrange
from highwater.monitor.web.zookeeper_tables import servers_table
from highwater.monitor.zookeeper.address import child_path, parents_of
from highwater.monitor.zookeeper.changes import session_text
from highwater.monitor.zookeeper.meaning import Meaning, meaning, title
from highwater.monitor.zookeeper.znode import Child, NoSuchZnodeError, NotAZnodePathError, Znode, ZooKeeperError

_SECTION: Final = "/zookeeper"
_STATUS_OF: Final[dict[type[ZooKeeperError], int]] = {NotAZnodePathError: 400, NoSuchZnodeError: 404}
_LONGEST_TEXT: Final = 32 * 1024
_KRAFT_SOURCE: Final = "kafka controller"
_NOT_NAMED: Final = (
    "The monitor's configuration names no ZooKeeper. If the cluster has one, give the address that brokers have as "
    "zookeeper.connect: zookeeper: HOST:PORT in the monitor's file, or --zookeeper HOST:PORT."
)
_QUORUM: Final = (
    "This cluster has no ZooKeeper: its controllers are a quorum of their own (KRaft), and keep the metadata."
)


@dataclass(frozen=True, slots=True)
class ChildRow:
    """A child as the page shows it."""

    name: str
    path: str
    title: str
    child: Child

    @property
    def owner(self) -> str:
        return (
            session_text(self.child.stat.ephemeralOwner) if self.child.stat and self.child.stat.ephemeralOwner else ""
        )


def browser(call: Call) -> Response:
    """Asks ZooKeeper, unlike all pages of the cluster; the page does not read itself again."""
    seen = look(call)
    snapshot = seen.snapshot if seen else None
    values: dict[str, Any] = {
        "section": _SECTION,
        "seen": seen,
        "zookeeper": snapshot.zookeeper if snapshot else None,
        "servers": arrange(servers_table(snapshot), call.query, "servers.") if snapshot else None,
        "path": _path(call),
        "trail": [],
        "znode": None,
        "problem": "",
        "contains": call.query.get("find", ""),
    }
    reader = call.site.zookeeper
    if reader is None:
        return render(call, "zookeeper.html.j2", "ZooKeeper", absent=_absent(snapshot), address="", **values)
    status = 200
    try:
        znode = _read(call)
    except ZooKeeperError as error:
        status = _STATUS_OF.get(type(error), 503)
        values["problem"] = str(error)
    else:
        form, text, cut = byte_text(znode.data, call.query.get("as", ""), _LONGEST_TEXT)
        values |= {
            "trail": parents_of(znode.path),
            "znode": znode,
            "meaning": meaning(znode.path, znode.data),
            "rows": [_row(znode, each) for each in znode.children],
            "stat": znode.stat,
            "owner": session_text(znode.stat.ephemeralOwner) if znode.stat.ephemeralOwner else "",
            "form": form,
            "forms": FORMS,
            "text": text,
            "cut": cut,
        }
    return render(call, "zookeeper.html.j2", "ZooKeeper", status, absent="", address=reader.address, **values)


def znode_as_json(call: Call) -> Response:
    seen = look(call)
    if call.site.zookeeper is None:
        return JSONResponse({"error": _absent(seen.snapshot if seen else None)}, 404)
    try:
        znode = _read(call)
    except ZooKeeperError as error:
        status = _STATUS_OF.get(type(error), 503)
        return JSONResponse({"error": str(error)}, status)
    said: Meaning | None = meaning(znode.path, znode.data)
    return JSONResponse(
        {
            "path": znode.path,
            "meaning": [said.title, said.purpose, *said.sentences] if said else [],
            "data": znode.data.decode("utf-8", "replace"),
            "data_note": znode.data_note,
            "stat": znode.stat._asdict(),
            "children": [each.name for each in znode.children],
            "matching": znode.matching_children,
            "page": znode.page,
            "pages": znode.pages,
        }
    )


def _read(call: Call) -> Znode:
    assert call.site.zookeeper is not None
    page = call.query.get("page", "")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 10 else 1
    return call.site.zookeeper.read(_path(call), call.query.get("find", ""), number)


def _path(call: Call) -> str:
    return call.query.get("path", "") or "/"


def _row(znode: Znode, child: Child) -> ChildRow:
    path = child_path(znode.path, child.name)
    return ChildRow(child.name, path, title(path), child)


def _absent(snapshot: Snapshot | None) -> str:
    return _QUORUM if snapshot is not None and _KRAFT_SOURCE in snapshot.sources else _NOT_NAMED
