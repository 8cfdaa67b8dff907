"""Images for containers, written without a daemon: an archive in the layout of the Open Container Initiative.

The same file has the list that Docker's own archives have, so that older Docker loads it too. Two builds are the same
bytes: sorted names, one time, root as owner of all but what is named.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_TYPE: Final = "application/vnd.oci.image"


@dataclass(frozen=True, slots=True)
class Layer:
    """packed: a tar, compressed. plain_digest: of the tar itself. unpacked: bytes of its files."""

    packed: bytes
    plain_digest: str
    unpacked: int


@dataclass(frozen=True, slots=True)
class Image:
    """For one processor, by Debian's name. config: how it runs, as the specification names it."""

    architecture: str
    layers: tuple[Layer, ...]
    config: Mapping[str, Any]
    created: str

    def blobs(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The descriptor of the image, and all that it consists of by SHA-256."""
        found: dict[str, bytes] = {}

        def add(kind: str, content: bytes) -> dict[str, Any]:
            digest = hashlib.sha256(content).hexdigest()
            found[digest] = content
            return {"mediaType": f"{_TYPE}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

        layers = [add("layer.v1.tar+gzip", layer.packed) for layer in self.layers]
        platform = {"architecture": self.architecture, "os": "linux"}
        details = {
            "created": self.created,
            **platform,
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.plain_digest}" for layer in self.layers]},
            "history": [{"created": self.created, "created_by": "make release"} for _ in self.layers],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}.manifest.v1+json",
            "config": add("config.v1+json", _json(details)),
            "layers": layers,
            "annotations": self.config["Labels"],
        }
        return {**add("manifest.v1+json", _json(manifest)), "platform": platform}, found


def layer_of(root: Path, epoch_s: int, owners: Mapping[str, int]) -> Layer:
    """All below root. owners: user and group of paths that are not root's."""
    plain = io.BytesIO()
    unpacked = 0
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            entry = archive.gettarinfo(path, name)
            # Hard links would depend on which name comes first.
            if entry.islnk():
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
            entry.uid = entry.gid = owners.get(name, 0)
            entry.uname = entry.gname = ""
            entry.mtime = epoch_s
            entry.pax_headers = {}
            if entry.isreg():
                unpacked += entry.size
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    content = plain.getvalue()
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 6, packed, mtime=0) as compressed:
        compressed.write(content)
    return Layer(packed.getvalue(), hashlib.sha256(content).hexdigest(), unpacked)


def write_archive(path: Path, name: str, images: Iterable[Image], epoch_s: int) -> None:
    """One file for `podman load`, `docker load` and skopeo. name: NAME:TAG. Several images: one index of them."""
    descriptors: list[dict[str, Any]] = []
    blobs: dict[str, bytes] = {}
    for image in images:
        descriptor, parts = image.blobs()
        descriptors.append(descriptor)
        blobs |= parts
    files: dict[str, bytes] = {}
    if len(descriptors) == 1:
        (named,) = descriptors
        manifest = json.loads(blobs[named["digest"].partition(":")[2]])
        paths = [f"blobs/{part['digest'].replace(':', '/')}" for part in (manifest["config"], *manifest["layers"])]
        # For Docker before 25, which reads nothing else; it has no list for several processors.
        files["manifest.json"] = _json([{"Config": paths[0], "RepoTags": [name], "Layers": paths[1:]}])
    else:
        index = _json({"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": descriptors})
        digest = hashlib.sha256(index).hexdigest()
        blobs[digest] = index
        named = {"mediaType": f"{_TYPE}.index.v1+json", "digest": f"sha256:{digest}", "size": len(index)}
    names = {"io.containerd.image.name": f"docker.io/library/{name}", "org.opencontainers.image.ref.name": name}
    top = {"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": [{**named, "annotations": names}]}
    files |= {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(top)}
    files |= {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for folder in ("blobs", "blobs/sha256"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, epoch_s
            archive.addfile(entry)
        for inside, content in sorted(files.items()):
            entry = tarfile.TarInfo(inside)
            entry.size, entry.mode, entry.mtime = len(content), 0o644, epoch_s
            archive.addfile(entry, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
