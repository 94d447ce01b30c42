# %% [markdown]
# # Exercise 13: TensorFlow
#
# You write the four pieces that a training loop over several devices needs in TensorFlow: who is who in a cluster, the
# loss, the step, and the input. At the end they train one small model on four replicas, and you compare that with one
# device.
#
# - **Time:** about 90 minutes.
# - **Before:** read the lesson [TensorFlow](../../course/13_tensorflow.ipynb).
# - **Needs:** TensorFlow, which is in this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `tf_config` | 2 | 2 |
# | 2 | `global_batch_loss` | 3 | 3 |
# | 3 | `distributed_train_step` | 5 | 5 |
# | 4 | `shard_input` | 4 | 4 |
#
# That makes 28 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# Your functions are called by tests in a process of their own, with inputs that you don't know. Tests compare what they
# give with one device. In part 3 they also look at who has computed what. The cell of a function may import what it
# needs, and define helpers.
#
# The cell below cuts the processor into four logical devices. That must happen before TensorFlow computes anything. If
# it complains, restart the kernel.

# %% readonly="setup"
import os

# before the import: no log lines
os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

tf.get_logger().setLevel("ERROR")
processor = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    processor, [tf.config.LogicalDeviceConfiguration()] * 4
)

# %% [markdown]
# ## 1. Who is who: `tf_config`
#
# A strategy for several machines reads the environment variable `TF_CONFIG`. Its value is JSON. It says which processes
# there are, the **cluster**, and which of them this one is, its **task**:
#
# ```json
# {"cluster": {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.3:2222"], "ps": ["10.0.0.4:2222"]},
#  "task": {"type": "worker", "index": 1}}
# ```
#
# This is its value on 10.0.0.3. The cluster is the same for all four processes. The index is the place in the list of
# the role, from 0.
#
# With a mistake in it TensorFlow often waits, and says nothing. So find mistakes before that. Raise `ValueError` for
# each of these, with a text that names what is wrong. If several things are wrong, name any of them:
#
# | what is wrong | the text contains |
# |---|---|
# | a role that is not `chief`, `worker`, `ps` or `evaluator`, in `hosts` or as `role` | that role |
# | an address that is not a host, a colon, and a port | that address |
# | an address that two tasks share, in one role or in two | that address |
# | more than one chief | `chief` |
# | nobody in `hosts` has the role `role` | that role |
# | the index is not one of 0, 1, … for this role | that index |
#
# A host has no blank, no slash and no colon in it. (So `http://a:2222` is no address. IPv6 does not occur here.) A port
# is a number from 1 to 65535, written in digits only.
#
# A role may have an empty list in `hosts`. Then it does not appear in the cluster; its name must be right all the same.
# A cluster need not have every role. An evaluator stands in `hosts` like the others; TensorFlow itself would also take
# one that is not in the cluster. Don't change `hosts`.


# %% solution="tf_config"
def tf_config(hosts: Mapping[str, Sequence[str]], role: str, index: int) -> str:
    """The text for the environment variable TF_CONFIG of one process.

    Args:
        hosts: the addresses ("host:port") of each role, in the order of their indices. Stays as
            it is.
        role: of this process: "chief", "worker", "ps" or "evaluator".
        index: of this process among the addresses of its role, from 0.

    Returns:
        JSON: an object with "cluster" (the addresses by role, without empty roles) and "task"
        ("type" and "index"), and nothing else.

    Raises:
        ValueError: the table above has the cases, and what the text names.
    """
    ### BEGIN SOLUTION
    import re

    roles = ("chief", "worker", "ps", "evaluator")
    for name in (*hosts, role):
        if name not in roles:
            raise ValueError(f"expected one of the roles {', '.join(roles)}, got {name!r}")
    addresses = [address for each in hosts.values() for address in each]
    for address in addresses:
        match = re.fullmatch(r"[^\s/:]+:([0-9]+)", address)
        if not match or not 1 <= int(match[1]) <= 65535:
            raise ValueError(f"expected an address such as 10.0.0.1:2222, got {address!r}")
        if addresses.count(address) > 1:
            raise ValueError(f"{address} is the address of two tasks")
    cluster = {name: list(each) for name, each in hosts.items() if each}
    if len(cluster.get("chief", [])) > 1:
        raise ValueError(f"there is one chief, got {cluster['chief']}")
    if role not in cluster:
        raise ValueError(f"nobody in the cluster has the role {role!r}")
    if not 0 <= index < len(cluster[role]):
        raise ValueError(
            f"expected an index from 0 to {len(cluster[role]) - 1} for {role}, got {index}"
        )
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
    ### END SOLUTION


