"""Exercise 13: TF_CONFIG, the loss of a global batch, a training step on all replicas, and the input of a worker.

Nothing here computes with TensorFlow: what a function gave is compared with what torch computes on one device.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.plays.calls import attempt
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import called, shown, type_of
from distlib.checks.rules.values import holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count, dtype_name
from distlib.exercises.tensorflow.plays import DEVICES, global_losses, shards, training
from distlib.frameworks.optional import check_there
from distlib.frameworks.tf_config import address_fault

# fmt: off
SYMBOLIC = [
    ("has no attribute 'numpy'", "inside a tf.function a tensor has no value yet, so numpy() is not there. Compute with tf.reduce_sum and its kind."),
    ("symbolic", "inside a tf.function a tensor has no value yet: no float(x), no numpy, and no Python `if` on it. tf.where and tf.math.divide_no_nan choose by value."),
]
SECONDS = 15.0  # a case takes less than one; but making graphs is work for Python, which a busy machine does slowly
close = partial(is_close, relative=1e-4, absolute=1e-5)  # rounding is free, in float32
WEIGHTS = (1.5, 2.0, 3.0)  # all above 1: then their sum is never the number of samples, which is to be divided by


# ── tf_config ────────────────────────────────────────────────────────────────────────────────────────────────────────

ROLES = ("chief", "worker", "ps", "evaluator")
Hosts = Mapping[str, Sequence[str]]


@task("hosts", "role", "index", errors=[
    ("KeyError: 'TF_CONFIG'", "nothing has set the environment variable TF_CONFIG: your function makes its text, from hosts, role and index."),
    ("KeyError", "hosts need not have every role, and perhaps not this one. Ask for it with hosts.get(role), or `role in hosts`; and where nobody has the role, raise ValueError(…) with words that name it."),
    ("raised", "raise ValueError(…) for what can't be right, with words that name it; no other error, and no assert."),
])
def check_tf_config(draw: Draw, *, tasks: Sequence[tuple[Hosts, str, int]], drawn: int = 0) -> Iterator[Case]:
    """`function(hosts, role, index)`: TF_CONFIG as JSON; ValueError for a cluster or a task that can't be.

    `drawn`: how many more clusters come at the end, which no table of answers has.
    """
    for hosts, role, index in (*tasks, *(_drawn_task(draw) for _ in range(drawn))):
        case = called({name: list(each) for name, each in hosts.items()}, role, index, facts=(hosts, role, index))
        yield Case(case.title, attempt, case.inputs, case.facts)


def _drawn_task(draw: Draw) -> tuple[Hosts, str, int]:
    ports = iter(draw.sample(range(1024, 65536), 12))
    most = {"chief": 1, "worker": 4, "ps": 3, "evaluator": 1}
    roles = draw.sample(ROLES, draw.randint(2, 4))
    hosts = {role: [f"10.0.{draw.randint(0, 255)}.{draw.randint(1, 254)}:{next(ports)}" for _ in range(draw.randint(1, most[role]))]
             for role in roles}
    role = draw.choice(roles)
    return hosts, role, draw.randrange(len(hosts[role]))


def _refusal(hosts: Hosts, role: str, index: int) -> tuple[str, str] | None:
    """What the error must name, and why there must be one; None if nothing is wrong."""
    addresses = [address for each in hosts.values() for address in each]
    for name in (*hosts, role):
        if name not in ROLES:
            return name, f"{name!r} is not a role of TensorFlow's. These are {', '.join(ROLES)}, in the hosts and as `role`."
    for address in addresses:
        if fault := address_fault(address):
            return address, f"{address!r} is not host:port: {fault}."
        if addresses.count(address) > 1:
            return address, "two tasks can't listen at the same address, whatever their roles. Compare all addresses of the cluster."
    if len(hosts.get("chief", ())) > 1:
        return "chief", "there is one chief at most."
    if not hosts.get(role):
        return role, f"the cluster has nobody in the role {role!r}, so this can't be one of its tasks."
    if not 0 <= index < len(hosts[role]):
        return str(index), f"the last index of {role} is {len(hosts[role]) - 1}.{' Python takes -1 for the last entry; TensorFlow does not.' * (index < 0)}"
    return None


@check_tf_config.judge
def _(seen: Seen) -> Remarks:
    hosts, role, index = seen.facts
    refusal, refused = _refusal(hosts, role, index), seen[0].get("refused")
    if refusal:
        name, why = refusal
        if refused is None:
            yield Remark(f"it returned a value; expected was a ValueError that names {name}.", (f"found    {shown(seen[0]['returned'])}",), why)
        elif name not in refused:
            yield Remark(f"its ValueError does not name {name}.", (f"found    {shown(refused)}",), "whoever reads the error has not seen your code. Put the value that is wrong into its text, with an f-string.")
        return
    if refused is not None:
        yield Remark("it raised ValueError, but nothing is wrong here.", (f"found    {refused}",), _why_refused(hosts, refused))
        return
    yield _explain_text(seen[0]["returned"]) or next(_differences(json.loads(seen[0]["returned"]), hosts, role, index), None)
    if (after := seen[0]["args"][0]) != (before := {name: list(each) for name, each in hosts.items()}):
        yield Remark("it has changed hosts.", (f"before   {shown(before)}", f"after    {shown(after)}"), "whoever calls it goes on using hosts: for the next process, too. Make a dict of your own.")


def _why_refused(hosts: Hosts, refused: str) -> str:
    if any(not each for each in hosts.values()):
        return "a role with an empty list is allowed: nobody has it. Leave it out of the cluster."
    if any(address in refused for each in hosts.values() for address in each):
        return "this is an address: a host, a colon, and a port. Ports go from 1 to 65535, and each address stands there once."
    return "is a role refused that TensorFlow has, or an index that is in the list? A cluster need not have every role."


def _explain_text(found: Any) -> Remark | None:
    """What is wrong if it is not the text of a JSON object."""
    if not isinstance(found, str):
        cause = "the last line must return it." if found is None else "the environment holds text: json.dumps(…) makes it."
        return Remark(f"it returned {shown(found)}; expected was a text.", cause=cause)
    try:
        value = json.loads(found)
    except ValueError as error:
        cause = "str(…) writes Python, with single quotes. json.dumps(…) writes JSON." if "'" in found else "json.dumps(…) writes JSON."
        return Remark(f"the text is not JSON: {error}.", (f"found    {shown(found)}",), cause)
    return None if isinstance(value, dict) else Remark("the text is JSON, but not an object.", (f"found    {shown(found)}",), "is it turned into JSON twice?" if isinstance(value, str) else "begin with a dict of \"cluster\" and \"task\".")


def _differences(found: dict[str, Any], hosts: Hosts, role: str, index: int) -> Iterator[Remark]:
    """What is wrong with TF_CONFIG, the first thing first."""
    cluster = {name: list(each) for name, each in hosts.items() if each}
    before = sum(len(each) for name, each in cluster.items() if list(cluster).index(name) < list(cluster).index(role))
    right = {"cluster": cluster, "task": {"type": role, "index": index}}
    for key in right:
        if key not in found:
            yield Remark(f"TF_CONFIG has no {key!r}.", (f"found    {shown(found)}",), {
                "task": "without its own task a process does not know which of the addresses is its own.",
                "cluster": "without the cluster every process trains alone, in silence."}[key])
    for key in found.keys() - right.keys():
        yield Remark(f"TF_CONFIG has {key!r}, too.", (f"found    {shown(found)}",), "only \"cluster\" and \"task\" are asked for.")
    mistakes: dict[str, list[Any]] = {
        "the index is a number, and not a text.": [{"type": role, "index": str(index)}],
        "the key of the role is \"type\".": [{"role": role, "index": index}],
        "this is the address. The task says role and index: which of the addresses of its role it is.": [cluster[role][index], {"type": role, "index": cluster[role][index]}],
        "the index counts over all roles. It counts among the addresses of this role.": [{"type": role, "index": before + index}],
        "the index counts from 0.": [{"type": role, "index": index + 1}],
        "every process has a task of its own: `role` and `index`.": [{"type": role, "index": 0}, {"type": "worker", "index": index}, {"type": "worker", "index": 0}],
        "a list has an order, but TensorFlow looks for the names \"type\" and \"index\".": [[role, index], f"{role}:{index}", f"{role} {index}"],
        "a role with an empty list does not appear in the cluster.": [{name: list(each) for name, each in hosts.items()}],
        "every process gets the whole cluster, with all roles. Here are only the addresses of its own role.": [{role: cluster[role]}],
        "the own address is missing. The cluster is the same text on every machine.": [
            {n: [a for k, a in enumerate(each) if (n, k) != (role, index)] for n, each in cluster.items()},
            {n: rest for n, each in cluster.items() if (rest := [a for k, a in enumerate(each) if (n, k) != (role, index)])}],
        "the addresses stand by role: a dict of lists.": [[a for each in cluster.values() for a in each]],
        "every role has a list of addresses, also if it is one.": [{n: each[0] if len(each) == 1 else each for n, each in cluster.items()}],
        "the ports are missing: an address is host:port.": [{n: [a.rpartition(":")[0] for a in each] for n, each in cluster.items()}],
        "the order of the addresses has changed. An index is a place in the list, so keep it.": [{n: sorted(each) for n, each in cluster.items()}],
        "the chief counts among the workers here. It has a role of its own.": [{"worker": cluster.get("chief", []) + cluster.get("worker", []), **{n: e for n, e in cluster.items() if n not in ("chief", "worker")}}],
    }
    for key in right:
        if key in found and found[key] != right[key]:
            cause = next((words for words, values in mistakes.items() if found[key] in values and found[key] != right[key]), "")
            yield Remark(f"the {key} is wrong.", (f"expected {shown(right[key])}", f"found    {shown(found[key])}"), cause)


# ── global_batch_loss ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Shares:
    """A global batch on replicas.

    Attributes:
        samples: how many real ones each replica has.
        fillers: how many more with weight 0; by default none.
        dtype: of losses; weights are float32.
        weighs: whether weights are other numbers than 1.
    """

    samples: Sequence[int]
    fillers: Sequence[int] = ()
    dtype: torch.dtype = torch.float32
    weighs: bool = False

    @property
    def title(self) -> str:
        """How students read it."""
        more = f", and {_listed(self.fillers)} of weight 0" if self.fillers else ""
        return f"on {count(len(self.samples), 'replica')} with {_listed(self.samples)} samples{more}"

    @property
    def total(self) -> int:
        """The size of the global batch."""
        return sum(self.samples)

    def draw(self, draw: Draw, features: int, labels: Sequence[int] = ()) -> list[dict[str, torch.Tensor]]:
        """Features, labels and weights of each replica. Labels of a sample have this shape."""
        fillers = self.fillers or [0] * len(self.samples)
        return [{
            "features": draw.normal((real + more, features)).to(self.dtype),
            "labels": draw.normal((real + more, *labels)).to(self.dtype),
            "weights": torch.tensor([draw.choice(WEIGHTS) if self.weighs else 1.0 for _ in range(real)] + [0.0] * more),
        } for real, more in zip(self.samples, fillers, strict=True)]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:-1])) + " and " * (len(numbers) > 1) + str(numbers[-1])


@task("losses", "weights", "global_batch_size", seconds=SECONDS, errors=[
    *SYMBOLIC, *((sign, "losses may be float64, and weights are float32: tf.cast(weights, losses.dtype).") for sign in ("does not match type", "cannot compute Mul")),
])
def check_global_batch_loss(draw: Draw, *, batches: Sequence[Shares]) -> Iterator[Case]:
    """`function(losses, weights, global_batch_size)` on each replica: its share of the loss of the global batch."""
    check_there("tensorflow")
    for batch in batches:
        inputs = {"parameters": draw.normal((3,)).to(batch.dtype), "shares": batch.draw(draw, 3), "global_batch_size": batch.total}
        yield Case(batch.title, global_losses, [inputs], batch)


@check_global_batch_loss.judge
def _(seen: Seen) -> Remarks:
    given, size, every = seen.case.inputs[0], seen.facts.total, []
    replicas = len(given["shares"])
    for share in given["shares"]:
        parameters = given["parameters"].double().requires_grad_()
        losses = (share["features"].double() @ parameters - share["labels"].double()) ** 2
        every.append((losses, share["weights"].double(), parameters))
    whole = sum(((losses * weights).sum() for losses, weights, _ in every), torch.zeros(())).detach() / size
    all_weights = torch.cat([weights for _, weights, _ in every]).sum()
    for replica, (losses, weights, parameters) in enumerate(every):
        found, gradient, total = seen[0]["losses"][replica], seen[0]["gradients"][replica], (losses * weights).sum()
        what, right = f"on replica {replica} the loss", total / size
        if isinstance(found, torch.Tensor) and found.isnan().any() and not right.isnan():
            yield Remark(f"{what} is NaN.", cause="this replica has nothing that counts, and 0 / 0 is NaN. Its share is 0: a sum of nothing, divided by the global batch size.")
        yield _loss_form(what, found, seen.facts.dtype)
        yield holds(what, found, right.detach().to(seen.facts.dtype), _loss_mistakes(losses.detach(), weights, size, replicas, whole, all_weights, seen.facts.dtype), same=close,
                    otherwise="it is the sum of weights * losses over this replica's samples, divided by global_batch_size.")
        if not right.requires_grad:
            continue
        (expected,) = torch.autograd.grad(right, parameters)
        if gradient is None:
            yield Remark(f"on replica {replica} the loss has no gradient.", cause="something cuts it off: numpy(), float(), tf.numpy_function, tf.constant(…) of a result or in its place, tf.stop_gradient, or a tf.Variable that it is stored in.")
        yield holds(f"on replica {replica} the gradient", gradient, expected.to(seen.facts.dtype), same=close, otherwise="the loss itself is right. Does something in it have no gradient, such as tf.stop_gradient or a rounding?")


def _loss_form(what: str, found: Any, dtype: torch.dtype) -> Remark | None:
    """What is wrong if it is not one number of the right dtype."""
    if not isinstance(found, torch.Tensor):
        return Remark(f"{what} is {shown(found)}; expected was a tensor.", cause="does the last line return the loss?")
    if found.dim():
        return Remark(f"{what} has the shape {list(found.shape)}; expected was one number.", cause="this is a number for each sample: add them up.")
    if found.dtype != dtype:
        return Remark(f"{what} is {dtype_name(found.dtype)}; expected was {dtype_name(dtype)}.", cause="the share has the dtype of the losses. Cast the weights, not the losses: tf.cast(weights, losses.dtype).")
    return None


def _loss_mistakes(losses: torch.Tensor, weights: torch.Tensor, size: int, replicas: int, whole: torch.Tensor, all_weights: torch.Tensor, dtype: torch.dtype) -> dict[str, Any]:
    number, total = max(len(losses), 1), (losses * weights).sum()
    table = {
        "the weights are left out, or only asked whether they are 0. Multiply each loss by its weight: any number, and 0 for a sample that only fills up the batch.": [losses.sum() / size, losses[weights > 0].sum() / size],
        "this is the mean of this replica's own samples. The sum over the replicas is then too large: as often as there are replicas, if all are alike. Divide the sum by global_batch_size. (Or was that done, and then multiplied by the number of replicas? The shares are added up, not averaged.)": [total / number, total / weights.sum().clamp(min=1e-9), losses.sum() / number],
        "this is the sum. Divide it by global_batch_size.": [total],
        "it is divided by the number of replicas, too. global_batch_size counts the samples of all replicas already, and the shares of the replicas are added up.": [total / size / replicas],
        "it is multiplied by the number of replicas. The shares are added up, not averaged.": [total / size * replicas],
        "this is the mean, divided by global_batch_size: two divisions. Divide the sum.": [total / number / size],
        "this is the mean of the replica's samples, divided by the number of replicas. That is right only if all replicas have equally many samples.": [total / number / replicas, total / weights.sum().clamp(min=1e-9) / replicas],
        "this is the loss of all replicas. Return this replica's share: the training step adds them up.": [whole],
        "this is the loss of all replicas, in equal parts. The share has this replica's own samples alone, and nothing is communicated.": [whole / replicas],
        "it is divided by the sum of the weights. global_batch_size counts samples: one of weight 2 counts twice in the sum, and once in the divisor.": [total / all_weights],
    }
    return {words: [value.to(dtype) for value in values] for words, values in table.items()} if losses.numel() else {}


# ── distributed_train_step ───────────────────────────────────────────────────────────────────────────────────────────

RATE = 0.07
RATE_OF_THE_EXAMPLE = 0.1
SCALARS = 16  # bytes that a replica may send and get besides its gradients: the loss, the global batch size, a counter
STEP = "strategy.run(on_replica, args=(features, labels, weights))"


@task("strategy", "variables", "loss_function", "learning_rate", seconds=SECONDS, allowed=["distlib.frameworks.tensorflow_graphs"], errors=[
    *SYMBOLIC,
    ("in a cross-replica context", "this belongs outside of strategy.run."), ("in a replica context", "this belongs inside of strategy.run."),
    *((sign, "does tape.gradient come after the `with` block of the tape, and is the loss computed in it?") for sign in ("NoneType", "None values", "value None")),
    ("merge_call() calls", "all replicas take part in every all-reduce, also one that has no samples."),
    ("PerReplica", "outside of strategy.run a value is a PerReplica, one for each replica: hand it to strategy.run, or reduce it with strategy.reduce(\"SUM\", value, axis=None)."),
])
def check_distributed_train_step(draw: Draw, *, plans: Sequence[Shares], steps: int = 2, biases: int = 1) -> Iterator[Case]:
    """`function(strategy, variables, loss_function, learning_rate)` makes a tf.function, one step of SGD on all replicas.

    Every step of a case has a batch like its `Shares`. The variables are a matrix of 24 bytes and biases of 8.
    """
    check_there("tensorflow")
    for plan in plans:
        assert len(plan.samples) <= DEVICES
        inputs = {
            "variables": [draw.normal((3, 2)).float(), *(draw.normal((2,)).float() for _ in range(biases))], "learning_rate": RATE,
            "batches": [plan.draw(draw, 3, (2,)) for _ in range(steps)], "sizes": [plan.total] * steps,
        }
        yield Case(plan.title, training, [inputs], plan)


@dataclass(frozen=True)
class OneDevice:
    """A step on one device, in float64: the gradients of each replica's sum of weights * losses, and what was given."""

    start: Sequence[torch.Tensor]
    sums: Sequence[Sequence[torch.Tensor]]
    unweighted: Sequence[Sequence[torch.Tensor]]
    losses: Sequence[torch.Tensor]
    weights: Sequence[torch.Tensor]

    @classmethod
    def of(cls, start: Sequence[torch.Tensor], shares: Sequence[dict[str, torch.Tensor]]) -> OneDevice:
        """The step that begins with these variables."""
        sums, unweighted, every = [], [], []
        for share in shares:
            matrix, *biases = variables = [each.double().detach().requires_grad_() for each in start]
            losses = (share["features"].double() @ matrix + sum(biases) - share["labels"].double()).square().sum(dim=1)
            sums.append(torch.autograd.grad((losses * share["weights"]).sum(), variables, retain_graph=True))
            unweighted.append(torch.autograd.grad(losses.sum(), variables))
            every.append(losses.detach())
        return cls([each.double() for each in start], sums, unweighted, every, [share["weights"].double() for share in shares])

    def after(self, gradients: Sequence[Sequence[torch.Tensor]], divided_by: float = 1) -> list[torch.Tensor]:
        """The variables, if each replica brought such gradients and their sum was divided by a number."""
        total = [torch.stack(list(each)).sum(dim=0) for each in zip(*gradients, strict=True)]
        return [start - RATE * each / divided_by for start, each in zip(self.start, total, strict=True)]

    def means(self, rows: bool) -> list[list[torch.Tensor]]:
        """Each replica's gradients, divided by its number of samples: all of them, or those that have a weight."""
        numbers = [len(each) if rows else float(each.sum()) for each in self.weights]
        return [[each / max(number, 1e-9) for each in gradients] for gradients, number in zip(self.sums, numbers, strict=True)]


