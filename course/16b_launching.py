# %% [markdown]
# # Launching: node lists, hangs, silence
#
# **This lesson is optional.** It is a side road that begins where [Environments](16_environments.ipynb) ends. There,
# two ranks met, and a run went on after a kill. Here come the cases that are less friendly: a port that another program
# has, a list of nodes with zeros in it, a launch that hangs, a checkpoint with a wrong bit, a machine that falls
# silent, and the last minute of a job.
#
# After this lesson you will be able to
#
# - read Slurm's variables and its lists of nodes,
# - find out why a launch hangs, and on which rank,
# - notice a damaged checkpoint, and let ranks agree on the one to resume from,
# - let a run go on with the ranks that are left, also if a machine falls silent,
# - stop in time before a job's limit, and go back into the queue,
# - choose an all-reduce for a network by its delay and its bandwidth.
#
# **Time:** about 75 minutes. **You need:** [Environments](16_environments.ipynb). No GPU, no cluster, no Docker, no
# special rights: all that is run here is run on your machine.

# %% tags=["folded"]
# The imports
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

# %% tags=["folded"]
# More imports
from distlib import (
    Cluster,
    Communicator,
    DeadlockError,
    Link,
    RunTimeout,
    SimulatedWorld,
    World,
    all_reduce,
    launch,
)
from distlib.draw import curves, predict
from distlib.training import digits

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
folder = Path(tempfile.mkdtemp())


def new_folder() -> Path:
    """An empty one each time, so that a cell can be run again."""
    return Path(tempfile.mkdtemp(dir=folder))


# %% tags=["folded"]
# From the lesson before: the variables of two ranks, and a program that knows only its environment
NAMES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
Environment = dict[str, str]


def free_ports(count: int) -> list[int]:
    """Ports at which nobody listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def both(port: int, **change: str) -> list[Environment]:
    """The variables of ranks 0 and 1 that meet at a port here; `change`: on both."""
    base = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return [{**base, "RANK": str(rank), **change} for rank in range(2)]


def join(comm: Communicator, environments: list[Environment]) -> tuple[float, str]:
    """Be a program of its own. Returns the seconds that it took, and what was seen."""
    for name in NAMES:
        os.environ.pop(name, None)
    os.environ.update(environments[comm.rank])
    began = comm.time()
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=5))
        number = torch.tensor([comm.rank % 2 + 1.0])
        dist.all_reduce(number)
        seen = f"sum {number.item():.0f}"
    except Exception as error:
        seen = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return comm.time() - began, seen


def quiet(rank: int, stream: str, text: str) -> None:
    """Instead of printing what a rank prints: torch writes pages of C++ frames."""


def be_another_program(server: socket.socket) -> None:
    """Accept connections, and hang up: nobody here speaks torch's language."""
    while True:
        server.accept()[0].close()


def brief(text: str) -> str:
    """A long text without its middle: torch names the cause at the end."""
    if len(text) < 85:
        return text
    return f"{text[:22].rsplit(' ', 1)[0]} … {text[-60:].split(' ', 1)[1]}"


# %% [markdown]
# ## Two more mistakes
#
# In lesson 16 each variable had a wrong value. It can also be missing, and its port can belong to another program.

# %%
taken = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=be_another_program, args=(taken,), daemon=True).start()
missing = both(free_ports(1)[0])
del missing[1]["MASTER_ADDR"]
mistakes = {
    "rank 1 has no MASTER_ADDR": missing,
    "MASTER_PORT: another program's": both(taken.getsockname()[1]),
}
environments = [each for pair in mistakes.values() for each in pair]
with World(len(environments), on_output=quiet) as world:
    found = world.run(join, environments, timeout=60)
outcomes = dict(zip(mistakes, zip(found[::2], found[1::2], strict=True), strict=True))
for name, outcome in outcomes.items():
    print(name)
    for rank, (seconds, seen) in enumerate(outcome):
        print(f"   rank {rank}, {seconds:4.1f} s: {brief(seen)}")

# %% tags=["folded"]
# Checks of the numbers above
first, second = (
    {name: pair[rank][1] for name, pair in outcomes.items()} for rank in (0, 1)
)
assert "MASTER_ADDR expected, but not set" in second["rank 1 has no MASTER_ADDR"]
assert "1/2 clients joined" in first["rank 1 has no MASTER_ADDR"]
assert "EADDRINUSE" in first["MASTER_PORT: another program's"]
hung_up = second["MASTER_PORT: another program's"]
assert "Connection reset" in hung_up or "Broken pipe" in hung_up

# %% [markdown]
# In the first mistake rank 1 has the error and rank 0 the long wait. In the second one rank 0 has the better error:
# `EADDRINUSE` names the port. **The rank that waits is seldom the rank that is wrong, so read the log of every rank.**
#
# One mistake needs two real machines, so no cell shows it. All ranks have joined the store, and then comes "Connection
# refused", or a wait, because a rank has left an address there that the others can't reach. Machines have several
# networks. Name the right one in `GLOO_SOCKET_IFNAME`, or `NCCL_SOCKET_IFNAME`, such as `eth0`.
#
# ## What torchrun and srun say
#
# A program that is started by either of them has to read two languages. If `srun` starts 2 tasks on each of 2 nodes,
# the task of rank 3 finds the variables in the next cell. `read_placement` translates them, and torchrun's too:

