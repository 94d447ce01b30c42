"""Exercise 05: averages of gradients, buckets, and the sampler."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.helpers import all_reduce, broadcast
from distlib.checks.models import Gradients
from distlib.checks.plays.gradients import after_backward
from distlib.checks.remark import Remark
from distlib.checks.rules.flat import TOGETHER
from distlib.checks.rules.returns import called, returns, same
from distlib.checks.rules.values import explain_average, holds, is_close, is_equal, untouched
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.words import count, dtype_name
from distlib.exercises.ddp.all_reduces import all_reduces, by_sender
from distlib.exercises.ddp.overlapped_ddp import SUPPLIED_ERRORS
from distlib.exercises.ddp.sampling_plays import epochs
from distlib.training.buckets import assign_buckets

SUPPLIED = (all_reduce, broadcast)


# ── average_gradients ────────────────────────────────────────────────────────────────────────────────────────────────
# fmt: off


DTYPE = "a gradient has the dtype of its parameter, also one that was missing: zeros_like(parameter) has it, torch.zeros has not."


def _errors(seen: Seen) -> Signs:
    model: Gradients = seen.facts
    nothing = ("a parameter may have no gradient: its .grad is None. It counts as zeros." if model.missing else
               "a parameter that is frozen has no gradient. Leave it out." if model.frozen else
               "is what all_reduce returns used here? It works in place: afterwards the tensor itself holds the sum.")
    disagree = ("ranks disagree about what is reduced. Where a gradient is None, put zeros of the parameter's dtype in its place: then every rank has "
                "the same parameters in the same order." if model.missing else
                "every rank must make the same calls: all_reduce(comm, flat) on every rank, once, with as many numbers.")
    flat = "torch.cat takes tensors with a dimension: gradient.reshape(-1) makes each flat, also a single number."
    return (*SUPPLIED_ERRORS, *TOGETHER, ("NoneType", nothing), ("zero-dimensional tensor", flat), ("assigned grad has data of a different type", DTYPE),
            *((sign, disagree) for sign in ("receives into", "have to make the same collective calls", "waits to", "has already returned")))


@task("comm", "module", helpers=SUPPLIED, errors=_errors)
def check_average_gradients(draw: Draw, *, world_sizes: Sequence[int], models: Sequence[Gradients]) -> Iterator[Case]:
    """`function(comm, module)`: afterwards the gradient of every parameter is the average over all ranks.

    A gradient that is missing on a rank counts as zeros. All gradients go in one all-reduce.
    """
    for model, ranks in ((model, n) for model in models for n in world_sizes):
        missing = {*model.missing, *((rank, number) for rank in range(ranks) for number in model.frozen)}
        weights = [draw.whole(shape, model.dtype) for shape in model.shapes]
        lacking = sum(rank < ranks for rank, _ in model.missing)
        title = (f"on {count(ranks, 'rank')}, {count(len(weights), 'parameter')}"
                 + f", {count(lacking, 'gradient')} missing" * bool(lacking)
                 + f", {len(model.frozen)} frozen" * bool(model.frozen)
                 + f", {dtype_name(model.dtype)}" * (model.dtype == torch.bfloat16))
        yield Case(title, after_backward, [
            {
                "weights": weights, "frozen": list(model.frozen),
                "gradients": [None if (rank, number) in missing else draw.whole(shape, model.dtype, most=99) / 10
                              for number, shape in enumerate(model.shapes)],
            }
            for rank in range(ranks)
        ], model)


@check_average_gradients.judge
def _(seen: Seen) -> Remarks:
    model, size, first = seen.facts, seen.size, seen.case.inputs[0]
    for rank, number in itertools.product(seen.ranks, range(len(model.shapes))):
        given = [gradients[number] for gradients in seen.given("gradients")]
        own, there, found = given[rank], [each for each in given if each is not None], seen[rank]["gradients"][number]
        what = f"on rank {rank}, the gradient of parameter {number}"
        if number in model.frozen:
            yield holds(what, found, None, otherwise="this parameter is frozen, requires_grad is False: it gets no gradient.")
        else:
            total = sum(there, torch.zeros_like(first["weights"][number]))
            everywhere = all(close(seen[each]["gradients"][number], given[0]) for each in seen.ranks)
            yield holds(what, found, total / size, {
                "every rank has rank 0's gradient. all_reduce adds up those of all ranks; broadcast does not.":
                    given[0] if everywhere and size > 1 else None,
                "this is still the rank's own gradient. Is it parameter.grad that goes into the flat tensor, and are the averages "
                "written back there?": own,
                "this is the sum over the ranks. Divide it by comm.world_size, on every rank.": total,
                "the rank's own gradient was divided, but the others' are not in it. Is what all_reduce has made of the flat "
                "buffer written back?": None if own is None else own / size,
                "it was divided by the number of ranks twice.": total / size**2,
                "the average was added to the gradient that was there. Put it in its place.":
                    None if own is None else own + total / size,
                "a missing gradient counts as zeros: divide by comm.world_size, however many ranks have one.":
                    total / len(there) if there else None,
            }, same=close, otherwise=
               "the gradient is missing on this rank and must become the average, in which it counts as zeros."
               if found is None else explain_average(found, total / size) or "it is not the sum over the ranks, divided by "
               "comm.world_size. Or is another piece put back here?")
    for rank, number in itertools.product(seen.ranks, range(len(model.shapes))):
        yield untouched(f"on rank {rank}, parameter {number} itself", seen[rank]["weights"][number], first["weights"][number],
                        "average the gradients, parameter.grad, and leave the parameters to the optimizer.")
    sizes = [first["weights"][number].nbytes for number in model.trained]
    every = sum(weight.nbytes for weight in first["weights"])
    if size > 1:
        yield all_reduces(by_sender(seen), [model.nbytes], model.dtype, what="gradients", before="the averages are right, but ",
                          mistakes={
            "each parameter has an all-reduce of its own, and each pays for the latency of its messages. Put all gradients "
            "into one flat tensor first.": [sizes, sizes[::-1]],
            "parameters that need no gradient are sent along. Leave out those whose requires_grad is False.": [[every]],
        }, otherwise="all gradients go into one flat tensor, once, and nothing else does. Then one all_reduce is enough.")


def close(found: object, right: object) -> bool:
    """Rounding is free, also in float32 and bfloat16."""
    is_coarse = isinstance(right, torch.Tensor) and right.dtype == torch.bfloat16
    return is_close(found, right, relative=2e-2, absolute=0.2) if is_coarse else is_close(found, right, absolute=1e-4)


# ── assign_buckets ───────────────────────────────────────────────────────────────────────────────────────────────────

Question = tuple[Sequence[int], int, int]  # sizes, bucket_bytes, first_bucket_bytes


@task("nbytes", "bucket_bytes", "first_bucket_bytes")
def check_assign_buckets(draw: Draw, *, questions: Sequence[Question], drawn: int = 0) -> Iterator[Case]:
    """`function(nbytes, bucket_bytes, first_bucket_bytes)`: buckets of indices, from the last parameter on.

    `drawn`: how many more questions come at the end, which no table of answers has.
    """
    more = [([draw.randint(0, 60) for _ in range(draw.randint(1, 12))], draw.randint(1, 120), draw.randint(1, 60))
            for _ in range(drawn)]
    for nbytes, limit, first in (*questions, *more):
        yield called(list(nbytes), limit, first, facts=(nbytes, limit, first))


@check_assign_buckets.judge
def _(seen: Seen) -> Remarks:
    nbytes, limit, first = seen.facts
    right, number, backwards = assign_buckets(nbytes, limit, first), len(nbytes), list(reversed(range(len(nbytes))))
    mistakes = {
        "the last bucket is missing. Does the loop come to parameter 0? And is a last bucket that is not full kept, too?":
            right[:-1],
        "these numbers count from the last parameter. The last of n parameters has the index n - 1, and the first has 0.":
            [[number - 1 - index for index in bucket] for bucket in right],
        "a bucket is empty. A model without parameters has no bucket at all.": [*right, []],
        "inside a bucket, too, the last parameter comes first.": [bucket[::-1] for bucket in right],
        "the bucket with the last parameters comes first: its gradients do.": right[::-1],
        "begin with the last parameter: the last layers are the first to have gradients.":
            _filled(range(number), nbytes, limit, first),
        "the first bucket has a limit of its own, first_bucket_bytes.": _filled(backwards, nbytes, limit, limit),
        "bucket_bytes and first_bucket_bytes are exchanged.": _filled(backwards, nbytes, first, limit),
        "first_bucket_bytes is the limit of the first bucket only.": _filled(backwards, nbytes, first, first),
        "the bytes of the buckets before are counted, too. A new bucket begins with 0 bytes.":
            _filled(backwards, nbytes, limit, first, resets=False),
        "a bucket that holds exactly its limit is full.": _filled(backwards, nbytes, limit + 1, first + 1),
        "a bucket is full when it holds its limit or more: put the parameter that reaches the limit in, then begin the next "
        "bucket.": _filled(backwards, nbytes, limit, first, closes_before=True),
        "these are filled by numbers of parameters. The limits are in bytes.":
            _filled(backwards, [1] * number, limit, first),
        "the first bucket, too, is filled until it holds its limit.": _filled(backwards, nbytes, limit, 0),
        "this is a single bucket: nothing could be sent before the last gradient is there.": [backwards] if number else None,
        "each parameter has a bucket of its own: small ones should share one.": [[index] for index in backwards],
        "these are sizes. A bucket holds the indices of its parameters.": [[nbytes[i] for i in bucket] for bucket in right],
    }
    fitting = [words for words, value in mistakes.items() if same(seen[0], value)]  # with few parameters, several may
    yield returns(seen, right, otherwise=" Or: ".join(fitting[:2]) or _what_is_off(seen[0], number))


def _filled(
    order: Sequence[int], nbytes: Sequence[int], limit: int, first: int, closes_before: bool = False, resets: bool = True
) -> list[list[int]]:
    """Buckets that are filled in another order, or by another rule."""
    buckets: list[list[int]] = [[]]
    for index in order:
        most = first if len(buckets) == 1 else limit
        held = sum(nbytes[i] for bucket in (buckets[-1:] if resets else buckets) for i in bucket)
        if buckets[-1] and (held + nbytes[index] > most if closes_before else held >= most):
            buckets.append([])
        buckets[-1].append(index)
    return [bucket for bucket in buckets if bucket]


def _what_is_off(found: Any, number: int) -> str:
    if not isinstance(found, list | tuple) or not all(isinstance(bucket, list | tuple) for bucket in found):
        return "return a list of lists of indices."
    if len(found) > 1 and all(bucket == found[0] for bucket in found):
        return "all buckets are the same. Is it one list, appended several times? clear() empties it everywhere."
    times = Counter(index for bucket in found for index in bucket)
    if not all(found):
        return "a bucket is empty."
    if missing := set(range(number)) - set(times):
        return f"parameter {min(missing)} is in no bucket.{' Does the loop return too early?' * (len(missing) > 1)}"
    return "a parameter is in two buckets." if max(times.values(), default=0) > 1 else ""


# ── DistributedSampler ───────────────────────────────────────────────────────────────────────────────────────────────
# By its properties: nobody knows how it shuffles.

SHUFFLED_FROM = 8  # samples: with fewer, two random orders may be the same by chance
EPOCHS = (0, 1, 2, 1, 3)
SAMPLER_ERRORS = (
    ("non-iterator", "__iter__ must return an iterator: iter(indices), or make it a generator with yield."),
    ("attribute 'epoch'", "the epoch is 0 before set_epoch is called for the first time. Set it in __init__."),
    ("'float' object cannot be interpreted", "numbers of samples are whole: a // b rounds down, math.ceil(a / b) rounds up."),
)
STEPS_OF_N = "rank r takes the samples r, r + world_size, r + 2 * world_size, … of the order: order[r::world_size]."


@dataclass(frozen=True)
class Sampling:
    """The facts of a case: samples in the data set, and what the sampler is made with."""

    length: int
    drop_last: bool
    shuffle: bool


@dataclass(frozen=True)
class Epoch:
    """What all ranks have got in one epoch, by rank."""

    parts: Sequence[Sequence[Any]]

    @property
    def order(self) -> list[Any]:
        """The samples in the order in which all ranks together take them: one of each rank, and again."""
        return list(itertools.chain.from_iterable(zip(*self.parts, strict=True)))

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(f"rank {rank}: {_listed(part)}" for rank, part in enumerate(self.parts))


@task("comm", "dataset", "shuffle=True", "seed=0", "drop_last=False", helpers=SUPPLIED, errors=SAMPLER_ERRORS)
def check_sampler(
    draw: Draw, *, world_sizes: Sequence[int], lengths: Sequence[int], drop_last: Sequence[bool] = (False, True),
    shuffle: Sequence[bool] = (True, False),
) -> Iterator[Case]:
    """The class `function(comm, dataset, shuffle=, seed=, drop_last=)` with set_epoch, len and iter.

    Every combination is a case. Of a data set only len is looked at. No message is sent.
    """
    for ranks, length, drops, shuffles in itertools.product(world_sizes, lengths, drop_last, shuffle):
        facts, seeds = Sampling(length, drops, shuffles), draw.sample(range(1_000_000), 2)
        options = [{"shuffle": facts.shuffle, "seed": seed, "drop_last": facts.drop_last} for seed in seeds]
        notes = ", drop_last=True" * facts.drop_last + ", shuffle=False" * (not facts.shuffle)
        inputs = {"length": facts.length, "options": options, "epochs": list(EPOCHS), "random_seed": draw.getrandbits(60)}
        yield Case(f"on {count(ranks, 'rank')}, {count(facts.length, 'sample')}{notes}", epochs, [inputs] * ranks, facts)


@check_sampler.judge
def _(seen: Seen) -> Remarks:
    samplers = [[Epoch([played["indices"][k][number] for played in seen.results]) for number in range(len(EPOCHS))]
                for k in (0, 1)]
    for epoch in itertools.chain.from_iterable(samplers):
        yield from _numbers(seen, epoch)
        yield from _cover(seen, epoch)
    yield from (_shuffled if seen.facts.shuffle else _unshuffled)(seen, samplers)
    for rank, played in enumerate(seen.results):
        if played["again"] != [indices[-1] for indices in played["indices"]]:
            yield Remark(f"on rank {rank}, an epoch that was gone through twice had another order the second time.",
                         cause="set_epoch was not called between the two. Nothing else changes the epoch, nor does __iter__.")
        if played["unset"] != [indices[0] for indices in played["indices"]]:
            yield Remark(f"on rank {rank}, the order before set_epoch was called is not that of epoch 0.",
                         cause="the constructor sets the epoch to 0.")
        random_state = torch.Generator().manual_seed(seen.case.inputs[rank]["random_seed"]).get_state()
        if not is_equal(played["random_state"], random_state):
            yield Remark("it changes the random numbers of the rest of the program.",
                         cause="torch.manual_seed sets the generator that dropout and new layers use, too: all ranks would "
                         "drop the same. Make one of your own: torch.Generator().manual_seed(…), and torch.randperm(n, "
                         "generator=…).")
        for module in played["changed"]:
            yield Remark(f"it changes the random numbers of the rest of the program: those of {module}.",
                         cause="data loading and augmentation draw from that generator, too: all ranks would draw the same. Make one "
                         "of your own: torch.Generator().manual_seed(…), random.Random(…) or numpy.random.default_rng(…).")
    if len(seen.trace):
        yield Remark(f"{count(len(seen.trace), 'message')} {'was' if len(seen.trace) == 1 else 'were'} sent.",
                     cause="a sampler sends nothing: all ranks know the seed, and so the whole order.")


def _numbers(seen: Seen, epoch: Epoch) -> Remarks:
    """What, and how much of it, a rank gets in one epoch."""
    length, drops = seen.facts.length, seen.facts.drop_last
    each = length // seen.size if drops else -(-length // seen.size)
    lengths, nearly = {len(part) for part in epoch.parts}, {length // seen.size, -(-length // seen.size)}
    for rank, part in enumerate(epoch.parts):
        for index in part:
            if type(index) is not int or not 0 <= index < length:
                yield Remark(f"rank {rank} got {index!r}; expected numbers from 0 to {length - 1}.", cause="indices are "
                             "numbers, not tensors. tolist() makes numbers of a tensor." if isinstance(index, torch.Tensor) else
                             "a sampler gives the indices of samples. The DataLoader looks the samples up.")
        if len(part) != each:
            yield Remark(
                f"rank {rank} got {count(len(part), 'sample')}; expected {each}.", epoch.lines,
                "at first there were samples. An iterator can be gone through once: let __iter__ make a new one each time."
                if not part and seen[rank]["unset"][0] else
                "a single rank takes the whole order, from its first entry to its last." if seen.size == 1 else
                f"every rank goes through the whole data set. {STEPS_OF_N.capitalize()}"
                if lengths <= {length, each * seen.size} else
                STEPS_OF_N if len(lengths) > 1 and not lengths <= nearly else
                f"a rank with fewer batches leaves the others waiting in their all-reduce. {'Drop' if drops else 'Repeat'} "
                "samples until it divides." if len(lengths) > 1 else
                "with drop_last=True, drop the samples at the end that don't divide; nothing is repeated." if drops else
                "with drop_last=False nothing is dropped: samples are repeated until the number divides.")
        for said in seen[rank]["lengths"]:
            if said != each:
                yield Remark(f"on rank {rank}, len(sampler) is {said}; expected {each}.", cause="len is rounded down with "
                             "drop_last=True, else up." if said in nearly else "len is the number of samples of this rank, not of "
                             "the data set: a DataLoader counts its batches with it.")


def _cover(seen: Seen, epoch: Epoch) -> Remarks:
    """Whether all samples are there, each as often as it must be."""
    length = seen.facts.length
    whole, more = epoch.order[:length], epoch.order[length:]
    if set(whole) == set(range(length)) and more != [whole[k % length] for k in range(len(more))]:
        yield Remark("the padding is not taken from the start of the order.", epoch.lines,
                     "repeat the order from its beginning until the number of ranks divides its length.")
    own = [index for part in epoch.parts for index, number in Counter(part).items() if number > 1]
    twice = sorted(index for index, number in Counter(whole).items() if number > 1)
    if twice:
        among = f" among the first {length} of the order" * (len(epoch.order) > length)
        yield Remark(f"{count(len(twice), 'sample')} came more than once{among}: {_listed(twice)}.", epoch.lines,
                     "hash of a text gives another number in each process, so each rank has a seed of its own. Make the seed "
                     "of numbers: of the sampler's seed and the epoch."
                     if any(played["hashes_text"] for played in seen.results) else
                     "the order has each sample once, as torch.randperm(n, generator=…) does." if seen.size == 1 or (own and len(epoch.order) == length) else
                     "all samples came, but some of them too early again. Shuffle first, all ranks the same way; then go on from the "
                     "beginning of the order until it divides; then take order[comm.rank :: comm.world_size]."
                     if set(epoch.order) == set(range(length)) else
                     "the parts of the ranks overlap. All ranks must cut the same order: shuffle it with a torch.Generator "
                     "whose seed does not depend on the rank, and take order[comm.rank :: comm.world_size].")


def _unshuffled(seen: Seen, samplers: Sequence[Sequence[Epoch]]) -> Remarks:
    one, two = samplers[0][0], samplers[0][1]
    for epoch in itertools.chain.from_iterable(samplers):
        if epoch.order[: seen.facts.length] != list(range(min(seen.facts.length, len(epoch.order)))):
            yield Remark("without shuffling, the samples do not come in their order.", epoch.lines,
                         "is shuffle looked at? With shuffle=False the order is 0, 1, 2, … in every epoch."
                         if seen.facts.length >= SHUFFLED_FROM and one.order != two.order else STEPS_OF_N)


def _shuffled(seen: Seen, samplers: Sequence[Sequence[Epoch]]) -> Remarks:
    first, second, _, second_again, _ = samplers[0]
    if seen.facts.length < SHUFFLED_FROM:
        return
    if first.order[: seen.facts.length] == list(range(min(seen.facts.length, len(first.order)))):
        yield Remark("the samples come in their order: nothing is shuffled.", first.lines, "is shuffle looked at? And nothing "
                     "may be sorted after it." if first.order == second.order else "epoch 0 is shuffled like all others.")
    made_of = "the seed of the shuffle is made of the seed and the epoch."
    if second.order != second_again.order:
        yield Remark("epoch 1 gave another order when it came again.", cause="the order must depend on seed and epoch only: "
                     "make a new torch.Generator in __iter__ each time, give it a seed made of both, and hand it over: "
                     "torch.randperm(n, generator=generator).")
    for one, two in itertools.combinations(dict(zip(EPOCHS, samplers[0], strict=True)).items(), 2):
        if one[1].order == two[1].order:
            yield Remark(f"two epochs have the same order: {one[0]} and {two[0]}.", cause="set_epoch must change the order "
                         f"that the next iteration gives: {made_of}")
    if seen.size > 1 and all(_same_parts(one, two) for those in samplers for one, two in itertools.pairwise(those)):
        yield Remark("every rank has the same samples in every epoch, only in another order.",
                     cause="shuffle the whole data set first, and then cut it into parts.")
    if first.order == samplers[1][0].order:
        yield Remark("another seed gives the same order.", cause=made_of if second.order == samplers[1][1].order else
                     "it does so in epoch 0 only: a product of both is 0 there, and seed ** epoch is 1. Add them up, for example.")
    dropped = set(range(seen.facts.length)).difference(*(epoch.order for those in samplers for epoch in those))
    if dropped and len(dropped) == seen.facts.length - len(first.order):
        yield Remark(f"{count(len(dropped), 'sample')} came in no epoch: {_listed(sorted(dropped))}.",
                     cause="shuffle the whole data set, and then leave out the entries at the end: others in each epoch.")


def _same_parts(one: Epoch, two: Epoch) -> bool:
    """Whether every rank has the same samples in both. In one pair of epochs that may happen by chance."""
    return all(set(these) == set(those) for these, those in zip(one.parts, two.parts, strict=True))


def _listed(numbers: Sequence[Any]) -> str:
    return ", ".join(map(str, numbers[:12])) + (" …" if len(numbers) > 12 else "")
# fmt: on