@check_distributed_train_step.judge
def _(seen: Seen) -> Remarks:
    given, played = seen.case.inputs[0], seen[0]
    if not played["is_function"]:
        yield Remark("what it returns is not a tf.function.", cause="put @tf.function above the inner function, and return that: `return step`. It must not be called here." )
    start, nbytes = given["variables"], sum(each.nbytes for each in given["variables"])
    for number, (shares, size) in enumerate(zip(given["batches"], given["sizes"], strict=True)):
        one = OneDevice.of(start, shares)
        start = one.after(one.sums, size)
        yield from _variables(f"after step {number + 1}", played["variables"][number], one, size)
        yield _step_loss(f"what step {number + 1} returned", played["losses"][number], one, size, start, shares)
        yield _calls(number, played["calls"][number], [len(share["features"]) for share in shares])
    yield _copied(played["copied"], len(seen.facts.samples), nbytes)


def _copied(copied: Sequence[tuple[str, str, int]], replicas: int, nbytes: int) -> Remark | None:
    """What the graph copies between devices: the gradients to one of them, their sum to the others, a few numbers."""
    least = 2 * (replicas - 1) * nbytes
    if any(size < 0 for *_, size in copied):
        return Remark("its graph copies tensors between devices whose size it does not know.", cause="is something gathered or masked on the way? Gradients have the shapes of their variables.")
    if sum(size for *_, size in copied) <= least + 2 * (replicas - 1) * SCALARS:
        return None
    lines = tuple(f"{source} to {destination}: {sum(size for *way, size in copied if way == [source, destination])} bytes" for source, destination in dict.fromkeys((a, b) for a, b, _ in copied))
    return Remark(f"its graph copies {sum(size for *_, size in copied)} bytes between devices.", lines, f"the gradients have {nbytes} bytes. One reduction of them for all {replicas} replicas takes {least}: each replica sends its own, and gets the sum. Samples stay where they are.")


