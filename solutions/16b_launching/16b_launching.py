# %% [markdown]
# # Exercise 16b: launching
#
# **This exercise is optional.** It is a side road: no later exercise needs it. You write three functions that a
# training needs on a cluster: one reads the list of nodes that Slurm gives a job, one tells each process who it is and
# where the others are, and one goes on from a checkpoint after a crash.
#
# - **Time:** about 90 minutes.
# - **Before:** read the lesson [Launching](../../course/16b_launching.ipynb).
# - **Needs:** nothing but this environment. No Slurm, no GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `expand_nodelist` | 3 | 3 |
# | 2 | `rendezvous_environment` | 3 | 3 |
# | 3 | `resume` | 5 | 6 |
#
# That makes 23 points. Each part is graded by itself: the tests of `rendezvous_environment` bring an `expand_nodelist`
# of their own.

# %% [markdown]
# ## How to work
#
# `expand_nodelist` and `rendezvous_environment` only compute. All ranks call `resume` at the same time. `comm` has
# `comm.rank` and `comm.world_size`, and is how a rank talks to the others: by `send`, `recv`, `exchange`, `isend` and
# `irecv` alone. The tests look at the messages, too.

# %% readonly="setup"
import hashlib
import io
import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from distlib import Communicator, SimulatedWorld


