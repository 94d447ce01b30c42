# %% [markdown]
# # The hang clinic
#
# At three in the morning a run on 64 GPUs stops. There is no error, and every GPU reports 100 % utilization. Ten
# minutes later the log has 64 errors, and each says only that a rank has waited too long. You start the run again, and
# at six it stops again. Which rank is at fault, and why?
#
# > After this lesson you will be able to
# >
# > - say from what a run does which tool to take next,
# > - find the rank and the line of a hang within minutes,
# > - read the errors of all ranks, and tell the cause from its consequences,
# > - keep a check in a run that notices when the run trains wrongly.
# >
# > **Time:** about 45 minutes. **You need:** [DDP](05_ddp.ipynb). No GPU.

# %% tags=["folded"]
# The imports, and how a patient is examined
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.constants import default_pg_timeout

from distlib import Communicator, RankError, World, torch_distributed
from distlib.clinic import (
    FIRST_AID,
    PATIENTS,
    TOOLS,
    PatientReport,
    ReplicaCheck,
    check_against_one_process,
    check_samples,
    prepare_clinic,
    run_on_our_ranks,
    run_patient,
)
from distlib.draw import decision_tree, predict

prepare_clinic()  # another process imports torch for the patients
worlds = {ranks: World(ranks) for ranks in (2, 3, 4)}


def examine(name: str, tool: str | None = None) -> PatientReport:
    """Run a patient, and show what the tool has changed and how each rank ended."""
    report = run_patient(name, tool, seconds=1.0 if timed(tool) else 2.0)
    print(f"{report.change}\n\n{report}" if report.change else report)
    return report


def timed(tool: str | None) -> bool:
    """Whether a tool has a time limit, which is twice the seconds."""
    return tool is not None and TOOLS[tool].is_timed


def in_brief(*names: str, tool: str | None = None) -> dict[str, PatientReport]:
    """Run patients, and show how each rank ended, with the last line that it printed."""
    seconds = 1.0 if timed(tool) else 2.0
    reports = {name: run_patient(name, tool, seconds=seconds) for name in names}
    for name, report in reports.items():
        print(f"{name}: “{PATIENTS[name].symptom}”")
        for ending in report.endings:
            told = f" │ {ending.lines[-1].strip()[:120]}" if ending.lines else ""
            print(f"    rank {ending.rank}  {ending.how}{told}")
    return reports


# %% [markdown]
# ## The first patient
#
# A broken run stands still, dies, or trains wrongly, and so this lesson has three acts. You meet 27 *patients*: short,
# whole programs of plain `torch.distributed` with one fault each. We start one process per rank, as `torchrun` does.
# Here is the first patient, with its owner's complaint:

# %%
first = PATIENTS["order_of_calls"]
print(f"“{first.symptom}”\n\n{first.numbered()}")

# %%
guess_1 = predict(
    "Where do the two ranks wait?",
    choices=["both in broadcast", "both in all_reduce", "each in a different call"],
)

# %%
plain = examine("order_of_calls")
apart = ["broadcast" in ending.how for ending in plain.endings] == [True, False]
print(guess_1.compare("each in a different call" if apart else "both in broadcast"))

# %% tags=["folded"]
# Checks of the numbers above and below
assert plain.outcome == "hangs" and not any(ending.lines for ending in plain.endings)
assert "in broadcast, line 10" in plain.endings[0].how
assert "in all_reduce, line 13" in plain.endings[1].how
assert default_pg_timeout.total_seconds() == 30 * 60
assert len(PATIENTS) == 27

# %% [markdown]
# Torch itself has printed nothing: with gloo, its backend for CPUs, a call waits 30 minutes by default before it fails.
# The two lines come from us: after two seconds without progress on any rank, we looked at the **stack** of each rank,
# the function calls that it was inside.
#
# Both ranks make the same two calls, but in opposite orders. Rank 0 waits in `broadcast` for rank 1, while rank 1 waits
# in `all_reduce` for rank 0. You know this circle from lesson 01: a deadlock.
#
# We try two of torch's tools. `timeout` ends each wait after a few seconds. `DETAIL` is the environment variable
# `TORCH_DISTRIBUTED_DEBUG=DETAIL`, with which the ranks compare their calls before they make them. `timeout` adds an
# import and an empty line, so that line 10 becomes line 12.

# %%
limited = examine("order_of_calls", "timeout")
print("─" * 60)
detailed = examine("order_of_calls", "DETAIL")

# %% tags=["folded"]
# Checks of the numbers above
assert "Timed out waiting" in limited.text and "roadcast" not in limited.endings[1].text
for ending in detailed.endings:
    assert "OpType=BROADCAST" in ending.text and "OpType=ALLREDUCE" in ending.text

# %% [markdown]
# The rank that times out first reports its own line. The other one also times out, or loses its connection. Neither
# says what the other rank was doing. `DETAIL` names both calls at once.
#
# **A timeout says where a rank waited. It does not say why.**
#
# The course's `World` runs the same program unchanged. Because its messages say which call they belong to, it finds
# the circle without a tool:

# %%
print(run_on_our_ranks("order_of_calls", worlds[2]))

# %% [markdown]
# ## First aid
#
# Which tool comes next depends on what the run does. Keep this picture; you will meet each of its tools below.