# %% [markdown]
# **Try it.** A cell like this one gives no marks. Change it as you like.

# %%
machines = {"worker": ["localhost:2222", "localhost:2223"], "ps": ["localhost:2224"]}
print(tf_config(machines, "worker", 1))
try:
    print(tf_config(machines, "worker", 2))
except ValueError as error:
    print(error)

# %% [markdown]
# **Visible test: 2 points.** Clusters without and with a mistake.

# %% test="tf_config_visible" points=2
from json import loads

from distlib.exercises import check_tf_config

two = {"worker": ["10.0.0.2:2222", "10.0.0.3:2222"]}
all_roles = {
    "chief": ["a:1"],
    "worker": ["b:2", "c:2"],
    "ps": ["d:3", "e:3"],
    "evaluator": ["f:4"],
}
report = check_tf_config(
    tf_config,
    tasks=[
        (two, "worker", 0),
        (two, "worker", 1),
        (all_roles, "chief", 0),
        (all_roles, "ps", 1),
        ({"chief": ["a:1"], "worker": ["b:2"], "ps": []}, "worker", 0),
        (two, "worker", 2),
        (two, "ps", 0),
        (two, "master", 0),
        ({"worker": ["a:1", "a:1"]}, "worker", 0),
        ({"chief": ["a:1", "b:1"], "worker": ["c:1"]}, "worker", 0),
        ({"worker": ["10.0.0.2"]}, "worker", 0),
        ({"worker": ["http://10.0.0.2:2222"]}, "worker", 0),
        ({"worker": ["10.0.0.2:70000"]}, "worker", 0),
    ],
)
texts = [answer.get("returned") for answer in report.answers]
assert [loads(text)["task"]["index"] for text in texts[:5]] == [0, 1, 0, 1, 0]
assert texts[5:] == [None] * 8
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More clusters, and each mistake of the table in other places.

# %% test="tf_config_hidden" points=2
# The hidden tests of tf_config stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: random clusters, bad indices, empty roles, shared and bad addresses, unchanged `hosts`.
from json import loads

from distlib.exercises import check_tf_config

many = {
    "ps": [f"p{number}:1" for number in range(5)],
    "chief": ["c:1"],
    "worker": [f"w{number}:1" for number in range(9)],
}
report = check_tf_config(
    tf_config,
    tasks=[
        ({"evaluator": ["a:1"], "ps": ["c:1", "b:1", "a:2"]}, "ps", 2),
        ({"worker": ["a:65535"]}, "worker", 0),
        ({"worker": ["GPU-7.Cluster_2:22", "node-3:80"], "ps": ["c:1"]}, "worker", 1),
        ({"chief": [], "worker": ["z:1", "b:1"]}, "worker", 1),
        ({"worker": ["a:1", "b:1"]}, "worker", -1),
        ({"chief": [], "worker": ["a:1"]}, "chief", 0),
        ({"worker": ["a:1", "b:1"], "ps": ["c:1", "b:1"]}, "worker", 0),
        ({"worker": ["a:1"], "server": ["b:1"]}, "worker", 0),
        ({"chief": ["a:1", "b:1"], "worker": ["c:1"]}, "chief", 1),
        ({"worker": ["a:1", "b:grpc"]}, "worker", 0),
        ({"worker": ["a:1", "b:-1"]}, "worker", 0),
        ({"worker": ["a:1", "b:0"]}, "worker", 0),
        ({"worker": ["a:1"], "ps": ["b:65536"]}, "worker", 0),
        ({"worker": ["a:1", " b:1"]}, "worker", 0),
        ({"worker": ["grpc://a:1", "b:1"]}, "worker", 1),
        ({"worker": ["a:1:2"]}, "worker", 0),
        ({"worker": ["a:1"], "ps": [":2222"]}, "worker", 0),
        ({"worker": ["a:1"], "ps": ["b:1", "c:1", "d:1"]}, "worker", 2),
        ({"worker": ["a:1", "b:1"]}, "worker", 47),
        ({"worker": ["a:1", "b:+80"]}, "worker", 0),
        ({"worker": ["a:1", "b:8_0"]}, "worker", 0),
        ({"worker": ["a:1"], "server": []}, "worker", 0),
        ({"worker": ["a:1", "b:22222x"]}, "worker", 0),
        ({"worker": ["a:1", "the-second-machine b:1"]}, "worker", 0),
        ({**many, "ps": [*many["ps"], "p5"]}, "worker", 8),
        ({**many, "worker": [*many["worker"], "w9:0"]}, "ps", 4),
        ({**many, "worker": [*many["worker"], "w8:1"]}, "ps", 0),
        ({**many, "evaluator": ["e:1", "p4:1"]}, "worker", 0),
        ({**many, "evaluator": ["e:1"], "server": ["s:1"]}, "worker", 0),
        (many, "worker", 9),
        (many, "worker", 8),
    ],
    drawn=6,
    seed=131,
)
texts = [answer.get("returned") for answer in report.answers]
assert [loads(text)["task"]["index"] for text in texts[:4]] == [2, 0, 1, 1]
assert texts[4:30] == [None] * 26 and None not in texts[30:] and len(texts) == 37
### END HIDDEN TESTS

