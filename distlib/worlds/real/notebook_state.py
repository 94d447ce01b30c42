"""What the notebook has set for its own process, and its ranks are to have, too.

    every run         in which modes run is called: gradients, inference, default dtype and device, autocast
    what has changed  environment variables; what torch, numpy, logging and warnings are set to; own modules

Each run begins in the modes of the notebook, whatever the run before has left behind. All else is sent when it differs
from what the ranks were sent before.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch.utils import deterministic

from distlib.worlds import pickling, private_torch
from distlib.worlds.real import own_modules
from distlib.worlds.real.rank_settings import ENVIRONMENT

OWN_VARIABLES = frozenset({*ENVIRONMENT, "GLOO_SOCKET_IFNAME"})  # those that the ranks' own processes need as they are
_STREAMS = ("stdout", "stderr")


@dataclass(frozen=True)
class Modes:
    """What holds for the thread that calls `run`, and so for the function on each rank.

    Attributes:
        gradients, inference: whether torch records operations, and whether it is in `inference_mode`.
        dtype, device: torch's default ones.
        autocast: the dtype by device type, where it is on.
    """

    gradients: bool
    inference: bool
    dtype: torch.dtype
    device: torch.device
    autocast: tuple[tuple[str, torch.dtype], ...]

    @classmethod
    def now(cls) -> Modes:
        """The modes that are on in this thread."""
        kinds = ("cpu", "cuda") if torch.cuda.is_initialized() else ("cpu",)
        autocast = [(kind, torch.get_autocast_dtype(kind)) for kind in kinds if torch.is_autocast_enabled(kind)]
        return cls(
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_default_dtype(),
            _default_device(),
            tuple(autocast),
        )

    @contextlib.contextmanager
    def on(self, rank_device: torch.device) -> Iterator[None]:
        """In this block they hold here; the notebook's GPU is this rank's, where ranks have GPUs."""
        if _default_device().type != "cpu":
            torch.set_default_device(None)
        torch.set_default_dtype(self.dtype)
        device = rank_device if self.device.type == rank_device.type else self.device
        with contextlib.ExitStack() as stack:
            if self.inference:
                stack.enter_context(torch.inference_mode())
            if device.type != "cpu":
                stack.enter_context(device)
            for kind, dtype in self.autocast:
                stack.enter_context(torch.autocast(kind, dtype))
            stack.enter_context(torch.set_grad_enabled(self.gradients))
            yield


def _default_device() -> torch.device:
    """Where a tensor is made now. (Asked for it, torch 2.6 fails once there has been one that was taken back.)"""
    return torch.empty(0).device


@dataclass(frozen=True)
class News:
    """What the ranks are told at the start of a run.

    Attributes:
        modes: see Modes.
        variables: of the environment, that have changed; None for one that is gone.
        settings: as `pickling.dumps` makes them; None if they are as before.
        modules: the own modules that are new or have changed.
    """

    modes: Modes
    variables: dict[str, str | None]
    settings: bytes | None
    modules: Sequence[own_modules.ModuleUpdate]


class NotebookState:
    """What the ranks of one world have learned so far.

    Args:
        environment: the variables that their processes were started with.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._variables: Mapping[str, str] = environment
        self._raw: dict[Any, Any] = {}
        self._settings: dict[str, Any] | None = None
        self._modules = own_modules.ModuleNews()

    def news(self, call: bytes) -> bytes:
        """What is to be told now, for the run of a packed call: `News`, pickled once for all ranks."""
        news = News(
            Modes.now(),
            self._changed_variables(),
            self._changed_settings(),
            self._modules.since_last(pickling.modules_of(call)),
        )

        return pickle.dumps(news)

    def forget(self) -> None:
        """A run has failed, so not every rank may have taken everything in: tell it again."""
        self._modules.forget()

    def _changed_variables(self) -> dict[str, str | None]:
        raw = os.environ._data  # type: ignore[attr-defined]  # what stands behind it: a look at each takes longer
        if raw == self._raw:
            return {}
        self._raw = raw.copy()
        before, self._variables = self._variables, dict(os.environ)
        names = {*before, *self._variables} - OWN_VARIABLES
        return {name: self._variables.get(name) for name in names if self._variables.get(name) != before.get(name)}

    def _changed_settings(self) -> bytes | None:
        now = read_settings()
        if now == self._settings:
            return None
        self._settings = now
        return pickling.dumps({name: value for name, value in now.items() if _can_travel(value)})


