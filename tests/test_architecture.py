"""Who may import whom (docs/architecture.md, "Rooms"), read from the source itself.

Modules are named by their place in the repository here: `broker.node` is imported as `highwater.broker.node`.
"""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from tests import modules_page
from tests.import_graph import circles, import_graph, import_nodes, place_of, rooms

ROOT = Path(__file__).parent.parent
ROOMS = rooms()
# Links in highwater/. A room `kafka` at the top level would hide the package of that name from whoever stands there.
TOP_LEVEL = ("bench", "broker", "common", "monitor", "pipeline", "reports", "spark_loadgen", "tuning")
PACKAGE = "highwater"
FRONT_DOOR = "highwater/cli.py"
LONGEST_SENTENCE = 100
# These modules of `common` need typer and rich, which commands have.
FOR_COMMANDS_ALONE = (
    "completion.py",
    "figure_table.py",
    "late_commands.py",
    "plain_help.py",
    "plain_values.py",
    "spark_session.py",
    "watch_options.py",
)
WITHOUT_COMMANDS = ("admin", "common", "drawing", "kafka", "results", "studies", "testing")

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "common": (),
    "kafka": ("common",),
    "admin": ("common", "kafka"),
    # Commands that run a cluster on this host ask it as the other commands of the group do.
    "broker": ("admin", "common", "kafka"),
    "testing": ("broker", "common", "kafka"),
    "tuning": ("common",),
    "drawing": ("common",),
    "results": ("common",),
    "spark_loadgen": ("common", "results"),
    # Commands in the broker's group have the options and the errors of the others there.
    "pipeline": ("admin", "common", "kafka"),
    "bench": ("common", "kafka", "results", "spark_loadgen", "tuning"),
    # Live figures run the pipeline over the topic that load tasks publish to; a capture reads topics and logs with its
    # client and its decoder.
    "studies": ("bench", "common", "kafka", "pipeline", "results", "spark_loadgen", "tuning"),
    # The load of a workload, which a comparison needs.
    "reports": ("bench", "common", "drawing", "results", "studies"),
    # A monitor knows a cluster by its protocol, and plans moves as the command does.
    "monitor": ("admin", "common", "drawing", "kafka", "results"),
    FRONT_DOOR: (
        "common.completion",
        "common.distribution",
        "common.extras",
        "common.late_commands",
        "common.plain_help",
        "common.plain_letters",
        "common.plain_values",
        *(f"{room}.cli" for room in ROOMS if room not in WITHOUT_COMMANDS),
    ),
}

