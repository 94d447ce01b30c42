"""Exercise 13: TF_CONFIG, the loss of a global batch, a training step on all replicas, and the input of a worker.

Nothing here computes with TensorFlow: what a function gave is compared with what torch computes on one device.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, dtype_name
from distlib.checks.plays.calls import attempt
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import called, shown, type_of
from distlib.checks.rules.values import holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.tensorflow.plays import DEVICES, global_losses, shards, training
from distlib.frameworks.optional import check_there
from distlib.frameworks.tf_config import address_fault

say = Sentences(__file__)
SYMBOLIC = [("has no attribute 'numpy'", say("no_numpy")), ("symbolic", say("no_value"))]
SECONDS = 15.0  # a case takes less than one; but making graphs is work for Python, which a busy machine does slowly
close = partial(is_close, relative=1e-4, absolute=1e-5)  # rounding is free, in float32
WEIGHTS = (1.1, 2.1, 3.1)  # the sum of fewer than ten is no whole number: no count of samples or replicas equals it


# ── tf_config ────────────────────────────────────────────────────────────────────────────────────────────────────────

ROLES = ("chief", "worker", "ps", "evaluator")
Hosts = Mapping[str, Sequence[str]]


@task(
    "hosts",
    "role",
    "index",
    errors=[
        ("KeyError: 'TF_CONFIG'", say("no_variable")),
        ("KeyError", say("not_every_role")),
        ("raised", say("other_error")),
    ],
)
def check_tf_config(draw: Draw, *, tasks: Sequence[tuple[Hosts, str, int]], drawn: int = 0) -> Iterator[Case]:
    """`function(hosts, role, index)`: TF_CONFIG as JSON; ValueError for a cluster or a task that can't be.

    `drawn`: how many more clusters come at the end, which no table of answers has.
    """
    for hosts, role, index in (*tasks, *(_drawn_task(draw) for _ in range(drawn))):
        case = called(_copied_hosts(hosts), role, index, facts=(hosts, role, index))
        yield Case(case.title, attempt, case.inputs, case.facts)


def _drawn_task(draw: Draw) -> tuple[Hosts, str, int]:
    ports = iter(draw.sample(range(1024, 65536), 12))
    most = {"chief": 1, "worker": 4, "ps": 3, "evaluator": 1}

    def address() -> str:
        return f"10.0.{draw.randint(0, 255)}.{draw.randint(1, 254)}:{next(ports)}"

    roles = draw.sample(ROLES, draw.randint(2, 4))
    hosts = {role: [address() for _ in range(draw.randint(1, most[role]))] for role in roles}
    role = draw.choice(roles)
    return hosts, role, draw.randrange(len(hosts[role]))


def _copied_hosts(hosts: Hosts) -> dict[str, list[str]]:
    return {role: list(addresses) for role, addresses in hosts.items()}


@check_tf_config.judge
def _(seen: Seen) -> Remarks:
    hosts, role, index = seen.facts
    refused = seen[0].get("refused")
    if refusal := _refusal(hosts, role, index):
        yield _explain_refusal(seen[0], *refusal)
    elif refused is not None:
        yield say.remark("refused", f"found    {refused}", cause=_why_refused(hosts, refused))
    else:
        yield from _text(seen[0]["returned"], hosts, role, index)
        before, after = _copied_hosts(hosts), seen[0]["args"][0]
        if after != before:
            yield say.remark("hosts_changed", f"before   {shown(before)}", f"after    {shown(after)}")


def _refusal(hosts: Hosts, role: str, index: int) -> tuple[str, str] | None:
    """What the error must name, and why there must be one; None if nothing is wrong."""
    addresses = [address for each in hosts.values() for address in each]
    for each in (*hosts, role):
        if each not in ROLES:
            return each, say("strange_role", role=each, roles=", ".join(ROLES))
    for address in addresses:
        if fault := address_fault(address):
            return address, say("no_address", address=address, fault=fault)
        if addresses.count(address) > 1:
            return address, say("same_address")
    if len(hosts.get("chief", ())) > 1:
        return "chief", say("two_chiefs")
    if not hosts.get(role):
        return role, say("nobody", role=role)
    if not 0 <= index < len(hosts[role]):
        return str(index), say("negative" if index < 0 else "past_the_end", role=role, last=len(hosts[role]) - 1)
    return None


def _explain_refusal(played: Mapping[str, Any], named: str, cause: str) -> Remark | None:
    """What is wrong if there must be a ValueError that names something."""
    refused = played.get("refused")
    if refused is None:
        return say.remark("not_refused", f"found    {shown(played['returned'])}", named=named, cause=cause)
    if named not in refused:
        return say.remark("names_nothing", f"found    {shown(refused)}", named=named)
    return None


def _why_refused(hosts: Hosts, refused: str) -> str:
    if any(not each for each in hosts.values()):
        return say("empty_role_refused")
    if any(address in refused for each in hosts.values() for address in each):
        return say("address_refused")
    return say("role_refused")


def _text(found: Any, hosts: Hosts, role: str, index: int) -> Remarks:
    """What is wrong with the text that was returned."""
    yield _explain_text(found)
    yield from _differences(json.loads(found), hosts, role, index)


def _explain_text(found: Any) -> Remark | None:
    """What is wrong if it is not the text of a JSON object."""
    if found is None:
        return say.remark("returned_nothing")
    if not isinstance(found, str):
        return say.remark("returned_no_text", found=shown(found))
    line = f"found    {shown(found)}"
    try:
        value = json.loads(found)
    except ValueError as error:
        return say.remark("python_text" if "'" in found else "no_json", line, error=error)
    if isinstance(value, dict):
        return None
    return say.remark("json_twice" if isinstance(value, str) else "no_object", line)


def _differences(found: dict[str, Any], hosts: Hosts, role: str, index: int) -> Remarks:
    """What is wrong with TF_CONFIG, the first thing first."""
    cluster = {name: list(each) for name, each in hosts.items() if each}
    right = {"cluster": cluster, "task": {"type": role, "index": index}}
    for key, missing in (("cluster", "no_cluster"), ("task", "no_task")):
        if key not in found:
            yield say.remark(missing, f"found    {shown(found)}")
    for key in found.keys() - right.keys():
        yield say.remark("one_key_more", f"found    {shown(found)}", key=key)
    mistakes = {**_task_mistakes(cluster, role, index), **_cluster_mistakes(cluster, hosts, role, index)}
    for key, expected in right.items():
        if found[key] != expected:
            lines = f"expected {shown(expected)}", f"found    {shown(found[key])}"
            cause = next((say(name) for name, values in mistakes.items() if found[key] in values), "")
            yield say.remark("wrong_value", *lines, key=key, cause=cause)


def _task_mistakes(cluster: Hosts, role: str, index: int) -> dict[str, list[Any]]:
    """What usual mistakes give as the task."""
    address = cluster[role][index]
    before = sum(len(cluster[each]) for each in itertools.takewhile(lambda each: each != role, cluster))
    return {
        "index_as_text": [{"type": role, "index": str(index)}],
        "role_as_key": [{"role": role, "index": index}],
        "address_as_task": [address, {"type": role, "index": address}],
        "over_all_roles": [{"type": role, "index": before + index}],
        "from_one": [{"type": role, "index": index + 1}],
        "same_task": [{"type": role, "index": 0}, {"type": "worker", "index": index}, {"type": "worker", "index": 0}],
        "list_as_task": [[role, index], f"{role}:{index}", f"{role} {index}"],
    }


def _cluster_mistakes(cluster: Hosts, hosts: Hosts, role: str, index: int) -> dict[str, list[Any]]:
    """What usual mistakes give as the cluster."""
    others = {
        name: [address for k, address in enumerate(each) if (name, k) != (role, index)]
        for name, each in cluster.items()
    }
    workers = [*cluster.get("chief", []), *cluster.get("worker", [])]
    neither = {name: each for name, each in cluster.items() if name not in ("chief", "worker")}
    return {
        "empty_role": [_copied_hosts(hosts)],
        "own_role_only": [{role: cluster[role]}],
        "own_address_missing": [others, {name: each for name, each in others.items() if each}],
        "no_roles": [[address for each in cluster.values() for address in each]],
        "single_address": [{name: each[0] if len(each) == 1 else each for name, each in cluster.items()}],
        "no_ports": [
            {name: [address.rpartition(":")[0] for address in each] for name, each in cluster.items()},
        ],
        "sorted": [{name: sorted(each) for name, each in cluster.items()}],
        "chief_as_worker": [{"worker": workers, **neither}],
    }


# ── global_batch_loss ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Shares:
    """A global batch on replicas.

    Attributes:
        samples: how many real ones each replica has.
        fillers: how many more with weight 0; by default none.
        dtype: of losses; weights are float32.
        weighs: whether weights are other numbers than 1.
        features: of a sample.
        outputs: numbers of a label, in a training step.
    """

    samples: Sequence[int]
    fillers: Sequence[int] = ()
    dtype: torch.dtype = torch.float32
    weighs: bool = False
    features: int = 3
    outputs: int = 2

    @property
    def title(self) -> str:
        """How students read it."""
        more = f", and {_listed(self.fillers)} of weight 0" if self.fillers else ""
        return f"on {count(len(self.samples), 'replica')} with {_listed(self.samples)} samples{more}"

    @property
    def total(self) -> int:
        """The size of the global batch."""
        return sum(self.samples)

    def draw(self, draw: Draw, labels: Sequence[int] = ()) -> list[dict[str, torch.Tensor]]:
        """Features, labels and weights of each replica. Labels of a sample have this shape."""
        fillers = self.fillers or [0] * len(self.samples)
        return [
            {
                "features": draw.normal((real + more, self.features)).to(self.dtype),
                "labels": draw.normal((real + more, *labels)).to(self.dtype),
                "weights": self._drawn_weights(draw, real, more),
            }
            for real, more in zip(self.samples, fillers, strict=True)
        ]

    def _drawn_weights(self, draw: Draw, real: int, more: int) -> torch.Tensor:
        weights = [draw.choice(WEIGHTS) if self.weighs else 1.0 for _ in range(real)]
        return torch.tensor(weights + [0.0] * more)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:-1])) + " and " * (len(numbers) > 1) + str(numbers[-1])


@task(
    "losses",
    "weights",
    "global_batch_size",
    seconds=SECONDS,
    errors=[*SYMBOLIC, ("does not match type", say("two_dtypes")), ("cannot compute Mul", say("two_dtypes"))],
)
def check_global_batch_loss(draw: Draw, *, batches: Sequence[Shares]) -> Iterator[Case]:
    """`function(losses, weights, global_batch_size)` on each replica: its share of the loss of the global batch."""
    check_there("tensorflow")
    for batch in batches:
        inputs = {
            "parameters": draw.normal((batch.features,)).to(batch.dtype),
            "shares": batch.draw(draw),
            "global_batch_size": batch.total,
        }
        yield Case(batch.title, global_losses, [inputs], batch)


@dataclass(frozen=True)
class OwnLosses:
    """The losses of a replica's samples and their weights, as one device computes them, in float64."""

    losses: torch.Tensor
    weights: torch.Tensor
    parameters: torch.Tensor

    @classmethod
    def of(cls, parameters: torch.Tensor, share: Mapping[str, torch.Tensor]) -> OwnLosses:
        """With a gradient, from the replica's own parameters."""
        parameters = parameters.detach().double().requires_grad_()
        losses = (share["features"].double() @ parameters - share["labels"].double()) ** 2
        return cls(losses, share["weights"].double(), parameters)

    @property
    def total(self) -> torch.Tensor:
        """The sum of weights * losses."""
        return (self.losses * self.weights).sum()


