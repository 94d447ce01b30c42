"""The bank of questions: each answer, which comes from a formula, is found a second way, most of them by simulation."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from distlib import Cluster, Communicator, Link, SimulatedWorld, collectives
from distlib.cli import main
from distlib.exam.exam_question import BANK, Answer, asks_about
from distlib.exam.exam_sheet import TOPICS, all_questions, answer_words, choose_questions, json_sheet, markdown_sheet
from distlib.exam.number_words import shown
from distlib.exam.variant import for_exam, for_practice, kept_secret
from distlib.launch.node_list import write_out
from distlib.training.sampler import DistributedSampler
from distlib.training.schedules import (
    Costs,
    Schedule,
    gpipe,
    interleaved_1f1b,
    naive,
    one_forward_one_backward,
    time_schedule,
)

SEEDS = (7, 8, 9)
FIVE, SEVEN = for_practice(5), for_practice(7)
PROJECT = Path(__file__).parents[2]
Second = Callable[..., Answer]


def played(name: str, ranks: int, length: int, itemsize: int = 4, cluster: Cluster | None = None, **more: Any) -> Any:
    """A simulated world after a collective."""
    dtype = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[itemsize]
    world = SimulatedWorld(ranks, cluster=cluster)
    world.run(lambda comm: getattr(collectives, name)(comm, torch.zeros(length, dtype=dtype), **more))
    return world


def most(numbers: list[int]) -> int:
    return max(numbers)


def sent(name: str, of: Callable[[list[int]], int] = most, itemsize: int = 4) -> Second:
    return lambda ranks, length: of(played(name, ranks, length, itemsize).trace.bytes_sent)


def rounds(name: str) -> Second:
    return lambda ranks: played(name, ranks, 10 * ranks).trace.rounds


def micros(name: str) -> Second:
    def second(ranks: int, link: Link, length: int, **more: int) -> float:
        return float(played(name, ranks, length, cluster=Cluster(ranks, 1, link, link), **more).elapsed * 1e6)

    return second


def all_to_all(ranks: int, length: int) -> int:
    def play(comm: Communicator) -> None:
        parts = [torch.zeros(length // ranks) for _ in range(2 * ranks)]
        collectives.all_to_all(comm, parts[:ranks], parts[ranks:])

    world = SimulatedWorld(ranks)
    world.run(play)
    return world.trace.bytes_sent[0]


def barrier_rounds(ranks: int) -> int:
    world = SimulatedWorld(ranks)
    world.run(collectives.barrier)
    return world.trace.rounds


def hierarchical(nodes: int, per_node: int, length: int) -> int:
    """What one rank sends to other nodes, message by message."""
    trace = played("hierarchical_all_reduce", nodes * per_node, length, ranks_per_node=per_node).trace
    return sum(m.nbytes for m in trace if m.src == 0 and m.dst // per_node != 0)


def a_message(link: Link, nbytes: int) -> float:
    def play(comm: Communicator) -> None:
        (comm.send if comm.rank == 0 else comm.recv)(torch.zeros(nbytes, dtype=torch.int8), 1 - comm.rank)

    world = SimulatedWorld(2, cluster=Cluster(2, 1, link, link))
    world.run(play)
    return world.elapsed * 1e6


def the_faster(ranks: int, link: Link, length: int) -> str:
    tree, ring = (micros(f"{name}_all_reduce")(ranks, link, length) for name in ("tree", "ring"))
    return "tree" if tree < ring else "ring"  # type: ignore[operator]


def latency_share(ranks: int, link: Link, length: int) -> float:
    """What is left of the time without bytes."""
    whole, empty = (micros("ring_all_reduce")(ranks, link, each) for each in (length, 0))
    return empty / whole  # type: ignore[operator]


def a_step(ranks: int, link: Link, length: int, compute: float) -> float:
    """The seconds of a step that computes and then sums."""

    def play(comm: Communicator) -> None:
        comm.sleep(compute)
        collectives.ring_all_reduce(comm, torch.zeros(length))

    world = SimulatedWorld(ranks, cluster=Cluster(ranks, 1, link, link))
    world.run(play)
    return world.elapsed


def speed_up(ranks: int, link: Link, length: int, compute: float) -> float:
    return compute / a_step(ranks, link, length, compute / ranks)


def bus_bandwidth(ranks: int, nbytes: int, milliseconds: int) -> float:
    """The bytes that a rank of a ring sends, per second; counted on a smaller tensor."""
    small = played("ring_all_reduce", ranks, 64 * ranks, 1).trace.bytes_sent[0] / (64 * ranks)
    return small * nbytes / (milliseconds / 1e3) / 1e9


# ── data ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sampled_twice(ranks: int, samples: int) -> int:
    world = SimulatedWorld(ranks)
    parts = world.run(lambda comm: list(DistributedSampler(comm, range(samples))))
    return sum(map(len, parts)) - len({index for part in parts for index in part})


def steps(ranks: int, batch: int, samples: int) -> int:
    part = torch.utils.data.DistributedSampler(range(samples), ranks, 0)  # type: ignore[arg-type]
    return len(torch.utils.data.DataLoader(range(samples), batch, sampler=part))  # type: ignore[arg-type]


def buckets(sizes: list[int], limit: int) -> int:
    number, held = 0, 0
    for size in reversed(sizes):
        number += held == 0
        held = 0 if held + size >= limit else held + size
    return number


def ddp_megabytes(ranks: int, millions: int) -> float:
    return played("ring_all_reduce", ranks, ranks * 10).trace.bytes_sent[0] / (ranks * 10) * millions


def warm_rate(base: float, scale: int, steps: int, step: int) -> float:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=base * scale)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / scale, total_iters=steps)
    for _ in range(step):
        optimizer.step()
        schedule.step()
    return float(schedule.get_last_lr()[0])


def uneven_means(sizes: list[int], means: list[int]) -> float:
    """With samples that are equal on each rank."""
    parts = [torch.full((size,), float(mean)) for size, mean in zip(sizes, means, strict=True)]
    return float(torch.stack([part.mean() for part in parts]).mean() - torch.cat(parts).mean())


def server_bytes(workers: int, servers: int, length: int) -> int:
    """A server alone with its workers: each pushes its part and pulls it back."""

    def play(comm: Communicator) -> None:
        part = torch.zeros(length // servers)
        for worker in range(1, comm.world_size) if comm.rank == 0 else ():
            comm.recv(part, worker)
            comm.send(part, worker)
        if comm.rank:
            comm.send(part, 0)
            comm.recv(part, 0)

    world = SimulatedWorld(workers + 1)
    world.run(play)
    return world.trace.bytes_sent[0] + world.trace.bytes_received[0]


# ── pipelines ────────────────────────────────────────────────────────────────────────────────────────────────────────


def played_pipeline(schedule: Schedule, forward: list[float] | float, backward: float | None = None) -> SimulatedWorld:
    """Ranks that do what a schedule says: wait for a message, compute, send on. A stage per rank."""
    last = len(schedule) - 1

    def play(comm: Communicator) -> None:
        message, works = torch.zeros(1), []
        for action in schedule[comm.rank]:
            ahead = action.kind == "F"
            source, target = (comm.rank - 1, comm.rank + 1) if ahead else (comm.rank + 1, comm.rank - 1)
            if 0 <= source <= last:
                comm.recv(message, source, tag=2 * action.microbatch + ahead)
            cost = forward[comm.rank] if isinstance(forward, list) else forward
            comm.sleep(cost if ahead or backward is None else backward)
            if 0 <= target <= last:
                works.append(comm.isend(torch.zeros(1), target, tag=2 * action.microbatch + ahead))
        for work in works:
            work.wait()

    free = Link(0.0, math.inf)
    world = SimulatedWorld(len(schedule), cluster=Cluster(len(schedule), 1, free, free))
    world.run(play)
    return world


def bubble(stages: int, micro: int) -> float:
    """The part of the total time in which a rank does not compute."""
    return 1 - 3 * micro / played_pipeline(gpipe(stages, micro), 1.0, 2.0).elapsed


def live(stages: int, micro: int, stage: int, make: Any = one_forward_one_backward) -> int:
    """Forward passes that are ahead of backward passes, at most."""
    actions = make(stages, micro)[stage]
    return max(itertools.accumulate(1 if action.kind == "F" else -1 for action in actions))


def fewest_microbatches(stages: int, percent: int) -> int:
    """The first number that is enough. Each microbatch more makes the bubble smaller, so that few need to be played."""

    def is_enough(micro: int) -> bool:
        return time_schedule(gpipe(stages, micro)).bubble <= percent / 100 + 1e-9

    return bisect_left(range(100 // percent * stages), True, lo=1, key=is_enough)


# ── memory and layouts ───────────────────────────────────────────────────────────────────────────────────────────────


def kept(billions: int, ranks: int, stage: int) -> float:
    """GB, from what each stage shards, in its order: states, gradients, parameters."""
    return sum(size * billions / (ranks if number < stage else 1) for number, size in enumerate((12, 2, 2)))


def stage_three(ranks: int, length: int) -> int:
    """Two all-gathers and a reduce-scatter, played."""

    def play(comm: Communicator) -> None:
        for each in (collectives.ring_all_gather, collectives.ring_all_gather, collectives.ring_reduce_scatter):
            each(comm, torch.zeros(length))

    world = SimulatedWorld(ranks)
    world.run(play)
    return world.trace.bytes_sent[0]


def parameters(layer: nn.Module) -> int:
    return sum(each.numel() for each in layer.parameters())


def best_interval(cost: int, hours: int) -> float:
    """The least of what checkpoints cost and of what a failure loses, per second of work."""
    lost = [cost / (tenth / 10) + tenth / 10 / (2 * hours * 3600) for tenth in range(1_000, 100_000)]
    return (1_000 + lost.index(min(lost))) / 10


def grid(sizes: dict[str, int]) -> torch.Tensor:
    return torch.arange(math.prod(sizes.values())).reshape(*sizes.values())


def place(sizes: dict[str, int], rank: int) -> list[int]:
    return [int(index) for index in (grid(sizes) == rank).nonzero()[0]]


def mixing(ranks: int) -> torch.Tensor:
    one = torch.eye(ranks, dtype=torch.float64)
    return (one + one.roll(1, 0) + one.roll(-1, 0)) / 3


def second_eigenvalue(ranks: int) -> float:
    return float(torch.linalg.eigvalsh(mixing(ranks)).abs().sort().values[-2])


def gossip_rounds(ranks: int, part: int) -> int:
    power, rest = mixing(ranks), torch.full((ranks, ranks), 1 / ranks, dtype=torch.float64)
    left = torch.eye(ranks, dtype=torch.float64)
    for number in itertools.count(1):
        left = left @ power
        if torch.linalg.matrix_norm(left - rest, ord=2) <= 1 / part:
            return number
    raise AssertionError


def ring_attention_bytes(ranks: int, sequence: int, features: int) -> int:
    """Keys and values go around; each rank passes on all but the last ones."""
    own = torch.zeros(2, sequence // ranks, features, dtype=torch.bfloat16)

    def play(comm: Communicator) -> None:
        incoming = torch.empty_like(own)
        for _ in range(comm.world_size - 1):
            comm.exchange(own, (comm.rank + 1) % ranks, incoming, (comm.rank - 1) % ranks)

    world = SimulatedWorld(ranks)
    world.run(play)
    return world.trace.bytes_sent[0]


def seen_by_the_last(ranks: int, sequence: int) -> int:
    return int(torch.tril(torch.ones(sequence, sequence))[-(sequence // ranks) :].sum())


def room(tokens: int, experts: int, chosen: int, percent: int) -> int:
    """The smallest number that is enough."""
    return next(n for n in itertools.count() if 100 * n * experts >= percent * chosen * tokens)


SECOND: dict[str, Second] = {
    "bytes_of_a_flat_broadcast": sent("flat_broadcast"),
    "rounds_of_a_tree_broadcast": rounds("tree_broadcast"),
    "messages_of_a_tree_root": lambda ranks: played("tree_broadcast", ranks, 9).trace.messages_sent[0],
    "messages_of_a_tree_reduce": lambda ranks: len(played("tree_reduce", ranks, 9).trace),
    "bytes_of_a_scatter": sent("scatter"),
    "bytes_of_a_gather": lambda ranks, length, rank: played("gather", ranks, length, 8).trace.bytes_sent[rank],
    "messages_of_a_chain": lambda ranks, blocks: len(played("chain_broadcast", ranks, 40, blocks=blocks).trace),
    "bytes_of_a_reduce_scatter": sent("ring_reduce_scatter"),
    "messages_of_an_all_gather": lambda ranks: len(played("ring_all_gather", ranks, 5 * ranks).trace),
    "rounds_of_recursive_doubling": rounds("recursive_doubling_all_gather"),
    "bytes_of_an_all_to_all": all_to_all,
    "rounds_of_a_barrier": barrier_rounds,
    "bytes_of_a_master": lambda ranks, length: 2 * sum(played("flat_reduce", ranks, length).trace.bytes_sent),
    "bytes_of_a_ring": sent("ring_all_reduce"),
    "rounds_of_a_ring": rounds("ring_all_reduce"),
    "most_bytes_of_an_uneven_ring": sent("ring_all_reduce"),
    "rounds_of_halving_and_doubling": rounds("halving_doubling_all_reduce"),
    "bytes_of_halving_and_doubling": sent("halving_doubling_all_reduce"),
    "rounds_of_a_grid": lambda rows, columns: (
        played("grid_all_reduce", rows * columns, 6 * rows * columns, columns=columns).trace.rounds
    ),
    "bytes_of_a_rank_of_a_node": hierarchical,
    "master_against_ring": lambda ranks: (
        max(played("naive_all_reduce", ranks, 10 * ranks).trace.bytes_sent)
        / max(played("ring_all_reduce", ranks, 10 * ranks).trace.bytes_sent)
    ),
    "least_bytes": lambda ranks: sum(played("ring_all_reduce", ranks, 7 * ranks, 1).trace.bytes_sent) / ranks**2 / 7,
    "seconds_of_a_message": a_message,
    "seconds_of_a_ring": micros("ring_all_reduce"),
    "seconds_of_a_reduce_scatter": micros("ring_reduce_scatter"),
    "seconds_of_a_tree": micros("tree_all_reduce"),
    "seconds_of_a_master": micros("naive_all_reduce"),
    "seconds_of_halving_and_doubling": micros("halving_doubling_all_reduce"),
    "seconds_of_a_flat_broadcast": micros("flat_broadcast"),
    "seconds_of_a_tree_broadcast": micros("tree_broadcast"),
    "the_faster_all_reduce": the_faster,
    "latency_of_a_ring": latency_share,
    "bus_bandwidth_of_a_ring": bus_bandwidth,
    "seconds_of_a_chain": micros("chain_broadcast"),
    "seconds_on_two_levels": lambda cluster, length, per_node: (
        1e6
        * played(
            "hierarchical_all_reduce", cluster.world_size, length, cluster=cluster, ranks_per_node=per_node
        ).elapsed
    ),
    "efficiency_of_a_step": lambda compute, **case: compute / a_step(compute=compute, **case),
    "speed_up_of_a_batch": speed_up,
    "chunks_of_a_batch": lambda ranks, batch: [len(part) for part in torch.tensor_split(torch.zeros(batch), ranks)],
    "samples_that_come_twice": sampled_twice,
    "steps_of_an_epoch": steps,
    "batch_of_a_step": lambda ranks, micro, accumulated: (
        sum(micro for _ in itertools.product(range(ranks), range(accumulated)))
    ),
    "number_of_buckets": buckets,
    "bytes_of_a_ddp_step": ddp_megabytes,
    "rate_in_the_warm_up": warm_rate,
    "mean_of_uneven_means": uneven_means,
    "bytes_saved_by_local_steps": lambda period, rounds: sum(step % period > 0 for step in range(period * rounds)),
    "workers_that_may_go_on": lambda clocks, bound: sum(all(c <= each + bound for each in clocks) for c in clocks),
    "bytes_of_a_server": server_bytes,
    "rows_of_a_shard": lambda rows, servers, server: int(torch.arange(rows).tensor_split(servers)[server][0]),
    "bubble_of_the_total": bubble,
    "bubble_of_the_ideal": lambda stages, micro: (
        played_pipeline(one_forward_one_backward(stages, micro), 1.0, 1.0).elapsed / (2 * micro) - 1
    ),
    "seconds_of_gpipe": lambda stages, micro, forward: (
        round(played_pipeline(gpipe(stages, micro), float(forward), 2.0 * forward).elapsed)
    ),
    "microbatches_that_are_kept": live,
    "activations_of_gpipe_against_1f1b": lambda stages, micro: live(stages, micro, 0, gpipe) - live(stages, micro, 0),
    "bubble_of_interleaved_stages": lambda ranks, micro, per_rank: (ranks - 1) / (per_rank * micro + ranks - 1),
    "microbatches_for_a_small_bubble": fewest_microbatches,
    "messages_of_a_pipeline": lambda stages, micro: len(played_pipeline(gpipe(stages, micro), 1.0).trace),
    "share_of_a_naive_pipeline": lambda stages: 2 / played_pipeline(naive(stages, 1), 1.0).elapsed,
    "slowest_stage": lambda costs, micro: round(played_pipeline(gpipe(4, micro), [float(c) for c in costs]).elapsed),
    "memory_of_adam": lambda billions, ranks=1: kept(billions, 1, 0),
    "memory_of_a_stage": kept,
    "first_stage_that_fits": lambda billions, ranks, limit: (
        next(stage for stage in range(4) if kept(billions, ranks, stage) <= limit)
    ),
    "bytes_of_stage_three": stage_three,
    "parameters_of_a_column": lambda ranks, features: parameters(nn.Linear(features, 4 * features // ranks)),
    "parameters_of_a_row": lambda ranks, features: parameters(nn.Linear(4 * features // ranks, features)),
    "all_reduces_of_tensor_parallel": lambda layers: len(list(itertools.product(range(layers), "am", "fb"))),
    "bytes_of_tensor_parallel": lambda ranks, tokens, features: (
        2 * played("ring_all_reduce", ranks, ranks * 4, 2).trace.bytes_sent[0] * tokens * features // (ranks * 4)
    ),
    "time_between_checkpoints": best_interval,
    "bytes_of_a_sharded_checkpoint": lambda billions, ranks: sum(4 * billions / ranks for _ in range(3)),
    "rank_in_a_mesh": lambda sizes, at: int(grid(sizes)[tuple(at.values())]),
    "stage_of_a_rank": lambda sizes, rank: place(sizes, rank)[1],
    "group_of_a_rank": lambda sizes, rank: grid(sizes)[:, place(sizes, rank)[1], place(sizes, rank)[2]].tolist(),
    "replicas_that_are_left": lambda ranks, pp, tp: len(torch.arange(ranks).reshape(-1, pp, tp)),
    "contraction_of_a_ring": second_eigenvalue,
    "rounds_of_gossip": gossip_rounds,
    "weight_of_a_hub": lambda ranks: 1 - 1 / (1 + len(range(1, ranks))),
    "value_after_a_round": lambda values, rank: (
        round(float(mixing(5)[rank] @ torch.tensor(values, dtype=torch.float64)))
    ),
    "bytes_of_ring_attention": ring_attention_bytes,
    "work_of_the_last_rank": seen_by_the_last,
    "room_of_an_expert": room,
    "nodes_of_a_list": lambda text: len(write_out(text)),
    "node_of_a_rank": lambda per_node, nodes, rank: [r for _ in range(nodes) for r in range(per_node)][rank],
}  # fmt: skip
NEAR = {"time_between_checkpoints": 0.005}  # the least is flat, and found in steps of a tenth of a second


@pytest.mark.parametrize("name", [question.name for question in all_questions()])
def test_an_answer_is_found_a_second_way(name: str) -> None:
    for seed in SEEDS:
        asked = BANK[name](str(seed))
        second = SECOND[name](**asked.given)
        expected = pytest.approx(second, rel=NEAR.get(name, 1e-6)) if isinstance(second, float) else second
        assert asked.answer == expected, (seed, asked)


def test_the_formula_of_the_interleaved_bubble_is_what_is_played() -> None:
    timing = time_schedule(interleaved_1f1b(4, 8, 2), Costs(forward=1.0, backward=2.0))
    assert timing.bubble == pytest.approx(3 / (2 * 8 + 3))


def test_the_bank_is_large_and_covers_the_course() -> None:
    assert len(BANK) >= 60 and set(SECOND) == set(BANK)
    assert {question.topic for question in BANK.values()} == set(TOPICS)
    with pytest.raises(ValueError, match="two questions are called bytes_of_a_ring"):
        asks_about("x")(BANK["bytes_of_a_ring"].draw)


def test_variants_differ_and_repeat() -> None:
    for question in all_questions():
        variants = {seed: question(str(seed)) for seed in range(12)}
        assert question("3") == variants[3]
        assert len({asked.text for asked in variants.values()}) > 2, question.name
        assert len({str(asked.answer) for asked in variants.values()}) > 1, question.name


def test_a_question_reads_well() -> None:
    for question, seed in itertools.product(all_questions(), range(5)):
        asked = question(str(seed))
        assert "?" in asked.text and "  " not in asked.text + asked.working, question.name
        assert not re.search(r"\be[+-]\d|\d{7,}|None|\b1 (steps|ranks)\b", asked.text), asked.text
        assert answer_words(asked) and asked.working, question.name


def test_a_number_does_not_depend_on_what_else_is_asked() -> None:
    alone = markdown_sheet(choose_questions(FIVE, ["pipelines"]), FIVE)
    asked = BANK["slowest_stage"]("5").text
    assert asked in alone and asked in markdown_sheet(all_questions(), FIVE)


def test_some_questions_are_chosen_by_the_seed() -> None:
    names = [[question.name for question in choose_questions(for_practice(seed), number=10)] for seed in range(4)]
    assert all(len(set(each)) == 10 for each in names) and len(set(map(tuple, names))) == 4
    order = [question.name for question in all_questions()]
    assert names[0] == sorted(names[0], key=order.index)
    for number in (0, 500):
        with pytest.raises(ValueError, match=f"to choose from, not {number}"):
            choose_questions(FIVE, number=number)
    with pytest.raises(ValueError, match="there is no topic 'gpu'; there are messages"):
        choose_questions(FIVE, ["gpu"])


def test_a_sheet_shows_no_answer_and_the_answers_are_apart() -> None:
    questions = choose_questions(SEVEN, ["messages"])
    sheet, answers = (markdown_sheet(questions, SEVEN, answers=each) for each in (False, True))
    assert sheet.count("Answer: ____") == len(questions) == 12 and "**12.**" in sheet
    for question in questions:
        asked = question("7")
        assert asked.working not in sheet and f"**{answer_words(asked)}.** {asked.working}" in answers
    rows = json.loads(json_sheet(questions, SEVEN))
    assert [row["answer"] for row in rows] == [question("7").answer for question in questions]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["questions", "--seed", "7", "--format", "md", "--number", "5"]) == 0
    assert capsys.readouterr().out == markdown_sheet(choose_questions(SEVEN, number=5), SEVEN)
    path = tmp_path / "answers.md"
    assert main(["questions", "--seed", "7", "--topic", "times", "--answers", "--to", str(path)]) == 0
    assert (
        path.read_text().startswith("# Answers, variant 7\n\n## Times\n") and "15 questions" in capsys.readouterr().out
    )
    assert path.stat().st_mode & 0o077 == 0
    assert main(["questions", "--seed", "7", "--topic", "gpu"]) == 1
    assert "there is no topic 'gpu'" in capsys.readouterr().err


def test_the_sheet_of_an_exam_does_not_give_its_answers_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has the course and the sheet, but another secret, gets other numbers."""
    kept, other = tmp_path / "secret", tmp_path / "other"
    for path, secret in ((kept, "3c" * 32), (other, "a5" * 32)):  # the same in each run, and so are the questions
        path.write_text(secret)
        path.chmod(0o600)

    def printed(*words: object) -> str:
        assert main(["questions", *map(str, words)]) == 0
        return capsys.readouterr().out

    sheet = printed("--variant", "A", "--secret", kept, "--number", 9)
    assert sheet == printed("--variant", "A", "--secret", kept, "--number", 9)
    assert sheet.startswith("# Questions, variant A\n") and kept.read_text().strip() not in sheet
    assert kept.stat().st_mode & 0o077 == 0
    answers = printed("--variant", "A", "--secret", kept, "--number", 9, "--answers")
    texts = [line for line in sheet.splitlines() if line.startswith("**")]
    assert len(texts) == 9 and all(text in answers for text in texts)
    guesses = [printed("--variant", "A", "--secret", other), printed("--variant", "B", "--secret", kept)]
    guesses += [printed("--seed", seed) for seed in range(3)]
    for guess in guesses:
        assert sum(text.split(" ", 1)[1] in guess for text in texts) <= 2  # a few have hardly any numbers


