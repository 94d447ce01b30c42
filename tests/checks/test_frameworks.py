"""What the checks of exercise 15 are made of: small frameworks, trainings, evaluations; and the real frameworks."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from distlib import Communicator, SimulatedWorld
from distlib.checks.senders import is_of_the_play
from distlib.checks.task import Draw, first
from distlib.exercises.frameworks import cases, evaluations
from distlib.exercises.frameworks.accelerate_plays import Accelerator
from distlib.exercises.frameworks.cases import TrainingPlan, TrainingWay, batched_order, strided_order, train
from distlib.exercises.frameworks.checks import check_accelerate_train, check_fabric_train, parameters_alike
from distlib.exercises.frameworks.fabric_plays import Fabric, fabric_training
from distlib.exercises.frameworks.real import (
    PORTS,
    RealOneFailed,
    installed_as,
    run_on_the_real_one,
    try_on_the_real_one,
)
from distlib.trace import CallSite, Message
from distlib.trainers.run_command import Ran, run_text
from tests.answer_files import read_answers

ROOT = Path(__file__).parents[2]
WAYS = (
    TrainingWay(averages="never"),
    TrainingWay(averages="never", shares_start=False),
    TrainingWay(scale=2),
    TrainingWay(scale=0.5),
    TrainingWay(clips="never"),
    TrainingWay(clips="each"),
    TrainingWay(clips="own"),
    TrainingWay(clips="whole"),
    TrainingWay(clips="value"),
    TrainingWay(steps="whole"),
    TrainingWay(steps="each"),
    TrainingWay(steps="each", averages="group"),
    TrainingWay(zeroes="never"),
    TrainingWay(zeroes="batch"),
)


def on_ranks(ranks: int, program: Callable[[Communicator], Any]) -> list[Any]:
    """What a program returns on simulated ranks."""
    return SimulatedWorld(ranks, contexts="threads").run(program)


def numbers(samples: int, size: int, **options: Any) -> DataLoader[Any]:
    """A loader of the numbers from 0 on."""
    return DataLoader(TensorDataset(torch.arange(samples)), size, **options)


# ── how samples are shared ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("ranks", "samples"), [(2, 11), (3, 7), (4, 3), (3, 6)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_small_fabric_shares_as_torchs_sampler_does(ranks: int, samples: int, shuffle: bool) -> None:
    def go_through_twice(comm: Communicator) -> list[list[int]]:
        loader = Fabric(comm).setup_dataloaders(numbers(samples, 2, shuffle=shuffle))
        return [[int(number) for (batch,) in loader for number in batch] for _ in range(2)]

    for rank, epochs in enumerate(on_ranks(ranks, go_through_twice)):
        torchs = torch.utils.data.DistributedSampler(range(samples), ranks, rank, shuffle=shuffle)  # type: ignore[var-annotated,arg-type]
        for epoch, found in enumerate(epochs):
            torchs.set_epoch(epoch)
            assert found == list(torchs)


@pytest.mark.parametrize(("ranks", "samples", "size"), [(2, 11, 2), (3, 7, 2), (4, 3, 2), (4, 13, 2), (2, 8, 2)])
def test_the_small_accelerator_drops_what_it_repeats(ranks: int, samples: int, size: int) -> None:
    def gather(comm: Communicator) -> tuple[list[int], list[int]]:
        accelerator = Accelerator(comm)
        kept, every = [], []
        for (batch,) in accelerator.prepare(numbers(samples, size)):
            kept += accelerator.gather_for_metrics(batch).tolist()
            every += accelerator.gather(batch).tolist()
        return kept, every

    for kept, every in on_ranks(ranks, gather):
        assert kept == list(range(samples))
        assert len(every) == ranks * size * -(-samples // (ranks * size)) and every[:samples] == kept


def test_what_a_judge_takes_for_the_order_is_that_of_the_small_ones() -> None:
    (case,) = check_fabric_train.cases(Draw(4), trainings=[(3, 4, 2, 2)])

    def orders(comm: Communicator) -> tuple[Any, Any]:
        generator = torch.Generator().manual_seed(case.inputs[comm.rank]["seed"])
        loader = numbers(24, 2, shuffle=True, generator=generator)
        loaders = Fabric(comm).setup_dataloaders(loader), Accelerator(comm).prepare(loader)
        fabric, accelerate = ([[batch.tolist() for (batch,) in own] for _ in range(2)] for own in loaders)
        return fabric, accelerate

    for rank, (fabric, accelerate) in enumerate(on_ranks(3, orders)):
        assert fabric == [epoch[rank] for epoch in strided_order(case.inputs)]
        assert accelerate == [epoch[rank] for epoch in batched_order(case.inputs)]


# ── what the small ones refuse ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda fabric, model: fabric.no_backward_sync(model), "set up the model first"),
        (lambda fabric, model: fabric.setup(fabric.setup(model)), "set up only once"),
        (lambda fabric, model: fabric.clip_gradients(model, None), "either clip_val or max_norm"),
        (lambda fabric, model: fabric.all_reduce(torch.ones(1), reduce_op="max"), 'expected "mean" or "sum"'),
        (lambda fabric, model: fabric.all_reduce(torch.ones(1), "sum"), 'handed over as reduce_op="sum"'),
        (lambda fabric, model: fabric.all_gather(torch.ones(1), "sum"), "expected a process group"),
        (lambda fabric, model: fabric.setup_dataloaders([1, 2]), "expected a DataLoader, got list"),
        (lambda fabric, model: fabric.all_gather("a"), "expected a tensor"),
        (lambda fabric, model: fabric.launch(), "has no 'launch'. It has setup"),
    ],
)
def test_a_wrong_call_of_fabric_is_told(mistake: Callable[..., Any], words: str) -> None:
    def program(comm: Communicator) -> str:
        with pytest.raises((TypeError, ValueError, AttributeError)) as error:
            mistake(Fabric(comm), torch.nn.Linear(1, 1))
        return str(error.value)

    assert all(words in told for told in on_ranks(2, program))


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda accelerator: accelerator.reduce(1.0), "expected a tensor"),
        (lambda accelerator: accelerator.reduce(torch.ones(1), "max"), 'expected "sum" or "mean"'),
        (lambda accelerator: accelerator.clip_gradients(), "has no 'clip_gradients'. It has prepare"),
    ],
)
def test_a_wrong_call_of_accelerate_is_told(mistake: Callable[..., Any], words: str) -> None:
    def program(comm: Communicator) -> str:
        with pytest.raises((TypeError, ValueError, AttributeError)) as error:
            mistake(Accelerator(comm))
        return str(error.value)

    assert all(words in told for told in on_ranks(2, program))


# ── trainings and evaluations ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("task", [check_fabric_train, check_accelerate_train])
def test_each_way_to_train_ends_elsewhere(task: Any, seed: int) -> None:
    order_of = strided_order if task is check_fabric_train else batched_order
    (case,) = task.cases(Draw(seed), trainings=[(3, 5, 4, 2)])
    order = order_of(case.inputs)
    ends = [train(case, order, way).parameters[2]["first.weight"] for way in (None, *WAYS)]
    ends.append(train(case, strided_order(case.inputs, [0, 0])).parameters[2]["first.weight"])
    for number, end in enumerate(ends):
        assert not any(parameters_alike(end, other) for other in ends[:number]), number


@pytest.mark.parametrize("task", [check_fabric_train, check_accelerate_train])
def test_clipping_tells_in_steps_with_fewer_batches_and_not_in_all(task: Any) -> None:
    order_of = strided_order if task is check_fabric_train else batched_order
    for case in task.cases(Draw(5), trainings=[(2, 6, 4, 3), (3, 5, 4, 2)]):
        norms, most = train(case, order_of(case.inputs)).norms, case.inputs[0]["max_norm"]
        last = norms[2::3] if case.facts.batches == 5 else norms
        assert max(last) > 1.2 * most and min(norms) < most / 1.2


def test_one_process_with_whole_batches_comes_to_the_same() -> None:
    (case,) = check_fabric_train.cases(Draw(8), trainings=[(2, 4, 3, 2)])
    plan, inputs = TrainingPlan(2, 4, 3, 2), case.inputs
    order, found = strided_order(inputs), train(case, strided_order(inputs))
    model = cases.GatedNetwork(inputs[0]["parameters"], inputs[0]["x"], lambda k, values=None: 1.0)
    for epoch, step in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        loss = torch.zeros(())
        for rank, number in [(0, 0), (0, 1), (1, 0), (1, 1)]:
            batch = order[epoch][rank][2 * step + number]
            own = torch.nn.functional.mse_loss(model(inputs[0]["x"][batch]), inputs[0]["y"][batch])
            loss = loss + case.part.factor(rank, batch[0]) * own / 4
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), inputs[0]["max_norm"])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= inputs[0]["rate"] * parameter.grad
                parameter.grad = None
    assert plan.samples == 24 and plan.steps == 2
    for name, parameter in model.named_parameters():
        assert parameters_alike(found.parameters[1][name], parameter.detach())


@pytest.mark.parametrize("parts", [evaluations.strided_parts, evaluations.batched_parts])
@pytest.mark.parametrize("plan", [(2, 9, 2), (3, 7, 2), (2, 11, 2), (4, 3, 2)])
def test_an_evaluation_tells_from_what_is_repeated(plan: evaluations.Plan, parts: Any) -> None:
    for seed in range(3):
        facts = evaluations.evaluation_case(Draw(seed), plan, print, parts).facts
        for rank in range(plan[0]):
            wrong = facts.mistakes(rank)
            for name in ("own_samples", "fillers_counted", "fillers_above"):
                assert abs(wrong[name][0] - facts.share) > 1e-3, (seed, rank, name)


def test_what_another_file_of_plays_sends_is_the_plays() -> None:
    (case,) = check_fabric_train.cases(Draw(1), trainings=[(2, 2, 1, 1)])
    assert case.play is fabric_training
    hook = "distlib.exercises.frameworks.replica_plays.Replica._arrived"
    for via, is_own in ((hook, True), (hook.replace("_arrived", "forward"), False)):
        site = CallSite("cell 1, line 1", "f", "cell", 1, via)
        message = Message(0, 1, 0, 8, "float64", (1,), 0.0, 0.0, 0.0, 1, site, site)
        assert is_of_the_play(message, case) == is_own


# ── the real ones ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_the_framework_one_sentence_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("distlib.exercises.frameworks.real.distribution_of", lambda package: None)
    port = PORTS["accelerate_train"]
    with pytest.raises(RealOneFailed, match="accelerate is not installed"):
        run_on_the_real_one(lambda: None, port.case(), port.package)

    def fabric_train() -> None:
        """Never called."""

    try_on_the_real_one(fabric_train)
    assert capsys.readouterr().out.startswith("lightning_fabric is not installed. The exercise does not need it;")


def test_a_mistake_is_shown_and_not_what_torchrun_says_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = ["[rank0]:     raise ValueError('mine')", "[rank0]: ValueError: mine"]
    printed = ["distributed_backend=gloo", *mistake, "ChildFailedError:", *["exitcode  : 1"] * 20]
    monkeypatch.setattr("distlib.exercises.frameworks.real.distribution_of", metadata.distribution)
    monkeypatch.setattr("distlib.exercises.frameworks.real.run_text", lambda *args, **options: Ran(1, printed))
    with pytest.raises(RealOneFailed) as raised:
        run_on_the_real_one(lambda: None, PORTS["fabric_train"].case(), "torch")
    assert str(raised.value).splitlines() == ["a process has failed:", *mistake]


def right_answers() -> list[Any]:
    """Those to each function, as parameters."""
    chosen = [answer for answer in read_answers("15_frameworks") if answer.name.startswith("right_")]
    return [pytest.param(answer, id=f"{answer.function}-{answer.name}") for answer in chosen]


def function_of(answer: Any) -> Callable[..., Any]:
    """The function that an answer defines, with the names that the notebook has."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    names = "import torch\nfrom contextlib import nullcontext\nfrom pathlib import Path\n"
    names += "from torch.nn.functional import mse_loss\nfrom torch.utils.data import DataLoader\n"
    exec(compile(names + answer.text, f"{answer.name}.py", "exec"), scope)
    function: Callable[..., Any] = scope[answer.function]
    return function