@check_global_batch_loss.judge
def _(seen: Seen) -> Remarks:
    given, batch = seen.case.inputs[0], seen.facts
    every = [OwnLosses.of(given["parameters"], share) for share in given["shares"]]
    for replica, own in enumerate(every):
        what, found, right = f"on replica {replica} the loss", seen[0]["losses"][replica], own.total / batch.total
        yield _loss_form(what, found, batch.dtype)
        mistakes = _loss_mistakes(own, every, batch)
        yield holds(what, found, right.detach().to(batch.dtype), mistakes, same=close, otherwise=say("share"))
        (expected,) = torch.autograd.grad(right, own.parameters)
        gradient = seen[0]["gradients"][replica]
        if gradient is None:
            yield say.remark("no_gradient", replica=replica)
        what = f"on replica {replica} the gradient"
        yield holds(what, gradient, expected.to(batch.dtype), same=close, otherwise=say("wrong_gradient"))


def _loss_form(what: str, found: Any, dtype: torch.dtype) -> Remark | None:
    """What is wrong if it is not one number of the right dtype."""
    if not isinstance(found, torch.Tensor):
        return say.remark("no_tensor", what=what, found=shown(found))
    if found.isnan().any():
        return say.remark("nan", what=what)
    if found.dim():
        return say.remark("many_losses", what=what, shape=list(found.shape))
    if found.dtype != dtype:
        return say.remark("loss_dtype", what=what, found=dtype_name(found.dtype), dtype=dtype_name(dtype))
    return None


