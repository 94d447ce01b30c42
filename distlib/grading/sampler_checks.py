"""The check of a DistributedSampler, by its properties: nobody knows how it shuffles.

every rank gets equally many samples                    all ranks together get every sample
no sample twice, but those that fill up                 the same on every rank: one order, cut into parts
another order in every epoch and with every seed        the same order again for the same epoch
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from distlib.checks.plays.sampling import epochs
from distlib.checks.remark import Remark
from distlib.grading.case import count
from distlib.grading.checks import name_of
from distlib.grading.scenario_case import Part, ScenarioCase
from distlib.grading.scenario_checks import run_scenarios, seed_for
from distlib.grading.scenario_report import ScenarioReport
from distlib.grading.scene import Scene

SHUFFLED_FROM = 8  # samples: with fewer, two random orders may be the same by chance
_EPOCHS = (0, 1, 2, 1)


@dataclass(frozen=True)
class _Epoch:
    """What all ranks have got in one epoch.

    Attributes:
        length: of the data set.
        drop_last: whether the sampler drops what does not divide.
        parts: by rank.
    """

    length: int
    drop_last: bool
    parts: Sequence[Sequence[Any]]

    @property
    def per_rank(self) -> int:
        """How many samples each rank should get."""
        ranks = len(self.parts)
        return self.length // ranks if self.drop_last else -(-self.length // ranks)

    @property
    def order(self) -> list[Any]:
        """The samples in the order in which all ranks together take them: one of each rank, and again."""
        return list(itertools.chain.from_iterable(zip(*self.parts, strict=True)))


def check_sampler(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    drop_last: Sequence[bool] = (False, True),
    shuffle: Sequence[bool] = (True, False),
    seed: int = 1,
) -> ScenarioReport:
    """Check the class `function(comm, dataset, shuffle=, seed=, drop_last=)` with set_epoch, len and iter.

    Every combination is a case. Of a data set only len is looked at. No message is sent.

    Args:
        world_sizes: numbers of ranks.
        lengths: numbers of samples.
        drop_last, shuffle: what the sampler is made with.
        seed: of the sampler; another one is made with the next seed.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    name = name_of(function, ("comm", "dataset", "shuffle=True", "seed=0", "drop_last=False"))
    seed = seed_for(function, seed) % 1_000_000
    cases = [
        _case(name, *combination, seed) for combination in itertools.product(world_sizes, lengths, drop_last, shuffle)
    ]
    return run_scenarios(function, name, cases, _judge)


def _case(name: str, world_size: int, length: int, drop_last: bool, shuffle: bool, seed: int) -> ScenarioCase:
    options = [{"shuffle": shuffle, "seed": seed + number, "drop_last": drop_last} for number in (0, 1)]
    inputs = [{"length": length, "options": options, "epochs": list(_EPOCHS)}] * world_size
    notes = (", drop_last=True" if drop_last else "") + ("" if shuffle else ", shuffle=False")
    title = f"{name} on {count(world_size, 'rank')}, {count(length, 'sample')}{notes}"
    return ScenarioCase(title, Part(epochs, inputs, seed), expected=(length, drop_last, shuffle))


def _judge(case: ScenarioCase, scene: Scene) -> Remark | None:
    length, drop_last, shuffle = case.expected
    seen = [
        [
            _Epoch(length, drop_last, [result["indices"][sampler][number] for result in scene.results])
            for number in range(len(_EPOCHS))
        ]
        for sampler in (0, 1)
    ]
    for epoch in itertools.chain.from_iterable(seen):
        if remark := _judge_sizes(epoch, scene) or _judge_filling(epoch) or _judge_cover(epoch):
            return remark
    return (
        (_judge_shuffled if shuffle else _judge_unshuffled)(seen)
        or _judge_unset(scene)
        or _judge_random_state(scene)
        or _judge_silence(scene)
    )  # fmt: skip


# ── one epoch ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _judge_sizes(epoch: _Epoch, scene: Scene) -> Remark | None:
    for rank, part in enumerate(epoch.parts):
        strange = next((index for index in part if type(index) is not int or not 0 <= index < epoch.length), None)
        if strange is not None:
            return Remark(f"rank {rank} got {strange!r}; expected numbers from 0 to {epoch.length - 1}.")
        if len(part) != epoch.per_rank:
            return Remark(
                f"rank {rank} got {count(len(part), 'sample')}; expected {epoch.per_rank}.", _shown(epoch), _why(epoch)
            )
        said = scene.results[rank]["lengths"]
        if said != [epoch.per_rank] * len(said):
            return Remark(
                f"on rank {rank}, len(sampler) is {said[0]}; expected {epoch.per_rank}.",
                cause="len is the number of samples of this rank, not of the data set: a DataLoader counts its batches "
                "with it.",
            )
    return None


