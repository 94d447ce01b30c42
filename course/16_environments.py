# %% [markdown]
# # Environments: how ranks find each other
#
# Your program runs on your laptop. On the cluster it prints nothing for many minutes, and then it ends with a timeout.
# The code is the same, but one of four environment variables is wrong. Which one is wrong, and how do you find out
# without waiting?
#
# > After this lesson you will be able to
# >
# > - say how ranks find each other, and what a run does if one of four variables is wrong,
# > - start ranks with torchrun and under Slurm,
# > - write a job script that also works in the next job,
# > - write a checkpoint that a crash can't spoil, and go on after a failure.
# >
# > **Time:** about 45 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and [DDP](05_ddp.ipynb). No GPU and no
# > cluster: all that is run here is run on your machine.

# %% tags=["folded"]
# The imports
import copy
import inspect
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from distlib import Communicator, World
from distlib.draw import compare_costs, curves, meeting_places, predict, ranks_on_nodes

torch.set_num_threads(1)  # matrices as small as ours are not worth a second thread
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## Four variables
#
# How do ranks find each other? In a notebook, `World(4)` starts four processes and gives each its number. On a cluster
# a **launcher**, such as `torchrun` or Slurm's `srun`, starts the processes on machines that you have never seen. Then
# every process has the same questions, and its environment variables have the answers:
#
# | variable | the question | the same on all ranks? |
# |---|---|---|
# | `RANK` | Who am I, counted from 0? | no |
# | `WORLD_SIZE` | How many are we? | yes |
# | `MASTER_ADDR` | On which machine do we meet? | yes |
# | `MASTER_PORT` | At which port of this machine? | yes |
#
# `init_process_group` reads the variables. Rank 0, or torchrun for it, opens a **store** at this port of its own
# machine: a small dictionary that all ranks can reach. Every rank, rank 0 too, connects to the store, and learns there
# how to reach the other ranks.
#
# Let us play the launcher, for two processes. A `World` only starts them: `program` gets no communicator, and has to
# find the other process with its environment variables. The first process adds 1 to the sum, and the second process
# adds 2.

# %%
Environment = dict[str, str]


def environment(
    rank: int, port: int, world_size: int = 2, address: str = "127.0.0.1"
) -> Environment:
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return dict(zip(names, map(str, (rank, world_size, address, port)), strict=True))


def program(number: float) -> float:
    """What each process does. It returns the sum."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=5))
    tensor = torch.tensor([number])
    dist.all_reduce(tensor)
    return tensor.item()


# %% tags=["folded"]
# Starts all processes at the same time, and keeps what is seen of each
SIGNS = ("EADDRINUSE", r"\d/\d clients joined", "wait timeout", "timed out")
SIGNS += ("No route to host", "Network is unreachable")
Attempts = dict[str, list[tuple[Environment, str]]]


def free_ports(count: int) -> list[int]:
    """Ports at which nobody listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def one_process(comm: Communicator, started: list[tuple[float, Environment]]) -> str:
    number, variables = started[comm.rank]
    os.environ.update(variables)
    began = comm.time()
    try:
        seen = f"the sum is {program(number):.0f}"
    except Exception as error:
        signs = (re.search(sign, str(error)) for sign in SIGNS)
        seen = next((sign[0] for sign in signs if sign), type(error).__name__)
    return f"{comm.time() - began:.0f} s: {seen}"


def quiet(rank: int, stream: str, text: str) -> None:
    """Instead of printing what a rank prints: torch writes pages of C++ frames."""


def start(attempts: dict[str, list[Environment]]) -> Attempts:
    started = [
        (number, variables)
        for processes in attempts.values()
        for number, variables in enumerate(processes, 1)
    ]
    with World(len(started), on_output=quiet) as world:
        seen = iter(world.run(one_process, started, timeout=60))
    return {
        name: [(variables, next(seen)) for variables in processes]
        for name, processes in attempts.items()
    }


# %%
(port,) = free_ports(1)
found = start({"nothing is wrong": [environment(0, port), environment(1, port)]})
meeting_places(found, title="Two processes, and where their variables send them")