def _variables(when: str, found: Sequence[Sequence[torch.Tensor]], one: OneDevice, size: int) -> Remarks:
    right, replicas = one.after(one.sums, size), len(one.sums)
    own = [one.after([gradients], size) for gradients in one.sums]
    mistakes: dict[str, list[Sequence[torch.Tensor]]] = {
        "it is as it was before. Does the step assign to the variables?": [one.start],
        "only the gradient of replica 0 has arrived. Add those of all replicas up.": [own[0], one.after(one.means(True)[:1]), one.after(one.means(False)[:1])] if replicas > 1 else [],
        "the gradients of the replicas were averaged, but each is divided by global_batch_size already. Add them up: SUM, not MEAN.": [one.after(one.sums, size * replicas)],
        "each replica has divided by its own number of samples, and the sum of these means is too large. Divide by global_batch_size. (Or are the gradients added up twice, in an all-reduce and again in strategy.reduce?)": [one.after(one.means(True)), one.after(one.means(False))],
        "this is a mean of the replicas' means. With unequal numbers of samples that is another number: divide by global_batch_size, and add up.": [one.after(one.means(True), replicas), one.after(one.means(False), replicas)],
        "the losses are not divided by global_batch_size.": [one.after(one.sums), one.after(one.sums, replicas)],
        "the weights are left out. Multiply the loss of each sample by its weight.": [one.after(one.unweighted, size)],
        "samples of weight 0 count in the division. Divide by the global_batch_size that the step is given.": [one.after(one.sums, sum(map(len, one.weights))), one.after(one.unweighted, sum(map(len, one.weights)))],
        "the gradients are added up twice, so they count as often as there are replicas: in the all-reduce, and again where the result is assigned.": [one.after(one.sums, size / replicas)],
        "it is divided by the sum of the weights. Divide by the global_batch_size that the step is given: it counts samples.": [one.after(one.sums, float(torch.cat(list(one.weights)).sum()))],
        "it has another learning rate, that of the example. Take the one that is passed.": [one.after(one.sums, size * RATE / RATE_OF_THE_EXAMPLE)],
        "the sign is wrong: variable - learning_rate * gradient.": [one.after(one.sums, -size)],
        "the learning rate is left out.": [one.after(one.sums, size * RATE)],
    }
    for variable, name in enumerate(("matrix", "bias", "second bias")[:len(found)]):
        copies = found[variable]
        if replicas > 1 and any(not torch.equal(copies[0], copy) for copy in copies) and all(close(copy.double(), own[r][variable]) for r, copy in enumerate(copies)):
            yield Remark(f"{when} every replica has another {name}.", cause="every replica has applied its own gradient only. Add the gradients of all replicas up first, then update every copy with the sum.")
        for replica, copy in enumerate(copies):
            fitting = {words: [each[variable].float() for each in values] for words, values in mistakes.items()}
            at = f" on replica {replica}" * (replicas > 1)
            yield holds(f"{when} the variable {name}{at}", copy, right[variable].float(), fitting, same=close, otherwise="variable - learning_rate * gradient, with the gradient of the sum of weights * losses over all replicas, divided by global_batch_size.")
        if any(not torch.equal(copies[0], copy) for copy in copies):
            yield Remark(f"{when} the copies of the variable {name} differ in their last digits.", cause="every copy must get the same sum: reduce once, and hand the result to all.")


