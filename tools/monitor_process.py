"""Times pages of a whole monitor process over a made-up large cluster, and its memory, while it ticks.

    python -m tools.monitor_process --ticks 130 [--tick-s 15] [--topics N] [--partitions N]

A process of its own serves as `monitor serve` does: login, history in SQLite, alerts, /metrics. Its snapshots are made
up, which stands for the work with the answers of brokers. The history begins with two years of a few brokers, topics
and groups, the names of all, and 100,000 events. 120 ticks of 15 seconds fill the half hour that figures
remember. With `--tick-s 1` a tick begins as soon as the one before is over: every page is asked for while a tick runs,
and the history falls behind. One reader asks for one page after the other over HTTP, reads /metrics after each round,
and logs in anew after each tick, because a password needs memory too.

Printed are median and 99th percentile of each page, the time of a tick, and the memory of the process. Exit status 1: a
page takes 200 ms or longer at the 99th percentile, or the process had 500 MiB or more at any time.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
import yaml
from rich.console import Console
from rich.table import Table

from highwater.common.units import count_text, percent_text, plural, significant, size_text
from highwater.monitor.config import read_config
from highwater.monitor.history.database import open_history
from highwater.monitor.model import Snapshot
from highwater.monitor.serve_command import serve_from
from highwater.tuning.facts import collect
from tests.monitor.clusters import LARGE, Shape, endless
from tools.monitor_history import fill

_PAGE_MS: Final = 200.0
_MEMORY_BYTES: Final = 500 << 20
_START_S: Final = 300.0
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


class MadeUp:
    """A source that makes up the next snapshot in a thread, as the real one reads answers in a thread."""

    def __init__(self, shape: Shape) -> None:
        self._snapshots = endless(shape)

    async def snapshot(self, number: int) -> Snapshot:
        return await asyncio.to_thread(self._next, number)

    def _next(self, number: int) -> Snapshot:
        now_ms = time.time_ns() // 1_000_000
        made = next(self._snapshots)
        sources = {name: replace(state, as_of_ms=now_ms) for name, state in made.sources.items()}
        return replace(made, number=number, taken_at_ms=now_ms, sources=sources)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", type=int, default=130)
    parser.add_argument("--tick-s", type=int, default=15)
    parser.add_argument("--topics", type=int, default=LARGE.topics)
    parser.add_argument("--partitions", type=int, default=LARGE.partitions)
    parser.add_argument("--groups", type=int, default=LARGE.groups)
    parser.add_argument("--serve", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    shape = replace(LARGE, topics=options.topics, partitions=options.partitions, groups=options.groups)
    if options.serve:
        asyncio.run(serve_from(MadeUp(shape), read_config(Path(options.serve), yaml, {}), {}))
        return
    with (
        tempfile.TemporaryDirectory(prefix="highwater-monitor-process-") as folder,
        _serving(Path(folder), options.tick_s, shape) as child,
    ):
        sys.exit(_measured(child, options.ticks, count_text(shape.partitions)))


class Child:
    """The process that serves, and a connection to it with a session."""

    def __init__(self, process: subprocess.Popen[str], text: str) -> None:
        self.process = psutil.Process(process.pid)
        self._metrics = _found(r"^metrics: http://(\S+)/metrics$", text)
        self._address = _found(r"^monitor of .*: http://(\S+)/$", text)
        self._connection = http.client.HTTPConnection(self._address, timeout=_START_S)
        self._cookies: dict[str, str] = {}
        token = urllib.parse.unquote(_found(r"/setup\?token=(\S+)", text))
        self._post(f"/setup?token={token}", "/setup", token=token, name="ada", password=_PASSWORD, again=_PASSWORD)
        self.log_in()

    def get(self, path: str) -> str:
        return self._ask("GET", path, None)

    def figure(self, name: str) -> float:
        """A value of its page for Prometheus; 0 before there is one."""
        connection = http.client.HTTPConnection(self._metrics, timeout=_START_S)
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        connection.close()
        value = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
        return float(value[1]) if value else 0.0

    def log_in(self) -> None:
        """As somebody without a session, whose password needs memory."""
        self._cookies.clear()
        self._post("/login", "/login", name="ada", password=_PASSWORD)

    def _post(self, form_at: str, to: str, **fields: str) -> None:
        form_token = _found(r'name="form_token" value="([^"]+)"', self.get(form_at))
        self._ask("POST", to, urllib.parse.urlencode({"form_token": form_token, **fields}))

    def _ask(self, method: str, path: str, body: str | None) -> str:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        if body is not None:
            headers |= {
                "Origin": f"http://{self._address}",
                "Content-Type": "application/x-www-form-urlencoded",
            }
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
        except http.client.RemoteDisconnected:  # the server ends connections that wait for long, as for the first tick
            self._connection.close()
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
        for header in answer.headers.get_all("Set-Cookie", []):
            name, _, rest = header.partition("=")
            self._cookies[name] = rest.partition(";")[0]
        text = answer.read().decode()
        if answer.status >= 400:
            raise SystemExit(f"{path} answered {answer.status}: {text[:300]}")
        return text


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise SystemExit(f"nothing matches {pattern} in: {text[:500]}")
    return match[1]


@contextmanager
def _serving(folder: Path, tick_s: int, shape: Shape) -> Iterator[Child]:
    config, log = folder / "monitor.yaml", folder / "log"
    config.write_text(
        f"name: made-up\nbootstrap_servers: 127.0.0.1:9\ntick: {tick_s}s\ndata: data\n"
        "web: {listen: '127.0.0.1:0'}\nmetrics: {listen: '127.0.0.1:0'}\n"
    )
    (folder / "data").mkdir()
    with closing(open_history("sqlite", folder / "data")) as database:
        fill(database, asyncio.run(MadeUp(shape).snapshot(0)))
    command = [sys.executable, "-m", "tools.monitor_process", *sys.argv[1:]]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--serve", str(config)], stdout=output, stderr=subprocess.STDOUT, text=True, env=os.environ
        )
    try:
        _wait(lambda: "history: " in log.read_text() or process.poll() is not None, "the process to serve")
        if process.poll() is not None:
            raise SystemExit(f"the process ended: {log.read_text()[-2000:]}")
        yield Child(process, log.read_text())
    finally:
        process.kill()
        process.wait()


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"waited {_START_S:g} s for {what}")
        time.sleep(0.05)


def _measured(child: Child, ticks: int, partitions: str) -> int:
    _wait(lambda: child.figure("highwater_monitor_ticks_total") >= 1, "the first tick")
    times: dict[str, list[float]] = {address: [] for address in PAGES}
    tick_s: list[float] = []
    done = 1.0
    began_s = time.monotonic()
    while done < ticks:
        for address, samples in times.items():
            asked_s = time.perf_counter()
            child.get(address)
            samples.append(1000 * (time.perf_counter() - asked_s))
        newest = child.figure("highwater_monitor_ticks_total")
        if newest > done:
            done = newest
            tick_s.append(child.figure("highwater_monitor_tick_seconds"))
            child.log_in()
    table, slow = _page_table(times)
    peak_bytes = _peak_bytes(child.process.pid)
    console = Console()
    console.print(table)
    rounds, seen = count_text(len(next(iter(times.values())))), count_text(len(tick_s))
    busy = percent_text(min(1.0, sum(tick_s) / (time.monotonic() - began_s)))
    memory = f"{size_text(child.process.memory_info().rss)}, at most {size_text(peak_bytes)} at any time"
    console.print(
        f"{rounds} rounds over {partitions} partitions, on {_host()}. {seen} ticks seen: "
        f"{significant(statistics.median(tick_s))} s each, with the making of the snapshot. One ran for at least "
        f"{busy} of the time. Resident memory {memory}.",
        soft_wrap=True,
    )
    return 1 if slow or peak_bytes >= _MEMORY_BYTES else 0


def _page_table(times: Mapping[str, Sequence[float]]) -> tuple[Table, bool]:
    """And whether one of the pages is too slow."""
    table = Table("address", "median ms", "p99 ms", "longest ms")
    p99s = {address: _percentile(samples, 0.99) for address, samples in times.items()}
    for address, samples in times.items():
        table.add_row(
            address, *(significant(each) for each in (statistics.median(samples), p99s[address], max(samples)))
        )
    return table, max(p99s.values()) >= _PAGE_MS


def _percentile(samples: Sequence[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _peak_bytes(process_id: int) -> int:
    status = Path(f"/proc/{process_id}/status").read_text("utf-8")
    return 1024 * int(_found(r"^VmHWM:\s+(\d+) kB$", status))


def _host() -> str:
    model = collect().cpu_model or "an unknown processor"
    return f"{model} ({plural(os.cpu_count() or 1, 'processor')}, load average {os.getloadavg()[0]:.1f})"


if __name__ == "__main__":
    main()
