"""The tree of playbooks as a whole: syntax, what a role consists of, and a variable is told the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.playbooks.modules import TREE
from tests.playbooks.modules import load as load_module
from tests.playbooks.playing import play, succeeded

PLAYBOOKS = sorted(TREE.glob("*.yml"))
ROLES = sorted(path for path in (TREE / "roles").iterdir() if path.is_dir())
OF_A_ROLE = ("defaults/main.yml", "meta/main.yml", "meta/argument_specs.yml", "tasks/main.yml", "README.md")
# These bring nothing to a host, or are taken back by a playbook of their own (rollback.yml).
WITHOUT_TEARDOWN = {"cluster", "keys", "preflight", "tuning", "verify"}
COMPUTED, REQUIRED = "computed", "required"


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def options_of(role: Path) -> dict[str, dict[str, Any]]:
    return dict(load(role / "meta/argument_specs.yml")["argument_specs"]["main"].get("options") or {})


def defaults_of(role: Path) -> dict[str, Any]:
    return dict(load(role / "defaults/main.yml") or {})


def is_computed(value: Any) -> bool:
    """Whether a default holds an expression, anywhere in it."""
    return "{{" in str(value) or "{%" in str(value)


def test_every_playbook_is_sound(tmp_path: Path) -> None:
    names = [path.name for path in PLAYBOOKS]
    result = succeeded(play(tmp_path, "--syntax-check", "-i", "inventories/example", *names))
    assert "[WARNING]" not in result.stderr, result.stderr


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.name)
def test_a_playbook_says_first_what_it_does(playbook: Path) -> None:
    assert playbook.read_text("utf-8").startswith("---\n# ")


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.name)
def test_the_page_names_every_playbook(playbook: Path) -> None:
    assert f"| `{playbook.name}` |" in (TREE / "README.md").read_text("utf-8")


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_a_role_is_whole(role: Path) -> None:
    wanted = [*OF_A_ROLE, *([] if role.name in WITHOUT_TEARDOWN else ["tasks/teardown.yml"])]
    assert [name for name in wanted if not (role / name).is_file()] == []


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_defaults_and_specifications_say_the_same(role: Path) -> None:
    options, defaults = options_of(role), defaults_of(role)
    assert all(name.startswith(f"{role.name}_") for name in (*options, *defaults))
    required = {name for name, option in options.items() if option.get("required")}
    assert set(options) - required == set(defaults), "a variable has a default, or is required"
    assert not required & set(defaults)
    literal = {name: value for name, value in defaults.items() if not is_computed(value)}
    assert {name: options[name].get("default") for name in literal} == literal
    computed = [name for name in defaults if name not in literal and "default" in options[name]]
    assert computed == [], "a default that is computed is told in the description"


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_a_default_is_explained(role: Path) -> None:
    lines = (role / "defaults/main.yml").read_text("utf-8").splitlines()
    names = [(number, line.partition(":")[0]) for number, line in enumerate(lines) if re.match(r"[a-z]\w*:", line)]
    # One comment may be for several variables that follow each other.
    bare = [name for number, name in names if not lines[number - 1].strip() or (lines[number - 1] == "---")]
    assert bare == []


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_the_table_of_variables_is_that_of_the_role(role: Path) -> None:
    options = options_of(role)
    rows = table((role / "README.md").read_text("utf-8"), "variable")
    assert [row["variable"] for row in rows] == [f"`{name}`" for name in options]
    told = {row["variable"].strip("`"): row["default"] for row in rows}
    assert told == {name: default_text(name, told, options, defaults_of(role)) for name in told}


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_the_page_tells_of_all_variables_and_of_the_keys_that_they_hold(role: Path) -> None:
    page = (role / "README.md").read_text("utf-8")
    entry_points = load(role / "meta/argument_specs.yml")["argument_specs"].values()
    options = {name: option for entry in entry_points for name, option in (entry.get("options") or {}).items()}
    keys = {key for option in options.values() for key in option.get("options") or {}}
    assert {name for name in {*options, *keys} if not re.search(rf"`{name}[`:]", page)} == set()


def test_the_table_of_the_keys_of_a_disk_is_that_of_the_role() -> None:
    role = TREE / "roles/storage"
    keys = options_of(role)["storage_disks"]["options"]
    rows = table((role / "README.md").read_text("utf-8"), "key of a disk")
    assert [row["key of a disk"] for row in rows] == [f"`{key}`" for key in keys]
    told = {row["key of a disk"].strip("`"): row["default"] for row in rows}
    assert {key for key, cell in told.items() if cell == REQUIRED} == {
        key for key, option in keys.items() if option.get("required")
    }
    defaults = {key: option["default"] for key, option in keys.items() if "default" in option}
    assert {key: yaml.safe_load(told[key].strip("`")) for key in defaults} == defaults


def default_text(name: str, told: dict[str, str], options: dict[str, dict[str, Any]], defaults: dict[str, Any]) -> str:
    """What the cell is to say; any YAML of the same value will do."""
    if options[name].get("required"):
        return REQUIRED
    if is_computed(defaults[name]):
        return COMPUTED
    cell = told[name]
    same = cell.startswith("`") and yaml.safe_load(cell.strip("`")) == defaults[name]
    return cell if same else f"`{yaml.safe_dump(defaults[name], default_flow_style=True).removesuffix('...').strip()}`"


def table(text: str, first: str) -> list[dict[str, str]]:
    """Rows of the first table whose first column is headed so, by column."""
    lines = iter(text.splitlines())
    header = next((cells(line) for line in lines if line.startswith(f"| {first} |")), [])
    next(lines, "")
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(header, cells(line), strict=True)))
    return rows


def cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


@pytest.mark.parametrize(
    "template", sorted(TREE.glob("roles/*/templates/**/*.j2")), ids=lambda path: str(path.relative_to(TREE / "roles"))
)
def test_a_template_says_whose_it_is(template: Path) -> None:
    assert "{{ ansible_managed | comment" in template.read_text("utf-8").splitlines()[0]


@pytest.mark.parametrize(
    "role", [path for path in ROLES if [*path.glob("templates/*.service.j2")]], ids=lambda path: path.name
)
def test_a_unit_of_ours_is_read_anew_before_it_starts(role: Path) -> None:
    """Whatever this run has changed: one that ended between the unit and its start had changed it before."""
    tasks = [task for path in sorted(role.glob("tasks/*.yml")) for task in every_task(load(path))]
    services = [task["ansible.builtin.systemd_service"] for task in tasks if "ansible.builtin.systemd_service" in task]
    reading = [each for each in services if each.get("enabled")] or [
        each for each in services if each.get("state") == "started"
    ]
    assert reading
    assert [each["name"] for each in reading if each.get("daemon_reload") is not True] == []


@pytest.mark.parametrize(
    ("role", "template"),
    [("broker", "broker.properties.j2"), ("reference_kafka", "server.properties.j2"), ("zookeeper", "zoo.cfg.j2")],
)
def test_a_file_with_secrets_is_its_services_alone_and_is_not_shown(role: str, template: str) -> None:
    tasks = load(TREE / f"roles/{role}/tasks/configure.yml")
    (task,) = [each for each in tasks if each.get("ansible.builtin.template", {}).get("src") == template]
    assert task["ansible.builtin.template"]["mode"] == "0640"
    assert task["no_log"] == f"{{{{ __{role}_has_secrets }}}}"


def every_task(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those in blocks too."""
    inner = [each for task in tasks for part in ("block", "rescue", "always") for each in task.get(part, [])]
    return tasks + (every_task(inner) if inner else [])


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_numbers_are_reckoned_with_as_numbers(role: Path) -> None:
    """`-e name=value` makes strings of them."""
    numbers = "|".join(name for name, option in options_of(role).items() if option.get("type") == "int")
    reckoned = re.compile(
        rf"\b({numbers}) *(//|[-+*<>])|(//|[+*<>]) *({numbers})\b(?! *[|] *int)" if numbers else r"(?!)"
    )
    found = [
        f"{path.name}: {line.strip()}"
        for part in ("defaults", "tasks", "templates", "vars")
        for path in sorted(role.glob(f"{part}/*"))
        for line in path.read_text("utf-8").splitlines()
        if not line.startswith("#") and reckoned.search(line)
    ]
    assert found == []


def test_no_two_filters_have_one_name() -> None:
    """Ansible would take either, and say nothing."""
    owners: dict[str, list[str]] = {}
    for path in sorted((TREE / "filter_plugins").glob("*.py")):
        for name in load_module(f"filter_plugins/{path.name}").FilterModule().filters():
            owners.setdefault(name, []).append(path.name)
    assert {name: paths for name, paths in owners.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("path", sorted(TREE.glob("**/*.yml")), ids=lambda path: str(path.relative_to(TREE)))
def test_backslashes_reach_jinja_once(path: Path) -> None:
    """Ansible keeps backslashes of strings in Jinja: a group is \\1 once YAML is read, and a newline is none."""
    wrong = [text for text in strings_of(load(path)) if "{{" in text and re.search(r"\\\\\d|'\\n'", text)]
    assert wrong == []


def strings_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return [text for each in value for text in strings_of(each)]
    return [value] if isinstance(value, str) else []
