"""Python processes of a drill's driver import from installed files, and daemons import what workers need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from highwater.pipeline.drill.preload import FOLDER


def python(program: str, *arguments: str, path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([FOLDER, str(path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_zipped_library_is_left_out(tmp_path: Path) -> None:
    zipped = tmp_path / "pyspark.zip"
    assert python("import sys; print(*sys.path, sep='\\n')", path=zipped).splitlines().count(str(zipped)) == 0


def test_a_daemon_has_what_its_workers_need(tmp_path: Path) -> None:
    program = "import sys; print('highwater.pipeline.source.data_source' in sys.modules)"
    assert python(program, path=tmp_path) == "False"
    assert python(program, "pyspark.daemon", path=tmp_path) == "True"
