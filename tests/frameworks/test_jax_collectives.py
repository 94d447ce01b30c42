"""Collectives read from the text of compiled programs: what XLA wrote, shortened. JAX is not needed."""

from __future__ import annotations

import pytest

from distlib.frameworks.jax_collectives import (
    Collective,
    asks_python,
    bytes_sent,
    collectives,
    counted,
    handed_over,
    sizes_of,
)
from distlib.network import traffic

HEAD = "HloModule jit_step, is_scheduled=true, num_partitions=4\n"
METADATA = 'metadata={op_name="jit(step)/all_gather" stack_frame_id=4}'


def program(*lines: str) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"{HEAD}\nENTRY %main (param: f32[1,4]) -> f32[1,4] {{\n{body}\n}}\n"


def only(line: str) -> Collective:
    (found,) = collectives(program(line))
    return found


def test_what_each_device_gets_and_how_large_it_is() -> None:
    found = only(f"%a.7 = f32[64,10]{{1,0}} all-reduce(%p), replica_groups={{{{0,1,2,3}}}}, to_apply=%add, {METADATA}")
    assert found == Collective("all-reduce", ("f32[64,10]",), 2560, 4)


def test_several_tensors_in_one_operation() -> None:
    found = only(
        "%a = (f32[3,2]{1,0}, bf16[5]{0}, pred[7]{0}, s64[], f8e4m3fn[3]{0}) all-reduce(%p, %q), to_apply=%add"
    )
    assert found.shapes == ("f32[3,2]", "bf16[5]", "pred[7]", "s64[]", "f8e4m3fn[3]")
    assert found.nbytes == 24 + 10 + 7 + 8 + 3
    assert found.devices == 4, "no groups are named: everybody takes part"


@pytest.mark.parametrize(
    ("groups", "devices"),
    [
        ("{{0,1},{2,3}}", 2),
        ("{{0,4},{1,5},{2,6},{3,7}}", 2),
        ("[2,3]<=[6]", 3),
        ("mesh['axis_0'=2,'axis_1'=8] {'axis_1'}", 8),
        ("mesh['axis_0'=2,'axis_1'=1,'axis_2'=3] {'axis_0','axis_2'}", 6),
    ],
)
def test_groups_in_every_way_they_are_written(groups: str, devices: int) -> None:
    assert only(f"%a = f32[8]{{0}} all-gather(%p), replica_groups={groups}, dimensions={{0}}").devices == devices


def test_an_asynchronous_operation_counts_once() -> None:
    lines = ("%s = f32[8]{0} all-reduce-start(%p), to_apply=%add", "%d = f32[8]{0} all-reduce-done(%s)")
    assert counted(collectives(program(*lines))) == {"all-reduce": 1}


def test_names_and_metadata_are_not_operations() -> None:
    assert collectives(program(f"%all-reduce.3 = f32[8]{{0}} add(%all-reduce.1, %p), {METADATA}")) == []


LOOP = """
%inner (p: (s32[], f32[2])) -> (s32[], f32[2]) {
  %c = f32[2]{0} collective-permute(%x), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
}

%outer (p: (s32[], f32[2])) -> (s32[], f32[2]) {
  %w = (s32[], f32[2]{0}) while(%t), condition=%more, body=%inner, backend_config={"known_trip_count":{"n":"3"}}
  %a = f32[2]{0} all-reduce(%x), to_apply=%add
}

ENTRY %main (param: f32[2]) -> f32[2] {
  %w = (s32[], f32[2]{0}) while(%t), condition=%less, body=%outer, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %a = f32[2]{0} all-reduce(%x), to_apply=%add
}
"""


def test_a_loop_runs_as_often_as_the_compiler_notes() -> None:
    found = collectives(HEAD + LOOP)
    assert [(each.kind, each.times) for each in found] == [
        ("collective-permute", 15),
        ("all-reduce", 5),
        ("all-reduce", 1),
    ]
    assert counted(found) == {"all-reduce": 6, "collective-permute": 15}
    assert bytes_sent(found) == 15 * 8 + 6 * 12


def test_a_loop_of_unknown_length_is_refused_if_it_communicates() -> None:
    text = HEAD + LOOP.replace('{"n":"5"}', "{}")
    with pytest.raises(ValueError, match="a loop of unknown length contains this collective: %c = "):
        collectives(text)
    silent = LOOP.replace("collective-permute", "negate").replace("all-reduce", "negate").replace('{"n":"5"}', "{}")
    assert collectives(HEAD + silent) == []


CONDITION = """
%yes (p: f32[2]) -> f32[2] {
  %c = f32[2]{0} collective-permute(%x), source_target_pairs={{0,1},{1,0}}
}

%no (p: f32[2]) -> f32[2] {
  %a = f32[2]{0} all-reduce(%x), to_apply=%add
}

%body (p: (s32[], f32[2])) -> (s32[], f32[2]) {
  %r = f32[2]{0} conditional(%i, %x, %x), BRANCHES
}

ENTRY %main (param: f32[2]) -> f32[2] {
  %w = (s32[], f32[2]{0}) while(%t), condition=%less, body=%body, backend_config={"known_trip_count":{"n":"5"}}
}
"""


@pytest.mark.parametrize(
    "branches", ["branch_computations={%yes, %no}", "true_computation=%yes, false_computation=%no"]
)
def test_both_branches_of_a_condition_in_a_loop_count(branches: str) -> None:
    found = collectives(HEAD + CONDITION.replace("BRANCHES", branches))
    assert counted(found) == {"all-reduce": 5, "collective-permute": 5}
    assert found[0].pairs == ((0, 1), (1, 0)) and found[1].pairs == ()


@pytest.mark.parametrize("devices", [2, 3, 4, 8])
def test_bytes_sent_are_those_of_our_collectives(devices: int) -> None:
    length = 24 * devices
    cases = {
        "all-reduce": (length, traffic.ring_all_reduce),
        "all-gather": (length, traffic.ring_all_gather),
        "reduce-scatter": (length // devices, traffic.ring_reduce_scatter),
        "all-to-all": (length, traffic.all_to_all),
    }
    for kind, (gets, formula) in cases.items():
        found = Collective(kind, (f"f32[{gets}]",), 4 * gets, devices)
        assert [found.sent] * devices == formula(devices, length, 4).nbytes, kind
    assert Collective("collective-permute", ("f32[6]",), 24, devices, times=5).sent == 120


def test_what_is_not_a_compiled_program_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a compiled program"):
        collectives("module @jit_f attributes {}")


def test_a_program_that_asks_python_for_values_is_known() -> None:
    target = 'custom_call_target="xla_ffi_python_cpu_callback", operand_layout_constraints={f32[2]{0}}'
    assert asks_python(program(f"%pure_callback.4 = (f32[2]{{0}}) custom-call(%param.1), {target}"))
    assert not asks_python(program(f"%debug_print.3 = () custom-call(%param.1), {target}"))
    assert not asks_python(program('%c = f32[2]{0} custom-call(%param.1), custom_call_target="TopK"'))


def test_what_a_device_is_handed() -> None:
    layout = "entry_computation_layout={(f32[5,7]{1,0}, f32[2,5]{1,0}, s32[])->(f32[5,7]{1,0}, f32[])}"
    assert handed_over(f"HloModule jit_step, {layout}, num_partitions=4") == [35, 10, 1]
    assert handed_over("HloModule jit_step, num_partitions=4") == []
    assert sizes_of(["f32[64,10]", "bf16[3]", "s32[]"]) == [640, 3, 1]
