"""The ways in which an attention over ranks goes wrong: what they compute instead, and what their students read.

`tensor_parallel_cases.Attention.compute` can go each of them.
"""

from __future__ import annotations

from collections.abc import Callable

Scale = Callable[[float, float, float], float]  # features, heads, ranks → what scores are divided by the root of

SCALES: dict[str, Scale] = {
    "scale of all features": lambda features, heads, ranks: features,
    "scale of a rank's features": lambda features, heads, ranks: features / ranks,
    "scale of a smaller head": lambda features, heads, ranks: features / ranks / heads,
    "scale by the number of heads": lambda features, heads, ranks: heads,
    "without a scale": lambda features, heads, ranks: 1.0,
    "scale without a root": lambda features, heads, ranks: (features / heads) ** 2,
}
ORDERS = {  # of the three sections: which is taken for queries, which for keys, which for values
    "queries and keys exchanged": (1, 0, 2),
    "values first": (1, 2, 0),
    "values in the middle": (0, 2, 1),
}
_D = "Each head has d = features / heads features, also on a rank that has only some of the heads."
_ORDER = "The sections are queries, keys, values, in this order."
WAYS = {  # in which attention goes wrong, and what their students read
    "each head has its own three": "queries, keys and values are taken apart in the wrong order. First come all "
    "queries of this rank's heads, then all keys, then all values: unflatten(-1, (3, heads of this rank, d)).",
    "queries and keys exchanged": f"queries and keys are exchanged. {_ORDER}",
    "values first": f"the first section is taken for the values. {_ORDER}",
    "values in the middle": f"keys and values are exchanged. {_ORDER}",
    "heads across places": "heads are cut across the positions of the sequence. Take the features apart first, "
    "[batch, length, heads, d], then let heads and length change places.",
    "within a place": "at each position the heads attend to one another. Positions attend to positions: let heads and "
    "length change places before the product of queries and keys.",
    "not put back": "the heads are not put back in their places. First let heads and length change places again, then "
    "flatten heads and features.",
    "every nth feature": "a head has every nth feature of its section. The d features of a head are next to one "
    "another: unflatten(-1, (heads of this rank, d)).",
    "across sequences": "the sequences of a batch attend to one another. A position attends to those of its own "
    "sequence: [batch, length, …] stays apart.",
    "one head": "all heads of a rank are treated as one. Each has a softmax of its own.",
    "too many heads": f"this rank's features are cut into as many heads as there are altogether. {_D}",
    "over queries": "the softmax goes over the queries. It goes over the keys, the last dimension: each query's "
    "weights add up to 1.",
    "over heads": "the softmax goes over the heads. Each head has one of its own, over the keys: the last dimension.",
    "masked": "there is no mask here: every position attends to all, also to those after it.",
    "scale of all features": f"the scores are divided by the root of the number of all features. {_D}",
    "scale of a rank's features": f"the scores are divided by the root of the number of this rank's features. {_D}",
    "scale of a smaller head": f"the scores are divided by the root of a wrong size of a head. {_D}",
    "scale by the number of heads": f"the scores are divided by the root of a number of heads, not of features. {_D}",
    "without a scale": "the scores are not divided by the root of d.",
    "scale without a root": "the scores are divided by d, and not by its root.",
}
