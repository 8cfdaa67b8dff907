"""The software bill of materials of an artefact, as CycloneDX JSON: what it is, and all that pip installs with it."""

from __future__ import annotations

import sys
import tomllib
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tools.release.building import Build, release_tools
from tools.release.pins import installed_with


class Part(NamedTuple):
    """kind: pypi or deb."""

    kind: str
    name: str
    version: str
    architecture: str = ""


def write_bill(artefact: Path, digest: str, build: Build, parts: Iterable[Part] = ()) -> Path:
    """Write it beside the artefact. parts: what is in it; otherwise what pip installs with it, as the tests have it."""
    sys.path.append(str(release_tools()))
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.model.license import LicenseExpression
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion
    from packageurl import PackageURL

    project = tomllib.loads((build.source / "pyproject.toml").read_text("utf-8"))["project"]
    ours = Component(
        name=project["name"],
        version=build.version,
        type=ComponentType.APPLICATION,
        purl=PackageURL("pypi", None, project["name"], build.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        licenses=[LicenseExpression(project["license"])],
        bom_ref=artefact.name,
    )
    # Two builds of the same file have the same number.
    bill = Bom(
        metadata=BomMetaData(component=ours, timestamp=datetime.fromtimestamp(build.epoch_s, UTC)),
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, digest),
    )
    for part in [*parts] or [Part("pypi", *each) for each in installed_with(project["dependencies"])]:
        of_debian = {"arch": part.architecture} if part.kind == "deb" else None
        locator = PackageURL(part.kind, "debian" if of_debian else None, part.name, part.version, of_debian)
        needed = Component(
            name=part.name,
            version=part.version,
            type=ComponentType.LIBRARY,
            purl=locator,
            bom_ref=str(locator),
        )
        bill.components.add(needed)
        bill.register_dependency(ours, [needed])
    path = artefact.with_name(f"{artefact.name}.cdx.json")
    text = make_outputter(bill, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
    path.write_text(text + "\n", "utf-8")
    return path
