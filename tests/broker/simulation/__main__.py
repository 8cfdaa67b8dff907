"""Run histories: `python -m tests.broker.simulation --seeds 0-10000 --jobs 2`, or replay one: `--seed 17 --verbose`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing import Pool

from tests.broker.simulation.history import History, Verdict, replay
from tests.broker.simulation.host import HostHistory

_TOLD_EVERY_S = 5
_LINES_OF_A_FAILURE = 40


def _judge(kind: Callable[..., History], seed: int) -> Verdict:
    logging.getLogger("highwater.broker").setLevel(logging.ERROR)
    verdict = kind(seed).run()
    return verdict if verdict.failure is not None else verdict._replace(history=[])


def _seeds(text: str) -> range:
    first, _, end = text.partition("-")
    return range(int(first), int(end)) if end else range(int(first))


def _order_sets_alike() -> None:
    """Have a seed mean the same in every process: the order of a set of texts hangs on how this process hashes them."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})


def main() -> int:
    _order_sets_alike()
    parser = argparse.ArgumentParser(prog="python -m tests.broker.simulation", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    what = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, help="replay one history and tell it as it goes")
    which.add_argument("--seeds", type=_seeds, help="FIRST-END, or how many from 0 on")
    what.add_argument(
        "--processes", action="store_true", help="of one broker of several processes, with the parent's tree"
    )
    what.add_argument(
        "--mixed-groups", action="store_true", help="with a group in each, whose members change its protocol"
    )
    parser.add_argument(
        "--admin", action="store_true", help="with --mixed-groups: somebody changes its topics, members and settings"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--verbose", action="store_true", help="with what the brokers log")
    options = parser.parse_args()
    if options.admin and not options.mixed_groups:
        parser.error("--admin changes groups: give --mixed-groups too")
    logging.getLogger("highwater.broker").addHandler(logging.NullHandler())
    logging.getLogger("highwater.broker").propagate = False
    kind: Callable[..., History] = HostHistory if options.processes else History
    if options.mixed_groups:
        kind = partial(History, has_acls=False, has_members=True, has_classic_members=True, has_admin=options.admin)
    if options.seed is not None:
        verdict = replay(kind(options.seed, is_told_at_once=True), is_verbose=options.verbose)
        print(_summary([verdict], 0))
        return int(verdict.failure is not None)
    started = told = time.monotonic()
    verdicts: list[Verdict] = []
    with Pool(options.jobs) as pool:
        for verdict in pool.imap_unordered(partial(_judge, kind), options.seeds):
            verdicts.append(verdict)
            if verdict.failure is not None:
                print(f"\nseed {verdict.seed} fails; its last events:")
                print(*verdict.history[-_LINES_OF_A_FAILURE:], sep="\n")
            if time.monotonic() - told >= _TOLD_EVERY_S and sys.stderr.isatty():
                told = time.monotonic()
                print(f"\r{len(verdicts)} of {len(options.seeds)}", end="", file=sys.stderr, flush=True)
    print(_summary(verdicts, time.monotonic() - started))
    failed = sorted(verdict.seed for verdict in verdicts if verdict.failure is not None)
    if failed:
        print("failed seeds:", *failed)
    return int(bool(failed))


def _summary(verdicts: Iterable[Verdict], seconds: float) -> str:
    verdicts = list(verdicts)
    speed = f", {len(verdicts) / seconds:.1f}/s" if seconds else ""
    return (
        f"{len(verdicts)} histories{speed}: {sum(v.simulated_ms for v in verdicts) // 1000} simulated seconds, "
        f"{sum(v.events for v in verdicts)} events, {sum(v.elections for v in verdicts)} elections, "
        f"{sum(v.acknowledged for v in verdicts)} records acknowledged, {sum(v.lost for v in verdicts)} lost in "
        f"unclean elections, {sum(v.failure is not None for v in verdicts)} failed"
    )


if __name__ == "__main__":
    raise SystemExit(main())
