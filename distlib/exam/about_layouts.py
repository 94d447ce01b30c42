"""Questions about who is where: meshes, gossip, long sequences, experts, nodes."""

from __future__ import annotations

import math
import random

from distlib.exam.exam_question import Asked, asks_about
from distlib.exam.number_words import shown
from distlib.training.experts.capacity import expert_capacity
from distlib.training.long_sequences.attention_traffic import ring_attention_traffic
from distlib.training.long_sequences.attention_work import pairs_per_rank
from distlib.training.mesh.coordinates import coordinates_of, mesh_groups, rank_at
from distlib.training.mixing import contraction, metropolis_weights, ring, rounds_for, star

_TOPIC = "layouts"


def _mesh(draw: random.Random) -> dict[str, int]:
    return {"dp": draw.choice((2, 3, 4)), "pp": draw.choice((2, 3)), "tp": draw.choice((2, 4))}


def _in_words(sizes: dict[str, int]) -> str:
    ranks = math.prod(sizes.values())
    named = " × ".join(f"{name} = {size}" for name, size in sizes.items())
    return f"{ranks} ranks form a mesh {named}; the last axis varies fastest."


@asks_about(_TOPIC)
def rank_in_a_mesh(draw: random.Random) -> Asked:
    """From coordinates to a rank."""
    sizes = _mesh(draw)
    at = {name: draw.randrange(size) for name, size in sizes.items()}
    return Asked(
        f"{_in_words(sizes)} Which rank is at {', '.join(f'{name} {index}' for name, index in at.items())}?",
        rank_at(at, sizes),
        f"({at['dp']} · {sizes['pp']} + {at['pp']}) · {sizes['tp']} + {at['tp']}.",
        {"sizes": sizes, "at": at},
    )


@asks_about(_TOPIC)
def stage_of_a_rank(draw: random.Random) -> Asked:
    """From a rank to coordinates."""
    sizes = _mesh(draw)
    rank = draw.randrange(math.prod(sizes.values()))
    return Asked(
        f"{_in_words(sizes)} On which pipeline stage (pp, from 0) is rank {rank}?",
        coordinates_of(rank, sizes)["pp"],
        f"⌊{rank}/{sizes['tp']}⌋ mod {sizes['pp']}.",
        {"sizes": sizes, "rank": rank},
    )


@asks_about(_TOPIC)
def group_of_a_rank(draw: random.Random) -> Asked:
    """Who averages gradients with whom."""
    sizes = _mesh(draw)
    rank = draw.randrange(math.prod(sizes.values()))
    return Asked(
        f"{_in_words(sizes)} With which ranks, itself included, does rank {rank} average gradients, along dp?",
        next(group for group in mesh_groups(sizes, "dp") if rank in group),
        f"Neighbors along dp are {sizes['pp'] * sizes['tp']} ranks apart.",
        {"sizes": sizes, "rank": rank},
    )


@asks_about(_TOPIC)
def replicas_that_are_left(draw: random.Random) -> Asked:
    """dp is what remains."""
    dp, pp, tp = draw.choice((2, 4, 8, 16)), draw.choice((2, 4, 8)), draw.choice((2, 4, 8))
    return Asked(
        f"{dp * pp * tp} GPUs train a model with tensor parallelism of {tp} and {pp} pipeline stages. How many "
        "replicas of the "
        "model are there?",
        dp,
        f"{dp * pp * tp} / ({pp} · {tp}).",
        {"ranks": dp * pp * tp, "pp": pp, "tp": tp},
        "replicas",
    )


@asks_about(_TOPIC)
def contraction_of_a_ring(draw: random.Random) -> Asked:
    """How slowly a ring of gossiping ranks agrees."""
    ranks = draw.choice((5, 6, 8, 10, 12))
    return Asked(
        f"{ranks} ranks on a ring gossip: each takes a third of its own value and of both neighbors'. By which "
        "factor do "
        "differences shrink per round, in the worst case?",
        contraction(metropolis_weights(ring(ranks))),
        f"(1 + 2·cos(2π/{ranks}))/3, the second-largest eigenvalue.",
        {"ranks": ranks},
    )


@asks_about(_TOPIC)
def rounds_of_gossip(draw: random.Random) -> Asked:
    """How long that takes."""
    ranks, part = draw.choice((6, 8, 12)), draw.choice((10, 100, 1000))
    return Asked(
        f"{ranks} ranks on a ring gossip: each takes a third of its own value and of both neighbors'. After how "
        "many rounds have "
        f"all differences surely shrunk to 1/{part}?",
        rounds_for(metropolis_weights(ring(ranks)), 1 / part),
        f"⌈ln {part} / −ln ρ⌉ with ρ = (1 + 2·cos(2π/{ranks}))/3.",
        {"ranks": ranks, "part": part},
        "rounds",
    )