# %%
TORCHRUN = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "0",
    "GROUP_WORLD_SIZE": "1",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "41337",
}
SRUN = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "node[07,12]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}
print(f"{'':15} {'torchrun, rank 1':21} srun, rank 3")
here, there = (
    launch.read_placement(TORCHRUN, "localhost"),
    launch.read_placement(SRUN, "node12"),
)
for field in "rank world_size local_rank local_size node nodes node_name store".split():
    print(f"{field:15} {getattr(here, field)!s:21} {getattr(there, field)}")

# %% [markdown]
# | question | torchrun | srun |
# |---|---|---|
# | who am I | `RANK` | `SLURM_PROCID` |
# | how many are we | `WORLD_SIZE` | `SLURM_STEP_NUM_TASKS`, or `SLURM_NTASKS` |
# | who on this machine: which GPU | `LOCAL_RANK` | `SLURM_LOCALID`; but 0 if each task sees one GPU only |
# | how many on this machine | `LOCAL_WORLD_SIZE` | in `SLURM_STEP_TASKS_PER_NODE` |
# | which machine | `GROUP_RANK` | `SLURM_NODEID` |
# | where do we meet | `MASTER_ADDR`, `MASTER_PORT` | nothing: only the names of the nodes |
#
# `distlib launch` reads either of the two, so the same function runs under both. Variables that contradict each other
# are an error at once, and not a wait:

# %%
for change in ({"SLURM_PROCID": "4"}, {"SLURM_STEP_NODELIST": "node[07,12,13]"}):
    try:
        launch.read_placement({**SRUN, **change}, "node12")
    except launch.LaunchError as error:
        print(error)

# %% tags=["folded"]
# Checks of the tables above
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousTimeout

assert RendezvousTimeout().join == timedelta(minutes=10)
assert (here.rank, here.world_size, here.local_rank, here.nodes) == (1, 2, 1, 1)
assert here.store is not None and there.store is None
assert (there.rank, there.world_size) == (3, 4)
assert (there.local_rank, there.local_size) == (1, 2)
assert (there.node, there.nodes, there.node_name) == (1, 2, "node12")

# %% [markdown]
# Before there are any ranks, the torchruns of all machines have to meet. With `--nnodes 2` they wait 10 minutes for
# each other, but only one or two minutes for the one that has the store, so start that one first.
#
# With `--standalone`, or with a port in `--rdzv-endpoint`, they meet in a store to which everybody can write who
# reaches the port. Torchrun reads a pickle from this store, and a pickle can be a program. **On a machine with other
# users, let torchrun meet in a file**, in a folder that all machines share and only you can enter:
#
#     torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d \
#         --rdzv-endpoint FOLDER/meeting --rdzv-conf store_type=file train.py
#
# Give the file a new name for each run. `distlib launch` needs no such care.
#
# ## Node lists
#
# Slurm writes the nodes of a job in a short form. A job script asks `scontrol show hostnames` to write it out, and so
# does `write_out`:

# %%
guess_1 = predict("How many nodes are node[01-03,07],gpu[8-11]-ib,login?", unit="nodes")

# %%
for text in ("node[01-03,07]", "gpu[8-11]-ib", "login", "rack[1-2]n[1-2]"):
    print(f"{text:16} ", *launch.write_out(text))
nodes = launch.write_out("node[01-03,07],gpu[8-11]-ib,login")
print(guess_1.compare(len(nodes)))
assert len(nodes) == 9

# %% [markdown]
# **Zeros are part of a name:** `node[08-11]` begins with `node08`. A script that turns the text into numbers and back
# asks the network for `node8`, which is nobody, or worse, another machine. In the exercise you write this yourself.
#
# An address that was written into a job script by hand hangs in the next job. It can be worse: if the old node is in
# somebody else's job that uses the same port, your ranks knock at a stranger's store. `srun distlib launch
# train.py:main` needs no address. The ranks meet by a file in your home, which all nodes of a cluster see: rank 0's
# machine lets the system choose a port, and writes into the file where it is. Nobody has chosen the port beforehand, so
# no other job can have it.
#
# A port that you choose yourself, such as `10000 + SLURM_JOB_ID % 20000`, stays below 32768, where the ports begin that
# Linux takes for connections.
#
# **Try it.** How many nodes are `node[7-12]`, and how many `node[07-12]`? Write both out. Then try a range that ends
# before it begins.

# %%
print(launch.write_out("node[7-12]"))  # change this line

# %% tags=["folded"]
# One way to do it
# Six nodes each, with other names; and an error that names the range
for text in ("node[7-12]", "node[07-12]", "node[12-7]"):
    try:
        print(f"{text:12}", *launch.write_out(text))
    except ValueError as error:
        print(f"{text:12}", error)