def _loss_mistakes(own: OwnLosses, every: Sequence[OwnLosses], batch: Shares) -> dict[str, list[torch.Tensor]]:
    """What usual mistakes give as a replica's share."""
    losses, weights, total = own.losses.detach(), own.weights, own.total.detach()
    if not losses.numel():
        return {}
    size, number, replicas = batch.total, len(losses), len(every)
    weighted_mean = total / weights.sum().clamp(min=1e-9)
    whole = sum((each.total.detach() for each in every), torch.zeros(())) / size
    table = {
        "loss_unweighted": [losses.sum() / size, losses[weights > 0].sum() / size],
        "loss_own_mean": [total / number, weighted_mean, losses.sum() / number],
        "loss_sum": [total],
        "loss_by_replicas": [total / size / replicas],
        "loss_times_replicas": [total / size * replicas],
        "loss_divided_twice": [total / number / size],
        "loss_mean_by_replicas": [total / number / replicas, weighted_mean / replicas],
        "loss_of_all": [whole],
        "loss_equal_parts": [whole / replicas],
        "loss_by_weights": [total / sum(each.weights.sum() for each in every)],
    }
    return {say(name): [value.to(batch.dtype) for value in values] for name, values in table.items()}


# ── distributed_train_step ───────────────────────────────────────────────────────────────────────────────────────────

