"""Cases for a whole checkpoint: what ranks are given, and what a single process has that trains without a break."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, dtype_name
from distlib.checks.plays.block_models import BlockModel, block_model
from distlib.checks.rules.block_training import (
    GATHER,
    ROOT,
    SCATTER,
    Batch,
    Gradients,
    by_unit,
    padded_rows,
    sum_of_gradients,
)
from distlib.checks.task import Draw
from distlib.exercises.zero.checkpoint_plays import load_and_train, train_and_save

SPREAD = 0.3
MOMENTS, MAXIMUM = ("exp_avg", "exp_avg_sq"), "max_exp_avg_sq"  # the last one only with amsgrad
OPTIONS = ("lr", "betas", "eps", "weight_decay")


@dataclass(frozen=True)
class Break:
    """A training with a break, at which its state is saved, or from which it goes on.

    Attributes:
        ranks: that save, or that go on.
        widths: inputs, width, hidden, outputs of the model.
        blocks: how many it has.
        before, after: steps before and after the break.
        bias: whether linear layers have one.
        frozen: layers that are not trained.
        rows: of each rank's batch.
        dtype: of everything.
        amsgrad: whether AdamW keeps a third moment of each parameter.
        groups: of the optimizer: matrices and vectors; with a third one for what norms have.
    """

    ranks: int
    widths: tuple[int, int, int, int]
    blocks: int
    before: int = 2
    after: int = 1
    bias: bool = True
    frozen: Sequence[str] = ()
    rows: int = 3
    dtype: torch.dtype = torch.float64
    amsgrad: bool = False
    groups: int = 2

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        parts = [f"on {count(self.ranks, 'rank')}, {count(self.blocks, 'block')} {self.widths[1]} wide"]
        parts += [f"after {count(self.before, 'step')}"]
        parts += ["no biases"] * (not self.bias) + [f"{name} is frozen" for name in self.frozen]
        parts += ["amsgrad"] * self.amsgrad + [f"{self.groups} groups of parameters"] * (self.groups != 2)
        return ", ".join([*parts, *[dtype_name(self.dtype)] * (self.dtype != torch.float64)])

    def model(self) -> BlockModel:
        """One of shapes alone."""
        with torch.device("meta"):
            return BlockModel(self.widths, self.blocks, self.bias).to(self.dtype)

    def trained(self) -> dict[str, torch.Tensor]:
        """The parameters that are trained, of shapes alone, by name."""
        return {name: each for name, each in self.model().named_parameters() if not self.is_frozen(name)}

    def is_frozen(self, name: str) -> bool:
        """Whether the parameter of this name is not trained."""
        return name.rpartition(".")[0] in self.frozen

    @property
    def moments(self) -> Sequence[str]:
        """What AdamW keeps of each parameter, besides the number of its steps."""
        return (*MOMENTS, MAXIMUM) if self.amsgrad else MOMENTS

    def groups_of_names(self) -> list[list[str]]:
        """Of parameters, in the order of the optimizer's groups."""
        found: list[list[str]] = [[] for _ in range(self.groups)]
        for name, each in self.model().named_parameters():
            found[2 if self.groups > 2 and ".norm." in name else each.ndim == 1].append(name)
        return found

    def tensors(self) -> Iterator[torch.Tensor]:
        """All tensors of the state with more than one number, of shapes alone."""
        yield from self.model().parameters()
        for each in self.trained().values():
            yield from (each,) * len(self.moments)

    def training_messages(self, steps: int) -> Counter[tuple[str, int]]:
        """What a rank sends in so many steps: by the kind of call and the bytes how many messages, to all others."""
        found: Counter[tuple[str, int]] = Counter()
        for kind, frozen in ((GATHER, True), (SCATTER, False)):
            parameters = (
                (name, each) for name, each in self.model().named_parameters() if frozen or name in self.trained()
            )
            for unit, nbytes in by_unit((name, padded_rows(each, self.ranks)) for name, each in parameters).items():
                passes = 2 if kind == GATHER and unit != ROOT else 1
                found[kind, nbytes] += passes * steps * (self.ranks - 1)
        return found

    @property
    def state_bytes(self) -> int:
        """The bytes of the whole state."""
        return sum(each.nbytes for each in self.tensors())

    @property
    def gathered_bytes(self) -> int:
        """The bytes of the whole state with padding: rows of zeros, so that all ranks have equally many of a tensor."""
        return self.ranks * sum(padded_rows(each, self.ranks) for each in self.tensors())