assert len(launch.write_out("node[7-12]")) == len(launch.write_out("node[07-12]")) == 6
assert launch.write_out("node[7-12]")[0] == "node7"

# %% [markdown]
# ## A launch that hangs
#
# A hang has no error message, so you must ask, and the question is always the same: *which rank is where?*
#
# Here rank 2 waits for a file that never comes, while the others are in an all-reduce. With a time limit, `World` says
# where each rank is. Besides, each rank has asked `faulthandler`, a module of Python, to write down its stack after 2
# seconds.


# %%
def wait_for_data(path: Path) -> None:
    while not path.exists():
        time.sleep(0.1)


def hang(comm: Communicator) -> None:
    stack = open(folder / f"stack-{comm.rank}", "w")
    faulthandler.dump_traceback_later(2, file=stack)
    if comm.rank == 2:
        wait_for_data(folder / "data")
    all_reduce(comm, torch.ones(3), algorithm="ring")


with World(3) as world:
    try:
        world.run(hang, timeout=8)
    except RunTimeout as error:
        report = str(error)
print(report.replace("; ", "\n"))
stack = (folder / "stack-2").read_text()
print("\nWhat rank 2 wrote begins:", *stack.splitlines()[:4], sep="\n")

# %% [markdown]
# Rank 0 waits for a message of rank 2, and rank 2 is in `wait_for_data`. That is the whole diagnosis.
#
# On a cluster, where no `World` watches, other tools say the same:
#
# | what you want | what to do |
# |---|---|
# | to know which process it is | `srun --overlap --jobid 4711 --nodelist node12 ps -u $USER`, or `ssh` to the node |
# | where it is, with nothing prepared | `py-spy dump --pid 1234` (a package), where that is allowed |
# | the same, prepared in the program | `faulthandler.register(signal.SIGUSR2)`, then `kill -USR2 1234` |
# | the same after a time limit | `faulthandler.dump_traceback_later(300, repeat=True)` |
#
# A rank that has not come at all has no stack. Only the ranks that are there can say who is missing. Here is rank 0 of
# 2, as if torchrun had started it on one machine, and nobody had started the other rank:

# %%
(port,) = free_ports(1)
(folder / "train.py").write_text("def main(comm):\n    pass\n")
command = f"-m distlib.cli launch --patience 10 {folder}/train.py:main".split()
done = subprocess.run(
    [sys.executable, *command],
    env={**os.environ, **both(port)[0], "PYTHONPATH": os.pathsep.join(sys.path)},
    capture_output=True,
    text=True,
    timeout=60,
)
print(done.stderr)
assert "rank 1 has not come" in done.stderr and done.returncode == 1

# %% [markdown]
# **In a hang, look at two ranks at least: one that waits, and the one that it waits for.** If all ranks are in
# `init_process_group`, go back to the four variables, and then to the networks of the machines. A cycle, in which each
# rank waits for another one in the cycle, needs no limit: `World` and `distlib launch` find it and say so. What torch
# can say, [lesson 17](17_hang_clinic.ipynb) shows.

# %% tags=["folded"]
# Checks of the text above
assert "rank 0 waits to receive" in report and "from rank 2" in report
assert "rank 2 was computing at" in report
assert "wait_for_data" in stack

# %% [markdown]
# ## A checkpoint that is not as it was written
#
# In lesson 16 a checkpoint was cut off, and `torch.load` noticed. What if all bytes are there, but one of them is not
# as it was written? Disks do that, seldom; networks and memory, too.

# %%
guess_2 = predict(
    "One bit of the weights in a file of torch.save is flipped. What does torch.load give?",
    choices=["an error", "a wrong weight"],
)

# %%
STATE = {"weights": torch.full((100_000,), 0.5), "step": 30}
plain = folder / "plain.pt"
torch.save(STATE, plain)
content = bytearray(plain.read_bytes())
place = bytes(content).index(STATE["weights"][:4].numpy().tobytes()) + 3
content[place] ^= 0b0100_0000
plain.write_bytes(content)
weights = torch.load(plain)["weights"]
print(f"weights between {weights.min():.3g} and {weights.max():.3g}")
print(guess_2.compare("a wrong weight"))
assert weights.min() == 0.5 and weights.max() > 1e38

# %% [markdown]
# One bit, and a weight of 0.5 is $1.7\cdot10^{38}$. The training would go on with it.
#
# `distlib.launch.checkpoints` does all that makes a checkpoint safe:
#
# | | what is done | why |
# |---|---|---|
# | write | into a file of another name, `00000030.4711.part` | a crash leaves the old checkpoints as they were |
# | fsync | wait until the data is on the disk | else the name may get there before the data |
# | rename | to `00000030.checkpoint`, at once | under this name there is a whole file or none |
# | fsync | wait until the folder is on the disk | else the name may be lost |
# | checksum | of everything, in the file's header | what is cut off or flipped is noticed before it is loaded |
#
# Here is a rank that writes one checkpoint after another, as fast as it can. It is killed while it writes, a second
# after the first one is there.


