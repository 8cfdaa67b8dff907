"""`make audit`: asks for known vulnerabilities of each pinned release, and says of which nothing could be learnt."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
_PINNED: Final = ROOT / "requirements" / "dev.txt"
_AUDITOR: Final = ROOT / "requirements" / "pip-audit.txt"
NONE_KNOWN, KNOWN, NOT_ASKED = 0, 1, 3


def judged(report: Any) -> tuple[int, list[str]]:
    """Return the exit status and what to print, from pip-audit's JSON."""
    releases = report["dependencies"]
    asked = [each for each in releases if "skip_reason" not in each]
    known = [
        f"{each['name']} {each['version']}: {hole['id']}, mended in {', '.join(hole['fix_versions']) or 'no release'}"
        for each in asked
        for hole in each["vulns"]
    ]
    lines = [*known, f"{len(known)} known vulnerabilities in the {len(asked)} releases that could be asked for"]
    if left := len(releases) - len(asked):
        lines.append(f"nothing could be learnt of {left} other releases: the package index does not tell of them")
    return KNOWN if known else NOT_ASKED if left else NONE_KNOWN, lines


def main() -> int:
    with tempfile.TemporaryDirectory() as made:
        tools, found = Path(made, "tools"), Path(made, "found.json")
        python = tools / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", tools], check=True)
        pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
        subprocess.run([*pip, "--require-hashes", "--requirement", _AUDITOR], check=True)
        done = subprocess.run(
            (
                *(python, "-m", "pip_audit", "--requirement", _PINNED, "--disable-pip", "--require-hashes"),
                *("--progress-spinner", "off", "--format", "json", "--output", found),
            ),
            capture_output=True,
            text=True,
            check=False,
        )
        if not found.exists() or not found.stat().st_size:
            why = (done.stderr.strip().splitlines() or ["no reason told"])[-1]
            sys.stderr.write(f"nothing could be learnt of any release: {why}\n")
            return NOT_ASKED
        status, lines = judged(json.loads(found.read_text()))
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
