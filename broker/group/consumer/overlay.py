"""A mapping as it will be: changes over one that stays as it is, however large that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Overlay(MutableMapping[K, V]):
    __slots__ = ("_below", "_removed", "_set")

    def __init__(self, below: Mapping[K, V]) -> None:
        """`below` must not change as long as this is used."""
        self._below = below
        self._removed: set[K] = set()
        """Keys of `below` that were removed; they may have been set again since."""
        self._set: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        if key in self._set:
            return self._set[key]
        if key in self._removed:
            raise KeyError(key)
        return self._below[key]

    # MutableMapping has these two by an exception for each key that is not there.

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        if key in self._set:
            return self._set[key]
        return default if key in self._removed else self._below.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._set or (key in self._below and key not in self._removed)

    def __setitem__(self, key: K, value: V) -> None:
        self._set[key] = value

    def __delitem__(self, key: K) -> None:
        if key in self._below and key not in self._removed:
            self._removed.add(key)
            self._set.pop(key, None)
        else:
            del self._set[key]

    def __iter__(self) -> Iterator[K]:
        """The order is that of a dict to which the same was done."""
        yield from (key for key in self._below if key not in self._removed)
        yield from (key for key in self._set if key in self._removed or key not in self._below)

    def __len__(self) -> int:
        new = sum(key in self._removed or key not in self._below for key in self._set)
        return len(self._below) - len(self._removed) + new
