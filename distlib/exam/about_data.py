"""Questions about data parallel training: batches, buckets, learning rates, and workers that wait."""

from __future__ import annotations

import math
import random

from distlib.checks.formatting import count
from distlib.exam.exam_question import Asked, asks_about
from distlib.exam.number_words import shown
from distlib.network import traffic
from distlib.partition import chunk_lengths
from distlib.training.buckets import assign_buckets
from distlib.training.large_batch import warmup_learning_rate

_TOPIC = "data parallel"


@asks_about(_TOPIC)
def chunks_of_a_batch(draw: random.Random) -> Asked:
    ranks, batch = draw.choice((3, 4, 6, 7)), draw.randint(5, 15)
    batch = ranks * batch + draw.randint(1, ranks - 1)
    return Asked(
        f"torch.tensor_split cuts a batch of {batch} samples for {ranks} ranks. How many samples does each rank "
        "get, in order?",
        chunk_lengths(batch, ranks),
        f"{batch} = {batch // ranks} · {ranks} + {batch % ranks}: the first {batch % ranks} get one more.",
        {"ranks": ranks, "batch": batch},
        "samples",
    )


@asks_about(_TOPIC)
def samples_that_come_twice(draw: random.Random) -> Asked:
    """What a sampler repeats so that all ranks have as many."""
    ranks, samples = draw.choice((4, 6, 7, 8)), draw.randint(20, 120)
    samples = ranks * samples + draw.randint(1, ranks - 1)
    each = math.ceil(samples / ranks)
    return Asked(
        f"A distributed sampler gives each of {ranks} ranks as many of {samples} samples as every other, and "
        "drops none. How "
        "many samples are seen twice in an epoch?",
        each * ranks - samples,
        f"⌈{samples}/{ranks}⌉ = {each} each, {each * ranks} together.",
        {"ranks": ranks, "samples": samples},
        "samples",
    )


@asks_about(_TOPIC)
def steps_of_an_epoch(draw: random.Random) -> Asked:
    """Batches on all ranks."""
    ranks, batch, samples = draw.choice((2, 4, 8)), draw.choice((16, 32, 64)), draw.randint(5_000, 60_000)
    return Asked(
        f"{shown(samples)} samples are trained on by {ranks} ranks, each with batches of {batch}; the last batch "
        "may be smaller. "
        "How many steps has an epoch?",
        math.ceil(math.ceil(samples / ranks) / batch),
        f"⌈{shown(samples)}/{ranks}⌉ samples per rank, in batches of {batch}.",
        {"ranks": ranks, "batch": batch, "samples": samples},
        "steps",
    )


@asks_about(_TOPIC)
def batch_of_a_step(draw: random.Random) -> Asked:
    ranks, micro, accumulated = draw.choice((4, 8, 16)), draw.choice((2, 4, 8)), draw.choice((2, 4, 8))
    return Asked(
        f"{ranks} ranks add up the gradients of {accumulated} microbatches of {micro} samples each before every "
        "optimizer step. "
        "How large is the batch of a step?",
        ranks * micro * accumulated,
        f"{ranks} · {accumulated} · {micro}.",
        {"ranks": ranks, "micro": micro, "accumulated": accumulated},
        "samples",
    )


@asks_about(_TOPIC)
def number_of_buckets(draw: random.Random) -> Asked:
    """Gradients are put together from the last layer on."""
    sizes = [draw.choice((2, 4, 6, 10, 16, 30)) for _ in range(draw.randint(6, 9))]
    limit = draw.choice((20, 24, 30))
    return Asked(
        f"The parameters of a model have {shown(sizes)} MB, in the order of registration. Buckets are filled "
        "from the last one "
        f"on; a bucket is full as soon as it holds at least {limit} MB. How many buckets are there?",
        len(assign_buckets(sizes, limit)),
        f"From the last to the first: {assign_buckets(sizes, limit)}, by index.",
        {"sizes": sizes, "limit": limit},
        "buckets",
    )


@asks_about(_TOPIC)
def bytes_of_a_ddp_step(draw: random.Random) -> Asked:
    """Gradients through a ring."""
    ranks = draw.choice((4, 8, 16))
    millions = ranks * draw.randint(2, 20)
    return Asked(
        f"A model has {millions} million parameters in float32. {ranks} ranks average its gradients in one ring "
        "all-reduce. How "
        "many MB (10⁶ bytes) does each rank send per step?",
        traffic.ring_all_reduce(ranks, millions * 1_000_000, 4).nbytes[0] / 1e6,
        f"2 · {ranks - 1}/{ranks} · {millions} · 4.",
        {"ranks": ranks, "millions": millions},
        "MB",
    )


