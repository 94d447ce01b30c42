"""The two ends of a language model, over a vocabulary that is cut: each rank knows V/N of the tokens.

    embedding       a rank looks up its own tokens, zeros stand for the others'; the sum over the ranks is the embedding
    scores          hidden ──copy_to_ranks──► V/N scores (logits) on each rank. They are never gathered: the loss needs
                    three numbers per position only,
    cross-entropy   max over all scores      all-reduce (MAX) of one number per position
                    Σ exp(score − max)       all-reduce (SUM) of two numbers per position: this sum, and
                    score of the target      the target's score, which one rank has

With t positions in a batch the cross-entropy sends all-reduces of 3t numbers, where gathered scores would be t·V. Its
backward pass sends nothing: softmax − 1 at the target needs only what the rank has.

Source: Shoeybi et al., arXiv:1909.08053, section 3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import embedding, linear

from distlib.arguments import checked
from distlib.collectives import all_reduce
from distlib.communicator import Communicator, ReduceOp
from distlib.training.tensor_parallel.drawing import draw_linear
from distlib.training.tensor_parallel.operators import copy_to_ranks, sum_over_ranks
from distlib.training.tensor_parallel.shares import note_cut, own_range


class VocabularyParallelEmbedding(nn.Module):
    """An embedding of which each rank has some of the tokens, and the output layer with the same weight.

    `forward` sends one all-reduce of the embeddings, and nothing backward; `scores` sends nothing, and one all-reduce
    of the hidden states' gradient backward.

    Args:
        comm: the ranks that share it.
        vocabulary: the number of tokens on all ranks together.
        features: of each token.
        seed: of the weights; the same for every number of ranks.
        dtype: of the weights.

    Attributes:
        vocabulary: as given.
        weight: [vocabulary / ranks, features], this rank's tokens.

    Raises:
        ValueError: the ranks do not divide the vocabulary.
    """

    @checked
    def __init__(
        self,
        comm: Communicator,
        vocabulary: int,
        features: int,
        *,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.comm, self.vocabulary, self.tokens = comm, vocabulary, own_range(comm, "tokens", vocabulary)
        rows = range(vocabulary)[self.tokens]
        self.weight = note_cut(comm, draw_linear(features, vocabulary, rows, slice(None), seed, dtype)[0])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Token numbers of any shape […] → […, features], the same on every rank.

        Raises:
            ValueError: a token outside of the vocabulary.
        """
        _check_in_vocabulary("tokens", tokens, self.vocabulary)
        own, indices = _own_indices(tokens, self.tokens)
        found = embedding(indices, self.weight) * own.unsqueeze(-1)
        return sum_over_ranks(self.comm, found)

    def scores(self, hidden: torch.Tensor) -> torch.Tensor:
        """[…, features] → […, vocabulary / ranks]: the scores of this rank's tokens."""
        return linear(copy_to_ranks(self.comm, hidden), self.weight)

    @torch.no_grad()
    def load_whole(self, weight: torch.Tensor) -> None:
        """Copy this rank's tokens of a whole weight [vocabulary, features]."""
        self.weight.copy_(weight[self.tokens])


@checked
def vocabulary_parallel_cross_entropy(comm: Communicator, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of scores that are cut along the vocabulary, the same on every rank.

    Args:
        scores: […, vocabulary / ranks], of this rank's tokens.
        targets: […], token numbers of the whole vocabulary, the same on every rank.

    Raises:
        ValueError: a target outside of the vocabulary, another number of targets than of scores, or scores without a
            dimension.
    """
    if scores.dim() == 0:
        raise ValueError("expected scores of the shape […, vocabulary / ranks], got a single number")
    if scores.shape[:-1] != targets.shape:
        raise ValueError(
            f"expected a target for each row of scores, {list(scores.shape[:-1])}, got {list(targets.shape)}"
        )
    _check_in_vocabulary("targets", targets, scores.shape[-1] * comm.world_size)
    return _CrossEntropy.apply(comm, scores.reshape(targets.numel(), scores.shape[-1]), targets.flatten())


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, comm: Communicator, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        largest = scores.amax(dim=-1)
        all_reduce(comm, largest, ReduceOp.MAX)
        shifted = scores - largest.unsqueeze(-1)  # exp never overflows
        tokens = own_range(comm, "tokens", scores.shape[-1] * comm.world_size)
        own, indices = _own_indices(targets, tokens)
        exponentials = shifted.exp()
        found = shifted.gather(-1, indices.unsqueeze(-1)).squeeze(-1)
        at_target = torch.where(own, found, 0)  # a product would give NaN where a score is masked with -inf
        sums = torch.stack([exponentials.sum(dim=-1), at_target])
        all_reduce(comm, sums)
        ctx.save_for_backward(exponentials / sums[0].unsqueeze(-1), own, indices)
        return (sums[0].log() - sums[1]).mean()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        softmax, own, indices = ctx.saved_tensors
        target = torch.zeros_like(softmax).scatter_(-1, indices.unsqueeze(-1), own.unsqueeze(-1).to(softmax.dtype))
        return None, gradients[0] * (softmax - target) / len(softmax), None


def _check_in_vocabulary(what: str, tokens: torch.Tensor, vocabulary: int) -> None:
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary:
        raise ValueError(f"expected {what} from 0 to {vocabulary - 1}, got {int(tokens.min())} to {int(tokens.max())}")


def _own_indices(tokens: torch.Tensor, own: slice) -> tuple[torch.Tensor, torch.Tensor]:
    """Which tokens are this rank's, and their indices in its part; the others get index 0."""
    is_own = (tokens >= own.start) & (tokens < own.stop)
    return is_own, torch.where(is_own, tokens - own.start, 0)
