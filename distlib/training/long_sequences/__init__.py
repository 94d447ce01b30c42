"""Attention over sequences that are too long for one rank: each rank has a part of the positions.

plain              read this first: causal ring attention, forward and backward

sequence_order     which positions a rank has, contiguous or zigzag
attention_work     how much each rank computes, step by step
online_softmax     softmax of scores that come in blocks
circulation        blocks that travel round the ring, and sums that travel after them
ring_attention     keys and values travel, queries stay
ulysses            two all-to-alls: from parts of the sequence to parts of the heads, and back
attention_traffic  messages and bytes of both, exactly
attention_times    both in virtual time

H. Liu et al., arXiv:2310.01889 (2023); S. A. Jacobs et al., arXiv:2309.14509 (2023).
"""

from distlib.training.long_sequences.attention_times import AttentionTask, attention_seconds, play_ring, play_ulysses
from distlib.training.long_sequences.attention_traffic import ring_attention_traffic
from distlib.training.long_sequences.attention_work import pairs_per_rank, visible_pairs
from distlib.training.long_sequences.online_softmax import OnlineSoftmax
from distlib.training.long_sequences.ring_attention import ring_attention
from distlib.training.long_sequences.sequence_order import blocks_of, join_sequence, own_sequence
from distlib.training.long_sequences.ulysses import heads_to_sequence, sequence_to_heads, ulysses_attention

__all__ = [
    "AttentionTask",
    "OnlineSoftmax",
    "attention_seconds",
    "blocks_of",
    "heads_to_sequence",
    "join_sequence",
    "own_sequence",
    "pairs_per_rank",
    "play_ring",
    "play_ulysses",
    "ring_attention",
    "ring_attention_traffic",
    "sequence_to_heads",
    "ulysses_attention",
    "visible_pairs",
]
