"""Steps: the single changes of a plan as data, each with the state before and after it.

A plan is a list of steps. `highwater.tuning.engine` applies steps and rolls them back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

if TYPE_CHECKING:
    from .check import KnobReport
    from .facts.model import Mount, MountLayer

ResourceState = dict[str, str] | None
"""The state of a resource. Settings: path to text; a file: its text, mode and owner; a mount: its options; swap:
whether it is in use. None: the resource does not exist."""

T = TypeVar("T")

# mount_setattr(2): flags of a single mount. Other options belong to the superblock; each layer has its own ro or rw.
MOUNT_FLAGS: Final = frozenset({"nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime", "nosymfollow"})
# A file system refuses options that it does not know; flags of a mount come after it.
MOUNT_LAYERS: Final[tuple[MountLayer, ...]] = ("superblock", "mount")
_SYSCTLS: Final = "/proc/sys/"
# The only programs that a step may name. None of them makes, formats or wipes a file system or a partition.
PROGRAMS: Final = ("systemctl", "udevadm")


@dataclass(frozen=True)
class Resource:
    """What a step changes; it is compared and restored as a unit. `kind`: setting, file, mount, superblock or swap."""

    kind: str
    names: tuple[str, ...]

    @property
    def companions(self) -> tuple[str, ...]:
        """Settings that the kernel resets when this one is written: a scheduler resets the disk's nr_requests."""
        return tuple(
            name.replace("/queue/scheduler", "/queue/nr_requests")
            for name in self.names
            if name.endswith("/queue/scheduler")
        )

    def __str__(self) -> str:
        return " and ".join(setting_name(name) for name in self.names)


@dataclass(frozen=True)
class SettingStep:
    """A write to a file of /proc/sys or /sys. `twin_path` is the setting that the kernel then sets to 0."""

    form: ClassVar = "setting"
    knob_id: str
    target: str
    """The disk, interface, …; empty for the whole host."""
    path: str
    before: str
    after: str
    twin_path: str | None = None
    twin_before: str | None = None

    @property
    def resource(self) -> Resource:
        """The resource: both settings of a pair, whichever of them is written."""
        return Resource(self.form, tuple(sorted(path for path in (self.path, self.twin_path) if path)))

    @property
    def states(self) -> tuple[ResourceState, ResourceState]:
        """Before and after."""
        before, after = {self.path: self.before}, {self.path: self.after}
        if self.twin_path is not None:
            before[self.twin_path] = self.twin_before or "0"
            after[self.twin_path] = "0"
        return before, after

    def describe(self) -> str:
        text = f"{setting_name(self.path)}: {self.before} -> {self.after}"
        if self.twin_path is not None and self.twin_before not in (None, "0"):
            text += f" ({setting_name(self.twin_path)}: {self.twin_before} -> 0)"
        return text


@dataclass(frozen=True)
class FileStep:
    """Writes a whole configuration file (`before` None: it is new) or removes it (`after` None).

    `mode` is for a new file; an existing file keeps its mode and its owner.
    """

    form: ClassVar = "file"
    path: str
    before: str | None
    after: str | None
    mode: int = 0o644
    why: str = ""

    @property
    def resource(self) -> Resource:
        return Resource(self.form, (self.path,))

    @property
    def states(self) -> tuple[ResourceState, ResourceState]:
        before, after = (None if text is None else {"text": text} for text in (self.before, self.after))
        return before, after

    def describe(self) -> str:
        verb = "create" if self.before is None else "remove" if self.after is None else "edit"
        return f"{verb} {self.path}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True)
class RemountStep:
    """Changes the options of one layer of a mount. Both lists have all its options, as in /proc/self/mountinfo."""

    form: ClassVar = "mount"
    mount_point: str
    before_options: tuple[str, ...]
    after_options: tuple[str, ...]
    layer: MountLayer

    @property
    def resource(self) -> Resource:
        return Resource(self.layer, (self.mount_point,))

    @property
    def states(self) -> tuple[ResourceState, ResourceState]:
        return {"options": ",".join(self.before_options)}, {"options": ",".join(self.after_options)}

    def describe(self) -> str:
        what = self.mount_point if self.layer == "mount" else f"the file system of {self.mount_point}"
        return f"remount {what}: {','.join(self.gone) or 'nothing'} -> {','.join(self.new) or 'nothing'}"

    @property
    def gone(self) -> tuple[str, ...]:
        return tuple(option for option in self.before_options if option not in self.after_options)

    @property
    def new(self) -> tuple[str, ...]:
        return tuple(option for option in self.after_options if option not in self.before_options)