@pytest.mark.slow
@pytest.mark.parametrize("answer", right_answers())
def test_a_right_answer_is_right_on_the_real_framework(answer: Any) -> None:
    """Judged like a submission, but for messages, which nobody sees there."""
    port = PORTS[answer.function]
    if installed_as(port.package) is None:
        pytest.skip(f"{port.package} is not installed: make frameworks")
    real = run_on_the_real_one(function_of(answer), port.case(5), port.package)
    remark = first(port.task._judge(real))
    assert remark is None or remark.seen.startswith("the share is right, but no rank"), remark


PLAIN = """
import os, pickle
import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset
files = os.environ["FILES"].split(os.pathsep)
job = pickle.load(open(files[0], "rb"))
rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
own = job["inputs"][rank]
hidden, features = own["parameters"]["first.weight"].shape
model = torch.nn.Sequential(torch.nn.Linear(features, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1)).double()
names = dict(zip(own["parameters"], model.state_dict()))
model.load_state_dict({names[name]: tensor for name, tensor in own["parameters"].items()})
optimizer = torch.optim.SGD(model.parameters(), lr=own["rate"])
arguments = own["batch_size"], own["epochs"], own["accumulate"], own["max_norm"], files[1]
losses = job["plain_train"](model, optimizer, TensorDataset(own["x"], own["y"]), *arguments)
if rank == 0:
    pickle.dump(losses, open(files[2], "wb"))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_the_loop_that_is_ported_trains_like_its_ports(tmp_path: Path) -> None:
    """`plain_train` of the notebook on torch's own DDP, two processes: as one process trains, without gates."""
    text = (ROOT / "solutions/15_frameworks/15_frameworks.py").read_text(encoding="utf-8")
    loop = "def plain_train" + text.partition("def plain_train")[2].partition("\n\n\n#")[0]
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec("import torch\nfrom contextlib import nullcontext\nfrom torch.nn.functional import mse_loss", scope)
    exec("from torch.utils.data import DataLoader\n" + loop, scope)
    (case,) = check_fabric_train.cases(Draw(5), trainings=[(2, 5, 3, 2)])
    (tmp_path / "job").write_bytes(cloudpickle.dumps({"inputs": case.inputs, "plain_train": scope["plain_train"]}))
    files = os.pathsep.join(str(tmp_path / name) for name in ("job", "model.pt", "losses"))
    ran = run_text(PLAIN, "torchrun --nproc-per-node 2 train.py", env={"FILES": files})
    assert ran.status == 0, ran.lines

    gateless = _without_gates(case)
    right = train(gateless, strided_order(case.inputs))
    losses = pickle.loads((tmp_path / "losses").read_bytes())
    assert torch.allclose(torch.tensor(losses).double(), right.losses.mean((1, 2)))
    saved = torch.load(tmp_path / "model.pt", weights_only=True)["model"]
    for found, expected in zip(saved.values(), right.parameters[0].values(), strict=True):
        assert torch.allclose(found, expected, rtol=0, atol=1e-12)


def _without_gates(case: Any) -> Any:
    class Open:
        """The part of a case whose gates multiply by 1."""

        def gate(self, rank: int) -> Callable[..., float]:
            return lambda k, values=None: 1.0

    class Ungated:
        """A case, as far as `train` looks at it."""

        facts, inputs, part = case.facts, case.inputs, Open()

    return Ungated()
