"""Which bytes are alive on a rank: those of all tensors whose memory somebody still holds.

    with LiveBytes(parameters) as live:
        …
        live.now(), live.peak

torch shows every operation of this thread, also those of the backward pass. What an operation has made is noted, in
weak references to the memory itself: a view holds all of it, and memory that was given back has no bytes.

Memory that nobody has written may hold any numbers. Here it holds NaN, so that whoever reads it finds out.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from distlib.worlds.private_torch import DispatchMode

_UNWRITTEN = {"empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided"}


class LiveBytes(DispatchMode):
    """Counts, while it is entered as a context; in a simulated world each rank needs a thread of its own.

    Args:
        given: tensors that are there already, and count.

    Attributes:
        peak: the most bytes that were alive after an operation, since the beginning or since `forget_peak`.
    """

    def __init__(self, given: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self._memory = weakref.WeakValueDictionary[int, torch.UntypedStorage]()
        self.note(given)
        self.peak = self.now()

    def now(self) -> int:
        """The bytes that are alive."""
        return sum(memory.nbytes() for memory in list(self._memory.values()))

    def settled(self, most: int) -> int:
        """The bytes that are alive.

        Where there are more than `most`, whatever nobody can reach any more is freed first: a hook may be in a circle.
        That takes long, so it isn't done each time.
        """
        if self.now() > most:
            gc.collect()
        return self.now()

    def forget_peak(self) -> None:
        """Begin a new part of a step: the peak is what is alive now."""
        self.peak = self.now()

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {id(memory): memory for memory in map(_memory, _tensors((args, kwargs)))}
        result = operation(*args, **(kwargs or {}))
        name = operation.name().partition("::")[2].partition(".")[0]
        made = list(_tensors(result))
        self.note(each for each in made if name == "lift_fresh" or id(_memory(each)) not in before)
        if name in _UNWRITTEN and result.is_floating_point():
            result.fill_(torch.nan)
        self.peak = max(self.peak, self.now())
        return result

    def note(self, tensors: Iterable[torch.Tensor]) -> None:
        """Count these tensors, too, from now on."""
        self._memory.update({id(memory): memory for memory in map(_memory, tensors)})


def _memory(tensor: torch.Tensor) -> torch.UntypedStorage:
    """Always the same object for the same memory, as long as that is alive."""
    return tensor.untyped_storage()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in what an operation is given or returns."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _tensors(each)