@asks_about(_TOPIC)
def weight_of_a_hub(draw: random.Random) -> Asked:
    """Metropolis weights of a star."""
    ranks = draw.randint(4, 12)
    return Asked(
        f"{ranks} ranks form a star around rank 0, with Metropolis weights: 1/(1 + the larger degree) on each "
        "edge. Which weight "
        "does a leaf give itself?",
        float(metropolis_weights(star(ranks))[1, 1]),
        f"1 − 1/{ranks}: the hub has {ranks - 1} neighbors.",
        {"ranks": ranks},
    )


@asks_about(_TOPIC)
def value_after_a_round(draw: random.Random) -> Asked:
    """One round of gossip."""
    values = [3 * draw.randint(0, 20) for _ in range(5)]
    rank = draw.randrange(5)
    return Asked(
        f"Five ranks on a ring have {', '.join(map(str, values))}. In a round of gossip each takes a third of "
        "its own value and of "
        f"both neighbors'. What does rank {rank} have then?",
        sum(values[(rank + step) % 5] for step in (-1, 0, 1)) // 3,
        f"({values[rank - 1]} + {values[rank]} + {values[(rank + 1) % 5]})/3.",
        {"values": values, "rank": rank},
    )


@asks_about(_TOPIC)
def bytes_of_ring_attention(draw: random.Random) -> Asked:
    """Keys and values go around."""
    ranks = draw.choice((4, 8))
    sequence, features = ranks * draw.choice((256, 512)), draw.choice((64, 128))
    own = sequence // ranks * features
    return Asked(
        f"{ranks} ranks do ring attention over {shown(sequence)} tokens, one head of {features} features, in "
        "bfloat16. How many "
        "bytes does each rank send in the forward pass?",
        ring_attention_traffic(ranks, own, 2).nbytes[0],
        f"{ranks - 1} times keys and values of {sequence // ranks} tokens: 2 · {shown(own)} · 2 bytes.",
        {"ranks": ranks, "sequence": sequence, "features": features},
        "bytes",
    )


@asks_about(_TOPIC)
def work_of_the_last_rank(draw: random.Random) -> Asked:
    """A causal mask makes contiguous parts unequal."""
    ranks = draw.choice((2, 4, 8))
    sequence = ranks * draw.choice((4, 8, 16))
    work = pairs_per_rank(ranks, sequence)
    return Asked(
        f"{sequence} tokens with a causal mask lie on {ranks} ranks in equal contiguous parts. How many pairs of "
        "query and key does "
        "the last rank compute (a token sees itself)?",
        work[-1],
        f"Its {sequence // ranks} queries see {sequence - sequence // ranks + 1} to {sequence} keys.",
        {"ranks": ranks, "sequence": sequence},
        "pairs",
    )


@asks_about(_TOPIC)
def room_of_an_expert(draw: random.Random) -> Asked:
    tokens, experts = draw.choice((500, 1000, 1500)), draw.choice((8, 16, 64))
    chosen, percent = draw.choice((1, 2)), draw.choice((100, 125, 150))
    return Asked(
        f"{shown(tokens)} tokens each choose {chosen} of {experts} experts. With a capacity factor of "
        f"{percent / 100:g}, how many "
        "choices does an expert take at most?",
        expert_capacity(tokens, experts, chosen, percent / 100),
        f"⌈{percent / 100:g} · {chosen} · {shown(tokens)} / {experts}⌉.",
        {"tokens": tokens, "experts": experts, "chosen": chosen, "percent": percent},
        "choices",
    )


@asks_about(_TOPIC)
def nodes_of_a_list(draw: random.Random) -> Asked:
    first, more = draw.randint(1, 9), draw.randint(3, 30)
    other = first + more + draw.randint(2, 9)
    return Asked(
        f"SLURM_JOB_NODELIST is gpu[{first:03d}-{first + more:03d},{other:03d}],login1. How many nodes does the "
        "job have?",
        more + 3,
        f"{first} to {first + more} are {more + 1}, and two more.",
        {"text": f"gpu[{first:03d}-{first + more:03d},{other:03d}],login1"},
        "nodes",
    )


@asks_about(_TOPIC)
def node_of_a_rank(draw: random.Random) -> Asked:
    """Ranks are numbered node by node."""
    per_node, nodes = draw.choice((4, 8)), draw.choice((4, 6, 16))
    rank = draw.randrange(per_node * nodes)
    return Asked(
        f"torchrun starts {per_node} ranks on each of {nodes} nodes. Which local rank has rank {rank}?",
        rank % per_node,
        f"{rank} mod {per_node}; it is on node {rank // per_node}.",
        {"per_node": per_node, "nodes": nodes, "rank": rank},
    )