# Code that takes bytes, events and times as values; sockets, loops, threads, files and clocks stay outside of it.
SANS_IO = (
    "bench/workload/replay.py",
    "bench/gate/reasoning.py",
    "bench/host_agent/exposition.py",
    "bench/matrix/answers.py",
    "bench/matrix/design.py",
    "bench/matrix/effects.py",
    "bench/prove/judging.py",
    "bench/runs/agenda.py",
    "bench/runs/search.py",
    "bench/telemetry/notes.py",
    "bench/trials/verdict.py",
    "admin/reassignment_plan.py",
    "admin/replication_throttle.py",
    "broker/alone",
    "kafka/acl.py",
    "kafka/client/errors.py",
    "kafka/client/exchange.py",
    "kafka/client/handshake.py",
    "kafka/client/java_names.py",
    "kafka/client/request.py",
    "kafka/client/settings.py",
    "kafka/requests",
    "broker/clock.py",
    "broker/cluster",
    "broker/controller",
    "broker/counters.py",
    "broker/dynamic_settings",
    "broker/faults/answers.py",
    "broker/faults/dispatching.py",
    "broker/faults/effects.py",
    "broker/faults/injector.py",
    "broker/faults/kinds.py",
    "broker/faults/request.py",
    "broker/faults/script.py",
    "broker/group",
    "broker/handlers",
    "broker/member",
    "broker/metrics",
    "kafka/protocol",
    "kafka/topic_names.py",
    "broker/quota",
    "kafka/records",
    "broker/replica",
    "broker/security",
    "broker/settings/config_table.py",
    "broker/settings/acl_store.py",
    "broker/settings/acl_tree.py",
    "broker/settings/metadata_tree.py",
    "broker/settings/property_row.py",
    "broker/settings/quota_entities.py",
    "broker/settings/store.py",
    "broker/settings/topic_properties.py",
    "broker/settings/unserved_properties.py",
    "broker/topics",
    "broker/tree",
    "broker/txn",
    "monitor/events.py",
    "monitor/actions/plan.py",
    "monitor/actions/requests.py",
    "monitor/alerts/machine.py",
    "monitor/alerts/message.py",
    "monitor/alerts/rules.py",
    "monitor/alerts/saving.py",
    "monitor/figures",
    "monitor/history/kinds.py",
    "monitor/host_metrics.py",
    "monitor/host_source/joining.py",
    "monitor/history/rows.py",
    "monitor/history/tick.py",
    "monitor/command_line.py",
    "monitor/metrics_page.py",
    "monitor/kafka_source/configs.py",
    "monitor/kafka_source/controller.py",
    "monitor/kafka_source/groups.py",
    "monitor/kafka_source/log_dirs.py",
    "monitor/kafka_source/transactions.py",
    "monitor/model.py",
    "monitor/passwords.py",
    "monitor/undecided.py",
    "monitor/messages/records.py",
    "monitor/oidc/discovery.py",
    "monitor/oidc/id_token.py",
    "monitor/oidc/refusal.py",
    "monitor/oidc/roles.py",
    "monitor/web/byte_texts.py",
    "monitor/web/commands.py",
    "monitor/web/filters.py",
    "monitor/web/request_checks.py",
    "monitor/web/routing.py",
    "monitor/web/tables.py",
    "monitor/web/words.py",
    "monitor/zookeeper/address.py",
    "monitor/zookeeper/changes.py",
    "monitor/zookeeper/hiding.py",
    "monitor/zookeeper/meaning.py",
    "monitor/zookeeper/numbers.py",
    "pipeline/database/address.py",
    "pipeline/database/columns.py",
    "pipeline/database/values.py",
    "pipeline/kafka/arrow_columns.py",
    "pipeline/drill/kinds.py",
    "pipeline/drill/ledger.py",
    "pipeline/drill/model.py",
    "pipeline/drill/plan.py",
    "pipeline/drill/verdict.py",
    "pipeline/kafka/batches.py",
    "pipeline/kafka/columns.py",
    "pipeline/kafka/decode.py",
    "pipeline/kafka/encode.py",
    "pipeline/kafka/key_hash.py",
    "pipeline/kafka/model.py",
    "pipeline/kafka/partitioner.py",
    "pipeline/kafka/offsets.py",
    "pipeline/kafka/records.py",
    "pipeline/kafka/requests.py",
    "pipeline/kafka/rows.py",
    "pipeline/kafka/settings.py",
    "pipeline/kafka/unpack.py",
    "pipeline/kafka/varints.py",
    "pipeline/progress/batch.py",
    "pipeline/progress/marker.py",
    "pipeline/progress/rule.py",
    "pipeline/messaging/brake.py",
    "pipeline/messaging/filter.py",
    "pipeline/messaging/headers.py",
    "pipeline/messaging/levels.py",
    "pipeline/messaging/moving.py",
    "pipeline/messaging/policy.py",
    "pipeline/messaging/record.py",
    "pipeline/messaging/retrying.py",
    "pipeline/messaging/way.py",
    "pipeline/run/order.py",
    "pipeline/run/progress.py",
    "pipeline/sink/options.py",
    "pipeline/registry/avro_format.py",
    "pipeline/registry/json_format.py",
    "pipeline/registry/wire.py",
    "pipeline/source/filters.py",
    "pipeline/source/lag.py",
    "pipeline/source/limits.py",
    "pipeline/source/offsets.py",
    "pipeline/source/bounds.py",
    "pipeline/option_values.py",
    "pipeline/source/options.py",
    "pipeline/source/ranges.py",
    "pipeline/source/sizes.py",
    "results/analysis",
    "results/bounds.py",
    "results/ceilings.py",
    "results/environment_key.py",
    "results/histogram.py",
    "results/metrics.py",
    "spark_loadgen/backlog.py",
    "spark_loadgen/coordination.py",
    "spark_loadgen/assignment.py",
    "spark_loadgen/delivery.py",
    "spark_loadgen/merge.py",
    "spark_loadgen/phases.py",
    "spark_loadgen/schedule.py",
    "spark_loadgen/steady.py",
    "spark_loadgen/traces.py",
    "spark_loadgen/telemetry/changes.py",
    "spark_loadgen/telemetry/message.py",
    "spark_loadgen/wire/batching.py",
    "spark_loadgen/wire/partition_state.py",
    "spark_loadgen/wire/protocol.py",
    "studies/advise/answering.py",
    "studies/advise/budget.py",
    "studies/advise/concluding.py",
    "studies/advise/durability.py",
    "studies/advise/estimating.py",
    "studies/advise/proposing.py",
    "studies/advise/search.py",
    "studies/advise/space.py",
    "studies/advise/surrogate.py",
    "studies/capacity",
    "studies/capture/counts.py",
    "studies/capture/distances.py",
    "studies/capture/fitting.py",
    "studies/capture/keys.py",
    "studies/capture/observing.py",
    "studies/capture/statistics.py",
    "studies/capture/summing.py",
    "studies/lake/answers.py",
    "studies/lake/functions.py",
    "studies/lake/merging.py",
    "studies/lake/rows.py",
    "studies/lake/tables.py",
    "studies/telemetry/figures.py",
    "studies/telemetry/rows.py",
    "studies/telemetry/sums.py",
    "studies/telemetry/verdicts.py",
    "tuning/binding.py",
    "tuning/catalogue",
    "tuning/formulas",
    "tuning/model.py",
    "tuning/planning",
    "tuning/quantities.py",
    "tuning/sizing.py",
    "tuning/steps.py",
    "tuning/three_way.py",
    "tuning/waits/causes.py",
    "tuning/waits/sleeps.py",
    "tuning/waits/summary.py",
)
EDGE_MODULES = {"asyncio", "os", "pathlib", "selectors", "shutil", "socket", "subprocess", "threading", "uvloop"}
SANS_IO_EXCEPTIONS = {
    "broker/clock.py": {"time"},
    "broker/alone/store.py": {"pathlib"},
    "broker/faults/script.py": {"pathlib"},
    "broker/tree/journal.py": {"pathlib"},
}