# %%
tree = decision_tree(
    FIRST_AID, title="First aid", subtitle="from what a run does to what says why"
)
tree

# %% tags=["folded"]
# Checks of the table and the picture
assert set(TOOLS) == {
    *("timeout", "monitored_barrier", "INFO", "DETAIL"),
    *("py-spy", "faulthandler", "flight recorder", "error file"),
}
assert len(next(iter(FIRST_AID.values()))) == 3

# %% [markdown]
# Most branches begin with a look at all ranks. A restart destroys the evidence, and the fault may come back.
#
# **Look at every rank before you change anything.**
#
# <details><summary>The tools, one by one</summary>
#
# | tool | what it tells |
# |---|---|
# | every rank's error | often the cause on one rank, and consequences on the others |
# | a short timeout | with gloo, where the rank that timed out was; at the start, how many ranks have joined |
# | `monitored_barrier` | the first rank that does not come, or all such ranks with `wait_all_ranks=True` |
# | `TORCH_DISTRIBUTED_DEBUG=INFO` | which parameters got no gradient under DDP |
# | `TORCH_DISTRIBUTED_DEBUG=DETAIL` | two calls that do not fit: kind, shape, dtype |
# | `py-spy dump --pid …` | the stack of a running process, from outside, with nothing prepared |
# | `faulthandler` | the same from inside, after some seconds |
# | flight recorder | the last calls of each rank, and which are not over |
# | error file of `torchrun` | each rank's exception and its time, if the main function has the decorator `record` |
#
# </details>
#
# ## Act 1: it stands still
#
# ### Somebody does not come
#
# Rank r has 4 − r samples in step 0, and one sample fewer in each further step. Read the program, and then where its
# ranks wait:

# %%
print(PATIENTS["skipped_collective"].numbered())
skipped = examine("skipped_collective")

# %% [markdown]
# In the last step rank 2 has no samples, so it skips the all-reduce of line 13 and waits in the barrier of line 14.
# Nobody waits in line 11, where the fault is.
#
# **A hang often shows itself at a later call than the fault.**
#
# At a `monitored_barrier`, rank 0 reports after a timeout who has not come. We put such a barrier right before the call
# that we suspect, the all-reduce.

# %%
guess_2 = predict(
    "Whom does rank 0 report?",
    choices=["rank 0", "rank 1", "rank 2", "nobody"],
)

# %%
monitored = examine("skipped_collective", "monitored_barrier")
named = "Rank 2 failed to pass monitoredBarrier" in monitored.endings[0].text
print(guess_2.compare("rank 2" if named else "nobody"))

# %% tags=["folded"]
# Checks of the numbers above
assert named and skipped.kinds == ["waits"] * 3
assert "Please check rank 0 logs for faulty rank" in monitored.endings[1].text
assert monitored.kinds == ["raised"] * 3
assert "in all_reduce, line 13" in skipped.endings[0].how
assert "in barrier, line 14" in skipped.endings[2].how
assert PATIENTS["skipped_collective"].program.splitlines()[10].strip() == "continue"

# %% [markdown]
# Rank 0 names rank 2. Rank 1 only points to rank 0's log, and rank 2 just loses its connection.
#
# <details><summary>Where to put the barrier, and who waits how long</summary>
#
# | question | answer |
# |---|---|
# | before the `continue`, or after it? | after it: before it all ranks still pass, and nobody is missing |
# | what if rank 0 does not come? | the others only name rank 0's log, as they always do |
# | whose timeout? | the barrier's timeout holds for rank 0; the others wait as long as the group's timeout |
# | with NCCL? | `monitored_barrier` needs a group of gloo: `new_group(backend="gloo")` |
#
# </details>
#
# The **flight recorder** needs no suspicion, because it keeps the last calls of every rank:

# %%
flight = examine("skipped_collective", "flight recorder")

# %% tags=["folded"]
# Checks of the numbers above
assert flight.endings[0].seen[2].startswith("call 3: gloo:all_reduce")
assert flight.endings[2].seen[2].startswith("call 3: gloo:barrier")
assert all("NOT OVER" in ending.seen[2] for ending in flight.endings)

# %% [markdown]
# The third call is a barrier on rank 2 and an all-reduce on the others: rank 2 has left one out. Its code must tell
# why.
#
# <details><summary>How to read it</summary>
#
# | backend | how |
# |---|---|
# | NCCL | a file per rank after a timeout, with older torch only if told to; `torchfrtrace` compares the files |
# | gloo | a private function of torch, `torch._C._distributed_c10d._dump_fr_trace_json`, called in a thread |
#
# </details>
#
# **Try it.** Heal the program: a rank without samples takes part and contributes zero. What is `mean()` of an empty
# tensor? The last step has three samples with loss 1, so all ranks must end with 3.0 for a sum over the samples, or 2.0
# for a sum of the ranks' means.

# %%
ill = PATIENTS["skipped_collective"].program
mine = ill.replace("continue", "pass")  # change this
print(run_patient("skipped_collective", program=mine))

