"""Ways to break the cell of a function, and what a student is told about each without running it.

The function is `double(x)`; in a notebook with many of them each has a name of its own, which stands there for NAME.
"""

from __future__ import annotations

from dataclasses import dataclass

RIGHT = "def NAME(x):\n    return x + x"


@dataclass(frozen=True)
class Way:
    """A way to break a cell.

    Attributes:
        source: the text of the cell.
        receipt: words of the receipt; "" if nothing shows without running.
        judged: words of what the check and the feedback say; "" if the answer gets full marks all the same.
    """

    source: str
    receipt: str
    judged: str


BY_TEXT = {
    # not Python
    "no colon": Way("def NAME(x)\n    return x + x", "not Python: line 1 of its cell", "line 1: expected ':'"),
    "open bracket": Way("def NAME(x):\n    return (x + x", "not Python: line 2 of its cell", "line 2: '(' was never"),
    "indentation": Way("def NAME(x):\nreturn x + x", "not Python: line 2 of its cell", "expected an indented block"),
    "tabs and spaces": Way(
        "def NAME(x):\n\tif x:\n        return x + x", "not Python: line 3", "inconsistent use of tabs"
    ),
    "quote": Way("def NAME(x):\n    return 'x", "not Python: line 2 of its cell", "unterminated string literal"),
    "words": Way("I could not solve this one.", "not Python: line 1", "invalid syntax"),
    "merge conflict": Way(f"<<<<<<< mine\n{RIGHT}\n=======", "not Python: line 1", "line 1: invalid syntax"),
    "curly quotes": Way("def NAME(x):\n    return {“a”: x}", "not Python: line 2", "invalid character"),
    "null": Way("def NAME(x):\n    return x + x  # \0", "not Python: line 1", "null bytes"),
    "nonlocal": Way("def NAME(x):\n    nonlocal y\n    return x + x", "not Python: line 2", "no binding for nonlocal"),
    "break": Way("def NAME(x):\n    break\n    return x + x", "not Python: line 2", "'break' outside loop"),
    "print 2": Way("def NAME(x):\n    print x\n    return x + x", "not Python: line 2", "Missing parentheses"),
    "twice the same argument": Way("def NAME(x, x):\n    return x + x", "not Python: line 1", "duplicate argument"),
    "another magic": Way(f"%%bash\n{RIGHT}", "not Python: line 1 of its cell", "%%bash takes the whole cell"),
    # not defined
    "other name": Way(
        "def my_NAME(x):\n    return x + x", "its cell defines my_NAME, not NAME", "its cell defines my_NAME"
    ),
    "capital": Way("def NAME_(x):\n    return x + x", "its cell defines NAME_, not NAME", "its cell defines NAME_"),
    "a number": Way("x = 1", "its cell defines nothing called NAME", "its cell defines nothing of this name"),
    "a comment": Way("# later", "its cell defines nothing called NAME", "its cell defines nothing of this name"),
    "inside": Way(
        "def outer():\n    def NAME(x):\n        return x + x",
        "its cell defines outer, not NAME",
        "its cell defines outer",
    ),
    "deleted": Way(
        f"{RIGHT}\ndel NAME", "its cell defines nothing called NAME", "its cell defines nothing of this name"
    ),
    "in a string": Way(
        f"'''\n{RIGHT}\n'''", "its cell defines nothing called NAME", "its cell defines nothing of this"
    ),
    "a call": Way("NAME(3)", "its cell defines nothing called NAME", "its cell defines nothing of this name"),
    # no function, or another one
    "a value": Way("NAME = 4", "in its cell, NAME is 4 and no function", "NAME is no function"),
    "a list": Way(f"{RIGHT}\nNAME = [1]", "in its cell, NAME is [1] and no function", "NAME is no function"),
    "no argument": Way("def NAME():\n    return 4", "it takes (), the exercise asks for NAME(x)", "takes 0 positional"),
    "an argument more": Way(
        "def NAME(x, y):\n    return x + x", "it takes (x, y), the exercise asks", "missing 1 required"
    ),
    "by name only": Way(
        "def NAME(*, x):\n    return x + x", "it takes (*, x), the exercise asks", "takes 0 positional"
    ),
    "async": Way("async def NAME(x):\n    return x + x", "async def NAME: a call of it", "coroutine"),
    # unfinished
    "the stub": Way(
        'def NAME(x):\n    """Twice x."""\n    raise NotImplementedError()', "still the stub", "NotImplemented"
    ),
    "empty": Way("", "still the stub", "its cell is empty"),
    "half": Way(
        "def NAME(x):\n    if x > 1:\n        raise NotImplementedError()\n    return x + x",
        "unfinished: raise NotImplementedError() is still in line 3",
        "NotImplemented",
    ),
    "pass": Way("def NAME(x):\n    pass", "unfinished: there is nothing in it but pass", "is wrong"),
    "three dots": Way('def NAME(x):\n    """Twice x."""\n    ...', "unfinished: there is nothing in it", "is wrong"),
    # without an end
    "loop below": Way(f"{RIGHT}\n\nwhile True:\n    pass", "line 4 of its cell never ends: while True", ""),
    "loop inside": Way(
        "def NAME(x):\n    while True:\n        x += 1\n    return x", "line 2 of its cell never ends", "not done after"
    ),
    "loop in a loop": Way(
        "def NAME(x):\n    while 1:\n        for _ in range(3):\n            break",
        "line 2 of its cell never ends: while 1 ",
        "not done after",
    ),
    # names
    "typo": Way(
        "def NAME(x):\n    result = 2 * x\n    return reslt", "uses reslt, which no cell defines", "'reslt' is not"
    ),
    "no import": Way("def NAME(x):\n    return np.add(x, x)", "uses np, which no cell defines", "name 'np' is not"),
    "decorator": Way(f"@cached\n{RIGHT}", "uses cached, which no cell defines", "name 'cached' is not defined"),
    # what only shows when it runs
    "raises": Way("def NAME(x):\n    return {}[x]", "", "return {}[x]"),
    "raises in its cell": Way(f"1 / 0\n{RIGHT}", "", ""),
    "raises before": Way("NAME = 1 / 0 or (lambda x: x)", "", "ZeroDivisionError"),
    # right all the same
    "magic": Way(f"%%time\n{RIGHT}\n%pip --version\nNAME?", "", ""),
    "lambda": Way("NAME = lambda x: 2 * x", "", ""),
    "in an if": Way("if True:\n    def NAME(x):\n        return x + x", "", ""),
    "await": Way(f"{RIGHT}\nawait something()", "", ""),
    "a default": Way("def NAME(x, times=2):\n    return times * x", "", ""),
    "any arguments": Way("def NAME(*args):\n    return 2 * args[0]", "", ""),
}
NEWER = {  # than Python 3.11: what it is, since when
    "type": ("type X = int\n" + RIGHT, "3.12"),
    "generic": ("def NAME[T](x: T) -> T:\n    return x + x", "3.12"),
    "default of a type": ("def NAME[T = int](x: T) -> T:\n    return x + x", "3.13"),
    "quotes": ('def NAME(x):\n    d = {"x": x}\n    return int(f"{d["x"]}") * 2', "3.12"),
    "backslash": ("def NAME(x):\n    return int(f\"{'\\n'.join([str(x)])}\") * 2", "3.12"),
    "comment": ('def NAME(x):\n    return int(f"""{\n        x  # the number\n    }""") * 2', "3.12"),
    "except": (
        "def NAME(x):\n    try:\n        return x + x\n    except TypeError, ValueError:\n        return x",
        "3.14",
    ),
    "t-string": ('def NAME(x):\n    t"{x}"\n    return x + x', "3.14"),
    "lazy": ("lazy import math\n" + RIGHT, "3.15"),
}
