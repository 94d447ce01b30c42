"""Exercise 03b, the last two parts: how long an all-reduce takes, and which one is fastest. Nothing communicates here.

A prediction is a sum over steps that follow one another; each has a link and a number of bytes, and takes α + m/B. What
usual mistakes give is computed, and compared with what was found.

The right time is the closed form of `distlib.network`. A test holds that simulated runs take the same time, to the last
digits, on the clusters that a `CostQuestion` may be about.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.remark import Remark
from distlib.checks.report import Row
from distlib.checks.rules.returns import called, type_of
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.trees_and_grids.helpers import predict_time
from distlib.network import Cluster, Link
from distlib.network.powers import beyond_power_of_two, is_power_of_two, powers_of_two_below

say = Sentences(__file__)
PREDICTED = ("ring", "tree", "halving_doubling", "hierarchical")
DESCRIPTIONS = ("distlib.network.cluster", "distlib.network.powers")  # what a student's lines may call
UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9))
ERRORS = (
    ("not associated with a value", say("no_branch")),
    ("has no attribute", say("attributes")),
)
TUPLE = ("'tuple' object has no attribute", say("tuple_unchanged"))
NAME_FIRST = ("expected one of the algorithms", say("name_first"))

Step = tuple[Link, float]  # the slowest link that a message of this step uses, and the bytes that each message has


@dataclass(frozen=True)
class CostQuestion:
    """A tensor on a cluster, and the algorithms that are asked about: one to predict, several to choose from.

    Raises:
        ValueError: a question whose answer the model does not give exactly.
    """

    nbytes: int
    cluster: Cluster
    algorithms: tuple[str, ...]

    def __post_init__(self) -> None:
        cluster = self.cluster
        aligned = is_power_of_two(cluster.nodes) and is_power_of_two(cluster.ranks_per_node)
        if cluster.nodes > 1 and not (aligned and cluster.slowest_link() == cluster.inter):
            raise ValueError(f"expected powers of two of nodes and ranks, and no faster link between nodes: {cluster}")
        if self.nbytes % cluster.world_size:
            raise ValueError(f"expected bytes that divide by {cluster.world_size} ranks, got {self.nbytes}")
        if not self.algorithms or not set(self.algorithms) <= set(PREDICTED):
            raise ValueError(f"expected algorithms out of {', '.join(PREDICTED)}, got {self.algorithms}")

    @property
    def title(self) -> str:
        """As in "on 6 ranks, ring, 1,200 bytes, links of 5 µs, 12.5 GB/s"."""
        name = f"{self.algorithms[0]}, " if len(self.algorithms) == 1 else ""
        return f"on {count(self.cluster.world_size, 'rank')}, {name}{count(self.nbytes, 'byte')}, {self.cluster}"

    @cached_property
    def seconds(self) -> dict[str, float]:
        """The right time of each algorithm."""
        return {name: predict_time(name, self.nbytes, self.cluster) for name in self.algorithms}

    @cached_property
    def steps(self) -> dict[str, list[Step]]:
        """The steps of each algorithm."""
        return {name: steps_of(name, self.nbytes, self.cluster) for name in self.algorithms}


def _row(seen: Seen) -> Row:
    question: CostQuestion = seen.facts
    cluster, answer = question.cluster, seen[0]
    return {
        "ranks": f"{cluster.nodes} x {cluster.ranks_per_node}" if cluster.nodes > 1 else str(cluster.world_size),
        "bytes": f"{question.nbytes:,}",
        "algorithms": ", ".join(question.algorithms),
        "answer": answer if isinstance(answer, str) else readable(answer),
    }


def readable(seconds: float) -> str:
    """ "1.25 ms": in the unit that fits."""
    unit, factor = next((pair for pair in UNITS if abs(seconds) * pair[1] >= 1), UNITS[0])
    return f"{seconds * factor:.6g} {unit}"


def _drawn(draw: Draw, number: int) -> Iterator[tuple[Cluster, int]]:
    """Clusters for a `CostQuestion`, every other one with several nodes, and a number of bytes for each."""
    for k in range(number):
        near = Link(latency=draw.uniform(1e-6, 1e-3), bandwidth=draw.uniform(1e9, 1e11))
        far = Link(latency=near.latency * draw.uniform(2, 50), bandwidth=near.bandwidth / draw.uniform(2, 50))
        nodes, ranks = 2 ** draw.randint(1, 4), 2 ** draw.randint(1, 3)
        cluster = Cluster(nodes, ranks, intra=near, inter=far) if k % 2 else Cluster.flat(draw.randint(2, 40), near)
        yield cluster, cluster.world_size * 2 ** draw.randint(6, 20)


@task("algorithm", "nbytes", "cluster", errors=ERRORS, allowed=DESCRIPTIONS, row=_row)
def check_predict_time(
    draw: Draw, *, algorithms: Sequence[str], nbytes: Sequence[int], clusters: Sequence[Cluster], drawn: int = 0
) -> Iterator[Case]:
    """`function(algorithm, nbytes, cluster)`: the seconds that an all-reduce takes, to nine digits.

    `drawn`: how many more clusters come at the end, each with a tensor; no table of answers has them.
    """
    more = [(cluster, name, size) for cluster, size in _drawn(draw, drawn) for name in algorithms]
    for cluster, algorithm, size in (*product(clusters, algorithms, nbytes), *more):
        question = CostQuestion(size, cluster, (algorithm,))
        yield called(algorithm, size, cluster, facts=question, title=question.title)


@check_predict_time.judge
def _(seen: Seen) -> Remarks:
    question, found = seen.facts, seen[0]
    (right,) = question.seconds.values()
    if found is None:
        yield say.remark("no_result")
    elif type(found) not in (int, float):
        yield say.remark("no_number", found=_described(found))
    elif not math.isclose(found, right, rel_tol=1e-9, abs_tol=1e-15):
        times = f", {_ratio(found / right)} times that" if right else ""
        details = (
            f"expected {right:.10g} s, that is {readable(right)}: the time of a simulated run",
            f"found    {found:.10g} s{times}",
        )
        cause = cause_of_time(question, found) if right else say("one_rank")
        yield Remark(say("wrong_time"), details, cause)


@task(
    "nbytes",
    "cluster",
    "algorithms",
    helpers=[predict_time],
    errors=[NAME_FIRST, TUPLE, *ERRORS],
    allowed=DESCRIPTIONS,
    row=_row,
)
def check_choose_algorithm(
    draw: Draw, *, choices: Sequence[Sequence[str]], nbytes: Sequence[int], clusters: Sequence[Cluster], drawn: int = 0
) -> Iterator[Case]:
    """`function(nbytes, cluster, algorithms)`: the name of one that takes as long as the fastest, to six digits.

    `drawn`: as of `check_predict_time`.
    """
    more = [(cluster, names, size) for cluster, size in _drawn(draw, drawn) for names in choices]
    for cluster, names, size in (*product(clusters, choices, nbytes), *more):
        question = CostQuestion(size, cluster, tuple(names))
        yield called(size, cluster, question.algorithms, facts=question, title=question.title)


@check_choose_algorithm.judge
def _(seen: Seen) -> Remarks:
    question, found, seconds = seen.facts, seen[0], seen.facts.seconds
    expected = ", ".join(map(repr, seconds))
    if found is None:
        yield say.remark("no_choice", expected=expected)
    elif not isinstance(found, str):
        wrong = "time_returned" if isinstance(found, float) else "no_name"
        yield say.remark(wrong, found=_described(found), expected=expected)
    elif found not in seconds:
        yield say.remark("not_offered", found=found, expected=expected)
    elif found not in _least(seconds):
        yield _slower(question, found)


def _slower(question: CostQuestion, found: str) -> Remark:
    """The remark about a choice that is not the fastest."""
    seconds = question.seconds
    in_order = sorted(seconds, key=seconds.__getitem__)
    fastest = in_order[0]
    times = {"taken": readable(seconds[found]), "least": readable(seconds[fastest])}
    table = [f"{name:16} {readable(seconds[name])}" for name in in_order]
    cause = _cause_of_choice(question, found, fastest)
    return say.remark("slower", *table, found=found, fastest=fastest, **times, cause=cause)


def _ratio(ratio: float) -> str:
    """With as many digits as show that it is not 1."""
    return f"{ratio:.{8 if f'{ratio:.4g}' == '1' else 4}g}"


def _described(found: object) -> str:
    return f"a value of type {type_of(found)}"


def _least(seconds: Mapping[str, float]) -> list[str]:
    """The names of all that take the least time."""
    return [name for name, taken in seconds.items() if taken <= min(seconds.values()) * (1 + 1e-6)]


def _cause_of_choice(question: CostQuestion, found: str, fastest: str) -> str:
    """What the times are made of, and what the choice may have been made by."""
    tables = _guesses(question, found, fastest)
    fitting = [words for words, guesses in tables.items() if any(min(t, key=t.__getitem__) == found for t in guesses)]
    parts = {"found": _parts_of_time(question, found), "fastest": _parts_of_time(question, fastest)}
    return say("slower_because", **parts, guesses=" Or: ".join(fitting))


def _parts_of_time(question: CostQuestion, algorithm: str) -> str:
    steps = question.steps[algorithm]
    times = {"latency": readable(latency_of(steps)), "travel": readable(travel_of(steps))}
    return say("parts_of_time", algorithm=algorithm, number=len(steps), **times)


def _guesses(question: CostQuestion, found: str, fastest: str) -> dict[str, list[dict[str, float]]]:
    """From the words for a mistake to the times by algorithm whose least it may have chosen."""
    nbytes, cluster, (first, *_) = question.nbytes, question.cluster, question.algorithms
    seconds, steps = question.seconds, question.steps
    faster = [name for name, taken in seconds.items() if taken < seconds[first]]
    links = [cluster.intra, cluster.inter] if cluster.nodes > 1 else []
    flat = [Cluster.flat(cluster.world_size, link) for link in links]

    def times(nbytes: float, cluster: Cluster) -> dict[str, float]:
        return {name: _seconds(name, nbytes, cluster) for name in steps}

    latencies = {name: latency_of(steps[name]) for name in steps}
    return {
        say("all_bytes"): [latencies, times(nbytes / cluster.world_size, cluster)],
        say("latencies_too"): [{name: travel_of(steps[name]) for name in steps}],
        say("best_so_far", first=first): [{faster[-1]: 0.0}] if len(faster) > 1 else [],
        say("first_name", found=found): [{first: 0.0}],
        say("last_name", found=found): [{question.algorithms[-1]: 0.0}],
        say("this_cluster"): [times(nbytes, each) for each in flat],
        say("max_for_min"): [{name: -taken for name, taken in seconds.items()}],
        say("fastest_too", fastest=fastest): [
            {name: taken for name, taken in seconds.items() if name not in _least(seconds)}
        ],
    }


# ── the steps, and what mistakes make of them ────────────────────────────────────────────────────────────────────────


def steps_of(algorithm: str, nbytes: float, cluster: Cluster) -> list[Step]:
    """The steps of an all-reduce on a cluster that a `CostQuestion` may be about."""
    size, per_node = cluster.world_size, cluster.ranks_per_node
    outer = cluster.inter if cluster.nodes > 1 else cluster.intra
    if algorithm == "ring":
        return [(outer, nbytes / size)] * (2 * (size - 1))
    if algorithm == "tree":
        return [(_link(cluster, distance), nbytes) for distance in powers_of_two_below(size)] * 2
    if algorithm == "halving_doubling":
        extra, core = beyond_power_of_two(size)
        half = [(_link(cluster, distance), distance * nbytes / core) for distance in powers_of_two_below(core)]
        return half * 2 + [(outer, nbytes)] * (2 if extra else 0)
    inside = [(cluster.intra, nbytes / per_node)] * (2 * (per_node - 1))
    return inside + steps_of("halving_doubling", nbytes / per_node, Cluster.flat(cluster.nodes, cluster.inter))


def _link(cluster: Cluster, distance: int) -> Link:
    return cluster.intra if distance < cluster.ranks_per_node else cluster.inter


def latency_of(steps: Sequence[Step]) -> float:
    """The latencies of all steps together, in seconds."""
    return sum(link.latency for link, _ in steps)


def travel_of(steps: Sequence[Step]) -> float:
    """The time that the bytes of all steps take, in seconds."""
    return sum(nbytes / link.bandwidth for link, nbytes in steps)


def _seconds(algorithm: str, nbytes: float, cluster: Cluster) -> float:
    return sum(link.seconds(size) for link, size in steps_of(algorithm, nbytes, cluster))


def cause_of_time(question: CostQuestion, found: float) -> str:
    """What usually gives `found` instead of the right time."""
    algorithm, nbytes, cluster = question.algorithms[0], question.nbytes, question.cluster
    (steps,) = question.steps.values()
    special = _of_one_node if cluster.nodes == 1 else _of_nodes
    for table in (_of_any(steps), special(algorithm, nbytes, cluster), _of_sizes(steps, nbytes, cluster.world_size)):
        for words, values in table.items():
            if any(math.isclose(value, found, rel_tol=1e-6) for value in values):
                return words
    if math.isclose(found, sum(link.seconds(each) for link, each in steps), rel_tol=1e-4):
        return say("last_digits")
    latency, travel = readable(latency_of(steps)), readable(travel_of(steps))
    return say("unknown", number=len(steps), latency=latency, travel=travel)


Mistakes = dict[str, list[float]]  # from the words for a mistake to the seconds that it may give


def _of_any(steps: Sequence[Step]) -> Mistakes:
    """Mistakes with any algorithm."""
    latency, travel = latency_of(steps), travel_of(steps)
    mega = (2**20 / 1e6, 1e6 / 2**20, 2**30 / 1e9, 1e9 / 2**30)
    table = {
        say("no_latency"): [travel],
        say("no_bytes"): [latency],
        say("latency_once"): [max((link.latency for link, _ in steps), default=0.0) + travel],
        say("half"): [(latency + travel) / 2],
        say("twice"): [2 * (latency + travel)],
        say("into_bits"): [latency + 8 * travel],
        say("into_bytes"): [latency + travel / 8],
        say("mega"): [latency + travel * factor for factor in mega],
        say("multiplied"): [latency + sum(nbytes * link.bandwidth for link, nbytes in steps)],
    }
    for factor, unit in ((1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds")):
        table[say("result_in_unit", unit=unit)] = [factor * (latency + travel)]
        table[say("latency_into_unit", unit=unit)] = [latency * factor + travel]
        table[say("latency_from_unit", unit=unit)] = [latency / factor + travel]
    return table


def _of_sizes(steps: Sequence[Step], nbytes: float, size: int) -> Mistakes:
    """Mistakes with the size of messages, and with how many ranks count."""

    def alike(parts: int) -> float:
        return sum(link.seconds(nbytes / parts if each < nbytes else nbytes) for link, each in steps)

    return {
        say("whole_tensor"): [sum(link.seconds(nbytes) for link, _ in steps)],
        say("all_ranks"): [size * (latency_of(steps) + travel_of(steps))],
        **{say("as_in_ring", parts=parts): [alike(parts)] for parts in (size, beyond_power_of_two(size)[1])},
    }


def _of_one_node(algorithm: str, nbytes: float, cluster: Cluster) -> Mistakes:
    """Mistakes with one algorithm on one node."""
    if algorithm in ("ring", "hierarchical"):
        return _of_ring(algorithm, nbytes, cluster)
    of_algorithm = _of_tree if algorithm == "tree" else _of_halving
    return of_algorithm(nbytes, cluster.world_size, cluster.intra)


def _of_ring(algorithm: str, nbytes: float, cluster: Cluster) -> Mistakes:
    size, link = cluster.world_size, cluster.intra
    ring = 2 * (size - 1) * link.seconds(nbytes / size)
    between = 2 * sum(link.seconds(d * nbytes / size**2) for d in powers_of_two_below(size))
    halving = [_seconds("halving_doubling", nbytes, cluster)] if algorithm == "hierarchical" else []
    return {
        say("ring_of_n_steps"): [2 * size * link.seconds(nbytes / size)],
        say("limit_of_ring"): [2 * (size - 1) * link.latency + 2 * nbytes / link.bandwidth],
        say("halving_on_one_node"): halving,
        say("between_counts_ranks"): [ring + between],
    }


def _of_tree(nbytes: float, size: int, link: Link) -> Mistakes:
    numbers = (math.log2(size), size.bit_length() - 1, size.bit_length())
    return {
        say("steps_of_tree", size=size): [2 * number * link.seconds(nbytes) for number in numbers],
        say("natural_logarithm"): [2 * math.log(size) * link.seconds(nbytes)],
        say("master"): [2 * (size - 1) * link.seconds(nbytes)],
    }


def _of_halving(nbytes: float, size: int, link: Link) -> Mistakes:
    _, core = beyond_power_of_two(size)
    flat, whole = Cluster.flat(core, link), link.seconds(nbytes)
    inner = _seconds("halving_doubling", nbytes, flat)
    shorter = _seconds("halving_doubling", nbytes * core / size, flat) + 2 * whole
    ringlike = 2 * (size - 1) / size * nbytes / link.bandwidth
    as_ring = [2 * number * link.latency + ringlike for number in (math.log2(size), size.bit_length())]
    return {
        say("no_power_of_two", size=size, core=core): [inner, inner + whole, *as_ring],
        say("bytes_at_distance", core=core): [shorter] if core < size else [],
    }


def _of_nodes(algorithm: str, nbytes: float, cluster: Cluster) -> Mistakes:
    """Mistakes with one algorithm on several nodes."""
    steps = steps_of(algorithm, nbytes, cluster)
    links = {
        say("only_intra"): [sum(cluster.intra.seconds(each) for _, each in steps)],
        say("only_inter"): [sum(cluster.inter.seconds(each) for _, each in steps)],
    }
    if algorithm in ("tree", "halving_doubling"):
        return {**links, **_of_distances(algorithm, nbytes, cluster)}
    return _of_hierarchical(nbytes, cluster, links) if algorithm == "hierarchical" else links


def _of_distances(algorithm: str, nbytes: float, cluster: Cluster) -> Mistakes:
    """Where each step has a distance, which decides its link."""
    steps, per_node = steps_of(algorithm, nbytes, cluster), cluster.ranks_per_node
    first = next((each for link, each in steps if link == cluster.inter), 0.0)  # what travels at distance per_node
    near = _seconds(algorithm, nbytes, cluster) - 2 * (cluster.inter.seconds(first) - cluster.intra.seconds(first))
    distances = [*powers_of_two_below(cluster.world_size)] * 2
    links = [cluster.intra if distance < cluster.nodes else cluster.inter for distance in distances]
    mixed = sum(link.seconds(each) for link, (_, each) in zip(links, steps, strict=True))
    return {
        say("first_of_next_node", per_node=per_node): [near],
        say("compared_with_nodes", nodes=cluster.nodes, per_node=per_node): [mixed],
    }


def _of_hierarchical(nbytes: float, cluster: Cluster, links: Mistakes) -> Mistakes:
    """`links`: mistakes that come second."""
    per_node, chunk = cluster.ranks_per_node, nbytes / cluster.ranks_per_node
    nodes, node = Cluster.flat(cluster.nodes, cluster.inter), Cluster.flat(per_node, cluster.intra)
    inside, between = _seconds("ring", nbytes, node), _seconds("halving_doubling", chunk, nodes)
    halving, distances = steps_of("halving_doubling", chunk, nodes), [*powers_of_two_below(cluster.nodes)] * 2
    closer = [
        (cluster.intra if distance < per_node else link).seconds(each)
        for (link, each), distance in zip(halving, distances, strict=True)
    ]
    ring_of_nodes = _seconds("ring", nbytes, Cluster.flat(cluster.nodes, cluster.intra))
    halving_inside = _seconds("halving_doubling", nbytes / cluster.nodes, Cluster.flat(per_node, cluster.inter))
    return {
        say("next_node_is_inter"): [inside + sum(closer)],
        **links,
        say("mixed_up"): [ring_of_nodes + halving_inside],
        say("no_between"): [inside],
        say("no_inside"): [between],
        say("two_parts_inside"): [inside / 2 + between],
        say("whole_between"): [inside + _seconds("halving_doubling", nbytes, nodes)],
        say("ring_between"): [inside + _seconds("ring", chunk, nodes)],
    }