def _step_loss(what: str, found: Any, one: OneDevice, size: int, after: Sequence[torch.Tensor], shares: Sequence[dict[str, torch.Tensor]]) -> Remark | None:
    own = [(losses * weights).sum() for losses, weights in zip(one.losses, one.weights, strict=True)]
    total, later = sum(own, torch.zeros(())), OneDevice.of(after, shares)
    if not isinstance(found, torch.Tensor):
        cause = "the last line must return the loss." if found is None else "a PerReplica has a loss for each replica. strategy.reduce(\"SUM\", losses, axis=None) adds them up." if type_of(found) == "PerReplica" else "return the loss of the global batch, a tensor with one number."
        return Remark(f"{what} is {shown(found)}; expected was a number.", cause=cause)
    mistakes = {
        "this is the loss of replica 0 alone. Add up those of all replicas.": [own[0] / size],
        "this is the mean over the replicas. Each loss is divided by global_batch_size already: add them up.": [total / size / len(own)],
        "this is the sum over all samples. Divide it by global_batch_size.": [total],
        "this is the loss after the update. The loss that the gradients belong to is asked for.": [sum(((x * w).sum() for x, w in zip(later.losses, later.weights, strict=True)), torch.zeros(())) / size],
        "the weights are left out of it.": [sum((each.sum() for each in one.losses), torch.zeros(())) / size],
        "it is counted as often as there are replicas.": [total / size * len(own)],
    }
    return holds(what, found, (total / size).float(), {words: [each.float() for each in values] for words, values in mistakes.items()}, same=close, otherwise="it is the loss of the global batch, one number: the sum of weights * losses over all replicas, divided by global_batch_size.")