# %% tags=["folded"]
# One way to do it
# The mean of no numbers is not a number: with `pass` all ranks end, and every loss is nan
print(PATIENTS["skipped_collective"].change)
healed = run_patient("skipped_collective", healed=True)
print(healed)
assert healed.kinds == ["ended"] * 3 and healed.text.count("the last loss 3.0") == 3
unwell = run_patient("skipped_collective", program=ill.replace("continue", "pass"))
assert unwell.kinds == ["ended"] * 3 and unwell.text.count("the last loss nan") == 3

# %% [markdown]
# ### Only rank 0
#
# Because one rank is enough for the validation loss, only rank 0 computes it. The model has BatchNorm, and at the start
# of each forward pass DDP sends the buffers of BatchNorm from rank 0 to the others.

# %%
print(PATIENTS["extra_forward"].numbered())

# %%
guess_3 = predict(
    "Rank 0 calls the DDP model once more. Where does rank 0 wait in the end?",
    choices=[
        "in that extra call",
        "in the forward pass of the next step",
        "nowhere: it ends",
    ],
)

# %%
extra = examine("extra_forward")
next_step = "in forward, line 11" in extra.endings[0].how
where = "in the forward pass of the next step" if next_step else "in that extra call"
print(guess_3.compare(where))

# %% tags=["folded"]
# Checks of the numbers above
assert next_step and "in backward, line 11" in extra.endings[1].how
assert "validation = model(" in PATIENTS["extra_forward"].program.splitlines()[12]

# %% [markdown]
# Neither rank waits at the fault, line 13. Rank 0 makes the calls forward, backward, **extra**, forward, and rank 1
# makes forward, backward, forward, backward. So rank 0's extra pass met the next forward pass of rank 1, and from then
# on the ranks are one call apart: rank 0 waits in a forward pass while rank 1 waits in a backward pass.
#
# **All ranks of a group make a collective call, or none does.**
#
# A forward pass of DDP counts, too, because it communicates inside. Four more patients break the same rule.
#
# <details><summary>The four, with their cures, and why a fault can sleep</summary>
#
# | patient | what one rank does alone | cure |
# |---|---|---|
# | `barrier_on_rank_zero` | waits for all after it has saved | all ranks call the barrier |
# | `save_on_rank_zero` | `consolidate_state_dict`, for which every rank sends a part | all call it, rank 0 saves |
# | `local_condition` | decides by its own loss to broadcast | all-reduce the loss, then decide |
# | `uneven_data` | trains on one batch more | `model.join()` or a sampler that pads: lesson 05b |
#
# Without BatchNorm, `extra_forward` ends, because DDP then broadcasts only once, in the first forward pass after the
# first backward pass. Rank 0 does so in its extra call and rank 1 in its next step, so they meet. The fault sleeps
# until somebody adds a line, such as an all-reduce at the end of each step.
#
# </details>

# %% tags=["folded"]
# Four more patients that break the rule
alone = in_brief(
    "barrier_on_rank_zero", "save_on_rank_zero", "local_condition", "uneven_data"
)
assert "in barrier" in alone["barrier_on_rank_zero"].endings[0].how
assert "in all_reduce" in alone["barrier_on_rank_zero"].endings[1].how
assert "consolidate_state_dict" in alone["save_on_rank_zero"].endings[0].how
assert "in all_reduce" in alone["local_condition"].endings[0].how
assert "in broadcast" in alone["local_condition"].endings[1].how
assert "in backward" in alone["uneven_data"].endings[0].how
assert "in barrier" in alone["uneven_data"].endings[1].how

# %% [markdown]
# **Try it.** Heal `extra_forward`. Rank 0 may look at the validation loss, but it must not send anything.

# %%
ill = PATIENTS["extra_forward"].program
mine = ill.replace("validation = model(", "validation = model(")  # change this
print(run_patient("extra_forward", program=mine).outcome)

# %% tags=["folded"]
# One way to do it
# In earnest with model.eval() and torch.no_grad(), too: else rank 0's BatchNorm learns
# from the validation data
print(PATIENTS["extra_forward"].change)
healed = run_patient("extra_forward", healed=True)
print(healed)
assert healed.kinds == ["ended"] * 2

# %% [markdown]
# ### All in the same call
#
# When a model is cut in several ways, as in lesson 12, each rank is in several groups. This program has two groups, and
# a time limit of 4 seconds:

# %%
print(PATIENTS["order_of_groups"].numbered())
recorded = examine("order_of_groups", "flight recorder")

# %% tags=["folded"]
# Checks of the numbers above, and what a World says
assert recorded.kinds == ["waits"] * 2 and "after 6 s" in recorded.endings[0].how
assert "seconds=4" in PATIENTS["order_of_groups"].program
unfinished = [
    [line for line in ending.seen if "NOT OVER" in line] for ending in recorded.endings
]
assert [len(lines) for lines in unfinished] == [1, 1]
assert unfinished[0][0].split("group")[1] != unfinished[1][0].split("group")[1]
assert all("in all_reduce" in ending.how for ending in recorded.endings)
print(run_on_our_ranks("order_of_groups", worlds[2]))

# %% [markdown]
# The limit holds for the default group only, because a group of `new_group` has a timeout of its own. `DETAIL` finds no
# mismatch, because it compares calls within one group. Here lines 13 and 16 name their groups. Where one line of a
# library makes both calls, the flight recorder still shows that the groups differ.
#
# In another patient, `different_roots`, both ranks wait in the same call of the same group. Each rank chooses the
# better of two models by its own data, so that both call `broadcast` as the sender.