def test_a_secret_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "secret"
    asked = ["questions", "--variant", "A", "--secret", str(path)]
    for text, mode, words in (("", 0o600, "not a secret of 64"), ("ab" * 32, 0o644, f"chmod 600 {path}")):
        path.write_text(text)
        path.chmod(mode)
        assert main(asked) == 1 and words in capsys.readouterr().err
    assert main(["questions", "--seed", "7", "--secret", str(path)]) == 1
    assert "a secret belongs to --variant" in capsys.readouterr().err


def test_the_secret_of_a_class_is_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["questions", "--variant", "A"]) == 1  # no course is here
    (tmp_path / "nbgrader_config.py").write_text((PROJECT / "nbgrader_config.py").read_text())
    assert main(["questions", "--variant", "A", "--number", "3"]) == 0
    secret = kept_secret(tmp_path / "classroom" / "exam_secret")
    sheet = markdown_sheet(choose_questions(for_exam("A", secret), number=3), for_exam("A", secret))
    assert main(["questions", "--variant", "A", "--number", "3", "--to", "sheet.md"]) == 0
    assert Path("sheet.md").read_text() == sheet


def test_numbers_as_they_are_shown() -> None:
    assert [shown(each) for each in (1234567, 0.5, 1 / 3, 1200.0, [1, 2000], "ring", 0)] == [
        "1,234,567", "0.5", "0.3333", "1,200", "1, 2,000", "ring", "0",
    ]  # fmt: skip
    assert random.Random("7/x").random() == random.Random("7/x").random()