def _calls(number: int, calls: Sequence[tuple[int, int]], rows: Sequence[int]) -> Remark | None:
    """Who has computed the losses of what: in step 0, when the function is traced, every replica its own; later nobody."""
    right = list(enumerate(rows))
    if number:
        return Remark(f"loss_function was called again in step {number + 1}, as in the first.", cause="a tf.function calls Python once, and then runs its graph. Is the tf.function made anew in each call, is it called with Python numbers, or is eager execution on?") if calls else None
    if sorted(set(calls)) == right:
        return None
    lines = tuple(f"{_device(device)}: {count(samples, 'sample')}" for device, samples in calls)
    if not calls:
        return Remark("loss_function was never called.", cause="it computes the losses, on every replica.")
    if any(samples == sum(rows) for _, samples in calls) and len(rows) > 1:
        return Remark("the losses of the whole batch are computed in one place.", lines, f"every replica computes with its own samples: {STEP}.")
    if len({device for device, _ in calls}) < len(rows):
        return Remark("not every replica computes the losses of its samples.", lines, f"strategy.run lets all of them compute: {STEP}.")
    return Remark("the replicas don't compute the losses of their own samples.", lines, f"{STEP} gives each replica its own.")


def _device(number: int) -> str:
    return "on a device that is left open" if number < 0 else f"on CPU:{number}"


