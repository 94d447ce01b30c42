# %% [markdown]
# # The hang clinic
#
# A distributed training that is broken seldom says why. It stands still. Or it dies, and most ranks name only a
# consequence. Or it ends well, and the model is bad. In this lesson you meet 27 such programs, the patients.
#
# After it you will be able to
#
# - say from what a run does which tool to take next,
# - find the rank and the line of a hang without waiting for half an hour,
# - read the errors of all ranks, and tell the cause from what follows from it,
# - notice a training that does not hang, but trains wrongly, with a check that stays on.
#
# **Time:** about 65 minutes. **You need:** [DDP](05_ddp.ipynb). No GPU. One cell uses `py-spy`; if it is not installed,
# you see a recording.

# %%
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.constants import default_pg_timeout

from distlib import Communicator, RankError, World, torch_distributed
from distlib.clinic import PATIENTS, TOOLS, PatientReport, prepare_clinic, run_patient
from distlib.clinic.first_aid import FIRST_AID
from distlib.clinic.one_process import check_against_one_process
from distlib.clinic.our_ranks import run_on_our_ranks
from distlib.clinic.replica_check import ReplicaCheck, check_samples
from distlib.draw import decision_tree, predict

prepare_clinic()  # another process imports torch for the patients


# %% [markdown]
# ## The idea
#
# A patient is a whole program of plain `torch.distributed`, some fifteen lines long, with one fault. It could be
# started with `torchrun`. We start it ourselves, one process per rank, in a network of its own. Here is the first, with
# its owner's complaint. (You find all of them in `distlib/clinic/patients/`.)

# %%
first = PATIENTS["order_of_calls"]
print(f"“{first.symptom}”\n")
print(first.numbered())

# %% [markdown]
# When is a program hung? Not when it takes long: a slow machine is no fault. `run_patient` watches the processes. When
# all that are left have been *asleep* for two seconds, all at once, we suspect a hang. (Where we expect a program to
# end, we wait longer.) Then it asks each for its line, and ends it. (A rank that sleeps by the clock would still wake
# up. You will meet one.)

# %%
guess_1 = predict(
    "What does torch print on the two ranks in these two seconds?",
    choices=["an error on both ranks", "an error on one rank", "nothing at all"],
)


# %%
def examine(name: str, tool: str | None = None) -> PatientReport:
    """Run a patient, and show what the tool has changed and how each rank ended."""
    report = run_patient(name, tool)
    print(f"{report.change}\n\n{report}" if report.change else report)
    return report


plain = examine("order_of_calls")
printed = [ending for ending in plain.endings if ending.lines]
answers = ["nothing at all", "an error on one rank", "an error on both ranks"]
print(guess_1.compare(answers[len(printed)]))

# %% tags=["folded"]
# Checks of the numbers above
assert plain.outcome == "hangs" and not printed
assert "in broadcast, line 10" in plain.endings[0].how
assert "in all_reduce, line 13" in plain.endings[1].how
assert default_pg_timeout.total_seconds() == 30 * 60
assert len(PATIENTS) == 27

# %% [markdown]
# Nothing. Torch would wait for 30 minutes, which is its default, and then say that it had waited. The lines above come
# from us. (They are what `faulthandler` writes when a process gets a signal.)
#
# Both ranks make the same two calls in a different order. Rank 0 waits in `broadcast` and rank 1 in `all_reduce`, each
# for the other one. In lesson 01 that was a circle, and our `World` named it. Torch has tools for it, but you have to
# know them. The next cell takes two. `timeout` limits each wait to some seconds. `DETAIL` stands for the environment
# variable `TORCH_DISTRIBUTED_DEBUG=DETAIL`: before each call the ranks tell each other which one it is.

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
# The timeout ends the wait and says nothing about the cause: neither message says what the other rank does. `DETAIL`
# names both calls, at once.
#
# A `World` can run the same program, with not a line changed: `run_program` takes the place of `torchrun`. The program
# asks for gloo, and gets a process group whose messages are ours. This is what it says:

# %%
worlds = {ranks: World(ranks) for ranks in (2, 3, 4)}
print(run_on_our_ranks("order_of_calls", worlds[2]))