# %% tags=["folded"]
# The patient whose ranks both send
print(PATIENTS["different_roots"].numbered())
roots = examine("different_roots", "DETAIL")
print()
print(run_on_our_ranks("different_roots", worlds[2]))
assert ["in broadcast, line 11" in ending.how for ending in roots.endings] == [True] * 2
assert roots.outcome == "hangs" and "OpType" not in roots.text

# %% [markdown]
# **Ranks in the same call can still wait for each other: compare their groups and arguments.**
#
# <details><summary>What DETAIL does not compare (tried with torch 2.13 and 2.14)</summary>
#
# | not compared | so |
# |---|---|
# | the root, the reduction, the layout in memory | print such arguments on every rank |
# | calls of different groups | read the flight recorder |
# | `send` and `recv` | a rank that waits in `recv` is not named |
#
# </details>
#
# ### Slow, or stuck?
#
# "Rank 0 stands still after the epoch. Is rank 1 dead?" This time we look from outside, with `py-spy`:

# %%
slow = examine("slow_rank", "py-spy")

# %% tags=["folded"]
# The same from inside, with Python's own tool
stacks = in_brief("slow_rank", tool="faulthandler")["slow_rank"]
assert "time.sleep(1)" in slow.endings[1].how
assert "<module> (slow_rank.py:13)" in str(slow)
assert 'File "slow_rank.py", line 16 in <module>' in stacks.endings[1].text

# %% [markdown]
# Rank 1 reads images from a slow disk, and rank 0, which was given none, waits. A second look may find rank 1 in the
# same line again. `py-spy dump --locals` also shows a function's variables, such as a counter that grows. A longer
# timeout would hide the problem, but only an even share of the work cures it.
#
# **If a rank's stack changes, the rank still runs. If not, it is stuck, or only slow.**
#
# <details><summary>When py-spy may not look</summary>
#
# | tool | what it needs |
# |---|---|
# | `py-spy` | the right to look into a process: `sudo` on a desktop, `SYS_PTRACE` in a container |
# | `faulthandler.register(signal.SIGUSR2)` | the line in the program; then `kill -USR2 PID` prints the stack |
# | `faulthandler.dump_traceback_later(600)` | a call in *each step*, because each call starts the 600 seconds anew |
#
# Send the signal only to processes that have registered it. All others die of it, `torchrun`, too. USR1 is Slurm's
# notice in lesson 16b.
#
# </details>
#
# ### It does not even begin
#
# Three patients never get through `init_process_group`. The first uses another port on each rank, the second expects
# three ranks although two were started, and the third has two ranks 0. We give them a short timeout:

# %%
beginning = in_brief("wrong_port", "wrong_world_size", "two_rank_zeros", tool="timeout")

# %% tags=["folded"]
# Checks of the numbers above
assert "EADDRINUSE" in beginning["two_rank_zeros"].text
assert "1/2 clients joined" in beginning["wrong_port"].endings[0].text
assert "2/3 clients joined" in beginning["wrong_world_size"].endings[0].text
assert "clients joined" not in beginning["wrong_world_size"].endings[1].text
assert "1/2 clients joined" in beginning["two_rank_zeros"].text

# %% [markdown]
# Here rank 0 counts who has joined; under `torchrun` nobody does, see below. `1/2` means that a rank has died, did not
# start, or tries another address or port. `2/3` can also mean that the world size is wrong, as here. A port that is in
# use may belong to a second rank 0.
#
# **Before the ranks join, print rank, world size, address and port of each.**
#
# <details><summary>With torchrun, and without a timeout</summary>
#
# | case | what you see |
# |---|---|
# | no timeout is set | the counts come after 30 minutes with gloo, after 10 with NCCL |
# | `torchrun` opens the port | nobody counts: the error is `wait timeout`, whose key ends with the missing rank |
#
# `torchrun` does not open the port with `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1`, as in lesson 16.
#
# </details>
#
# ## Act 2: it dies
#
# ### One cause, many victims
#
# In the next patient rank 1 finds a label that is not a digit, and raises a `ValueError`, while rank 0 waits for it.

# %%
guess_4 = predict(
    "Rank 1 raises a ValueError. What does rank 0 say?",
    choices=["the same ValueError", "a closed connection", "nothing"],
)

# %%
raised = examine("exception_on_one_rank")
closed = "Connection" in raised.endings[0].text
print(guess_4.compare("a closed connection" if closed else "nothing"))

# %% tags=["folded"]
# Checks of the numbers above, and the same patient with an error file
assert closed and "ValueError" not in raised.endings[0].text
assert "ValueError: expected a digit, got 10" in raised.endings[1].text
files = examine("exception_on_one_rank", "error file")
assert "error file" in files.text and "ValueError" in files.endings[1].seen[-1]

# %% [markdown]
# On 64 ranks there can be 63 such messages and one `ValueError`, so look first for the rank that says
# something different. A timeout is not a cause either.
#
# **"Connection closed" or "reset by peer" is seldom the cause: read every rank's error.**
#
# When memory runs out, Linux kills a process by signal 9, and the process cannot say anything. In the next two patients
# a signal 9 kills a rank, and a worker of a `DataLoader`.

