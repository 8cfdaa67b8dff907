"""The file of a pipeline that tests run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SOURCE: Final = """\
sources:
  numbers:
    format: highwater
    options: {subscribe: TOPIC, startingOffsets: earliest, maxOffsetsPerTrigger: 100}
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(f"name: test\nstorage: state\nkafka: {{bootstrap.servers: '${{BROKER}}'}}\n{text}")
    return file
