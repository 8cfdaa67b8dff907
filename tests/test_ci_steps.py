"""The step for GitHub Actions and the component for GitLab: the program of each, run as the two systems run it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parent.parent
ACTION: Final = ROOT / "action.yml"
COMPONENT: Final = ROOT / "templates/gate.yml"
HOSTILE: Final = 'config:$(touch owned)`touch owned`; touch owned "'
PYTHON3: Final = """\
#!/bin/bash
# python3 -m venv DIR: an environment whose programs write down how they were called.
mkdir -p "$3/bin"
for program in python highwater; do
  printf '#!/bin/bash\\nprintf "%%s\\\\n" "${0##*/}" "$@" >> "$CALLS"\\n' > "$3/bin/$program"
done
cat >> "$3/bin/highwater" <<'END'
while [ $# -gt 1 ]; do [ "$1" = --out ] && { mkdir -p "$2"; echo "# the answer" > "$2/gate.md"; }; shift; done
exit "${GATE_STATUS:-0}"
END
chmod +x "$3"/bin/*
"""


class Runner:
    """A machine of a CI system on which pip and the gate only write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        programs = folder / "programs"
        programs.mkdir()
        (programs / "python3").write_text(PYTHON3)
        (programs / "python3").chmod(0o755)
        self._environment = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "CALLS": str(folder / "calls"),
            "RUNNER_TEMP": str(folder / "runner temp"),
            "CI_BUILDS_DIR": str(folder / "builds"),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        }

    def run(self, program: str, variables: dict[str, str], shell: str = "bash") -> int:
        environment = {**self._environment, **variables}
        return subprocess.run([shell, "-e", "-c", program], cwd=self._folder, env=environment, check=False).returncode

    @property
    def calls(self) -> list[str]:
        return (self._folder / "calls").read_text().splitlines()

    def wrote(self, name: str) -> bool:
        return (self._folder / name).exists()

    @property
    def summary(self) -> str:
        return (self._folder / "summary.md").read_text()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def with_inputs(text: str, inputs: dict[str, str], opened: str, closed: str) -> str:
    """The text as the system fills it in."""
    for name, value in inputs.items():
        text = text.replace(f"{opened} inputs.{name} {closed}", value)
    assert opened not in text, "an input that is not declared"
    return text


def run_action(runner: Runner, **given: str) -> int:
    action: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    inputs = {name: given.get(name, of.get("default", "")) for name, of in action["inputs"].items()}
    status = 0
    for step in action["runs"]["steps"]:
        variables = {name: with_inputs(text, inputs, "${{", "}}") for name, text in step.get("env", {}).items()}
        assert "${{" not in step["run"]
        status = status or runner.run(step["run"], {**variables, "GATE_STATUS": given.get("status", "0")})
    return status


def run_component(runner: Runner, **given: str) -> int:
    declared, job = yaml.safe_load_all(COMPONENT.read_text())
    inputs = {name: given.get(name, of.get("default", "")) for name, of in declared["spec"]["inputs"].items()}
    content = job["highwater-gate"]
    variables = {name: with_inputs(text, inputs, "$[[", "]]") for name, text in content["variables"].items()}
    script = "\n".join(content["script"])
    assert "$[[" not in script
    return runner.run(script, {**variables, "GATE_STATUS": given.get("status", "0")}, shell="sh")


@pytest.mark.parametrize("run", [run_action, run_component])
def test_the_gate_is_called_with_what_was_given(run: Any, runner: Runner) -> None:
    assert run(runner, head="config:new.yaml", workload="my load.yaml") == 0
    gate = runner.calls[runner.calls.index("highwater") :]
    assert gate[1:] == [
        "bench",
        "gate",
        "workload",
        "config:new.yaml",
        "--workload",
        "my load.yaml",
        "--out",
        "highwater-gate",
    ]


@pytest.mark.parametrize("run", [run_action, run_component])
def test_the_status_of_the_gate_is_the_steps(run: Any, runner: Runner) -> None:
    assert run(runner, head="results/new", base="results/old", status="10") == 10


@pytest.mark.parametrize("run", [run_action, run_component])
def test_no_input_is_a_program(run: Any, runner: Runner) -> None:
    assert run(runner, head=HOSTILE, workload=HOSTILE, policy=HOSTILE, out="out") == 0
    assert runner.calls.count(HOSTILE) == 3
    assert not runner.wrote("owned")


def test_the_action_shows_the_answer_also_of_a_regression(runner: Runner) -> None:
    run_action(runner, head="config:new.yaml", status="10")
    assert runner.summary == "# the answer\n"
    assert f"{ROOT}[gate]" in runner.calls


def test_the_workflow_of_the_docs_names_inputs_that_there_are() -> None:
    page = (ROOT / "docs/bench-ci.md").read_text()
    workflow = page[page.index("### GitHub Actions") :].split("```yaml\n")[1].split("```")[0]
    assert len(workflow.splitlines()) <= 8
    [_, step] = yaml.safe_load(workflow)["jobs"]["gate"]["steps"]
    declared = yaml.safe_load(ACTION.read_text())["inputs"]
    assert set(step["with"]) <= set(declared)
    assert {name for name, of in declared.items() if of.get("required")} <= set(step["with"])
