# %% [markdown]
# # When TensorFlow fails
#
# **This lesson is optional.** No later lesson needs it. Nothing in it trains well. It is for those whose job hangs at
# three in the morning.
#
# After it you will be able to
#
# - recognize a mistake in a cluster by what TensorFlow does then, and set a limit of your own,
# - say what becomes of each strategy when a process is killed, and which batches are done again,
# - say which update may come twice,
# - say what a checkpoint has in it, and what it lacks.
#
# **Time:** about 65 minutes. **You need:** [TensorFlow](13_tensorflow.ipynb). No GPU.

# %%
import os

os.environ |= {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}  # no log lines

from distlib.frameworks import LOGGED, fetch, prepare_processes, require

fetch("tensorflow")  # some minutes, the first time

# In the background: another process imports both for the demonstrations
prepare_processes("tensorflow", "tf_keras", env=LOGGED)
tf = require("tensorflow")
tf.get_logger().setLevel("CRITICAL")
processor = tf.config.list_physical_devices("CPU")[0]
four_parts = [tf.config.LogicalDeviceConfiguration()] * 4
tf.config.set_logical_device_configuration(processor, four_parts)

# %%
import re
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch
from IPython.display import Markdown

from distlib import Communicator, PeerLost, World
from distlib.draw import predict
from distlib.frameworks import (
    Classifier,
    Process,
    Weights,
    addresses,
    furthest,
    run_processes,
    task_environment,
    tensorflow_cluster as tf_cluster,
)

data = Classifier.of_digits()
RATE, SIZE = 0.4, data.nbytes
two_workers = {"worker": addresses(2)}


def show(name: str, line: str) -> None:
    """What our functions print and how processes end, without TensorFlow's log."""
    line, of_its_log, _ = line.partition(" The last that it printed")
    if line.startswith(("epoch", "I ", "(", "worker", "after")):
        print(f"{name:8} │ {line[:260]}{')' * bool(of_its_log)}")


# %% [markdown]
# ## Mistakes that no text shows
#
# `parse_tf_config` finds mistakes in the text of `TF_CONFIG`. Other mistakes are in the *world*. A worker is missing;
# an address is wrong; two processes on one machine both think that they are worker 0. What does TensorFlow do? In the
# first cell we have switched its log off for this notebook. In our processes it is on, with `LOGGED`, and here we show
# what it says of others.

# %%
guess_1 = predict(
    "Worker 0 of 2 starts, worker 1 never does. What does TensorFlow say within 10 seconds?",
    choices=["an error", "only in its log: who is missing", "nothing at all"],
)


# %%
def look_for_the_others() -> int:
    """Make the strategy; end this process if that takes more than 10 seconds."""
    signal.alarm(10)
    threading.Timer(8, print, ["I am a thread, and it is my turn"]).start()
    replicas = tf.distribute.MultiWorkerMirroredStrategy().num_replicas_in_sync
    signal.alarm(0)
    return replicas


def show_who(name: str, line: str) -> None:
    """As `show`, and what TensorFlow's log says of those it waits for."""
    if "Waiting for" in line or line.startswith("/job:"):
        line = f"({line.split('] ')[-1]})"
    show(name, line)


at = addresses(5)
WRONG = {
    "missing": task_environment({"worker": [at[0], at[1]]}, "worker", 0),
    "elsewhere": task_environment(
        {"worker": ["no-such-host:2222", at[2]]}, "worker", 1
    ),
    "one 0": task_environment({"worker": [at[3], at[4]]}, "worker", 0),
    "other 0": task_environment({"worker": [at[3], at[4]]}, "worker", 0),
}
wrong = run_processes(
    {name: Process(look_for_the_others, env=env) for name, env in WRONG.items()},
    seconds=170,
    check=False,
    on_output=show_who,
)
told = "/job:worker/replica:0/task:1" in wrong["missing"].lines
print(guess_1.compare("only in its log: who is missing" if told else "nothing at all"))

