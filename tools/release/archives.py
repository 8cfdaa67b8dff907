"""Archives of which two builds are the same bytes: sorted names, one time, one owner, plain modes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

_MODE = 0o644


def read_wheel(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def write_wheel(path: Path, files: Mapping[str, bytes], epoch_s: int) -> None:
    """Write the files with a RECORD of their own, which comes last."""
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    lines = [
        f"{name},sha256={_urlsafe(hashlib.sha256(content).digest())},{len(content)}\n"
        for name, content in sorted(files.items())
        if name != record
    ]
    ordered = [(name, content) for name, content in sorted(files.items()) if name != record]
    ordered.append((record, "".join([*lines, f"{record},,\n"]).encode()))
    # The earliest time that a zip file can hold is that of 1980.
    moment = time.gmtime(max(epoch_s, 315_532_800))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in ordered:
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100000 | _MODE) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=9)


def _urlsafe(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def rewrite_tar(
    path: Path, epoch_s: int, change: Callable[[Mapping[str, bytes]], Mapping[str, bytes]] = lambda _: {}
) -> None:
    """Write a .tar.gz anew, so that nothing of this machine is in it.

    change: gets the files by name, and returns those that get another content.
    """
    packed = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        # In the order of the archive, as going back in it is to unpack it anew.
        files = {member.name: _content(old, member) for member in old.getmembers() if member.isfile()}
        files.update(change(files))
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.linkname, entry.mtime = member.type, member.linkname, epoch_s
            entry.size = len(files.get(member.name, b""))
            entry.mode = 0o755 if member.isdir() else _MODE
            new.addfile(entry, io.BytesIO(files[member.name]) if member.isfile() else None)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=epoch_s) as compressed:
        compressed.write(packed.getvalue())


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""
