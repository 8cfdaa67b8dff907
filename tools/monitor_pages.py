"""Times every page of the monitor over a made-up cluster of 10,000 topics and 10,000 groups.

    python -m tools.monitor_pages --rounds 200 [--collect-garbage]

Requests go to the ASGI app in this process, with a session, in turns over all pages; the network is left out. As in the
monitor, the snapshot is kept out of garbage collection; `--collect-garbage` shows what that is worth. The history has
two years of a few brokers, topics and groups, the names of all, and 100,000 events. Printed are median and 99th
percentile of each page, and the memory of this process. Exit status 1: a page takes 200 ms or longer at the 99th
percentile. Files with all rows are shown, and not judged.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from highwater.common.units import count_text, significant, size_text
from highwater.monitor.figures.cluster import derive
from highwater.monitor.garbage import GarbageKeeper
from highwater.monitor.history.database import open_history
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.passwords import ScryptCost
from highwater.monitor.users import Role, Users
from highwater.monitor.web.app import make_app
from highwater.monitor.web.site import Settings
from tests.monitor.clusters import LARGE, window
from tools.monitor_history import fill

_GOAL_MS: Final = 200.0
_TICKS: Final = 3
_PASSWORD: Final = "of no worth to anybody"  # noqa: S105 - of a user who exists for this benchmark
PAGES: Final = (
    "/",
    "/brokers",
    "/broker?id=1",
    "/topics",
    "/topics?sort=-skew&q=rate>10",
    "/topics?q=region-0012&page=2",
    "/topic?name=__consumer_offsets",
    "/groups",
    "/groups?q=lag>500&sort=-lag_time",
    "/group?name=billing-00017",
    "/alerts",
    "/events",
    "/broker?id=1&range=30d",
    "/explorer?kind=topic&metric=size_bytes&name=region-0012",
    "/explorer?s1=cluster:end_offsets.rate:synthetic&s2=cluster:lag:synthetic&range=1h",
    "/explorer?s1=broker:bytes_in.rate:0&s2=broker:bytes_in.rate:1&s3=broker:size_bytes:0&s4=broker:size_bytes:1&range=30d",
    "/explorer?s1=broker:bytes_in.rate:0&s2=broker:bytes_in.rate:1&s3=broker:size_bytes:0&s4=broker:size_bytes:1&range=2y",
    "/about",
    "/users",
    "/account",
    "/api/v1/topics",
    "/api/v1/topics?rows=1000",
)
_FILES: Final = ("/csv/topics", "/csv/groups")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--collect-garbage", action="store_true")
    arguments = parser.parse_args()
    snapshots = window(LARGE, _TICKS)
    view = (snapshots[-1], derive(snapshots))
    with tempfile.TemporaryDirectory() as folder:
        users = Users(Path(folder) / "users.db", cost=ScryptCost(log2_n=4))
        users.add("admin", _PASSWORD, Role.ADMIN)
        user = users.password_is("admin", _PASSWORD)
        assert user is not None
        token = users.open_session(user, "", "")
        database = open_history("sqlite", Path(folder))
        fill(database, view[0])
        app = make_app(lambda: view, HistoryReader(database), users, Settings(now_ms=lambda: view[0].taken_at_ms))
        with nullcontext() if arguments.collect_garbage else GarbageKeeper() as keeper:
            if keeper is not None:
                keeper.settle()
            times = asyncio.run(_times(app, token, arguments.rounds))
        users.close()
        database.close()
    sys.exit(_printed(times))


async def _times(app: Any, token: str, rounds: int) -> dict[str, tuple[list[float], int]]:
    """Milliseconds of each address, and the bytes of its body."""
    found: dict[str, tuple[list[float], int]] = {address: ([], 0) for address in (*PAGES, *_FILES)}
    for _ in range(rounds):
        for address in found:
            begin = time.perf_counter()
            size_bytes = await _get(app, address, token)
            found[address][0].append(1000 * (time.perf_counter() - begin))
            found[address] = (found[address][0], size_bytes)
    return found


async def _get(app: Any, address: str, token: str) -> int:
    path, _, query = address.partition("?")
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost"), (b"cookie", b"highwater=" + token.encode())],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    await app(scope, receive, send)
    if sent[0]["status"] != 200:
        raise SystemExit(f"{address} answered {sent[0]['status']}")
    return sum(len(message.get("body", b"")) for message in sent[1:])


def _printed(times: dict[str, tuple[list[float], int]]) -> int:
    table = Table("address", "median ms", "p99 ms", "longest ms", "size")
    slow = 0
    for address, (samples, size_bytes) in times.items():
        p99 = percentile(samples, 0.99)
        slow += p99 >= _GOAL_MS and address in PAGES
        figures = (statistics.median(samples), p99, max(samples))
        table.add_row(address, *(significant(each) for each in figures), size_text(size_bytes))
    console = Console()
    console.print(table)
    rss_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    console.print(f"{count_text(len(next(iter(times.values()))[0]))} rounds; peak RSS {size_text(rss_bytes)}")
    return 1 if slow else 0


def percentile(samples: Sequence[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


if __name__ == "__main__":
    main()