# %% [markdown]
# ## 2. The loss: `global_batch_loss`
#
# The **global batch** is what all replicas together compute in a step. Its loss is the mean over its samples. No
# replica can compute that: it has only its own. But it can compute its **share**, so that the shares of all replicas
# add up to the loss of the global batch:
#
# $$\text{share} = \frac{1}{\text{global batch size}} \sum_i w_i\, \ell_i$$
#
# The sum goes over the samples of this replica. $\ell_i$ is the loss of a sample, and $w_i$ its weight. Samples that
# only fill up a batch have the weight 0. The weights are not in the divisor: a sample of weight 2 counts twice.
#
# An example with 2 replicas and 3 samples. The global batch size is 3.
#
# | | losses | weights | share |
# |---|---|---|---|
# | replica 0 | 6, 3 | 1, 1 | (6 + 3) / 3 = 3 |
# | replica 1 | 9, 7 | 1, 0 | 9 / 3 = 3 |
#
# The shares add up to 6, the mean of 6, 3 and 9. The mean of the two replicas' means is (4.5 + 9) / 2 = 6.75: another
# number.
#
# - The share has the dtype of the losses. Weights are always float32. `tf.cast` changes a dtype.
# - A replica may have no sample at all, or only samples of weight 0. Then its share is 0, and has a gradient all the
#   same.
# - The function runs on a replica inside a `tf.function`, where tensors have no values yet: no `.numpy()`, no
#   `float(…)`. It does not communicate.


# %% solution="global_batch_loss"
def global_batch_loss(
    losses: tf.Tensor, weights: tf.Tensor, global_batch_size: int
) -> tf.Tensor:
    """This replica's share of the loss of the global batch. Differentiable.

    Args:
        losses: of this replica's samples, shape [samples], finite, float32 or float64. There
            may be 0 samples.
        weights: of the same samples, shape [samples], float32; 0 for a sample that only fills
            up the batch.
        global_batch_size: how many samples all replicas have, those of weight 0 left out: 1 or
            more.

    Returns:
        One number, shape [], with the dtype of the losses. All replicas' shares add up to the
        loss of the global batch.
    """
    ### BEGIN SOLUTION
    return tf.reduce_sum(losses * tf.cast(weights, losses.dtype)) / global_batch_size
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.

# %%
for losses, weights in (([6.0, 3.0], [1.0, 1.0]), ([9.0, 7.0], [1.0, 0.0])):
    print(global_batch_loss(tf.constant(losses), tf.constant(weights), 3))

# %% [markdown]
# **Visible test: 3 points.** Replicas with equally many samples, then with different numbers of them and one of
# weight 0. It looks at the share of every replica, and at its gradient.