def imported_modules(path: Path) -> Iterator[str]:
    """Names of all modules that `path` imports, wherever in the file; those of rooms without `highwater.`."""
    for name in _imported_names(path):
        first, _, rest = name.partition(".")
        yield rest if first == PACKAGE and rest.split(".")[0] in ROOMS else name


@cache
def _imported_names(path: Path) -> tuple[str, ...]:
    return tuple(_names_of_imports(path))


def _names_of_imports(path: Path) -> Iterator[str]:
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in import_nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(part for part in (parent, node.module) if part)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def sources(room: str) -> list[Path]:
    if room == FRONT_DOOR:
        return [path for path in (ROOT / PACKAGE).glob("*.py") if path.name != "__main__.py"]
    found = sorted(place_of(room).rglob("*.py"))
    assert found, f"room {room} is gone"
    return found


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_rooms_import_only_what_they_may(room: str) -> None:
    foreign = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(room)
        for module in imported_modules(path)
        if (top := module.split(".")[0]) in (*ROOMS, PACKAGE, "tests", "tools")
        and top != room
        and not any(module == allowed or module.startswith(allowed + ".") for allowed in MAY_IMPORT[room])
    ]
    assert foreign == []


def test_what_rooms_share_needs_the_standard_library_alone() -> None:
    foreign = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources("common")
        if path.name not in FOR_COMMANDS_ALONE
        for module in imported_modules(path)
        if module.split(".")[0] not in ("common", *sys.stdlib_module_names)
    ]
    assert foreign == []


def test_the_package_links_to_every_room() -> None:
    """What pip installs is `highwater` alone; a room imported by its bare name would be a second copy of it."""
    links = {path.name: path.readlink() for path in (ROOT / PACKAGE).iterdir() if path.is_symlink()}
    assert links == {room: Path("..", room) for room in TOP_LEVEL}
    start_of_bare_import = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(TOP_LEVEL)})[ .]", re.MULTILINE)
    bare = [
        f"{path.relative_to(ROOT)}: {found[0].strip()}"
        for folder in (*ROOMS, "tests")
        for path in sorted((ROOT / "tests" if folder == "tests" else place_of(folder)).rglob("*.py"))
        if (found := start_of_bare_import.search(path.read_text("utf-8")))
    ]
    assert bare == []


def test_pip_installs_every_file_of_the_rooms() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    packed = ("*.py", *settings["package-data"]["*"])
    files = subprocess.check_output(("git", "-C", ROOT, "ls-files", *map(place_of, ROOMS)), text=True).splitlines()
    assert len(files) > 1000
    assert [file for file in files if not any(fnmatch(file, pattern) for pattern in packed)] == []


@pytest.mark.parametrize("place", SANS_IO)
def test_state_machines_and_protocol_do_no_io(place: str) -> None:
    path = place_of(place)
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert files, f"{place} is gone"
    touched = [
        f"{name} imports {module}"
        for file in files
        for name in (str(file.relative_to(ROOT)),)
        for module in imported_modules(file)
        if module.split(".")[0] in (EDGE_MODULES | {"time"}) - SANS_IO_EXCEPTIONS.get(name, set())
    ]
    assert touched == []


def test_of_the_broker_its_commands_alone_import_those_on_any_cluster() -> None:
    room = ROOT / "broker"
    files = (file for file in sorted(room.rglob("*.py")) if (room / "commands") not in file.parents)
    importers = [file for file in files if any(name.split(".")[0] == "admin" for name in imported_modules(file))]
    assert importers == []


def test_the_list_of_modules_is_as_the_modules_say() -> None:
    assert modules_page.PAGE.read_text("utf-8") == modules_page.page(), "docs/modules.md is stale; run: make docs"


