"""Ways in which a run goes wrong, as students' functions of two ranks. Their diagnoses have to name a line of these.

QUICK end by themselves, and by far the most in every world; LATE at a time limit; GONE with the end of a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch

from distlib import Communicator, all_reduce, torch_distributed

Situation = Callable[[Communicator], Any]
QUICK: dict[str, Situation] = {}
ON_PROCESSES: dict[str, Situation] = {}  # quick, too; in simulated time a rank is no process, or has no threads
LATE: dict[str, Situation] = {}
GONE: dict[str, Situation] = {}


def _of(table: dict[str, Situation]) -> Callable[[Situation], Situation]:
    def enter(function: Situation) -> Situation:
        table[function.__name__] = function
        return function

    return enter


def receive(comm: Communicator) -> None:
    comm.recv(torch.ones(1), 1 - comm.rank)


def inside(comm: Communicator, name: str) -> None:
    """One of them, by name."""
    {**QUICK, **ON_PROCESSES, **LATE, **GONE}[name](comm)


# Deadlocks: in a callback, a helper thread, the background


@_of(QUICK)
def both_receive(comm: Communicator) -> None:
    comm.recv(torch.ones(1), 1 - comm.rank)


@_of(QUICK)
def one_does_not_call(comm: Communicator) -> None:
    if comm.rank == 0:
        all_reduce(comm, torch.ones(1))


@_of(QUICK)
def in_map(comm: Communicator) -> None:
    if comm.rank == 0:
        list(map(partial(all_reduce, comm), [torch.ones(1)]))


@_of(QUICK)
def in_sort(comm: Communicator) -> None:
    sorted([2, 1], key=lambda value: comm.recv(torch.ones(1), 1 - comm.rank))


@_of(QUICK)
def in_exit_stack(comm: Communicator) -> None:
    with contextlib.ExitStack() as stack:
        if comm.rank == 0:
            stack.callback(comm.barrier)


@_of(QUICK)
def in_context_manager(comm: Communicator) -> None:
    @contextlib.contextmanager
    def block() -> Iterator[None]:
        yield
        if comm.rank == 0:
            comm.barrier()

    with block():
        pass


@_of(QUICK)
def in_the_background(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.start(all_reduce, torch.ones(1)).wait()


@_of(ON_PROCESSES)
def in_backward(comm: Communicator) -> None:
    weight = torch.ones(1, requires_grad=True)
    weight.register_hook(partial(all_reduce, comm))  # type: ignore[no-untyped-call]
    if comm.rank == 0:
        weight.sum().backward()


@_of(ON_PROCESSES)
def in_a_thread(comm: Communicator) -> None:
    thread = threading.Thread(target=lambda: comm.recv(torch.ones(1), 1 - comm.rank))
    thread.start()
    thread.join()


@_of(ON_PROCESSES)
def a_thread_of_the_library(comm: Communicator) -> None:
    thread = threading.Thread(target=comm.recv, args=(torch.ones(1), 1 - comm.rank))
    thread.start()
    thread.join()


@_of(ON_PROCESSES)
def in_a_pool_of_threads(comm: Communicator) -> None:
    with ThreadPoolExecutor() as pool:
        pool.submit(comm.recv, torch.ones(1), 1 - comm.rank).result()


@_of(ON_PROCESSES)
def in_asyncio(comm: Communicator) -> None:
    async def wait() -> None:
        comm.recv(torch.ones(1), 1 - comm.rank)

    asyncio.run(wait())


@_of(ON_PROCESSES)
def in_a_thread_of_asyncio(comm: Communicator) -> None:
    async def wait() -> None:
        await asyncio.to_thread(comm.recv, torch.ones(1), 1 - comm.rank)

    asyncio.run(wait())


# Exceptions


@_of(QUICK)
def of_torch(comm: Communicator) -> None:
    torch.ones(2) @ torch.ones(3)


@_of(QUICK)
def in_a_started_call(comm: Communicator) -> None:
    comm.start(lambda inner: 1 / 0).wait()


@_of(QUICK)
def of_a_thread(comm: Communicator) -> None:
    with ThreadPoolExecutor() as pool:
        pool.submit(torch.ones, "two").result()


@_of(QUICK)
def no_group(comm: Communicator) -> None:
    torch.distributed.all_reduce(torch.ones(1))


@_of(QUICK)
def too_few_arguments() -> None:
    """The call itself fails, and no line of the student's has run."""


@_of(QUICK)
def returns_a_coroutine(comm: Communicator) -> Any:
    async def wait() -> None: ...

    return wait()


@_of(QUICK)
def sizes_differ(comm: Communicator) -> None:
    all_reduce(comm, torch.ones(2 + comm.rank))


@_of(QUICK)
def nobody_receives(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.isend(torch.ones(1), 1)


@_of(ON_PROCESSES)
def returns_a_lock(comm: Communicator) -> Any:
    return threading.Lock()


@_of(ON_PROCESSES)
def prints_too_much(comm: Communicator) -> None:
    while True:
        print("x" * 1000)


# At a time limit


@_of(LATE)
def sleeps(comm: Communicator) -> None:
    time.sleep(1000)


@_of(LATE)
def waits_for_a_queue(comm: Communicator) -> None:
    queue.Queue[int]().get()


@_of(LATE)
def waits_for_a_process(comm: Communicator) -> None:
    subprocess.run(["sleep", "1000"])


@_of(LATE)
def torchs_own_with_one_absent(comm: Communicator) -> None:
    with torch_distributed(comm, "gloo") as dist:
        if comm.rank == 0:
            dist.all_reduce(torch.ones(2))
        else:
            time.sleep(1000)


@_of(LATE)
def torchs_own_with_sizes_that_differ(comm: Communicator) -> None:
    with torch_distributed(comm, "gloo") as dist:
        dist.all_reduce(torch.ones(2 + comm.rank))


# With the end of a process


@_of(GONE)
def reads_at_zero(comm: Communicator) -> None:
    if comm.rank == 1:
        ctypes.string_at(0)
    comm.barrier()


@_of(GONE)
def all_read_at_zero(comm: Communicator) -> None:
    ctypes.string_at(0)


@_of(GONE)
def aborts(comm: Communicator) -> None:
    os.abort()


@_of(GONE)
def exits(comm: Communicator) -> None:
    os._exit(3)


@_of(GONE)
def is_killed(comm: Communicator) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