# %% test="global_batch_loss_visible" points=3
from distlib.exercises import Shares, check_global_batch_loss

report = check_global_batch_loss(
    global_batch_loss, batches=[Shares([4, 4]), Shares([3, 1], fillers=[0, 1])]
)
for seen in report:
    given, shares = seen.case.inputs[0], seen[0]["losses"]
    rows = [
        (s["features"] @ given["parameters"] - s["labels"]) ** 2 * s["weights"]
        for s in given["shares"]
    ]
    assert abs(sum(shares) - sum(row.sum() for row in rows) / seen.facts.total) < 1e-4
print(report)

# %% [markdown]
# **Hidden test: 3 points.** More replicas, one of them without samples, float64, and other weights than 0 and 1.

# %% test="global_batch_loss_hidden" points=3
# The hidden tests of global_batch_loss stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: a replica without samples, one with samples of weight 0 only, other weights, float64.
import torch

from distlib.exercises import Shares, check_global_batch_loss

report = check_global_batch_loss(
    global_batch_loss,
    batches=[
        Shares([5, 0, 2], dtype=torch.float64, weighs=True),
        Shares([3, 0], fillers=[0, 4], features=6),
    ],
    seed=132,
)
assert [len(seen[0]["losses"]) for seen in report] == [3, 2]
for seen in report:
    given, shares = seen.case.inputs[0], seen[0]["losses"]
    rows = [
        (s["features"] @ given["parameters"] - s["labels"]) ** 2 * s["weights"]
        for s in given["shares"]
    ]
    assert abs(sum(shares) - sum(row.sum() for row in rows) / seen.facts.total) < 1e-4
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The step: `distributed_train_step`
#
# Now all replicas train together. This is DDP of lesson 05 in TensorFlow's words, with sums of shares in place of
# means. Every replica computes the gradient of its share of the loss. The gradients are added up over the replicas, and
# every replica's copy of the variables is changed by the sum.
#
# Your function makes the step, and does not run it. It returns the `tf.function` itself,
# `step(features, labels, weights, global_batch_size)`:
#
# - `features`, `labels` and `weights` each hold a value for each replica. TensorFlow calls that a `PerReplica`.
#   `strategy.run(on_replica, args=(features, labels, weights))` calls your `on_replica` once for each replica, with the
#   values of this replica, on its device. What it returns comes out as a `PerReplica` again. What is the same for all
#   replicas can be an argument, too.
# - `global_batch_size` is a tensor with one number, the same for all replicas. All tensors and variables are float32.
# - `loss_function(features, labels)` gives the loss of each sample. Call it on every replica, with its own samples.
# - The step changes all variables, each by `-learning_rate * gradient`, and returns the loss of the global batch as it
#   was before the change: one number.
# - The copies of a variable must stay equal, to the last bit.
# - A replica may have no samples. It takes part in every all-reduce all the same.
#
# With one weight $w = 1$, the loss $(w x - y)^2$, a learning rate of 0.1, and 2 replicas with a sample each:
#
# | | x, y | loss | share of the gradient |
# |---|---|---|---|
# | replica 0 | 1, 3 | 4 | 2 · (1 − 3) · 1 / 2 = −2 |
# | replica 1 | 2, 1 | 1 | 2 · (2 − 1) · 2 / 2 = 2 |
#
# The sum is 0, so $w$ stays 1 on both replicas. The step returns (4 + 1) / 2 = 2.5. If every replica used its own
# gradient, they would part: 1.2 and 0.8.
#
# - Where to add up? Inside `on_replica`: `tf.distribute.get_replica_context().all_reduce("SUM", gradients)`. Outside of
#   `strategy.run`: `strategy.reduce("SUM", value, axis=None)`.
# - Where to assign? Outside of `strategy.run`, `variable.assign_sub(…)` changes all copies. Inside, it changes this
#   replica's copy only.
# - A `tf.function` calls your Python code in its first step, and then runs the graph that came out of it. A step that
#   calls it each time is slow, and a test notices.
# - Your `global_batch_loss` need not be right: write the one line again.