@pytest.mark.parametrize("room", modules_page.rooms(), ids=lambda room: room.name)
def test_the_first_line_of_every_module_says_what_it_is(room: Path) -> None:
    """One sentence of at most LONGEST_SENTENCE characters; docs/modules.md consists of them."""
    wrong = [
        f"{module.relative_to(ROOT)}: {sentence or modules_page.first_line(module) or 'no docstring'}"
        for module in modules_page.modules(room)
        if not modules_page.is_api(module)
        if not (sentence := modules_page.first_sentence(module)) or len(sentence) > LONGEST_SENTENCE
    ]
    assert wrong == []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports for annotations (`TYPE_CHECKING`) count: who names a type of another file cannot be read without it."""
    graph = import_graph()
    assert len(graph) > 1000
    assert circles(graph) == []


def test_only_the_edges_of_the_broker_see_the_node() -> None:
    """Other parts take what they need: Runtime, Partitions, a store."""
    may_see = ("alone/assembly.py", "member/assembly.py", "handlers/", "metrics/", "server/")
    room = ROOT / "broker"
    importers = [
        name
        for file in sorted(room.rglob("*.py"))
        for name in (str(file.relative_to(room)),)
        if not name.startswith(may_see)
        if any(module.startswith("broker.node.") for module in imported_modules(file))
    ]
    assert importers == []


def test_nothing_assigns_to_a_node_or_to_a_part_of_it() -> None:
    """Counters are there to be added to, wherever they are."""
    assigned = [
        f"{file.relative_to(ROOT)}: {ast.unparse(target)}"
        for file in sorted((ROOT / "broker").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Delete)
        for target in (node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target])
        if isinstance(target, ast.Attribute)
        if re.search(r"(^|[._])node\.", path := ast.unparse(target)) and ".counters." not in path
    ]
    assert assigned == []


def test_few_modules_stand_loose_in_the_broker() -> None:
    loose = {path.name for path in (ROOT / "broker").glob("*.py")}
    assert loose == {
        "__init__.py",
        "cli.py",
        "clock.py",
        "counters.py",
        "features.py",
        "node.py",
        "runtime.py",
        "slices.py",
        "turns.py",
    }


@pytest.mark.parametrize("room", ROOMS)
def test_a_class_has_a_name_of_its_own_in_its_room(room: str) -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(place_of(room).rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


# It builds the node, and the node names the parts that it builds.
BESIDE_THE_PACKAGES = {"broker/member/assembly.py"}


@pytest.mark.parametrize("room", sorted(set(ROOMS) - {"common"}))
def test_no_packages_of_a_room_import_each_other_in_a_circle(room: str) -> None:
    imports: dict[str, set[str]] = {}
    for path in sorted(place_of(room).rglob("*.py")):
        if str(path.relative_to(ROOT)) in BESIDE_THE_PACKAGES:
            continue
        package = path.relative_to(place_of(room)).with_suffix("").parts[0]
        parts = (module.split(".") for module in imported_modules(path))
        imported = {part[1] for part in parts if part[0] == room and len(part) > 1}
        imports.setdefault(package, set()).update(imported - {package})
    assert len(imports) > 3
    graphlib.TopologicalSorter(imports).prepare()


def test_the_tuner_reaches_hosts_through_two_doors_only() -> None:
    """So that any tree can stand for a host, and every operation can be made to fail."""
    # A capture writes a folder that its caller named; a trace is one of this very kernel; a command line has options
    # that name files.
    elsewhere = {"hostfiles.py", "runner.py", "capture.py", "waits/recording.py"}
    room = ROOT / "tuning"
    files = {str(file.relative_to(room)): file for file in sorted(room.rglob("*.py"))}
    inside = {name: file for name, file in files.items() if name not in elsewhere and not name.startswith("cli/")}
    who_runs_this = {"os.getpid", "os.geteuid"}
    touched = [
        f"{name}: {ast.unparse(node)}"
        for name, file in inside.items()
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        if (isinstance(node.value, ast.Name) and node.value.id == "os" and ast.unparse(node) not in who_runs_this)
        or node.attr in ("locate", "write_text", "write_bytes")
    ] + [
        f"{name} imports {module}"
        for name, file in inside.items()
        for module in imported_modules(file)
        if module.split(".")[0] in EDGE_MODULES - {"os", "pathlib"}
    ]
    assert touched == []


def test_the_log_reaches_files_in_one_place_only() -> None:
    # Paths are values, and a lock guards what is written off the event loop.
    allowed = {"pathlib", "threading"}
    touched = [
        f"{file.relative_to(ROOT)} imports {module}"
        for file in sorted((ROOT / "broker/log").rglob("*.py"))
        if file.name != "files.py"
        for module in imported_modules(file)
        if module.split(".")[0] in EDGE_MODULES - allowed
    ]
    assert touched == []
