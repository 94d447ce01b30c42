# %% [markdown]
# # Exercise 07b: a parameter server
#
# You write four functions: the rule by which workers wait, a plan for several servers, the loop of a worker, and the
# loop of a server. At the end they train a classifier, with one slow worker.
#
# - **Time:** about 100 minutes.
# - **Before:** read the lesson [Parameter server](../../course/07b_parameter_server.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `may_proceed` | 1 | 1 |
# | 2 | `shard_parameters` | 2 | 2 |
# | 3 | `worker_loop` | 3 | 3 |
# | 4 | `server_loop` | 5 | 5 |
#
# That makes 22 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# One rank is the server. It has the parameters. The other ranks are workers. They compute gradients, and talk to the
# server only.
#
# ```text
#     worker                              server
#       PULL      ───── request ────►
#                 ◄─── parameters ───     as soon as the worker may proceed
#       computes
#       PUSH      ───── request ────►
#                 ───── gradient ───►     applied as soon as the worker may proceed
#       PULL      ───── request ────►
#                 ◄─── parameters ───
#       LEAVE     ───── request ────►
# ```
#
# **The protocol.** Three kinds of messages, and each kind has its own tag:
#
# | message | from | to | tag | tensor |
# |---|---|---|---|---|
# | request | worker | server | `REQUEST` | one int64: `PULL`, `PUSH` or `LEAVE` |
# | gradient, after each `PUSH` | worker | server | `GRADIENT` | as the parameters |
# | parameters, after each `PULL` | server | worker | `PARAMETERS` | one-dimensional |
#
# `torch.tensor([PULL])` is such a request. Nothing else is sent.
#
# Requests of several workers come in any order. `comm.recv(tensor, tag=REQUEST)` without a source takes the next one,
# from any worker, and **returns the rank that sent it**. `comm.recv(tensor, worker, PARAMETERS)` takes only a message
# from that rank with that tag.

# %% readonly="setup"
import math
from collections.abc import Callable

import torch

from distlib import Communicator, SimulatedWorld, World

PULL, PUSH, LEAVE = range(3)  # what a worker asks for
REQUEST, GRADIENT, PARAMETERS = range(3)  # the tags

# %% [markdown]
# ## 1. Who may go on: `may_proceed`
#
# The server counts for each worker how many gradients it has pushed: its clock. A worker may have parameters for its
# next gradient if it is **at most `bound` gradients ahead of the slowest worker**.
#
# Workers 1, 2 and 3 have pushed 5, 3 and 4 gradients: `clocks = {1: 5, 2: 3, 3: 4}`.
#
# | bound | | worker 1 | worker 2 | worker 3 |
# |---|---|---|---|---|
# | 0 | synchronous | waits | may proceed | waits |
# | 1 | stale-synchronous | waits | may proceed | may proceed |
# | 2 | stale-synchronous | may proceed | may proceed | may proceed |
# | `math.inf` | asynchronous | may proceed | may proceed | may proceed |


# %% solution="may_proceed"
def may_proceed(clocks: dict[int, int], worker: int, bound: float) -> bool:
    """Whether a worker may have parameters for its next gradient: it is at most `bound` ahead
    of the slowest.

    Args:
        clocks: for each worker that has not left, by its rank, how many gradients it has
            pushed. Not changed.
        worker: the rank of one of them.
        bound: 0 for synchronous, math.inf for asynchronous training.

    Source: Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
    Server", NIPS 2013, section 3.
    """
    ### BEGIN SOLUTION
    return clocks[worker] - min(clocks.values()) <= bound
    ### END SOLUTION


# %% [markdown]
# **Try it** on the table. A cell like this one gives no marks. Change it as you like.

# %%
for bound in (0, 1, 2, math.inf):
    print(
        f"bound {bound}:",
        [may_proceed({1: 5, 2: 3, 3: 4}, worker, bound) for worker in (1, 2, 3)],
    )

# %% [markdown]
# **Visible test: 1 point.** Each line has clocks, worker and bound; then what is right; then what usually goes wrong.

# %% test="may_proceed_visible" points=1
from distlib.exercises import check_answers

