"""The output of `--json` conforms to the published schemas, and these are derived from the dataclasses."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from highwater.tuning.cli.documents import json_schema
from highwater.tuning.cli.schema import DOCUMENTS, LIVE_DOCUMENTS
from tests.tuning.cli.invoking import invoke
from tests.tuning.host_tree import Disk, make_host

SCHEMAS = Path(__file__).parents[3] / "tuning" / "schemas"

CALLS: dict[str, tuple[str, ...]] = {
    "list": ("list", "--data-dir", "/data"),
    "facts": ("facts",),
    "check": ("check", "--data-dir", "/data"),
    "plan": ("plan", "--data-dir", "/data"),
    "apply": ("apply", "--yes", "--only", "vm.swappiness"),
    "verify": ("verify", "--data-dir", "/data"),
    "status": ("status",),
    "rollback": ("rollback", "--dry-run"),
    "explain": ("explain", "vm.dirty_bytes"),
    "profiles": ("profiles",),
    "sizing": ("sizing",),
}


@pytest.mark.parametrize("verb", DOCUMENTS | LIVE_DOCUMENTS)
def test_a_shipped_schema_is_that_of_its_dataclass(verb: str) -> None:
    schema = json_schema((DOCUMENTS | LIVE_DOCUMENTS)[verb])
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == f"tuning.{verb}/1"
    path = SCHEMAS / f"{verb}.schema.json"
    renew = f"renew it: highwater tune schema {verb} > tuning/schemas/{path.name}"
    assert json.loads(path.read_text("utf-8")) == schema, renew
    assert invoke("schema", verb).stdout == path.read_text("utf-8")


@pytest.mark.parametrize("applied", [False, True], ids=["a fresh host", "a host that we changed"])
@pytest.mark.parametrize("verb", DOCUMENTS)
def test_the_output_of_a_verb_conforms_to_its_schema(tmp_path: Path, verb: str, applied: bool) -> None:
    disks = (Disk("sda", "/data"), Disk("nvme0n1", "/data2"), Disk("sdb", "/data3", rotational=True))
    root = str(make_host(tmp_path, disks=disks, swaps="/dev/sdc1 partition 8388604 0 -2\n"))
    if applied:
        assert invoke("apply", "--yes", "--root", root, "--only", "vm.max_map_count").exit_code == 0
    result = invoke(*CALLS[verb], "--json", "--root", root)
    assert result.exit_code in (0, 1), result.output
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert document["schema"] == f"tuning.{verb}/1"
    jsonschema.Draft202012Validator(json_schema(DOCUMENTS[verb])).validate(document)


def test_every_schema_file_belongs_to_something() -> None:
    assert {path.name for path in SCHEMAS.glob("*.json")} == {
        "knob.schema.json",
        *(f"{verb}.schema.json" for verb in (*DOCUMENTS, *LIVE_DOCUMENTS)),
    }
