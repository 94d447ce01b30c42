"""What torch keeps for each thread, where one thread has many ranks: each rank is to have its own.

    with torch.no_grad():          rank 0 waits in here …
        comm.barrier()             … while rank 1 runs, which has not asked for it

Gradients, inference mode, the default device and other modes of `torch.overrides`, autocast, and whether it compiles
what is called. The default dtype is not among them: torch has one for the whole process.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from distlib.worlds import private_torch

Modes = tuple[bool, bool, tuple[Any, ...], tuple[Any, ...], Any]
PLAIN: Modes = (False, False, (), (), None)  # nothing but messages: no gradients either

_are_gradients_on = torch.is_grad_enabled
_is_inference = torch.is_inference_mode_enabled
_count_modes = private_torch.count_function_modes
_is_autocast_on = private_torch.is_autocast_on
_compiler = private_torch.compiler_of_frames
_KINDS = ("cpu", "cuda")


def current_modes() -> Modes:
    """Those of this thread, quickly where they are as usual."""
    return (
        _are_gradients_on(),
        _is_inference(),
        _function_modes() if _count_modes() else (),
        _autocast() if _is_autocast_on() else (),
        _compiler(),
    )


def set_modes(modes: Modes) -> None:
    """Make them those of this thread, whoever has entered others and not left them yet."""
    gradients, inference, functions, autocast, compiler = modes
    if compiler is not _compiler():
        private_torch.set_compiler_of_frames(compiler)
    if _is_inference() != inference:
        _set_inference(inference)
    if autocast or _is_autocast_on():
        _set_autocast(autocast)
    if functions or _count_modes():
        _set_function_modes(functions)
    private_torch.set_gradients(gradients)


def _function_modes() -> tuple[Any, ...]:
    return tuple(private_torch.function_mode(index) for index in range(_count_modes()))


def _set_function_modes(modes: tuple[Any, ...]) -> None:
    while _count_modes():
        private_torch.pop_function_mode()
    for mode in modes:
        private_torch.push_function_mode(mode)


def _autocast() -> tuple[Any, ...]:
    return tuple((kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _KINDS)


def _set_autocast(states: tuple[Any, ...]) -> None:
    for kind, enabled, dtype in states or [(kind, False, torch.get_autocast_dtype(kind)) for kind in _KINDS]:
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, dtype)


class _Guard(threading.local):
    """What has set this thread's inference mode last. It sets the mode before it, when it ends: so it is kept."""

    last: Any = None


_guard = _Guard()


def _set_inference(on: bool) -> None:
    if _guard.last is not None:
        _guard.last.__exit__(None, None, None)
    _guard.last = private_torch.inference_mode(on)
    _guard.last.__enter__()