def save_checkpoint(folder: Path, step: int, model: Any, optimizer: Any) -> None:
    """Write the checkpoint step-<step>.pt: all of it, or nothing under this name."""
    buffer = io.BytesIO()
    torch.save(
        {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer
    )
    content = buffer.getvalue()
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"step-{step}.pt.tmp"
    with unfinished.open("wb") as file:
        file.write(hashlib.sha256(content).digest())  # 32 bytes
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # on the disk, and not only on its way there
    unfinished.replace(folder / f"step-{step}.pt")


# %% [markdown]
# ## 1. Which nodes: `expand_nodelist`
#
# Slurm writes the nodes of a job in a short form: **groups** with commas between them. Each group stands for one or
# several names:
#
# | group | names |
# |---|---|
# | `login1` | login1 |
# | `node[01-03,07]` | node01, node02, node03, node07 |
# | `gpu[8-10]-ib` | gpu8-ib, gpu9-ib, gpu10-ib |
# | `n[098-101]` | n098, n099, n100, n101 |
# | `rack[1-2]node[1-2]` | rack1node1, rack1node2, rack2node1, rack2node2 |
#
# - A comma inside of brackets begins a new range, not a new group.
# - The first number of each range says how wide its numbers are: `[08-10]` is 08, 09, 10, and `[8-10]` is 8, 9, 10.
#   A number alone stays as it is: `[01-02,7]` is 01, 02, 7.
# - A name may go on after its brackets, and may have several pairs of brackets. Then the last one changes first.
# - The names come in the order of the text. One that stands there twice comes twice.
#
# **Bad text.** Raise a `ValueError` whose message contains **the group that is wrong**, as it stands there. In
# `node[01-03],gpu[4-2],login1` that is `gpu[4-2]`. It names this group and no other. It may also quote the whole list,
# but that is not enough.
# A group is wrong if one of these is true:
#
# - It is empty, as in `a,,b`, in `a,`, and in an empty text. (Here any message will do.)
# - A bracket has no partner, or there are brackets inside of brackets. (Here it is enough to name the text from the
#   beginning of the group up to the next comma: in `a,b[1-2,c` that is `b[1-2`.)
# - Something in its brackets is neither a number nor a range, as in `a[]`, `a[1,]`, `a[x]`, `a[1-]`, and `a[1-2-3]`.
#   Numbers consist of the digits 0 to 9 alone.
# - A range ends before it begins.
#
# In the tests one group at most is wrong.


# %% solution="expand_nodelist"
def expand_nodelist(text: str) -> list[str]:
    """The names of the nodes in a list that Slurm has written. Only computes.

    Args:
        text: such as "node[01-03,07],login1", without spaces.

    Returns:
        The names, in the order of the text.

    Raises:
        ValueError: a group of the list is wrong. The message contains the group.
    """
    ### BEGIN SOLUTION
    names = []
    # not at a comma that is followed by "]" before any "["
    for group in re.split(r",(?![^\[]*\])", text):
        pieces = re.split(r"\[([^\[\]]*)\]", group)  # fixed, in brackets, fixed, …
        if not group or re.search(r"[\[\]]", "".join(pieces[::2])):
            raise ValueError(f"a name or a bracket is missing in {group!r}")
        choices = [
            expand_ranges(piece, group) if k % 2 else [piece] for k, piece in enumerate(pieces)
        ]
        names += ["".join(parts) for parts in itertools.product(*choices)]
    return names


def expand_ranges(ranges: str, group: str) -> list[str]:
    numbers = []
    for part in ranges.split(","):
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
        if not match:
            raise ValueError(f"{part!r} is neither a number nor a range, in {group!r}")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(f"{part!r} ends before it begins, in {group!r}")
        numbers += [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
    return numbers
    ### END SOLUTION


# %% [markdown]
# **Try it.** A cell like this one gives no marks. Change it as you like.

# %%
print(expand_nodelist("login1,node[01-03,07]"))
print(expand_nodelist("gpu[8-10]-ib,rack[1-2]node[1-2]"))
try:
    print(expand_nodelist("node[01-03],gpu[4-2],login1"))
except ValueError as error:
    print("ValueError:", error)

# %% [markdown]
# **Visible test: 3 points.**

# %% test="expand_nodelist_visible" points=3
from distlib.exercises import check_expand_nodelist

report = check_expand_nodelist(
    expand_nodelist,
    texts=[
        "login1",
        "node[1-3]",
        "node[01-03,07]",
        "b,a",
        "n[098-101]",
        "gpu[8-10]-ib,login1",
        "rack[1-2]node[1-2]",
    ],
    bad=[
        ("node[01-03],gpu[4-2],login1", "gpu[4-2]"),
        ("a[1-2],b[x],c", "b[x]"),
        ("a,b[1-2,c", "b[1-2"),
        ("a,,b", ""),
    ],
)
assert list(report.answers[2]["returned"]) == ["node01", "node02", "node03", "node07"]
assert "gpu[4-2]" in report.answers[7]["refused"]
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Longer lists, several brackets in a name, and other ways to be wrong.

# %% test="expand_nodelist_hidden" points=3
# The hidden tests of expand_nodelist stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: several groups and brackets, names after brackets, zeros, repeated names, all kinds of bad text.
from distlib.exercises import check_expand_nodelist

report = check_expand_nodelist(
    expand_nodelist,
    texts=[
        "cn-a[9-11,2,007-009]",
        "z[2-3],a1,z[1-2]",
        "r[1-2]n[08-10]-x[0,5],r1",
        "node[99-101,0]",
        "n[1],n[01],n[001]",
        "gpu-07.cluster,g[3]x",
        "n[3-3,07-07],r[1-1]",
        "x[00-01,3,5,7-9]",
        "n[0998-1102]",
    ],
    bad=[
        ("", ""),
        ("n1,", ""),
        (",n[1-2]", ""),
        ("a,n[1-2]],b", "n[1-2]]"),
        ("a,n1],b", "n1]"),
        ("a,n[1-[2-3]],b", "n[1-[2-3]]"),
        ("a[1],n[]", "n[]"),
        ("n[1,],b", "n[1,]"),
        ("a,n[1-],b", "n[1-]"),
        ("a,n[-3],b", "n[-3]"),
        ("a,n[1-2-3],b[1-2]", "n[1-2-3]"),
        ("a,n[1_0],b", "n[1_0]"),
        ("a,n[+1-3],b", "n[+1-3]"),
        ("a[1-2],n[²],b", "n[²]"),
        ("a[1-2],n[٣],b", "n[٣]"),
        ("r[1-2]n[3-1],b", "r[1-2]n[3-1]"),
        ("n[9-10,010-9],b", "n[9-10,010-9]"),
    ],
    drawn=8,
    seed=161,
)
assert len(report) == 34
assert list(report.answers[0]["returned"]) == [
    "cn-a9",
    "cn-a10",
    "cn-a11",
    "cn-a2",
    "cn-a007",
    "cn-a008",
    "cn-a009",
]
assert list(report.answers[4]["returned"]) == ["n1", "n01", "n001"]
assert all("refused" in answer for answer in report.answers[17:])
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Who am I: `rendezvous_environment`
#
# `srun` starts a **step** of a job: a number of tasks, on some nodes. Each task is told in variables which one it is.
# torch.distributed looks for variables, too, under other names. Your function translates.
#
# | Slurm says | example | meaning |
# |---|---|---|
# | `SLURM_JOB_ID` | 4711 | number of the job |
# | `SLURM_STEP_NODELIST` | node[03-05] | nodes of the step |
# | `SLURM_STEP_NUM_TASKS` | 5 | tasks of the step |
# | `SLURM_STEP_TASKS_PER_NODE` | 2(x2),1 | tasks on each node, in the order of the list: 2 on each of 2 nodes, then 1 |
# | `SLURM_PROCID` | 3 | this task among all, from 0 |
# | `SLURM_LOCALID` | 1 | this task among those on its node, from 0 |
# | `SLURM_NODEID` | 1 | this task's node in the list, from 0 |
#
# | torch.distributed wants | example | meaning |
# |---|---|---|
# | `RANK`, `WORLD_SIZE` | 3, 5 | this process among all, and how many there are |
# | `LOCAL_RANK`, `LOCAL_WORLD_SIZE` | 1, 2 | the same on its node: it chooses the GPU |
# | `MASTER_ADDR` | node03 | where all meet: the node of task 0, which here is **the first one of the step** |
# | `MASTER_PORT` | 14711 | the port there, the same for all tasks |
#
# - **The step may have only a part of the job.** Variables without `STEP`, such as `SLURM_JOB_NODELIST`,
#   `SLURM_NTASKS` and `SLURM_TASKS_PER_NODE`, may describe the whole job.
# - **Tasks are dealt out** in blocks (0 and 1 on the first node, 2 and 3 on the second one) or in turn (0 on the first,
#   1 on the second). Slurm's three numbers are right for both.
# - **No fixed address.** The next allocation has other nodes. What an earlier script has left in `slurm` does not
#   count: `MASTER_ADDR`, `MASTER_PORT`, `RANK`, `WORLD_SIZE`.
# - **The port** is a number from 1,024 to 32,767. Those below belong to the system, and Linux hands those above out to
#   anybody. Two jobs may share a node, so derive the port from the job: **jobs whose numbers are less than 10,000 apart
#   have different ports.** Job numbers may have eight digits. (Two steps of a job at a time would need more. Not here.)
# - **Only `slurm` counts:** neither read nor change `os.environ`. A function of its argument alone can be tested
#   without a cluster.
# - **A variable that is missing is an error,** whichever of the seven that Slurm says, even if you could do without it.
#   `slurm["SLURM_PROCID"]` raises a `KeyError` that names it. With a default of 0 four tasks would all be rank 0. A
#   `ValueError` that names the variable will do, too.
#
# `expand_nodelist(…)[0]` is the first name of a list. You may call it even if yours does not work yet: the tests of
# this part bring their own.


# %% solution="rendezvous_environment"
def rendezvous_environment(slurm: Mapping[str, str]) -> dict[str, str]:
    """The variables that torch.distributed wants, from those that Slurm gives a task. Only
    computes.

    Args:
        slurm: the variables of the task, among others those of the table. Not changed.

    Returns:
        RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; all are
        texts.

    Raises:
        KeyError, ValueError: one of Slurm's seven variables is missing. The message names it.
    """
    ### BEGIN SOLUTION
    tasks = []
    for part in slurm["SLURM_STEP_TASKS_PER_NODE"].split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        tasks += [match[1]] * int(match[2] or 1)
    return {
        "RANK": slurm["SLURM_PROCID"],
        "WORLD_SIZE": slurm["SLURM_STEP_NUM_TASKS"],
        "LOCAL_RANK": slurm["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": tasks[int(slurm["SLURM_NODEID"])],
        "MASTER_ADDR": expand_nodelist(slurm["SLURM_STEP_NODELIST"])[0],
        "MASTER_PORT": str(10_000 + int(slurm["SLURM_JOB_ID"]) % 20_000),
    }
    ### END SOLUTION


# %% [markdown]
# **Try it** on the task of the table.

# %%
example = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NODELIST": "node[01-05]",  # of the whole job
    "SLURM_STEP_NODELIST": "node[03-05]",
    "SLURM_STEP_NUM_TASKS": "5",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
}
for name, value in rendezvous_environment(example).items():
    print(f"{name}={value}")

# %% [markdown]
# **Visible test: 3 points.** All tasks of a step are asked, and a task of many other jobs. Meanwhile `os.environ` has
# variables of something else.

# %% test="rendezvous_environment_visible" points=3
from distlib.exercises import SlurmStep, check_rendezvous_environment

report = check_rendezvous_environment(
    rendezvous_environment,
    steps=[
        SlurmStep("node7", "1"),
        SlurmStep("node[01-02]", "3(x2)"),
        SlurmStep("node[03-05]", "2(x2),1", job_nodes="node[01-05]", job_tasks="4(x2),2(x2),1"),
        SlurmStep("gpu[8-9]-ib,cn1", "1,3,2", job=1_234_567, cyclic=True),
        SlurmStep("node[01-02]", "2(x2)", missing="SLURM_PROCID"),
    ],
)
found = [answer["returned"] for answer in report.answers[2]]
assert [each["RANK"] for each in found[:5]] == ["0", "1", "2", "3", "4"]
assert {each["MASTER_ADDR"] for each in found} == {"node03"}
assert len({each["MASTER_PORT"] for each in found[:5]}) == 1
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Other steps, other jobs, and other variables that are missing.

# %% test="rendezvous_environment_hidden" points=3
# The hidden tests of rendezvous_environment stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: a part of a job, tasks in turn, large job numbers, an address left behind, missing variables.
from distlib.exercises import SlurmStep, check_rendezvous_environment

report = check_rendezvous_environment(
    rendezvous_environment,
    steps=[
        SlurmStep("n[098-101]", "12,1(x2),11", job=9_999),
        SlurmStep("r[1-2]n[1-2]", "3(x4)", job=67_043_327, cyclic=True),
        SlurmStep("z9,a1", "2,1", job=32_767, left_behind=True),
        SlurmStep("m[1-8]", "2,1,3(x2),1,4,2(x2)", job=345_678),
        SlurmStep(
            "b[2-4]",
            "2(x2),1",
            job=19_998,
            cyclic=True,
            job_nodes="a[1-2],b[1-4]",
            job_tasks="4(x6)",
        ),
        SlurmStep(
            "gpu[8-9]-ib",
            "2,4",
            job=8_888_888,
            job_nodes="gpu[7-9]-ib",
            job_tasks="1,2,4",
            left_behind=True,
        ),
        *(
            SlurmStep(
                "node[01-02]", "2(x2)", job_nodes="node[01-03]", left_behind=True, missing=name
            )
            for name in (
                "SLURM_JOB_ID",
                "SLURM_STEP_NODELIST",
                "SLURM_STEP_NUM_TASKS",
                "SLURM_STEP_TASKS_PER_NODE",
                "SLURM_PROCID",
                "SLURM_LOCALID",
                "SLURM_NODEID",
            )
        ),
        SlurmStep("n[1-2]", "1(x2)", job=31_744),  # the ports end at 32,767
        SlurmStep("n[1-2]", "1(x2)", job=32_766),
        SlurmStep("n[01-12]", "2(x12)", job=7),
    ],
    seed=162,
)
assert len(report) == 16
first = [answer["returned"] for answer in report.answers[0]]
assert [each["LOCAL_WORLD_SIZE"] for each in first[:25]] == ["12"] * 12 + ["1", "1"] + [
    "11"
] * 11
assert {each["MASTER_ADDR"] for each in first} == {"n098"}
for answers in report.answers[:6]:
    ports = [int(answer["returned"]["MASTER_PORT"]) for answer in answers]
    assert ports[0] not in ports[-298:-1]
    assert all(1_024 <= port <= 32_767 for port in ports)
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Go on: `resume`
#
# A machine has failed, and the job starts again. **Each rank has its own part of the model and its own disk.** In its
# folder it has written a checkpoint now and then, with `save_checkpoint` of the first cell. Read that function again:
#
# | bytes | in `step-<number>.pt` |
# |---|---|
# | the first 32 | the SHA-256 checksum of all that follows: `hashlib.sha256(rest).digest()` |
# | the rest | what `torch.save` wrote: a dict of `"step"`, `"model"` and `"optimizer"` |
#
# `torch.load(io.BytesIO(rest))` reads the rest. Not all that lies in the folder can be trusted:
#
# - **Torn files.** One may be cut off anywhere, be empty, or end with zeros.
# - **Wrong bits.** A bit of one may have changed. `torch.load` often does not notice. So only a file **whose checksum
#   fits** is good, and nothing of another one may ever be loaded into the model.
# - **Unfinished files.** Only the name `step-<number>.pt` makes a checkpoint: a number from 1 on, of at most nine
#   digits, without a zero in front. `step-30.pt.tmp` was never finished, even if all of it is there. There may be
#   others still, which somebody has put aside: `best-30.pt`, `step-030.pt`, `step-last.pt`. They are no checkpoints,
#   even if all of it is there.
# - **Not on all ranks.** A rank may have failed before it wrote the newest one. A new machine has an empty folder, or
#   none.
#
# **All ranks go on from the same step: the newest of which every rank has a good checkpoint.** For example:
#
# | rank | good | not good |
# |---|---|---|
# | 0 | 10, 20, 30 | |
# | 1 | 10, 30 | 20 is torn |
# | 2 | 10, 20 | 30 was never finished |
#
# Step 30 is not on rank 2, and step 20 not on rank 1. So all go on from step 10. (20 is the smallest of the newest
# ones, and would be wrong.) Each rank loads **its own** file of this step. If there is no such step, all ranks return
# 0, and model and optimizer stay as they are.
#
# - Compare numbers. As texts, `"step-9.pt"` comes after `"step-10.pt"`.
# - **Delete nothing.** The folder stays as it is, and one that is missing stays missing. Somebody will want
#   to see the damaged file.
# - **Messages:** a rank sends at most $2(p - 1)$ messages, with $p$ ranks, of at most 512 bytes each. A checkpoint does
#   not travel, a list of steps does. No folder has more than 16 files. A message must have the length of the tensor
#   that it is received into: fill lists up to 16 numbers with one that is no step, or send their length first. One rank
#   alone sends nothing.
# - Every rank takes part in the exchange, also one that has nothing good.


# %% solution="resume"
def resume(comm: Communicator, folder: Path, model: torch.nn.Module, optimizer: Any) -> int:
    """Load the newest checkpoint that is good on all ranks: each rank the one in its own
    folder.

    Args:
        comm: the communicator of this rank.
        folder: this rank's own. It may be empty, and need not exist. Not changed.
        model: this rank's part. It has load_state_dict(state), as torch's have.
        optimizer: this rank's part. Likewise.

    Returns:
        The step of the checkpoint, the same on all ranks; 0 if none is good on all of them.
        Then model and optimizer are as they were.

    Cost: each rank sends at most 2 (comm.world_size - 1) messages of at most 512 bytes.
    """
    ### BEGIN SOLUTION
    good = {}
    for path in folder.glob("*"):
        match = re.fullmatch(r"step-([1-9][0-9]{0,8})\.pt", path.name)
        content = path.read_bytes() if match else b""
        if match and hashlib.sha256(content[32:]).digest() == content[:32]:
            good[int(match[1])] = content[32:]
    common = set(good)
    mine = torch.tensor([*good, *[0] * (16 - len(good))])
    for distance in range(1, comm.world_size):
        theirs = torch.empty_like(mine)
        dst, src = (
            (comm.rank + distance) % comm.world_size,
            (comm.rank - distance) % comm.world_size,
        )
        comm.exchange(mine, dst, theirs, src)
        common &= set(theirs.tolist())
    step = max(common, default=0)
    if step:
        checkpoint = torch.load(io.BytesIO(good[step]))
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    return step
    ### END SOLUTION


# %% [markdown]
# **Try it.** Three ranks have trained for 3 steps, with a checkpoint after each one. Then the newest file of rank 1 is
# cut off, and rank 2 loses its own. All three should go on from step 2, each with its own weight.

# %%
import tempfile


def train_and_resume(comm: Communicator, place: str) -> tuple[int, float, float]:
    folder = Path(place) / f"disk-of-rank-{comm.rank}"
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(10.0 * comm.rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    for step in (1, 2, 3):
        model.weight.grad = -torch.ones(1, 1)
        optimizer.step()
        save_checkpoint(folder, step, model, optimizer)
    newest = folder / "step-3.pt"
    if comm.rank == 1:
        newest.write_bytes(newest.read_bytes()[:1000])
    if comm.rank == 2:
        newest.unlink()
    before = model.weight.item()
    return resume(comm, folder, model, optimizer), before, model.weight.item()


simulated = SimulatedWorld(3)
with tempfile.TemporaryDirectory() as place:
    for rank, (step, before, after) in enumerate(
        simulated.run(train_and_resume, place, timeout=60)
    ):
        print(f"rank {rank}: from step {step}, weight {before:.2f} → {after:.2f}")
print(simulated.trace.summary())

# %% [markdown]
# **Visible test: 5 points.** Files are real, and each rank has a folder of its own. The table in an error has the
# steps of each rank, and behind a minus what is wrong with the file. `30-tmp` is whole, but was never renamed;
# `30-halftmp` is only a part of it. `30-zero` is `step-030.pt`.

# %% test="resume_visible" points=5
from distlib.exercises import Disks, check_resume

report = check_resume(
    resume,
    disks=[
        Disks("a good one", ["10"]),
        Disks("all good", ["10 20 30", "20 10 30"]),
        Disks("one torn", ["10 20 30", "10 20 30-torn"]),
        Disks("a wrong bit", ["5 7 8-flipped", "5 7-flipped 8", "5 7 8"]),
        Disks("an unfinished one", ["8 9 10", "10-tmp 8 9"]),
        Disks("as in the table above", ["10 20 30", "10 20-torn 30", "10 20 30-halftmp"]),
        Disks("numbers that get longer", ["9 10 100", "9 10 100", "100 10 9"]),
        Disks("a zero in front", ["10 20 30-zero", "20 30-zero 10"]),
        Disks("a new machine", ["10 20", ""]),
    ],
)
assert [[told["step"] for told in seen.results] for seen in report[:3]] == [
    [10],
    [30, 30],
    [20, 20],
]
assert [seen.results[0]["step"] for seen in report[3:]] == [5, 9, 10, 100, 20, 0]
for seen in report:
    assert max(seen.trace.messages_sent) <= 2 * (seen.size - 1)
print(report)

# %% [markdown]
# **Hidden test: 6 points.** More ranks, larger models, and all that can happen to a file.

# %% test="resume_hidden" points=6
# The hidden tests of resume stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 8 ranks and 3 layers, large files, all kinds of damage, files that are no checkpoints.
from distlib.exercises import Disks, check_resume

report = check_resume(
    resume,
    disks=[
        Disks(
            "all that can happen",
            ["1 2-checksum 3-short 4-empty 5-zeroed 6-torn 7-halftmp 8-flipped 9-tmp 10-other"],
        ),
        Disks("many files", [" ".join(map(str, range(5, 21)))] * 3),
        Disks(
            "the oldest of many",
            [" ".join(map(str, range(5, 21))), " ".join(map(str, (*range(21, 36), 5)))],
        ),
        Disks(
            "long numbers",
            ["123456788 123456789", "123456790 123456788 123456787", "123456788 900000001"],
        ),
        Disks(
            "all of it somewhere", ["3 12-zeroed 7 11", "11-empty 12 7 3", "3 7 11 12-short"]
        ),
        Disks("no folder on one", ["10 20", None, "10 20"]),
        Disks("nothing good", ["4-torn 5-flipped", "4 5-tmp"]),
        Disks("nothing in common", ["1 3 5", "2 4 6", "1 2 3 4"]),
        Disks("a wrong bit everywhere", ["2 4-flipped"] * 4),
        Disks("one put aside", ["90 100-other 95", "90 95 100", "95 100 90"]),
        Disks(
            "names that are none", ["7 9-zero 12-last 13-renamed", "7 9 12 13", "13-old 12 9 7"]
        ),
        Disks("numbers that are none", ["8 0 1234567890", "0 1234567890 8"]),
        Disks("nothing but such names", ["0 5-zero", "5-zero 0"]),
        Disks("a checksum that does not fit", ["90 1000-checksum", "90 1000"]),
        Disks("a large model", ["10 20", "20 10-zeroed"], is_large=True),
        Disks("nothing", [None]),
        Disks("nothing yet", [None, None]),
        Disks("eight ranks", ["40 50 60", "60 40 50", *["50 60 70 40"] * 5, "60-torn 50 40"]),
    ],
    drawn=[1, 2, 3, 4, 5, 6],
    seed=163,
)
assert len(report) == 24
steps = [[told["step"] for told in seen.results] for seen in report]
assert [each[0] for each in steps[:18]] == [
    1,
    20,
    5,
    123_456_788,
    7,
    0,
    0,
    0,
    2,
    95,
    7,
    8,
    0,
    90,
    20,
    0,
    0,
    50,
]
for seen, found in zip(report, steps, strict=True):
    assert found == [seen.facts.disks.agreed] * seen.size
    assert [told["files"].keys() for told in seen.results] == [
        (files or {}).keys() for files in seen.given("files")
    ]
    assert max(seen.trace.messages_sent) <= 2 * (seen.size - 1)
    assert all(message.nbytes <= 512 for message in seen.trace)
### END HIDDEN TESTS

# %% [markdown]
# ## All together
#
# A job with three tasks on two nodes. What each one would export before `torch.distributed.init_process_group()`:

# %%
for rank, (node, local) in enumerate([(0, 0), (0, 1), (1, 0)]):
    task = example | {"SLURM_STEP_NODELIST": "node[03,05]", "SLURM_STEP_NUM_TASKS": "3"}
    task |= {"SLURM_STEP_TASKS_PER_NODE": "2,1", "SLURM_PROCID": str(rank)}
    task |= {"SLURM_NODEID": str(node), "SLURM_LOCALID": str(local)}
    nodes = expand_nodelist(task["SLURM_STEP_NODELIST"])
    exported = rendezvous_environment(task)
    print(f"on {nodes[node]}:", *(f"{name}={value}" for name, value in exported.items()))

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 16b` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("16b_launching")

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("16b_launching")