def _can_travel(value: Any) -> bool:
    """False for what only this process can have, such as a filter for a warning of a class that can't be pickled."""
    try:
        pickling.dumps(value)
    except Exception:
        return False
    return True


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_settings() -> dict[str, Any]:
    """What this process is set to. Equal if nothing was set in between."""
    return {
        "threads": torch.get_num_threads(),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        ),
        "precision": torch.get_float32_matmul_precision(),
        "anomalies": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "torch_printing": dict(vars(private_torch.PRINT_OPTIONS)),
        "numpy_printing": numpy.get_printoptions(),
        "numpy_errors": numpy.geterr(),
        "recursion": sys.getrecursionlimit(),
        "warnings": _filters(),
        "log_levels": _log_levels(),
        "log_handlers": _log_handlers(),
    }


def apply_settings(settings: Mapping[str, Any], most_threads: int) -> None:
    """Set this process to what `read_settings` has found in another one.

    Args:
        most_threads: the rank's share of the machine; it has fewer if the notebook has.
    """
    torch.set_num_threads(min(settings["threads"], most_threads))
    now = read_settings()
    for name, apply in _APPLY.items():
        if name in settings and settings[name] != now[name]:
            apply(settings[name])


def _set_deterministic(value: tuple[bool, bool, bool]) -> None:
    mode, warn_only, fill = value
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)
    deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]


def _filters() -> list[tuple[Any, ...]]:
    """Those of warnings, in their order, each with the name of its class in the place of the class.

    A rank would have to import a class. IPython has a filter for one of its own, and it takes a second to be imported.
    """
    filters: Sequence[Any] = warnings.filters
    return [
        (action, message, (category.__module__, category.__qualname__), module, line)
        for action, message, category, module, line in filters
    ]


def _set_warnings(filters: Sequence[tuple[Any, ...]]) -> None:
    warnings.resetwarnings()  # it also makes warnings forget which were shown
    warnings.filters[:] = [  # type: ignore[index]
        (action, message, _class_called(*name), module, line) for action, message, name, module, line in filters
    ]


def _class_called(module: str, name: str) -> type:
    """The class of this name; if its module is not imported here, one that stands for it, should it be some day."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else _StandIn(name, (Warning,), {"__module__": module})


class _StandIn(type):
    """Classes that stand for those of the same name: in a filter they match these, and what is derived from these."""

    def __subclasscheck__(cls, other: type) -> bool:
        return (cls.__module__, cls.__name__) in [(base.__module__, base.__qualname__) for base in other.__mro__]


def _log_levels() -> dict[str, Any]:
    """By name, the level of each logger that has one, the root's at ""; and at "disable" what is not heard at all."""
    levels: dict[str, Any] = {"": logging.root.level}
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and (logger.level or logger.disabled):
            levels[name] = logger.level, logger.disabled
    return {"levels": levels, "disable": logging.root.manager.disable}


def _set_log_levels(told: Mapping[str, Any]) -> None:
    logging.disable(told["disable"])
    levels = dict(told["levels"])
    logging.root.setLevel(levels.pop(""))
    before = {name for name, value in logging.root.manager.loggerDict.items() if isinstance(value, logging.Logger)}
    for name in before - levels.keys():
        levels[name] = logging.NOTSET, False
    for name, (level, disabled) in levels.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.disabled = disabled


def _log_handlers() -> list[tuple[str, int, Any]]:
    """Those of the root that show on the screen what is logged: stream, level, formatter."""
    found = []
    for handler in logging.root.handlers:
        for name in _STREAMS:
            streams = getattr(sys, name), getattr(sys, f"__{name}__")
            if type(handler) is logging.StreamHandler and handler.stream in streams:
                found.append((name, handler.level, handler.formatter))
                break
    return found


def _set_log_handlers(handlers: Sequence[tuple[str, int, Any]]) -> None:
    for old in [handler for handler in logging.root.handlers if type(handler) is logging.StreamHandler]:
        logging.root.removeHandler(old)
    for name, level, formatter in handlers:
        handler = logging.StreamHandler(getattr(sys, name))
        handler.setLevel(level)
        handler.setFormatter(formatter)
        logging.root.addHandler(handler)


_APPLY: dict[str, Callable[[Any], object]] = {
    "deterministic": _set_deterministic,
    "precision": torch.set_float32_matmul_precision,
    "anomalies": lambda value: torch.autograd.set_detect_anomaly(*value),
    "torch_printing": lambda value: torch.set_printoptions(**value),
    "numpy_printing": lambda value: numpy.set_printoptions(**value),
    "numpy_errors": lambda value: numpy.seterr(**value),
    "recursion": sys.setrecursionlimit,
    "warnings": _set_warnings,
    "log_levels": _set_log_levels,
    "log_handlers": _set_log_handlers,
}


def apply_variables(variables: Mapping[str, str | None]) -> None:
    """Set and delete environment variables of this process."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
