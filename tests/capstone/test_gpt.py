"""The small GPT: its model, what it learns from, and that it learns."""

import math
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from distlib import Communicator, SimulatedWorld
from distlib.capstone import (
    Additions,
    Characters,
    Texts,
    TrainingProgress,
    manual,
    new_gpt,
    read_text,
    train_alone,
    write,
)
from distlib.capstone.__main__ import main
from distlib.capstone.gpt import SHAPE, gpt_shape
from distlib.capstone.train_alone import MAX_NORM, loss_of_scores, new_optimizer, set_rate
from distlib.training.mesh import SmallTransformer
from distlib.training.tensor_parallel import vocabulary_parallel_cross_entropy

TINY = SmallTransformer(vocabulary=16, features=16, hidden=32, heads=2, num_layers=1)


# ── characters ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_comes_back() -> None:
    characters = Characters("hello")
    assert (characters.alphabet, characters.vocabulary) == ("helo", 8)
    assert characters.encode("hello").tolist() == [0, 1, 2, 2, 3]
    assert characters.decode(characters.encode("hole")) == "hole"
    assert characters.decode(torch.tensor([0, 7])) == "h�"


@pytest.mark.parametrize("alphabet", ["", "aaa"])
def test_an_alphabet_of_one_character(alphabet: str) -> None:
    with pytest.raises(ValueError, match="at least two different characters"):
        Characters(alphabet)


def test_a_character_that_is_unknown() -> None:
    with pytest.raises(ValueError, match="expected characters of 'ab', got 'cd' as well"):
        Characters("ab").encode("abdc")


# ── additions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sums_are_right_and_those_held_out_are_in_no_batch() -> None:
    task = Additions(batch_size=500)
    learnt = set()
    for step in range(20):
        tokens, following = task.batch(step)
        assert torch.equal(tokens[:, 1:], following[:, :-1])
        learnt |= {
            task.characters.decode(torch.cat([row[:1], rest])) for row, rest in zip(tokens, following, strict=True)
        }
    held_out = {task.characters.decode(row) for row in task.held_out}
    assert len(held_out) == 1_000 and len(learnt) > 5_000
    for text in learnt | held_out:
        first, second, total = re.fullmatch(r"(\d\d)\+(\d\d)=(\d\d\d)\.", text).groups()
        assert int(first) + int(second) == int(total[::-1])
    assert not learnt & held_out


def test_a_batch_is_the_same_for_everybody_and_another_one_in_each_step() -> None:
    assert torch.equal(Additions().batch(3)[0], Additions().batch(3)[0])
    assert not torch.equal(Additions().batch(3)[0], Additions().batch(4)[0])
    assert not torch.equal(Additions().batch(3)[0], Additions(seed=1).batch(3)[0])


def test_the_loss_counts_the_answer_alone() -> None:
    task = Additions(batch_size=4)
    tokens, following = task.batch(0)
    scores = torch.randn(4, task.length, 16)
    expected = cross_entropy(scores[:, 5:].flatten(0, 1), following[:, 5:].flatten())
    assert loss_of_scores(task, scores, following) == expected
    assert [task.characters.decode(row) for row in task.counted(scores, following)[1][:, -1:]] == ["."] * 4


class Calculator(torch.nn.Module):
    """Adds, and is off by one where the first number is above a limit."""

    def __init__(self, right_up_to: int = 99) -> None:
        super().__init__()
        self.right_up_to = right_up_to
        self.characters = Additions().characters

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.next(self.characters.decode(row)) for row in tokens])

    def next(self, text: str) -> torch.Tensor:
        first, second = int(text[:2]), int(text[3:5])
        total = first + second + (first > self.right_up_to)
        whole = f"{text[:6]}{total:03}"[:6] + f"{total:03}"[::-1] + "."
        scores = torch.zeros(len(text), 16)
        scores[-1, self.characters.encode(whole[len(text)])] = 1.0
        return scores


def test_accuracy_is_the_share_of_sums_that_are_right() -> None:
    task = Additions()
    firsts = [int(task.characters.decode(row)[:2]) for row in task.held_out]
    assert task.accuracy(Calculator()) == 1.0
    assert task.accuracy(Calculator(29)) == sum(first <= 29 for first in firsts) / 1_000
    assert task.sample(Calculator()) == task.characters.decode(task.held_out[0])


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pieces_of_a_text() -> None:
    text = "abcdefgh" * 5
    task = Texts(text, length=6, batch_size=50)
    tokens, following = task.batch(0)
    assert tokens.shape == following.shape == (50, 6)
    for row in torch.cat([tokens[:, :1], following], 1):
        piece = task.characters.decode(row)
        assert piece in text and len(piece) == 7
    assert len({task.characters.decode(row[:1]) for row in tokens}) == 8  # they begin anywhere