# %%
killed = in_brief("dead_rank", "killed_loader_worker")

# %% tags=["folded"]
# Checks of the numbers above
assert killed["dead_rank"].endings[1].how == "died of signal 9, SIGKILL"
assert killed["dead_rank"].endings[1].lines == []
assert killed["killed_loader_worker"].kinds == ["raised", "raised"]
assert "Connection" in killed["killed_loader_worker"].endings[0].text

# %% [markdown]
# The log of the dead rank just ends. The rank's exit status says that it was killed: −9, or 137 in a shell.
#
# <details><summary>How to find the rank that died first</summary>
#
# | what you see | what it means |
# |---|---|
# | no message, status −9 or 137 | killed; Linux's log, `dmesg`, often names the process |
# | no message, status 0 | the rank made fewer calls than the others, and ended |
# | "DataLoader worker is killed", "exited unexpectedly" or only "Connection reset" | a worker of the loader died |
# | only closed connections, on all ranks | look at the network |
#
# `torchrun` shows the earliest exception if the main function has the decorator `record`. Its clock counts whole
# seconds, so read the other ranks, too.
#
# </details>
#
# ### 8 vs 4
#
# In `shapes_differ`, rank 0 all-reduces 8 numbers and rank 1 only 4. In `float64_on_one_rank`, both ranks have one
# number:

# %%
print(PATIENTS["float64_on_one_rank"].numbered(), "\n")
aborted = in_brief("shapes_differ", "float64_on_one_rank")

# %%
guess_5 = predict(
    "What is 8, and what is 4, in float64_on_one_rank?",
    choices=["lengths of tensors", "bytes of one number", "ranks"],
)

# %%
dtypes = examine("float64_on_one_rank", "DETAIL")
is_dtype = "TensorDtypes=Double" in dtypes.text
print(guess_5.compare("bytes of one number" if is_dtype else "lengths of tensors"))

# %% tags=["folded"]
# Checks of the numbers above and below
assert is_dtype
for report in aborted.values():
    assert "8 vs 4" in report.text and "died of signal 6, SIGABRT" in report.text
ill = PATIENTS["shapes_differ"].program.replace("ones(12)", "ones(150)")
longer = run_patient(
    "shapes_differ",
    program=ill.replace("8 if rank == 0 else 4", "100 if rank == 0 else 50"),
)
assert "100 vs 52" in longer.text

# %% [markdown]
# NumPy's floats have 8 bytes by default (float64), and torch's have 4 (float32).
#
# **Equal shapes are not enough: the ranks must also agree on the dtype.**
#
# <details><summary>What gloo counts, and when it says nothing</summary>
#
# | case | what happens |
# |---|---|
# | `shapes_differ`, with 8 and 4 numbers | bytes of the pieces that gloo sends; that they equal the lengths is chance |
# | the same with 100 and 50 numbers | "100 vs 52" |
# | a broadcast with fewer bytes than expected | no error: the rest of the tensor keeps its old numbers |
#
# </details>
#
# ### The tool that kills
#
# In the patient `unused_parameters`, DDP waits for the gradient of a parameter that the loss does not use. One step
# later DDP complains about the “prior iteration”, and with `TORCH_DISTRIBUTED_DEBUG=INFO` it names the parameter.
# `DETAIL`, the next higher setting, should name it, too:

# %%
unused = run_patient("unused_parameters", "INFO")
print("INFO:", unused.endings[0].lines[-2], "\n")
crashed = examine("unused_parameters", "DETAIL")

# %% tags=["folded"]
# Checks of the numbers above
print("torch", torch.__version__)
signals = [ending.how for ending in crashed.endings if ending.kind == "died"]
assert "old_head.weight" in unused.endings[0].lines[-2]
if torch.__version__.startswith(("2.13.0", "2.14.1")):
    assert signals == ["died of signal 11, SIGSEGV"] * 2

# %% [markdown]
# With torch 2.13.0 and 2.14.1, `DETAIL` crashed every program with DDP that we tried.
#
# **With these versions, take INFO for DDP, and DETAIL for collectives of your own.**
#
# ## Act 3: it trains wrongly
#
# The last patients end with status 0 on all ranks, without an error. Without a check, you may notice them weeks later
# in a curve, or never.
#
# ### An absurd sum

# %%
print(PATIENTS["int32_on_one_rank"].numbered())

# %%
guess_6 = predict(
    "Which sum does rank 1 get in its first element?",
    choices=["2", "1", "more than a billion"],
)

# %%
garbage = examine("int32_on_one_rank")
number = int(garbage.endings[1].lines[-1].split("[")[1].split(",")[0])
print("the bits of 1.0, read as an integer:", torch.ones(1).view(torch.int32).item())
print(guess_6.compare("more than a billion" if number > 1e9 else str(number)))

# %% tags=["folded"]
# Checks of the numbers above
assert number == torch.ones(1).view(torch.int32).item() == 1065353216
assert garbage.outcome == "silent" and "1.0000001" in garbage.endings[0].text