# %% tags=["folded"]
# Checks of the numbers above
assert [seen.split(": ")[1] for _, seen in found["nothing is wrong"]] == [
    "the sum is 3"
] * 2

# %% [markdown]
# Both processes went to the same place and found each other, so both have the sum 3. On the right, the picture shows
# how long each process took, and what came out.
#
# **Four variables say who a rank is, how many there are, and where they meet.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | machines have several networks | ranks may learn an address that they can't reach, and wait, or are refused |
# | torchrun has started the ranks | torchrun has opened the store itself, and rank 0 may run on another machine |
# | the program says `init_method="file:///…"` | ranks meet in a file, and need no `MASTER_ADDR` |
#
# For the first row, name the right network, such as `eth0`, in `GLOO_SOCKET_IFNAME` or `NCCL_SOCKET_IFNAME`.
#
# </details>
#
# ## One variable is wrong
#
# What do you see if a variable is wrong? We make five mistakes, each with two processes. Four of them are two ranks 0,
# a `WORLD_SIZE` that is too large, a wrong address and a wrong port. The time limit in our program is 5 s, but a rank
# may wait more than twice as long. By default the limit is 30 minutes, and 10 with NCCL.
#
# The fifth mistake happens if you type `python train.py` on two machines, and the script has defaults: rank 0, world
# size 1, and its own machine. On one machine, two stores can't share a port, so each of our processes has its own.

# %%
guess_1 = predict(
    "The fifth mistake: two processes with RANK=0 and WORLD_SIZE=1, each with a port "
    "of its own. What do they do?",
    choices=["both wait", "one gets an error", "both go on without an error"],
)

# %%
a, b, c, d, e, f, g = free_ports(7)
gone = "192.0.2.11"  # no machine has this address
mistakes = {
    "RANK is 0 on both": [environment(0, a), environment(0, a)],
    "WORLD_SIZE is 3, but two are started": [environment(r, b, 3) for r in (0, 1)],
    "MASTER_ADDR is a machine that is gone": [
        environment(r, c, address=gone) for r in (0, 1)
    ],
    "MASTER_PORT is another one on rank 1": [environment(0, d), environment(1, e)],
    "WORLD_SIZE is 1 on both": [environment(0, f, 1), environment(0, g, 1)],
}
found = start(mistakes)
alone = all("sum" in seen for _, seen in found["WORLD_SIZE is 1 on both"])
print(guess_1.compare("both go on without an error" if alone else "both wait"))
meeting_places(found, title="Five mistakes, and what is seen of them")

# %% tags=["folded"]
# Checks of the numbers above and below
from torch.distributed.constants import default_pg_timeout

rows = [[seen.split(": ")[1] for _, seen in pair] for pair in found.values()]
assert sorted(rows[0]) == ["1/2 clients joined", "EADDRINUSE"]
assert rows[1] == ["2/3 clients joined", "wait timeout"]
lost = {"timed out", "No route to host", "Network is unreachable"}
assert set(rows[2]) <= lost  # which of them depends on the network
assert rows[3] == ["1/2 clients joined", "timed out"]
assert rows[4] == ["the sum is 1", "the sum is 2"]
assert default_pg_timeout == timedelta(minutes=30)
documented = "10 minutes for NCCL and 30 minutes for other backends"
assert documented in (dist.init_process_group.__doc__ or "")