# %% solution="distributed_train_step"
def distributed_train_step(
    strategy: tf.distribute.Strategy,
    variables: Sequence[tf.Variable],
    loss_function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    learning_rate: float,
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]:
    """Make the training step of a strategy: plain SGD on the loss of the global batch.

    Args:
        strategy: a MirroredStrategy with one replica or more.
        variables: what is trained, made in `strategy.scope()`: every replica has a copy of
            each.
        loss_function: `loss_function(features, labels)` gives the loss of each sample, shape
            [samples], and uses the variables.
        learning_rate: a variable changes by -learning_rate * gradient.

    Returns:
        A tf.function `step(features, labels, weights, global_batch_size)`. Of the first three
        every replica has its own: [samples, …], [samples, …] and [samples]. It changes the
        variables in place and returns the loss of the global batch before that, shape [].

    Cost: with N replicas and S bytes of gradients, at most 2 (N - 1) (S + 16) bytes are copied
    between devices: the gradients, their sum, and a few single numbers. No samples are.
    """

    ### BEGIN SOLUTION
    @tf.function
    def step(features, labels, weights, global_batch_size):
        def on_replica(features, labels, weights):
            with tf.GradientTape() as tape:
                loss = (
                    tf.reduce_sum(weights * loss_function(features, labels)) / global_batch_size
                )
            return loss, tape.gradient(loss, variables)

        losses, gradients = strategy.run(on_replica, args=(features, labels, weights))
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(learning_rate * strategy.reduce("SUM", gradient, axis=None))
        return strategy.reduce("SUM", losses, axis=None)

    return step
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. `per_replica` puts one value on each replica.


# %%
def replicas(number: int) -> tf.distribute.Strategy:
    devices = [f"CPU:{each}" for each in range(number)]
    return tf.distribute.MirroredStrategy(
        devices, cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


def per_replica(strategy: tf.distribute.Strategy, values: Sequence[object]) -> tf.Tensor:
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group])
    )


pair = replicas(2)
with pair.scope():
    weight = tf.Variable(1.0)
step = distributed_train_step(pair, [weight], lambda x, y: (weight * x - y) ** 2, 0.1)
batch = [
    per_replica(pair, values) for values in ([[1.0], [2.0]], [[3.0], [1.0]], [[1.0], [1.0]])
]
print("loss:", step(*batch, tf.constant(2.0)).numpy())
print("copies:", [copy.numpy() for copy in pair.experimental_local_results(weight)])

# %% [markdown]
# **Visible test: 5 points.** Two replicas, with equally many samples and with different numbers. It makes a step and
# calls it twice. It looks at every copy of the variables, at the losses, at who has computed them, and at what the
# graph copies between devices. The gradients have 32 bytes here: 6 numbers of a matrix and 2 of a bias.

# %% test="distributed_train_step_visible" points=5
from distlib.exercises import Shares, check_distributed_train_step

report = check_distributed_train_step(
    distributed_train_step, plans=[Shares([4, 4]), Shares([5, 2], fillers=[0, 2])]
)
for seen in report:
    for copies in (copies for step in seen[0]["variables"] for copies in step):
        assert len(copies) == len(seen.facts.samples) and all(
            (copy == copies[0]).all() for copy in copies
        )
    first, second = seen[0]["calls"]
    assert {device for device, _ in first} == {0, 1} and not second
    assert 2 * 32 <= sum(nbytes for _, _, nbytes in seen[0]["copied"]) <= 2 * (32 + 16)
print(report)

# %% [markdown]
# **Hidden test: 5 points.** Three and four replicas, other weights, a replica without samples, more variables, of other
# sizes, another learning rate, and more steps.

# %% test="distributed_train_step_hidden" points=5
# The hidden tests of distributed_train_step stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: 3 and 4 replicas, other weights, sizes and rate, one without samples, a number as third variable.
from distlib.exercises import Shares, check_distributed_train_step