# %% [markdown]
# Both dtypes have 4 bytes, so the lengths fit and nothing crashes. Rank 0 adds up the first half, and rank 1 reads the
# bits of the float 1.0 as an integer. Rank 1 adds up the other half, with the same mistake.
#
# **With gloo, bytes travel without a dtype, and the receiver reads them in its own dtype.**
#
# `DETAIL` would have refused this call. Six more patients end as quietly. In `sum_against_max` and `other_layout` the
# calls differ in something that `DETAIL` does not compare. In the other four the calls do not differ.
#
# <details><summary>The six, with their faults</summary>
#
# | patient | its fault |
# |---|---|
# | `sum_against_max` | one rank asks for the sum, the other for the maximum: half of the result is sums, half maxima |
# | `other_layout` | the numbers of a tensor have another order in the memory of one rank |
# | `read_before_wait` | an asynchronous all-reduce is read before `wait` |
# | `not_in_the_group` | two ranks call the all-reduce of a group without them: torch warns, and does nothing |
# | `different_seeds` | the weights start apart, and averaged gradients keep them apart |
# | `same_samples` | without a sampler, every rank sees all samples |
#
# </details>

# %% tags=["folded"]
# Six more patients that end well
silent = in_brief("sum_against_max", "other_layout", tool="DETAIL")
for name in silent:
    print(run_on_our_ranks(name, worlds[2]), "\n")
silent |= in_brief(
    "read_before_wait", "not_in_the_group", "different_seeds", "same_samples"
)
assert {report.outcome for report in silent.values()} == {"silent"}
assert silent["sum_against_max"].text.count("losses [5.0, 5.0, 3.0, 4.0]") == 2
assert "kernel [0.0, 2.0, 4.0, 6.0, 1.0" in silent["other_layout"].endings[1].text
assert "1000 of 1000" in silent["read_before_wait"].endings[0].text
assert "weights [0.763, 0.901]" in silent["different_seeds"].endings[0].text
assert "weights [1.132, 0.209]" in silent["different_seeds"].endings[1].text
assert silent["same_samples"].text.count("[2, 2, 2, 2, 2, 2, 2, 2]") == 2
losses = ["loss 1" in ending.text for ending in silent["not_in_the_group"].endings]
assert losses == [False, True, False, True]

# %% [markdown]
# ### Whose `nan` is it?
#
# One rank divides by zero, and a step later every rank has the loss `nan`. Here two ranks normalize their samples. In
# step 2 all samples of rank 1 are equal, so that their standard deviation is 0.


# %%
def normalize_and_train(comm: Communicator) -> list[str]:
    weight, told = torch.ones(1, requires_grad=True), []
    with torch_distributed(comm, "gloo"):
        for step in (1, 2, 3):
            equal = comm.rank == 1 and step == 2
            samples = torch.zeros(4) if equal else torch.arange(4.0)
            samples = (samples - samples.mean()) / samples.std()
            loss = (weight * samples - 1).square().mean()
            weight.grad = None
            loss.backward()
            dist.all_reduce(weight.grad)
            gradient = weight.grad.item()
            told.append(f"step {step}: own loss {loss:.2f}, gradient {gradient:.2f}")
            with torch.no_grad():
                weight -= 0.1 * weight.grad / comm.world_size
    return told


# %%
steps = worlds[2].run(normalize_and_train)
for rank, told in enumerate(steps):
    print(f"rank {rank}", *told, sep="\n  ")

# %% tags=["folded"]
# Checks of the numbers above
root = torch.zeros(1, requires_grad=True)
root.square().sqrt().sum().backward()
assert root.sqrt().item() == 0 and root.grad.isnan().all()
for rank, told in enumerate(steps):
    assert ["own loss nan" in line for line in told] == [False, rank == 1, True]
    assert ["gradient nan" in line for line in told] == [False, True, True]

# %% [markdown]
# Because a sum with one `nan` in it is `nan`, both ranks get a `nan` gradient in step 2, and in step 3 a `nan` loss.
# Only rank 1's own loss in step 2 shows where it began.
#
# **Averaging spreads a nan to all ranks: log each rank's own loss and gradient.**
#
# <details><summary>Why the gradient, too?</summary>
#
# A `nan` that comes up in the backward pass, such as the gradient of a root at 0, leaves the loss as it is. Only the
# rank's own gradient shows it, before the average. DDP averages during `backward`, except inside `model.no_sync()`.
#
# </details>
#
# ### A check that stays on
#
# In healthy DDP training all ranks are in the same step, with equal weights and finite gradients. `ReplicaCheck` checks
# steps, weights and gradients, here in every 10th step. It is cheap, because each rank sends only two numbers, and one
# per parameter tensor, computed from the tensor's bits:


# %%
def train(comm: Communicator, seed: int, steps: int = 20) -> float:
    """Returns the norm of the last gradient that was checked."""
    torch.manual_seed(seed * comm.rank)
    with torch_distributed(comm, "gloo"):
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        check = ReplicaCheck(model, every=10)
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            model(torch.ones(4, 8) * comm.rank).square().mean().backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= comm.world_size
            check(step)
            optimizer.step()
    return check.grad_norm


# %%
norms = worlds[2].run(train, seed=0)
print(f"the same seed: no complaint, norms of the gradient {norms}")
try:
    worlds[2].run(train, seed=1)
except RankError as error:
    found = str(error)
    print("a seed per rank:", error)