def drawn_breaks(draw: Draw, number: int) -> list[Break]:
    """Trainings of which everything is drawn, on 2 to 5 ranks, which do not divide all of their rows."""
    return [
        Break(
            draw.randint(2, 5),
            draw.sizes(4, most=11),  # type: ignore[arg-type]
            draw.randint(1, 2),
            before=draw.randint(1, 4),
            after=draw.randint(1, 2),
            bias=draw.random() < 0.6,
            rows=draw.randint(1, 4),
        )
        for _ in range(number)
    ]


# ── cases ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def saving_case(draw: Draw, plan: Break) -> Case:
    """A training that is saved in its midst. Its facts are the plan."""
    given = {**_model(draw, plan), "settings": _settings(draw, plan), "decay": draw.rate(0.5, 0.9)}
    inputs = [{**given, "before": _batches(draw, plan, plan.before)} for _ in range(plan.ranks)]
    return Case(
        plan.title, train_and_save, [{**each, "after": _batches(draw, plan, plan.after)} for each in inputs], plan
    )


def loading_case(draw: Draw, plan: Break) -> Case:
    """A training that goes on with the state that another one has left, of which rank 0 knows. Its facts are the plan.

    Until it is loaded, weights and settings are others.
    """
    earlier = saving_case(draw, replace(plan, ranks=draw.choice([n for n in range(1, 6) if n != plan.ranks])))
    state = as_torchs(WholeTraining(earlier).run("before"))
    given = {**_model(draw, plan), "settings": _settings(draw, plan), "decay": draw.rate(0.5, 0.9)}
    inputs = [
        {**given, "state": state if rank == 0 else {}, "after": _batches(draw, plan, plan.after)}
        for rank in range(plan.ranks)
    ]
    return Case(f"{plan.title} on {count(len(earlier.inputs), 'rank')}", load_and_train, inputs, plan)


def _model(draw: Draw, plan: Break) -> dict[str, Any]:
    shapes = {name: each.shape for name, each in plan.model().named_parameters()}
    weights = {name: (SPREAD * draw.normal(shape)).to(plan.dtype) for name, shape in shapes.items()}
    return {"widths": plan.widths, "weights": weights, "frozen": list(plan.frozen), "groups": plan.groups_of_names()}


def _settings(draw: Draw, plan: Break) -> list[dict[str, Any]]:
    """Of each group: only matrices decay, as usual."""
    betas, eps = (draw.rate(0.5, 0.9), draw.rate(0.8, 0.99)), draw.rate(0.001, 0.01)
    group = {"betas": betas, "eps": eps, "amsgrad": plan.amsgrad}
    matrices = {"lr": draw.rate(0.01, 0.1), **group, "weight_decay": draw.rate(0.1, 0.5)}
    others = [{"lr": draw.rate(0.01, 0.1), **group, "weight_decay": 0.0} for _ in range(plan.groups - 1)]
    return [matrices, *others]


def _batches(draw: Draw, plan: Break, number: int) -> list[Batch]:
    def rows(width: int) -> torch.Tensor:
        return draw.normal((plan.rows, width)).to(plan.dtype)

    return [(rows(plan.widths[0]), rows(plan.widths[-1])) for _ in range(number)]


# ── one process ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class KnownState:
    """What a training knows at a moment.

    Attributes:
        parameters: by name.
        moments: by name of the parameter, then of the moment; none of frozen ones.
        steps: how many there were.
        groups: options of the optimizer, and the names of their "params".
    """

    parameters: dict[str, torch.Tensor]
    moments: dict[str, dict[str, torch.Tensor]]
    steps: int
    groups: list[dict[str, Any]]


