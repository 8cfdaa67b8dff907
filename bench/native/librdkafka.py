"""librdkafka's C tools and tests, built from the sources in the npm package node-rdkafka.

`python -m highwater.bench.native.librdkafka` prints the folder:
`examples/rdkafka_performance` is built and stands alone, `src/` and
`src-cpp/` are built, `tests/` holds the sources of librdkafka's own test runner.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Final

from highwater.bench.user_cache import cached, main_of, need, run_step
from highwater.common.errors import UsageError

NODE_RDKAFKA: Final = "3.6.1"
VERSION: Final = "2.12.0"
_INTEGRITY: Final = "sfpTbrT35429cs0RE8Yb9avGX9BiRRvpV7aweQsghKTjtrVZP3jBrKOPItWXAqHb8doyh3SkuGuUVBLgig1SRg=="
_SOURCES: Final = "package/deps/librdkafka"


def librdkafka_directory() -> Path:
    """Fetched, checked and built on first use. Raises UsageError when this host lacks what that takes."""
    return cached(f"librdkafka-{VERSION}", f"librdkafka {VERSION}: fetched and built, about 2 minutes", _make)


def rdkafka_performance() -> Path:
    return librdkafka_directory() / "examples" / "rdkafka_performance"


def _make(directory: Path) -> None:
    npm = need("npm", "npm", "fetches librdkafka's sources")
    for tool in ("gcc", "g++", "make"):
        need(tool, "build-essential", "builds librdkafka")
    run_step([npm, "pack", "--silent", f"node-rdkafka@{NODE_RDKAFKA}"], directory)
    package = directory / f"node-rdkafka-{NODE_RDKAFKA}.tgz"
    if (found := base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()) != _INTEGRITY:
        raise UsageError(f"node-rdkafka {NODE_RDKAFKA} is not what was published: its sha512 is {found}")
    stripped = f"--strip-components={_SOURCES.count('/') + 1}"
    run_step(["tar", "--extract", "--no-same-owner", stripped, f"--file={package}", _SOURCES], directory)
    package.unlink()
    # Neither is needed on loopback; without them the build needs nothing but a compiler.
    run_step(["./configure", "--disable-curl", "--disable-sasl"], directory)
    run_step(["make", f"-j{os.cpu_count() or 1}", "libs"], directory)
    run_step(["make", "-C", "examples", "rdkafka_performance"], directory)


if __name__ == "__main__":
    main_of("librdkafka", librdkafka_directory)
