"""What the command says about arguments that it can't take: what was expected, in the words of `--help`."""

import re
from importlib import import_module

import pytest

from distlib.cli import list_of_commands, main
from distlib.cli.command_table import COMMANDS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("launch", "the following arguments are required: SCRIPT.py:FUNCTION\n"),
        ("launch --ranks 2", "the following arguments are required: SCRIPT.py:FUNCTION\n"),
        ("launch --ranks x a.py:main", "argument --ranks: expected a whole number above 0, got 'x'"),
        ("launch --ranks 0 a.py:main", "argument --ranks: expected a whole number above 0, got '0'"),
        ("launch --silence 1.5 a.py:main", "argument --silence: expected a whole number above 0, got '1.5'"),
        ("launch --patience -1 a.py:main", "argument --patience: expected a whole number above 0, got '-1'"),
        ("launch --elastic 4:2 a.py:main", "argument --elastic: expected MIN:MAX with MIN from 1 to MAX"),
        ("grade 02 --jobs all", "argument --jobs: expected a whole number above 0, got 'all'"),
        ("grade 02 --time-for ada", "argument --time-for: expected NAME=TIMES with 1 to 100 times as much"),
        ("--loud", "unknown option --loud; a COMMAND comes first"),
        ("check 02 03", "unknown argument 03"),
        ("check 02 --loud", "unknown option --loud"),
    ],
)
def test_it_says_what_was_expected(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert f"error: {message}" in error and "_positive" not in error


def test_alone_it_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    alone = capsys.readouterr()
    assert alone.err == "" and {each.name for each in COMMANDS} <= set(re.findall(r"^ +(\S+)", alone.out, re.MULTILINE))
    with pytest.raises(SystemExit):
        main(["--help"])
    assert capsys.readouterr().out == alone.out


def test_students_see_seven_commands_first_and_those_of_instructors_last() -> None:
    daily, now_and_then, instructors = list_of_commands(100).split("\n\n")[:3]
    names = re.findall(r"^  (\S+)", daily, re.MULTILINE)
    assert names == ["lab", "check", "hint", "hand-in", "progress", "update", "doctor"]
    assert now_and_then.startswith("now and then:") and instructors.startswith("for instructors:")
    assert {"release", "collect", "grade", "class", "export"} <= set(re.findall(r"^  (\S+)", instructors, re.MULTILINE))
    assert max(map(len, list_of_commands(58).splitlines())) <= 58


def test_a_notebook_needs_its_exercise(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--notebook", "a.ipynb"]) == 2
    assert capsys.readouterr().err == "--notebook needs the name of an exercise, such as 02\n"


def test_every_command_leads_to_a_function() -> None:
    for command in COMMANDS:
        module, _, function = command.entry_point.partition(":")
        assert callable(getattr(import_module(f"distlib.cli.{module}"), function)), command.name
