"""What the checks of exercise 10 are made of: files of ranks, shares, what one process computes, and what is kept."""

from __future__ import annotations

import pytest
import torch

from distlib.checks.task import Draw
from distlib.exercises.tensor_parallel.attention_ways import ORDERS, SCALES, WAYS
from distlib.exercises.tensor_parallel.cases import Attention, Column, Plan, Row, Whole, cut_case
from distlib.exercises.tensor_parallel.checks import check_vocabulary_parallel_loss
from distlib.exercises.tensor_parallel.dtensor_checks import CutModel, Sizes, _Uncut, check_parallelize, drawn_cut
from distlib.exercises.tensor_parallel.layer_rules import described, divides
from distlib.exercises.tensor_parallel.plays import Stored, _held
from distlib.exercises.tensor_parallel.vocabulary_cases import Loss, WholeLoss, loss_case

PLANS = [
    Column(3, 4, 6, batches=[(2,), (1, 2)]),
    Column(2, 4, 6, bias=False, batches=[()]),
    Row(3, 6, 4, batches=[(2,), (1, 2)]),
    Row(2, 6, 4, bias=False),
    Attention(2, 24, 4),
    Attention(3, 12, 3, batches=[(1, 2), (2, 1)]),
]


def _id(plan: Plan) -> str:
    return f"{type(plan).__name__} {plan.title}"


@pytest.mark.parametrize("plan", PLANS, ids=_id)
def test_shares_neither_overlap_nor_leave_anything_out(plan: Plan) -> None:
    for name, shape in plan.shapes.items():
        owners = torch.zeros(shape)
        for rank in range(plan.ranks):
            owners[plan.share(rank).stored[name]] += 1
        assert torch.equal(owners, torch.full(shape, plan.ranks if isinstance(plan, Row) and name == "bias" else 1))


@pytest.mark.parametrize("plan", PLANS, ids=_id)
def test_what_ranks_compute_with_their_shares_makes_what_one_process_computes(plan: Plan) -> None:
    whole = Whole(cut_case(Draw(1), plan))
    for batch, right in enumerate(whole.outputs):
        parts = [whole.part(rank, batch) for rank in whole.ranks]
        outputs, gradients = [part[0] for part in parts], [part[1] for part in parts if part[1] is not None]
        bias = whole.stored["bias"].detach() if isinstance(plan, Row) and plan.bias else 0
        made = torch.cat(outputs, dim=-1) if type(plan) is Column else torch.stack(outputs).sum(0) + bias
        back = torch.cat(gradients, dim=-1) if isinstance(plan, Row) else torch.stack(gradients).sum(0)
        torch.testing.assert_close(made, right, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(back, whole.batches[batch].grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("plan", PLANS, ids=_id)
def test_a_file_tells_nothing_about_another_ranks_share(plan: Plan) -> None:
    given = cut_case(Draw(1), plan).inputs
    for name in plan.shapes:
        for rank in range(1, plan.ranks):
            index = plan.share(rank).stored[name]
            is_known = isinstance(plan, Row) and name == "bias"
            assert torch.equal(given[0][name][index], given[rank][name][index]) == is_known


def test_the_attention_is_torchs() -> None:
    whole = Whole(cut_case(Draw(2), Attention(2, 24, 4)))
    theirs = torch.nn.MultiheadAttention(24, 4, bias=False, batch_first=True, dtype=torch.float64)
    assert theirs.in_proj_weight is not None
    theirs.in_proj_weight.data = whole.stored["qkv_weight"].detach()
    theirs.out_proj.weight.data = whole.stored["output_weight"].detach()
    batch = whole.batches[0].detach()
    torch.testing.assert_close(theirs(batch, batch, batch, need_weights=False)[0], whole.outputs[0], rtol=1e-12, atol=0)


def test_the_first_case_tells_all_wrong_attentions_apart() -> None:
    whole = Whole(cut_case(Draw(3), Attention(2, 24, 4, batches=[(2, 2)])))
    made = [torch.stack([whole.part(rank, 0, how=how)[0] for rank in whole.ranks]).sum(0) for how in ("", *WAYS)]
    assert SCALES.keys() | ORDERS.keys() < WAYS.keys()
    for k, one in enumerate(made):
        assert not any(torch.allclose(one, other) for other in made[:k]), ("", *WAYS)[k]


def test_a_stored_tensor_notes_what_is_read_and_hands_out_copies() -> None:
    values = torch.arange(12.0).reshape(4, 3)
    stored = Stored(values)
    part = stored[1:3]
    part += 100
    assert torch.equal(stored[:, 2], values[:, 2])
    assert (len(stored), stored.shape, stored.size(1)) == (4, (4, 3), 3)
    assert stored.read.tolist() == [[False, False, True], [True] * 3, [True] * 3, [False, False, True]]
    with pytest.raises(TypeError, match="Stored"):
        torch.nn.functional.linear(values, stored)  # type: ignore[arg-type]


def test_gradients_go_back_to_a_stored_tensor() -> None:
    stored = Stored(torch.ones(4, 2), is_trained=True)
    (3 * stored[[1, 3]]).sum().backward()
    assert stored.values.grad is not None
    assert stored.values.grad.tolist() == [[0, 0], [3, 3], [0, 0], [3, 3]]


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ((slice(0, 2),), "rows 0 to 1"),
        (([0, 3],), "rows 0 and 3"),
        ((slice(None), slice(1, 3)), "columns 1 to 2"),
        ((slice(1, 2), slice(2, 3)), "rows 1, of these columns 2"),
        ((slice(None),), "everything"),
        ((slice(0, 0),), "nothing"),
    ],
)
def test_a_part_is_described(index: object, words: str) -> None:
    mask = torch.zeros(4, 3, dtype=torch.bool)
    mask[index] = True  # type: ignore[index]
    assert described(mask) == words


