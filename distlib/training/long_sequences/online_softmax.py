"""Softmax of scores that come in blocks: mended with each block, never recomputed.

Attention needs  o = Σⱼ exp(sⱼ)·vⱼ / Σⱼ exp(sⱼ)  over all keys j. When the keys come in blocks, keep for each query

    m    the largest score so far              m' = max(m, block)
    l    Σ exp(sⱼ − m)                         l' = l·exp(m − m') + Σ exp(s − m')
    o    Σ exp(sⱼ − m)·vⱼ                      o' = o·exp(m − m') + Σ exp(s − m')·v

and divide o by l at the end. No exponent is above 0, so nothing overflows, however large the scores are.

Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867 (2018), algorithm 3,
with m and d; for whole blocks: T. Dao et al., "FlashAttention", arXiv:2205.14135 (2022).
"""

from __future__ import annotations

import torch


class OnlineSoftmax:
    """Attention of some queries to keys that come in blocks.

    Args:
        queries: [batch, heads, length, head]; only shape, dtype and device matter.
    """

    def __init__(self, queries: torch.Tensor) -> None:
        self.output = torch.zeros_like(queries)
        self.total = torch.zeros_like(queries[..., :1])
        self.largest = torch.full_like(self.total, -torch.inf)

    def add(self, scores: torch.Tensor, values: torch.Tensor) -> None:
        """Take a block into account.

        Args:
            scores: [batch, heads, length, keys]; −inf where a query doesn't see a key.
            values: [batch, heads, keys, head].
        """
        largest = torch.maximum(self.largest, scores.amax(dim=-1, keepdim=True))
        base = largest.masked_fill(largest == -torch.inf, 0)  # a query that sees nothing yet: −inf − −inf is NaN
        weights, mend = torch.exp(scores - base), torch.exp(self.largest - base)
        self.output = self.output * mend + weights @ values
        self.total = self.total * mend + weights.sum(dim=-1, keepdim=True)
        self.largest = largest

    def result(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The output [batch, heads, length, head], and log Σ exp(scores) of each query, [batch, heads, length, 1].

        For a query that has seen no key these are 0 and −inf.
        """
        total = self.total.masked_fill(self.total == 0, 1)
        return self.output / total, self.largest + torch.log(total)
