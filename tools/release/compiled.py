"""Wheels with the hot modules as machine code, for each Python and processor, made on one machine.

mypyc writes the C once, for this Python and newer ones. Zig's C compiler, a wheel of PyPI, compiles it for each,
against the C library of 2012 (manylinux_2_17). Headers come from builds of CPython on Maven Central, pinned by SHA-256:
those of one processor serve both, as their pyconfig.h differ only in what CPython itself is built with.
"""

from __future__ import annotations

import os
import runpy
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from highwater.bench.maven import check_files, maven, read_table
from highwater.bench.user_cache import cached
from highwater.bench.user_cache import run_step as run_of_maven
from tools.release.archives import read_wheel, write_wheel
from tools.release.building import ROOT, Build, release_tools, run

TABLE: Final = ROOT / "tools/release/cpython.sha256"
MACHINES: Final = ("x86_64", "aarch64")
_C_LIBRARY: Final = "2.17"
_OPTIONS: Final = ("-O3", "-g0", "-fPIC", "-shared", "-s", "-w", "-DNDEBUG", "-fwrapv", "-fno-strict-aliasing")
# The extensions, as names and sources; a list of C files would not say which belong together.
_WRITE_C: Final = """
import runpy, sys
from mypyc.build import mypycify
options = ["--config-file=", "--strict", "--ignore-missing-imports", f"--cache-dir={sys.argv[1]}/types"]
for made in mypycify([*options, *sys.argv[2:]], target_dir=f"{sys.argv[1]}/c"):
    print("extension", made.name, *made.sources)
"""


class Extension(NamedTuple):
    name: str
    sources: tuple[str, ...]


def pythons() -> dict[str, str]:
    """The jar of each version of Python: those for which this one can write C."""
    found = {name.split("-")[1]: name for name in read_table(TABLE)}
    here = sys.version_info[:2]
    versions = {tuple(map(int, full.split(".")[:2])): name for full, name in found.items()}
    return {f"{major}.{minor}": name for (major, minor), name in sorted(versions.items()) if (major, minor) >= here}


def left_out() -> str:
    """The versions that this Python writes no C for; empty if there are none."""
    versions = {".".join(name.split("-")[1].split(".")[:2]) for name in read_table(TABLE)} - pythons().keys()
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    listed = ", ".join(sorted(versions))
    return (
        f"compiled wheels for Python {listed}: mypyc writes C for {here}, which runs it, and newer" if versions else ""
    )


def compiled_wheels(build: Build) -> list[Path]:
    """Needs the pure wheel in `build.out`, to which each adds machine code."""
    (pure,) = build.out.glob("*-py3-none-any.whl")
    files = read_wheel(pure)
    extensions = list(_write_c(build))
    headers, tools = _headers(), release_tools()

    def wheel(version: str, machine: str) -> Path:
        made = _compile(build, extensions, version, machine, headers, tools)
        return _assemble(build, files, made, version, machine)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = [pool.submit(wheel, version, machine) for version in pythons() for machine in MACHINES]
        return [each.result() for each in waiting]


def _write_c(build: Build) -> Iterator[Extension]:
    modules = runpy.run_path(str(build.source / "broker/server/compiled.py"))["MODULES"]
    paths = [f"{name.replace('.', '/')}.py" for name in modules]
    # Relative, as its path is in the C.
    said = build.run(sys.executable, "-c", _WRITE_C, "build/release", *paths)
    for line in said.splitlines():
        if line.startswith("extension "):
            _, name, *sources = line.split()
            yield Extension(name, tuple(sources))


def _headers() -> Path:
    def fetch(directory: Path) -> None:
        jars = directory / "jars"
        program = maven("fetches headers of Python")
        for name in read_table(TABLE):
            version = "-".join(name.split("-")[1:3])
            artifact = f"org.bytedeco:cpython:{version}:jar:linux-x86_64"
            copy = ("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={jars}")
            run_of_maven([program, "-q", "-B", *copy], directory)
        check_files(jars, TABLE, "compare it with the files that others have, and change the table")
        for jar in jars.iterdir():
            with zipfile.ZipFile(jar) as archive:
                for entry in archive.namelist():
                    if "/include/python3" in entry and entry.endswith(".h"):
                        path = directory / entry.partition("/include/")[2]
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_bytes(archive.read(entry))
            jar.unlink()

    digest = run(ROOT, "sha256sum", TABLE)[:12]
    return cached(f"python-headers-{digest}", "fetching headers of Python", fetch)


def _compile(
    build: Build, extensions: list[Extension], version: str, machine: str, headers: Path, tools: Path
) -> dict[str, bytes]:
    runtime = run(ROOT, sys.executable, "-c", "import mypyc; print(mypyc.__path__[0])").strip()
    suffix = f".cpython-{version.replace('.', '')}-{machine}-linux-gnu.so"
    place = build.scratch / f"{version}-{machine}"
    target = ("-target", f"{machine}-linux-gnu.{_C_LIBRARY}")
    includes = ("-I", headers / f"python{version}", "-I", f"{runtime}/lib-rt", "-I", "build/release/c")
    found = {}
    for extension in extensions:
        name = extension.name.replace(".", "/") + suffix
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        compiler = (sys.executable, "-m", "ziglang", "cc", *target, *_OPTIONS, *includes)
        caches = {"ZIG_GLOBAL_CACHE_DIR": str(build.scratch / "zig"), "ZIG_LOCAL_CACHE_DIR": str(build.scratch / "zig")}
        build.run(*compiler, *extension.sources, "-o", path, PYTHONPATH=str(tools), **caches)
        found[name] = path.read_bytes()
    return found


def _assemble(build: Build, files: dict[str, bytes], made: dict[str, bytes], version: str, machine: str) -> Path:
    python = f"cp{version.replace('.', '')}"
    platforms = (f"manylinux_{_C_LIBRARY.replace('.', '_')}_{machine}", f"manylinux2014_{machine}")
    (about,) = (name for name in files if name.endswith(".dist-info/WHEEL"))
    kept = [
        line
        for line in files[about].decode().splitlines()
        if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))
    ]
    tags = [f"Tag: {python}-{python}-{platform}" for platform in platforms]
    changed = "\n".join([*kept, "Root-Is-Purelib: false", *tags, ""]).encode()
    distribution = about.split("/", 1)[0].removesuffix(".dist-info")
    path = build.out / f"{distribution}-{python}-{python}-{'.'.join(platforms)}.whl"
    write_wheel(path, files | made | {about: changed}, build.epoch_s)
    return path
