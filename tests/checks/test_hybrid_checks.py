"""What the checks of exercise 12 are made of: groups, what a single process computes, and what a layout costs."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from distlib.checks.case import Case
from distlib.checks.senders import explain_foreign, is_of_the_play
from distlib.checks.task import Draw
from distlib.exercises.hybrid import helpers, plays
from distlib.exercises.hybrid.axes import first_axis_fastest, groups_by, in_blocks
from distlib.exercises.hybrid.cases import MeshPlan, WholeChain, drawn_plan
from distlib.exercises.hybrid.layouts import best_layout, layout_bytes, layouts_of, least_bytes, seconds_parts
from distlib.network import Cluster, Link
from distlib.trace import CallSite, Message, Trace
from distlib.training.mesh import coordinates_of, mesh_groups

MODEL = {"layers": 4, "features": 64, "heads": 4, "sequence": 32, "batch": 8}


def test_ranks_that_are_alike_along_an_axis() -> None:
    assert groups_by({"dp": 2, "pp": 2, "tp": 3}, "tp") == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    assert groups_by({"pp": 3}, "pp") == [[0], [1], [2]]


def test_the_groups_of_usual_mistakes_differ_from_the_right_ones() -> None:
    sizes = {"dp": 2, "pp": 3, "tp": 4}
    for axis in ("dp", "pp"):
        right = mesh_groups(sizes, axis)
        wrong = [first_axis_fastest(sizes, axis), groups_by(sizes, axis), in_blocks(sizes, axis)]
        assert right not in wrong
    assert in_blocks(sizes, "tp") == mesh_groups(sizes, "tp")


def test_the_parts_of_all_ranks_make_the_whole_model_and_the_whole_gradient() -> None:
    plan = MeshPlan({"dp": 2, "pp": 2, "tp": 2}, samples=[[2, 1], [1, 3]], features=5)
    alone = WholeChain(Draw(1), plan)
    parts = [alone.part(alone.stages[0], tp) for tp in range(2)]
    assert torch.equal(torch.cat([part["up"] for part in parts]), alone.stages[0]["up"])
    assert torch.equal(torch.cat([part["down"] for part in parts], dim=1), alone.stages[0]["down"])
    assert torch.equal(parts[0]["bias"], parts[1]["bias"])

    stages = [{name: each.clone().requires_grad_() for name, each in stage.items()} for stage in alone.stages]
    values = torch.cat([each for own in alone.inputs for each in own])
    for stage in stages:
        hidden = torch.tanh(values @ stage["up"].T + stage["up_bias"])
        values = values + hidden @ stage["down"].T + stage["bias"]
    loss = (values - torch.cat([each for own in alone.targets for each in own])).square().sum() / 7
    loss.backward()
    assert alone.loss == pytest.approx(loss.item(), rel=1e-12)
    for number, stage in enumerate(stages):
        for name, each in stage.items():
            torch.testing.assert_close(alone.gradient(number, name), each.grad, rtol=1e-12, atol=1e-14)


def test_a_drawn_plan_has_its_axes_in_any_order() -> None:
    orders = {tuple(drawn_plan(Draw(seed), (2, 2, 1)).sizes) for seed in range(30)}
    assert len(orders) > 3
    plan = drawn_plan(Draw(1), (2, 3, 1))
    assert (plan.sizes["dp"], plan.sizes["pp"], len(plan.samples)) == (2, 3, 2)


def test_the_messages_of_a_stage_are_the_plays_own() -> None:
    def message(via: str | None) -> Message:
        site = CallSite("cell 1, line 1", "hybrid_step", "cell", 1, via)
        return Message(0, 1, 0, 8, "float64", (1,), 0.0, 0.0, 1.0, 1, site, site)

    case = Case("", plays.step, [{}, {}], function="hybrid_step")
    own = message(f"{plays.__name__}.TensorParallelStage.forward")
    other = message("distlib.training.mesh.hybrid.HybridTrainer.step")
    assert is_of_the_play(own, case) and not is_of_the_play(other, case)
    assert explain_foreign(case, Trace(2, [own, message(None)]), []) is None
    assert explain_foreign(case, Trace(2, [other]), []) is not None


def test_the_best_layout_is_the_fastest_that_fits() -> None:
    cluster = Cluster(2, 2, intra=Link(2e-6, 40e9), inter=Link(2e-5, 3e9))
    layouts = list(layouts_of(MODEL, 4))
    assert all(math.prod(each.values()) == 4 for each in layouts) and len(layouts) == 6
    for memory in sorted(layout_bytes(MODEL, each) for each in layouts):
        fitting = [each for each in layouts if layout_bytes(MODEL, each) <= memory]
        best = best_layout(MODEL, cluster, memory, 1e11)
        assert best in fitting
        seconds = [seconds_parts(MODEL, cluster, 1e11, each)["together"] for each in fitting]
        assert seconds_parts(MODEL, cluster, 1e11, best)["together"] == min(seconds)
    assert best_layout(MODEL, cluster, least_bytes(MODEL, 4) - 1, 1e11) is None


def test_a_group_on_two_nodes_uses_the_link_between_them() -> None:
    inside, between = Link(1e-6, 100e9), Link(1e-3, 1e9)
    layout = {"dp": 1, "pp": 1, "tp": 4}
    one, two = (
        seconds_parts(MODEL, Cluster(nodes, 4 // nodes, intra=inside, inter=between), 1e12, layout) for nodes in (1, 2)
    )
    assert two["tp"] > 100 * one["tp"] and one["compute"] == two["compute"]
    assert coordinates_of(3, layout) == {"dp": 0, "pp": 0, "tp": 3}


LAYOUT = {"dp": 1, "pp": 1, "tp": 2}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: helpers.mesh_groups({"dp": 10**6, "tp": 10**6}, "dp"), "at most 5,000 ranks"),
        (lambda: helpers.mesh_groups(LAYOUT, "cp"), "expected one of the axes dp, pp, tp, got 'cp'"),
        (lambda: helpers.mesh_groups([2, 2], "dp"), "expected sizes to have"),
        (lambda: helpers.layout_memory({"layers": 2}, LAYOUT), "expected model to have layers, features"),
        (lambda: helpers.layout_memory(MODEL, {**LAYOUT, "tp": 0}), "at least 1"),
        (lambda: helpers.layout_seconds(MODEL, Cluster(1, 4), 1e9, LAYOUT), "does not have 4 ranks"),
        (lambda: helpers.layout_seconds(MODEL, Cluster(1, 2), "fast", LAYOUT), "a speed above 0"),
    ],
)
def test_helpers_refuse_what_makes_no_sense(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