def test_the_manual_is_there() -> None:
    text = manual()
    assert len(text) > 300_000 and "for" in text
    assert Texts(text).beginning == "The"


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(b"caf\xe9 ole")
    with pytest.raises(ValueError, match="to be UTF-8, but byte 3 is none: save it as UTF-8"):
        read_text(file)
    file.write_text(" \n")
    with pytest.raises(ValueError, match="but there is nothing in it"):
        read_text(file)
    file.write_text("naïve", encoding="utf-8")
    assert read_text(file) == "naïve"


def test_a_text_that_is_too_short() -> None:
    with pytest.raises(ValueError, match="a text of more than 64 characters, got one of 4"):
        Texts("abab")


# ── the model and its training ───────────────────────────────────────────────────────────────────────────────────────


def test_what_it_writes_depends_on_the_seed_and_looks_back_no_further_than_its_window() -> None:
    characters = Characters("abcdefgh")
    model = new_gpt(gpt_shape(characters.vocabulary, 4, TINY))
    first, again, other = (write(model, characters, "ab", 30, window=4, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == 32 and first.startswith("ab")


@pytest.mark.parametrize(("beginning", "temperature", "words"), [("", 1.0, "a beginning"), ("a", 0.0, "above 0")])
def test_what_can_not_be_written(beginning: str, temperature: float, words: str) -> None:
    characters = Characters("ab")
    model = new_gpt(gpt_shape(characters.vocabulary, 4, TINY))
    with pytest.raises(ValueError, match=words):
        write(model, characters, beginning, 1, window=4, temperature=temperature)


def test_a_training_lowers_the_loss_and_tells_its_progress() -> None:
    text = "the quick brown fox jumps over the lazy dog. " * 20
    task = Texts(text, length=16, batch_size=8)
    model = new_gpt(gpt_shape(task.characters.vocabulary, task.length, TINY))
    told: list[TrainingProgress] = []
    losses = train_alone(model, task, 60, every=20, on_progress=told.append)
    assert [progress.step for progress in told] == [20, 40, 60]
    shares = [count / len(text) for count in Counter(text).values()]
    assert (
        losses[59] == told[-1].loss < -sum(share * math.log(share) for share in shares)
    )  # it knows more than how often
    assert str(told[0]).startswith("step    20  loss ")


def test_it_is_the_model_that_can_be_cut_along_tp() -> None:
    task = Additions(batch_size=8)
    shape = gpt_shape(task.characters.vocabulary, task.length, TINY)

    def train(comm: Communicator) -> list[float]:
        layers = shape.layers(comm, dtype=torch.float64)
        optimizer, losses = new_optimizer(layers.parameters()), []
        for step in range(3):
            set_rate(optimizer, step)
            tokens, following = task.batch(step)
            optimizer.zero_grad()
            loss = vocabulary_parallel_cross_entropy(comm, *task.counted(layers(tokens), following))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(layers.parameters(), MAX_NORM)
            optimizer.step()
            losses.append(loss.item())
        return losses

    alone = train_alone(new_gpt(shape, dtype=torch.float64), task, 3)
    assert SimulatedWorld(1).run(train) == [pytest.approx(alone, abs=1e-9)]


def test_it_is_small() -> None:
    model = new_gpt(gpt_shape(16, 9))
    assert 0.7e6 < sum(each.numel() for each in model.parameters()) < 1.1e6
    assert SHAPE.heads * 32 == SHAPE.features


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_file_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["text", "--file", str(tmp_path / "nothing")]) == 1
    assert "No such file" in capsys.readouterr().err
    assert main(["additions", "--steps", "0"]) == 1
    assert "steps" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("task", ["additions", "text"])
def test_the_command_shows_its_progress_and_the_result(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([task, "--steps", "25", "--characters", "40"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"step +25  loss \d\.\d+ +[\d,]+ tokens/s  \S", printed)
    assert "sums that it has never seen, " in printed or "\nThe" in printed