# ── shard_input ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Pipeline:
    """A data set and its workers.

    Attributes:
        samples: in the data set.
        num_workers, global_batch_size: as the function is given them.
        shape, dtype: of a sample.
        is_counted: whether the data set knows its length.
        indices: of the workers; by default all.
        refused: numbers that the ValueError must name; none: it is a pipeline that works.
    """

    samples: int
    num_workers: int
    global_batch_size: int
    shape: Sequence[int] = ()
    dtype: torch.dtype = torch.int64
    is_counted: bool = True
    indices: Sequence[int] = ()
    refused: Sequence[int] = ()

    @property
    def steps(self) -> int:
        """Global batches, the last one filled up."""
        return math.ceil(self.samples / self.global_batch_size)

    @property
    def share(self) -> int:
        """Samples of a worker in a step."""
        return self.global_batch_size // self.num_workers


SHARD_ERRORS = [
    ("__len__", "a data set may not know its length: len(dataset) is not there then. batch knows where the end is."),
    ("length is unknown", "a data set may not know its length: len(dataset) is not there then. batch knows where the end is."),
    ("be rank", "samples may have any shape, and single numbers have none: the first dimension of a batch counts samples, and there may be no other."),
    ("not iterable", "return a tf.data.Dataset."), *SYMBOLIC,
]


