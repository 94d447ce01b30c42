"""The training of the command line on ranks: the same losses everywhere, also after a kill, and clear refusals."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from distlib import RankError, SimulatedWorld
from distlib.capstone.__main__ import main
from distlib.capstone.command_on_ranks import CommandOptions, train_on_rank
from distlib.capstone.ways import WAYS
from distlib.launch.checkpoints import checkpoint_path, good_steps, read_checkpoint
from distlib.launch.notice import REQUEUE, of_this_process

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
TORCHRUN += ["--local-addr", "127.0.0.1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
SMALL = ("--steps", "6", "--every", "2", "--batch-size", "8", "--features", "16", "--layers", "2")


def options(way: str, folder: Path | None, steps: int = 6) -> CommandOptions:
    checkpoints = None if folder is None else str(folder)
    small = {"every": 2, "batch_size": 8, "features": 16, "layers": 2}
    return CommandOptions("additions", way=way, steps=steps, checkpoints=checkpoints, **small)  # type: ignore[arg-type]


def ranks_of(way: str) -> int:
    return {"alone": 1, "mesh": 4}.get(way, 2)


def train(way: str, folder: Path | None, steps: int = 6) -> list[int | None]:
    world = SimulatedWorld(ranks_of(way), contexts="threads")
    return world.run(train_on_rank, options(way, folder, steps))


def lines_of_progress(printed: str) -> list[tuple[str, str]]:
    """Step and loss of each line."""
    return re.findall(r"step +(\d+)  loss (\S+) +[\d,]+ tokens/s  \d\d\+\d\d=", printed)


def parameters_after_6(folder: Path, rank: int) -> list[torch.Tensor]:
    """What a rank of two has kept."""
    _, state = read_checkpoint(checkpoint_path(folder / f"rank-{rank}-of-2", 6))
    found: list[torch.Tensor] = state["way"]["parameters"]
    return found


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way in ("ddp", "zero") else pytest.mark.slow) for way in WAYS]
)
def test_a_training_goes_on_where_it_was(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(way, None)
    undisturbed = lines_of_progress(capsys.readouterr().out)
    assert [step for step, _ in undisturbed] == ["2", "4", "6"]
    train(way, tmp_path, steps=4)
    assert lines_of_progress(capsys.readouterr().out) == undisturbed[:2]
    train(way, tmp_path)
    again = capsys.readouterr().out
    assert "goes on after step 4" in again
    assert lines_of_progress(again) == undisturbed[2:]


def test_notice_ends_it_after_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_this_process, "given", True)
    assert train("ddp", tmp_path) == [REQUEUE, REQUEUE]
    assert good_steps(tmp_path / "rank-1-of-2") == [2]


def test_other_ranks_than_the_checkpoints(tmp_path: Path) -> None:
    train("ddp", tmp_path, steps=2)
    with pytest.raises(RankError, match="expected 2 ranks, with which the checkpoints in .* were written, got 3"):
        SimulatedWorld(3, contexts="threads").run(train_on_rank, options("ddp", tmp_path))


def test_another_training_than_that_of_the_checkpoints(tmp_path: Path) -> None:
    train("ddp", tmp_path, steps=2)
    with pytest.raises(RankError, match="expected way ddp, as of the checkpoints in .*, got zero"):
        train("zero", tmp_path)


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ranks", "2"], "expected a way of training for ranks and checkpoints, got none: say --way, of alone"),
        (["--way", "ddp", "--ranks", "0"], "expected 1 ≤ lowest ≤ highest"),
        (["--way", "ddp", "--every", "0"], "every"),
        (["--way", "ddp", "--batch-size", "0"], "batch_size"),
        (["--way", "ddp", "--features", "30"], "expected features that 4 heads can share, got 30"),
        (["--way", "ddp", "--layers", "0"], "num_layers"),
    ],
)
def test_what_it_can_not_do_is_one_sentence(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["additions", *words]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(("content", "told"), [(b"caf\xe9", "to be UTF-8"), (b" ", "nothing in it"), (b"aaa", "'a'")])
def test_a_text_that_is_none(content: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "text"
    file.write_bytes(content)
    assert main(["text", "--file", str(file), "--way", "ddp", "--ranks", "2"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line and "expected" in line


@pytest.mark.slow
def test_ranks_that_a_way_can_not_use_are_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["additions", "--way", "alone", "--ranks", "2"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "ranks 0 and 1 raised ValueError: the way alone expected 1 rank, got 2" in line


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ddp", "zero"])
def test_torchrun_starts_it_again_after_a_kill(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(way, tmp_path / "undisturbed")
    undisturbed = lines_of_progress(capsys.readouterr().out)
    words = [
        str(Path(__file__).with_name("killed_once.py")),
        "4",
        str(tmp_path / "mark"),
        "additions",
        "--way",
        way,
        *SMALL,
    ]
    done = subprocess.run(
        [*TORCHRUN, *words, "--checkpoints", str(tmp_path / "kept")], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    assert "rank 1 ended in the middle of the run" in done.stderr
    found = lines_of_progress(done.stdout)
    assert found == undisturbed, done.stdout
    assert "goes on after step 4" in done.stdout
    for rank in range(2):
        wanted, kept = (parameters_after_6(tmp_path / folder, rank) for folder in ("undisturbed", "kept"))
        torch.testing.assert_close(kept, wanted, rtol=0, atol=1e-6)