# %%
def write_for_ever(comm: Communicator, where: Path) -> None:
    step = 0
    while comm.rank == 1:
        step += 1
        launch.write_checkpoint(where, step, {**STATE, "step": step})
        if step == 1:
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGKILL)).start()


where = new_folder()
with World(2, deaths={}) as world:
    world.run(write_for_ever, where)
print(
    len(launch.steps_in(where)), "checkpoints,", len(launch.good_steps(where)), "good,"
)
print(
    "and one half written:",
    [path.name for path in where.glob("*.part")] or "not this time",
)
assert launch.steps_in(where) == launch.good_steps(where) != []

# %% [markdown]
# This shows the rename. It can't show the fsync: what a killed process has handed to the system is not lost, but it is
# lost when the power fails.
#
# Now we spoil some checkpoints ourselves. One is cut off, and in one a bit is flipped.

# %%
spoiled = new_folder()
paths = {step: launch.write_checkpoint(spoiled, step, STATE) for step in (10, 20, 30)}
paths[30].write_bytes(paths[30].read_bytes()[:-1000])
content = bytearray(paths[20].read_bytes())
content[5000] ^= 1
paths[20].write_bytes(content)
for path in paths.values():
    try:
        print(f"step {launch.read_checkpoint(path)[0]} is good")
    except launch.TornCheckpoint as error:
        print(error)
print("good:", launch.good_steps(spoiled))
assert launch.good_steps(spoiled) == [10]

# %% [markdown]
# **Only a checksum notices a bit that has flipped.**
#
# One thing is left. On a cluster each machine may have a disk of its own, and the crash may come when some ranks have
# written and others have not. Then ranks may have *different* last good checkpoints. If each rank took its own, some
# would train on with other weights, at another step. Nobody would notice until the first rank is done, and the others
# wait for it.

# %%
guess_3 = predict(
    "Good checkpoints: 10, 20, 30 on rank 0; 10, 30 on rank 1; 10, 20, 40 on rank 2. "
    "From which step can all go on?",
    unit="",
)


# %%
def resume_from(comm: Communicator, have: list[list[int]]) -> int:
    own = disks / str(comm.rank)
    checkpoints = launch.Checkpoints(comm, own, writes=True)
    for step in have[comm.rank]:
        launch.write_checkpoint(own, step, {"step": step})
    return checkpoints.resume()[0]


disks = new_folder()
common = SimulatedWorld(3).run(resume_from, [[10, 20, 30], [10, 30], [10, 20, 40]])
print(common)
print(guess_3.compare(common[0]))
assert common == [10, 10, 10]


# %% tags=["folded"]
# Check of the text above
# From their own last steps to step 60
def go_on(comm: Communicator) -> None:
    for _ in range((30, 30, 40)[comm.rank], 60):
        all_reduce(comm, torch.ones(1))


try:
    SimulatedWorld(3).run(go_on)
except DeadlockError as error:
    why = str(error)
assert "rank 2 has already returned, after collective call 20" in why

# %% [markdown]
# Step 30 is the smallest of the last steps, but rank 2 does not have it. **The ranks must agree on the last step that
# all of them have.** You will write that.
#
# **Try it.** What does `resume` say if the ranks have no step in common?

# %%
disks = new_folder()
mine = [[10, 20, 30], [10, 30], [10, 20, 40]]  # change this line
print(SimulatedWorld(3).run(resume_from, mine))

# %% tags=["folded"]
# One way to do it
# It begins at the start: step zero, and no state
disks = new_folder()
fresh = SimulatedWorld(3).run(resume_from, [[10, 30], [20], [10, 20]])
print(fresh)
assert fresh == [0, 0, 0]

# %% [markdown]
# ## Elastic
#
# A run is **elastic** if it goes on with the ranks that are left. Here is a training on the digits that does not depend
# on the number of ranks: each step has the same 48 images, and each rank takes its share of them. It is in float64, to
# see how exact it is. It resumes, and every 10 steps it writes.

# %%
train_set, _ = digits()
images = (train_set.images - train_set.images.mean(dim=0)).flatten(1).double()
labels = train_set.labels
BATCH, EVERY = 48, 10

Trouble = Callable[[Communicator, int], None]
Losses = list[tuple[int, float]]


def one_step(comm: Communicator, model: nn.Module, step: int) -> float:
    """Gradients of the batch of this step, of which each rank computes a part."""
    generator = torch.Generator().manual_seed(step)
    chosen = torch.randperm(len(labels), generator=generator)[:BATCH]
    mine = chosen[comm.rank :: comm.world_size]
    model.zero_grad()
    loss = cross_entropy(model(images[mine]), labels[mine], reduction="sum") / BATCH
    loss.backward()
    parts = [parameter.grad for parameter in model.parameters()]
    total = torch.cat([loss.detach()[None], *(part.flatten() for part in parts)])
    all_reduce(comm, total)
    nn.utils.vector_to_parameters(total[1:], parts)
    return float(total[0])


