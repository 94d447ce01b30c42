"""Questions about what each rank sends: one to all, all to one, parts of an all-reduce."""

from __future__ import annotations

import random

from distlib.exam.exam_question import Asked, asks_about
from distlib.exam.number_words import shown
from distlib.network import traffic
from distlib.partition import chunk_lengths

_TOPIC = "messages"
_SIZES = (3, 5, 6, 7, 9, 12)


def _drawn(draw: random.Random, divides: bool = True) -> tuple[int, int]:
    """A number of ranks and of elements."""
    ranks = draw.choice(_SIZES)
    return ranks, ranks * draw.randint(50, 400) + (0 if divides else draw.randint(1, ranks - 1))


@asks_about(_TOPIC)
def bytes_of_a_flat_broadcast(draw: random.Random) -> Asked:
    """What the root sends when it sends to each."""
    ranks, length = _drawn(draw)
    answer = max(traffic.flat_broadcast(ranks, length, 4).nbytes)
    return Asked(
        f"A root sends a tensor of {shown(length)} float32 to each of the other ranks; there are {ranks} ranks. "
        "How many bytes does the root send?",
        answer,
        f"{ranks - 1} messages of {shown(length)} · 4 bytes.",
        {"ranks": ranks, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def rounds_of_a_tree_broadcast(draw: random.Random) -> Asked:
    """The longest chain of messages in a binomial tree."""
    ranks = draw.choice((5, 8, 11, 16, 23, 33))
    return Asked(
        f"{ranks} ranks broadcast a tensor through a binomial tree: in each round every rank that has it sends "
        "it to one "
        "that has not. How many rounds does it take?",
        traffic.tree_broadcast(ranks, 100, 4).rounds,
        f"The number of ranks that have it doubles in each round: ⌈log₂ {ranks}⌉.",
        {"ranks": ranks},
        "rounds",
    )


@asks_about(_TOPIC)
def messages_of_a_tree_root(draw: random.Random) -> Asked:
    """What the root of a binomial tree sends."""
    ranks = draw.choice((6, 8, 10, 16, 20, 40))
    return Asked(
        f"How many messages does the root of a binomial tree send when it broadcasts to {ranks} ranks, itself "
        "included?",
        traffic.tree_broadcast(ranks, 100, 4).messages[0],
        f"One in each of the ⌈log₂ {ranks}⌉ rounds.",
        {"ranks": ranks},
        "messages",
    )


@asks_about(_TOPIC)
def messages_of_a_tree_reduce(draw: random.Random) -> Asked:
    """All messages of a reduce."""
    ranks = draw.choice(_SIZES)
    return Asked(
        f"{ranks} ranks reduce a tensor to rank 0 through a binomial tree. How many messages are sent in all?",
        sum(traffic.tree_reduce(ranks, 100, 4).messages),
        f"Each rank but the root sends its partial sum once: {ranks} − 1.",
        {"ranks": ranks},
        "messages",
    )


@asks_about(_TOPIC)
def bytes_of_a_scatter(draw: random.Random) -> Asked:
    """What the root sends when the chunks are not equal."""
    ranks, length = _drawn(draw, divides=False)
    own = chunk_lengths(length, ranks)[0]
    return Asked(
        f"Rank 0 scatters {shown(length)} float32 over {ranks} ranks, cut as torch.tensor_split cuts them, and "
        "keeps its "
        "own chunk. How many bytes does it send?",
        traffic.scatter(ranks, length, 4).nbytes[0],
        f"Its own chunk has {own} elements: ({shown(length)} − {own}) · 4.",
        {"ranks": ranks, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def bytes_of_a_gather(draw: random.Random) -> Asked:
    """What one of the ranks sends when the chunks are not equal."""
    ranks, length = _drawn(draw, divides=False)
    rank = draw.randint(1, ranks - 1)
    return Asked(
        f"{ranks} ranks gather {shown(length)} float64 at rank 0; each has its chunk, cut as torch.tensor_split "
        "cuts them. "
        f"How many bytes does rank {rank} send?",
        traffic.gather(ranks, length, 8).nbytes[rank],
        f"The first {length % ranks} chunks have {length // ranks + 1} elements, the others {length // ranks}.",
        {"ranks": ranks, "length": length, "rank": rank},
        "bytes",
    )


@asks_about(_TOPIC)
def messages_of_a_chain(draw: random.Random) -> Asked:
    """All messages of a broadcast in blocks along a chain."""
    ranks, blocks = draw.choice(_SIZES), draw.choice((4, 6, 8, 10))
    return Asked(
        f"A root broadcasts a tensor in {blocks} blocks along a chain of {ranks} ranks, so that each rank passes "
        "on a block "
        "while the next one comes. How many messages are sent in all?",
        sum(traffic.chain_broadcast(ranks, 100, 4, blocks=blocks).messages),
        f"{blocks} blocks over each of {ranks} − 1 links.",
        {"ranks": ranks, "blocks": blocks},
        "messages",
    )


@asks_about(_TOPIC)
def bytes_of_a_reduce_scatter(draw: random.Random) -> Asked:
    """What a rank sends in a ring reduce-scatter."""
    ranks, length = _drawn(draw)
    return Asked(
        f"{ranks} ranks do a reduce-scatter of {shown(length)} float32 in a ring. How many bytes does each rank send?",
        traffic.ring_reduce_scatter(ranks, length, 4).nbytes[0],
        f"{ranks - 1} chunks of {shown(length // ranks)} elements.",
        {"ranks": ranks, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def messages_of_an_all_gather(draw: random.Random) -> Asked:
    """All messages of a ring all-gather."""
    ranks = draw.choice(_SIZES)
    return Asked(
        f"{ranks} ranks do an all-gather in a ring. How many messages do all of them send together?",
        sum(traffic.ring_all_gather(ranks, 10 * ranks, 4).messages),
        f"Each sends {ranks - 1}: {ranks} · {ranks - 1}.",
        {"ranks": ranks},
        "messages",
    )


@asks_about(_TOPIC)
def rounds_of_recursive_doubling(draw: random.Random) -> Asked:
    """An all-gather whose blocks double."""
    ranks = draw.choice((4, 8, 16, 32))
    return Asked(
        f"{ranks} ranks do an all-gather by recursive doubling. In how many rounds?",
        traffic.recursive_doubling_all_gather(ranks, 10 * ranks, 4).rounds,
        f"What a rank has doubles in each: log₂ {ranks}.",
        {"ranks": ranks},
        "rounds",
    )


@asks_about(_TOPIC)
def bytes_of_an_all_to_all(draw: random.Random) -> Asked:
    """What a rank sends when each has something for each."""
    ranks, length = _drawn(draw)
    return Asked(
        f"Each of {ranks} ranks has {shown(length)} float32 and sends every other rank an equal part of them. "
        "How many bytes "
        "does a rank send?",
        traffic.all_to_all(ranks, length, 4).nbytes[0],
        f"{ranks - 1} parts of {shown(length // ranks)} elements; its own part stays.",
        {"ranks": ranks, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def rounds_of_a_barrier(draw: random.Random) -> Asked:
    ranks = draw.choice((3, 6, 9, 12, 17, 30))
    return Asked(
        f"In a barrier of {ranks} ranks each rank tells in round k the rank that is 2ᵏ further that it has "
        "arrived. After "
        "how many rounds does every rank know that all have arrived?",
        traffic.barrier(ranks).rounds,
        f"What a rank knows of doubles: ⌈log₂ {ranks}⌉.",
        {"ranks": ranks},
        "rounds",
    )
