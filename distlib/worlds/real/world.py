"""`World`: real ranks behind a notebook. Each is a process of its own, kept warm between runs.

    world = World(4)
    world.run(fn, x)         rank 0: fn(comm, x)   rank 1: fn(comm, x)   rank 2: fn(comm, x)   rank 3: fn(comm, x)
                             ─────────────────────────► [result 0, result 1, result 2, result 3]

The function travels to the ranks by value (cloudpickle), so it may be defined in a cell, and it may change between
runs. While it runs, the kernel passes on what the ranks print and watches over them: an exception, a deadlock, a rank
that is gone or a time limit ends the run on all ranks with one error, and the next run finds the ranks ready again.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from distlib.arguments import as_integer, check_callable, check_integer, check_timeout, short
from distlib.communicator_names import not_of_a_world
from distlib.living_line import waiting
from distlib.network import Cluster, Link
from distlib.trace import Trace
from distlib.worlds import pickling
from distlib.worlds.call_site import learn_cells, site_of_function
from distlib.worlds.deaths import check_deaths
from distlib.worlds.diagnosis import RankError
from distlib.worlds.real import forkserver
from distlib.worlds.real.cards import cards_here
from distlib.worlds.real.notebook_state import NotebookState
from distlib.worlds.real.output_relay import OnOutput, print_output
from distlib.worlds.real.rank_pool import RankPool
from distlib.worlds.real.shared_memory import NoSharedMemory
from distlib.worlds.real.supervisor import Ranks, RunSettings, Supervisor
from distlib.worlds.real.what_ran_out import check_umask, said_of_limits

BACKENDS = ("shared_memory", "gloo", "nccl", "files")
SURVIVING = ("shared_memory", "files")  # a rank that waits inside gloo or NCCL for a dead one may wait for ever


class Pool(Ranks, Protocol):
    """The ranks of a world, kept from one run to the next.

    Attributes:
        environment: the variables that the ranks' processes were started with.
    """

    environment: dict[str, str]

    @property
    def alive(self) -> bool: ...

    def close(self) -> None: ...


class World:
    """A number of ranks that run functions together.

    Args:
        world_size: how many ranks, at least 1. There may be more than the machine has cores.
        backend: how large tensors travel: "shared_memory" (CPU; see the module of that name), "gloo" (CPU; TCP within
            the machine), "nccl" (GPUs; ranks share them if there are fewer, which is slow), "files" (CPU; see
            tensor_files), or None for NCCL if there is a GPU for each rank, else shared memory where the system allows
            it, else gloo, or files if there are `deaths`. As an attribute it says which is used.
        network: messages take as long as on these links, on the real clock: a `Link` that each rank has to the others,
            or a `Cluster` of as many ranks. None: as fast as the machine goes. See `pacing`.
        record: whether to keep a `trace` of the messages.
        seed: each run starts with the random numbers of rank r seeded with `seed + r` (random, numpy, torch).
        output_limit: how many bytes the ranks of one run may print; more is an error.
        on_output: called with (rank, "stdout" or "stderr", text) instead of printing what a rank printed; text is one
            or more lines, each with its end.
        deaths: None: a rank whose process ends in the middle of a run ends the run. A mapping, also an empty one: the
            run goes on without it, its result is a `PeerLost`, and the others notice it as worlds.deaths says. The
            ranks that the mapping names are killed, each as many seconds after the start of a run, if they have not
            returned by then. With the backends "shared_memory" and "files".

    What ranks know. Each run begins with what the notebook's process has at that moment:

    - the function, its arguments, and the variables that they use, copied; tensors that share memory still do, and
      have their gradients;
    - the user's own modules (files next to the notebook), also edited and reloaded, also with what is set in them; see
      own_modules, which names what can't be carried, and warns of it. Not those of Python and of installed packages;
    - working directory, `sys.path`, and environment variables, also deleted ones; except those that limit a rank's
      threads, such as OMP_NUM_THREADS, which stay 1;
    - the contexts that `run` is called in: `no_grad`, `inference_mode`, `torch.device`, `autocast`; the default dtype;
    - torch's deterministic algorithms, precision of products, anomaly detection and print options; NumPy's print
      options and error handling; levels of loggers, and what logs to the screen; warning filters; the recursion limit.
      Where the notebook has set fewer threads than a rank's share of the cores, the rank has as many;
    - of random numbers, only `seed`: their state in the notebook is not carried;
    - no keyboard, debugger, IPython or widgets: see notebook_only. Context variables of one's own can't be carried.

    The ranks start at the first `run`. They end with the world, with the kernel, or with `close`.

    Raises:
        ValueError: a world size that is not a number of at least 1, an unknown backend, no GPU for NCCL, a
            network that is not a link or is a cluster of another size, a seed that torch does not take, deaths that
            are not a mapping from ranks of the world to times of at least 0, or deaths with "gloo" or "nccl".
        NoSharedMemory: from the first `run`; "shared_memory" was asked for, and the system does not allow it.
    """

    def __init__(
        self,
        world_size: int,
        backend: str | None = None,
        *,
        network: Link | Cluster | None = None,
        record: bool = True,
        seed: int = 0,
        output_limit: int = 1_000_000,
        on_output: OnOutput | None = None,
        deaths: Mapping[int, float] | None = None,
    ) -> None:
        self.world_size = _check_world_size(world_size)
        self.deaths = check_deaths(deaths, self.world_size)
        self.backend = _choose_backend(backend, self.world_size, survives=deaths is not None)
        self.network = _check_network(network, self.world_size)
        check_integer("World", "output_limit", output_limit, 0)
        if on_output is not None:
            check_callable("World", on_output, "on_output=lambda rank, stream, text: …")
        self._may_fall_back = backend is None
        self.record = record
        self.seed = _check_seed(seed, self.world_size)
        self.output_limit = output_limit
        self.on_output = on_output
        self.trace = Trace(self.world_size, [])
        self.last_error: RankError | None = None
        self._pool: Pool | None = None
        self._let_go: weakref.finalize[[], World] | None = None
        self._state = NotebookState({})
        self._runs = 0
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._prepare()

    def run(self, fn: Callable[..., Any], /, *args: Any, timeout: float | None = None, **kwargs: Any) -> list[Any]:
        """Call `fn(comm, *args, **kwargs)` on every rank and return the results, indexed by rank.

        Args:
            fn: any function, also one defined in a cell, a lambda, a closure, a method. Its arguments, and the
                variables it uses, are copied to each rank; what a rank changes, it changes for itself. If it is a
                generator, the result is the list of what it yields.
            timeout: seconds after which the run is stopped; None for no limit.

        Raises:
            TypeError: `fn` is not callable, or it or an argument can't be sent to another process.
            RankError: something went wrong on a rank; see diagnosis for its kinds. The world can be used again.
            PeerLost: one of these; the process of a rank has ended. In a world with `deaths`: of every rank.
            KeyboardInterrupt: the kernel was interrupted; more exactly, RunInterrupted. The ranks have stopped; the
                world can be used again.
            RuntimeError: the world is already running a function, or this process was forked from the one that has
                made the world.
        """
        check_timeout(timeout)
        if os.getpid() != self._owner:
            raise RuntimeError("this world belongs to the process that this one was forked from: make a World here")
        blob = pickling.pack_call(fn, args, kwargs)
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this world is already running a function: wait for it, or make another World")
        try:
            return self._supervise(Supervisor(self._ready_pool(), self._settings(timeout, blob, fn), blob))
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the ranks. A later `run` starts new ones.

        Raises:
            RuntimeError: the world is running a function.
        """
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this world is running a function: interrupt it or wait for it, then close the world")
        try:
            self._end_ranks()
        finally:
            self._lock.release()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "not started" if self._pool is None else "ready"
        paced = f", paced by {self.network}" if self.network is not None else ""
        ranks = f"{self.world_size} rank{'s' * (self.world_size > 1)}"
        return f"<World: {ranks}, {self.backend.replace('_', ' ')}{paced}, {state}>"

    def __getattr__(self, name: str) -> Any:
        raise not_of_a_world("World", name, self)

    def __reduce__(self) -> Any:
        raise TypeError("a World can't be sent to its ranks: a rank has comm, which has rank, world_size, send, recv …")

    def _end_ranks(self) -> None:
        if self._let_go is not None:
            self._let_go()
        self._pool = self._let_go = None

    def _supervise(self, run: Supervisor) -> list[Any]:
        self.last_error = None
        try:
            return run.run()
        except BaseException as error:
            self._state.forget()
            if not isinstance(error, RankError):
                raise
            self.last_error = error
            raise error.with_traceback(None) from None
        finally:
            self.trace = run.trace
            if not run.usable:
                self._end_ranks()

    def _settings(self, timeout: float | None, call: bytes, function: object) -> RunSettings:
        self._runs += 1
        learn_cells()
        on_output, news = self.on_output or print_output, self._state.news(call)
        return RunSettings(
            self._runs,
            timeout,
            self.record,
            self.seed,
            self.output_limit,
            on_output,
            self.deaths,
            news,
            site_of_function(function),
        )

    def _ready_pool(self) -> Pool:
        if self._pool is not None and not self._pool.alive:
            self._end_ranks()
        if self._pool is None:
            pool = self._start_pool()
            self._pool, self._let_go = pool, weakref.finalize(self, pool.close)
            self._state = NotebookState(pool.environment)
        return self._pool

    def _prepare(self) -> None:
        """Have what the first run needs get ready in the background."""
        with said_of_limits(self.world_size):
            forkserver.current()

    def _start_pool(self) -> Pool:
        check_umask()
        ranks = f"{self.world_size} rank{'' if self.world_size == 1 else 's'} to start"
        with said_of_limits(self.world_size), waiting(ranks):
            return self._pool_of_backend()

    def _pool_of_backend(self) -> Pool:
        try:
            return RankPool(self.world_size, self.backend, self.network)
        except NoSharedMemory:
            if not self._may_fall_back:
                raise
        self.backend = "gloo" if self.deaths is None else "files"
        return RankPool(self.world_size, self.backend, self.network)


