"""The tensors of one message between notebook and ranks: those that share memory arrive sharing it.

The pickled objects only say "tensor 1". Behind them stand the bytes: a piece for each stretch of memory that several
tensors use, or for the elements of a tensor that is alone in its memory. A table says where each tensor lies.

    … tensor 0 … tensor 1 … tensor 2 …  │ piece 0 │ piece 1 │  tensor 0: all of piece 0
                                                               tensor 1: elements 1 and 2 of piece 0
                                                               tensor 2: piece 1

So a bucket and its views travel once, and a view that is alone travels without the memory behind it.
"""

from __future__ import annotations

import ctypes
import pickle
import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy
import torch

from distlib.worlds.tensor_bytes import as_bytes, dense, to_bytes

_ALIGNED = 16  # bytes; the size of every dtype divides it
_WASTEFUL = 4  # so many times the memory that tensors have elements in: look whether they share any
_SMALL = 65536  # bytes that are copied sooner than they are looked at
_END = struct.Struct("<QQ8s")  # the lengths of stream and table, and a mark; a pickle ends with a dot
_MARK = b"tensors\0"


Buffer = bytes | memoryview
Entry = tuple[int, torch.dtype, tuple[int, ...], bool, int, tuple[int, ...] | None]
"""Where a tensor lies: the number of its piece, dtype, shape, whether it requires a gradient, the offset of its first
element in the piece, in elements, and strides; None for elements in row order."""


def pack(stream: bytes, tensors: Sequence[torch.Tensor], note: object = None) -> bytes:
    """The pickled objects, and the tensors in main memory that they name by number. `note`: anything; see note_of."""
    if not tensors and not note:
        return stream
    pieces: list[Buffer] = []
    entries: dict[int, Entry] = {}
    for numbers in _sharing(tensors):
        entries.update(zip(numbers, _entries(len(pieces), [tensors[number] for number in numbers]), strict=True))
        pieces.append(_piece([tensors[number] for number in numbers]))
    sizes = [len(piece) for piece in pieces]
    table = pickle.dumps((sizes, [entries[number] for number in range(len(tensors))], note))
    return b"".join([stream, *pieces, table, _END.pack(len(stream), len(table), _MARK)])


def unpack(data: bytes) -> tuple[memoryview, list[torch.Tensor]]:
    """What `pack` was given: the pickled objects, and new tensors."""
    length, (sizes, entries, _) = _read_table(data)
    starts = list(accumulate(sizes, initial=numpy.frombuffer(data, numpy.uint8).ctypes.data + length))
    shared: dict[int, torch.Tensor] = {}
    tensors = [_rebuild(entry, starts[entry[0]], sizes[entry[0]], shared) for entry in entries]
    return memoryview(data)[:length], tensors


def note_of(data: bytes) -> Any:
    """The note that `pack` was given; None if there is none."""
    return _read_table(data)[1][2]


def _read_table(data: bytes) -> tuple[int, Any]:
    """The length of the stream, and the table."""
    if not data.endswith(_MARK):
        return len(data), ([], [], None)
    length, table, _ = _END.unpack(data[-_END.size :])
    return length, pickle.loads(memoryview(data)[len(data) - _END.size - table :])


def _rebuild(entry: Entry, address: int, size: int, shared: dict[int, torch.Tensor]) -> torch.Tensor:
    number, dtype, shape, requires_grad, offset, strides = entry
    if strides is None:
        tensor = torch.empty(shape, dtype=dtype, device="cpu")
        ctypes.memmove(tensor.data_ptr(), address, size)
    else:
        if number not in shared:
            shared[number] = torch.empty(size, dtype=torch.uint8, device="cpu")
            ctypes.memmove(shared[number].data_ptr(), address, size)
        memory = shared[number].untyped_storage()
        tensor = torch.empty(0, dtype=dtype, device="cpu").set_(memory, offset, shape, strides)
    return tensor.requires_grad_() if requires_grad else tensor


