"""Whether a cell's text is Python, and of which version. Nothing runs.

A class may be graded with an older Python than the one that a student has, or with a newer one. What is syntax there
and not here is found as far as this Python can tell:

    this Python is the newer one    its parser knows what came with which version; of f-strings, which have been free
                                    since 3.12, it does not, so their tokens are looked at here
    this Python is the older one    it can't read what is newer; some of that is recognized by how it looks

What no parser knows stays unknown: a function or a module that only the newer Python has.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Version = tuple[int, int]
"""Such as (3, 12)."""

WRITTEN_WITH = "written_with"  # in a notebook's metadata, below "distlib": the Python of what was handed in
MAGIC_OF_A_CELL = re.compile(r"\A\s*%%(?:time|timeit|capture|prun)\b.*\n")
MAGIC_LINE = re.compile(r"^([ \t]*)((?:[!%?]|\w+[ \t]*=[ \t]*[!%]).*)$", re.MULTILINE)
_OTHER_MAGIC = re.compile(r"\s*(%%\w+)")
_HELP_LINE = re.compile(r"^([ \t]*)([\w.]+\?{1,2})[ \t]*$", re.MULTILINE)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_VERSION = re.compile(r"\s*(\d{1,3})\.(\d{1,3})(?:\D.*)?", re.DOTALL)
_FREE_F_STRINGS = (3, 12)
# What a newer Python reads, by how a line looks that an older one stops at: what it is, and since when.
_NEWER = (
    (re.compile(r"^\s*type\s+\w+\s*(?:\[.*\])?\s*="), "a type statement", "3.12"),
    (re.compile(r"^\s*(?:async\s+)?(?:def|class)\s+\w+\s*\[[^\]]*="), "defaults of type parameters", "3.13"),
    (re.compile(r"^\s*(?:async\s+)?(?:def|class)\s+\w+\s*\["), "type parameters", "3.12"),
    (re.compile(r"^\s*except\*?\s+[\w.]+\s*,[^()]*:"), "except without parentheses", "3.14"),
    (re.compile(r"""(?<!\w)(?:t|tr|rt)(?=["'])""", re.IGNORECASE), "a t-string", "3.14"),
    (re.compile(r"^\s*lazy\s+(?:import|from)\s"), "a lazy import", "3.15"),
    (re.compile(r"""(?<!\w)(?:f|fr|rf)(?=["'])""", re.IGNORECASE), "an f-string with free quotes or lines", "3.12"),
)
_NEWER_BY_WORDS = (("unpacking cannot be used in comprehension", "unpacking in a comprehension", "3.15"),)


@dataclass(frozen=True)
class NotPython:
    """Why a text can't be read.

    Attributes:
        line: where, from 1.
        why: what the parser says.
        newer: what a newer Python may read there, such as "a type statement (Python 3.12)"; "" if nothing is known.
    """

    line: int
    why: str
    newer: str = ""


def here() -> Version:
    """The version of this Python."""
    return sys.version_info[:2]


def version_in(text: object) -> Version | None:
    """The version that a text begins with, such as "3.12.1"; None if it is none."""
    found = _VERSION.fullmatch(text) if isinstance(text, str) else None
    return (int(found[1]), int(found[2])) if found else None


def shown(version: Version) -> str:
    """A version as it is written: "3.12"."""
    return f"{version[0]}.{version[1]}"


def without_magics(source: str) -> str:
    """A cell's text with the lines of IPython's as comments: as many lines as before."""
    source = MAGIC_OF_A_CELL.sub(lambda found: "\n" * found[0].count("\n"), source)
    return _HELP_LINE.sub(r"\1pass  # \2", MAGIC_LINE.sub(r"\1pass  # \2", source))


def statements_of(source: str) -> list[ast.stmt]:
    """The statements of a cell, lines of IPython's left out.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is not Python.
    """
    if (magic := _OTHER_MAGIC.match(source)) and not MAGIC_OF_A_CELL.match(source):
        raise SyntaxError(f"{magic[1]} takes the whole cell for something else", ("<cell>", 1, 1, source))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source).body
        except SyntaxError:
            return ast.parse(without_magics(source)).body