# %% tags=["folded"]
# Checks of the numbers above, and a check of which rank saw which samples
assert norms[0] == norms[1] > 0
assert "step 10: 0.weight has different weights on rank 1 and on the others" in found
parts = [list(range(0, 8, 2)), list(range(1, 8, 2))]
worlds[2].run(lambda comm: check_samples(parts[comm.rank], 8, comm))  # well dealt out
try:
    worlds[2].run(lambda comm: check_samples(list(range(8)), 8, comm))
except RankError as error:
    twice = str(error)
    print(twice)
assert "8 of 8 samples were not seen once: sample 0: 2 times (ranks 0 and 1)" in twice

# %% [markdown]
# When weights differ, the message names the first such parameter, and the ranks in the minority. In a tie, as with two
# ranks, it takes the side of the lowest rank, so it may name the wrong one.
#
# **DDP's replicas must have equal weights, to the bit. Check that while they train.**
#
# `check_samples` checks after an epoch that each sample was seen once.
#
# <details><summary>What the checks do not see, and how they stay out of the way</summary>
#
# | | |
# |---|---|
# | buffers, the optimizer's state | not compared |
# | a `GradScaler` | call the check after `unscale_`; a step that the scaler leaves out has infinite gradients |
# | a rank leaves out only the check | the others stop after the check's own timeout |
# | a rank leaves out an earlier call | the others hang there, before the check |
# | a sampler | may repeat or leave out a few samples that cannot be dealt out evenly |
# | FSDP, tensor parallel | ranks hold different weights on purpose |
#
# </details>
#
# **Try it.** Spoil the loop. Let rank 1 skip the `optimizer.step()` of step 3. Then give rank 1 a gradient of infinity
# in step 10, once before the all-reduce and once after it. What does the check say each time, and in which step?

# %%
# Write your loop here: a copy of train, with a fault


# %% tags=["folded"]
# One way to do it
def spoiled(
    comm: Communicator, fault: str, at: int = 0, culprit: int = 1, steps: int = 20
) -> None:
    """`train`, with a fault on one rank in one step."""
    torch.manual_seed(0)
    with torch_distributed(comm, "gloo"):
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        check = ReplicaCheck(model, every=10)
        for step in range(1, steps + 1):
            now = fault if (comm.rank, step) == (culprit, at) else ""
            optimizer.zero_grad()
            model(torch.ones(4, 8) * comm.rank).square().mean().backward()
            if now == "infinity before":
                model[0].weight.grad[0, 0] = torch.inf
            for parameter in model.parameters():
                if fault != "no all-reduce":
                    dist.all_reduce(parameter.grad)
                parameter.grad /= comm.world_size
            if now == "infinity after":
                model[0].weight.grad[0, 0] = torch.inf
            check(step)
            if now != "skip":
                optimizer.step()


def says(size: int, *how: object, **who: int) -> str:
    try:
        worlds[size].run(spoiled, *how, **who)
    except RankError as error:
        return str(error)
    return "nothing"


differs = "step 10: 0.weight has different weights on rank 1 and on the others"
infinite = "a gradient that is not finite, 0.weight"
EXPECTED = {
    ("skip", 3): differs,
    ("skip", 20): "nothing",  # the check of step 20 comes before that
    ("infinity before", 10): f"step 10: ranks 0 and 1 have {infinite}",
    ("infinity after", 10): f"step 10: rank 1 has {infinite}",
    ("infinity after", 7): differs,  # a step later it is in the weights
    ("no all-reduce", 0): differs,
}
for (fault, at), words in EXPECTED.items():
    said = says(2, fault, at)
    print(f"{fault}, step {at or 'each'}: {said}")
    assert words in said
# Of two ranks it names rank 1 in any case, of three the one that is alone
assert "weights on rank 1" in says(2, "skip", 3, culprit=0)
assert "weights on rank 0" in says(3, "skip", 3, culprit=0)

# %% [markdown]
# ### When all ranks agree
#
# In the patient `summed_gradients` nobody divides the sum of the gradients by the number of ranks. Because all ranks
# agree, `ReplicaCheck` is content. We insert a check that computes the gradient of the whole batch in one process:

# %%
check = """    from distlib.clinic.one_process import check_against_one_process
    check_against_one_process(model, loss_of, batch)
    optimizer.step()"""
checked = PATIENTS["summed_gradients"].program.replace("    optimizer.step()", check)
shared = run_on_our_ranks("summed_gradients", worlds[2], timeout=100, program=checked)
print(shared)

# %% tags=["folded"]
# Checks of the numbers above, and the patient without the check
assert "2 times that one. It was summed over the 2 ranks" in str(shared)
summed = examine("summed_gradients")
assert summed.outcome == "silent"
well = PATIENTS["summed_gradients"].healed.replace("    optimizer.step()", check)
healthy = run_on_our_ranks("summed_gradients", worlds[2], timeout=100, program=well)
assert healthy is None and check_against_one_process.__name__ in check

# %% [markdown]
# **To find a wrong gradient that all ranks share, compare one step with one process.**
#
# <details><summary>Where this stops being true</summary>
#
# | if … | then … |
# |---|---|
# | the model draws random numbers | the check accuses a healthy run: switch dropout off for that step |
# | a layer mixes the samples of a batch, as BatchNorm does | the same: set it to `eval` for that step |
# | the fault is in the data: all ranks take the same batch | the check is content; `check_samples` finds it |
#
# </details>
#
# ## What a `World` says
#
# A `World` runs all 27 programs, unchanged. `None` means that it has noticed nothing.