RATE_OF_THE_EXAMPLE = 0.1
SCALARS = 16  # bytes that a replica may send and get besides its gradients: the loss, the global batch size, a counter


@task(
    "strategy",
    "variables",
    "loss_function",
    "learning_rate",
    seconds=SECONDS,
    allowed=["distlib.frameworks.tensorflow_graphs"],
    errors=[
        *SYMBOLIC,
        ("being in cross-replica context", say("outside")),
        *((sign, say("late_gradient")) for sign in ("NoneType", "None values", "value None")),
        ("merge_call() calls", say("not_all_reduce")),
        ("PerReplica", say("per_replica")),
    ],
)
def check_distributed_train_step(
    draw: Draw, *, plans: Sequence[Shares], steps: int = 2, has_number: bool = False, rate: float = 0.07
) -> Iterator[Case]:
    """`function(strategy, variables, loss_function, learning_rate)` makes a tf.function: SGD's step on all replicas.

    Every step of a case has a batch like its `Shares`. The variables are a matrix, [features, outputs], and a
    bias, [outputs]; `has_number`: and a second bias, which is a single number.
    """
    check_there("tensorflow")
    for plan in plans:
        assert len(plan.samples) <= DEVICES
        shapes = [(plan.features, plan.outputs), (plan.outputs,), *[()] * has_number]
        inputs = {
            "variables": [draw.normal(shape).float() for shape in shapes],
            "learning_rate": rate,
            "batches": [plan.draw(draw, [plan.outputs]) for _ in range(steps)],
            "sizes": [plan.total] * steps,
        }
        yield Case(plan.title, training, [inputs], plan)