@asks_about(_TOPIC)
def rate_in_the_warm_up(draw: random.Random) -> Asked:
    """Linear scaling, reached step by step."""
    base, scale, steps = draw.choice((0.05, 0.1, 0.2)), draw.choice((4, 8, 16)), draw.choice((50, 100, 200))
    step = steps * draw.randint(1, 4) // 5
    return Asked(
        f"A learning rate of {base} suits a batch of 32. The batch is now {32 * scale}: the rate grows linearly "
        f"from {base} in "
        f"step 0 to the scaled rate in step {steps}. What is it in step {step}?",
        warmup_learning_rate(step, base, 32, 32 * scale, steps),
        f"{base} · (1 + ({scale} − 1) · {step}/{steps}).",
        {"base": base, "scale": scale, "steps": steps, "step": step},
    )


@asks_about(_TOPIC)
def mean_of_uneven_means(draw: random.Random) -> Asked:
    """Averaging means weighs small batches too much."""
    sizes = [draw.randint(2, 6), draw.randint(7, 12)]
    means = [draw.randint(1, 9), draw.randint(10, 20)]
    right = sum(size * mean for size, mean in zip(sizes, means, strict=True)) / sum(sizes)
    return Asked(
        f"Two ranks have batches of {sizes[0]} and {sizes[1]} samples, and the mean gradients of their samples "
        f"are {means[0]} and "
        f"{means[1]}. What is the mean of both means minus the mean over all samples?",
        sum(means) / 2 - right,
        f"{sum(means) / 2:g} instead of {right:.4g}: weigh each with its number of samples.",
        {"sizes": sizes, "means": means},
    )


@asks_about(_TOPIC)
def bytes_saved_by_local_steps(draw: random.Random) -> Asked:
    """Local SGD averages less often."""
    ranks, period, rounds = draw.choice((4, 8)), draw.choice((4, 8, 10)), draw.randint(5, 20)
    return Asked(
        f"{ranks} ranks train for {period * rounds} steps and average their parameters after every {period}, "
        "instead of their "
        "gradients in each step. How many all-reduces of the model's size are saved?",
        period * rounds - rounds,
        f"{rounds} instead of {period * rounds}.",
        {"period": period, "rounds": rounds},
        "all-reduces",
    )


@asks_about(_TOPIC)
def workers_that_may_go_on(draw: random.Random) -> Asked:
    clocks, bound = [draw.randint(3, 9) for _ in range(5)], draw.choice((1, 2, 3))
    return Asked(
        f"Five workers of a parameter server have done {shown(clocks)} steps. With a staleness of at most "
        f"{bound}, a worker may "
        f"begin a step while it is at most {count(bound, 'step')} ahead of the slowest. How many of them may "
        "begin one now?",
        sum(clock - min(clocks) <= bound for clock in clocks),
        f"Those with at most {min(clocks)} + {bound} steps.",
        {"clocks": clocks, "bound": bound},
        "workers",
    )


@asks_about(_TOPIC)
def bytes_of_a_server(draw: random.Random) -> Asked:
    """A synchronous parameter server, cut into parts."""
    workers, servers = draw.choice((6, 8, 12)), draw.choice((2, 3, 4))
    length = servers * draw.randint(100, 900)
    return Asked(
        f"A model of {shown(length)} float32 is spread equally over {servers} parameter servers. In each step "
        f"{workers} workers "
        "push all gradients and pull all parameters. How many bytes does one server receive and send in a step, "
        "added up?",
        2 * workers * length // servers * 4,
        f"2 · {workers} · {shown(length // servers)} · 4.",
        {"workers": workers, "servers": servers, "length": length},
        "bytes",
    )


@asks_about(_TOPIC)
def rows_of_a_shard(draw: random.Random) -> Asked:
    """A table over servers."""
    rows, servers = draw.randint(1_000, 9_000), draw.choice((3, 7, 8))
    server = draw.randint(1, servers - 1)
    lengths = chunk_lengths(rows, servers)
    return Asked(
        f"{shown(rows)} rows of an embedding lie on {servers} servers in ranges that differ by at most one row; "
        "longer ranges come "
        f"first. Which is the first row on server {server} (servers and rows count from 0)?",
        sum(lengths[:server]),
        f"The ranges have {shown(lengths)} rows.",
        {"rows": rows, "servers": servers, "server": server},
    )
