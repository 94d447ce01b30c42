"""What a whole program finds around it on its rank, as if torchrun had started it. Afterwards all is as it was before.

sys.argv, sys.path         those of the program; its own modules are imported anew in each run
os.environ                 RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR … as torchrun sets them
__main__                   a module of its own
init_process_group         makes torch's default process group over the communicator of the rank, whatever backend it is
                           asked for; new_group likewise. Addresses and stores are ignored: the ranks know each other
torch.multiprocessing.spawn   calls the function in this rank: the processes that it would start are here already

Simulated ranks share a process. There each rank's thread has an environment and a `__main__` of its own.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch.distributed
import torch.multiprocessing

from distlib.communicator import Communicator
from distlib.torch_backend.enter import group_of_ours
from distlib.torch_backend.groups_of_threads import groups_of_this_thread
from distlib.torch_backend.monitored import teach_torch
from distlib.torch_backend.torch_group import NAME, DistlibGroup
from distlib.worlds.call_site import is_own_module, working_folder
from distlib.worlds.simulated.simulator import SimulatedCommunicator

_PASSES_ON = True  # see worlds.call_site

_dist: Any = torch.distributed
_mp: Any = torch.multiprocessing
_FROM_LAUNCHER = (
    "The launcher tells each process its rank and the world size: leave both arguments out, or take them from "
    'os.environ["RANK"] and os.environ["WORLD_SIZE"]'
)


@dataclass
class RunningProgram:
    """A program that runs on this rank.

    Attributes:
        comm: of all ranks.
        groups: what is to be closed when it ends: its process groups.
    """

    comm: Communicator
    groups: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)


_program: ContextVar[RunningProgram | None] = ContextVar("program", default=None)


@contextlib.contextmanager
def surroundings(comm: Communicator, argv: list[str], folder: str, port: int) -> Iterator[ModuleType]:
    """In this block, everything is as a program expects it. Yields its module `__main__`, which is empty.

    Args:
        comm: of all ranks.
        argv: the program's name, and what follows it.
        folder: of the program's file; "" if it has none.
        port: the one that MASTER_PORT tells.
    """
    main = ModuleType("__main__")
    if folder:
        main.__file__ = argv[0]
    program = RunningProgram(comm)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_process_of(argv, folder))
        if isinstance(comm, SimulatedCommunicator):
            stack.enter_context(groups_of_this_thread())
            stack.enter_context(_of_this_thread(_variables(comm, port), main))
        else:
            _own_of_process(_variables(comm, port), main)
        token = _program.set(program)
        stack.callback(_program.reset, token)
        stack.push(program.groups)
        yield main


def _variables(comm: Communicator, port: int) -> dict[str, str]:
    """What torchrun tells each of its processes."""
    rank, size = str(comm.rank), str(comm.world_size)
    of_group = {"GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_RANK": rank, "ROLE_WORLD_SIZE": size}
    return {
        **{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size},
        **{**of_group, "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        **{"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0"},
    }


# ── of the process ───────────────────────────────────────────────────────────────────────────────────────────────────

_inside = 0
_before = contextlib.ExitStack()


@contextlib.contextmanager
def _process_of(argv: list[str], folder: str) -> Iterator[None]:
    """What the ranks of one process share, from the first that enters this block to the last that leaves it."""
    global _inside
    if _inside == 0:
        teach_torch(DistlibGroup)  # before the program imports the function
        _keep_for_later()
        sys.argv = list(argv)
        sys.path[:0] = [folder] if folder else []
        for function, ours in _OURS:
            _replace(function, ours)
    _inside += 1
    try:
        yield
    finally:
        _inside -= 1
        if _inside == 0:
            _before.close()


def _keep_for_later() -> None:
    """Have `_before.close()` bring back what is now."""
    _before.callback(_forget_own_modules, set(sys.modules))
    _before.callback(setattr, sys, "argv", sys.argv)
    _before.callback(setattr, sys, "excepthook", sys.excepthook)
    _before.callback(sys.path.__setitem__, slice(None), list(sys.path))
    _before.callback(sys.modules.__setitem__, "__main__", sys.modules["__main__"])
    _before.callback(_set_variables, dict(os.environ))
    _before.callback(setattr, os, "environ", os.environ)
    _before.callback(os.chdir, working_folder())


def _set_variables(variables: dict[str, str]) -> None:
    if dict(os.environ) != variables:
        os.environ.clear()
        os.environ.update(variables)


def _forget_own_modules(known: set[str]) -> None:
    """So that the next run sees what has been edited meanwhile."""
    for name in set(sys.modules) - known:
        if is_own_module(name):
            del sys.modules[name]


def _replace(function: Callable[..., Any], ours: Callable[..., Any]) -> None:
    """Put a function in the place of one of torch's, in all modules that have imported that by name."""

    @wraps(function)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        program = _program.get()
        if program is None:  # in a module that was imported meanwhile, and outlives the program
            return function(*args, **kwargs)
        return ours(program, function, *args, **kwargs)

    name = function.__name__
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is function:
            setattr(module, name, replaced)
            _before.callback(setattr, module, name, function)


