"""What torch keeps for each thread, where one thread has many ranks: each rank is to have its own.

    with torch.no_grad():          rank 0 waits in here …
        comm.barrier()             … while rank 1 runs, which has not asked for it

Gradients, inference mode, the default device and other modes of `torch.overrides`, and autocast. The default dtype is
not among them: torch has one for the whole process.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

Modes = tuple[bool, bool, tuple[Any, ...], tuple[Any, ...]]

_are_gradients_on = torch.is_grad_enabled
_is_inference = torch.is_inference_mode_enabled
_count_modes = torch._C._len_torch_function_stack
_is_autocast_on = torch._C._is_any_autocast_enabled
_KINDS = ("cpu", "cuda")


def current_modes() -> Modes:
    """Those of this thread, quickly where they are as usual."""
    return (
        _are_gradients_on(),
        _is_inference(),
        _function_modes() if _count_modes() else (),
        _autocast() if _is_autocast_on() else (),
    )


def set_modes(modes: Modes) -> None:
    """Make them those of this thread, whoever has entered others and not left them yet."""
    gradients, inference, functions, autocast = modes
    if _is_inference() != inference:
        _set_inference(inference)
    if autocast or _is_autocast_on():
        _set_autocast(autocast)
    if functions or _count_modes():
        _set_function_modes(functions)
    torch._C._set_grad_enabled(gradients)


def _function_modes() -> tuple[Any, ...]:
    return tuple(torch._C._get_function_stack_at(place) for place in range(_count_modes()))


def _set_function_modes(modes: tuple[Any, ...]) -> None:
    while _count_modes():
        torch._C._pop_torch_function_stack()
    for mode in modes:
        torch._C._push_on_torch_function_stack(mode)


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
    _guard.last = torch._C._InferenceMode(on)
    _guard.last.__enter__()