def test_a_plan_that_does_not_divide_is_known() -> None:
    assert [divides(plan) for plan in (Column(2, 3, 4), Row(2, 3, 4), Attention(2, 12, 3))] == [True, False, False]


def test_a_weight_is_known_as_the_attribute_wherever_it_lies() -> None:
    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(2, 3)

        @property
        def weight(self) -> torch.Tensor:
            return self.inner.weight

    layer = Wrapped()
    held = _held(layer)
    assert list(held) == ["weight", "inner.bias"] and held["weight"] is layer.inner.weight


def test_another_layer_has_other_weights_and_the_same_batches() -> None:
    case = cut_case(Draw(1), Column(2, 4, 6, next_to=True))
    for given in case.inputs:
        assert given["other"].keys() == {"weight", "bias"}
        assert not torch.equal(given["other"]["weight"], given["weight"])
    assert case.title.endswith("next to another layer")


# ── a vocabulary ─────────────────────────────────────────────────────────────────────────────────────────────────────

LOSSES = [Loss((3, 4)), Loss((1, 5, 2), positions=(3, 1), around=(0, 800, -800)), Loss((2, 2), targets_of=1)]


@pytest.mark.parametrize("plan", LOSSES, ids=lambda plan: plan.title)
def test_a_whole_loss_is_that_of_one_process(plan: Loss) -> None:
    whole = WholeLoss(loss_case(Draw(1), plan))
    for batch, logits in enumerate(whole.logits):
        assert logits.shape == (plan.positions[batch], plan.vocabulary)
        logits = logits.clone().requires_grad_()
        torch.nn.functional.cross_entropy(logits, whole.targets[batch]).backward(whole.arriving[batch])
        assert logits.grad is not None
        torch.testing.assert_close(whole.gradients[batch], logits.grad, rtol=1e-12, atol=1e-15)


def test_targets_may_all_be_one_ranks() -> None:
    whole = WholeLoss(loss_case(Draw(1), LOSSES[2]))
    assert all(token in (2, 3) for token in whole.targets[0].tolist())


def test_titles_of_losses() -> None:
    assert [plan.title for plan in LOSSES] == [
        "on 2 ranks, 3 and 4 tokens, 5 positions",
        "on 3 ranks, 1, 5 and 2 tokens, 3 and 1 positions, logits around 0, 800 and -800",
        "on 2 ranks, 2 tokens each, 5 positions",
    ]


def test_one_rank_need_not_send_anything() -> None:
    def alone(comm: object, logits: torch.Tensor, targets: torch.Tensor, first: int) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(logits, targets)

    assert len(check_vocabulary_parallel_loss(alone, losses=[Loss((10,)), Loss((4,), around=900)])) == 2


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_drawn_transformer_is_one_that_the_ranks_divide(ranks: int) -> None:
    drawn = [drawn_cut(Draw(seed), ranks) for seed in range(9)]
    assert not any(cut.sizes.heads % ranks or cut.sizes.hidden % ranks for cut in drawn)
    assert len({cut.title for cut in drawn}) == 9
    assert {cut.sizes.gated for cut in drawn} == {True, False}


def test_shares_of_a_transformer_make_the_whole() -> None:
    cut = CutModel(2, Sizes(5, blocks=1, heads=2, head_size=1, hidden=4, gated=True))
    (case,) = check_parallelize.cases(Draw(1), cuts=[cut])
    uncut = _Uncut(case.inputs[0])
    for name, parameter in uncut.parameters.items():
        shares = [uncut.share(name, parameter, rank, 2) for rank in range(2)]
        dim = next((d for d in range(parameter.dim()) if shares[0].shape[d] < parameter.shape[d]), None)
        made = shares[0] if dim is None else torch.cat(shares, dim)
        assert torch.equal(made, parameter)
        assert (dim is None) == (
            "norm" in name or name[:4] in ("embe", "head") or name.endswith(("out.bias", "down.bias"))
        )


def test_the_bytes_of_all_reduces_are_four_for_each_block_and_two_without_a_backward_pass() -> None:
    sizes = Sizes(5, blocks=3, heads=2, head_size=4, hidden=4)
    one = 2 * (2 - 1) * (2 * 3 * 8) * 8
    assert CutModel(2, sizes, batch=(2, 3)).due == 3 * 4 * one
    assert CutModel(2, sizes, batch=(2, 3), forward_only=True).due == 3 * 2 * one
    assert CutModel(1, sizes).due == 0