@dataclass(frozen=True)
class OneDeviceGradients:
    """A step on one device, in float64: the gradients of each replica's sum of weights * losses, and what was given."""

    start: Sequence[torch.Tensor]
    sums: Sequence[Sequence[torch.Tensor]]
    unweighted: Sequence[Sequence[torch.Tensor]]
    losses: Sequence[torch.Tensor]
    weights: Sequence[torch.Tensor]
    rate: float

    @classmethod
    def of(
        cls, start: Sequence[torch.Tensor], shares: Sequence[dict[str, torch.Tensor]], rate: float
    ) -> OneDeviceGradients:
        """The step that begins with these variables."""
        sums, unweighted, every = [], [], []
        for share in shares:
            matrix, *biases = variables = [each.double().detach().requires_grad_() for each in start]
            losses = (share["features"].double() @ matrix + sum(biases) - share["labels"].double()).square().sum(dim=1)
            sums.append(torch.autograd.grad((losses * share["weights"]).sum(), variables, retain_graph=True))
            unweighted.append(torch.autograd.grad(losses.sum(), variables))
            every.append(losses.detach())
        weights = [share["weights"].double() for share in shares]
        return cls([each.double() for each in start], sums, unweighted, every, weights, rate)

    def after(self, gradients: Sequence[Sequence[torch.Tensor]], divided_by: float = 1) -> list[torch.Tensor]:
        """The variables, if each replica brought such gradients and their sum was divided by a number."""
        total = [torch.stack(list(each)).sum(dim=0) for each in zip(*gradients, strict=True)]
        return [start - self.rate * each / divided_by for start, each in zip(self.start, total, strict=True)]

    def means(self, rows: bool) -> list[list[torch.Tensor]]:
        """Each replica's gradients, divided by its number of samples: all of them, or those that have a weight."""
        numbers = [len(each) if rows else float(each.sum()) for each in self.weights]
        return [
            [each / max(number, 1e-9) for each in gradients]
            for gradients, number in zip(self.sums, numbers, strict=True)
        ]

    def totals(self) -> list[torch.Tensor]:
        """Each replica's sum of weights * losses."""
        return [(losses * weights).sum() for losses, weights in zip(self.losses, self.weights, strict=True)]


@check_distributed_train_step.judge
def _(seen: Seen) -> Remarks:
    given, played = seen.case.inputs[0], seen[0]
    if not played["is_function"]:
        yield say.remark("no_function")
    start, nbytes = given["variables"], sum(each.nbytes for each in given["variables"])
    for number, (shares, size) in enumerate(zip(given["batches"], given["sizes"], strict=True)):
        one = OneDeviceGradients.of(start, shares, given["learning_rate"])
        start = one.after(one.sums, size)
        later = OneDeviceGradients.of(start, shares, one.rate)
        yield from _variables(f"after step {number + 1}", played["variables"][number], one, size)
        yield _step_loss(f"what step {number + 1} returned", played["losses"][number], one, later, size)
        yield _calls(number, played["calls"][number], [len(share["features"]) for share in shares])
    yield _copied(played["copied"], len(seen.facts.samples), nbytes)


def _variables(when: str, found: Sequence[Sequence[torch.Tensor]], one: OneDeviceGradients, size: int) -> Remarks:
    """Every replica's copies of the variables."""
    right, replicas = one.after(one.sums, size), len(one.sums)
    own = [one.after([gradients], size) for gradients in one.sums]
    mistakes = _update_mistakes(one, size)
    for variable, name in enumerate(("matrix", "bias", "second bias")[: len(found)]):
        copies = found[variable]
        differ = any(not torch.equal(copies[0], copy) for copy in copies)
        if differ and all(close(copy.double(), own[r][variable]) for r, copy in enumerate(copies)):
            yield say.remark("own_gradients", when=when, variable=name)
        fitting = {say(words): [each[variable].float() for each in values] for words, values in mistakes.items()}
        for replica, copy in enumerate(copies):
            what = f"{when} the variable {name}" + f" on replica {replica}" * (replicas > 1)
            yield holds(what, copy, right[variable].float(), fitting, same=close, otherwise=say("update"))
        if differ:
            yield say.remark("last_digits", when=when, variable=name)


def _update_mistakes(one: OneDeviceGradients, size: int) -> dict[str, list[list[torch.Tensor]]]:
    """What usual mistakes make of the variables."""
    replicas, rows, weight = len(one.sums), sum(map(len, one.weights)), float(torch.cat(list(one.weights)).sum())
    by_rows, by_weight = one.means(rows=True), one.means(rows=False)
    first = [one.after(one.sums[:1], size), one.after(by_rows[:1]), one.after(by_weight[:1])]
    return {
        "unchanged": [list(one.start)],
        "first_replica": first if replicas > 1 else [],
        "averaged": [one.after(one.sums, size * replicas)],
        "sum_of_means": [one.after(by_rows), one.after(by_weight)],
        "mean_of_means": [one.after(by_rows, replicas), one.after(by_weight, replicas)],
        "not_divided": [one.after(one.sums), one.after(one.sums, replicas)],
        "unweighted": [one.after(one.unweighted, size)],
        "fillers_counted": [one.after(one.sums, rows), one.after(one.unweighted, rows)],
        "added_twice": [one.after(one.sums, size / replicas)],
        "by_weights": [one.after(one.sums, weight)],
        "rate_of_example": [one.after(one.sums, size * one.rate / RATE_OF_THE_EXAMPLE)],
        "uphill": [one.after(one.sums, -size)],
        "no_rate": [one.after(one.sums, size * one.rate)],
    }


