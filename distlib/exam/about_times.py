"""Questions about how long collectives take, by latency and bandwidth."""

from __future__ import annotations

import random
from dataclasses import replace

from distlib.exam.exam_question import Asked, asks_about
from distlib.exam.number_words import drawn_link, link_words, one_rank_per_node, shown
from distlib.network import Cluster, Link, duration, traffic

_TOPIC = "times"
_MICRO = 1e6


def _case(draw: random.Random, ranks: tuple[int, ...]) -> tuple[int, Link, int]:
    """Ranks, a link, and a length that the ranks divide."""
    size = draw.choice(ranks)
    return size, drawn_link(draw), size * draw.choice((1_000, 5_000, 25_000))


def _asked(name: str, formula: str, seconds: float, ranks: int, link: Link, length: int) -> Asked:
    return Asked(
        f"{ranks} ranks {name} {shown(length)} float32 over links with {link_words(link)}. How many µs does it take?",
        seconds * _MICRO,
        f"{formula}, with S = {shown(4 * length)} bytes.",
        {"ranks": ranks, "link": link, "length": length},
        "µs",
    )


@asks_about(_TOPIC)
def seconds_of_a_message(draw: random.Random) -> Asked:
    link, nbytes = drawn_link(draw), draw.choice((20_000, 100_000, 1_000_000))
    return Asked(
        f"A message of {shown(nbytes)} bytes takes a link with {link_words(link)}. How many µs is it on its way?",
        link.seconds(nbytes) * _MICRO,
        f"{link.latency * _MICRO:g} µs and {shown(nbytes)} bytes / ({link.bandwidth / 1e9:g} GB/s).",
        {"link": link, "nbytes": nbytes},
        "µs",
    )


@asks_about(_TOPIC)
def seconds_of_a_ring(draw: random.Random) -> Asked:
    ranks, link, length = _case(draw, (4, 5, 8, 10))
    seconds = duration.ring_all_reduce(one_rank_per_node(ranks, link), length, 4)
    return _asked("sum by a ring all-reduce", "2(N − 1) · (α + S/(N·B))", seconds, ranks, link, length)


@asks_about(_TOPIC)
def seconds_of_a_reduce_scatter(draw: random.Random) -> Asked:
    ranks, link, length = _case(draw, (4, 5, 8, 10))
    seconds = duration.ring_reduce_scatter(one_rank_per_node(ranks, link), length, 4)
    return _asked("reduce-scatter in a ring", "(N − 1) · (α + S/(N·B))", seconds, ranks, link, length)


@asks_about(_TOPIC)
def seconds_of_a_tree(draw: random.Random) -> Asked:
    """Reduce and broadcast through a tree."""
    ranks, link, length = _case(draw, (4, 8, 16, 32))
    seconds = duration.tree_all_reduce(one_rank_per_node(ranks, link), length, 4)
    words = "reduce through a binomial tree, and then broadcast through it,"
    return _asked(words, "2·log₂ N · (α + S/B)", seconds, ranks, link, length)


@asks_about(_TOPIC)
def seconds_of_a_master(draw: random.Random) -> Asked:
    """A master that receives from one rank after the other."""
    ranks, link, length = _case(draw, (3, 4, 6, 8))
    seconds = duration.naive_all_reduce(one_rank_per_node(ranks, link), length, 4)
    words = "have a master, one of them, receive from each in turn, and send the sum to each in turn,"
    return _asked(words, "2(N − 1) · (α + S/B)", seconds, ranks, link, length)


@asks_about(_TOPIC)
def seconds_of_halving_and_doubling(draw: random.Random) -> Asked:
    """Few rounds, and the bytes of a ring."""
    ranks, link, length = _case(draw, (4, 8, 16))
    seconds = duration.halving_doubling_all_reduce(one_rank_per_node(ranks, link), length, 4)
    words = "sum by recursive halving and doubling"
    return _asked(words, "2·log₂ N · α + 2(N − 1)/N · S/B", seconds, ranks, link, length)


@asks_about(_TOPIC)
def seconds_of_a_flat_broadcast(draw: random.Random) -> Asked:
    """One message after the other."""
    ranks, link, length = _case(draw, (3, 5, 6, 9))
    seconds = duration.flat_broadcast(one_rank_per_node(ranks, link), length, 4)
    return _asked("get from rank 0, one after the other,", "(N − 1) · (α + S/B)", seconds, ranks, link, length)


@asks_about(_TOPIC)
def seconds_of_a_tree_broadcast(draw: random.Random) -> Asked:
    ranks, link, length = _case(draw, (4, 8, 16, 32))
    seconds = duration.tree_broadcast(one_rank_per_node(ranks, link), length, 4)
    return _asked("broadcast through a binomial tree", "log₂ N · (α + S/B)", seconds, ranks, link, length)


@asks_about(_TOPIC)
def the_faster_all_reduce(draw: random.Random) -> Asked:
    """Where latency counts a tree wins, where bytes count a ring does."""
    ranks, link = draw.choice((8, 16, 32)), drawn_link(draw)
    length = ranks * draw.choice((4, 16, 100_000, 400_000))
    cluster = one_rank_per_node(ranks, link)
    seconds = {
        "tree": duration.tree_all_reduce(cluster, length, 4),
        "ring": duration.ring_all_reduce(cluster, length, 4),
    }
    return Asked(
        f"{ranks} ranks sum {shown(length)} float32 over links with {link_words(link)}. Which is faster, a ring "
        "all-reduce "
        "or reduce and broadcast through a binomial tree?",
        min(seconds, key=lambda name: seconds[name]),
        f"Ring: {seconds['ring'] * _MICRO:.4g} µs; tree: {seconds['tree'] * _MICRO:.4g} µs.",
        {"ranks": ranks, "link": link, "length": length},
    )