# %% [markdown]
# Read the picture as a doctor would, from the symptom back to the cause:
#
# | what you see | the cause |
# |---|---|
# | `EADDRINUSE` (address in use), at once | two processes of a machine are rank 0, or another program has the port |
# | rank 0 waits: "k/n clients joined" | only k ranks have come, rank 0 included, or `WORLD_SIZE` is too large |
# | other ranks wait: "wait timeout" | they have reached the store, but some rank has not |
# | other ranks wait: "timed out" | they and rank 0 have different addresses or ports, or a firewall is between them |
# | all ranks wait: "timed out", "No route" or "unreachable" | nobody listens there: `MASTER_ADDR` may be wrong |
# | no error, and wrong sums | each process is alone in a world of one rank |
#
# The fifth mistake is the worst. Each machine trains a model of its own, because nothing is averaged. There is no
# error, only a loss no better than with one machine, and two ranks that both say they are rank 0. So let your program
# print `WORLD_SIZE` at the start of every run. The other four mistakes show themselves sooner if you give
# `init_process_group` a shorter `timeout`, such as two minutes. Five seconds are for a lesson only, because the timeout
# also limits every later collective.
#
# **Wrong variables mostly make ranks wait. The worst mistake makes no error.**
#
# <details><summary>What else can be seen</summary>
#
# | if … | then … |
# |---|---|
# | a variable is missing on rank 1 | rank 1 ends at once and names the variable, and rank 0 waits: read every log |
# | another program has the port | rank 0: `EADDRINUSE`; other ranks: "Connection reset", "Broken pipe" or a wait |
# | torchrun has opened the store | nobody counts clients: ranks say "wait timeout" |
#
# [Lesson 16b](16b_launching.ipynb) runs the first two, and finds out where a hanging rank is.
#
# </details>
#
# **Try it.** Nobody is rank 0, because both processes have `RANK=1`. First say what each process will see; the table
# above is enough. Then change the line.

# %%
(port,) = free_ports(1)
mine = [environment(0, port), environment(1, port)]  # change this line
meeting_places(start({"mine": mine}), title="What I have tried")

# %% tags=["folded"]
# One way to do it
# Nobody opens the store, so both wait for it
(port,) = free_ports(1)
nobody = start({"RANK is 1 on both": [environment(1, port), environment(1, port)]})
assert all(seen.endswith("timed out") for _, seen in nobody["RANK is 1 on both"])
meeting_places(nobody, title="Nobody is rank 0")

# %% [markdown]
# ## torchrun sets the variables
#
# Who sets the variables? With torchrun you type the same command on each machine, and the torchruns agree which rank is
# where:
#
#     torchrun --nnodes 2 --nproc-per-node 2 \
#         --rdzv-backend c10d --rdzv-endpoint FIRST:29500 train.py
#
# `FIRST` is the name of one of the machines. The torchruns meet there before they start the ranks. In the options,
# `rdzv` is short for rendezvous, and `c10d` is torch's own store. The torchruns also set a fifth variable,
# `LOCAL_RANK`: the number of a rank among the ranks of its own machine, counted from 0.

# %%
guess_2 = predict(
    "Two machines with two ranks each. What is LOCAL_RANK on rank 3?",
    choices=["0", "1", "3"],
)

# %% tags=["folded"]
# Two torchruns on this machine, and a script that writes its variables into a file
(folder / "show.py").write_text(
    "import json, os, sys\n"
    "name = f'{sys.argv[1]}/variables-{os.environ[\"RANK\"]}.json'\n"
    "json.dump(dict(os.environ), open(name, 'w'))\n"
)


def torchrun(*options: object, machines: int = 1) -> list[dict[str, str]]:
    """Run torchrun as often as there are machines; returns the variables of the ranks.

    The torchruns meet in a file, and not at a port: anyone can reach a port.
    """
    meeting = Path(tempfile.mkdtemp(dir=folder)) / "meeting"
    words = f"-m torch.distributed.run --nnodes {machines} --local-addr 127.0.0.1"
    words += (
        f" --rdzv-backend c10d --rdzv-endpoint {meeting} --rdzv-conf store_type=file"
    )
    # The first variable: see the folded text of "Going on after a failure"
    set_too = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, *words.split(), "--rdzv-id", "16", *map(str, options)],
            env={**os.environ, **set_too},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for _ in range(machines)
    ]
    for each in running:
        said = each.communicate(timeout=200)[1]
        assert each.returncode == 0, said.decode()[-2000:]
    found = sorted(folder.glob("variables-*.json"))
    return [json.loads(path.read_text()) for path in found]