def _why(epoch: _Epoch) -> str:
    lengths = {len(part) for part in epoch.parts}
    if lengths == {epoch.length}:
        return "every rank goes through the whole data set. Rank r takes order[r::world_size]."
    if len(lengths) > 1:
        how = "Drop samples" if epoch.drop_last else "Repeat samples"
        return f"a rank with fewer batches leaves the others waiting in their all-reduce. {how} until it divides."
    if epoch.drop_last:
        return "with drop_last=True, drop the samples at the end that don't divide; nothing is repeated."
    return "with drop_last=False nothing is dropped: samples are repeated until the number divides."


def _judge_filling(epoch: _Epoch) -> Remark | None:
    """Whether a right order goes on from its beginning where it is filled up."""
    whole, more = epoch.order[: epoch.length], epoch.order[epoch.length :]
    if set(whole) != set(range(epoch.length)) or more == [whole[k % epoch.length] for k in range(len(more))]:
        return None
    return Remark(
        "the padding is not taken from the start of the order.",
        _shown(epoch),
        "repeat the order from its beginning until the number of ranks divides its length.",
    )


def _judge_cover(epoch: _Epoch) -> Remark | None:
    times = Counter(itertools.chain.from_iterable(epoch.parts))
    total = epoch.per_rank * len(epoch.parts)
    most = max(1, -(-total // epoch.length)) if epoch.length else 0
    twice = sorted(index for index, number in times.items() if number > 1)
    if any(number > most for number in times.values()) or len(twice) > max(0, total - epoch.length):
        return Remark(
            f"{count(len(twice), 'sample')} came more than once: {_listed(twice)}.",
            _shown(epoch),
            "the parts of the ranks overlap. All ranks must cut the same order: shuffle it with a torch.Generator "
            "whose seed does not depend on the rank, and take order[comm.rank :: comm.world_size].",
        )
    missing = sorted(set(range(epoch.length)) - set(times))
    if missing and len(missing) > epoch.length - min(total, epoch.length):
        return Remark(
            f"{count(len(missing), 'sample')} came on no rank: {_listed(missing)}.",
            _shown(epoch),
            "is the order cut into parts for all ranks, and padded from its start?",
        )
    return None


# ── several epochs ───────────────────────────────────────────────────────────────────────────────────────────────────


def _judge_unshuffled(seen: Sequence[Sequence[_Epoch]]) -> Remark | None:
    for epoch in itertools.chain.from_iterable(seen):
        whole = epoch.order[: epoch.length]
        if whole != list(range(len(whole))):
            return Remark(
                "without shuffling, the samples do not come in their order.",
                _shown(epoch),
                "rank r takes the samples r, r + world_size, r + 2 * world_size, …: order[r::world_size].",
            )
    return None


def _judge_shuffled(seen: Sequence[Sequence[_Epoch]]) -> Remark | None:
    first, second, third, second_again = seen[0]
    if first.length < SHUFFLED_FROM:
        return None
    if first.order[: first.length] == list(range(min(first.length, len(first.order)))):
        return Remark("the samples come in their order: nothing is shuffled.", _shown(first))
    if second.order != second_again.order:
        return Remark(
            "epoch 1 gave another order when it came again.",
            cause="the order must depend on seed and epoch only: make a new torch.Generator in __iter__ each time, and "
            "give it a seed made of both.",
        )
    if first.order == second.order or second.order == third.order:
        return Remark(
            "two epochs have the same order.",
            cause="set_epoch must change the order that the next iteration gives: the seed of the shuffle is made of "
            "the seed and the epoch.",
        )
    if len(first.parts) > 1 and all(set(one) == set(two) for one, two in zip(first.parts, second.parts, strict=True)):
        return Remark(
            "every rank has the same samples in every epoch, only in another order.",
            cause="shuffle the whole data set first, and then cut it into parts.",
        )
    if first.order == seen[1][0].order:
        return Remark(
            "another seed gives the same order.", cause="the seed of the shuffle is made of the seed and the epoch."
        )
    return None


def _judge_unset(scene: Scene) -> Remark | None:
    for rank, result in enumerate(scene.results):
        if result["unset"] != [epochs_of[0] for epochs_of in result["indices"]]:
            return Remark(
                f"on rank {rank}, the order before set_epoch was called is not that of epoch 0.",
                cause="the constructor sets the epoch to 0.",
            )
    return None


def _judge_random_state(scene: Scene) -> Remark | None:
    if all(result["kept_random_state"] for result in scene.results):
        return None
    return Remark(
        "it changes the random numbers of the rest of the program.",
        cause="torch.manual_seed sets the generator that dropout and new layers use, too: all ranks would drop the "
        "same. Make one of your own: torch.Generator().manual_seed(…), and torch.randperm(n, generator=…).",
    )


def _judge_silence(scene: Scene) -> Remark | None:
    found = len(scene.trace)
    if not found:
        return None
    were = "was" if found == 1 else "were"
    return Remark(f"{count(found, 'message')} {were} sent. A sampler needs none: all ranks know the seed.")


def _shown(epoch: _Epoch) -> tuple[str, ...]:
    return tuple(f"rank {rank}: {_listed(part)}" for rank, part in enumerate(epoch.parts))


def _listed(numbers: Sequence[Any]) -> str:
    return ", ".join(map(str, numbers[:12])) + (" …" if len(numbers) > 12 else "")