# ── of the rank ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _own_of_process(variables: dict[str, str], main: ModuleType) -> None:
    """Give a process that is one rank its environment and its `__main__`, and nothing of runs before."""
    if _dist.is_initialized():  # a function has made a process group, and has not destroyed it
        _dist.destroy_process_group()
    os.environ.update(variables)
    sys.modules["__main__"] = main


@contextlib.contextmanager
def _of_this_thread(variables: dict[str, str], main: ModuleType) -> Iterator[None]:
    """For this block, give this thread its own environment and `__main__`."""
    if not isinstance(os.environ, _EnvironmentOfThread):
        vars(os)["environ"] = _EnvironmentOfThread(os.environ)
        sys.modules["__main__"] = _MainOfThread(sys.modules["__main__"])
    _thread.variables, _thread.main = {**os.environ, **variables}, main
    try:
        yield
    finally:
        _thread.variables = _thread.main = None


class _Thread(threading.local):
    variables: MutableMapping[str, str] | None = None
    main: ModuleType | None = None


_thread = _Thread()


class _EnvironmentOfThread(MutableMapping[str, str]):
    """os.environ, of which each rank's thread has its own."""

    def __init__(self, usual: MutableMapping[str, str]) -> None:
        self._usual = usual

    def _now(self) -> MutableMapping[str, str]:
        return self._usual if _thread.variables is None else _thread.variables

    def __getitem__(self, name: str) -> str:
        return self._now()[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._now()[name] = value

    def __delitem__(self, name: str) -> None:
        del self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._now()))

    def __len__(self) -> int:
        return len(self._now())

    def copy(self) -> dict[str, str]:
        """As that of os.environ."""
        return dict(self)


class _MainOfThread(ModuleType):
    """The module `__main__`, of which each rank's thread has its own: pickle looks there for the program's classes."""

    def __init__(self, usual: ModuleType) -> None:
        super().__init__("__main__")
        object.__setattr__(self, "usual", usual)

    def __getattribute__(self, name: str) -> Any:
        usual = object.__getattribute__(self, "__dict__")["usual"]
        return getattr(_thread.main or usual, name)


# ── torch's functions ────────────────────────────────────────────────────────────────────────────────────────────────


def _init_process_group(program: RunningProgram, usual: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """`torch.distributed.init_process_group` in a program.

    Raises:
        ValueError: an unknown backend; or a rank or world size that is not that of the rank.
        TypeError, RuntimeError, ValueError: torch's own.
    """
    given = inspect.signature(usual).bind(*args, **kwargs).arguments
    if _dist.is_initialized():
        usual(*args, **kwargs)  # which says that there is one already
        return
    _check_backend(given.get("backend"))
    rank, size = _told("rank", given), _told("world_size", given)
    if rank not in (None, program.comm.rank):
        raise ValueError(f"init_process_group got rank={rank} on rank {program.comm.rank}. {_FROM_LAUNCHER}")
    if size not in (None, program.comm.world_size):
        ranks = program.comm.world_size
        raise ValueError(f"init_process_group got world_size={size}, and there are {ranks} ranks. {_FROM_LAUNCHER}")
    program.groups.enter_context(group_of_ours(program.comm, "init_process_group"))


def _check_backend(backend: Any) -> None:
    for each in str(backend or NAME).split(","):
        name = each.rpartition(":")[2].lower()
        if name not in (NAME, *_dist.Backend.backend_list):
            known = ", ".join(each for each in _dist.Backend.backend_list if each not in ("undefined", NAME))
            raise ValueError(f"init_process_group expected one of the backends {known}, got {name!r}")


def _told(name: str, given: dict[str, Any]) -> int | None:
    """The rank, or world size, that a program tells: as an argument, in an address, or in its environment."""
    if given.get(name, -1) >= 0:
        return int(given[name])
    address = urlsplit(given.get("init_method") or "env://")
    words = parse_qs(address.query).get(name, [])
    if address.scheme == "env" and given.get("store") is None:
        words += [os.environ.get(name.upper(), "")]
    return next((int(word) for word in words if word.isdecimal()), None)


def _new_group(program: RunningProgram, usual: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`torch.distributed.new_group` in a program: a group of the world's, whatever backend it is asked for."""
    given = inspect.signature(usual).bind(*args, **kwargs).arguments
    _check_backend(given.get("backend"))
    for name in ("backend", "pg_options", "device_id", "timeout"):
        given.pop(name, None)
    return usual(**given)


def _spawn(
    program: RunningProgram,
    usual: Callable[..., Any],
    fn: Callable[..., Any],
    args: Any = (),
    nprocs: int = 1,
    *_: Any,
    **__: Any,
) -> None:
    """`torch.multiprocessing.spawn` in a program: calls `fn(rank, *args)`.

    Raises:
        ValueError: a number of processes that is not the number of ranks.
    """
    size = program.comm.world_size
    if nprocs != size:
        raise ValueError(f"spawn was asked for {nprocs} processes, and the program runs on {size} ranks")
    fn(program.comm.rank, *args)


_OURS: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = (
    (_dist.init_process_group, _init_process_group),
    (_dist.new_group, _new_group),
    (_mp.spawn, _spawn),
)
