"""What `python -m tests.lab test` runs: the lab itself, the whole story of the playbooks, stories of single matters."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from tests.lab import guests, processes

SELF: Final = "selftest"
WHOLE: Final = "whole"
GUEST: Final = "guest"
_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parent.parent
_STEP_WITHIN_S: Final = 1200
# Without KVM a guest takes twenty minutes for Java and a broker.
_GUEST_WITHIN_S: Final = 5400
_NEEDS_A_KERNEL: Final = "vm.*, fs.*, block queues, swap and fstab at boot (they need a kernel of their own)"


def known() -> dict[str, Path]:
    """Parts in their order; each is on a lab of its own."""
    single = {path.stem.removesuffix("_story"): path for path in sorted(_HERE.glob("*_story.py"))}
    return {SELF: _HERE / "selftest.py", WHOLE: _HERE / "story", **single}


@dataclass(frozen=True)
class Whole:
    """How the whole story is told."""

    quick: bool
    """With one host, without what needs more."""
    keep: bool
    """Leave the lab there afterwards."""
    secure: bool
    """Of clusters with cluster_security: tls."""
    suite: str
    evidence: str
    """A directory; empty for one of the time's name."""
    go_on: str
    """The evidence of one that ended, to go on where it did; or empty."""


def test(parts: Sequence[str], tell: Callable[[str], None], whole: Whole) -> int:
    """Exit status 1 when something does not hold. Raises UsageError where this machine cannot carry a lab."""
    unknown = [part for part in parts if part not in known()]
    if unknown:
        raise UsageError(f"there is no part {unknown[0]!r}, but {', '.join(known())}")
    chosen = list(parts) or ([WHOLE] if whole.quick or whole.secure or whole.go_on else list(known()))
    if whole.go_on and chosen != [WHOLE]:
        raise UsageError(f"only the part {WHOLE} can be gone on with")
    processes.require_root_and_tools({})
    not_covered = "" if GUEST in chosen else f"{_NEEDS_A_KERNEL}; for these: python -m tests.lab test {GUEST}"
    if GUEST in chosen and not parts:
        try:
            processes.require_root_and_tools(guests.TOOLS)
        except UsageError as error:
            chosen.remove(GUEST)
            not_covered = f"{_NEEDS_A_KERNEL}: {error}"
    failed = [part for part in chosen if not _holds(part, tell, whole)]
    if not_covered:
        tell(f"NOT COVERED: {not_covered}")
    tell(f"FAILED: {', '.join(failed)}" if failed else f"all is well: {', '.join(chosen)}")
    return 1 if failed else 0


def _holds(part: str, tell: Callable[[str], None], whole: Whole) -> bool:
    if part != WHOLE:
        # What playbooks take is told as they end.
        within_s = _GUEST_WITHIN_S if part == GUEST else _STEP_WITHIN_S
        options = ("-v", "--capture=no", "-o", f"timeout={within_s}")
        command = [sys.executable, "-m", "pytest", *options, str(known()[part])]
        return subprocess.run(command, cwd=_ROOT, check=False).returncode == 0
    # Only here: it brings clients of Kafka with it.
    from tests.lab.story.telling import tell_story

    directory = Path(
        whole.go_on
        or whole.evidence
        or _ROOT / "results" / f"lab-test-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    )
    if not whole.go_on and directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty; name another directory for the evidence")
    return tell_story(
        directory.resolve(),
        tell,
        quick=whole.quick,
        keep=whole.keep,
        go_on=bool(whole.go_on),
        suite=whole.suite,
        secure=whole.secure,
    )