report = check_answers(
    may_proceed,
    ["clocks", "worker", "bound"],
    [
        (
            ({1: 0, 2: 0}, 1, 0),
            True,
            "the worker is 0 ahead of the slowest. Exactly `bound` ahead is allowed.",
        ),
        (
            ({1: 3, 2: 3}, 2, 0),
            True,
            "count from the clock of the slowest worker: it need not be 0.",
        ),
        (
            ({1: 3, 2: 9}, 1, 1),
            True,
            "only the slowest worker counts. One that is behind may always proceed.",
        ),
        (
            ({1: 9, 2: 3, 3: 3}, 1, 4),
            False,
            "it is 6 ahead of the slowest: compare with that one, and with nothing else.",
        ),
        (({1: 5, 2: 3}, 1, 1), False, "2 ahead is more than a bound of 1."),
        (
            ({1: 5, 2: 3}, 1, 2),
            True,
            "the worker is 2 ahead of the slowest. Exactly `bound` ahead is allowed, "
            "for any bound.",
        ),
        (
            ({2: 5, 1: 3}, 1, 0),
            True,
            "clocks is a dict by rank: clocks[worker], in whatever order.",
        ),
        (({1: 5, 2: 3, 3: 4}, 3, 0), False, "it is 1 ahead of worker 2. The bound is 0."),
        (
            ({4: 7, 6: 8}, 6, 0),
            False,
            "clocks is a dict by rank: clocks[worker]. Ranks need not begin at 0.",
        ),
        (({1: 1000, 2: 0}, 1, math.inf), True, "without a bound nobody waits."),
        (({3: 7}, 3, 0), True, "a single worker is the slowest."),
    ],
)
assert len(report) == 11
print(report)

# %% [markdown]
# **Hidden test: 1 point.** More workers, other clocks and bounds.

# %% test="may_proceed_hidden" points=1
# The hidden tests of may_proceed stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 12 workers, other clocks and bounds, also large ones, the slowest worker at any place.
from random import Random

from distlib.exercises import check_answers

draw = Random(73)
questions = [
    (({7: 24}, 7, bound), True, "a single worker is the slowest.") for bound in (0, 2, math.inf)
]
for size in range(2, 13):
    for bound in (0, 1, 3, 6, draw.randint(100, 10**7)):
        for lead in (0, bound, bound + 1):
            first, second, *others = draw.sample(range(40), size)
            slowest = draw.choice([20, draw.randint(10**3, 10**8)])
            drawn = [(first, slowest + lead), (second, slowest)]
            drawn += [(rank, slowest + draw.randint(1, 9)) for rank in others]
            questions.append(
                (
                    (dict(draw.sample(drawn, size)), first, bound),
                    lead <= bound,
                    f"it is {lead} ahead of the slowest worker.",
                )
            )
questions.append((({2: 5, 9: 90_000}, 9, math.inf), True, "without a bound nobody waits."))
report = check_answers(may_proceed, ["clocks", "worker", "bound"], questions)
assert len(report) == 169
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Several servers: `shard_parameters`
#
# One server is a bottleneck, so several servers share the parameters. Each worker talks to all of them in every step.
# So the server with the most **bytes** decides how long a step takes.
#
# In many models one tensor holds half of all parameters. Whole tensors can't be balanced then. So tensors with more
# than `largest_bytes` bytes are cut into pieces first. A piece is `(tensor, start, stop)`: of tensor number `tensor`,
# seen as one-dimensional, the elements from `start` up to `stop`, without `stop`. All three numbers count from 0.
#
# With 2 servers, and pieces of at most 48 bytes:
#
# | tensor | elements | bytes per element | bytes | pieces |
# |---|---|---|---|---|
# | 0 | 30 | 4 | 120 | `(0, 0, 12)`, `(0, 12, 24)`, `(0, 24, 30)` of 48, 48 and 24 bytes |
# | 1 | 5 | 8 | 40 | `(1, 0, 5)` |
#
# One good plan is `[[(0, 0, 12), (0, 24, 30)], [(0, 12, 24), (1, 0, 5)]]`. The servers have 72 and 88 bytes.
#
# The rules, and the only ones that count:
#
# - Every element of every tensor is in exactly one piece.
# - No piece has more than `largest_bytes` bytes. No tensor has more pieces than it needs for that.
# - The loads of two servers differ by at most the largest piece.
#
# For the last one it is enough to give each piece to the server that has the fewest bytes so far.
#
# The next cell holds these rules as a function. The tests call it. You can call it, too.


