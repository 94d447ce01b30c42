"""Every sentence in a text file is asked for, every one that is asked for is there, and its {braces} are filled in.

None stands in code, where nobody would count whether it is heard.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

import distlib
from distlib.checks.sentences import Sentences, read_entries
from tests.heard import STILL_UNHEARD, heard_by_tests, tells, unheard

PACKAGE = Path(distlib.__file__).parent
HINTS = sorted(PACKAGE.glob("exercises/*/hints.txt"))  # no module asks for these: see tests/classroom/test_hints.py
MODULES = sorted({*PACKAGE.glob("checks/**/*.py"), *PACKAGE.glob("exercises/**/*.py")})
FILES = sorted({*PACKAGE.glob("checks/**/*.txt"), *PACKAGE.glob("exercises/**/*.txt")} - {*HINTS})


def asked_for(tree: ast.Module) -> Iterator[tuple[str, set[str], int]]:
    """Calls of `say` with a name written out: the name, what is filled in ("**" if it is a dict), the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("say", "say.remark"):
            if isinstance(node.args[0], ast.Constant):
                yield node.args[0].value, {word.arg or "**" for word in node.keywords}, node.lineno


def places_in(text: str) -> set[str]:
    """The names in a text's braces."""
    return {re.split(r"[.\[]", name)[0] for _, name, _, _ in Formatter().parse(text) if name is not None}


def texts_in(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts in code with their lines, {} for what an f-string fills in. Left out is what only an author reads:
    docstrings, and errors that are raised; and what is printed, by programs that a student starts.
    """
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Call(func=ast.Name(id="print")):
            return
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name))) if name != "CheckFailed":
            return
        case ast.Constant(value=str(text)):
            yield node.lineno, text
        case ast.JoinedStr(values=parts):
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in parts)
            for part in parts:
                yield from texts_in(part) if isinstance(part, ast.FormattedValue) else ()
        case _:
            for child in ast.iter_child_nodes(node):
                yield from texts_in(child)


def sentences_in(source: str) -> list[str]:
    """The texts in code that a student would read as a sentence: of more than three words, and with the end of one."""
    found = [(line, text) for line, text in texts_in(ast.parse(source)) if re.search(r"[.?](\s|$)", text)]
    return [f"line {line}: {text}" for line, text in found if len(re.findall(r"[^\W\d]\S*", text)) > 3]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_text_file_and_its_module_fit(file: Path) -> None:
    texts, tree = read_entries(file), ast.parse(file.with_suffix(".py").read_text(encoding="utf-8"))
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert set(texts) - words == set(), "nobody asks for these"
    for name, given, line in asked_for(tree):
        assert name in texts, f"line {line} asks for {name}, which is not there"
        places = places_in(texts[name])
        assert given == places or "**" in given, f"line {line}: {name} has {places}, and is given {given}"


def test_no_sentence_stands_in_code() -> None:
    found = {str(file.relative_to(PACKAGE)): sentences_in(file.read_text(encoding="utf-8")) for file in MODULES}
    assert {file: texts for file, texts in found.items() if texts} == {}, "they belong into a text file beside it"


@pytest.mark.parametrize(
    "code",
    [
        'yield Remark("it is wrong in chunk 2.")',
        'return f"rank {rank} holds the average. {more}"',
        "yield holds(what, found, right, otherwise='is the sum ' 'divided by size?')",
        'raise CheckFailed(name, Remark("there is no such function."))',
        """f"{'recv returns the sender, a rank.' * is_int}" """,
    ],
)
def test_a_sentence_in_code_is_found(code: str) -> None:
    assert len(sentences_in(f"def judge(seen):\n    {code}\n")) == 1


@pytest.mark.parametrize(
    "code",
    [
        '"""What a judge says, in a docstring."""',
        'raise TypeError("a judge yields its remarks, and returns none.")',
        'print("Run the cell with riddle.show() first.")',
        'what = f"on rank {rank} the part of the batch"',
        "words = ('index 3 is out of bounds for dimension', say('too_few'))",
        'return f"{what} is wrong."',
    ],
)
def test_what_is_no_sentence_for_students_may_stand_in_code(code: str) -> None:
    assert sentences_in(f"def judge(seen):\n    {code}\n") == []


def test_lines_are_no_longer_than_elsewhere() -> None:
    long = [
        f"{file.name}: {line}" for file in [*FILES, *HINTS] for line in file.read_text().splitlines() if len(line) > 120
    ]
    assert long == []


def test_entries_are_read(tmp_path: Path) -> None:
    module = tmp_path / "checks.py"
    (tmp_path / "checks.txt").write_text(
        "# a part\none: first {n}.\n    Usual cause: it\n    goes on.\n\ntwo: second {name}.\n"
    )
    say = Sentences(str(module))
    assert say("two", name=2) == "second 2."
    remark = say.remark("one", "  detail", n=3)
    assert (remark.seen, remark.details, remark.cause) == ("first 3.", ("  detail",), "it goes on.")


@pytest.mark.parametrize("text", ["one: a\none: b\n", "    no name\n", "no colon\n", "two words: a\n"])
def test_what_is_no_list_of_entries_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "checks.txt").write_text(text)
    with pytest.raises(ValueError, match="line"):
        read_entries(tmp_path / "checks.txt")


def test_what_no_answer_hears_is_found(tmp_path: Path) -> None:
    file = tmp_path / "checks.txt"
    file.write_text("one: row {i} adds up to {sum:.3g}. Usual cause: add {n}.\ntwo: it waits.\nthree: all {x} of it.\n")
    told = ["f on 2 ranks: row 3 adds up\nto 0.5. Usual cause: add 7.", "f: all 3 are here, and 4 of it not."]
    place = tmp_path.name + "/checks.txt"
    assert unheard([file], told) == [f"{place}: two", f"{place}: three"]
    assert unheard([file], [told[0], "f: all 3 of it.", "g: it waits."]) == []


def test_a_sentence_within_another_one_begins_with_a_capital(tmp_path: Path) -> None:
    (tmp_path / "checks.txt").write_text("one: is it cut?\n")
    assert unheard([tmp_path / "checks.txt"], ["on rank 0 it is wrong. Is it cut?"]) == []


def test_sentences_are_asked_for_by_tests_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        'def test_a():\n    assert tells(text, "checks/errors.txt: deadlock")\n    tells(text, "x/y.txt: z")\n'
    )
    assert heard_by_tests([tmp_path]) == {"checks/errors.txt: deadlock"}
    assert tells("Ranks wait for each other, and would wait forever.", "checks/errors.txt: deadlock")
    assert not tells("ranks wait", "checks/errors.txt: deadlock")
    assert not tells("ranks wait for each other", "checks/errors.txt: no_such_name")


def test_the_list_of_unheard_sentences_names_sentences_that_no_test_asserts() -> None:
    sentences = {f"{file.parent.name}/{file.name}: {name}" for file in FILES for name in read_entries(file)}
    listed = STILL_UNHEARD.read_text(encoding="utf-8").splitlines()
    assert listed == sorted(set(listed))
    assert set(listed) <= sentences - heard_by_tests()
    assert heard_by_tests() <= sentences