# %%
launched = torchrun("--nproc-per-node", 2, folder / "show.py", folder, machines=2)
print(guess_2.compare(launched[3]["LOCAL_RANK"]))
ranks_on_nodes(launched, title="Two machines, and the ranks that torchrun has started")

# %% tags=["folded"]
# Checks of the numbers above
assert [each["RANK"] for each in launched] == ["0", "1", "2", "3"]
assert [each["LOCAL_RANK"] for each in launched] == ["0", "1", "0", "1"]
assert {each["WORLD_SIZE"] for each in launched} == {"4"}

# %% [markdown]
# `RANK` counts through all machines, while `LOCAL_RANK` begins with 0 on each machine. A machine's GPUs are counted
# from 0, too, so a rank takes the GPU with the number `LOCAL_RANK`:
#
#     torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
#
# **`LOCAL_RANK` numbers the ranks of one machine, so it chooses the GPU.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | Slurm shows each rank only one GPU (`--gpus-per-task=1`) | this GPU has the number 0 on every rank |
# | two torchruns share a machine | both count from 0: give each torchrun its own GPUs, by `CUDA_VISIBLE_DEVICES` |
#
# </details>
#
# ## srun says it in other words
#
# And under Slurm, which shares a cluster among jobs? There each job gets some machines, called nodes, for a time: its
# **allocation**. In the job, `srun` starts the ranks, and gives them variables with other names:
#
# | torchrun sets | srun sets |
# |---|---|
# | `RANK` | `SLURM_PROCID` |
# | `WORLD_SIZE` | `SLURM_STEP_NUM_TASKS` |
# | `LOCAL_RANK` | `SLURM_LOCALID` |
# | `MASTER_ADDR`, `MASTER_PORT` | nothing |
#
# Job scripts go wrong in the last row. On Monday you look up the first node of your job, and write its name down:
#
#     #SBATCH --nodes=2
#     export MASTER_ADDR=node07                # written down by hand
#     export MASTER_PORT=29500
#     srun bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_STEP_NUM_TASKS \
#         LOCAL_RANK=$SLURM_LOCALID exec python train.py'
#
# The quotes leave `$SLURM_PROCID` to the bash of each rank. The script works as long as your jobs start on node07. On
# Tuesday it hangs, because the job has other nodes. Two other exports repair the script:
#
#     export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
#     export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
#
# The first line asks Slurm for the first node of the job, where rank 0 runs. The second line makes the port out of the
# job's number, so that two jobs on one node seldom have the same port. Below, bash runs the
# lines that set variables, and a function plays `scontrol`.

# %% tags=["folded"]
# Runs the lines of a script as Slurm's bash would, on each of two nodes
BY_HAND = "export MASTER_ADDR=node07 MASTER_PORT=29500"
ASKED = """export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))"""
TASK = "RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_STEP_NUM_TASKS exec env"


def in_job(script: str, job: int, nodes: list[str]) -> list[tuple[Environment, str]]:
    """The variables of a rank on each node. A function of bash plays scontrol."""
    scontrol = f"scontrol() {{ printf '%s\\n' {' '.join(nodes)}; }}"
    ranks = []
    for rank, node in enumerate(nodes):
        names = {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(len(nodes))}
        names |= {"SLURM_JOB_ID": str(job), "SLURM_JOB_NODELIST": ",".join(nodes)}
        task = {"PATH": os.environ["PATH"], "SLURMD_NODENAME": node, **names}
        lines = "\n".join([scontrol, script, TASK])
        said = subprocess.check_output(["bash", "-c", lines], env=task, text=True)
        variables = dict(line.split("=", 1) for line in said.splitlines())
        ranks.append((variables, f"runs on {node}"))
    return ranks


# %%
monday, tuesday = (4711, ["node07", "node12"]), (4730, ["node12", "node13"])
jobs = {
    "Monday, written down": in_job(BY_HAND, *monday),
    "Tuesday, written down": in_job(BY_HAND, *tuesday),
    "Tuesday, asked": in_job(ASKED, *tuesday),
}
meeting_places(jobs, title="A job script on two days")

