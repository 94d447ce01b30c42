"""What travels along which axis of a mesh: counted in a run, and by formula.

A message belongs to the axis along which its two ranks differ. In a step of a transformer on dp × pp × tp ranks, with m
microbatches of t tokens each, h features, L layers, and numbers of s bytes, all ranks together send

    along tp    dp · m · (4L + 2) all-reduces of t·h numbers         2 forward and 2 backward per layer, one for the
                                                                     embedding, one backward for the head
                dp · m · 2 all-reduces of t and of 2t numbers        the loss
    along pp    dp · tp · (pp − 1) · 2m messages of t·h numbers      each rank of a tp group sends the same activations
    along dp    pp · tp all-reduces of what a rank has               about Ψ/(pp·tp) numbers of a model of Ψ

An all-reduce of n numbers on N ranks, by a ring, sends 2(N−1)·n numbers in 2(N−1)·N messages, all ranks together.

The first step sends a little more: the stages run on zeros, to find out what travels between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distlib.partition import chunk_lengths
from distlib.trace import Trace
from distlib.training.mesh.coordinates import check_sizes, check_world_size, coordinates_of
from distlib.training.mesh.small_transformer import SmallTransformer


@dataclass(frozen=True)
class AxisTraffic:
    """What all ranks together send along an axis.

    Attributes:
        messages: how many.
        nbytes: of payload, of all of them.
    """

    messages: int = 0
    nbytes: int = 0

    def __add__(self, other: AxisTraffic) -> AxisTraffic:
        return AxisTraffic(self.messages + other.messages, self.nbytes + other.nbytes)

    def __sub__(self, other: AxisTraffic) -> AxisTraffic:
        return AxisTraffic(self.messages - other.messages, self.nbytes - other.nbytes)

    def __mul__(self, times: int) -> AxisTraffic:
        return AxisTraffic(self.messages * times, self.nbytes * times)


def traffic_by_axis(trace: Trace, sizes: Mapping[str, int]) -> dict[str, AxisTraffic]:
    """What was sent in a run, by the axes of the mesh that it ran on.

    Args:
        trace: of a run whose messages were kept.
        sizes: of the mesh.

    Returns:
        An entry for each axis, in order. A message whose ranks differ along several axes has an entry of its own, such
        as "dp and tp". Splits and barriers are not messages.

    Raises:
        ValueError: a trace of another number of ranks; see `check_sizes`.
    """
    check_sizes(sizes)
    check_world_size(sizes, trace.world_size)
    coordinates = [coordinates_of(rank, sizes) for rank in range(trace.world_size)]
    found = {name: AxisTraffic() for name in sizes}
    for message in trace.messages:
        src, dst = coordinates[message.src], coordinates[message.dst]
        axis = " and ".join(name for name in sizes if src[name] != dst[name])
        found[axis] = found.get(axis, AxisTraffic()) + AxisTraffic(1, message.nbytes)
    return found


def step_traffic(
    model: SmallTransformer,
    sizes: Mapping[str, int],
    *,
    samples: int,
    sequence: int,
    num_microbatches: int,
    itemsize: int,
) -> dict[str, AxisTraffic]:
    """What a step of a `HybridTrainer` sends, by axis: any but the first, with ZeRO stage 0 and without clipping.

    The schedule has one stage per rank of pp. All microbatches of a replica together have its samples.

    Args:
        model: see `SmallTransformer`.
        sizes: of the axes dp, pp and tp.
        samples: of the whole batch; dp divides it.
        sequence: tokens per sample.
        num_microbatches: of each replica.
        itemsize: bytes per number.
    """
    dp, pp, tp = sizes["dp"], sizes["pp"], sizes["tp"]
    tokens = [length * sequence for length in chunk_lengths(samples // dp, num_microbatches)]
    found = {name: AxisTraffic() for name in sizes}
    for count in tokens:
        activations = count * model.features
        of_layers = _all_reduce(tp, activations, itemsize) * (4 * model.num_layers + 2)
        of_loss = _all_reduce(tp, count, itemsize) + _all_reduce(tp, 2 * count, itemsize)
        found["tp"] += (of_layers + of_loss) * dp
        found["pp"] += AxisTraffic(1, activations * itemsize) * (2 * (pp - 1) * dp * tp)
    if model.tied and pp > 1:
        found["pp"] += _all_reduce(2, model.numbers_of_tokens // tp, itemsize) * (dp * tp)
    found["dp"] = AxisTraffic(
        _all_reduce(dp, 0, itemsize).messages * pp * tp,
        _all_reduce(dp, _numbers_on_a_replica(model, pp, tp), itemsize).nbytes,
    )
    return found


def _all_reduce(ranks: int, numbers: int, itemsize: int) -> AxisTraffic:
    """By a ring, all ranks together."""
    return AxisTraffic(2 * (ranks - 1) * ranks, 2 * (ranks - 1) * numbers * itemsize)


def _numbers_on_a_replica(model: SmallTransformer, pp: int, tp: int) -> int:
    """How many numbers the pp · tp ranks of a replica have, copies included."""
    shared = model.numbers_of_tokens if model.tied and pp > 1 else 0
    return model.numbers_cut + shared + tp * model.numbers_copied
