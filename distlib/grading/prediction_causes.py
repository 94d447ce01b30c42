"""What usually makes a predicted time wrong: each known mistake is computed, and compared with what was found.

A prediction is a sum over steps that follow one another. A step has a link and a number of bytes, and takes α + m/B.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distlib.grading.prediction_case import Question
from distlib.network import Cluster, Link
from distlib.network.powers import beyond_power_of_two, powers_of_two_below

Mistakes = Iterator[tuple[float, str]]  # the seconds that somebody gets who makes it, and what to tell them


@dataclass(frozen=True)
class Step:
    """All messages that travel at the same time.

    Attributes:
        link: the slowest link that one of them uses.
        nbytes: how many bytes each has.
    """

    link: Link
    nbytes: float


def steps_of(algorithm: str, nbytes: float, cluster: Cluster) -> list[Step]:
    """The steps of an all-reduce, on a cluster as in `prediction_case`."""
    size, per_node = cluster.world_size, cluster.ranks_per_node
    outer = cluster.inter if cluster.nodes > 1 else cluster.intra
    if algorithm == "ring":
        return [Step(outer, nbytes / size)] * (2 * (size - 1))
    if algorithm == "tree":
        return [Step(_link(cluster, distance), nbytes) for distance in powers_of_two_below(size)] * 2
    if algorithm == "halving_doubling":
        extra, core = beyond_power_of_two(size)
        half = [Step(_link(cluster, distance), distance * nbytes / core) for distance in powers_of_two_below(core)]
        return half * 2 + [Step(outer, nbytes)] * (2 if extra else 0)
    inside = [Step(cluster.intra, nbytes / per_node)] * (2 * (per_node - 1))
    return inside + steps_of("halving_doubling", nbytes / per_node, Cluster.flat(cluster.nodes, cluster.inter))


def latency_of(steps: Sequence[Step]) -> float:
    """The latencies of all steps together, in seconds."""
    return sum(step.link.latency for step in steps)


def travel_of(steps: Sequence[Step]) -> float:
    """The time that the bytes of all steps take, in seconds."""
    return sum(step.nbytes / step.link.bandwidth for step in steps)


def cause_of_time(question: Question, found: float) -> str:
    """What usually gives `found` instead of the right time; empty if it is no known mistake."""
    algorithm, nbytes, cluster = question.algorithms[0], question.nbytes, question.cluster
    candidates = (
        *_missing(steps_of(algorithm, nbytes, cluster)),  # first: it differs little from a latency that is too small
        *_units(steps_of(algorithm, nbytes, cluster)),
        *(_of_one_node if cluster.nodes == 1 else _of_nodes)(algorithm, nbytes, cluster),
        *_sizes(algorithm, nbytes, cluster),
    )
    return next((told for seconds, told in candidates if math.isclose(seconds, found, rel_tol=1e-6)), "")


def _link(cluster: Cluster, distance: int) -> Link:
    return cluster.intra if distance < cluster.ranks_per_node else cluster.inter


def _seconds(steps: Sequence[Step]) -> float:
    return latency_of(steps) + travel_of(steps)


# ── units ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_TO_BITS = "bytes are turned into bits. The bandwidth of a Link is in bytes per second already."
_TO_BYTES = "bits are turned into bytes, but the size and the bandwidth are in bytes already."
_MEGA = "MB and MiB are mixed up: 1 MB is 1,000,000 bytes, 1 MiB is 1,048,576. Count in bytes and bytes per second."
_TIMES = "bytes are multiplied by the bandwidth. Divide: m bytes at B bytes per second take m / B seconds."


def _units(steps: Sequence[Step]) -> Mistakes:
    latency, travel = latency_of(steps), travel_of(steps)
    yield latency + 8 * travel, _TO_BITS
    yield latency + travel / 8, _TO_BYTES
    for factor in (2**20 / 1e6, 1e6 / 2**20, 2**30 / 1e9, 1e9 / 2**30):
        yield latency + travel * factor, _MEGA
    yield latency + sum(step.nbytes * step.link.bandwidth for step in steps), _TIMES
    for factor, unit in ((1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds")):
        yield factor * (latency + travel), f"the result is in {unit}. Seconds are asked for."
        yield latency * factor + travel, f"the latency is turned into {unit}. It is in seconds, as the result is."
        yield latency / factor + travel, f"the latency is taken for {unit}, but it is in seconds already."


# ── a part that is missing ───────────────────────────────────────────────────────────────────────────────────────────

_NO_LATENCY = "the latency is missing. Every step costs it once."
_NO_BYTES = "the bytes are missing: every step also costs its bytes divided by the bandwidth."
_ONE_LATENCY = "the latency is counted once. It is paid in every step, because a step waits for the one before."
_ONE_WAY = "this is half of it. An all-reduce goes two ways: the sum is made, and then it is handed out."
_TWICE = "this is twice the time. A rank sends and receives at the same time, so a step counts once."


def _missing(steps: Sequence[Step]) -> Mistakes:
    latency, travel = latency_of(steps), travel_of(steps)
    yield travel, _NO_LATENCY
    yield latency, _NO_BYTES
    yield max((step.link.latency for step in steps), default=0.0) + travel, _ONE_LATENCY
    yield (latency + travel) / 2, _ONE_WAY
    yield 2 * (latency + travel), _TWICE


# ── other sizes of messages ──────────────────────────────────────────────────────────────────────────────────────────

_WHOLE = "every step counts with the whole tensor. How many bytes does one message carry?"
_ALL_RANKS = "the times of all ranks are added up, but the ranks work at the same time."


def _sizes(algorithm: str, nbytes: int, cluster: Cluster) -> Mistakes:
    steps, size = steps_of(algorithm, nbytes, cluster), cluster.world_size
    yield sum(step.link.seconds(nbytes) for step in steps), _WHOLE
    yield _seconds(steps) * size, _ALL_RANKS
    for parts in {size, beyond_power_of_two(size)[1]}:
        alike = [Step(step.link, nbytes / parts if step.nbytes < nbytes else nbytes) for step in steps]
        yield (
            _seconds(alike),
            f"every step counts with 1/{parts} of the tensor, as in a ring. Here the messages are of another size.",
        )


# ── another number of steps ──────────────────────────────────────────────────────────────────────────────────────────

_RING_LIMIT = "2 S / B is the limit for very many ranks. With N ranks the bytes are 2 (N - 1) / N * S."
_RING_STEPS = "a ring of N ranks takes N - 1 steps each way, not N."
_NATURAL = "that is the natural logarithm. Ranks double in every step: log2."
_STAR = "rank 0 talks to everybody itself here. In a tree the others help, and log2(N) steps are enough."


def _of_one_node(algorithm: str, nbytes: int, cluster: Cluster) -> Mistakes:
    size, link = cluster.world_size, cluster.intra
    if algorithm in ("ring", "hierarchical"):
        yield 2 * size * link.seconds(nbytes / size), _RING_STEPS
        yield 2 * (size - 1) * link.latency + 2 * nbytes / link.bandwidth, _RING_LIMIT
    elif algorithm == "tree":
        yield from _other_logarithms(size, link.seconds(nbytes))
        yield 2 * (size - 1) * link.seconds(nbytes), _STAR
    elif size > 1:
        yield from _without_folding(nbytes, size, link)


def _other_logarithms(size: int, message: float) -> Mistakes:
    rounded_up = (
        f"a tree of {size} ranks takes a whole number of steps each way: log2({size}), rounded up. "
        "(size - 1).bit_length() is that number."
    )
    for steps in (math.log2(size), size.bit_length() - 1, size.bit_length()):
        yield 2 * steps * message, rounded_up
    yield 2 * math.log(size) * message, _NATURAL


def _without_folding(nbytes: int, size: int, link: Link) -> Mistakes:
    _, core = beyond_power_of_two(size)
    told = (
        f"{size} is not a power of two. {core} ranks halve and double. Before that the whole tensor travels once from "
        "the others to them, and afterwards once back."
    )
    inner = _seconds(steps_of("halving_doubling", nbytes, Cluster.flat(core, link)))
    yield inner, told
    yield inner + link.seconds(nbytes), told
    for steps in (math.log2(size), size.bit_length()):
        yield 2 * steps * link.latency + 2 * (size - 1) / size * nbytes / link.bandwidth, told


# ── several nodes ────────────────────────────────────────────────────────────────────────────────────────────────────

_NOT_BETWEEN = "the part between the nodes is missing."
_NOT_INSIDE = "the part inside the nodes is missing."
_ONE_INSIDE = "inside a node there are two parts: a reduce-scatter before, and an all-gather after."
_RING_BETWEEN = "there is a ring between the nodes here. In this exercise the nodes halve and double: fewer steps."
_WHOLE_BETWEEN = (
    "the whole tensor travels between nodes here. After the reduce-scatter inside a node a rank has one chunk, of "
    "nbytes / ranks_per_node bytes, and each rank of a node sends its own."
)


def _of_nodes(algorithm: str, nbytes: int, cluster: Cluster) -> Mistakes:
    steps = steps_of(algorithm, nbytes, cluster)
    for link, name in ((cluster.intra, "inside"), (cluster.inter, "between")):
        yield (
            sum(link.seconds(step.nbytes) for step in steps),
            f"every step counts with the link {name} nodes. Use `intra` for a step whose messages all stay inside "
            "nodes, and `inter` for one in which some message leaves its node.",
        )
    if algorithm == "hierarchical":
        yield from _of_two_levels(nbytes, cluster)


def _of_two_levels(nbytes: int, cluster: Cluster) -> Mistakes:
    nodes, chunk = Cluster.flat(cluster.nodes, cluster.inter), nbytes / cluster.ranks_per_node
    inside = _seconds(steps_of("ring", nbytes, Cluster.flat(cluster.ranks_per_node, cluster.intra)))
    between = _seconds(steps_of("halving_doubling", chunk, nodes))
    yield inside, _NOT_BETWEEN
    yield between, _NOT_INSIDE
    yield inside / 2 + between, _ONE_INSIDE
    yield inside + _seconds(steps_of("halving_doubling", nbytes, nodes)), _WHOLE_BETWEEN
    yield inside + _seconds(steps_of("ring", chunk, nodes)), _RING_BETWEEN