@asks_about(_TOPIC)
def latency_of_a_ring(draw: random.Random) -> Asked:
    """The part of the time that does not depend on the bytes."""
    ranks, link, length = _case(draw, (8, 10, 16, 20))
    seconds = duration.ring_all_reduce(one_rank_per_node(ranks, link), length, 4)
    waits = traffic.ring_all_reduce(ranks, length, 4).rounds * link.latency
    return Asked(
        f"{ranks} ranks do a ring all-reduce of {shown(length)} float32 over links with {link_words(link)}. "
        "Which part of its "
        "time is latency, as a number from 0 to 1?",
        waits / seconds,
        f"2 · {ranks - 1} · α = {waits * _MICRO:.4g} µs of {seconds * _MICRO:.4g} µs.",
        {"ranks": ranks, "link": link, "length": length},
    )


@asks_about(_TOPIC)
def bus_bandwidth_of_a_ring(draw: random.Random) -> Asked:
    """What a link notices."""
    ranks, nbytes, milliseconds = draw.choice((4, 8, 16)), 1 << draw.choice((26, 27, 28)), draw.choice((10, 20, 50))
    answer = nbytes / (milliseconds / 1e3) * 2 * (ranks - 1) / ranks / 1e9
    return Asked(
        f"An all-reduce of {nbytes >> 20} MiB on {ranks} ranks takes {milliseconds} ms. What is its bus "
        "bandwidth in GB/s "
        "(10⁹ bytes), as NCCL's benchmarks define it?",
        answer,
        f"S/T · 2(N − 1)/N, with S = {shown(nbytes)} bytes.",
        {"ranks": ranks, "nbytes": nbytes, "milliseconds": milliseconds},
        "GB/s",
    )


@asks_about(_TOPIC)
def seconds_of_a_chain(draw: random.Random) -> Asked:
    """Small blocks fill the chain, and each has its latency."""
    ranks, link, length = _case(draw, (4, 5, 8))
    blocks = draw.choice((4, 5, 8, 10))
    seconds = duration.chain_broadcast(one_rank_per_node(ranks, link), length, 4, blocks=blocks)
    words = f"pass on from rank to rank, along a chain and in {blocks} equal blocks,"
    asked = _asked(words, f"({blocks} + N − 2) · (α + S/({blocks}·B))", seconds, ranks, link, length)
    return replace(asked, given={**asked.given, "blocks": blocks})


@asks_about(_TOPIC)
def seconds_on_two_levels(draw: random.Random) -> Asked:
    """Fast links inside nodes, slow ones between them."""
    nodes, per_node = draw.choice((2, 4)), draw.choice((2, 4, 8))
    cluster = Cluster(nodes, per_node, Link(1e-6, draw.choice((50, 100)) * 1e9), Link(10e-6, 10e9))
    length = nodes * per_node * 10_000
    return Asked(
        f"{nodes} nodes with {per_node} ranks each do a hierarchical all-reduce of {shown(length)} float32: a ring "
        "reduce-scatter inside the nodes, halving and doubling between them, a ring all-gather inside. Inside, "
        "links have "
        f"{link_words(cluster.intra)}; between nodes {link_words(cluster.inter)}, for each rank. How many µs "
        "does it take?",
        duration.hierarchical_all_reduce(cluster, length, 4, per_node) * _MICRO,
        f"2 · {per_node - 1} messages of S/{per_node} inside; between the nodes an all-reduce of S/{per_node}.",
        {"cluster": cluster, "length": length, "per_node": per_node},
        "µs",
    )


@asks_about(_TOPIC)
def efficiency_of_a_step(draw: random.Random) -> Asked:
    """Weak scaling: each rank computes as before, and then they sum."""
    ranks, link, length = _case(draw, (4, 8, 16))
    compute = draw.choice((1, 2, 5)) * 1e-3
    seconds = duration.ring_all_reduce(one_rank_per_node(ranks, link), length, 4)
    return Asked(
        f"In each step a rank computes for {compute * 1e3:g} ms, and then {ranks} ranks sum {shown(length)} "
        "float32 by a ring "
        f"all-reduce over links with {link_words(link)}. Nothing overlaps. Which part of its time does a rank "
        "compute, as a "
        "number from 0 to 1?",
        compute / (compute + seconds),
        f"The all-reduce takes {seconds * _MICRO:.4g} µs.",
        {"ranks": ranks, "link": link, "length": length, "compute": compute},
    )


@asks_about(_TOPIC)
def speed_up_of_a_batch(draw: random.Random) -> Asked:
    """Strong scaling: the batch is split."""
    ranks, link, length = _case(draw, (4, 8, 16))
    compute = draw.choice((10, 20, 50)) * 1e-3
    seconds = duration.ring_all_reduce(one_rank_per_node(ranks, link), length, 4)
    return Asked(
        f"One rank computes for {compute * 1e3:g} ms per step. Now {ranks} ranks share the batch equally, and "
        "then sum "
        f"{shown(length)} float32 by a ring all-reduce over links with {link_words(link)}, with no overlap. How "
        "many times as "
        "fast is a step?",
        compute / (compute / ranks + seconds),
        f"{compute * 1e3:g} ms against {compute / ranks * 1e3:.4g} ms and {seconds * _MICRO:.4g} µs.",
        {"ranks": ranks, "link": link, "length": length, "compute": compute},
        "times",
    )
