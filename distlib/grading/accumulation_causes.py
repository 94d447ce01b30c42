"""Usual mistakes of accumulate_gradients, as what each sample counts in the gradient that they give.

The right gradient counts every sample of every microbatch 1/B, with B samples in the whole batch. A mistake counts the
samples of microbatch m of rank r otherwise; `weights` has these numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Weight = Callable[[int, int], float]  # rank and microbatch → what each of its samples counts

TWICE = (
    "it was divided twice: the losses by global_batch_size, and the sum by comm.world_size. Add the ranks' gradients "
    "up, and do not average them."
)
MEANS = (
    "each microbatch's mean was taken, and means were combined. That is right only if all have equally many samples. "
    "Add up the losses, and divide by global_batch_size."
)
RANK_MEANS = (
    "each rank's mean was taken, and the means were averaged. That is right only if all ranks have equally many "
    "samples. Add up the losses, and divide by global_batch_size."
)
LAST = (
    "this is the last microbatch of each rank only. The gradients of the microbatches add up: set them to zero once, "
    "before the first."
)
AGAIN = (
    "the sums of earlier microbatches were added up over the ranks again with each later one. Talk once, after the "
    "last microbatch."
)
OLD = "the old contents of parameter.grad were added. Clear them first: model.zero_grad()."


def weights(lengths: Sequence[Sequence[int]], rank: int) -> list[tuple[Weight, str]]:
    """What samples count by usual mistakes, and these mistakes in words. `rank`: whose gradient it is."""
    size, own, total = len(lengths), [sum(mine) for mine in lengths], sum(map(sum, lengths))
    most = max(map(len, lengths))
    return [
        (lambda r, m: 1 / total / size, TWICE),
        (lambda r, m: 1.0, "nothing was divided. Divide each loss by global_batch_size."),
        (lambda r, m: 1 / size, "this is a sum, divided by the number of ranks. Divide by global_batch_size instead."),
        (lambda r, m: (r == rank) / total, "these are the rank's own samples only. Is the result of all_reduce written "
         "back into parameter.grad?"),
        (lambda r, m: (m == len(lengths[r]) - 1) / total, LAST),
        (lambda r, m: 1 / own[r] / size, RANK_MEANS),
        (lambda r, m: 1 / own[r], "each rank divided by the number of its own samples. Divide by global_batch_size."),
        (lambda r, m: 1 / lengths[r][m], MEANS),
        (lambda r, m: 1 / lengths[r][m] / size, MEANS),
        (lambda r, m: 1 / lengths[r][m] / len(lengths[r]), MEANS),
        (lambda r, m: 1 / lengths[r][m] / len(lengths[r]) / size, MEANS),
        (lambda r, m: 1 / lengths[r][m] / total, "it was divided twice: by the samples of the microbatch, and by "
         "global_batch_size. Take the sum of the losses, not their mean."),
        (lambda r, m: 1 / total / len(lengths[r]), "it was divided by the number of microbatches, too. "
         "global_batch_size has counted every sample already."),
        (lambda r, m: size / total, "it is too large by the number of ranks. Was it added up twice?"),
        (lambda r, m: size ** (most - 1 - m) / total, AGAIN),
    ]  # fmt: skip
