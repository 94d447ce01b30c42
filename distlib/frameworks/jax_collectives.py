"""What a compiled JAX program communicates, read from its HLO: the text of what the compiler made of a function.

    %psum.7 = f32[1,4]{1,0} all-reduce(%param.1), replica_groups={{0,1,2,3}}, to_apply=%add
     name      what each      what is done        among which devices
               device gets

A collective in the body of a loop stands there once and runs once per iteration. The compiler notes how many there are
(known_trip_count), and we multiply. Of the branches of a condition only one runs; both are counted.

The text says what is communicated, not by which algorithm. `sent` takes that of our rings, which no other beats in
bytes: see `distlib.network.traffic`.

Source: https://openxla.org/xla/operation_semantics
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "collective-permute", "all-to-all")

_COMPUTATION = re.compile(r"^(?:ENTRY )?%([\w.-]+) \(.*\{$")
_OPERATION = re.compile(rf"= (.*?) ({'|'.join(KINDS)})(?:-start)?\(")
_LOOP = re.compile(r" while\(.*\bbody=%([\w.-]+)")
_CALLED = re.compile(
    r"\b(?:to_apply|calls|true_computation|false_computation)=%([\w.-]+)|branch_computations=\{(.*?)\}"
)
_PAIRS = re.compile(r"source_target_pairs=\{(.*?)\}\}")
_FROM_PYTHON = re.compile(r"= \(?[a-z]\w*\[[^\n]* custom-call\([^\n]*python[^\n]*callback")
_TIMES = re.compile(r'known_trip_count":\{"n":"(\d+)"')
_TENSOR = re.compile(r"\b(pred|bf16|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_MESH_GROUPS = re.compile(r"replica_groups=mesh\[(.*?)\] \{(.*?)\}")
_LISTED_GROUPS = re.compile(r"replica_groups=(?:\{\{([\d,]+)\}|\[\d+,(\d+)\]<=)")


@dataclass(frozen=True)
class Collective:
    """One operation of a compiled program that communicates.

    Attributes:
        kind: as in `KINDS`.
        shapes: of the tensors that each device gets from it, such as ("f32[64,10]",). The compiler may put several
            tensors into one operation.
        nbytes: their size together.
        devices: how many take part in a group.
        times: how often it runs in one call of the program; 1 outside loops.
        pairs: of a collective-permute: who sends to whom, by place in the mesh.
    """

    kind: str
    shapes: tuple[str, ...]
    nbytes: int
    devices: int
    times: int = 1
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def sent(self) -> float:
        """Bytes that each device sends in all `times`, if the rings of `distlib.collectives` do the work."""
        others = self.devices - 1
        part = {
            "all-reduce": 2 * others / self.devices,
            "all-gather": others / self.devices,
            "reduce-scatter": others,  # of what it gets: a piece
            "collective-permute": 1,
            "all-to-all": others / self.devices,
        }[self.kind]
        return part * self.nbytes * self.times


def collectives(compiled: Any) -> list[Collective]:
    """The collectives of a compiled program, in the order of its text.

    Args:
        compiled: what `jax.jit(function).lower(…).compile()` returns, or its text, `compiled.as_text()`.

    Raises:
        ValueError: it is not the text of a compiled program, or a loop whose number of iterations is not known before
            it runs contains a collective.
    """
    text = compiled if isinstance(compiled, str) else compiled.as_text()
    if not text.startswith("HloModule"):
        raise ValueError(f"expected a compiled program (jax.jit(f).lower(…).compile()), got text {text[:40]!r} …")
    everybody = int((re.search(r"num_partitions=(\d+)", text) or [0, 1])[1])
    times = _times_by_computation(text)
    found = []
    for here, line in _lines(text):
        if operation := _OPERATION.search(line):
            often = times.get(here, 1)
            if often is None:
                raise ValueError(f"cannot count: a loop of unknown length contains this collective: {line.strip()}")
            found.append(_collective(line, operation[1], operation[2], everybody, often))
    return found


def counted(found: Iterable[Collective]) -> dict[str, int]:
    """How often each kind runs, without those that never do: {"all-reduce": 1}."""
    found = list(found)
    counts = {kind: sum(each.times for each in found if each.kind == kind) for kind in KINDS}
    return {kind: number for kind, number in counts.items() if number}


def bytes_sent(found: Iterable[Collective]) -> float:
    """Bytes that each device sends in one call, if rings do the work."""
    return sum(each.sent for each in found)


def asks_python(compiled: Any) -> bool:
    """Whether a compiled program takes values from Python while it runs: pure_callback, io_callback.

    Devices of one process can pass values on like that without a collective. jax.debug.print only gives values away.

    Args:
        compiled: as of `collectives`.
    """
    return bool(_FROM_PYTHON.search(compiled if isinstance(compiled, str) else compiled.as_text()))


def handed_over(compiled: Any) -> list[int]:
    """How many numbers each array has that a compiled program takes on each device, in the order of its arguments.

    Args:
        compiled: as of `collectives`.
    """
    text = compiled if isinstance(compiled, str) else compiled.as_text()
    layout = re.search(r"entry_computation_layout=\{\((.*?)\)->", text)
    return sizes_of(tensor[0] for tensor in _TENSOR.finditer(layout[1])) if layout else []


def sizes_of(shapes: Iterable[str]) -> list[int]:
    """How many numbers tensors have: [640, 1] for "f32[64,10]" and "s32[]"."""
    return [_elements(tensor) for shape in shapes if (tensor := _TENSOR.fullmatch(shape))]


def _elements(tensor: re.Match[str]) -> int:
    return math.prod(int(length) for length in tensor[3].split(",") if length)


def _collective(line: str, result: str, kind: str, everybody: int, times: int) -> Collective:
    tensors = list(_TENSOR.finditer(result))
    nbytes = sum(_nbytes(tensor) for tensor in tensors)
    shapes = tuple(tensor[0] for tensor in tensors)
    return Collective(kind, shapes, nbytes, _group_size(line) or everybody, times, _pairs(line))


def _pairs(line: str) -> tuple[tuple[int, int], ...]:
    listed = _PAIRS.search(line)
    pairs = re.findall(r"\{(\d+),(\d+)", listed[1]) if listed else []
    return tuple((int(source), int(destination)) for source, destination in pairs)


def _nbytes(tensor: re.Match[str]) -> int:
    """The size of a tensor "f32[64,10]": 2,560 bytes."""
    bits = {"pred": 8, "bf16": 16}.get(tensor[1]) or int(tensor[2])
    return bits * _elements(tensor) // 8


def _group_size(line: str) -> int:
    """How many devices are in a group; 0 where the text names none: then it is all of them."""
    if mesh := _MESH_GROUPS.search(line):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", mesh[2]))
    if listed := _LISTED_GROUPS.search(line):
        return int(listed[2]) if listed[2] else len(listed[1].split(","))
    return 0


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Each line, after the name of the computation that it stands in."""
    here = ""
    for line in text.splitlines():
        if begins := _COMPUTATION.match(line):
            here = begins[1]
        yield here, line


def _times_by_computation(text: str) -> Mapping[str, int | None]:
    """How often each part of a program runs in a call; None where the text does not say. Parts left out run once."""
    calls: dict[str, list[tuple[str, int | None]]] = {}  # a part's name → where it is called, how often from there
    for here, line in _lines(text):
        if loop := _LOOP.search(line):
            known = _TIMES.search(line)
            calls.setdefault(loop[1], []).append((here, int(known[1]) if known else None))
        for one, several in _CALLED.findall(line):
            for name in [one] if one else re.findall(r"%([\w.-]+)", several):
                calls.setdefault(name, []).append((here, 1))

    @cache
    def often(part: str) -> int | None:
        if part not in calls:
            return 1
        total = 0
        for caller, times in calls[part]:
            outside = often(caller)
            if outside is None or times is None:
                return None
            total += outside * times
        return total

    return {part: often(part) for part in calls}
