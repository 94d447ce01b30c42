"""How functions, arguments and results travel between the notebook and its ranks: cloudpickle, and tensors as bytes.

torch's own way of pickling a tensor takes along all the memory that the tensor is a view of, and does not know the
newer dtypes (uint16, float8 …). Here a tensor travels as it looks: elements, dtype and shape, with its gradient.
Tensors that share memory arrive sharing it: see `tensor_table`.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import cloudpickle
import torch

from distlib.worlds import tensor_table
from distlib.worlds.call_site import is_own_module
from distlib.worlds.code_files import FilePickler
from distlib.worlds.exception_text import text_of
from distlib.worlds.notebook_only import is_exit_of_ipython, is_of_ipython, of_ipython_here
from distlib.worlds.private_torch import has_hooks
from distlib.worlds.rank_call import check_is_plain


def dumps(value: Any) -> bytes:
    """Anything as bytes; functions and classes of a notebook by value. Tensors that share memory arrive sharing it.

    Raises:
        Exception: whatever the part that can't be pickled raises (TypeError, PicklingError, …).
    """
    stream, pickler = _pickled(value)
    return tensor_table.pack(stream, pickler.tensors)


def loads(data: bytes) -> Any:
    """What `dumps` made, here."""
    stream, tensors = tensor_table.unpack(data)
    outer, _arriving.tensors = _arriving.tensors, tensors
    try:
        return cloudpickle.loads(stream)
    finally:
        _arriving.tensors = outer


def _pickled(value: Any) -> tuple[bytes, _Pickler]:
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler


def pack_call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The function of a run and its arguments, as bytes; an argument may itself be what this has made.

    Raises:
        TypeError: `fn` is not callable, or it or an argument can't be sent to another process: which, and why.
    """
    if not callable(fn):
        raise TypeError(f"run expects a function of (comm, …), got {type(fn).__name__}: {fn!r}")
    check_is_plain(fn)
    try:
        stream, pickler = _pickled((fn, args, kwargs))
    except Exception as error:
        raise TypeError(_what_cannot_travel(fn, args, kwargs, error)) from None
    modules = {name for name in pickler.names if is_own_module(name)}
    inner = [name for arg in args if isinstance(arg, bytes) for name in modules_of(arg)]
    return tensor_table.pack(stream, pickler.tensors, sorted(modules.union(inner)))


def modules_of(call: bytes) -> list[str]:
    """The names of the user's own modules that the function of a packed call uses, or its arguments."""
    return tensor_table.note_of(call) or []


def _what_cannot_travel(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> str:
    named = [(f"argument {number}", value) for number, value in enumerate(args, 1)]
    named += [(f"argument {name!r}", value) for name, value in kwargs.items()]
    for name, value in named:
        with contextlib.suppress(Exception):
            dumps(value)
            continue
        kind = type(value).__name__
        return f"{name} of run, a {kind}, can't be sent to the ranks: {text_of(error)}. Make it inside the function."
    name = getattr(fn, "__name__", repr(fn))
    return f"{name} can't be sent to the ranks: it uses something that belongs to this process ({text_of(error)})."


class _Pickler(FilePickler):
    """Puts the tensors aside, for the table behind the stream.

    Attributes:
        tensors: in the order of their numbers.
        names: the modules of all functions and classes, and all names that functions of the notebook mention.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors: list[torch.Tensor] = []
        self.names: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._reduce_tensor(value)
        if is_exit_of_ipython(value):
            return getattr, (sys, "exit")
        if is_of_ipython(value):
            return of_ipython_here, (isinstance(value, types.MethodType),)
        if isinstance(value, types.FunctionType | types.CodeType | type | types.ModuleType):
            self._note(value)
        if isinstance(value, type) and _is_in_its_module(value):
            return getattr, (sys.modules[value.__module__], value.__qualname__.rpartition(".")[2])
        return super().reducer_override(value)

    def _note(self, value: Any) -> None:
        if isinstance(value, types.CodeType):
            self.names.update(value.co_names)
        else:
            self.names.add(value.__name__ if isinstance(value, types.ModuleType) else value.__module__)

    def _reduce_tensor(self, tensor: torch.Tensor) -> Any:
        gradient = tensor.grad if tensor.is_leaf else None  # torch warns of that of any other tensor
        if type(tensor) is torch.Tensor and _is_plain(tensor):
            self.tensors.append(tensor)
            reduced: Any = _arriving_tensor, (len(self.tensors) - 1,)
        else:
            reduced = super().reducer_override(tensor)
            if gradient is not None and reduced is NotImplemented:
                reduced = tensor.__reduce_ex__(5)
        return reduced if gradient is None else (_with_gradient, (*reduced[:2], gradient))


class _Arriving(threading.local):
    """The tensors of what is being unpickled in this thread."""

    tensors: list[torch.Tensor] = []


_arriving = _Arriving()


def _arriving_tensor(number: int) -> torch.Tensor:
    return _arriving.tensors[number]


def _with_gradient(rebuild: Callable[..., torch.Tensor], args: tuple[Any, ...], gradient: Any) -> torch.Tensor:
    tensor = rebuild(*args)
    tensor.grad = gradient
    return tensor


def _is_in_its_module(value: type) -> bool:
    """Whether a class is found in its module, but not under the name that it gives: jax.Array is "jaxlib._jax.Array".

    Cloudpickle would take it along by value, with all that it uses.
    """
    name, module = value.__qualname__.rpartition(".")[2], sys.modules.get(value.__module__)
    return name != value.__qualname__ and value.__module__ != "__main__" and getattr(module, name, None) is value


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether dtype, shape and elements are all there is to a tensor."""
    dense = tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.is_quantized
    return dense and not tensor.__dict__ and not has_hooks(tensor)