report = check_distributed_train_step(
    distributed_train_step,
    plans=[
        Shares([4, 0, 3], weighs=True, features=5, outputs=3),
        Shares([6, 6, 6, 2], fillers=[0, 0, 0, 4], features=2, outputs=4),
    ],
    steps=3,
    has_number=True,
    rate=0.031,
    seed=133,
)
for seen in report:
    for copies in (copies for step in seen[0]["variables"] for copies in step):
        assert len(copies) == len(seen.facts.samples) and all(
            (copy == copies[0]).all() for copy in copies
        )
    assert [len(calls) for calls in seen[0]["calls"]][1:] == [0, 0]
    ways = 2 * (len(seen.facts.samples) - 1)
    gradients = 4 * ((seen.facts.features + 1) * seen.facts.outputs + 1)
    copied = sum(nbytes for _, _, nbytes in seen[0]["copied"])
    assert ways * gradients <= copied <= ways * (gradients + 16)
### END HIDDEN TESTS

# %% [markdown]
# ## 4. The input: `shard_input`
#
# Several workers read the same data set, and each takes its share of every global batch. Two rules make training the
# same as on one device:
#
# - **Step k of all workers together has global batch k of the data set**, its samples k·G … (k+1)·G − 1 if the global
#   batch size is G. Which worker has which of them, and in which order, is free.
# - **Every sample counts once.** The last global batch may have fewer than G samples. Then it is filled up, so that
#   every batch of every worker has the same shape. Every sample has the weight 1, and what fills up the weight 0.
#
# With 2 workers, 5 samples a, b, c, d, e, and a global batch size of 4, so 2 for each worker:
#
# | | step 0 | weights | step 1 | weights |
# |---|---|---|---|---|
# | worker 0 | a, c | 1, 1 | e, 0 | 1, 0 |
# | worker 1 | b, d | 1, 1 | 0, 0 | 0, 0 |
#
# Worker 1 has nothing left in step 1, but it must take part in the all-reduce. So it gets a batch of weight 0.
#
# - A TensorFlow data set may not know its length: `len(dataset)` is an error then. `dataset.batch(n)` knows where the
#   end is.
# - Samples are tensors of numbers, of any shape and dtype, also single numbers. Batches keep the dtype. `tf.zeros`
#   makes some to fill up, but any finite numbers will do.
# - Weights are float32.
# - Raise `ValueError`, at once and not when the data set is read, if the number of workers does not divide the global
#   batch size; its text names both. And if the index is not one of 0, 1, …, `num_workers` − 1; its text names the index
#   and the number of workers.


# %% solution="shard_input"
def shard_input(
    dataset: tf.data.Dataset, num_workers: int, index: int, global_batch_size: int
) -> tf.data.Dataset:
    """A worker's share of a data set, in batches that all have the same shape.

    Args:
        dataset: its elements are single samples, tensors of one shape and dtype. The same, in
            the same order, on every worker. It may not know its length.
        num_workers: how many workers share it.
        index: which of them this one is: 0 … num_workers - 1.
        global_batch_size: samples of all workers in a step.

    Returns:
        A data set of pairs (samples, weights), one for each global batch:
        [global_batch_size / num_workers, …], with the dtype of the data set, and weights of
        shape [global_batch_size / num_workers], float32: 1 for a sample, 0 for what fills up.

    Raises:
        ValueError: num_workers does not divide global_batch_size, or there is no worker
            `index`. The text names these two numbers.
    """
    ### BEGIN SOLUTION
    if global_batch_size % num_workers:
        raise ValueError(
            f"a global batch of {global_batch_size} can't be shared equally by {num_workers} "
            "workers"
        )
    if not 0 <= index < num_workers:
        raise ValueError(f"there is no worker {index}: there are {num_workers}")

    def share(samples):
        missing = global_batch_size - tf.shape(samples)[0]
        filling = tf.zeros(tf.concat([[missing], tf.shape(samples)[1:]], axis=0), samples.dtype)
        weights = tf.concat([tf.ones(tf.shape(samples)[:1]), tf.zeros([missing])], axis=0)
        return tf.concat([samples, filling], axis=0)[index::num_workers], weights[
            index::num_workers
        ]

    return dataset.batch(global_batch_size).map(share)
    ### END SOLUTION


# %% [markdown]
# **Try it** on the data set of the table, with 1 … 5 for a … e.