def _step_loss(what: str, found: Any, one: OneDeviceGradients, later: OneDeviceGradients, size: int) -> Remark | None:
    """What is wrong with the loss that a step returned. `later`: the same batch after the update."""
    if found is None:
        return say.remark("step_returned_nothing", what=what)
    if not isinstance(found, torch.Tensor):
        name = "step_per_replica" if type_of(found) == "PerReplica" else "step_no_number"
        return say.remark(name, what=what, found=shown(found))
    own, total = one.totals(), _sum(one.totals())
    mistakes = {
        "step_loss_first": own[0] / size,
        "step_loss_mean": total / size / len(own),
        "step_loss_sum": total,
        "step_loss_after": _sum(later.totals()) / size,
        "step_loss_unweighted": _sum([each.sum() for each in one.losses]) / size,
        "step_loss_multiplied": total / size * len(own),
    }
    fitting = {say(name): value.float() for name, value in mistakes.items()}
    return holds(what, found, (total / size).float(), fitting, same=close, otherwise=say("step_loss"))


def _sum(numbers: Sequence[torch.Tensor]) -> torch.Tensor:
    return sum(numbers, torch.zeros(()))


def _calls(number: int, calls: Sequence[tuple[int, int]], rows: Sequence[int]) -> Remark | None:
    """Who has computed the losses of what: in step 0, when it is traced, every replica its own; later nobody."""
    if number:
        return say.remark("called_again", step=number + 1) if calls else None
    if not calls:
        return say.remark("never_called")
    busy = {device for device, _ in calls}
    is_idle = any(samples and device not in busy for device, samples in enumerate(rows))
    if not is_idle and all(device in range(len(rows)) and samples <= rows[device] for device, samples in calls):
        return None
    lines = [f"{_device(device)}: {count(samples, 'sample')}" for device, samples in calls if samples >= 0]
    if any(samples == sum(rows) for _, samples in calls) and len(rows) > 1:
        return say.remark("one_place", *lines)
    if is_idle:
        return say.remark("idle_replicas", *lines)
    return say.remark("others_samples", *lines)


def _device(number: int) -> str:
    return "on a device that is left open" if number < 0 else f"on CPU:{number}"


def _copied(copied: Sequence[tuple[str, str, int]], replicas: int, nbytes: int) -> Remark | None:
    """What the graph copies between devices: the gradients to one of them, their sum to the others, a few numbers."""
    if any(size < 0 for *_, size in copied):
        return say.remark("unknown_size")
    by_way: Counter[tuple[str, str]] = Counter()
    for source, destination, size in copied:
        by_way[source, destination] += size
    least = 2 * (replicas - 1) * nbytes
    if by_way.total() <= least + 2 * (replicas - 1) * SCALARS:
        return None
    lines = [f"{source} to {destination}: {size} bytes" for (source, destination), size in by_way.items()]
    return say.remark("copies_too_much", *lines, copied=by_way.total(), nbytes=nbytes, replicas=replicas, least=least)


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
    def title(self) -> str:
        """How students read it."""
        who = count(self.num_workers, "worker")
        if len(self.workers) == 1 < self.num_workers:
            who = f"worker {self.workers[0]} of {self.num_workers}"
        unknown = ", a data set of unknown length" * (not self.is_counted)
        return f"for {who}, {count(self.samples, 'sample')}, a global batch of {self.global_batch_size}{unknown}"

    @property
    def workers(self) -> list[int]:
        """The indices that the function is called for."""
        return list(self.indices or range(self.num_workers))

    @property
    def steps(self) -> int:
        """Global batches, the last one filled up."""
        return math.ceil(self.samples / self.global_batch_size)

    @property
    def share(self) -> int:
        """Samples of a worker in a step."""
        return self.global_batch_size // self.num_workers