def names_made(statements: Sequence[ast.stmt]) -> dict[str, ast.AST | None]:
    """The names that statements leave behind, each with its definition or value; None for a value that is not seen."""
    made: dict[str, ast.AST | None] = {}
    values: dict[int, ast.AST] = {}
    for node in _in_this_scope(statements):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made[node.name] = node
        elif isinstance(node, ast.Assign):
            values |= {id(target): node.value for target in node.targets}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            made |= dict.fromkeys(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made[node.id] = values.get(id(node))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            made.pop(node.id, None)
    return made


def _in_this_scope(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes, in their order, but for those inside of functions and classes."""
    for node in statements:
        yield node
        if not isinstance(node, _SCOPES):
            yield from _in_this_scope(ast.iter_child_nodes(node))


def why_not_python(source: str, version: Version | None = None, name: str = "") -> NotPython | None:
    """Why a cell can't be read by this Python, or by that of a version, None if it can.

    Args:
        source: the cell's text; lines of IPython's are left out.
        version: of an older Python. What this one can't tell of it counts as readable.
        name: what only the compiler finds is looked for in the function or class of this name; "" for everywhere.
    """
    try:
        for statement in statements_of(source):
            if not name or getattr(statement, "name", "") == name:
                _compile(statement)
        older = version is not None and version < here()
        return _why_not_older(without_magics(source), version) if version and older else None
    except _UNREADABLE as error:
        line = getattr(error, "lineno", None) or 1
        return NotPython(line, _words(error), _newer(source, line, _words(error)))


def _newer(source: str, line: int, why: str) -> str:
    """What a newer Python may read at a line where this one stops; "" if nothing is known."""
    text = "f'" if why.startswith("f-string") else "\n".join(source.splitlines()[line - 1 : line])
    found = [(what, since) for looks, what, since in _NEWER if looks.search(text)]
    found += [(what, since) for words, what, since in _NEWER_BY_WORDS if words in why]
    return next((f"{what} (Python {since})" for what, since in found if (version_in(since) or here()) > here()), "")


def _compile(statement: ast.stmt) -> None:
    """Find what only the compiler finds, such as a `return` outside of a function. IPython allows `await` there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(ast.Module([statement], []), "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def _why_not_older(source: str, version: Version) -> NotPython | None:
    """Why an older Python can't read what this one can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source, feature_version=version)
    except _UNREADABLE as error:
        return NotPython(getattr(error, "lineno", None) or 1, _words(error))
    if version < _FREE_F_STRINGS <= here() and (line := next(_free_f_strings(source), None)):
        return NotPython(line, "an f-string that Python reads from 3.12 on: its quotes, a backslash or a comment in it")
    return None


def _free_f_strings(source: str) -> Iterator[int]:
    """The lines of what stands in the braces of f-strings since 3.12 only, by their tokens, which 3.12 began to make.

    Those are the quotes of the f-string itself, backslashes, comments, and line breaks without triple quotes.
    """
    open_quotes: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if open_quotes and name not in ("FSTRING_MIDDLE", "FSTRING_END"):
            breaks = name == "NL" and len(open_quotes[-1]) == 1
            used = name in ("STRING", "FSTRING_START") and open_quotes[-1] in token.string
            if breaks or used or name == "COMMENT" or "\\" in token.string:
                yield token.start[0]
        if name == "FSTRING_START":
            open_quotes.append(token.string.lstrip("fFrRbBuU"))
        elif name == "FSTRING_END":
            open_quotes.pop()


def _words(error: BaseException) -> str:
    """What the parser says, on one line, without the file."""
    words = str(error).split(" (<")[0] if isinstance(error, SyntaxError) else str(error)
    return " ".join(words.split()) or type(error).__name__