# %% tags=["folded"]
# Checks of the picture above
where = [[each["MASTER_ADDR"] for each, _ in pair] for pair in jobs.values()]
assert where == [["node07"] * 2, ["node07"] * 2, ["node12"] * 2]
assert [each["RANK"] for each, _ in jobs["Tuesday, asked"]] == ["0", "1"]
assert jobs["Tuesday, asked"][0][0]["MASTER_PORT"] == "14730"

# %% [markdown]
# On Tuesday rank 0 opens its port on node12, but both ranks look for it on node07.
#
# **Ask for the address when the job runs: the next job may have other nodes.**
#
# <details><summary>Where this is not enough</summary>
#
# | if … | then … |
# |---|---|
# | a job runs two `srun` at a time | both get the same port: add 1 for one of them |
# | `srun` uses only some nodes of the job | rank 0 may run on a node that is not the job's first |
#
# </details>
#
# **Try it.** By the rule above, two jobs can get the same port. How many jobs later does that first happen?

# %%
job = 4711
mine = job + 1  # change this line
print(10000 + job % 20000, 10000 + mine % 20000)

# %% tags=["folded"]
# One way to do it
# 20,000 jobs later
for number in (job, job + 20_000):
    port = in_job(ASKED, number, ["node07"])[0][0]["MASTER_PORT"]
    print(f"job {number}: port {port}")
    assert port == "14711"

# %% [markdown]
# So this is what to type:
#
# | where | what to type |
# |---|---|
# | one machine | `torchrun --standalone --nproc-per-node 4 train.py` |
# | several machines | the `torchrun` command above, on each of them |
# | Slurm | `sbatch job.sh`: the repaired script, below a first line that names bash |
# | one machine, a function that gets a communicator | `distlib launch --ranks 4 train.py:main` |
# | Slurm, the same function | `srun distlib launch train.py:main`: no address, but a home folder that all nodes see |
#
# <details><summary>On a machine that other people use</summary>
#
# Torchrun opens a port, and trusts whoever reaches it: a stranger there can run programs as you. Let the torchruns meet
# in a file of yours instead, as [lesson 16b](16b_launching.ipynb) shows, or use `distlib launch`.
#
# </details>
#
# ## A checkpoint that survives a crash
#
# Machines fail, and jobs end at their time limit. Then only files survive. A **checkpoint** is a file with everything
# that a run needs to go on. What if the process is killed *while it writes* the checkpoint? Here are two ways to write:

# %%
State = dict[str, object]


def overwrite(state: State, path: Path) -> None:
    torch.save(state, path)


def write_then_rename(state: State, path: Path) -> None:
    part = path.with_suffix(".part")
    with open(part, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())  # wait until the bytes are on the disk
    os.replace(part, path)  # from now on the old name has the new bytes


# %% [markdown]
# A process has written step 20 into `last.pt`. Then it writes step 30, and is killed when half of the file is written.

# %%
guess_3 = predict(
    "If the process overwrites last.pt, what does torch.load give after the kill?",
    choices=["step 20", "step 30", "an error"],
)

# %% tags=["folded"]
# Kills a process that writes, and looks into the folder
HALF = 200_000  # bytes


def checkpoint(step: int) -> State:
    return {"step": step, "weights": torch.full((100_000,), 0.5)}


def write_and_die(
    comm: Communicator, write: Callable[[State, Path], None], path: Path
) -> None:
    if comm.rank == 1:  # the system kills a process that makes a file longer than this
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, HALF))
        write(checkpoint(30), path)