# %%
def train(
    comm: Communicator, where: Path, steps: int, trouble: Trouble | None = None
) -> Losses | int:
    """Train from the last checkpoint on. Returns (step, loss) for each, or REQUEUE."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    checkpoints = launch.Checkpoints(comm, where)
    first, state = checkpoints.resume()
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    losses = []
    for step in range(first, steps):
        if trouble is not None:
            trouble(comm, step)
        losses.append((step, one_step(comm, model, step)))
        optimizer.step()
        ends = launch.ends_soon(comm)
        if ends or (step + 1) % EVERY == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            checkpoints.save(step + 1, state)
        if ends:
            return launch.REQUEUE
    return losses


alone = new_folder()
undisturbed = SimulatedWorld(1).run(train, alone, 60)[0]
print(f"one rank, undisturbed: loss {undisturbed[0][1]:.3f} → {undisturbed[-1][1]:.3f}")

# %% [markdown]
# Now on four ranks, and before step 37 rank 2 is killed. In a terminal the command is `distlib launch --elastic 2:4
# train.py:main`: begin on 4 ranks, and go on as long as there are 2. Here is the same from the notebook.

# %%
guess_4 = predict(
    "Three ranks go on from step 30. How far are their losses from those of one undisturbed rank?",
    choices=["equal, up to rounding", "about a percent off", "quite different"],
)


# %%
def kill_rank_2(comm: Communicator, step: int) -> None:
    if (comm.rank, step, comm.world_size) == (2, 37, 4):
        os.kill(os.getpid(), signal.SIGKILL)


found = launch.run_elastic(
    train, new_folder(), 60, kill_rank_2, lowest=2, highest=4, say=print
)
again = found[0][0][0]
print(f"{len(found)} ranks are left; they began at step {again}")
later = undisturbed[again:]
largest = max(abs(a - b) for (_, a), (_, b) in zip(found[0], later, strict=True))
print(f"largest difference to the undisturbed losses: {largest:.0e}")
print(guess_4.compare("equal, up to rounding" if largest < 1e-9 else "quite different"))
assert len(found) == 3 and again == 30 and largest < 1e-9
assert BATCH // 4 == 12

# %%
curves(
    {"one rank, undisturbed": undisturbed, "3 ranks from step 30": found[0]},
    along="steps",
    values="loss",
    title="After the loss of a rank: the same losses",
    subtitle="48 images per step; rank 2 of 4 was killed before step 37, "
    "the last checkpoint was that of step 30",
)

# %% [markdown]
# Seven steps are done twice: first by four ranks, then by three. The losses are those of a run to which nothing
# happened, up to rounding: a sum of three parts is rounded differently from a sum in one piece.
#
# **An elastic run keeps its losses if a step is the same on any number of ranks.** Here the batch is fixed, and so is
# the rate. If each rank had 12 images of its own, three ranks would have a batch of 36, and lesson 06 applies: another
# rate. With dropout each rank draws masks of its own, so three ranks can't repeat what four have drawn. The checkpoint
# also needs *everything* that the next step depends on: the weights, the momentum, the step, and the state of a rate
# that changes.
#
# ### Silence
#
# A killed process is a friendly death: the system closes its connections, and over TCP the others see the end at once.
# Where NCCL's ranks share memory, no connection ends; there torchrun sees the end of its process. The other kind is
# silence. A cable is pulled, a switch fails, a process is stopped: no end arrives, only nothing any more. But nothing
# arrives from a rank that is computing, either. **Only a time limit tells silence from work**, and it can be wrong.
#
# So we stop rank 1. It is not ended: it is there, and it may wake up later. The limit is 8 seconds.


# %%
def stop_rank_1(comm: Communicator, step: int) -> None:
    if (comm.rank, step, comm.world_size) == (1, 37, 3):
        os.kill(os.getpid(), signal.SIGSTOP)


began = time.monotonic()
found = launch.run_elastic(
    train, new_folder(), 60, stop_rank_1, lowest=2, highest=3, silence=8, say=print
)
took = time.monotonic() - began
print(f"{len(found)} ranks, from step {found[0][0][0]}: {took:.0f} s")
largest = max(abs(a[1] - b[1]) for a, b in zip(found[0], later, strict=True))
assert len(found) == 2 and found[0][0][0] == 30 and largest < 1e-9
assert launch.SILENCE == 3  # seconds, between machines

# %% [markdown]
# Each rank gives a sign of life, from a thread of its own, so a rank that computes for long is not silent. Nor is a
# rank that hangs, such as the one that waited for a file: for that you need the tools for hangs. A limit that is
# shorter than a call that keeps Python's lock kills a healthy rank.
#
# The silent rank is *killed* before the others go on. Otherwise it might wake up and write a checkpoint into a run that
# has moved on. Clusters call that **fencing**.
#
# ### Silence between machines
#
# Between machines the sign of life is TCP's: the connections of `distlib launch` ask the other machine every second,
# and give up after 3 s. That finds a machine or a cable that is gone. It does not find a process that we have stopped,
# because its machine still answers for it. Nor can anybody kill what is behind a cut cable. So a rank that has lost
# rank 0's machine ends itself, and *one* place decides who goes on: torchrun's store, or Slurm. Otherwise both sides
# might. Torch's own calls wait for their time limit of 30 minutes. Often Linux is faster: after some 15 minutes it
# gives up a connection on which something was sent and not confirmed.
#
# `torchrun` makes a run elastic over machines: `torchrun --nnodes 1:4 --max-restarts 3 …` goes on with the nodes that
# are left, as long as the one named in `--rdzv-endpoint` is among them. It notices a loss when a rank fails: after a
# killed process at once, after a cut cable as late as torch's own calls do. Then all ranks start again, and your
# function resumes; after the loss of a node that takes some 45 s. The folder must be one that all nodes see, because a
# new node has no checkpoints of its own, and all ranks would begin at step 0. A node that is late, or back with its
# torchrun started again, is taken in by another start of all ranks.
#
# Each node counts its own restarts, and the run ends when one would need a fourth. To take in a late node, the others
# stop their ranks, and not all at the same moment. Ranks of another node may fail by that, and it counts a restart. So
# allow more restarts than you expect losses.
#
# Set `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` on every node. There are two stores: the torchruns meet in the one of
# `--rdzv-endpoint`, the ranks in another, at `MASTER_ADDR` on the node that has rank 0. Without the variable, a
# torchrun of torch 2.13 keeps the ranks' address of its first start for all later ones. If a node is late, or if the
# node with rank 0 is lost and two or more are left, some look for each other in the old store, some in the new one.
# Then the run ends after a minute or two, or waits until a time limit. On a single machine gloo's new ranks find the
# addresses of dead ones in the old store, and are refused or wait.
#
# The project's `tests/launch/test_two_machines.py` does this as root. Of two machines that are cut off, each names the
# other. Torchrun goes on without a machine that has no store, and of three without the one that had rank 0. Killed and
# started again, a machine is taken in. The losses are those of an undisturbed run.
#
# ## Before the limit
#
# A job that reaches its time limit is killed. Slurm can send a signal before, if the job script asks for it, and put
# the job back into the queue:
#
#     #SBATCH --time=24:00:00 --requeue --open-mode=append
#     #SBATCH --signal=USR1@60             # to all ranks, 60 to 120 s before the limit
#     srun distlib launch train.py:main    # the same script each time: it resumes
#     if [ $? -eq 75 ]; then scontrol requeue $SLURM_JOB_ID; fi
#
# `distlib launch --script train` prints such a script, whole. A step and a checkpoint must fit into the 60 s.
#
# Signals reach the ranks in the middle of different steps. So `ends_soon(comm)` is an all-reduce: **if one rank has got
# the signal, all ranks stop after the same step.** Then they write, and return `REQUEUE`, which becomes the exit status
# of the launch, but not under torchrun, to which 75 is a failure. On your machine, `distlib launch --ranks 4` passes a
# signal on to its ranks by a file. In this notebook rank 1 makes the file, in step 37 of a million. Then a second job
# goes on.

# %%
where = new_folder()
notice = new_folder() / "notice"
EVERY = 10**9  # so that only the notice makes them write


def give_notice_in_37(comm: Communicator, step: int) -> None:
    if (comm.rank, step) == (1, 37):
        notice.touch()


results = launch.run_elastic(
    train, where, 1_000_000, give_notice_in_37, lowest=2, highest=2, notice=notice
)
print(
    "returned", results, "and the checkpoints are after steps:", *launch.steps_in(where)
)
found = launch.run_elastic(train, where, 43, lowest=2, highest=2)
EVERY = 10  # as before
print("the second job does steps", *(step for step, _ in found[0]))
assert results == [launch.REQUEUE, launch.REQUEUE] == [75, 75]
assert launch.good_steps(where) == [38]
assert [step for step, _ in found[0]] == [38, 39, 40, 41, 42]

# %% [markdown]
# 75 is `EX_TEMPFAIL` of the mail programs of old: try again later. Any number that no error uses will do: 1 is
# Python's, 128 and more are the signals'.
#
# ## Delay and bandwidth
#
# Between machines a message is slower than within one, and in two ways: it is *late*, and it is *long*. Lessons
# [02](02_all_reduce.ipynb) and [03](03_trees_and_grids.ipynb) have the formulas: of eight ranks, a ring pays 14
# latencies and sends 1.75 tensors one after another, a tree pays 6 and sends 6. So there is a size up to which the tree
# is faster. Only the links are new here.

# %%
DISTANT = Link(latency=5e-3, bandwidth=100e6)
IN_A_CLUSTER = Link(latency=20e-6, bandwidth=1.25e9)


def crossover(link: Link) -> float:
    return (14 - 6) * link.latency / (6 - 1.75) * link.bandwidth  # bytes


for link in (DISTANT, IN_A_CLUSTER):
    network = f"{1e6 * link.latency:,.0f} µs and {link.bandwidth / 1e6:,.0f} MB/s"
    print(f"{network}: up to {crossover(link):,.0f} bytes the tree, then the ring")

# %% tags=["folded"]
# Checks of the numbers above, in virtual time


def reduce(comm: Communicator, numbers: int, algorithm: str) -> None:
    all_reduce(comm, torch.zeros(numbers), algorithm=algorithm)


for link in (DISTANT, IN_A_CLUSTER):
    simulated = SimulatedWorld(8, Cluster.flat(8, link))
    for factor, expected in ((0.98, "tree"), (1.02, "ring")):
        found = {}
        for algorithm in ("ring", "tree"):
            simulated.run(reduce, int(factor * crossover(link)) // 4, algorithm)
            found[algorithm] = simulated.elapsed
        assert min(found, key=found.get) == expected
assert 47_000 < crossover(IN_A_CLUSTER) < 47_100

# %% [markdown]
# **Small tensors want few rounds, large tensors want few bytes.** Where a message needs 20 µs and a link has 10 Gbit/s,
# the ring of eight ranks wins from 47 KB on. That is for links that are all alike and that nobody else uses. NCCL's
# tree cuts the tensor into pieces that follow one another, so it is good at large tensors, too: there let NCCL choose.
#
# **Try it.** How fast must the distant links be for the tree to win up to a megabyte?

# %%
for bandwidth in (100e6, 100e6):  # change one
    print(f"{crossover(Link(5e-3, bandwidth)):,.0f} bytes")

# %% tags=["folded"]
# One way to do it
# The border is proportional to the bandwidth
megabyte = 1e6 / crossover(Link(5e-3, 1.0))
print(f"{megabyte / 1e6:,.0f} MB/s")
assert abs(crossover(Link(5e-3, megabyte)) - 1e6) < 1

# %% [markdown]
# ## What to type where
#
# | where you are | what to type |
# |---|---|
# | your laptop | `make lab`; a script: `distlib launch --ranks 4 train.py:main` |
# | Docker | `docker compose -f docker/compose.yaml up`, and open the address in its last line |
# | one machine with GPUs | `make lab`: `World(4)` takes NCCL if there are 4 GPUs. In Docker: `… up lab-gpu` |
# | some machines without a scheduler | on each of them, the line below this table |
# | a cluster with Slurm | `srun --nodes 2 --ntasks-per-node 4 distlib launch train.py:main` |
# | a training longer than one job | `distlib launch --script train > train.sbatch`, then `sbatch train.sbatch` |
# | a notebook in a Slurm job | `distlib launch --script lab > lab.sbatch`, `sbatch lab.sbatch`; then read its log |
# | … with ranks on all nodes of the job | `SlurmWorld(ranks_per_node=4)` of `distlib.launch.slurm_world` |
# | a JupyterHub in the browser | nothing: the course is there; a terminal of it has `distlib`, too |
# | anywhere, if it does not work | `distlib doctor` |
#
#     torchrun --nnodes 2 --nproc-per-node 4 \
#         --rdzv-backend c10d --rdzv-endpoint FIRST:29500 \
#         -m distlib.cli launch train.py:main
#
# `FIRST` is the name or the address of one of these machines, under which it also knows itself. That is for machines
# that nobody else can reach; for all others the section about torchrun has a line that meets in a file.
#
# JupyterLab in a job listens on a node that you can't reach from home. So the script's log has a line for your own
# computer, `ssh -N -L 8888:localhost:PORT -J you@login you@node`, which makes port 8888 at home a door to that node,
# and an address with a token to open then. The system has chosen the port, so that no other job has it.
#
# Three cautions:
#
# - Under torchrun and srun, `distlib launch` takes NCCL if there are 2 to 16 ranks, each with a GPU of its own, else
#   gloo. Under Slurm ask for the GPUs, such as `--gpus-per-node 4`.
# - A container has 64 MB of shared memory by default, so ask for more, `--shm-size=1g`; the course's compose file does.
# - On a cluster, the node on which you log in is not for computing. What takes more than a minute belongs in a job.
#
# ## In real frameworks
#
# All of the above is in the frameworks under other names.
#
# | here | torch | elsewhere |
# |---|---|---|
# | `distlib launch` | `torchrun` | `accelerate launch`, `deepspeed`, `ray`, `mpirun` (sets no `RANK`) |
# | `RANK`, `MASTER_ADDR`, … | the same | TensorFlow: `TF_CONFIG` (lesson 13); JAX: `jax.distributed.initialize(…)` |
# | meeting by a file | `init_method="file:///…"` | MPI: the launcher's own network |
# | `--elastic 2:4` | `torchrun --nnodes 2:4 --max-restarts 3` (nodes) | Horovod's elastic mode, Ray Train |
# | `Checkpoints` | `torch.distributed.checkpoint`, also for shards | Orbax in JAX, `tf.train.CheckpointManager` |
# | `ends_soon` | – | Lightning's `SLURMEnvironment(auto_requeue=True)` |
#
# The ranks of torch can meet by a file, too, with a new file for each start. The two processes below have no
# `MASTER_ADDR` and no `MASTER_PORT`. In the file they leave their addresses, so the network must be right here, too.


# %%
def join_by_file(comm: Communicator, path: Path) -> float:
    for name in NAMES:
        os.environ.pop(name, None)
    dist.init_process_group(
        "gloo", init_method=f"file://{path}", rank=comm.rank, world_size=2
    )
    number = torch.tensor([comm.rank + 1.0])
    dist.all_reduce(number)
    return float(number)


with World(2, on_output=quiet) as world:
    sums = world.run(join_by_file, new_folder() / "meeting", timeout=60)
print(sums)
assert sums == [3.0, 3.0]

# %% [markdown]
# And `ends_soon` is an all-reduce of torch's. Here rank 2 has got the signal.

# %%
from distlib import launch, torch_distributed


def compare(comm: Communicator) -> tuple[bool, bool]:
    """ends_soon, ours and by torch."""
    signal_came = comm.rank == 2
    if signal_came:
        launch.give_notice()
    with torch_distributed(comm, "gloo"):
        flag = torch.tensor([int(signal_came)])
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return launch.ends_soon(comm), bool(flag)


with World(3) as world:
    answers = world.run(compare)
print(answers)
assert answers == [(True, True)] * 3

# %% [markdown]
# ### One changed word in a script of your own
#
# A script of plain torch does not have to import anything of this course. If the course is installed, you change one
# word of the script: you write `"distlib"` instead of `"gloo"` in `init_process_group`. Torch finds the name, because
# the course has announced it when it was installed.
#
# Then torch's collectives send the messages of this course, and so do DDP, FSDP2 and pipelines, because they call
# torch's collectives. This works under torchrun and srun, on one machine and on several. If two calls do not fit each
# other, the error names the ranks and the lines.
#
# In the script below the two ranks reduce tensors of different lengths. With gloo the script would die without a Python
# traceback. The command is torchrun, written out.

# %%
(folder / "own.py").write_text(
    "import torch\n"
    "import torch.distributed as dist\n"
    'dist.init_process_group("distlib")\n'
    "losses = torch.ones(3 + dist.get_rank())\n"
    "dist.all_reduce(losses)\n"
)
command = f"""-m torch.distributed.run --nnodes 1 --nproc-per-node 2
    --local-addr 127.0.0.1 --rdzv-backend c10d
    --rdzv-endpoint {new_folder()}/meeting --rdzv-conf store_type=file
    {folder}/own.py""".split()
done = subprocess.run(
    [sys.executable, *command], capture_output=True, text=True, timeout=200
)
said = done.stderr.partition("MessageMismatch: ")[2].split(". ")[0]
print(said)
assert said.startswith("own.py, line 5: rank ") and done.returncode == 1

# %% [markdown]
# ## In short
#
# - The rank that waits is seldom the rank that is wrong, so read the log of every rank.
# - Only a checksum notices a flipped bit. Resume from the last step that all ranks have.
# - An elastic run keeps its losses if a step is the same on any number of ranks.
# - Only a time limit tells silence from work. Kill the silent rank before the others go on.
# - Before the time limit: if one rank has got the signal, all stop after the same step.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - Never write an address or a port into a job script: ask when the job runs, or meet by a file.
# - A hang: ask which rank is where, on two ranks at least.
# - A checkpoint: another name, fsync, rename, fsync of the folder, checksum.
# - An elastic run has the losses of an undisturbed one only if the checkpoint has everything that the next step needs.
# - A silent rank can be killed where its machine can be reached. Behind a cut cable it has to end itself.
# - With `init_process_group("distlib")` in a script of plain torch, calls that do not fit are named by rank and line.
# - Small tensors: few rounds. Large tensors: few bytes. What is small depends on latency times bandwidth, and grows
#   with the number of ranks.
#
# </details>
#
# ## Now you
#
# In [the exercise](../exercises/16b_launching/16b_launching.ipynb) you write out node lists, make the variables of
# torch out of Slurm's, and resume from the last good checkpoint that all ranks have. The main road goes on with [the
# hang clinic](17_hang_clinic.ipynb).
#
# ## Further reading
#
# - PyTorch, [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html), under "Elastic", and
#   [Rendezvous](https://docs.pytorch.org/docs/stable/elastic/rendezvous.html): how the torchruns meet.
# - SchedMD, [sbatch](https://slurm.schedmd.com/sbatch.html): `--signal`, `--requeue`, and "Output environment
#   variables".
# - T. S. Pillai et al., [All File Systems Are Not Created
#   Equal](https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai), OSDI 2014. Why a program
#   that writes and renames needs an fsync in between.
# - Python, [faulthandler](https://docs.python.org/3/library/faulthandler.html);
#   [py-spy](https://github.com/benfred/py-spy).
# - J. Mohan et al., [CheckFreq](https://www.usenix.org/conference/fast21/presentation/mohan), FAST 2021. How often to
#   write a checkpoint, and how to write it while the training goes on.
