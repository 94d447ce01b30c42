"""Exercise 03, the last two parts: how long an all-reduce takes, and which one is fastest. Nothing communicates here.

A prediction is a sum over steps that follow one another; each has a link and a number of bytes, and takes α + m/B. What
usual mistakes give is computed, and compared with what was found.

The right time is the closed form of `distlib.network`. A test holds that simulated runs take the same time, to the last
digits, on the clusters that a `Question` may be about.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from distlib.checks.case import Case
from distlib.checks.remark import Remark
from distlib.checks.report import Row
from distlib.checks.rules.returns import called, type_of
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count
from distlib.exercises.trees_and_grids.helpers import predict_time
from distlib.network import Cluster, Link
from distlib.network.powers import beyond_power_of_two, is_power_of_two, powers_of_two_below

PREDICTED = ("ring", "tree", "halving_doubling", "hierarchical")
DESCRIPTIONS = ("distlib.network.cluster", "distlib.network.powers")  # what a student's lines may call
UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9))
ERRORS = (
    ("not associated with a value", "is there a branch for every algorithm, and does each one set this variable?"),
    ("has no attribute", "a cluster has `nodes`, `ranks_per_node`, `world_size`, `intra` and `inter`; a link has "
     "`latency` and `bandwidth`."),
)  # fmt: skip

TUPLE = (
    "'tuple' object has no attribute",
    "`algorithms` is a tuple, which can't be changed. sorted(…) makes a list of it, and "
    "min(algorithms, key=…) needs none.",
)
NAME_FIRST = ("expected one of the algorithms", "the name comes first: predict_time(algorithm, nbytes, cluster).")

Step = tuple[Link, float]  # the slowest link that a message of this step uses, and the bytes that each message has


@dataclass(frozen=True)
class Question:
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
    question: Question = seen.facts
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
    """Clusters that a `Question` may be about, every other one with several nodes, and a number of bytes for each."""
    for k in range(number):
        near = Link(latency=draw.uniform(1e-6, 1e-3), bandwidth=draw.uniform(1e9, 1e11))
        far = Link(latency=near.latency * draw.uniform(2, 50), bandwidth=near.bandwidth / draw.uniform(2, 50))
        nodes, ranks = 2 ** draw.randint(1, 4), 2 ** draw.randint(1, 3)
        cluster = Cluster(nodes, ranks, intra=near, inter=far) if k % 2 else Cluster.flat(draw.randint(2, 40), near)
        yield cluster, cluster.world_size * 2 ** draw.randint(6, 20)


# fmt: off
@task("algorithm", "nbytes", "cluster", errors=ERRORS, allowed=DESCRIPTIONS, row=_row)
def check_predict_time(
    draw: Draw, *, algorithms: Sequence[str], nbytes: Sequence[int], clusters: Sequence[Cluster], drawn: int = 0
) -> Iterator[Case]:
    """`function(algorithm, nbytes, cluster)`: the seconds that an all-reduce takes, to nine digits.

    `drawn`: how many more clusters come at the end, each with a tensor; no table of answers has them.
    """
    more = [(cluster, name, size) for cluster, size in _drawn(draw, drawn) for name in algorithms]
    for cluster, algorithm, size in (*product(clusters, algorithms, nbytes), *more):
        question = Question(size, cluster, (algorithm,))
        yield called(algorithm, size, cluster, facts=question, title=question.title)


@check_predict_time.judge
def _(seen: Seen) -> Remarks:
    question, found = seen.facts, seen[0]
    (right,) = question.seconds.values()
    if type(found) not in (int, float):
        nothing = "the last line of the function must return the result. Is there a return for every algorithm?"
        yield Remark(f"it returned {_described(found)}; expected a number of seconds.",
                     cause=nothing if found is None else "return a float: seconds.")
    elif not math.isclose(found, right, rel_tol=1e-9, abs_tol=1e-15):
        yield Remark("the predicted time is wrong.", (
            f"expected {right:.10g} s, that is {readable(right)}: the time of a simulated run",
            f"found    {found:.10g} s" + (f", {_ratio(found / right)} times that" if right else ""),
        ), cause_of_time(question, found) if right else _of_no_step(question, found))


@task("nbytes", "cluster", "algorithms", helpers=[predict_time], errors=(NAME_FIRST, TUPLE, *ERRORS), allowed=DESCRIPTIONS, row=_row)
def check_choose_algorithm(
    draw: Draw, *, choices: Sequence[Sequence[str]], nbytes: Sequence[int], clusters: Sequence[Cluster], drawn: int = 0
) -> Iterator[Case]:
    """`function(nbytes, cluster, algorithms)`: the name of one that takes as long as the fastest, to six digits.

    `drawn`: as of `check_predict_time`.
    """
    more = [(cluster, names, size) for cluster, size in _drawn(draw, drawn) for names in choices]
    for cluster, names, size in (*product(clusters, choices, nbytes), *more):
        question = Question(size, cluster, tuple(names))
        yield called(size, cluster, question.algorithms, facts=question, title=question.title)


@check_choose_algorithm.judge
def _(seen: Seen) -> Remarks:
    question, found, seconds = seen.facts, seen[0], seen.facts.seconds
    expected = f"expected one of {', '.join(map(repr, seconds))}."
    if not isinstance(found, str):
        yield Remark(f"it returned {_described(found)}; {expected}", cause=
                     "return the name of the algorithm, not its time: min(algorithms, key=…) gives a name."
                     if isinstance(found, float) else
                     "the last line of the function must return the name of one algorithm." + (
                         " If it does: can a time be less than the one that you begin with? math.inf is a good one."
                         if found is None else ""))
    elif found not in seconds:
        yield Remark(f"it returned {found!r}; {expected}", cause=
                     "choose among the names in `algorithms`: not every library has every algorithm.")
    elif found not in _least(seconds):
        fastest = min(seconds, key=seconds.get)
        yield Remark(
            f"it chose {found!r}, which takes {readable(seconds[found])}. {fastest!r} takes "
            f"{readable(seconds[fastest])}.",
            tuple(f"{name:16} {readable(taken)}" for name, taken in sorted(seconds.items(), key=lambda item: item[1])),
            _cause_of_choice(question, found, fastest))


def _of_no_step(question: Question, found: float) -> str:
    """What usually gives `found` where there is one rank."""
    words, latency = "with one rank there is nothing to do: the time is 0.", question.cluster.intra.latency
    times = round(found / latency) if latency else 0
    if question.nbytes or not times or not math.isclose(found, times * latency):
        return words
    return (f"{words} This is the latency of {count(times, 'step')}, and there is none. A ring of N ranks has 2 (N - 1) steps, "
            "and each of them has the latency once.")


def _ratio(ratio: float) -> str:
    """With as many digits as show that it is not 1."""
    return f"{ratio:.{8 if f'{ratio:.4g}' == '1' else 4}g}"


def _described(found: object) -> str:
    return "None" if found is None else f"a value of type {type_of(found)}"


def _least(seconds: Mapping[str, float]) -> list[str]:
    """The names of all that take the least time."""
    return [name for name, taken in seconds.items() if taken <= min(seconds.values()) * (1 + 1e-6)]


def _cause_of_choice(question: Question, found: str, fastest: str) -> str:
    seconds, steps, (first, *_) = question.seconds, question.steps, question.algorithms
    share, faster = question.nbytes / question.cluster.world_size, [n for n, s in seconds.items() if s < seconds[first]]
    latencies = {name: latency_of(steps[name]) for name in steps}
    guesses = {
        "Do all bytes count?": [latencies, {name: _seconds(name, share, question.cluster) for name in steps}],
        "Do the latencies count, too?": [{name: travel_of(steps[name]) for name in steps}],
        f"It is faster than {first!r}, but is it compared with the best so far?":
            [{faster[-1]: 0.0}] if len(faster) > 1 else [],
        f"{found!r} is the first of the names: is the loop left early, or are names compared, as by min(times) of a dict?":
            [{first: 0.0}],
        f"{found!r} is the last of the names: is the least time so far kept?": [{question.algorithms[-1]: 0.0}],
        "Is that for the cluster that is given, with its nodes and both of its links?":
            [{name: _seconds(name, question.nbytes, Cluster.flat(question.cluster.world_size, link)) for name in steps}
             for link in (question.cluster.intra, question.cluster.inter) if question.cluster.nodes > 1],
        "Is it max where it should be min?": [{name: -s for name, s in seconds.items()}],
        f"Do you look at {fastest!r}, too?":
            [{name: s for name, s in seconds.items() if name not in _least(seconds)}],
    }
    fitting = [words for words, tables in guesses.items() if any(min(t, key=t.__getitem__) == found for t in tables)]
    parts = "; ".join(
        f"{name} has {len(steps[name])} steps, whose latencies take {readable(latency_of(steps[name]))}, and its bytes "
        f"take {readable(travel_of(steps[name]))}" for name in (found, fastest))
    return (f"{parts}. {' Or: '.join(fitting)}{' ' * bool(fitting)}No fixed number of bytes is right on every "
            "cluster: predict the time of each, and take the least.")


# ── the steps, and what mistakes make of them ────────────────────────────────────────────────────────────────────────


def steps_of(algorithm: str, nbytes: float, cluster: Cluster) -> list[Step]:
    """The steps of an all-reduce on a cluster that a `Question` may be about."""
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


def cause_of_time(question: Question, found: float) -> str:
    """What usually gives `found` instead of the right time."""
    algorithm, nbytes, cluster = question.algorithms[0], question.nbytes, question.cluster
    (steps,) = question.steps.values()
    special = _of_one_node if cluster.nodes == 1 else _of_nodes
    for table in (_of_any(steps), special(algorithm, nbytes, cluster), _of_sizes(steps, nbytes, cluster.world_size)):
        for words, values in table.items():
            if any(math.isclose(value, found, rel_tol=1e-6) for value in values):
                return words
    if math.isclose(found, sum(link.seconds(each) for link, each in steps), rel_tol=1e-4):
        return "only the last digits differ. Is something rounded, or divided with //? Divide with /, and round nothing."
    return (f"no mistake known here. There are {len(steps)} steps. Their latencies add up to "
            f"{readable(latency_of(steps))}, their bytes to {readable(travel_of(steps))}. Which of the two is "
            "different?")


Mistakes = dict[str, list[float]]  # from the words for a mistake to the seconds that it may give


def _of_any(steps: Sequence[Step]) -> Mistakes:
    latency, travel = latency_of(steps), travel_of(steps)
    mega = (2**20 / 1e6, 1e6 / 2**20, 2**30 / 1e9, 1e9 / 2**30)
    table = {
        "the latency is missing. Every step costs it once.": [travel],
        "the bytes are missing: every step also costs its bytes divided by the bandwidth, with / and not with //.": [latency],
        "the latency is counted once. It is paid in every step, because a step waits for the one before.":
            [max((link.latency for link, _ in steps), default=0.0) + travel],
        "this is half of it. An all-reduce goes two ways: the sum is made, and then it is handed out.":
            [(latency + travel) / 2],
        "this is twice the time. A rank sends and receives at the same time, so a step counts once.":
            [2 * (latency + travel)],
        "bytes are turned into bits. The bandwidth of a Link is in bytes per second already.": [latency + 8 * travel],
        "bits are turned into bytes, but the size and the bandwidth are in bytes already.": [latency + travel / 8],
        "MB and MiB are mixed up: 1 MB is 1,000,000 bytes, 1 MiB is 1,048,576. Count in bytes and bytes per second.":
            [latency + travel * factor for factor in mega],
        "bytes are multiplied by the bandwidth. Divide: m bytes at B bytes per second take m / B seconds.":
            [latency + sum(nbytes * link.bandwidth for link, nbytes in steps)],
    }
    for factor, unit in ((1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds")):
        table[f"the result is in {unit}. Seconds are asked for."] = [factor * (latency + travel)]
        table[f"the latency is turned into {unit}. It is in seconds, as the result is."] = [latency * factor + travel]
        table[f"the latency is taken for {unit}, but it is in seconds already."] = [latency / factor + travel]
    return table


def _of_sizes(steps: Sequence[Step], nbytes: float, size: int) -> Mistakes:
    alike = {parts: sum(link.seconds(nbytes / parts if each < nbytes else nbytes) for link, each in steps)
             for parts in (size, beyond_power_of_two(size)[1])}
    return {
        "every step counts with the whole tensor. How many bytes does one message carry?":
            [sum(link.seconds(nbytes) for link, _ in steps)],
        "the times of all ranks are added up, but the ranks work at the same time.":
            [size * (latency_of(steps) + travel_of(steps))],
        **{f"every step counts with 1/{parts} of the tensor, as in a ring. Here the messages are of another size.":
           [value] for parts, value in alike.items()},
    }


def _of_one_node(algorithm: str, nbytes: float, cluster: Cluster) -> Mistakes:
    size, link = cluster.world_size, cluster.intra
    _, core = beyond_power_of_two(size)
    if algorithm in ("ring", "hierarchical"):
        return {
            "a ring of N ranks takes N - 1 steps each way, not N.": [2 * size * link.seconds(nbytes / size)],
            "2 S / B is the limit for very many ranks. With N ranks the bytes are 2 (N - 1) / N * S.":
                [2 * (size - 1) * link.latency + 2 * nbytes / link.bandwidth],
            "this is the time of halving and doubling on all ranks. With one node there is only the ring inside it. Are "
            "`nodes` and `ranks_per_node` mixed up?":
                [_seconds("halving_doubling", nbytes, cluster)] if algorithm == "hierarchical" else [],
            "the part between the nodes counts all ranks. There the nodes halve and double, and here is one node.":
                [2 * (size - 1) * link.seconds(nbytes / size)
                 + 2 * sum(link.seconds(d * nbytes / size**2) for d in powers_of_two_below(size))],
        }
    if algorithm == "tree":
        steps = (math.log2(size), size.bit_length() - 1, size.bit_length())
        return {
            f"a tree of {size} ranks takes a whole number of steps each way: log2({size}), rounded up. "
            "(size - 1).bit_length() is that number.": [2 * number * link.seconds(nbytes) for number in steps],
            "that is the natural logarithm. Ranks double in every step: log2.":
                [2 * math.log(size) * link.seconds(nbytes)],
            "rank 0 talks to everybody itself here. In a tree the others help, and log2(N) steps are enough.":
                [2 * (size - 1) * link.seconds(nbytes)],
        }
    inner = _seconds(algorithm, nbytes, Cluster.flat(core, link))
    shorter = _seconds(algorithm, nbytes * core / size, Cluster.flat(core, link)) + 2 * link.seconds(nbytes)
    ringlike = 2 * (size - 1) / size * nbytes / link.bandwidth
    return {
        f"{size} is not a power of two. {core} ranks halve and double. Before that the whole tensor travels once from "
        "the others to them, and afterwards once back.":
            [inner, inner + link.seconds(nbytes),
             *(2 * number * link.latency + ringlike for number in (math.log2(size), size.bit_length()))],
        f"at distance d a message has d * S / P bytes, with P = {core}. Is it d * S / N here, or the same for all distances?":
            [shorter] if core < size else [],
    }


def _of_nodes(algorithm: str, nbytes: float, cluster: Cluster) -> Mistakes:
    steps, per_node = steps_of(algorithm, nbytes, cluster), cluster.ranks_per_node
    nodes, chunk = Cluster.flat(cluster.nodes, cluster.inter), nbytes / per_node
    inside = _seconds("ring", nbytes, Cluster.flat(per_node, cluster.intra))
    between = _seconds("halving_doubling", chunk, nodes)
    first = next((each for link, each in steps if link == cluster.inter), 0.0)  # what travels at distance per_node
    near = _seconds(algorithm, nbytes, cluster) - 2 * (cluster.inter.seconds(first) - cluster.intra.seconds(first))
    table = {
        f"every step counts with the link {name} nodes. Use `intra` for a step whose messages all stay inside nodes, "
        "and `inter` for one in which some message leaves its node.": [sum(link.seconds(each) for _, each in steps)]
        for link, name in ((cluster.intra, "inside"), (cluster.inter, "between"))
    }
    if algorithm in ("tree", "halving_doubling"):
        table[f"a distance of {per_node}, the number of ranks on a node, leads to the next node: `inter`. Only smaller "
              "distances stay inside."] = [near]
        mixed = zip(steps, [*powers_of_two_below(cluster.world_size)] * 2, strict=True)
        table[f"distances are compared with {cluster.nodes}, the number of nodes. A step stays inside a node if its distance "
              f"is less than {per_node}, the number of ranks on a node."] = [
            sum((cluster.intra if d < cluster.nodes else cluster.inter).seconds(each) for (_, each), d in mixed)]
    if algorithm == "hierarchical":
        halving = steps_of("halving_doubling", chunk, nodes)
        closer = zip(halving, [*powers_of_two_below(cluster.nodes)] * 2, strict=True)
        table = {
            "between the nodes every message takes `inter`, also one to the next node: distances count nodes there, not "
            "ranks.": [inside + sum((cluster.intra if d < per_node else link).seconds(each) for (link, each), d in closer)],
            **table,
            "`nodes` and `ranks_per_node` are mixed up. The ring is inside a node, and the nodes halve and double.":
                [_seconds("ring", nbytes, Cluster.flat(cluster.nodes, cluster.intra))
                 + _seconds("halving_doubling", nbytes / cluster.nodes, Cluster.flat(per_node, cluster.inter))],
            "the part between the nodes is missing.": [inside],
            "the part inside the nodes is missing.": [between],
            "inside a node there are two parts: a reduce-scatter before, and an all-gather after.":
                [inside / 2 + between],
            "the whole tensor travels between nodes here. After the reduce-scatter inside a node a rank has one chunk, "
            "of nbytes / ranks_per_node bytes, and each rank of a node sends its own.":
                [inside + _seconds("halving_doubling", nbytes, nodes)],
            "there is a ring between the nodes here. In this exercise the nodes halve and double: fewer steps.":
                [inside + _seconds("ring", chunk, nodes)],
        }
    return table
# fmt: on