# %%
said = {}
for name, patient in PATIENTS.items():
    limit = 1 if name == "slow_rank" else 100
    error = run_on_our_ranks(name, worlds[patient.ranks], timeout=limit, quiet=True)
    said[name] = str(error).replace(f"{patient.file}, ", "").replace("\n", " ")
    print(f"{name:21} {said[name][:100]}")

# %% tags=["folded"]
# Checks of the numbers above
found = {name: text for name, text in said.items() if text != "None"}
assert set(said) - set(found) == {
    *("wrong_port", "not_in_the_group", "read_before_wait"),
    *("different_seeds", "same_samples", "summed_gradients"),
}
assert all(text.startswith("line") for text in found.values())
assert len(found) == 21 and all("rank" in text for text in found.values())
assert "at extra_forward.py, line 13 on rank 0" in str(
    run_on_our_ranks("extra_forward", worlds[2], quiet=True)
)

# %% [markdown]
# For 21 programs it names a line and a rank. It finds 14 of them because each message carries its call, shape, dtype
# and line; in the others a rank raises, dies, or runs out of time. The fault can be before the line that is named.
#
# <details><summary>The other six</summary>
#
# | patient | why nothing is noticed | who finds it |
# |---|---|---|
# | `wrong_port` | a `World` has no port that could be wrong | |
# | `not_in_the_group` | torch makes no call | torch warns |
# | `different_seeds` | the calls fit | `ReplicaCheck` |
# | `same_samples` | the calls fit | `check_samples` |
# | `summed_gradients` | the calls fit | `check_against_one_process` |
# | `read_before_wait` | the calls fit | `ReplicaCheck`, once the wrong numbers get into the weights |
#
# </details>
#
# ## In real frameworks
#
# Back to the 64 GPUs. They report 100 % utilization, because a kernel that waits for another GPU counts as busy. With
# NCCL a collective is only *queued*, so Python goes on, and usually stands at a later line: at a `.item()`, or at the
# print of a loss. The rules are the same as with gloo: all ranks agree on the call, its order, group, arguments, shapes
# and dtypes.
#
# <details><summary>With NCCL, from its documentation and torch's, not tried here</summary>
#
# | | |
# |---|---|
# | after a timeout | a thread of torch, the watchdog, ends the process: `TORCH_NCCL_ASYNC_ERROR_HANDLING` |
# | shapes or dtypes that differ | undefined: it may hang, crash, or give wrong numbers |
# | a hang at the start | `NCCL_DEBUG=INFO` shows the network; a wrong `NCCL_SOCKET_IFNAME` is a common reason |
#
# </details>

# %% tags=["folded"]
# The worlds end
for world in worlds.values():
    world.close()

# %% [markdown]
# ## In short
#
# - Look at every rank before you change anything. A timeout does not say why.
# - A hang often shows itself at a later call than the fault.
# - All ranks of a group make a collective call, or none does.
# - "Connection closed by peer" is seldom the cause: read every rank's error.
# - To find a wrong gradient that all ranks share, compare one step with one process.
#
# <details><summary>First aid as a table, with when it holds</summary>
#
# | what you see | look first at | holds if |
# |---|---|---|
# | nothing happens | the stack of *every* rank | py-spy may look, or faulthandler was prepared |
# | ranks stand in different calls | `DETAIL` | both are collective, of one group, without DDP, on gloo |
# | ranks stand in the same call | flight recorder: which group? | NCCL; on gloo, the program can write it out |
# | rank 0 waits, others do not come | `monitored_barrier` | gloo's group; rank 0 reaches the barrier |
# | "Connection closed by peer" | the rank that says something else, or nothing | a rank is at fault, not the network |
# | "8 vs 4", Aborted | shapes, then dtypes | on gloo |
# | a hang in `init_process_group` | rank, world size, address, port of each; the network | all were started |
# | the loss is `nan` | each rank's own loss and gradient; the first step | they were logged in each step |
# | a bad model, no error | `ReplicaCheck`, `check_samples` | only the data is split |
# | a bad model, equal on all ranks | `check_against_one_process` | the model draws no random numbers |
#
# </details>
#
# ## Now you
#
# Choose three patients that you have not read, and write down rank, line and cause. Then compare with
# `PATIENTS[name].cause`.
#
# In [the exercise](../exercises/17_hang_clinic/17_hang_clinic.ipynb) you mend four programs, and write a program that
# makes a diagnosis from what four ranks have printed. [Exercise
# 17b](../exercises/17b_more_patients/17b_more_patients.ipynb), a side road, has seven more programs to mend.
#
# ## Further reading
#
# - [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html), its section on debugging.
# - [Flight recorder](https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html).
# - [Error propagation](https://docs.pytorch.org/docs/stable/elastic/errors.html) of torchrun: `record`.
# - [faulthandler](https://docs.python.org/3/library/faulthandler.html) of Python, and
#   [py-spy](https://github.com/benfred/py-spy).
# - [NCCL's environment variables](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).