def _shard_errors(seen: Seen) -> Sequence[tuple[str, str]]:
    late = ("ValueError", "the error comes late, when the data set is read. Look at the numbers first, in shard_input itself.")
    return [late] if seen.facts.refused else SHARD_ERRORS


@task("dataset", "num_workers", "index", "global_batch_size", seconds=SECONDS, errors=_shard_errors)
def check_shard_input(draw: Draw, *, pipelines: Sequence[Pipeline]) -> Iterator[Case]:
    """`function(dataset, num_workers, index, global_batch_size)`: the batches of a worker, and weights for their samples."""
    check_there("tensorflow")
    for plan in pipelines:
        numbers = torch.tensor(draw.sample(range(1, 1_000_000), plan.samples * math.prod(plan.shape)), dtype=plan.dtype)
        indices = list(plan.indices or range(plan.num_workers))
        inputs = {"samples": numbers.reshape(plan.samples, *plan.shape), "num_workers": plan.num_workers, "indices": indices,
                  "global_batch_size": plan.global_batch_size, "is_counted": plan.is_counted}
        unknown = ", a data set of unknown length" * (not plan.is_counted)
        which = f"{count(plan.num_workers, 'worker')}" if len(indices) > 1 or plan.num_workers == 1 else f"worker {indices[0]} of {plan.num_workers}"
        yield Case(f"for {which}, {count(plan.samples, 'sample')}, a global batch of {plan.global_batch_size}{unknown}", shards, [inputs], plan)


@check_shard_input.judge
def _(seen: Seen) -> Remarks:
    plan, found = seen.facts, seen[0]
    for worker, each in enumerate(found):
        refused = each.get("refused") if isinstance(each, dict) else None
        if plan.refused and refused is None:
            yield Remark("it returned a pipeline; expected was a ValueError.", cause=f"raise ValueError, and name {' and '.join(map(str, plan.refused))}: a share must be a whole number of samples, and an index one of 0 … num_workers - 1.")
        if plan.refused:
            missing = [number for number in plan.refused if str(number) not in str(refused)]
            yield Remark(f"its ValueError does not name {missing[0]}.", (f"found    {shown(refused)}",), "whoever reads it has not seen your code. Put the numbers into its text.") if missing else None
        elif refused is not None:
            cause = next((words for sign, words in SHARD_ERRORS if sign in refused), "nothing is wrong with these numbers.")
            yield Remark(f"for worker {worker} it raised ValueError.", (f"found    {refused}",), cause)
    if not plan.refused:
        yield from _batches(plan, found)
        yield from _samples(plan, found, seen.case.inputs[0]["samples"])


def _batches(plan: Pipeline, found: Sequence[Sequence[Any]]) -> Remarks:
    """Their number and shapes."""
    shape = [plan.share, *plan.shape]
    for worker, batches in enumerate(found):
        if "endless" in batches:
            yield Remark(f"worker {worker}'s pipeline does not end.", cause="the data set is gone through once: no repeat().")
        for batch in batches:
            if len(batch) != 2 or not all(isinstance(part, torch.Tensor) for part in batch):
                yield Remark(f"a batch of worker {worker} is {count(len(batch), 'value')}; expected were two tensors.", cause="a batch is a pair: (samples, weights).")
    sizes = [len(batch[0]) for batches in found for batch in batches if batch[0].dim()]
    if plan.num_workers > 1 and sizes and max(sizes) > plan.share:
        yield Remark(f"a worker gets {count(max(sizes), 'sample')} in a step; expected was {plan.share}.", cause="global_batch_size is that of all workers together: each gets global_batch_size / num_workers of it.")
    for worker, batches in enumerate(found):
        if len(batches) != plan.steps:
            yield Remark(f"worker {worker} gets {count(len(batches), 'batch')}; expected were {plan.steps}.", _in_numbers(found), _why_steps(plan, [len(each) for each in found]))
    for worker, batches in enumerate(found):
        for number, (samples, weights) in enumerate(batches):
            if list(samples.shape) != shape:
                yield Remark(f"batch {number} of worker {worker} has the shape {list(samples.shape)}; expected was {shape}.", cause="the last batch has to be filled up: every step of every worker has the same shape. What stands there does not matter, its weight is 0." if number == plan.steps - 1 else "a full global batch gives each worker global_batch_size // num_workers samples. `index` counts from 0.")
            if samples.dtype != plan.dtype:
                yield Remark(f"batch {number} of worker {worker} is {dtype_name(samples.dtype)}; expected was {dtype_name(plan.dtype)}, as in the data set.", cause="what fills up has the dtype of the samples, and these keep theirs.")
            if not samples.isfinite().all():
                yield Remark(f"batch {number} of worker {worker} has numbers that are not finite.", cause="what fills up goes through the model, too: a loss of NaN is NaN also with the weight 0. tf.zeros will do.")
            if list(weights.shape) != shape[:1] or weights.dtype != torch.float32:
                yield Remark(f"the weights of batch {number} of worker {worker} are {dtype_name(weights.dtype)} of shape {list(weights.shape)}; expected was float32 of shape {shape[:1]}.", cause="one weight for each sample of the batch: 1.0, or 0.0 if it only fills up.")
            if not ((weights == 0) | (weights == 1)).all():
                yield Remark(f"batch {number} of worker {worker} has the weights {weights.tolist()}.", cause="1.0 for a sample, 0.0 for one that only fills up.")