class WholeTraining:
    """A single process that does what the ranks of a case do together, with AdamW.

    Args:
        case: of `saving_case` or `loading_case`.
        change: makes another one of what it begins with, as a mistake would.

    Attributes:
        now: what it knows at present.
    """

    def __init__(self, case: Case, change: Callable[[KnownState], KnownState] | None = None) -> None:
        self._inputs: Sequence[Mapping[str, Any]] = case.inputs
        plan, given = case.facts, case.inputs[0]
        self._trained = list(plan.trained())
        self._model = block_model(given["widths"], given["weights"])
        self.now = fresh(case)
        if given.get("state"):
            self.now = _of_torchs(given["state"])
        self.now = change(self.now) if change else self.now

    def run(self, part: str) -> KnownState:
        """Take the steps on the batches that the ranks have under this name: "before" or "after"."""
        for batches in zip(*(given[part] for given in self._inputs), strict=True):
            with torch.no_grad():
                for name, each in self.now.parameters.items():
                    self._model.get_parameter(name).copy_(each)
            self.now = self._step(sum_of_gradients(self._model, batches, 1 / len(batches)))
        return self.now

    def _step(self, gradients: Gradients) -> KnownState:
        now, decay = self.now, self._inputs[0]["decay"]
        steps, parameters, moments = now.steps + 1, dict(now.parameters), dict(now.moments)
        for group in now.groups:
            for name in (each for each in group["params"] if each in self._trained):
                parameters[name], moments[name] = _adamw(
                    now.parameters[name], gradients[name], now.moments[name], steps, group
                )
        return KnownState(parameters, moments, steps, [{**each, "lr": decay * each["lr"]} for each in now.groups])


def _adamw(
    parameter: torch.Tensor, gradient: torch.Tensor, moments: dict[str, torch.Tensor], steps: int, group: dict[str, Any]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """A step of AdamW (Loshchilov and Hutter, 2019): the new parameter and its new moments.

    With a maximum among them, that of AMSGrad (Reddi, Kale and Kumar, 2018).
    """
    first, second = group["betas"]
    mean = first * moments["exp_avg"] + (1 - first) * gradient
    square = second * moments["exp_avg_sq"] + (1 - second) * gradient.square()
    new = {"exp_avg": mean, "exp_avg_sq": square}
    if MAXIMUM in moments:
        new[MAXIMUM] = torch.maximum(moments[MAXIMUM], square)
    scale = (new.get(MAXIMUM, square) / (1 - second**steps)).sqrt() + group["eps"]
    kept = (1 - group["lr"] * group["weight_decay"]) * parameter
    moved = kept - group["lr"] / (1 - first**steps) * mean / scale
    return moved, new


def fresh(case: Case) -> KnownState:
    """What ranks have at the beginning, before a state is loaded."""
    plan, given = case.facts, case.inputs[0]
    settings = zip(given["settings"], given["groups"], strict=True)
    groups = [{**options, "params": list(names)} for options, names in settings]
    zeros = {name: {key: torch.zeros_like(given["weights"][name]) for key in plan.moments} for name in plan.trained()}
    return KnownState(dict(given["weights"]), zeros, 0, groups)


def as_torchs(trained: KnownState) -> dict[str, Any]:
    """The state in the form of get_model_state_dict and get_optimizer_state_dict."""
    step = torch.tensor(float(trained.steps))
    states = {name: {"step": step.clone(), **moments} for name, moments in trained.moments.items()}
    return {"model": trained.parameters, "optimizer": {"state": states, "param_groups": trained.groups}}


def _of_torchs(state: Mapping[str, Any]) -> KnownState:
    states = state["optimizer"]["state"]
    moments = {name: {key: each[key] for key in each if key != "step"} for name, each in states.items()}
    steps = {int(each["step"]) for each in states.values()}
    return KnownState(state["model"], moments, max(steps), state["optimizer"]["param_groups"])


def is_same_option(found: Any, right: Any) -> bool:
    """Whether options of an optimizer differ by rounding at most."""
    if isinstance(right, list | tuple):
        is_list = isinstance(found, list | tuple) and len(found) == len(right)
        return is_list and all(map(is_same_option, found, right))
    numbers = [each.item() if isinstance(each, torch.Tensor) and each.numel() == 1 else each for each in (found, right)]
    return all(isinstance(each, int | float) for each in numbers) and math.isclose(
        *numbers, rel_tol=1e-6, abs_tol=1e-12
    )
