"""How many bytes each rank keeps between steps, and how many it sends in one, by formulas.

Ψ parameters on N ranks; p, g and k bytes of parameter, gradient and optimizer state per parameter. With Adam in mixed
precision p = 2, g = 2 and k = 12: the 32-bit parameters, their mean and their mean square, 4 each.

    stage   keeps                           sends per step        7.5 billion parameters, 64 ranks: GB kept
    0       (p + g + k)·Ψ                   2·(N−1)/N·Ψ           120
    1       (p + g + k/N)·Ψ                 2·(N−1)/N·Ψ            31.4
    2       (p + (g + k)/N)·Ψ               2·(N−1)/N·Ψ            16.6
    3       (p + g + k)/N·Ψ                 3·(N−1)/N·Ψ             1.88

Source: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, figure 1
and section 7, where stages 1, 2 and 3 are called P_os, P_os+g and P_os+g+p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distlib.arguments import check_integer, check_number

STAGES = (0, 1, 2, 3)


def memory_by_stage(
    num_parameters: int,
    world_size: int,
    *,
    param_bytes: float = 2,
    gradient_bytes: float = 2,
    optimizer_bytes: float = 12,
) -> list[dict[str, float]]:
    """The bytes that each rank keeps at stage 0, which is DDP, and at stages 1, 2 and 3 of ZeRO.

    Args:
        num_parameters: of the model.
        world_size: how many ranks.
        param_bytes, gradient_bytes, optimizer_bytes: per parameter. The defaults are those of Adam in mixed precision.

    Returns:
        By stage, kind → bytes: "parameters", "gradients" and "optimizer states". Activations and buffers are not in it.

    Raises:
        ValueError: a negative number, or no rank.
    """
    check_integer("memory_by_stage", "num_parameters", num_parameters)
    check_integer("memory_by_stage", "world_size", world_size, 1)
    kinds = {"parameters": param_bytes, "gradients": gradient_bytes, "optimizer states": optimizer_bytes}
    for kind, nbytes in kinds.items():
        check_number("memory_by_stage", f"bytes of {kind}", nbytes, at_least=0)
    first_sharded = {"parameters": 3, "gradients": 2, "optimizer states": 1}
    return [
        {
            kind: num_parameters * nbytes / (world_size if stage >= first_sharded[kind] else 1)
            for kind, nbytes in kinds.items()
        }
        for stage in STAGES
    ]


def first_stage_within(limit: float, by_stage: Sequence[Mapping[str, float]]) -> int:
    """The first stage at which a rank keeps at most `limit` bytes: each further one shards more, and none sends less.

    Args:
        by_stage: what `memory_by_stage` or `padded_bytes_by_stage` returns.

    Raises:
        ValueError: not even the last stage fits: with the bytes that are missing.
    """
    check_number("first_stage_within", "limit", limit, at_least=0)
    totals = [sum(kinds.values()) for kinds in by_stage]
    for stage, total in enumerate(totals):
        if total <= limit:
            return stage
    raise ValueError(
        f"no stage fits into {limit:,.0f} bytes: stage {len(totals) - 1} keeps {totals[-1]:,.0f}, which is "
        f"{totals[-1] - limit:,.0f} more. Take more ranks, a smaller model, or numbers of fewer bytes."
    )


def padded_bytes_by_stage(
    unit_lengths: Sequence[int],
    world_size: int,
    *,
    param_itemsize: int = 4,
    master_itemsize: int = 4,
    states_per_parameter: int = 2,
) -> list[dict[str, int]]:
    """As `memory_by_stage`, exactly, for the classes of this package: every unit is padded until it divides.

    Between `backward` and `step`, when gradients are there. Stage 0 is a model as it is, with an optimizer of its own,
    and without shards nothing is padded.

    Args:
        unit_lengths: the numbers of parameters of the units.
        param_itemsize: bytes of a number that the model computes with.
        master_itemsize: bytes of a number of shards, gradient shards and states. Where it is the same as
            `param_itemsize`, the shards of stages 1 and 2 are parts of the parameters and take no memory of their own.
        states_per_parameter: of the optimizer: 2 for Adam, 1 for SGD with momentum, 0 for SGD.
    """
    check_integer("padded_bytes_by_stage", "world_size", world_size, 1)
    length = sum(unit_lengths)
    shard = sum(-(-unit // world_size) for unit in unit_lengths)
    padded = shard * world_size
    master = 0 if param_itemsize == master_itemsize else master_itemsize
    states = states_per_parameter * master_itemsize
    return [
        _kinds(length * param_itemsize, length * param_itemsize, length * (states + master)),
        _kinds(padded * param_itemsize, length * param_itemsize, shard * (states + master)),
        _kinds(padded * param_itemsize, shard * master_itemsize, shard * (states + master)),
        _kinds(shard * (master_itemsize - master), shard * master_itemsize, shard * (states + master)),
    ]


def _kinds(parameters: int, gradients: int, states: int) -> dict[str, int]:
    return {"parameters": parameters, "gradients": gradients, "optimizer states": states}


def bytes_sent_by_stage(
    unit_lengths: Sequence[int],
    world_size: int,
    *,
    param_itemsize: int = 4,
    reduce_itemsize: int = 4,
    reshard_after_forward: bool | None = None,
    root: int | None = None,
    microbatches: int = 1,
) -> list[int]:
    """The bytes that each rank sends in one step, by stage, with collectives in a ring.

    Args:
        unit_lengths: the numbers of parameters of the units.
        param_itemsize, reduce_itemsize: bytes of a number in all-gathers and in reduce-scatters.
        reshard_after_forward: of stage 3.
        root: which unit is the root's, which stage 3 keeps with `reshard_after_forward=None`.
        microbatches: backward passes in the step: stages 2 and 3 send the gradients of each, stage 3 gathers for each.
    """
    others = world_size - 1
    shards = [-(-unit // world_size) for unit in unit_lengths]
    once_params, once_gradients = sum(shards) * others * param_itemsize, sum(shards) * others * reduce_itemsize
    gathers = [
        1 + (number != root if reshard_after_forward is None else reshard_after_forward)
        for number in range(len(shards))
    ]
    stage_3 = sum(count * shard for count, shard in zip(gathers, shards, strict=True)) * others * param_itemsize
    return [
        2 * once_gradients,
        once_gradients + once_params,
        microbatches * once_gradients + once_params,
        microbatches * (once_gradients + stage_3),
    ]
