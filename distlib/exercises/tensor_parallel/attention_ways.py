"""The ways in which an attention over ranks goes wrong: what they compute instead, and what their students read.

`tensor_parallel_cases.Attention.compute` can go each of them.
"""

from __future__ import annotations

from collections.abc import Callable

from distlib.checks.sentences import Sentences

say = Sentences(__file__)
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
WAYS = {  # in which attention goes wrong, and what their students read
    "each head has its own three": say("own_three"),
    "queries and keys exchanged": say("queries_and_keys"),
    "values first": say("values_first"),
    "values in the middle": say("keys_and_values"),
    "heads across places": say("across_places"),
    "within a place": say("within_a_place"),
    "not put back": say("not_put_back"),
    "every nth feature": say("every_nth"),
    "across sequences": say("across_sequences"),
    "one head": say("one_head"),
    "too many heads": say("too_many_heads"),
    "over queries": say("over_queries"),
    "over heads": say("over_heads"),
    "masked": say("masked"),
    "scale of all features": say("all_features"),
    "scale of a rank's features": say("own_features"),
    "scale of a smaller head": say("smaller_head"),
    "scale by the number of heads": say("number_of_heads"),
    "without a scale": say("no_scale"),
    "scale without a root": say("no_root"),
}