# %% readonly="plan"
def sound_plan(
    found: list[list[tuple[int, int, int]]],
    sizes: list[tuple[int, int]],
    num_servers: int,
    largest_bytes: int,
) -> tuple[str, str] | None:
    """What is wrong with a plan, and the usual cause; None if nothing is."""
    if any(isinstance(piece, int) for shard in found for piece in shard):
        return (
            "it returned a single list of pieces.",
            "return a list of pieces for each server.",
        )
    if len(found) != num_servers:
        return (
            f"servers: {num_servers}, but lists: {len(found)}.",
            "return a list of pieces for each server.",
        )
    pieces = sorted(tuple(piece) for shard in found for piece in shard)
    for tensor, start, stop in pieces:
        if not all(isinstance(number, int) for number in (tensor, start, stop)):
            return (
                f"{(tensor, start, stop)} is in the plan.",
                "whole numbers count elements: divide by //, not by /.",
            )
        if not 0 <= tensor < len(sizes) or start >= stop:
            return f"{(tensor, start, stop)} is in the plan.", (
                "a piece is (tensor, start, stop). Tensors count from 0. "
                "start is less than stop, where the piece ends."
            )
    for number, (elements, itemsize) in enumerate(sizes):
        ranges = [(start, stop) for tensor, start, stop in pieces if tensor == number]
        cut = f"tensor {number} ({elements} elements of {itemsize} bytes) is cut into {ranges}"
        if not ranges:
            return (
                f"tensor {number} has no pieces.",
                "every tensor has at least one. They are numbered from 0.",
            )
        if max(stop for _, stop in ranges) > elements:
            return (
                f"{cut}: that is beyond its end.",
                "start and stop count elements, not bytes, and stop is at most elements.",
            )
        stops = [0, *(stop for _, stop in ranges)]
        starts = [*(start for start, _ in ranges), elements]
        if starts < stops:
            return (
                f"{cut}: some elements are in two pieces.",
                "each piece begins where the one before stops.",
            )
        if starts > stops:
            return f"{cut}: some elements are in no piece.", (
                "the first piece begins at 0, and each other one where the one before stops. "
                "The last one stops at the "
                "number of elements. The element at stop is not in the piece, "
                "and stop is not its length."
            )
        if max(stop - start for start, stop in ranges) * itemsize > largest_bytes:
            return f"{cut}: a piece has more than {largest_bytes} bytes.", (
                "cut large tensors. A piece has at most largest_bytes // itemsize elements."
            )
        if len(ranges) > math.ceil(elements / (largest_bytes // itemsize)):
            return f"{cut}: {len(ranges)} pieces are more than it needs.", (
                "take pieces of largest_bytes // itemsize elements, and the rest. "
                "Leave small tensors whole."
            )
    weights = [
        [(stop - start) * sizes[tensor][1] for tensor, start, stop in shard] for shard in found
    ]
    loads = [sum(shard) for shard in weights]
    largest = max(max(shard, default=0) for shard in weights)
    if max(loads) - min(loads) > largest:
        return f"the servers have {loads} bytes; the largest piece has {largest}.", (
            "each piece goes to the server that has the fewest bytes so far. Count bytes, "
            "not elements, tensors or "
            "pieces."
        )
    return None


# %% solution="shard_parameters"
def shard_parameters(
    sizes: list[tuple[int, int]], num_servers: int, largest_bytes: int
) -> list[list[tuple[int, int, int]]]:
    """Cut tensors into pieces, and give each server about as many bytes.

    Args:
        sizes: for each tensor its number of elements, at least 1, and its bytes per element.
            Not changed.
        num_servers: at least 1. There are always enough pieces for all.
        largest_bytes: of a piece. At least one element fits.

    Returns:
        For each server its pieces (tensor, start, stop), in any order.

    Source: Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI
    2014, section 4; for the rule of the smallest load, Graham, "Bounds on Multiprocessing
    Timing Anomalies", 1969.
    """
    ### BEGIN SOLUTION
    pieces = []
    for tensor, (elements, itemsize) in enumerate(sizes):
        step = largest_bytes // itemsize
        for start in range(0, elements, step):
            stop = min(start + step, elements)
            pieces.append(((stop - start) * itemsize, (tensor, start, stop)))

    loads = [0] * num_servers
    shards: list[list[tuple[int, int, int]]] = [[] for _ in range(num_servers)]
    # large ones first: the balance is better
    for nbytes, piece in sorted(pieces, reverse=True):
        lightest = loads.index(min(loads))
        loads[lightest] += nbytes
        shards[lightest].append(piece)
    return shards
    ### END SOLUTION


# %% [markdown]
# **Try it** on the table.

# %%
plan = shard_parameters([(30, 4), (5, 8)], 2, 48)
for server, shard in enumerate(plan):
    print(f"server {server}: {shard}")
print("what is wrong:", sound_plan(plan, [(30, 4), (5, 8)], 2, 48))

# %% [markdown]
# **Visible test: 2 points.**

# %% test="shard_parameters_visible" points=2
from distlib.exercises import check_each

report = check_each(
    shard_parameters,
    sound_plan,
    [
        ([(4, 4)], 1, 16),
        ([(4, 4), (4, 4)], 2, 16),
        ([(10, 4)], 2, 16),
        ([(30, 4), (5, 8)], 2, 48),
        ([(100, 1), (12, 8), (12, 8), (12, 8), (12, 8)], 2, 100),
        ([(1, 4), (1, 4), (1, 4), (100, 4), (3, 4), (2, 4)], 2, 80),
        ([(100, 4), (1, 4), (100, 4), (1, 4), (100, 4), (1, 4)], 2, 400),
    ],
)
assert len(report) == 7
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More tensors and servers, and sizes that do not divide.

# %% test="shard_parameters_hidden" points=2
# The hidden tests of shard_parameters stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 7 servers, many tensors of different sizes and dtypes, very large ones, too.
from random import Random

from distlib.exercises import check_each

draw = Random(74)
questions = [
    ([(1000, 4), (7, 4), (50, 4)], 3, 130),
    ([(64 * 32, 4), (32, 4), (320, 4), (10, 4)], 2, 512),
]
questions += [([(8, 1), (8, 8)] * 4, 2, 64), ([(5, 2)], 2, 7)]
for servers in range(1, 8):
    lengths = [draw.choice([3, 17, 90, 400]) for _ in range(12)]
    questions.append(
        (
            [(length, draw.choice([1, 2, 4, 8])) for length in lengths],
            servers,
            draw.randint(100, 300),
        )
    )
for servers in (3, 5):
    lengths = [draw.randint(10**6, 10**9) for _ in range(11)]
    questions.append(
        (
            [(length, draw.choice([1, 2, 4, 8])) for length in lengths],
            servers,
            draw.randint(10**8, 10**9),
        )
    )
report = check_each(shard_parameters, sound_plan, questions)
assert len(report) == 13
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The loop of a worker: `worker_loop`
#
# In each step a worker pulls, computes and pushes. After the last step it pulls once more, so that it ends with the
# server's newest parameters, and leaves.
#
# `compute(step)` is given. It uses what is in the tensor `parameters` at that moment, and returns a gradient. So
# what the server sends must be **in that tensor**: receive into it.
#
# Compute before you push. After a `PUSH` the server waits for the gradient, and meanwhile it serves nobody else.
#
# With 2 steps the worker's requests are `PULL PUSH PULL PUSH PULL LEAVE`, and these messages travel:
#
# | step | to the server | from the server |
# |---|---|---|
# | 0 | `PULL` | |
# | | | parameters, version 0 |
# | | `PUSH`, then the gradient that `compute(0)` has returned | |
# | 1 | `PULL` | |
# | | | parameters, version 1 |
# | | `PUSH`, then the gradient that `compute(1)` has returned | |
# | end | `PULL` | |
# | | | parameters, version 2 |
# | | `LEAVE` | |


# %% solution="worker_loop"
def worker_loop(
    comm: Communicator,
    server: int,
    parameters: torch.Tensor,
    compute: Callable[[int], torch.Tensor],
    steps: int,
) -> None:
    """Pull, compute and push, `steps` times; then pull once more, and leave.

    Args:
        comm: the communicator of this worker.
        server: the server's rank.
        parameters: one-dimensional. Each pull overwrites it, in place; its first contents do
            not count.
        compute: takes the step's number, 0 … steps − 1; returns the gradient at what
            `parameters` holds then, a tensor like `parameters`. Called once in each step.
        steps: may be 0.

    Cost for parameters of S bytes: steps + 1 times S bytes from the server, steps times S bytes
    to it.
    """
    ### BEGIN SOLUTION
    for step in range(steps):
        comm.send(torch.tensor([PULL]), server, REQUEST)
        comm.recv(parameters, server, PARAMETERS)
        gradient = compute(step)
        comm.send(torch.tensor([PUSH]), server, REQUEST)
        comm.send(gradient, server, GRADIENT)
    comm.send(torch.tensor([PULL]), server, REQUEST)
    comm.recv(parameters, server, PARAMETERS)
    comm.send(torch.tensor([LEAVE]), server, REQUEST)
    ### END SOLUTION


# %% [markdown]
# **Try it** with a server that only adds up what it gets. The gradient is a tenth of the parameters, plus 1.


# %%
def try_worker(comm: Communicator) -> list[float]:
    parameters = torch.tensor([10.0, 20.0])
    if comm.rank == 1:
        worker_loop(comm, 0, parameters, lambda step: parameters / 10 + 1, 2)
        return parameters.tolist()
    request, gradient, told = torch.empty(1, dtype=torch.int64), torch.empty(2), []
    while LEAVE not in told:
        worker = comm.recv(request, tag=REQUEST)
        told.append(request.item())
        if request == PULL:
            comm.send(parameters, worker, PARAMETERS)
        elif request == PUSH:
            comm.recv(gradient, worker, GRADIENT)
            parameters -= gradient
    return told


requests, last = SimulatedWorld(2).run(try_worker)
print("requests:", [["PULL", "PUSH", "LEAVE"][number] for number in requests])
print("the worker ends with", [round(number, 2) for number in last])

# %% [markdown]
# **Visible test: 3 points.** Your worker and a server of the test, with 1 to 3 steps.

# %% test="worker_loop_visible" points=3
from distlib.exercises import check_worker_loop

report = check_worker_loop(worker_loop, steps=[1, 2, 3])
assert len(report) == 3
assert report[1].trace.messages_sent == [3, 8]
assert report[1][0]["requests"] == [PULL, PUSH, PULL, PUSH, PULL, LEAVE]
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Another rank is the server. More steps, and none at all.

# %% test="worker_loop_hidden" points=3
# The hidden tests of worker_loop stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: a server on ranks 1, 2 and 5, other dtypes, up to 9 steps, and no step at all.
import torch

from distlib.exercises import check_worker_loop

report = check_worker_loop(worker_loop, steps=[1, 4, 9, 0], server=1, worker=0, seed=71)
assert len(report) == 4
assert report[2].trace.messages_sent == [29, 10]
assert report[3][1]["requests"] == [PULL, LEAVE]

report = check_worker_loop(worker_loop, steps=[3], server=2, worker=1, seed=74)
assert report[0].trace.messages_sent == [0, 11, 4]
report = check_worker_loop(
    worker_loop, steps=[2], server=5, worker=3, dtype=torch.float32, seed=75
)
assert report[0].trace.messages_sent == [0, 0, 0, 8, 0, 3]
report = check_worker_loop(
    worker_loop, steps=[1], server=1, worker=4, dtype=torch.bfloat16, seed=76
)
assert report[0].trace.messages_sent == [0, 2, 0, 0, 5]
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The loop of a server: `server_loop`
#
# One loop does all three modes. Only the bound differs. The server takes one request after the other, from any worker:
#
# - **PULL**: the worker waits for parameters from now on.
# - **PUSH**: the server receives the gradient, and the worker's clock goes up by 1. The gradient is not applied yet.
# - **LEAVE**: the worker no longer takes part. It has no clock any more, so nobody waits for it.
#
# All clocks begin at 0, before any request. So the others wait for a worker that comes late, too.
#
# **After every request** the server does what has become possible, in this order:
#
# 1. *Update.* All gradients that are not applied yet, and whose worker may proceed, are applied now. A gradient $g$
#    changes the parameters by $-\frac{\eta}{N}\,g$, in place. $\eta$ is `learning_rate`. $N$ is `len(workers)` in every
#    mode, also after some have left. All gradients that are applied at the same moment make one update, in any order.
# 2. *Answer.* All workers that wait, and may proceed, get the parameters.
#
# The server ends when all workers have left. It returns the list of its updates. An update is a dict: the workers whose
# gradients it is made of, each with the gradient's **staleness**. That is the number of updates that were made between
# sending the parameters to the worker and this update.
#
# `may_proceed` is supplied here: in the tests this name is the library's function, so yours need not be right.
#
# With workers 1 and 2, and worker 2 slower. "1 pushes a" means that gradient a comes from worker 1.
#
# | what comes | bound 0 | bound 1 |
# |---|---|---|
# | 1 and 2 pull | both get version 0 | both get version 0 |
# | 1 pushes a | kept | applied: version 1, `{1: 0}` |
# | 1 pulls | waits | gets version 1 |
# | 1 pushes b | – | kept: it would be 2 ahead of worker 2 |
# | 1 pulls | – | waits |
# | 2 pushes c | a and c applied: version 1, `{1: 0, 2: 0}` | b and c applied: version 2, `{1: 0, 2: 1}` |
# | | 1 gets version 1 | 1 gets version 2 |
#
# With bound 1, gradient c has staleness 1: worker 2 had version 0, and one update came before this one.


# %% solution="server_loop"
def server_loop(
    comm: Communicator,
    workers: list[int],
    parameters: torch.Tensor,
    learning_rate: float,
    bound: float,
) -> list[dict[int, int]]:
    """Serve the workers until all have left.

    Args:
        comm: the communicator of the server.
        workers: their ranks. Not changed.
        parameters: one-dimensional. Changed in place.
        learning_rate: a gradient g changes the parameters by -learning_rate / len(workers) * g.
        bound: how many gradients a worker may be ahead of the slowest. 0: synchronous;
            math.inf: asynchronous.

    Returns:
        The updates, in their order: for each worker whose gradient is in it, the gradient's
        staleness.

    Cost for parameters of S bytes: S bytes out for each PULL, S bytes in for each PUSH.
    """
    ### BEGIN SOLUTION
    clocks = dict.fromkeys(workers, 0)  # of the workers that have not left
    gradients: dict[int, torch.Tensor] = {}  # not applied yet
    waiting: list[int] = []  # for parameters
    version_of: dict[int, int] = {}  # what each worker has got
    updates: list[dict[int, int]] = []
    request = torch.empty(1, dtype=torch.int64)

    while clocks:
        worker = comm.recv(request, tag=REQUEST)
        if request == PULL:
            waiting.append(worker)
        elif request == PUSH:
            gradients[worker] = torch.empty_like(parameters)
            comm.recv(gradients[worker], worker, GRADIENT)
            clocks[worker] += 1
        else:
            del clocks[worker]

        ripe = [each for each in gradients if may_proceed(clocks, each, bound)]
        for each in ripe:
            parameters -= learning_rate / len(workers) * gradients.pop(each)
        if ripe:
            updates.append({each: len(updates) - version_of[each] for each in ripe})

        for each in [each for each in waiting if may_proceed(clocks, each, bound)]:
            waiting.remove(each)
            version_of[each] = len(updates)
            comm.send(parameters, each, PARAMETERS)
    return updates
    ### END SOLUTION


# %% [markdown]
# **Try it** on the table, in virtual time. Worker 1 needs 1 s for a gradient, worker 2 needs 2.5 s. Each takes 2 steps.


# %%
def a_worker(comm: Communicator, seconds: float, steps: int) -> None:
    parameters, gradient = torch.empty(1), torch.full((1,), float(comm.rank))
    for _ in range(steps):
        comm.send(torch.tensor([PULL]), 0, REQUEST)
        comm.recv(parameters, 0, PARAMETERS)
        comm.sleep(seconds)
        comm.send(torch.tensor([PUSH]), 0, REQUEST)
        comm.send(gradient, 0, GRADIENT)
    comm.send(torch.tensor([PULL]), 0, REQUEST)
    comm.recv(parameters, 0, PARAMETERS)
    comm.send(torch.tensor([LEAVE]), 0, REQUEST)


def try_server(comm: Communicator, bound: float) -> list[dict[int, int]] | None:
    if comm.rank == 0:
        return server_loop(comm, [1, 2], torch.tensor([100.0]), 0.5, bound)
    return a_worker(comm, [1.0, 2.5][comm.rank - 1], steps=2)


for bound in (0, 1, math.inf):
    simulated = SimulatedWorld(3)
    updates = simulated.run(try_server, bound)[0]
    print(f"bound {bound}: {updates}, {simulated.elapsed:.1f} s")
    expected = {
        0: [{1: 0, 2: 0}],
        1: [{1: 0}, {1: 0, 2: 1}],
        math.inf: [{1: 0}, {1: 0}, {2: 2}],
    }[bound]
    assert [dict(sorted(update.items())) for update in updates[: len(expected)]] == expected, (
        "not as in the table"
    )

# %% [markdown]
# **Visible test: 5 points.** Your server and workers of the test. Each list of numbers belongs to a worker: how many
# seconds it takes to begin, then for each of its gradients, and at the end to leave. The tests look at what each
# worker gets, when it gets it, and at what you return.

# %% test="server_loop_visible" points=5
from distlib.exercises import check_server_loop

report = check_server_loop(
    server_loop,
    races=[
        ([[0, 1, 0]], 0),
        ([[0, 1, 0], [1.5, 1, 0]], 0),
        ([[0, 1, 1, 0], [0, 2.5, 2.5, 0]], 0),
        ([[0, 1, 1, 1, 0], [0, 2.3, 2.3, 2.3, 0]], math.inf),
        ([[0, 1, 1, 1, 1, 0], [0.1, 2.3, 2.3, 2.3, 2.3, 0], [0.2, 1.2, 1.7, 3, 1.4, 0]], 1),
        ([[0, 1, 1, 1, 0], [0.4, 2.7, 1.5]], 0),
    ],
)
assert len(report) == 6
assert report[2][0]["updates"] == [{1: 0, 2: 0}] * 2
assert report[3][0]["updates"] == [{1: 0}, {1: 0}, {2: 2}, {1: 1}, {2: 1}, {2: 0}]
print(report)

# %% [markdown]
# **Hidden test: 5 points.** More workers, other bounds, another rank as the server, workers that come late, and workers
# that leave early.

# %% test="server_loop_hidden" points=5
# The hidden tests of server_loop stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 workers, several bounds and dtypes, a server on ranks 1 and 2, workers that come late.
import torch

from distlib.exercises import check_server_loop

six = [
    [0.1 * rank, *(1 + 0.17 * rank + 0.05 * k * (-1) ** rank for k in range(4)), 0.0]
    for rank in range(6)
]
races = [
    ([[0, 1, 1, 1, 0], [0, 0.35, 0.35, 0.35, 0]], 2),
    ([[0, 1, 0.3, 2, 0], [1.6, 0.5, 0.5, 0.5, 0], [0.2, 1.1, 1.3, 0.6, 0]], 0),
    (six, math.inf),
    (
        [
            [0, 2.1, 0.8],
            [0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0],
            [0.2, 0.72, 0.72, 0.72, 0.72, 0],
        ],
        1,
    ),
    ([[3.3, 1, 1, 0], [0, 0.4, 0.4, 0.4, 0.4, 0], [0.2, 0.65, 0.65, 0.65, 0.65, 0.3]], 2),
    ([[0, 1, 1, 1, 1, 1, 1, 0], [0.1, 2.3, 2.3, 2.3, 0], [0.2, 1.2, 1.7, 3, 1.4, 0]], 3),
]
report = check_server_loop(server_loop, races=races, server=2, seed=72)
assert len(report) == 6
assert (
    max(staleness for update in report[0][2]["updates"] for staleness in update.values()) >= 2
)
assert all(
    staleness == 0 for update in report[1][2]["updates"] for staleness in update.values()
)
assert sum(map(len, report[2][2]["updates"])) == 24

report = check_server_loop(
    server_loop,
    races=[([[0.2, 1, 0.5, 0]], 0), ([[0, 1, 1, 0.1]], math.inf)],
    server=1,
    dtype=torch.float32,
    seed=73,
)
assert [seen[1]["updates"] for seen in report] == [[{0: 0}, {0: 0}]] * 2
### END HIDDEN TESTS

# %% [markdown]
# ## 5. Real work: train with a slow worker
#
# This part gives no marks. Rank 0 is the server. Three workers learn to read handwritten digits, each from a third
# of the images. The model is a linear classifier: 65 weights for each of the 10 classes, in one flat tensor.
#
# A gradient takes a worker 10 ms of virtual time, but worker 3 needs 40 ms.

# %%
from distlib.training import digits

train, test = digits()


def inputs_of(images: torch.Tensor) -> torch.Tensor:
    """The pixels of each image and a 1, for the bias; shape [images, 65]."""
    return torch.cat([images.flatten(1), torch.ones(len(images), 1)], dim=1)


def accuracy(parameters: torch.Tensor) -> float:
    outputs = inputs_of(test.images) @ parameters.view(10, 65).T
    return float((outputs.argmax(dim=1) == test.labels).float().mean())


def train_with_a_server(
    comm: Communicator, bound: float, steps: list[int], seconds: list[float]
) -> tuple[torch.Tensor, list[dict[int, int]]]:
    """Runs on every rank. steps, seconds: how many gradients each worker computes, and how long
    one takes."""
    parameters = torch.zeros(650)
    workers = list(range(1, comm.world_size))
    if comm.rank == 0:
        updates = server_loop(comm, workers, parameters, 0.5, bound)
        return parameters, updates

    mine = slice(comm.rank - 1, None, len(workers))
    images, labels = inputs_of(train.images[mine]), train.labels[mine]
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(comm.rank))

    def compute(step: int) -> torch.Tensor:
        comm.sleep(seconds[comm.rank - 1])
        chosen = order[torch.arange(step * 16, step * 16 + 16) % len(order)]
        weights = parameters.view(10, 65).clone().requires_grad_()
        torch.nn.functional.cross_entropy(images[chosen] @ weights.T, labels[chosen]).backward()
        return weights.grad.flatten()

    worker_loop(comm, 0, parameters, compute, steps[comm.rank - 1])
    return parameters, []


# %% [markdown]
# Synchronous training goes at the pace of worker 3. Each worker has pushed 60 gradients after 2.4 s. Without a bound
# the other two push 240 each in the same time.

# %%
seconds, virtual = [0.01, 0.01, 0.04], {}
for bound, steps in ((0, [60, 60, 60]), (math.inf, [240, 240, 60])):
    simulated = SimulatedWorld(4)
    parameters, updates = simulated.run(train_with_a_server, bound, steps, seconds)[0]
    stale = [staleness for update in updates for staleness in update.values()]
    virtual[bound] = simulated.elapsed, len(stale), max(stale), accuracy(parameters)
    print(
        f"bound {bound}: {len(stale)} gradients in {simulated.elapsed:.2f} s, "
        f"staleness up to {max(stale)}, "
        f"accuracy {accuracy(parameters):.1%}"
    )

assert all(abs(elapsed - 2.4) < 0.05 for elapsed, *_ in virtual.values()), (
    "expected 2.4 s: who waits for whom?"
)
assert [number for _, number, *_ in virtual.values()] == [180, 540]
assert virtual[0][2] == 0 and virtual[math.inf][2] >= 8
assert all(reached > 0.8 for *_, reached in virtual.values()), (
    "do worker_loop and server_loop pass their tests?"
)

# %% [markdown]
# Three times as many gradients: that is what the straggler has cost. Worker 3's gradients are the stale ones: while it
# computes one, the others push 8.
#
# The same functions on real processes, without a bound. Here the clock is real, and so the staleness differs a little
# from run to run.

# %%
with World(4) as four:
    parameters, updates = four.run(
        train_with_a_server, math.inf, [120, 120, 30], seconds, timeout=60
    )[0]
stale = {
    worker: [update[worker] for update in updates if worker in update] for worker in (1, 2, 3)
}
print(f"accuracy {accuracy(parameters):.1%}")
print(
    "mean staleness of each worker:",
    {worker: sum(each) / len(each) for worker, each in stale.items()},
)

assert [len(each) for each in stale.values()] == [120, 120, 30]
assert accuracy(parameters) > 0.8

# %% [markdown]
# Two servers would share the model's bytes evenly, if its one tensor may be cut:

# %%
for largest_bytes in (2600, 650):
    plan = shard_parameters([(650, 4)], 2, largest_bytes)
    print(
        f"pieces of at most {largest_bytes} bytes:",
        [sum(4 * (stop - start) for _, start, stop in shard) for shard in plan],
    )

assert sorted(sum(stop - start for _, start, stop in shard) for shard in plan) == [324, 326]

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 07b_parameter_server` does the same with the
# saved notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("07b_parameter_server")

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("07b_parameter_server")
