"""Wheels with the hot modules as machine code, for each Python and processor, made on one machine.

The mypyc of each Python writes the C, which differs between versions. Zig's C compiler, a wheel of PyPI, compiles it
for both processors, against the C library of 2012 (manylinux_2_17). Headers come from builds of CPython on Maven
Central, pinned by SHA-256: those of one processor serve both, as their pyconfig.h differ only in what CPython itself is
built with.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import sys
import tomllib
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from highwater.bench.maven import check_files, maven, read_table
from highwater.bench.user_cache import cached
from highwater.bench.user_cache import run_step as run_of_maven
from tools.release.archives import read_wheel, write_wheel
from tools.release.building import ROOT, Build, release_tools, run
from tools.release.pins import installed_with, pinned
from tools.release.places import program_of, program_of_debian

TABLE: Final = ROOT / "tools/release/cpython.sha256"
MACHINES: Final = ("x86_64", "aarch64")
_C_LIBRARY: Final = "2.17"
_OPTIONS: Final = ("-O3", "-g0", "-fPIC", "-shared", "-s", "-w", "-DNDEBUG", "-fwrapv", "-fno-strict-aliasing")
# The extensions, as names and sources; a list of C files would not say which belong together.
_WRITE_C: Final = """
import mypyc, sys
from mypyc.build import mypycify
options = ["--config-file=", "--strict", "--ignore-missing-imports", f"--cache-dir={sys.argv[1]}/types"]
print("runtime", f"{mypyc.__path__[0]}/lib-rt")
for made in mypycify([*options, *sys.argv[2:]], target_dir=f"{sys.argv[1]}/c"):
    print("extension", made.name, *made.sources)
"""


class Extension(NamedTuple):
    name: str
    sources: tuple[str, ...]


class _Written(NamedTuple):
    """The C of one version of Python, and where its includes are."""

    version: str
    extensions: list[Extension]
    includes: tuple[Path, ...]


def versions() -> list[str]:
    """Those of which there are headers."""
    return [".".join(name.split("-")[1].split(".")[:2]) for name in sorted(read_table(TABLE))]


def left_out() -> str:
    """The versions for which this machine writes no C; empty if there are none."""
    missing = [version for version in versions() if _program(version) is None]
    return f"compiled wheels for Python {', '.join(missing)}: there is no such Python here" if missing else ""


def _program(version: str) -> str | None:
    return program_of(version) or program_of_debian(version)


def compiled_wheels(build: Build) -> list[Path]:
    """Needs the pure wheel in `build.out`, to which each adds machine code."""
    (pure,) = build.out.glob("*-py3-none-any.whl")
    files = read_wheel(pure)
    headers, tools = _headers(), release_tools()

    def wheel(written: _Written, machine: str) -> Path:
        return _assemble(build, files, _compile(build, written, machine, headers, tools), written.version, machine)

    programs = {version: program for version in versions() if (program := _program(version))}
    # One after the other, and before compilers run: each imports mypy.
    written = [_write_c(build, version, program) for version, program in programs.items()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = [pool.submit(wheel, each, machine) for each in written for machine in MACHINES]
        return [each.result() for each in waiting]


def _write_c(build: Build, version: str, program: str) -> _Written:
    listed = runpy.run_path(str(build.source / "common/compiled.py"))
    paths = [f"{name.replace('.', '/')}.py" for name in listed["MODULES"]]
    native = [Extension(name, (f"{name.replace('.', '/')}.c",)) for name in listed["NATIVE"]]
    mypyc = _mypyc(version, program)
    # Relative, as its path is in the C.
    folder = f"build/release-{version}"
    lines = build.run(program, "-c", _WRITE_C, folder, *paths, PYTHONPATH=str(mypyc)).splitlines()
    found = [line.split() for line in lines if line.startswith(("runtime ", "extension "))]
    extensions = [Extension(name, tuple(sources)) for kind, name, *sources in found if kind == "extension"]
    (runtime,) = (path for kind, path, *_ in found if kind == "runtime")
    return _Written(version, extensions + native, (Path(runtime), Path(folder, "c")))


def _mypyc(version: str, program: str) -> Path:
    """The folder of mypy and what the modules import, as mypyc reads types there; only pinned files."""

    def make(directory: Path) -> None:
        pip = (program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore")
        strictly = ("--require-hashes", "--only-binary", ":all:", "--target", directory)
        # mypycify is an extension of setuptools, which is among the tools.
        listed = ("--requirement", ROOT / "requirements/tools.txt", "--requirement", hashed(directory))
        run(directory, *pip, *strictly, *listed)

    def hashed(directory: Path) -> Path:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        wanted = [*project["dependencies"], *project["optional-dependencies"]["compile"]]
        names = (name for name, _ in installed_with(wanted))
        path = directory / "needed.txt"
        path.write_text(pinned(names, ROOT / "requirements/dev.txt"))
        return path

    read = [(ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "requirements/dev.txt")]
    digest = hashlib.sha256("".join(read).encode()).hexdigest()[:12]
    return cached(f"release-mypyc-folder-{version}-{digest}", f"installing mypy for Python {version}", make)


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


def _compile(build: Build, written: _Written, machine: str, headers: Path, tools: Path) -> dict[str, bytes]:
    version = written.version
    suffix = f".cpython-{version.replace('.', '')}-{machine}-linux-gnu.so"
    place = build.scratch / f"{version}-{machine}"
    target = ("-target", f"{machine}-linux-gnu.{_C_LIBRARY}")
    includes = [f"-I{path}" for path in (headers / f"python{version}", *written.includes)]
    found = {}
    for extension in written.extensions:
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