# ── argument checks ──────────────────────────────────────────────────────────────────────────────────────────────────


def _check_world_size(world_size: int) -> int:
    size = as_integer(world_size)
    if size is None:
        raise ValueError(f"World expects a number of ranks, at least 1, got {world_size!r}: try World(4)")
    if size < 1:
        raise ValueError(f"World expects at least 1 rank, got {size}: try World(4)")
    return size


def _check_seed(seed: int, world_size: int) -> int:
    """Check that torch.manual_seed takes `seed + rank` for each rank."""
    number = as_integer(seed)
    if number is None or not -(2**63) <= number <= 2**64 - world_size:
        raise ValueError(
            f"World expected an integer from -2**63 to 2**64 - {world_size} as seed, got seed={short(seed)}"
        )
    return number


def _check_network(network: Link | Cluster | None, world_size: int) -> Cluster | None:
    if isinstance(network, Link):
        return Cluster.flat(world_size, network)
    if network is not None and not isinstance(network, Cluster):
        raise ValueError(
            f"World expects a Link or a Cluster as its network, got {network!r}: "
            f"try World({world_size}, network=Link(latency=1e-3, bandwidth=50e6))"
        )
    if network is not None and network.world_size != world_size:
        raise ValueError(
            f"World({world_size}) expects a network for {world_size} ranks, got a Cluster of {network.world_size} "
            f"({network.nodes} nodes of {network.ranks_per_node}): try World({network.world_size}, network=…)"
        )
    return network


def _choose_backend(backend: str | None, world_size: int, survives: bool) -> str:
    gpus = cards_here()
    if backend is None:
        return "nccl" if gpus >= world_size > 1 and not survives else "shared_memory"
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise ValueError(f"expected one of the backends {', '.join(BACKENDS)}, got {backend!r}")
    if survives and backend not in SURVIVING:
        raise ValueError(
            f"expected one of the backends {', '.join(SURVIVING)} for a world with deaths, got {backend!r}: "
            f"use World({world_size}, deaths=…), which chooses one"
        )
    if backend == "nccl" and not gpus:
        raise ValueError(
            'the backend "nccl" needs a GPU, and NCCL can use none on this machine. '
            f"Use World({world_size}), which works on the CPU."
        )
    return backend
