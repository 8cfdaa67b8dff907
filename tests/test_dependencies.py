"""What is depended on: a range, a version, the SHA-256 of its files, a reason in docs/dependencies.md; the audit."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from highwater.studies.history.otava import OTAVA_VERSION
from tests.compat.openid.providers import OIDC_PROVIDER_MOCK
from tests.dependency_audit import judged

ROOT = Path(__file__).parent.parent
PINS = {
    canonicalize_name(name): version
    for name, _, version in (
        line.partition("==")
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
}


def locked(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """The version and the SHA-256 of each release of a file that `make lock` makes."""
    entries = path.read_text("utf-8").replace("\\\n", " ").splitlines()
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for entry in entries:
        if not entry.startswith("#"):
            name, version = re.split("==| ", entry)[:2]
            found[canonicalize_name(name)] = version, frozenset(re.findall("--hash=sha256:([0-9a-f]{64})", entry))
    return found


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def requirements_of(extra: str) -> list[Requirement]:
    """But for those on extras of our own."""
    texts = PROJECT["optional-dependencies"][extra]
    return [found for text in texts if (found := Requirement(text)).name != PROJECT["name"]]


def requirements() -> list[Requirement]:
    core = [Requirement(text) for text in PROJECT["dependencies"]]
    return core + [found for extra in PROJECT["optional-dependencies"] for found in requirements_of(extra)]


def test_every_requirement_has_a_pin_within_its_range() -> None:
    pins = [(wanted, PINS.get(canonicalize_name(wanted.name))) for wanted in requirements()]
    unpinned = [f"{wanted}: {pin}" for wanted, pin in pins if not pin or not wanted.specifier.contains(pin)]
    assert unpinned == []


def test_every_requirement_has_its_reason() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/dependencies.md").read_text("utf-8"), re.MULTILINE)
    told = {canonicalize_name(name) for row in rows for name in re.split(r", | \(", row)}
    assert [wanted.name for wanted in requirements() if canonicalize_name(wanted.name) not in told] == []


LOCKS = {name: locked(ROOT / "requirements" / f"{name}.txt") for name in ("tools", "jdk", "run", "dev")}
MAKE_LOCK = "`make lock` makes requirements/ anew"
OF_PROFILES = {
    "run": ("bench", "compile", "monitor", "observe", "pipeline"),
    "dev": tuple(PROJECT["optional-dependencies"]),
    "jdk": (),
}


PROGRAMS = {
    ROOT / "requirements/uv.txt": ("uv", None),
    ROOT / "requirements/pip-audit.txt": ("pip-audit", None),
    ROOT / "requirements/oidc-provider-mock.txt": ("oidc-provider-mock", OIDC_PROVIDER_MOCK),
    ROOT / "requirements/kubernetes-validate.txt": ("kubernetes-validate", None),
    ROOT / "requirements/kafka-python.txt": ("kafka-python", PINS[canonicalize_name("kafka-python")]),
    ROOT / "highwater/studies/history/otava.txt": ("apache-otava", OTAVA_VERSION),
}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_with_versions_of_their_own_are_pinned_too(path: Path) -> None:
    name, version = PROGRAMS[path]
    lock = locked(path)
    assert version in (lock[name][0], None), MAKE_LOCK
    assert [each for each, (_, hashes) in lock.items() if not hashes] == []


def test_each_pin_has_the_hashes_of_its_files() -> None:
    pinned = {name: version for name, (version, _) in LOCKS["dev"].items() if name not in LOCKS["tools"]}
    assert pinned == PINS, MAKE_LOCK
    for lock in LOCKS.values():
        assert [name for name, (_, hashes) in lock.items() if not hashes] == []
        assert {name: entry for name, entry in lock.items() if entry != (LOCKS["dev"] | LOCKS["tools"])[name]} == {}


@pytest.mark.parametrize("profile", ["run", "dev", "jdk"])
def test_what_set_up_installs_lacks_nothing(profile: str) -> None:
    lock = LOCKS[profile]
    if profile == "jdk":
        direct = requirements_of("jdk")
    else:
        direct = [Requirement(text) for text in PROJECT["dependencies"]]
        direct += [found for extra in OF_PROFILES[profile] for found in requirements_of(extra)]
    assert [str(each) for each in direct if canonicalize_name(each.name) not in lock] == [], MAKE_LOCK
    for name in lock:
        asked = map(Requirement, metadata.requires(name) or ())
        needed = [each.name for each in asked if each.marker is None or is_for_us(each.marker)]
        assert [each for each in needed if canonicalize_name(each) not in lock] == [], f"{name}: {MAKE_LOCK}"


def is_for_us(marker: Marker) -> bool:
    pythons = [f"3.{minor}" for minor in range(11, 16)]
    machines = ("x86_64", "aarch64")
    return any(
        marker.evaluate(
            {
                "extra": "",
                "python_version": version,
                "python_full_version": f"{version}.0",
                "platform_machine": machine,
                "sys_platform": "linux",
            }
        )
        for version in pythons
        for machine in machines
    )


@pytest.mark.parametrize(
    ("dependencies", "status", "says"),
    [
        (
            [{"name": "a", "version": "1", "vulns": []}],
            0,
            ["0 known vulnerabilities in the 1 releases that could be asked for"],
        ),
        (
            [{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"}],
            3,
            [
                "0 known vulnerabilities in the 1 releases that could be asked for",
                "nothing could be learnt of 1 other releases: the package index does not tell of them",
            ],
        ),
        (
            [{"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2", "1.1"]}]}],
            1,
            [
                "a 1: PYSEC-1, mended in 2, 1.1",
                "1 known vulnerabilities in the 1 releases that could be asked for",
            ],
        ),
    ],
    ids=["none known", "not told", "known"],
)
def test_the_audit_says_of_what_it_learnt_nothing(dependencies: object, status: int, says: list[str]) -> None:
    assert judged({"dependencies": dependencies}) == (status, says)


def test_the_pipeline_brings_what_spark_asks_for_its_dataframes() -> None:
    """PySpark declares it as its extra `sql`, and raises PACKAGE_NOT_INSTALLED for what is missing when a sink runs."""
    asked = [Requirement(text) for text in metadata.requires("pyspark") or () if "extra ==" in text]
    of_sql = {found.name for found in asked if found.marker and found.marker.evaluate({"extra": "sql"})}
    assert "pandas" in of_sql
    assert of_sql <= {wanted.name for wanted in requirements_of("pipeline")}
