"""Runs decoders over poison: counts inputs, and keeps each failure, the slowest input and the peak of memory."""

from __future__ import annotations

import random
import resource
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.drills.poison.inputs import mutated

Hostile = Callable[[random.Random], bytes]


@dataclass(frozen=True)
class Decoder:
    """valid: inputs that are read. hostile: one that has the form and is made to harm. allowed: what `read` may raise.

    `read` gets bytes. What it returns is not looked at; it raises AssertionError for a value that must not be.
    """

    name: str
    read: Callable[[bytes], object]
    valid: tuple[bytes, ...]
    hostile: Hostile
    allowed: tuple[type[Exception], ...]

    def input_of(self, seed: int, number: int) -> bytes:
        """The same for the same seed and number."""
        rng = random.Random(f"{seed}/{self.name}/{number}")
        match rng.randrange(20):
            case 0:
                return rng.choice(self.valid)
            case 1 | 2 | 3:
                return rng.randbytes(rng.choice((0, 1, 5, 61, 300, 5_000)))
            case 4 | 5 | 6 | 7 | 8 | 9:
                return self.hostile(rng)
            case _:
                return mutated(rng, rng.choice(self.valid))


@dataclass
class Result:
    decoder: str
    seed: int
    inputs: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    """Each names the number of its input."""
    slowest_s: float = 0.0
    """Of CPU time, as other work of the host does not count."""
    slowest_input: int = 0
    peak_bytes: int = 0
    """Of the process, which is one for each decoder in `python -m tests.drills.poison`."""

    def line(self) -> str:
        return (
            f"{self.decoder}: {self.inputs:,} inputs, {self.refused:,} refused, {len(self.failures)} failures, slowest "
            f"{self.slowest_s * 1000:.0f} ms (input {self.slowest_input}), peak {self.peak_bytes >> 20} MiB"
        )


def drill(
    decoder: Decoder, seed: int, first: int, count: int, begins: Callable[[int], None] = lambda _: None
) -> Result:
    """Give a decoder `count` inputs. `begins` is called with the number of each before it is read."""
    result = Result(decoder.name, seed)
    for number in range(first, first + count):
        data = decoder.input_of(seed, number)
        begins(number)
        started_s = time.process_time()
        try:
            decoder.read(data)
        except decoder.allowed:
            result.refused += 1
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = " ".join(str(error).split())[:160]
            result.failures.append(
                f"input {number} ({len(data)} bytes, {data[:24]!r}): {type(error).__name__}: {said} "
                f"({place.filename.rpartition('/highwater/')[2]}:{place.lineno})"
            )
        took_s = time.process_time() - started_s
        if took_s > result.slowest_s:
            result.slowest_s, result.slowest_input = took_s, number
        result.inputs += 1
    result.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return result