SHARD_ERRORS = [
    ("__len__", say("unknown_length")),
    ("length is unknown", say("unknown_length")),
    ("be rank", say("one_dimension")),
    ("not iterable", say("no_dataset")),
    *SYMBOLIC,
]


def _shard_errors(seen: Seen) -> Sequence[tuple[str, str]]:
    return [("ValueError", say("late_error"))] if seen.facts.refused else SHARD_ERRORS


@task("dataset", "num_workers", "index", "global_batch_size", seconds=SECONDS, errors=_shard_errors)
def check_shard_input(draw: Draw, *, pipelines: Sequence[Pipeline]) -> Iterator[Case]:
    """`function(dataset, num_workers, index, global_batch_size)`: a worker's batches, with the samples' weights."""
    check_there("tensorflow")
    for plan in pipelines:
        numbers = draw.sample(range(1, 1_000_000), plan.samples * math.prod(plan.shape))
        inputs = {
            "samples": torch.tensor(numbers, dtype=plan.dtype).reshape(plan.samples, *plan.shape),
            "num_workers": plan.num_workers,
            "indices": plan.workers,
            "global_batch_size": plan.global_batch_size,
            "is_counted": plan.is_counted,
        }
        yield Case(plan.title, shards, [inputs], plan)


@check_shard_input.judge
def _(seen: Seen) -> Remarks:
    plan, found = seen.facts, seen[0]
    for worker, each in enumerate(found):
        refused = each.get("refused") if isinstance(each, dict) else None
        if plan.refused:
            yield _late_or_nameless(plan, refused)
        elif refused is not None:
            cause = next((words for sign, words in SHARD_ERRORS if sign in refused), say("right_numbers"))
            yield say.remark("pipeline_refused", f"found    {refused}", worker=worker, cause=cause)
    if not plan.refused:
        yield from _batches(plan, found)
        yield from _samples(plan, found, seen.case.inputs[0]["samples"])


def _late_or_nameless(plan: Pipeline, refused: str | None) -> Remark | None:
    """What is wrong where there must be a ValueError that names some numbers."""
    if refused is None:
        return say.remark("pipeline_not_refused", numbers=" and ".join(map(str, plan.refused)))
    for number in plan.refused:
        if str(number) not in refused:
            return say.remark("names_no_number", f"found    {shown(refused)}", number=number)
    return None


def _batches(plan: Pipeline, found: Sequence[Sequence[Any]]) -> Remarks:
    """How many batches each worker got, and of which shapes."""
    for worker, batches in enumerate(found):
        yield from _pairs(worker, batches)
    sizes = [len(batch[0]) for batches in found for batch in batches if batch[0].dim()]
    if plan.num_workers > 1 and sizes and max(sizes) > plan.share:
        yield say.remark("large_share", samples=count(max(sizes), "sample"), share=plan.share)
    for worker, batches in enumerate(found):
        if len(batches) != plan.steps:
            numbers, cause = count(len(batches), "batch"), _why_steps(plan, [len(each) for each in found])
            yield say.remark(
                "steps", *_in_numbers(found), worker=worker, batches=numbers, steps=plan.steps, cause=cause
            )
    for worker, batches in enumerate(found):
        for number, (samples, weights) in enumerate(batches):
            yield from _batch_samples(plan, worker, number, samples)
            yield from _batch_weights(plan, worker, number, weights)


def _pairs(worker: int, batches: Sequence[Any]) -> Remarks:
    if "endless" in batches:
        yield say.remark("endless", worker=worker)
    for batch in batches:
        if len(batch) != 2 or not all(isinstance(part, torch.Tensor) for part in batch):
            yield say.remark("no_pair", worker=worker, values=count(len(batch), "value"))


def _batch_samples(plan: Pipeline, worker: int, number: int, samples: torch.Tensor) -> Remarks:
    shape, batch = [plan.share, *plan.shape], {"number": number, "worker": worker}
    if list(samples.shape) != shape:
        wrong = "last_not_filled" if number == plan.steps - 1 else "batch_shape"
        yield say.remark(wrong, **batch, found=list(samples.shape), shape=shape)
    if samples.dtype != plan.dtype:
        yield say.remark("batch_dtype", **batch, found=dtype_name(samples.dtype), dtype=dtype_name(plan.dtype))
    if not samples.isfinite().all():
        yield say.remark("not_finite", **batch)