# %% tags=["folded"]
# Checks of the numbers above
by_alarm = [name for name in WRONG if wrong[name].exit_status == -signal.SIGALRM]
assert by_alarm[:2] == ["missing", "elsewhere"] and len(by_alarm) == 3
assert told and not any("task:" in line for line in wrong["elsewhere"].lines)
for name in by_alarm:
    assert not any("I am a thread" in line for line in wrong[name].lines)
kinds = {wrong[name].error.kind for name in ("one 0", "other 0")}
assert kinds == {"", "UnknownError"}, "one of the two can't have the address"

# %% [markdown]
# Only the second worker 0 gets an error, because the address is taken. (On two machines it would not be.) The others
# wait without an error. Worker 0 says who is missing, but only in its log, at the level INFO, which many programs
# switch off (we did, in the first cell). Worker 1 with a wrong address of worker 0 logs no name at all. So: **leave
# that log on while a cluster starts**, check the text before, print who you are, and set a limit of your own.
#
# Not here: two workers whose texts name clusters of different *sizes*. They start, and only the first all-reduce fails,
# with an `InternalError` that names both sizes. (We have tried it with two and three.)
#
# Signal 14 is the alarm clock that `look_for_the_others` sets. It belongs to the operating system, which stops the
# process without asking Python. (A thread of Python's that watches the clock never gets its turn, because TensorFlow
# waits with Python's lock held.) We have not waited for TensorFlow to give up.

# %% [markdown]
# ## A worker is killed
#
# Two workers train with `fit` over six epochs of four batches. (It is the `fit` of Keras 2, package `tf-keras`. That
# of Keras 3 fails under this strategy, as we shall see.) The callback `BackupAndRestore` saves the training:
# by default after each epoch; with `save_freq=100` it would be every 100 batches. In epoch 3 (they count from 0), after
# two of its four batches, we kill worker 1. Then we start both again, with the same program.

# %%
guess_2 = predict(
    "Worker 1 is killed and both are started again. "
    "How many batches does worker 0 do a second time?",
)


