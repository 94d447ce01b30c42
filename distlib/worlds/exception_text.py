"""What an exception says, in a form that can be shown: short, with its cause, and whatever its own code does.

RuntimeError: no weights (caused by KeyError: 'w', cell 3, line 2)                raise … from …
RuntimeError: no weights (while handling KeyError: 'w', cell 3, line 2)           raise … in an except block
ExceptionGroup: two (2 sub-exceptions) [ValueError: a, cell 3, line 2; …]         all that are in a group
"""

from __future__ import annotations

import builtins
import difflib
import os
import re
import traceback
from collections.abc import Iterator

from distlib.worlds import call_site

_MOST_TEXT = 2_000  # characters of one exception
_MOST_STACK = 10_000  # characters of one piece of a stack, such as a frame, or the text at its end
_AT_END = 300  # of these: how many of the end are kept
_OF_LOADER = os.path.join("torch", "utils", "data", "dataloader.py")
_ELSEWHERE = {  # what a library advises, and what to do in a rank instead
    "please make sure to call init_process_group": (
        "as a rank has none. Call distlib's own collectives, all_reduce(comm, tensor); or torch's, in a block "
        "`with torch_distributed(comm) as dist:`, with: from distlib import torch_distributed"
    ),
}
_NO_GRADIENT = re.compile(
    r"^Expected to have finished reduction in the prior iteration.*?"
    r"Parameter(?:s| indices) which did not receive grad for rank \d+: ([^\n]+)",
    re.DOTALL,
)
_MOST_TOLD = 5  # exceptions of a group, and causes one behind another


def text_of(error: BaseException) -> str:
    """What an exception says; of a name that is not there, with one that is nearly the same: "… Did you mean: 'x'?".

    A long text is shortened, and says so; one that can't be had is named instead.
    """
    try:
        text = _of_unused_parameters(_with_near_name(error))
        return shortened(text if _is_of_a_whole_program(error) else _for_a_rank(text))
    except (Exception, SystemExit) as problem:
        return f"(its text can't be shown: its __str__ raised {type(problem).__name__})"


def whole_text_of(error: BaseException) -> str:
    """What an exception says, with its notes, the exceptions in it if it is a group, and what has caused it."""
    if type(error).__module__.startswith("distlib."):  # says itself all there is to say
        return text_of(error)
    if isinstance(error, SystemExit):
        hint = "(exit() and sys.exit() end a program; to end the function of a rank, write return)"
        return f"{text_of(error)} {hint}".strip()
    notes = getattr(error, "__notes__", None)
    told = [shortened(note) for note in notes[:_MOST_TOLD] if isinstance(note, str)] if isinstance(notes, list) else []
    more = _lost_worker(error) + _members(error, 0) + _cause(error, 0)
    return "\n".join([text_of(error) + shortened(more, 2 * _MOST_TEXT), *told])


def stack_of(error: BaseException) -> str:
    """The whole story, as Python tells it; what is very long is shortened."""
    try:
        return "".join(shortened(piece, _MOST_STACK) for piece in traceback.format_exception(error))
    except (Exception, SystemExit):  # an exception whose own attributes can't be had
        return "".join(traceback.format_tb(error.__traceback__)) + f"{type(error).__name__}\n"


def shortened(text: str, most: int = _MOST_TEXT) -> str:
    """A text of at most about `most` characters; one that was longer says how long it was, and keeps its end."""
    if len(text) <= most:
        return text
    return f"{text[: most - _AT_END]} … [shortened: {len(text):,} characters in all] … {text[-_AT_END:]}"


def _lost_worker(error: BaseException) -> str:
    """What a broken connection means that torch's DataLoader has met: the error itself does not say it."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, ConnectionError | EOFError) and any(file.endswith(_OF_LOADER) for file in files):
        return " (a worker of the DataLoader was killed: by hand, or because the machine ran out of memory)"
    return ""


def _cause(error: BaseException, depth: int) -> str:
    """What has caused an exception, in parentheses; "" if nothing has, or nothing that the student could look at."""
    if error.__cause__ is not None:
        return f" (caused by {_tell(error.__cause__, depth)})"
    context = None if error.__suppress_context__ else error.__context__
    if context is not None and call_site.site_of_traceback(context.__traceback__) is not None:
        return f" (while handling {_tell(context, depth)})"
    return ""


def _members(error: BaseException, depth: int) -> str:
    if not isinstance(error, BaseExceptionGroup):
        return ""
    told = [_tell(each, depth) for each in error.exceptions[:_MOST_TOLD]]
    more = len(error.exceptions) - len(told)
    return f" [{'; '.join(told)}{f'; and {more} more' if more else ''}]"


def _tell(error: BaseException, depth: int) -> str:
    site = call_site.site_of_traceback(error.__traceback__)
    text = shortened(text_of(error), _MOST_TEXT // 2)
    told = (f"{type(error).__name__}: {text}" if text else type(error).__name__) + (f", {site.place}" if site else "")
    return told + _members(error, depth + 1) + _cause(error, depth + 1) if depth < _MOST_TOLD else f"{told} …"


def _of_unused_parameters(text: str) -> str:
    """The text, or where it is DDP's about parameters without a gradient, in one sentence, alike on all ranks."""
    unused = _NO_GRADIENT.match(text)
    if unused is None:
        return text
    return (
        f"in the step before, DDP waited for the gradients of {unused[1]}, and the backward pass gave none. Use these "
        "parameters on every rank, remove them, or wrap the model with find_unused_parameters=True"
    )


def _is_of_a_whole_program(error: BaseException) -> bool:
    """Whether it was raised by a program with a `__main__`, and not by a function that a world runs."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(f.f_code.co_name == "<module>" and f.f_globals.get("__name__") == "__main__" for f in frames)


def _for_a_rank(text: str) -> str:
    """The text with advice that holds in a rank, where a library's does not."""
    for advice, ours in _ELSEWHERE.items():
        text = text.replace(advice, ours)
    return text


def _with_near_name(error: BaseException) -> str:
    name = getattr(error, "name", None)
    if not isinstance(error, NameError | AttributeError) or not isinstance(name, str):
        return str(error)
    names = [each for each in _names_around(error) if name.startswith("_") or not each.startswith("_")]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    return f"{error}. Did you mean: {near[0]!r}?" if near else str(error)


def _names_around(error: NameError | AttributeError) -> Iterator[str]:
    """The names that could have been meant: attributes of the object, or variables where the error was raised."""
    if isinstance(error, AttributeError):
        yield from dir(error.obj)
        return
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if frames:
        yield from [*frames[-1].f_locals, *frames[-1].f_globals, *vars(builtins)]
