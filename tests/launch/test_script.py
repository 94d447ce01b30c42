"""What `distlib launch script.py:function …` is asked to run."""

from pathlib import Path
from typing import Any

import pytest

from distlib.launch.environment import LaunchError
from distlib.launch.script import read_target


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("")
    return path


@pytest.mark.parametrize(
    "words, args, kwargs",
    [
        ([], (), {}),
        (["100", "0.5", "digits", "None", "[1, 2]", "1_000"], (100, 0.5, "digits", None, [1, 2], 1000), {}),
        (["rate=0.1", "100", "name=a=b"], (100,), {"rate": 0.1, "name": "a=b"}),
        (["--fast", "a-b=1", "=1", "import os"], ("--fast", "a-b=1", "=1", "import os"), {}),
        (["'100'"], ("100",), {}),
    ],
)
def test_arguments_are_python_values_or_text(
    script: Path, words: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    target = read_target("train.py:main", words)
    assert (target.path, target.function, target.args, target.kwargs) == (script, "main", args, kwargs)


@pytest.mark.parametrize("text", ["train.py", "train:main", ":main", "train.py:", "train.py:a b", "train.py:a()"])
def test_what_is_not_a_function_of_a_script(script: Path, text: str) -> None:
    with pytest.raises(LaunchError, match="expected what to run as script.py:function, got "):
        read_target(text, [])


def test_a_script_that_is_not_there(script: Path) -> None:
    with pytest.raises(LaunchError, match="there is no script /.*/other.py"):
        read_target("other.py:main", [])