# %%
def fit_and_back_up(folder: str, last: str | None) -> tuple[Weights, str]:
    """A worker: the weights after six epochs, and what Keras 3 says. Worker 1 waits for
    its death when it has printed `last`."""
    import tf_keras  # Keras 2

    class Say(tf_keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            self.epoch = epoch

        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            line = f"epoch {self.epoch}, batch {batch}"
            print(line)
            if line == last and index == 1:
                time.sleep(1000)

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    index = strategy.cluster_resolver.task_id
    cross_entropy = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        layers = tf_keras.layers
        dense = [layers.Dense(32, activation="relu"), layers.Dense(10)]
        model = tf_keras.Sequential([layers.InputLayer(64), *dense])
        model.set_weights(list(data.first))
        model.compile(tf_keras.optimizers.SGD(RATE), cross_entropy)
    callbacks = [tf_keras.callbacks.BackupAndRestore(folder), Say()]
    model.fit(data.dataset(960, 4), epochs=6, verbose=0, callbacks=callbacks)
    said = ""
    try:
        fit_in_keras_3(strategy, 4)
    except ValueError as error:
        said = str(error)
    tf_cluster.leave_together(Path(folder), 2)
    return model.get_weights(), said


# %%
def fit_in_keras_3(strategy: Any, steps: int) -> Weights:
    """The weights after some steps with batches of the first 960 images."""
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with strategy.scope():
        model = data.model()
        model.compile(tf.keras.optimizers.SGD(RATE), cross_entropy)
    model.fit(data.dataset(960, steps), shuffle=False, verbose=0)
    return model.get_weights()


# %%
def both(function: Any, *arguments: Any) -> dict[str, Process]:
    """Two workers that call the function."""
    return {
        f"worker {index}": Process(
            function, *arguments, env=task_environment(two_workers, "worker", index)
        )
        for index in range(2)
    }


def show_batches(name: str, line: str) -> None:
    if name == "worker 0" or not line.startswith("epoch"):
        show(name, line)


folder = tempfile.TemporaryDirectory()
attempts = []
for last in ("epoch 3, batch 1", None):
    attempt = run_processes(
        both(fit_and_back_up, folder.name, last),
        seconds=170,
        kill={"worker 1": last} if last else None,
        check=False,
        on_output=show_batches,
    )
    attempts.append(attempt["worker 0"])
    print("─" * 40)
batches_done = [
    [line for line in attempt.lines if line.startswith("epoch")] for attempt in attempts
]
again = set(batches_done[0]) & set(batches_done[1])
print("twice:", sorted(again))
print(guess_2.compare(len(again)))

# %% tags=["folded"]
# Checks of the numbers above, and of the sentences below
died = attempts[0].error
assert died is not None and died.kind in ("UnavailableError", ""), "or it is aborted"
assert batches_done[1][0] == "epoch 3, batch 0" and len(batches_done[1]) == 12
assert "epoch 3, batch 0" in again and all(line.startswith("epoch 3") for line in again)
resumed, of_keras_3 = attempts[1].value
uninterrupted = fit_in_keras_3(tf.distribute.OneDeviceStrategy("CPU:0"), 24)
assert furthest(resumed, uninterrupted) < 1e-5
assert "PerReplica" in of_keras_3

# %% [markdown]
# The survivor waits in its next all-reduce until worker 1's missing heartbeats are noticed, and ends with an error. (If
# worker 0 dies, to whom all others report, the other learns it at once, from the closed connection.) It can't go on
# alone: a ring with a gap is no ring. That is torch's DDP as well, and our `PeerLost`. So everybody starts again, from
# the last backup. The batches that epoch 3 already had are done **again**, from the weights at its beginning. The
# result is that of an uninterrupted training on one device, to rounding.
#
# That holds because each epoch has the same batches in the same order (and nothing in the model is random). A dataset
# that is shuffled anew goes on with other batches than the ones it would have had.
#
# (Keras 3's `fit`, tried afterwards in the same processes: it can't read a `PerReplica` here. A step of your own, as in
# lesson 13, works.)
#
# ## A worker of a parameter server dies
#
# A parameter server's cluster is built differently: workers know nothing of one another. If one dies, the coordinator
# gives its step to another. But what if the worker had sent its update *before* it died? To see that, we let it die at
# the worst moment. There are 300 steps. Each does two things on the server: it adds 1 to a counter, and it sets a mark
# with its own number to 1. The worker that does step 100 for the first time ends itself after that, before it has
# answered.

# %%
guess_3 = predict(
    "300 steps, two workers, one dies as described. What does the counter show in the end?",
)


# %%
def count_steps(strategy: Any, worst: int) -> tuple[Any, Any, Any]:
    """A counter and 300 marks on the server, and a step that dies the first time that
    it is `worst`."""
    with strategy.scope():
        counter = tf.Variable(0, dtype=tf.int64)
        marks = tf.Variable(tf.zeros(300, tf.int64))

    def die() -> tf.Tensor:
        with tf.control_dependencies([tf.raw_ops.Abort(error_msg="as planned")]):
            return tf.constant(0)

    @tf.function(autograph=False)
    def step(number: tf.Tensor) -> tf.Tensor:
        is_first = tf.equal(tf.gather(marks.read_value(), number), 0)
        with tf.control_dependencies([is_first]):
            counter.assign_add(1)
            marks.scatter_nd_update([[number]], [1])
        with tf.control_dependencies([counter.read_value(), marks.read_value()]):
            return tf.cond(is_first & tf.equal(number, worst), die, lambda: 0)

    return counter, marks, step


def coordinate(alive: Path) -> tuple[int, int]:
    """300 steps, with a worker that dies; then more steps, with the server killed."""
    strategy, coordinator = tf_cluster.make_coordinator(alive)
    counter, marks, step = count_steps(strategy, worst=100)
    for number in range(300):
        coordinator.schedule(step, args=(tf.constant(number),))
    coordinator.join()
    total, marked = int(counter), int(tf.reduce_sum(marks))
    print(f"after 300 steps the counter shows {total}, and {marked} marks are set")
    print("I go on, and the server is killed", flush=True)
    while True:
        coordinator.schedule(step, args=(tf.constant(0),))
        coordinator.join()


# %%
at = addresses(4)
cluster = {"chief": at[:1], "worker": at[1:3], "ps": at[3:]}
place = tempfile.TemporaryDirectory()
alive = Path(place.name) / "alive"
chief = Process(coordinate, alive, env=task_environment(cluster, "chief", 0))
served = run_processes(
    {"chief": chief, **tf_cluster.serving(cluster, alive)},
    seconds=170,
    until=["chief"],
    kill={"ps 0": ("chief", "I go on")},
    on_output=show,
)
(line,) = [line for line in served["chief"].lines if line.startswith("after 300")]
counter, marks = (int(word) for word in re.findall(r"\d+", line)[1:])
print(guess_3.compare(counter))

# %% tags=["folded"]
# Checks of the numbers above
assert (counter, marks) == (301, 300)
aborted = [served[f"worker {k}"].exit_status == -signal.SIGABRT for k in range(2)]
assert sorted(aborted) == [False, True]
assert served["chief"].error.kind == "UnavailableError"

# %% [markdown]
# The training goes on without the worker, and its step is done by the other one. So the counter shows 301: step 100 was
# added twice. TensorFlow promises **at least once**, not exactly once. Our server of lesson 07b would not notice it
# either: it counts the pushes of a worker, and takes the same one again for the next.
#
# But 300 marks are set, each once. To set a mark to 1 again changes nothing: such an update is **idempotent**. So if an
# update must not count twice, give it a name (here the number of the step), and let the server look whether it has it
# already. To look and to add must be *one* operation of the server: else the other worker can come in between. To SGD
# one update too many in 300 hardly matters, and TensorFlow leaves it at that.
#
# The death of the server ends the training, with an `UnavailableError`: it had the variables. What if *all* workers
# die? And the coordinator?

# %%
guess_4 = predict(
    "The only worker dies, and the coordinator waits for its steps. What does it get?",
    choices=["an error after some seconds", "no error: it waits"],
)


# %%
def coordinate_alone(alive: Path) -> None:
    """Steps for a worker that dies in the 50th. Here TensorFlow may log errors."""
    strategy, coordinator = tf_cluster.make_coordinator(alive)
    _, marks, step = count_steps(strategy, worst=50)
    for number in range(300):
        coordinator.schedule(step, args=(tf.constant(number),))
    while int(tf.reduce_sum(marks)) < 51:
        time.sleep(0.01)
    waiting = threading.Thread(target=coordinator.join, daemon=True)
    waiting.start()
    waiting.join(5)
    print("I have waited for 5 s" if waiting.is_alive() else "I got an answer")
    time.sleep(1000)  # so that only the kill below ends it


def show_failure(name: str, line: str) -> None:
    """As `show`, and what the coordinator logs of a worker that failed."""
    show(name, f"({line[:110]} …)" if " failed with " in line else line)


place = tempfile.TemporaryDirectory()
alive = Path(place.name) / "alive"
small = {"chief": at[:1], "worker": at[1:2], "ps": at[2:3]}
chief = Process(coordinate_alone, alive, env=task_environment(small, "chief", 0))
orphaned = run_processes(
    {"chief": chief, **tf_cluster.serving(small, alive)},
    seconds=170,
    until=["ps 0"],
    kill={"chief": "I have waited"},
    on_output=show_failure,
)
waited = "I have waited for 5 s" in orphaned["chief"].lines
print(
    guess_4.compare("no error: it waits" if waited else "an error after some seconds")
)

# %% tags=["folded"]
# Checks of the cell above
assert waited and orphaned["chief"].exit_status == -signal.SIGKILL
assert orphaned["worker 0"].exit_status == -signal.SIGABRT
assert orphaned["ps 0"].exit_status == 0
assert any("join still waits" in line for line in orphaned["ps 0"].lines)
assert any(" failed with " in line for line in orphaned["chief"].lines)

# %% [markdown]
# Without workers the coordinator logs that the worker failed, and waits for it to come back: `join` raises nothing. We
# looked for 5 s. Without the coordinator the server waits for work: it was still there 5 s after the coordinator's
# death. Only our file, the sign of life, told it.
#
# ## One file for two workers
#
# In lesson 13 two workers read three files, and `AUTO` chose `FILE`. Now there is one file, and all numbers are in it.

# %%
guess_5 = predict(
    "AUTO, one file, two workers. What do the workers get?",
    choices=[
        "half of it each, as with DATA",
        "worker 0 gets all of it, worker 1 nothing",
        "worker 0 gets an error, and worker 1 waits",
    ],
)


# %%
def read(paths: list[str]) -> None:
    """A worker that reads with AUTO. One that waits for more than 10 s is ended."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    lines = tf.data.TextLineDataset(paths).batch(4)
    signal.alarm(10)
    try:
        for batch in strategy.experimental_distribute_dataset(lines):
            (mine,) = strategy.experimental_local_results(batch)
            print("I have", [int(line) for line in mine.numpy()], flush=True)
    except tf.errors.InvalidArgumentError as error:
        signal.alarm(0)
        reason = error.message[error.message.index("Could not") :]
        print("I got an error:", reason.split(" If ")[0], flush=True)
        time.sleep(1000)  # so that we see what becomes of the other


files = tempfile.TemporaryDirectory()


def read_files(count: int) -> dict[str, Any]:
    """Two workers read the numbers 0 to 11, which stand in this many files."""
    paths = [f"{files.name}/{number} of {count}.txt" for number in range(count)]
    for number, path in enumerate(paths):
        own = range(12)[number * 12 // count : (number + 1) * 12 // count]
        Path(path).write_text("\n".join(map(str, own)))
    return run_processes(
        both(read, paths), seconds=170, until=["worker 1"], check=False, on_output=show
    )


one_file = read_files(1)
refused = any("I got an error" in line for line in one_file["worker 0"].lines)
waited = one_file["worker 1"].exit_status == -signal.SIGALRM
print(
    guess_5.compare(
        "worker 0 gets an error, and worker 1 waits" if refused and waited else "?"
    )
)

# %% tags=["folded"]
# Checks of the cell above
assert refused and waited
assert "the dataset only has 1 file(s)" in "".join(one_file["worker 0"].lines)
assert not any(line.startswith("I ") for line in one_file["worker 1"].lines)

# %% [markdown]
# `AUTO` does not fall back to `DATA`: it tries `FILE`, which needs at least as many files as workers. Worker 0 gets an
# error that says so, at its first batch. Worker 1 gets none. Before each batch the workers ask one another who still
# has data, and worker 0 does not answer. Only the alarm, after 10 s, ends that. So **with fewer files than workers
# choose `DATA`**, with a seed for `shuffle` (lesson 13: all workers must see the elements in the same order). And look
# at the output of *all* workers: the one that hangs is not the one that has the reason.
#
# **Try it.** Set `DATA` in `read`, and read one file: `options = tf.data.Options()`, then
# `options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA`, and
# `lines.with_options(options)`. Or leave it at `AUTO`, and give the workers a second file. Who gets which numbers?

# %%
how_many_files = 1
if how_many_files > 1:
    read_files(how_many_files)

# %% tags=["folded"]
# One way to do it
# Two files
two_files = read_files(2)
numbers = [
    sorted(
        int(n)
        for line in outcome.lines
        if line.startswith("I have")
        for n in line[8:-1].split(", ")
        if n
    )
    for outcome in two_files.values()
]
assert numbers == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]

# %% [markdown]
# ## Checkpoints
#
# What brings a training back is a checkpoint. A mirrored variable has four copies. What is saved? Here a model is
# mirrored on four devices. (We double its weights, so that they are not the first ones of every model.)

# %%
guess_6 = predict(
    f"The model has {SIZE:,} bytes, mirrored on four devices. "
    "About how many bytes has a checkpoint of it?",
    unit="bytes",
)

# %%
place = tempfile.TemporaryDirectory()
mirrored = tf.distribute.MirroredStrategy([f"CPU:{k}" for k in range(4)])
with mirrored.scope():
    model = data.model()
    adam = tf.keras.optimizers.Adam(0.01)
    adam.build(model.trainable_variables)
model.set_weights([2 * array for array in data.first])


def bytes_of(path: str) -> int:
    """Of the files of a checkpoint."""
    return sum(
        file.stat().st_size for file in Path(path).parent.glob(f"{Path(path).name}.*")
    )


path = tf.train.Checkpoint(model=model).write(f"{place.name}/model")
other_model = data.model()
tf.train.Checkpoint(model=other_model).read(path).assert_consumed()
off = furthest(other_model.get_weights(), model.get_weights())
print(f"{bytes_of(path):,} bytes; read on one device: {off:.0e} off")
print(guess_6.compare(bytes_of(path)))

# %% tags=["folded"]
# Checks of the numbers above
assert off == 0 and furthest(model.get_weights(), data.first) > 0.01
assert SIZE < bytes_of(path) < 2 * SIZE
names = [name for name, _ in tf.train.list_variables(path) if "VALUE" in name]
assert len(names) == len(data.first)

# %% [markdown]
# One copy, and a checkpoint does not know the strategy it comes from: here four replicas wrote it and one device reads
# it. It contains what you name. Ours has no optimizer, so Adam would begin with an empty state.
#
# **Try it.** Name the optimizer, too: `tf.train.Checkpoint(model=model, optimizer=adam)`. How many bytes do you expect?

# %%
mine = tf.train.Checkpoint(model=model).write(f"{place.name}/mine")
print(f"{bytes_of(mine):,} bytes, {bytes_of(mine) / bytes_of(path):.1f} times as much")

# %% tags=["folded"]
# One way to do it
both_of_them = tf.train.Checkpoint(model=model, optimizer=adam)
with_adam = both_of_them.write(f"{place.name}/with adam")
print(
    f"{bytes_of(with_adam):,} bytes, {bytes_of(with_adam) / bytes_of(path):.1f} times as much"
)
assert 3 * SIZE < bytes_of(with_adam) < 5 * SIZE

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# Adam keeps two numbers per parameter, so that is about three times as much. A checkpoint also has no position in the
# epoch, unless you save that, too. `BackupAndRestore` has one as fine as its `save_freq`.
#
# (With several workers *every* worker must call it, all but worker 0 into a folder that is thrown away. So says
# TensorFlow's tutorial on several workers, see below; we have not run it.)
#
# </details>
#
# ## In real frameworks
#
# This lesson is one. And torch? Here are four ranks with DDP in a `World`. Rank 2 is killed in step 3. The others are
# in an all-reduce with it.

# %%
from torch.nn.parallel import DistributedDataParallel

from distlib import torch_distributed


def train_in_torch(comm: Communicator, victim: int) -> None:
    with torch_distributed(comm, "gloo"):
        ddp = DistributedDataParallel(torch.nn.Linear(64, 10))
        for step in range(10):
            if step == 3 and comm.rank == victim:
                os.kill(os.getpid(), signal.SIGKILL)
            ddp(torch.ones(4, 64)).sum().backward()


def kill_rank(victim: int) -> str:
    """What the world says."""
    with World(4) as world:
        try:
            world.run(train_in_torch, victim)
        except PeerLost as error:
            return str(error)
    return "nothing"


of_torch = kill_rank(2)
print(of_torch)
assert "rank 2 ended in the middle" in of_torch and "signal 9" in of_torch

# %% [markdown]
# It is as with `MultiWorkerMirroredStrategy`: the training is over for all. The difference is who tells whom. Our world
# watches its ranks, and names the one that died. TensorFlow's workers find out from heartbeats that don't come,
# or from a connection that is closed.
#
# **Try it.** Kill rank 0, to whom all others have reported at the start. Does anything change?

# %%
victim = 2
print(kill_rank(victim) if victim != 2 else of_torch)

# %% tags=["folded"]
# One way to do it
print(kill_rank(0))

# %% [markdown]
# <details><summary>What follows: open it when you have tried</summary>
#
# No: the world is told by the operating system, not by a rank. (Under torchrun it is the agent that sees it, one per
# machine, and it ends the ranks of all.)
#
# This is what we have seen. (In the strategies that have one process, such as MirroredStrategy, all replicas end with
# it.)
#
# </details>

# %% tags=["folded"]
# The table, from the runs above
survivor = attempts[0].error.kind or "is aborted"
facts = {
    "MultiWorkerMirrored, a worker": (
        f"the other ends: {survivor}",
        f"{len(again)} batches are done again",
    ),
    "ParameterServer, one of two workers": (
        "the other goes on",
        f"{counter - 300} step counts twice",
    ),
    "ParameterServer, the only worker": ("the coordinator waits", "–"),
    "ParameterServer, the server": (
        f"the coordinator ends: {served['chief'].error.kind}",
        "all: there was no checkpoint",
    ),
    "ParameterServer, the coordinator": ("the server waits", "–"),
    "torch's DDP in our world, a rank": (
        "all end: PeerLost",
        "all: there was no checkpoint",
    ),
}
rows = [f"| {name} | {' | '.join(told)} |" for name, told in facts.items()]
Markdown(
    "\n".join(
        [
            "| who dies | what the others do | what is repeated or lost |",
            "|---" * 3 + "|",
            *rows,
        ]
    )
)

# %% [markdown]
# ## In short
#
# - Most wrong clusters wait without an error. Only the log of worker 0 says for whom.
# - A killed worker ends a mirrored training: go on from a backup.
# - Training with a parameter server goes on when one of its workers dies, but a step may count twice.
# - Who is left may wait forever: watch for a sign of life.
# - In a checkpoint, name the optimizer, and save the position in the epoch.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - Most wrong clusters wait without an error: only the log of worker 0 says for whom. (A taken address is an error;
#   clusters of different sizes start, and fail in the first all-reduce.) Leave the log on, print the number of
#   replicas, set a time limit outside of Python.
# - A killed worker ends a mirrored training. Go on from a backup: the batches since then are done again, and the result
#   is the same if the dataset gives the same batches again (and nothing in the model is random).
# - A parameter server's training goes on when a worker dies, as long as there is another one. A step may count twice.
#   An update that must not needs a name, and a server that knows the names it has seen: to look and to add must be
#   one operation.
# - Who is left may wait for ever: a coordinator without workers, a server without a coordinator. Give them a sign of
#   life to watch.
# - With fewer files than workers choose `DATA`, and give `shuffle` a seed. The worker that hangs is not the one that
#   has the reason.
# - A checkpoint has one copy of what you name: name the optimizer, and save the position in the epoch.
#
# </details>
#
# ## Now you
#
# [Exercise 13](../exercises/13_tensorflow/13_tensorflow.ipynb) belongs to lesson 13. Its `tf_config` refuses the
# mistakes that can be seen in a text.
#
# ## Further reading
#
# - TensorFlow, [Multi-worker training with
#   Keras](https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras). BackupAndRestore, and how several
#   workers save.
# - TensorFlow, [Parameter server training](https://www.tensorflow.org/tutorials/distribute/parameter_server_training).
#   What the coordinator does when a worker fails, in the words of its makers.
# - TensorFlow, [Training checkpoints](https://www.tensorflow.org/guide/checkpoint). What a checkpoint finds by which
#   name.
# - P. Helland, [Idempotence Is Not a Medical Condition](https://doi.org/10.1145/2160718.2160734), Communications of the
#   ACM 55(5), 2012. Why messages that may come twice are the rule.