# %% [markdown]
# ## Which tool?
#
# | tool | what it tells |
# |---|---|
# | every rank's error | read *all* of them: most ranks only say that a connection is gone |
# | a short timeout | where each rank was, after seconds; and, if rank 0 opens the port, how many have joined |
# | `monitored_barrier` | the first rank that does not come (on gloo; rank 0 tells); with `wait_all_ranks=True` all |
# | `TORCH_DISTRIBUTED_DEBUG=INFO` | which parameters DDP misses |
# | `TORCH_DISTRIBUTED_DEBUG=DETAIL` | two calls that do not fit: kind, shape, dtype |
# | `py-spy dump --pid …` | the line of a process that runs, from outside, with nothing prepared |
# | `faulthandler` | the same, from inside, after some seconds |
# | flight recorder | the last calls of each rank, and which are not over |
# | error file of `torchrun`, where the program has `record` | the exception of each rank, with its time |
#
# The picture says when to take which.

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
# ## Act 1: it stands still
#
# ### Somebody does not come
#
# Three ranks share a few samples. Read the program, and then where its ranks stand.

# %%
print(PATIENTS["skipped_collective"].numbered())
skipped = examine("skipped_collective")

# %% [markdown]
# In the last step rank 2 has no samples, and goes on without the all-reduce. It waits at a different line: a hang often
# shows itself at a later call. So the line at which a rank stands need not be the one with the fault. We put a
# `monitored_barrier` before the line that we suspect.