@dataclass(frozen=True)
class SwapOffStep:
    """Turns off a swap device or file, named as in /proc/swaps. `kind` is `partition` or `file`."""

    form: ClassVar = "swap"
    device: str
    kind: str
    priority: int

    @property
    def resource(self) -> Resource:
        return Resource(self.form, (self.device,))

    @property
    def states(self) -> tuple[ResourceState, ResourceState]:
        return {"in_use": "yes", "priority": str(self.priority)}, {"in_use": "no"}

    def describe(self) -> str:
        return f"stop swapping to {self.device}"


@dataclass(frozen=True)
class CommandStep:
    """A command that makes files take effect, such as `systemctl daemon-reload`; `undo_argv` empty: nothing to undo.

    Both commands must be idempotent: after a crash it is unknown whether they were run.
    """

    form: ClassVar = "command"
    argv: tuple[str, ...]
    undo_argv: tuple[str, ...]
    why: str

    def describe(self) -> str:
        return f"run {' '.join(self.argv)}: {self.why}"


ResourceStep = SettingStep | FileStep | RemountStep | SwapOffStep
Step = ResourceStep | CommandStep
_FORMS: Final[Mapping[str, type[Step]]] = {
    step.form: step for step in (SettingStep, FileStep, RemountStep, SwapOffStep, CommandStep)
}


@dataclass(frozen=True)
class TuningPlan:
    """Steps in the order of their application, with warnings and notes for people."""

    steps: tuple[Step, ...]
    reports: tuple[KnobReport, ...] = ()
    warnings: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    """What takes effect only after a restart of a unit or a reboot of the host."""

    @property
    def changes_anything(self) -> bool:
        return bool(self.steps)


def layer_of(option: str) -> MountLayer:
    """The layer of a mount that has this option. `strictatime` and the like are names for flags that are off."""
    return "mount" if option in MOUNT_FLAGS or option in ("atime", "strictatime", "diratime") else "superblock"


def remount_steps(mount: Mount, options: Sequence[str]) -> Iterator[RemountStep]:
    """The steps that turn `mount.options` into `options`, one for each layer that changes. `ro` and `rw` stay."""
    new = [option for option in options if option not in mount.options]
    for layer in MOUNT_LAYERS:
        before = mount.options_of(layer)
        kept = (option for option in before if option in options or option not in mount.options)
        after = (*kept, *(option for option in new if layer_of(option) == layer))
        if after != before:
            yield RemountStep(mount.mount_point, before, after, layer)


def as_json(step: Step) -> dict[str, Any]:
    return {"step": step.form, **dataclasses.asdict(step)}


def from_json(document: Mapping[str, Any]) -> Step:
    """The step that `as_json` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    step = _FORMS[document["step"]]
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
    }
    del fields["step"]
    return step(**fields)


def conflicts(steps: Sequence[Step]) -> Iterator[str]:
    """Why these steps are no valid plan: a resource changed twice or not at all, a command that is not allowed."""
    seen: dict[str, Step] = {}
    for step in steps:
        if isinstance(step, CommandStep):
            for argv in (step.argv, step.undo_argv):
                if argv and argv[0] not in PROGRAMS:
                    yield f"{argv[0]} is not among the programs that tuning runs ({', '.join(PROGRAMS)})"
            continue
        before, after = step.states
        if before == after:
            yield f"{step.resource} would stay as it is"
        if isinstance(step, SettingStep) and step.twin_path is not None and step.after == "0":
            twin = setting_name(step.twin_path)
            yield f"{setting_name(step.path)}: the kernel takes no 0 for it; set {twin} instead, which makes it 0"
        if isinstance(step, FileStep) and (not step.path.startswith("/etc/") or ".." in step.path.split("/")):
            yield f"{step.path} is not below /etc: tuning writes no other files, and no devices"
        for name in step.resource.names:
            key = f"{step.resource.kind} {name}"
            if key in seen:
                yield f"{setting_name(name)} would be changed twice ({seen[key].describe()}; {step.describe()})"
            seen[key] = step


def rollback_order(items: Sequence[tuple[Step, T]]) -> list[tuple[ResourceStep, T]]:
    """The steps in the order of their rollback: the last one first, but settings that reset others before those.

    Each item is a step with a value of the caller. Commands are left out: they run after everything is restored.
    """
    changes = [(step, item) for step, item in reversed(items) if not isinstance(step, CommandStep)]
    return sorted(changes, key=lambda change: not change[0].resource.companions)


def setting_name(path: str) -> str:
    """The name for people: vm.swappiness, or the path of a setting that is no sysctl.

    A dot inside a component, as in the name of a VLAN, becomes a slash, as sysctl(8) writes it.
    """
    if not path.startswith(_SYSCTLS):
        return path
    return path.removeprefix(_SYSCTLS).translate(str.maketrans("/.", "./"))