def _in_numbers(found: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    return tuple(f"worker {worker}: batches of {', '.join(str(len(batch[0])) for batch in batches) or 'nothing'}" for worker, batches in enumerate(found))


def _why_steps(plan: Pipeline, numbers: Sequence[int]) -> str:
    if len(set(numbers)) > 1:
        return "all workers need equally many batches: one that has fewer leaves the others waiting in the all-reduce. The last may be nothing but filling."
    if numbers[0] < plan.steps:
        return "the samples that don't fill a batch are dropped. Is it drop_remainder? Fill the batch up, with weight 0."
    return "every worker goes through all samples. Each gets only its share of a step." if numbers[0] == math.ceil(plan.samples / plan.share) and plan.num_workers > 1 else "the last global batch is the one that is filled up. After it comes nothing."


def _samples(plan: Pipeline, found: Sequence[Sequence[Any]], samples: torch.Tensor) -> Remarks:
    """Every one once, and in its step."""
    names = {tuple(sample.flatten().tolist()): number for number, sample in enumerate(samples)}
    real: dict[tuple[int, int], list[int]] = {}
    for worker, batches in enumerate(found):
        for step, (values, weights) in enumerate(batches):
            known = [names.get(tuple(each.flatten().tolist()), -1) for each in values[weights == 1]]
            if -1 in known:
                yield Remark(f"in step {step}, worker {worker} has something with weight 1 that is not a sample.", cause="what fills a batch up has weight 0.")
            real[worker, step] = known
    times = Counter(number for each in real.values() for number in each)
    lines = tuple(f"worker {worker}: {'; '.join(_numbers(real[worker, step]) for step in range(len(batches)))}" for worker, batches in enumerate(found))
    for number, many in sorted(times.items()):
        if many > 1:
            yield Remark(f"sample {number} comes {many} times with weight 1.", lines, _why_repeated(plan, real))
    for number in range(plan.samples):
        if not times[number]:
            yield Remark(f"sample {number} comes with weight 1 nowhere.", lines, _why_dropped(plan, times))
    for (worker, step), numbers in real.items():
        for number in numbers:
            if number // plan.global_batch_size != step:
                first = step * plan.global_batch_size
                yield Remark(f"worker {worker} has sample {number} in step {step}.", lines, f"step {step} of all workers together is global batch {step} of the data set: its samples {first} … {min(first + plan.global_batch_size, plan.samples) - 1}. Who has which of them is free.")


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "–"


def _why_repeated(plan: Pipeline, real: Mapping[tuple[int, int], list[int]]) -> str:
    workers = [{number for (worker, _), numbers in real.items() if worker == each for number in numbers} for each in range(plan.num_workers)]
    if plan.num_workers > 1 and all(each == workers[0] for each in workers):
        return "all workers have the same samples: `index` says which share is a worker's own."
    last = [number for (_, step), numbers in real.items() if step == plan.steps - 1 for number in numbers]
    if len(last) > len(set(last)) and plan.samples % plan.global_batch_size:
        return "a sample that is taken once more to fill a batch up gets weight 0: else it counts twice."
    if any(first & second for first in workers for second in workers if first is not second):
        return "two workers have it. Every sample belongs to one of them."
    return "the data set is gone through once, and every sample counts once."


def _why_dropped(plan: Pipeline, times: Mapping[int, int]) -> str:
    if all(times[number] for number in range(plan.samples // plan.global_batch_size * plan.global_batch_size)):
        return "the samples at the end don't fill a global batch. They count all the same: weight 1, and 0 for what fills up."
    return "every sample of the data set belongs to one worker, once."
# fmt: on