def _batch_weights(plan: Pipeline, worker: int, number: int, weights: torch.Tensor) -> Remarks:
    shape, batch = [plan.share], {"number": number, "worker": worker}
    if list(weights.shape) != shape or weights.dtype != torch.float32:
        form = {"dtype": dtype_name(weights.dtype), "found": list(weights.shape)}
        yield say.remark("weights_form", **batch, **form, shape=shape)
    if not ((weights == 0) | (weights == 1)).all():
        yield say.remark("weights_values", **batch, weights=weights.tolist())


def _in_numbers(found: Sequence[Sequence[Any]]) -> list[str]:
    return [
        f"worker {worker}: batches of {', '.join(str(len(batch[0])) for batch in batches) or 'nothing'}"
        for worker, batches in enumerate(found)
    ]


def _why_steps(plan: Pipeline, numbers: Sequence[int]) -> str:
    if len(set(numbers)) > 1:
        return say("unequal_steps")
    if numbers[0] < plan.steps:
        return say("remainder_dropped" if numbers[0] == plan.samples // plan.global_batch_size else "cut_twice")
    goes_through_all = numbers[0] == math.ceil(plan.samples / plan.share) and plan.num_workers > 1
    return say("not_shared" if goes_through_all else "after_the_last")


def _samples(plan: Pipeline, found: Sequence[Sequence[Any]], samples: torch.Tensor) -> Remarks:
    """Every one once, and in its step."""
    numbers = {tuple(sample.flatten().tolist()): number for number, sample in enumerate(samples)}
    real: dict[tuple[int, int], list[int]] = {}
    for worker, batches in enumerate(found):
        for step, (values, weights) in enumerate(batches):
            known = [numbers.get(tuple(each.flatten().tolist()), -1) for each in values[weights == 1]]
            if -1 in known:
                yield say.remark("strange_sample", step=step, worker=worker)
            real[worker, step] = known
    times, lines = Counter(number for each in real.values() for number in each), _in_steps(real, found)
    for number, many in sorted(times.items()):
        if many > 1:
            yield say.remark("repeated", *lines, number=number, times=many, cause=_why_repeated(plan, real))
    for number in range(plan.samples):
        if not times[number]:
            yield say.remark("missing", *lines, number=number, cause=_why_missing(plan, times))
    yield from _in_their_steps(plan, real, lines)


def _in_their_steps(plan: Pipeline, real: Mapping[tuple[int, int], list[int]], lines: Sequence[str]) -> Remarks:
    """Every sample in the step of its global batch."""
    size = plan.global_batch_size
    for (worker, step), numbers in real.items():
        first, last = step * size, min((step + 1) * size, plan.samples) - 1
        for number in numbers:
            if number // size != step:
                yield say.remark("other_step", *lines, worker=worker, number=number, step=step, first=first, last=last)


def _in_steps(real: Mapping[tuple[int, int], list[int]], found: Sequence[Sequence[Any]]) -> list[str]:
    """The numbers of the samples that each worker has in its steps."""
    return [
        f"worker {worker}: {'; '.join(_numbers(real[worker, step]) for step in range(len(batches)))}"
        for worker, batches in enumerate(found)
    ]


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "–"


def _why_repeated(plan: Pipeline, real: Mapping[tuple[int, int], list[int]]) -> str:
    workers: list[set[int]] = [set() for _ in range(plan.num_workers)]
    for (worker, _), numbers in real.items():
        workers[worker].update(numbers)
    if plan.num_workers > 1 and all(each == workers[0] for each in workers):
        return say("index_unused")
    full = plan.samples // plan.global_batch_size
    in_full_batches = [number for (_, step), numbers in real.items() if step < full for number in numbers]
    is_elsewhere = len(in_full_batches) > len(set(in_full_batches))
    return say("one_worker" if is_elsewhere else "filled_with_samples")


def _why_missing(plan: Pipeline, times: Mapping[int, int]) -> str:
    in_full_batches = plan.samples // plan.global_batch_size * plan.global_batch_size
    return say("end_missing" if all(times[number] for number in range(in_full_batches)) else "not_dealt")