# %%
for index in range(2):
    for samples, weights in shard_input(tf.data.Dataset.range(1, 6), 2, index, 4):
        print(f"worker {index}:", samples.numpy(), weights.numpy())

# %% [markdown]
# **Visible test: 4 points.** One worker and two; data sets with a full last batch and without.

# %% test="shard_input_visible" points=4
from distlib.exercises import Pipeline, check_shard_input

report = check_shard_input(
    shard_input,
    pipelines=[
        Pipeline(samples=3, num_workers=1, global_batch_size=2),
        Pipeline(samples=8, num_workers=2, global_batch_size=4),
        Pipeline(samples=5, num_workers=2, global_batch_size=4, shape=(3,)),
        Pipeline(samples=4, num_workers=2, global_batch_size=5, indices=[0], refused=[5, 2]),
    ],
)
for seen in list(report)[:3]:
    weights = [batch[1] for batches in seen[0] for batch in batches]
    assert sum(each.sum() for each in weights) == seen.facts.samples
print(report)

# %% [markdown]
# **Hidden test: 4 points.** More workers, a data set that does not know its length, one that is smaller than a batch,
# other dtypes, and impossible numbers.

# %% test="shard_input_hidden" points=4
# The hidden tests of shard_input stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: three workers, unknown lengths, other shapes and dtypes, a worker without samples, bad numbers.
import torch

from distlib.exercises import Pipeline, check_shard_input

report = check_shard_input(
    shard_input,
    pipelines=[
        Pipeline(
            samples=14,
            num_workers=3,
            global_batch_size=6,
            shape=(2, 2),
            dtype=torch.float64,
            is_counted=False,
        ),
        Pipeline(samples=1, num_workers=2, global_batch_size=4, dtype=torch.float32),
        Pipeline(samples=12, num_workers=3, global_batch_size=9, dtype=torch.int32),
        Pipeline(samples=6, num_workers=2, global_batch_size=9, indices=[1], refused=[9, 2]),
        Pipeline(samples=6, num_workers=3, global_batch_size=6, indices=[5], refused=[5, 3]),
        Pipeline(samples=6, num_workers=3, global_batch_size=6, indices=[3], refused=[3]),
        Pipeline(samples=6, num_workers=3, global_batch_size=6, indices=[-1], refused=[-1, 3]),
    ],
    seed=134,
)
for seen in list(report)[:3]:
    weights = [batch[1] for batches in seen[0] for batch in batches]
    assert sum(each.sum() for each in weights) == seen.facts.samples
### END HIDDEN TESTS

# %% [markdown]
# ## All together
#
# Four replicas train a line through 50 points, in global batches of 16. The last batch has 2 samples, so two replicas
# have none in it. The same on one replica must give the same line. Change the numbers, or break one of your functions
# on purpose: which mistakes can you see in the loss alone?

# %%
points = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
points[:, 1] += 3 * points[:, 0] - 1


def train(number: int, epochs: int = 3, batch_size: int = 16) -> tuple[float, np.ndarray]:
    strategy, data = replicas(number), tf.data.Dataset.from_tensor_slices(points)
    with strategy.scope():
        line = [tf.Variable(0.0), tf.Variable(0.0)]
    step = distributed_train_step(
        strategy, line, lambda x, y: (line[0] * x + line[1] - y) ** 2, 0.1
    )
    loss = 0.0
    for _ in range(epochs):
        for shares in zip(
            *(shard_input(data, number, index, batch_size) for index in range(number)),
            strict=True,
        ):
            x, y, weights = (
                [s[:, 0] for s, _ in shares],
                [s[:, 1] for s, _ in shares],
                [w for _, w in shares],
            )
            size = tf.add_n([tf.reduce_sum(each) for each in weights])
            loss = step(
                *(per_replica(strategy, values) for values in (x, y, weights)), size
            ).numpy()
    return loss, np.array([variable.numpy() for variable in line])


for number in (1, 4):
    loss, line = train(number)
    print(
        f"{number} replica{'s' * (number > 1)}: slope and intercept {line}, "
        f"last loss {loss:.6f}"
    )

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 13_tensorflow` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("13_tensorflow")

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("13_tensorflow")