def killed_in(write: Callable[[State, Path], None]) -> tuple[dict[str, int], str]:
    """The bytes of each file in the folder, and what torch.load gives."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "last.pt"
    torch.save(checkpoint(20), path)
    with World(2, deaths={}) as world:
        world.run(write_and_die, write, path)
    try:
        good = f"step {torch.load(path)['step']}"
    except RuntimeError:
        good = "an error"
    return {each.name: each.stat().st_size for each in path.parent.iterdir()}, good


# %%
found = {
    "overwritten": killed_in(overwrite),
    "renamed": killed_in(write_then_rename),
}
for name, (_, good) in found.items():
    print(f"{name}: torch.load gives {good}")
print(guess_3.compare(found["overwritten"][1]))
compare_costs(
    {
        f"{name}: {file}": {"bytes": size}
        for name, (files, _) in found.items()
        for file, size in sorted(files.items(), reverse=True)
    },
    title="The files after the kill",
)

# %% tags=["folded"]
# Checks of the numbers above
assert found["overwritten"] == ({"last.pt": HALF}, "an error")
files, good = found["renamed"]
assert good == "step 20" and files["last.part"] == HALF < files["last.pt"]

# %% [markdown]
# `torch.save` empties the old file before it writes the new bytes, so the kill destroys both steps. With a rename, only
# `last.part` is half written, and `last.pt` still has step 20.
#
# **Write a checkpoint under another name, then rename it.**
#
# <details><summary>What this does not protect from</summary>
#
# | if … | then … |
# |---|---|
# | the power fails | the disk may have the new name, but not the bytes: hence our `fsync`. The folder needs one, too |
# | a bit of a weight flips | `torch.load` gives the wrong weight, and only a checksum notices |
# | each machine has its own disk | the last checkpoints may differ: the ranks must agree on one that all of them have |
#
# [Lesson 16b](16b_launching.ipynb) shows the last two.
#
# </details>
#
# ## Going on after a failure
#
# How does a run go on after a failure? Here is a script of plain PyTorch for two ranks. The model, its data and
# `write_then_rename` are in `parts.py`, which a folded cell makes. Before step 37 of the first start, rank 1 is killed:

# %%
SCRIPT = """
from parts import *

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model, optimizer = make_model()
first = 0
if LAST.exists():
    state = torch.load(LAST)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
replica = DistributedDataParallel(model)
for step in range(first, 60):
    if rank == 1 and step == 37 and is_first_start():
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    loss = loss_of(replica, step, rank, size)
    loss.backward()
    optimizer.step()
    note(step, loss)
    if step % 10 == 9 and rank == 0:
        both = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        write_then_rename({**both, "step": step + 1}, LAST)
dist.destroy_process_group()
"""

# %% tags=["folded"]
# The functions that the script needs, and the same training in one process, without a failure
from distlib.training import digits

HEADER = """
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

FOLDER = Path(__file__).parent
LAST = FOLDER / "last.pt"
State = dict[str, object]
images, labels = torch.load(FOLDER / "data.pt")
"""
FOLDER = folder
train_set, _ = digits()
labels = train_set.labels
images = (train_set.images - train_set.images.mean(dim=0)).flatten(1).double()
Losses = list[tuple[int, float]]


def make_model() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def loss_of(model: nn.Module, step: int, rank: int = 0, size: int = 1) -> torch.Tensor:
    """Of a rank's part of the 48 images of a step."""
    generator = torch.Generator().manual_seed(step)
    chosen = torch.randperm(len(images), generator=generator)[:48]
    mine = chosen[rank::size]
    return cross_entropy(model(images[mine]), labels[mine])


def is_first_start() -> bool:
    return os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"


def note(step: int, loss: torch.Tensor) -> None:
    """Write the mean of the ranks' losses into a file of this rank."""
    mean = loss.detach() / dist.get_world_size()
    dist.all_reduce(mean)
    start = "first" if is_first_start() else "second"
    with open(FOLDER / f"{start}-start-rank-{dist.get_rank()}", "a") as file:
        file.write(f"{step} {mean.item()}\n")


def losses_of(run: Path, start: str) -> dict[str, Losses]:
    """Of each rank that has trained after this start."""
    found = {}
    for path in run.glob(f"{start}-start-*"):
        lines = (line.split() for line in path.read_text().splitlines())
        found[path.name[-6:]] = [(int(step), float(loss)) for step, loss in lines]
    return found


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, steps: range
) -> list[tuple[int, float]]:
    losses = []
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(model, step)
        loss.backward()
        optimizer.step()
        losses.append((step, loss.item()))
    return losses