def _piece(tensors: Sequence[torch.Tensor]) -> Buffer:
    """The elements of a tensor, in row order; the stretch of memory that several share. No copy of what is large."""
    if len(tensors) == 1:
        small = tensors[0].nbytes <= _SMALL
        return to_bytes(tensors[0]) if small else as_bytes(dense(tensors[0])).numpy().data
    first, end = _stretch(tensors)
    memory = torch.empty(0, dtype=torch.uint8, device="cpu")
    return memory.set_(tensors[0].untyped_storage(), first, (end - first,), (1,)).numpy().data


def _entries(number: int, tensors: Sequence[torch.Tensor]) -> Iterator[Entry]:
    """The entries of the tensors of piece `number`."""
    if len(tensors) == 1:
        (tensor,) = tensors
        yield number, tensor.dtype, tuple(tensor.shape), tensor.requires_grad, 0, None
        return
    first, _ = _stretch(tensors)
    for tensor in tensors:
        offset = int(tensor.storage_offset()) - first // tensor.element_size()
        yield number, tensor.dtype, tuple(tensor.shape), tensor.requires_grad, offset, tensor.stride()


def _stretch(tensors: Sequence[torch.Tensor]) -> tuple[int, int]:
    """The first byte of their memory that tensors use, or one a little before it, and the byte behind the last."""
    return min(map(_start, tensors)) // _ALIGNED * _ALIGNED, max(map(_end, tensors))


# ── who shares memory ────────────────────────────────────────────────────────────────────────────────────────────────


def _sharing(tensors: Sequence[torch.Tensor]) -> Iterator[list[int]]:
    """The numbers of the tensors in groups that share memory, by sorting."""
    by_memory: dict[object, list[int]] = {}
    for number, tensor in enumerate(tensors):
        alone = tensor.numel() == 0 or tensor.is_conj() or tensor.is_neg()
        memory: object = (number,) if alone else tensor.untyped_storage().data_ptr()
        by_memory.setdefault(memory, []).append(number)
    for numbers in by_memory.values():
        if len(numbers) == 1:
            yield numbers
            continue
        for group in _overlapping(numbers, tensors):
            yield from [group] if _share_elements([tensors[n] for n in group]) else ([number] for number in group)


def _overlapping(numbers: list[int], tensors: Sequence[torch.Tensor]) -> Iterator[list[int]]:
    """Tensors of one memory, in groups whose stretches of it overlap."""
    group: list[int] = []
    end = 0
    for number in sorted(numbers, key=lambda n: _start(tensors[n])):
        if group and _start(tensors[number]) >= end:
            yield group
            group = []
        group.append(number)
        end = max(end, _end(tensors[number]))
    yield group


def _share_elements(tensors: Sequence[torch.Tensor]) -> bool:
    """False where the stretches overlap, but not the elements, which are few: two columns of a large matrix."""
    if len(tensors) == 1:
        return False
    first, end = _stretch(tensors)
    if end - first <= _WASTEFUL * sum(t.nbytes for t in tensors):
        return True
    used = [_bytes_used(tensor) for tensor in tensors]
    return len(numpy.unique(numpy.concatenate(used))) < sum(map(len, used))


def _bytes_used(tensor: torch.Tensor) -> numpy.ndarray:
    """The numbers of the bytes of its memory that a tensor has elements in, each once."""
    addresses = numpy.array([_start(tensor)])
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride:
            addresses = numpy.add.outer(addresses, numpy.arange(length) * stride * tensor.element_size()).reshape(-1)
    return numpy.unique(numpy.add.outer(addresses, numpy.arange(tensor.element_size())))


def _start(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.element_size()


def _end(tensor: torch.Tensor) -> int:
    """The first byte of its memory behind a tensor that has elements."""
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return _start(tensor) + (last + 1) * tensor.element_size()