# %%
guess_2 = predict(
    "Who does the monitored barrier name?",
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
assert "barrier" in skipped.endings[2].how and "all_reduce" in skipped.endings[0].how

# %% [markdown]
# Rank 0 names it. Rank 1, which also came to the barrier, says where to look: in rank 0's log. Rank 2 only loses its
# connection. If rank 0 itself does not come, nobody is named. The others say the same as rank 1 does here, but only
# after the timeout of the *group*, because the timeout that you give to the barrier holds for rank 0 alone. So put the
# barrier into the branch that only some ranks take, right before the call that you suspect. Rank 0 must take this
# branch, because only rank 0 names who is missing. A barrier before the branch names nobody, because all ranks pass it.
#
# The flight recorder needs no suspicion. It keeps the last calls of each rank. Here it is read when all sleep. (With
# gloo that takes a private function of torch, `torch._C._distributed_c10d._dump_fr_trace_json`, in a thread of the
# program. NCCL's users get a file when a timeout strikes: see below.)

# %%
flight = examine("skipped_collective", "flight recorder")

# %% tags=["folded"]
# Checks of the numbers above
assert flight.endings[0].seen[2].startswith("call 3: gloo:all_reduce")
assert flight.endings[2].seen[2].startswith("call 3: gloo:barrier")
assert all("NOT OVER" in ending.seen[2] for ending in flight.endings)

# %% [markdown]
# Two calls are over on all ranks. In the third, rank 2 makes a different one. That is the whole diagnosis.
#
# **Try it.** Mend the program: a rank without samples must take part, and contribute zero. What is `mean()` of an empty
# tensor? A patient is healed when all ranks end *and* have a sensible loss: 3.0 if the samples are summed up, 2.0 if
# each rank's mean counts once.

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
# Three patients do something on rank 0 alone, as one does to save or to print. The first calls a barrier there, the
# second collects an optimizer's state, the third looks at the validation loss.

# %%
for name in ("barrier_on_rank_zero", "save_on_rank_zero"):
    lines = PATIENTS[name].program.splitlines()
    start = next(number for number, line in enumerate(lines) if "if rank == 0" in line)
    print(f"{name}: “{PATIENTS[name].symptom}”")
    print("\n".join(lines[start : start + 3]), "\n")
print(f"extra_forward: “{PATIENTS['extra_forward'].symptom}”")
print(PATIENTS["extra_forward"].numbered())

# %%
guess_3 = predict(
    "In extra_forward rank 0 calls the DDP model once more. Where does rank 0 stand in"
    " the end?",
    choices=[
        "in that extra call",
        "in the forward pass of the next step",
        "at the end",
    ],
)

# %%
rank_zero = {}
for name in ("barrier_on_rank_zero", "save_on_rank_zero", "extra_forward"):
    print(f"── {name}")
    rank_zero[name] = examine(name)
next_step = "in forward, line 11" in rank_zero["extra_forward"].endings[0].how
where = "in the forward pass of the next step" if next_step else "in that extra call"
print(guess_3.compare(where))

# %% tags=["folded"]
# Checks of the numbers above
assert next_step and "in backward, line 11" in rank_zero["extra_forward"].endings[1].how
assert "line 11" in rank_zero["extra_forward"].endings[1].how
assert "in barrier" in rank_zero["barrier_on_rank_zero"].endings[0].how
assert "in all_reduce" in rank_zero["barrier_on_rank_zero"].endings[1].how
assert "consolidate_state_dict" in rank_zero["save_on_rank_zero"].endings[0].how
for name in rank_zero:
    assert "monitored_barrier" in PATIENTS[name].served_by

# %% [markdown]
# In none of them are both ranks in the same call. In `extra_forward` neither is at the fault. A DDP model sends rank
# 0's buffers (those of BatchNorm) at the beginning of each forward pass. The extra pass of rank 0 found its partner:
# the *next* forward pass of rank 1. From then on they are one call apart. Without BatchNorm this program ends: then DDP
# sends something in only one forward pass, the first one after the first backward pass (how it packs gradients), and
# rank 1's next forward pass receives it. But if the loop also all-reduces the loss, rank 1 reaches that all-reduce
# first, and the program hangs. The fault may sleep until somebody adds a line.
#
# So every collective call belongs outside of `if rank == 0`. That includes those that a library makes inside: a forward
# pass of DDP, `consolidate_state_dict`.
#
# **Try it.** Heal `extra_forward`. Rank 0 may look at the validation loss, but it must send nothing.

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
# ### Each for itself
#
# A condition that each rank judges by its own numbers, and a data set whose length is not a multiple of the number of
# ranks: in both, one rank makes more calls than the other.

# %%
for name, words in (("local_condition", "if loss"), ("uneven_data", "for batch")):
    lines = PATIENTS[name].program.splitlines()
    (start,) = [number for number, line in enumerate(lines) if words in line]
    print(f"{name}\n" + "\n".join(lines[start : start + 4]), "\n")
apart = {name: examine(name) for name in ("local_condition", "uneven_data")}

# %% tags=["folded"]
# Checks of the numbers above
assert "in all_reduce" in apart["local_condition"].endings[0].how
assert "in broadcast" in apart["local_condition"].endings[1].how
assert "in backward" in apart["uneven_data"].endings[0].how
assert "in barrier" in apart["uneven_data"].endings[1].how

# %% [markdown]
# The cure of the first: agree before you decide, with an all-reduce of the number that the condition is about. That of
# the second is in lesson 05b: `model.join()`, or a sampler that pads.
#
# ### Two groups
#
# When a model is split over ranks in several ways (lessons 10 to 12), a rank is in several groups. This program has a
# time limit of 4 seconds.

# %%
print(PATIENTS["order_of_groups"].numbered())

# %%
guess_4 = predict(
    "The limit is 4 seconds, we watch for 6. What is seen?",
    choices=["a timeout on both ranks", "a timeout on one rank", "both still wait"],
)

# %%
groups = examine("order_of_groups")
waiting = groups.kinds.count("waits")
seen = ["a timeout on both ranks", "a timeout on one rank", "both still wait"]
print(guess_4.compare(seen[waiting]))

# %% tags=["folded"]
# Checks of the numbers above
assert waiting == 2 and "after 6 s" in groups.endings[0].how
assert "seconds=4" in PATIENTS["order_of_groups"].program

# %% [markdown]
# The limit holds for the default group alone. A group of `new_group` has its own, on gloo 30 minutes unless you say
# otherwise: `dist.new_group(ranks, timeout=…)`. And `DETAIL` does not help here, because it compares only calls within
# one group. (It compares only collective calls, too, so a rank that waits in `recv` is not named. Tried with torch 2.13
# and 2.14.) Both ranks stand in an `all_reduce`; only the lines differ. The flight recorder has the group:

# %%
recorded = examine("order_of_groups", "flight recorder")
print()
print(run_on_our_ranks("order_of_groups", worlds[2]))

# %% tags=["folded"]
# Checks of the numbers above
unfinished = [
    [line for line in ending.seen if "NOT OVER" in line] for ending in recorded.endings
]
assert [len(lines) for lines in unfinished] == [1, 1]
assert unfinished[0][0].split("group")[1] != unfinished[1][0].split("group")[1]

# %% [markdown]
# ### One call, and different arguments
#
# Each rank has measured two models. The better one is to be sent to both ranks.

# %%
print(PATIENTS["different_roots"].numbered())
roots = examine("different_roots", "DETAIL")
print()
print(run_on_our_ranks("different_roots", worlds[2]))

# %% tags=["folded"]
# Checks of the numbers above
assert ["in broadcast, line 11" in ending.how for ending in roots.endings] == [True] * 2
assert roots.outcome == "hangs" and "OpType" not in roots.text

# %% [markdown]
# Both ranks stand in one call, at one line. Each has chosen by its own data, and each sends. `DETAIL` does not compare
# the root, and neither does it compare the reduction or the layout in memory. (Tried with torch 2.13.) So print such
# arguments on every rank. Our message names both roots.
#
# ### Slow, or dead?
#
# A rank that does not come may be at work. A timeout can't tell, nor can a monitored barrier. A look at its stack can.

# %%
slow = examine("slow_rank", "py-spy")
print("─" * 60)
stacks = examine("slow_rank", "faulthandler")

# %% tags=["folded"]
# Checks of the numbers above
assert "time.sleep(1)" in slow.endings[1].how
assert "<module> (slow_rank.py:13)" in str(slow)
assert 'File "slow_rank.py", line 16 in <module>' in stacks.endings[1].text

# %% [markdown]
# Rank 1 reads images. It is not dead, and a longer timeout would be a cure for this once. But rank 0 waits all that
# time. It is better to share out the work evenly.
#
# `py-spy` needs the right to look into another process. On a desktop that is often `sudo`, in a container the
# capability `SYS_PTRACE`. Where it may not look, prepare the program: `faulthandler.register(signal.SIGUSR2)`, and
# `kill -USR2 PID` prints where it is. (USR1 is the notice of Slurm's in lesson 16. A process that has not registered
# the signal ends by it, `torchrun` too.) Or call `faulthandler.dump_traceback_later(600)` in each step, because each
# call starts the 600 seconds anew. If you call it only once, it prints 600 seconds after the start, whether the program
# hangs or not.
#
# ### It does not even begin
#
# Three patients do not get through `init_process_group`. One has a wrong port, one a wrong world size, and in one both
# ranks think that they are rank 0. There a short timeout is the best tool.

# %%
guess_5 = predict(
    "On one machine, two processes call themselves rank 0. What does the later one say?",
    choices=["the address is in use", "rank 0 is there already", "nothing: it waits"],
)

# %%
beginning = {
    name: run_patient(name, "timeout")
    for name in ("wrong_port", "wrong_world_size", "two_rank_zeros")
}
for name, report in beginning.items():
    print(f"── {name}")
    for ending in report.endings:
        print(f"rank {ending.rank}  {ending.how}: {ending.lines[-1][:150]}")
in_use = "EADDRINUSE" in beginning["two_rank_zeros"].text
print(guess_5.compare("the address is in use" if in_use else "nothing: it waits"))

# %% tags=["folded"]
# Checks of the numbers above
assert in_use
assert "1/2 clients joined" in beginning["wrong_port"].endings[0].text
assert "2/3 clients joined" in beginning["wrong_world_size"].endings[0].text
assert "clients joined" not in beginning["wrong_world_size"].endings[1].text
assert "1/2 clients joined" in beginning["two_rank_zeros"].text

# %% [markdown]
# Rank 0 counts who has joined. Compare with what you have started. If fewer came, one has died, did not start, or looks
# elsewhere. If all came, and it still waits, the world size is wrong: `2/3` with two processes. "Address already in
# use" may be another program, and may be a second rank 0. That error comes at once; without a short timeout, the counts
# come after 30 minutes, or 10 with `backend="nccl"`. So print rank, world size, address and port before you join.
#
# (With `torchrun` the launcher opens the port, and keeps the list of addresses, the *store*, unless
# `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` is set, as in lesson 16. Then nobody counts: the error is `wait timeout`, and
# its key ends with the rank that did not come, such as `…/2`.)
#
# ## Act 2: it dies
#
# ### Read every rank
#
# Both ranks end with an exception. Rank 1 has found a label that is no digit.

# %%
guess_6 = predict(
    "Rank 1 raises a ValueError. What does rank 0 say?",
    choices=["the same ValueError", "a closed connection", "nothing"],
)

# %%
raised = examine("exception_on_one_rank")
closed = "Connection" in raised.endings[0].text
print(guess_6.compare("a closed connection" if closed else "nothing"))

# %% tags=["folded"]
# Checks of the numbers above
assert closed and "ValueError" not in raised.endings[0].text
assert "ValueError: expected a digit, got 10" in raised.endings[1].text

# %% [markdown]
# "Connection closed by peer" is hardly ever the cause. It says that somebody else has gone (or the network). On 64
# ranks there may be 63 such messages, and one ValueError. Start with the rank that says something different. `torchrun`
# finds it for you if the main function has the decorator `record`: each rank writes its exception into a file, and the
# earliest is shown. Its clock counts whole seconds, though. So read the others, too. (The clinic has put `record`
# around the program: without it there is no file.)

# %%
files = examine("exception_on_one_rank", "error file")

# %% [markdown]
# What if a rank can't say anything any more? The next two are killed, as the system does when memory runs out: in one
# the rank itself, in the other a worker of its `DataLoader`.

# %%
killed = {name: examine(name) for name in ("dead_rank", "killed_loader_worker")}

# %% tags=["folded"]
# Checks of the numbers above
assert "error file" in files.text and "ValueError" in files.endings[1].seen[-1]
assert killed["dead_rank"].endings[1].how == "died of signal 9, SIGKILL"
assert killed["dead_rank"].endings[1].lines == []
assert killed["killed_loader_worker"].kinds == ["raised", "raised"]
assert "Connection" in killed["killed_loader_worker"].endings[0].text

# %% [markdown]
# The dead rank's log just ends. Its exit status says it: minus 9, or 137 in a shell. On Linux `dmesg` names it, if it
# was killed for lack of memory and you may read that. A rank that says nothing and has status 0 has not died. It has
# made fewer calls than the others and has ended, so the others lose their connection. A dead worker shows itself in
# several ways, depending on the moment: "DataLoader worker is killed by signal", "exited unexpectedly", or a bare
# `ConnectionResetError`.
#
# ### 8 vs 4
#
# The next two have no Python traceback on the rank that dies. One has tensors of different shapes.

# %%
print(PATIENTS["shapes_differ"].numbered(), "\n")
aborted = {name: examine(name) for name in ("shapes_differ", "float64_on_one_rank")}

# %%
guess_7 = predict(
    "What is 8, and what is 4, in float64_on_one_rank?",
    choices=["lengths of tensors", "bytes of one number", "ranks"],
)

# %%
dtypes = examine("float64_on_one_rank", "DETAIL")
is_dtype = "TensorDtypes=Double" in dtypes.text
print(guess_7.compare("bytes of one number" if is_dtype else "lengths of tensors"))

# %% tags=["folded"]
# Checks of the numbers above
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
# In both it says "8 vs 4", and both times it means bytes of what one message carries. That the lengths in
# `shapes_differ` are 8 and 4 is chance: with lengths of 100 and 50 it says "100 vs 52". A tensor of numpy's
# floating-point numbers is float64, unless you say otherwise. `DETAIL` shows shape and dtype of both sides. And gloo
# dies only if more bytes come than are expected. A broadcast of fewer it takes without a word, and the rest of the
# tensor keeps its old numbers.
#
# ### DDP, and a tool that kills
#
# A parameter that the loss does not depend on gets no gradient, and DDP waits for it. The error comes a step later.

# %%
unused = run_patient("unused_parameters", "INFO")
print("\n".join(unused.endings[0].lines[-4:]))

# %%
guess_8 = predict(
    "With DETAIL instead of INFO: what do we get?",
    choices=["the same names", "more than that", "a crash"],
)

# %%
crashed = examine("unused_parameters", "DETAIL")
signals = [ending.how for ending in crashed.endings if ending.kind == "died"]
print("torch", torch.__version__)
print(guess_8.compare("a crash" if signals else "the same names"))

# %% tags=["folded"]
# Checks of the numbers above
assert "old_head.weight" in unused.text and "old_head.bias" in unused.text
if torch.__version__.startswith(("2.13.0", "2.14.1")):
    assert signals == ["died of signal 11, SIGSEGV"] * 2

# %% [markdown]
# With torch 2.13.0 and 2.14.1, `DETAIL` crashes every program with DDP that we have tried, also right ones, and says
# nothing. (If you have a different version, the cell above says what it does.) So use INFO with DDP, and DETAIL for
# collectives of your own.
#
# ## Act 3: it trains wrongly
#
# These end well: each rank with status 0 and without an error. At most there is a warning. You notice them in a curve,
# weeks later, or never.

# %%
print(PATIENTS["int32_on_one_rank"].numbered())

# %%
guess_9 = predict(
    "Rank 0 has four float32 ones, rank 1 four int32 ones. What does rank 1 have as the"
    " sum, in its first place?",
)

# %%
garbage = examine("int32_on_one_rank")
number = int(garbage.endings[1].lines[-1].split("[")[1].split(",")[0])
one = torch.ones(1).view(torch.int32).item()
print(f"the bits of 1.0, read as an integer: {one}")
print(guess_9.compare(number))

# %% tags=["folded"]
# Checks of the numbers above
assert number == one == 1065353216
assert garbage.outcome == "silent" and "1.0000001" in garbage.endings[0].text

# %% [markdown]
# Both types have 4 bytes. gloo takes the bytes that arrive for numbers of the receiver's type, and adds them. The bits
# of 1.0 are 1065353216 as an integer, and the integer 1 is next to nothing as a float. (Rank 0 adds one half up, as
# floats, and rank 1 the other, as integers. Then they exchange the halves.) Our `World` sends the dtype along, and
# refuses. `DETAIL` does so, too.
#
# The next two pass `DETAIL` in silence. A `World` refuses them.

# %%
passed = {}
for name in ("sum_against_max", "other_layout"):
    passed[name] = examine(name, "DETAIL")
    print(run_on_our_ranks(name, worlds[2]), "\n")

# %% tags=["folded"]
# Checks of the numbers above
assert {report.outcome for report in passed.values()} == {"silent"}
assert passed["sum_against_max"].text.count("losses [5.0, 5.0, 3.0, 4.0]") == 2
assert "kernel [0.0, 2.0, 4.0, 6.0, 1.0" in passed["other_layout"].endings[1].text

# %% [markdown]
# - `sum_against_max`: rank 0 asks for the sum, and rank 1 for the maximum. Each rank combines one half of the tensor
#   and sends it to the other. So both have the same result, half sum and half maximum.
# - `other_layout`: gloo sends the numbers in the order in which they lie in memory. Rank 1 has another order.
#
# In four more, no call is at odds with another:

# %%
silent = {
    name: examine(name)
    for name in (
        "read_before_wait",
        "not_in_the_group",
        "different_seeds",
        "same_samples",
    )
}

# %% tags=["folded"]
# Checks of the numbers above
assert {report.outcome for report in silent.values()} == {"silent"}
assert "1000 of 1000" in silent["read_before_wait"].endings[0].text
assert "weights [0.763, 0.901]" in silent["different_seeds"].endings[0].text
assert "weights [1.132, 0.209]" in silent["different_seeds"].endings[1].text
assert silent["same_samples"].text.count("[2, 2, 2, 2, 2, 2, 2, 2]") == 2
assert ["loss 1" in ending.text for ending in silent["not_in_the_group"].endings] == [
    0,
    1,
    0,
    1,
]

# %% [markdown]
# - `read_before_wait`: an asynchronous all-reduce was read before `wait`. A rank may find some parts summed and others
#   not. How many depends on the moment.
# - `not_in_the_group`: two ranks call the all-reduce of a group that they are not in. Torch warns, and does nothing.
# - `different_seeds`: the weights began apart, and gradients that are averaged keep them apart (lesson 05).
# - `same_samples`: no sampler, so that both ranks see all samples.
#
# ### The loss is `nan`
#
# One rank divides by zero. After that step all ranks have `nan` in their weights, and in the next one as their loss.
# Whose fault was it? Here two ranks normalize their samples. In one step all samples of one rank are equal, so that
# their standard deviation is 0.


# %%
def normalize_and_train(comm: Communicator) -> list[str]:
    weight = torch.ones(1, requires_grad=True)
    told = []
    with torch_distributed(comm, "gloo"):
        for step in range(1, 4):
            samples = (
                torch.zeros(4) if (comm.rank, step) == (1, 2) else torch.arange(4.0)
            )
            samples = (samples - samples.mean()) / samples.std()
            loss = (weight * samples - 1).square().mean()
            weight.grad = None
            loss.backward()
            dist.all_reduce(weight.grad)
            told.append(f"own loss {loss:.2f}, gradient {weight.grad.item():.2f}")
            with torch.no_grad():
                weight -= 0.1 * weight.grad / comm.world_size
    return told


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
# A sum with one `nan` in it is `nan`. So gradients that have been averaged accuse nobody, nor do the losses from the
# next step on. Each rank's own loss does, in the step in which it happens: rank 1, step 2. Write it down before the
# average, and with it which samples they were. (That is so if the `nan` comes up in the forward pass. One that comes up
# in the backward pass, such as that of a root at 0, leaves the loss as it is, and only the rank's own gradient shows
# it. DDP averages during `backward`; in `model.no_sync()` it does not.)
#
# ### A check that stays on
#
# What is true while all ranks keep the same model, whatever it is? They are in the same step. Their weights are equal,
# to the bit. Their gradients are finite (with a `GradScaler`, after `unscale_`, except in steps that it leaves out). In
# an epoch each sample is seen once (except for the few that a sampler repeats or leaves out where they can't be dealt
# out evenly). `ReplicaCheck` looks at the first three, every 50th step. `check_samples` looks at the last, once per
# epoch. Both work on plain `torch.distributed` and on our communicators.


# %%
def train(comm: Communicator, seed: int, steps: int = 20) -> float:
    """Plain torch, and the check. Returns the norm of the last gradient that was checked."""
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


norms = worlds[2].run(train, seed=0)
print("the same seed:", norms)
try:
    worlds[2].run(train, seed=1)
except RankError as error:
    found = str(error)
    print("a seed per rank:", error)

# %% tags=["folded"]
# Checks of the numbers above
assert norms[0] == norms[1] > 0
assert "step 10: 0.weight has different weights on rank 1 and on the others" in found

# %% [markdown]
# It names the first parameter that differs, and the ranks that are not like most. Of two ranks it can't know which one
# is wrong, and names rank 1. How does it compare weights that it does not send? Each rank sums up the bits of each
# parameter, as integers, each with a factor that belongs to its place. One number per parameter goes around. It looks
# at parameters, not at buffers or at the optimizer's state.
#
# If a rank does not come, the check must not hang itself. It has a group of its own, with a timeout of its own, and a
# monitored barrier in it.
#
# **Try it.** Spoil the loop. Let rank 1 skip the `optimizer.step()` of step 3. Then give rank 1 a gradient of infinity
# in step 10: once before the all-reduce, once after it. Then take `dist.all_reduce` away. What does the check say each
# time, and in which step?

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

# %%
parts = [list(range(0, 8, 2)), list(range(1, 8, 2))]
worlds[2].run(lambda comm: check_samples(parts[comm.rank], 8, comm))  # well dealt out
try:
    worlds[2].run(lambda comm: check_samples(list(range(8)), 8, comm))
except RankError as error:
    twice = str(error)
    print(twice)

# %% tags=["folded"]
# Checks of the numbers above
assert "8 of 8 samples were not seen once: sample 0: 2 times (ranks 0 and 1)" in twice

# %% [markdown]
# ### What all ranks share
#
# `ReplicaCheck` compares the ranks with each other. In `summed_gradients` they agree: no rank divides the sum of the
# gradients by the number of ranks. Such a fault shows only against *one* process. `check_against_one_process` takes the
# samples of all ranks, computes the gradient of the whole batch on a copy of the model, and compares. One step is
# enough. Here the patient gets two more lines:

# %%
ill = PATIENTS["summed_gradients"].program
check = """    from distlib.clinic.one_process import check_against_one_process
    check_against_one_process(model, loss_of, batch)
    optimizer.step()"""
checked = ill.replace("    optimizer.step()", check)
for number, line in enumerate(checked.splitlines(), 1):
    print(f"{number:2} │ {line}")
examine("summed_gradients")
shared = run_on_our_ranks("summed_gradients", worlds[2], timeout=100, program=checked)
print()
print(shared)

# %% tags=["folded"]
# Checks of the numbers above
assert "2 times that one. It was summed over the 2 ranks" in str(shared)
well = PATIENTS["summed_gradients"].healed.replace("    optimizer.step()", check)
healthy = run_on_our_ranks("summed_gradients", worlds[2], timeout=100, program=well)
assert healthy is None and check_against_one_process.__name__ in check

# %% [markdown]
# ## What ours says
#
# Here is what a `World` says of each patient's own program. `None` means that it has noticed nothing.

# %%
said = {}
for name, patient in PATIENTS.items():
    limit = 2 if name == "slow_rank" else 100
    error = run_on_our_ranks(name, worlds[patient.ranks], timeout=limit, quiet=True)
    said[name] = str(error)
    text = said[name].replace(f"{patient.file}, ", "").replace("\n", " ")
    print(f"{name:21} {text[:120]}{' …' if len(text) > 120 else ''}")

# %% tags=["folded"]
# Checks of the numbers above
found = {name: text for name, text in said.items() if text != "None"}
assert set(said) - set(found) == {
    *("wrong_port", "not_in_the_group", "read_before_wait"),
    *("different_seeds", "same_samples", "summed_gradients"),
}
assert all(text.startswith(f"{name}.py, line") for name, text in found.items())
assert len(found) == 21 and all("rank" in text for text in found.values())
assert "at extra_forward.py, line 13 on rank 0" in said["extra_forward"]

# %% [markdown]
# Each begins with a line and names a rank. That is no magic. Each message has a header: the call it belongs to, shape,
# dtype and line. And somebody watches who waits for whom. It costs some time per message. Under `DETAIL`
# torch compares kind, shape and dtype of the calls in one group. It has no lines, and no picture of who waits for whom.
#
# The message begins with the line at which calls no longer fit each other. The fault can lie before it. Of
# `extra_forward` the whole message also names line 13, because its call met a wrong call of rank 1.
#
# Six programs end well. A `World` has no port that could be wrong. In `not_in_the_group` torch makes no call, and
# warns. In the other four the calls fit, and the numbers are wrong. `ReplicaCheck` finds `different_seeds`,
# `check_samples` finds `same_samples`, and `check_against_one_process` finds `summed_gradients`. `ReplicaCheck` finds
# `read_before_wait` only if the wrong numbers get into the weights.
#
# ## In real frameworks
#
# Most of what you have seen on gloo happens on GPUs with NCCL as well, but it looks different. We have no GPU here, so
# the following is from the documentation, not tried:
#
# - A collective is only *queued*. The line at which Python stands may be far behind the call that hangs: the next
#   `.item()`, `torch.cuda.synchronize()`, or the print of a loss.
# - The default timeout is 10 minutes.
# - What a mismatch of shapes or dtypes does is left open: it may hang, crash, or give wrong numbers.
# - After a timeout a thread of torch's, the watchdog, ends the process (`TORCH_NCCL_ASYNC_ERROR_HANDLING`). Before that
#   the flight recorder writes a file per rank, which `torchfrtrace` compares. Newer versions do so unasked; older ones
#   need `TORCH_FR_BUFFER_SIZE`, or `TORCH_NCCL_TRACE_BUFFER_SIZE`, and `TORCH_NCCL_DUMP_ON_TIMEOUT`.
# - `NCCL_DEBUG=INFO` shows which network was chosen. A wrong interface (`NCCL_SOCKET_IFNAME`) is a common reason for a
#   hang at the beginning.
# - `monitored_barrier` needs gloo: make a group with `backend="gloo"` for it, as `ReplicaCheck` does.
#
# Whichever it is: the ranks must agree on what they call, in which order, on which group, with which shapes and types.

# %%
for world in worlds.values():
    world.close()

# %% [markdown]
# ## In short
#
# - All ranks of a group make a collective call, or none does.
# - A hang often shows itself at a later call than the one with the fault.
# - A timeout says where ranks were, not why.
# - Look at the stack of every rank before you change anything.
# - If all ranks are wrong alike, compare one step with one process.
#
# | what you see | look first at | holds if |
# |---|---|---|
# | nothing happens | the stack of *every* rank | py-spy may look, or faulthandler was prepared |
# | ranks stand in different calls | `DETAIL` | both are collective, of one group, and no DDP (gloo, torch 2.13, 2.14) |
# | ranks stand in the same call | flight recorder: which group? | NCCL; on gloo, the program can write it out |
# | rank 0 waits, others do not come | `monitored_barrier` | gloo's group; it stands in the branch that rank 0 takes |
# | "Connection closed by peer" | the rank that says something else, or nothing | a rank is at fault, not the network |
# | "8 vs 4", Aborted | shapes, then dtypes | on gloo |
# | a hang in `init_process_group` | rank, world size, address, port of each; the network | all were started |
# | the loss is `nan` | each rank's own loss and gradient; the first step | they were written down in each step |
# | a bad model, no error | `ReplicaCheck`, `check_samples` | data is all that is split; it names a minority |
# | a bad model, equal on all ranks | `check_against_one_process` | the model draws no random numbers |
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - A hang often shows itself at a later call than the one with the fault.
# - A timeout says where ranks were, not why. A longer one cures nothing but slowness.
# - The ranks must agree: all make a call, or none does. If you take away the call that hangs, the program may end, but
#   without the number that the call was for; or the other ranks die.
#
# </details>
#
# ## Now you
#
# Choose three patients that you have not seen in full, read only their programs, and write down rank, line and cause.
# Then compare with `PATIENTS[name].cause`.
#
# In [the exercise](../exercises/17_hang_clinic/17_hang_clinic.ipynb) you mend four programs, and write a program that
# makes a diagnosis from what four ranks have printed. [Exercise
# 17b](../exercises/17b_more_patients/17b_more_patients.ipynb), a side road, has seven more programs to mend.
#
# ## Further reading
#
# - [torch.distributed](https://docs.pytorch.org/docs/stable/distributed.html), its section on debugging:
#   `monitored_barrier` and `TORCH_DISTRIBUTED_DEBUG`.
# - [Flight recorder](https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html), with NCCL.
# - [Error propagation](https://docs.pytorch.org/docs/stable/elastic/errors.html) of torchrun: `record` and the error
#   file.
# - [faulthandler](https://docs.python.org/3/library/faulthandler.html) of Python.
# - [py-spy](https://github.com/benfred/py-spy).
# - [NCCL's environment variables](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).