copied = (write_then_rename, make_model, loss_of, is_first_start, note)
parts = "\n\n".join(inspect.getsource(each) for each in copied)


def new_run() -> Path:
    """A folder with the script, and without a checkpoint."""
    run = Path(tempfile.mkdtemp(dir=folder))
    torch.save((images, labels), run / "data.pt")
    (run / "parts.py").write_text(HEADER + parts)
    (run / "train.py").write_text(SCRIPT)
    return run


model, optimizer = make_model()
undisturbed = train(model, optimizer, range(40))
after_40 = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
undisturbed += train(model, optimizer, range(40, 60))


def resume(with_momentum: bool) -> Losses:
    """From step 40 on, in one process, with or without the state of the optimizer."""
    model, optimizer = make_model()
    model.load_state_dict(after_40[0])
    if with_momentum:
        optimizer.load_state_dict(copy.deepcopy(after_40[1]))
    return train(model, optimizer, range(40, 60))


# %% [markdown]
# With `--max-restarts 1`, torchrun starts ranks again when one has failed, but only once. With gloo, torch 2.13 also
# needs a variable, which the folded text below names.

# %%
guess_4 = predict(
    "Rank 1 is dead. Which of the two ranks does torchrun start again?",
    choices=["only rank 1", "both ranks"],
)

# %%
run = new_run()
torchrun("--nproc-per-node", 2, "--max-restarts", 1, run / "train.py")
first, second = losses_of(run, "first"), losses_of(run, "second")
print(guess_4.compare("both ranks" if len(second) == 2 else "only rank 1"))

# %% [markdown]
# Torchrun starts both ranks, because rank 0 can't go on either: its process group has lost a member, and a new rank 1
# is a new process, to which rank 0 has no connection. Both ranks load the checkpoint.

# %%
guess_5 = predict("Which step do both ranks do first after the second start?", unit="")

# %%
print(guess_5.compare(second["rank-0"][0][0]))
again = dict(first["rank-0"]) | dict(second["rank-0"])
difference = max(abs(again[step] - loss) for step, loss in undisturbed)
print(f"largest difference from the losses of an undisturbed run: {difference:.0e}")
curves(
    {"first start": first["rank-0"], "second start": second["rank-0"]},
    along="steps",
    values="loss",
    title="A run that goes on after the loss of a rank",
    subtitle="rank 1 is killed before step 37",
)

# %% tags=["folded"]
# Checks of the numbers above
assert set(first) == set(second) == {"rank-0", "rank-1"}
assert [step for step, _ in first["rank-0"]] == list(range(37))
assert [step for step, _ in second["rank-0"]] == list(range(30, 60))
assert difference < 1e-9 and set(again) == set(range(60))

# %% [markdown]
# The last checkpoint has 30 steps, numbered 0 to 29, so both ranks go on with step 30, and steps 30 to 36 are done
# twice. Up to rounding, the losses are those of one process that was never disturbed, because the checkpoint has
# everything that the next step depends on: the weights, the momentum of the optimizer, and the number of the step, from
# which the script draws the images. With dropout it would also need the state of the random numbers.
#
# **With `--max-restarts` torchrun starts all ranks again. Resuming is your program's job.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | ranks use gloo | the new ranks can't join: see below the table |
# | a cable is cut | no rank ends, and nobody notices before a time limit |
# | a machine is lost with its disk | the checkpoint is lost, too: write to a folder that all machines see |
# | fewer machines are left | `--nnodes 1:2` can go on with one machine, if that is `FIRST` |
# | the job reaches its time limit | Slurm ends torchrun, too. Ask for a signal before the limit |
#
# With gloo, set `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` before you call torchrun. By default torch 2.13 keeps its store
# after a failure, and new ranks find the addresses of dead ranks there. With the variable, each start has a new store,
# but not if torchrun has `--master-port`. [Lesson 16b](16b_launching.ipynb) has more about the other rows.
#
# </details>
#
# **Try it.** What happens if a checkpoint has no momentum? Go on from step 40 without it.

