"""Questions about what an all-reduce sends, by algorithm."""

from __future__ import annotations

import random

from distlib.exam.exam_question import Asked, asks_about
from distlib.exam.number_words import shown
from distlib.network import traffic
from distlib.partition import chunk_lengths

_TOPIC = "all-reduce"


@asks_about(_TOPIC)
def bytes_of_a_master(draw: random.Random) -> Asked:
    """What goes in and out of a master."""
    ranks, length = draw.randint(3, 12), 100 * draw.randint(2, 50)
    sent = traffic.naive_all_reduce(ranks, length, 4).nbytes
    return Asked(
        f"{ranks} ranks sum {shown(length)} float32 at a master, which is one of them and sends the sum back. "
        "How many bytes "
        "does the master receive and send, added up?",
        sum(sent),
        f"It receives {ranks - 1} tensors and sends {ranks - 1}: 2 · {ranks - 1} · {shown(4 * length)}.",
        {"ranks": ranks, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def bytes_of_a_ring(draw: random.Random) -> Asked:
    """What each rank sends in a ring."""
    ranks = draw.choice((4, 5, 8, 10))
    length = ranks * draw.randint(100, 900)
    return Asked(
        f"{ranks} ranks do a ring all-reduce of {shown(length)} float32. How many bytes does each rank send?",
        traffic.ring_all_reduce(ranks, length, 4).nbytes[0],
        f"2 · ({ranks} − 1) chunks of {shown(length // ranks)} elements of 4 bytes.",
        {"ranks": ranks, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def rounds_of_a_ring(draw: random.Random) -> Asked:
    """Rounds of a ring."""
    ranks = draw.randint(3, 40)
    return Asked(
        f"How many rounds does a ring all-reduce on {ranks} ranks take?",
        traffic.ring_all_reduce(ranks, 10 * ranks, 4).rounds,
        f"{ranks - 1} of the reduce-scatter, {ranks - 1} of the all-gather.",
        {"ranks": ranks},
        "rounds",
    )


@asks_about(_TOPIC)
def most_bytes_of_an_uneven_ring(draw: random.Random) -> Asked:
    """A ring whose chunks differ by one element."""
    ranks = draw.choice((3, 4, 5))
    length = ranks * draw.randint(3, 9) + draw.randint(1, ranks - 1)
    return Asked(
        f"{ranks} ranks do a ring all-reduce of {length} float32, cut as torch.tensor_split cuts them. How many "
        "bytes does "
        "the rank send that sends the most?",
        max(traffic.ring_all_reduce(ranks, length, 4).nbytes),
        f"The chunks have {shown(chunk_lengths(length, ranks))} elements. In each half a rank leaves out one "
        "chunk, and not "
        "the same one in both halves.",
        {"ranks": ranks, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def rounds_of_halving_and_doubling(draw: random.Random) -> Asked:
    """Recursive halving, then doubling."""
    ranks = draw.choice((4, 8, 16, 32, 64))
    return Asked(
        f"How many rounds does an all-reduce by recursive halving and doubling take on {ranks} ranks?",
        traffic.halving_doubling_all_reduce(ranks, 10 * ranks, 4).rounds,
        f"log₂ {ranks} rounds of halving, and as many of doubling.",
        {"ranks": ranks},
        "rounds",
    )


@asks_about(_TOPIC)
def bytes_of_halving_and_doubling(draw: random.Random) -> Asked:
    """What each rank sends: as much as in a ring."""
    ranks = draw.choice((4, 8, 16))
    length = ranks * draw.randint(20, 200)
    return Asked(
        f"{ranks} ranks do an all-reduce of {shown(length)} float32 by recursive halving and doubling. How many "
        "bytes does "
        "each rank send?",
        traffic.halving_doubling_all_reduce(ranks, length, 4).nbytes[0],
        f"Halves, quarters, … add up to (1 − 1/{ranks}) of the tensor, twice.",
        {"ranks": ranks, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def rounds_of_a_grid(draw: random.Random) -> Asked:
    """Rings along rows, columns and rows."""
    rows, columns = draw.randint(2, 6), draw.randint(2, 6)
    return Asked(
        f"{rows * columns} ranks stand in {rows} rows of {columns}. They do a reduce-scatter along each row, an "
        "all-reduce "
        "along each column, and an all-gather along each row, all in rings. How many rounds is that?",
        traffic.grid_all_reduce(rows * columns, 60 * rows * columns, 4, columns).rounds,
        f"{columns - 1} + 2 · {rows - 1} + {columns - 1}.",
        {"rows": rows, "columns": columns},
        "rounds",
    )


@asks_about(_TOPIC)
def bytes_of_a_rank_of_a_node(draw: random.Random) -> Asked:
    """An all-reduce inside nodes, then between them."""
    nodes, per_node = draw.choice((2, 4, 8)), draw.choice((2, 4, 8))
    length = nodes * per_node * draw.randint(10, 90)
    ranks = nodes * per_node
    answer = traffic.hierarchical_all_reduce(ranks, length, 4, per_node).nbytes[0]
    inside = 2 * (per_node - 1) * length // per_node * 4
    return Asked(
        f"{nodes} nodes with {per_node} ranks each do a hierarchical all-reduce of {shown(length)} float32: a "
        "reduce-scatter "
        "inside each node, an all-reduce of each chunk between the nodes by halving and doubling, an all-gather "
        "inside. How "
        "many of the bytes that a rank sends leave its node?",
        answer - inside,
        f"Its chunk has {shown(length // per_node)} elements, and 2 · (1 − 1/{nodes}) of them leave the node.",
        {"nodes": nodes, "per_node": per_node, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def master_against_ring(draw: random.Random) -> Asked:
    """How much less the busiest rank sends."""
    ranks = draw.choice((4, 8, 10, 16, 20))
    length = 10 * ranks
    master, ring = (max(each(ranks, length, 4).nbytes) for each in (traffic.naive_all_reduce, traffic.ring_all_reduce))
    return Asked(
        f"On {ranks} ranks: how many times as many bytes does the master of a naive all-reduce send as a rank of "
        "a ring "
        "all-reduce of the same tensor?",
        master / ring,
        f"({ranks} − 1)·S against 2·({ranks} − 1)/{ranks}·S: {ranks}/2.",
        {"ranks": ranks},
        "times",
    )


@asks_about(_TOPIC)
def least_bytes(draw: random.Random) -> Asked:
    ranks = draw.choice((3, 4, 5, 8, 10))
    answer = traffic.ring_all_reduce(ranks, 100 * ranks, 1).nbytes[0] / (100 * ranks)
    return Asked(
        f"No all-reduce on {ranks} ranks can send less per rank, on average, than a ring does. How many times "
        "the tensor is "
        "that?",
        answer,
        f"2 · ({ranks} − 1)/{ranks}.",
        {"ranks": ranks},
        "times",
    )
