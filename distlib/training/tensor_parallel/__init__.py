"""Tensor parallelism: one layer over several ranks. Each has a part of every weight, and none ever has a whole one.

plain         read this first: layers cut by columns and by rows, an MLP and attention made of them

operators     copy_to_ranks and sum_over_ranks: what one does forward, the other does backward; the same for sequences
shares        which part is this rank's, and does it divide?
drawing       a part of a random weight, the same whichever way the weight is cut
linear        ColumnParallelLinear, RowParallelLinear
blocks        ParallelMLP, ParallelAttention, ParallelTransformerLayer: two all-reduces forward, two backward
grouped       attention with fewer heads of keys and values than of queries
vocabulary    the embedding and the cross-entropy over a vocabulary that is cut
timing        when a rank computes and when it communicates, in virtual time

M. Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism",
arXiv:1909.08053 (2019), section 3.
"""

from distlib.training.tensor_parallel.blocks import ParallelAttention, ParallelMLP, ParallelTransformerLayer
from distlib.training.tensor_parallel.grouped import GroupedQueryAttention
from distlib.training.tensor_parallel.linear import ColumnParallelLinear, RowParallelLinear, sum_sequence_gradients
from distlib.training.tensor_parallel.operators import (
    copy_to_ranks,
    gather_sequence,
    scatter_sum,
    split_sequence,
    sum_over_ranks,
)
from distlib.training.tensor_parallel.timing import Stretch, layer_stretches
from distlib.training.tensor_parallel.vocabulary import VocabularyParallelEmbedding, vocabulary_parallel_cross_entropy

__all__ = [
    "ColumnParallelLinear",
    "GroupedQueryAttention",
    "ParallelAttention",
    "ParallelMLP",
    "ParallelTransformerLayer",
    "RowParallelLinear",
    "Stretch",
    "VocabularyParallelEmbedding",
    "copy_to_ranks",
    "gather_sequence",
    "layer_stretches",
    "scatter_sum",
    "split_sequence",
    "sum_over_ranks",
    "sum_sequence_gradients",
    "vocabulary_parallel_cross_entropy",
]