# %%
tried = resume(with_momentum=True)  # change this line
print(f"last loss {tried[-1][1]:.6f}, undisturbed {undisturbed[-1][1]:.6f}")

# %% tags=["folded"]
# One way to do it
forgetful = resume(with_momentum=False)
print(f"last loss {forgetful[-1][1]:.6f}, undisturbed {undisturbed[-1][1]:.6f}")
assert tried[-1] == undisturbed[-1] or tried == forgetful
assert abs(forgetful[-1][1] - undisturbed[-1][1]) > 1e-3

# %% [markdown]
# ## In real frameworks
#
# The variables, torchrun and srun are what real clusters use. Elsewhere you meet the same under other names:
#
# | here | elsewhere |
# |---|---|
# | `torchrun` | `accelerate launch`, `deepspeed`, `ray`; `mpirun` sets no `RANK` |
# | `RANK`, `MASTER_ADDR`, … | TensorFlow: `TF_CONFIG`; JAX: `jax.distributed.initialize(…)` |
# | write, then rename | Orbax in JAX, `tf.train.CheckpointManager` |
#
# If the model is sharded, no rank has a whole checkpoint. With `torch.distributed.checkpoint`, each rank writes its
# shard into its own file. Last, and by a rename, torch writes `.metadata`, the list of these files: a checkpoint
# without the list is not complete. Here two
# ranks write shards, and one process reads them all:

# %% tags=["folded"]
# The imports
import warnings

import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from distlib import torch_distributed

warnings.filterwarnings("ignore", "torch.distributed is disabled")  # as we want it


# %%
def save_shards(comm: Communicator, where: Path) -> None:
    with torch_distributed(comm, "gloo"):
        model, _ = make_model()
        fully_shard(model, mesh=init_device_mesh("cpu", (comm.world_size,)))
        dcp.save(model.state_dict(), checkpoint_id=where)


where = folder / "shards"
with World(2, on_output=quiet) as world:
    world.run(save_shards, where)
print(sorted(path.name for path in where.iterdir()))
model, _ = make_model()
wanted = model[0].weight.clone()
nn.init.zeros_(model[0].weight)
dcp.load(model.state_dict(), checkpoint_id=where, no_dist=True)
print("the weights are back:", torch.equal(model[0].weight, wanted))

# %% tags=["folded"]
# Checks of the numbers above
names = sorted(path.name for path in where.iterdir())
assert names == [".metadata", "__0_0.distcp", "__1_0.distcp"]
assert torch.equal(model[0].weight, wanted) and wanted.abs().max() > 0

# %% [markdown]
# ## In short
#
# - Four variables say who a rank is, how many there are, and where they meet.
# - Wrong variables mostly make ranks wait. The worst mistake makes no error.
# - `LOCAL_RANK` chooses the GPU. Ask for the address when the job runs.
# - Write a checkpoint under another name, then rename it.
# - With `--max-restarts` torchrun starts all ranks again. Resuming is your program's job.
#
# ## Now you
#
# This lesson has no exercise. Go on with [the hang clinic](17_hang_clinic.ipynb), where ranks have found each other and
# the run hangs all the same.
#
# [Lesson 16b](16b_launching.ipynb) is a side road with an exercise: node lists, damaged checkpoints, silent machines,
# and runs that go on with fewer ranks.
#
# ## Further reading
#
# - PyTorch, [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html), with the list of its variables, and
#   [Distributed communication](https://docs.pytorch.org/docs/stable/distributed.html), under "Initialization".
# - SchedMD, [srun](https://slurm.schedmd.com/srun.html) and [sbatch](https://slurm.schedmd.com/sbatch.html), "Output
#   environment variables".
# - T. S. Pillai et al., [All File Systems Are Not Created
#   Equal](https://www.usenix.org/conference/osdi14/technical-sessions/presentation/pillai), OSDI 2014. Why a program
#   that writes and renames needs an fsync in between.
# - J. Mohan et al., [CheckFreq](https://www.usenix.org/conference/fast21/presentation/mohan), FAST 2021. How often to
#   write a checkpoint, and how to write it while the training goes on.
