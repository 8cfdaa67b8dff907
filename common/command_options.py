"""Options that several commands share, as one dataclass: a command takes it as one parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Make each field of the dataclasses among the parameters of `command` a parameter of its own, in their place.

    The fields are annotated as typer wants its parameters, and each has a default.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    shared: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}
    parameters: list[inspect.Parameter] = []
    for parameter in own:
        if parameter.name not in shared:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(parameter.annotation, include_extras=True)
        parameters += (
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )
            for field in fields(parameter.annotation)
        )

    @wraps(command)
    def spread(**values: Any) -> None:
        options = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in shared.items()
        }
        command(**values, **options)

    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {each.name: each.annotation for each in parameters}
    return spread
