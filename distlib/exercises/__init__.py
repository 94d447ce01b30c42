"""The exercises, one folder each. What two of them share is the engine, `distlib.checks`; it knows none of them.

    checks.py      the graded functions: their cases, and what must be true of each
    checks.txt     what students read, by name
    hints.txt      three hints for each graded function, which students open one by one
    plays.py       what runs on every rank around a student's function; the name of such a file ends with "plays"
    helpers.py     functions that the checks supply, if a graded one calls another
    cases.py, …    whatever else the checks need

In a sandbox only the files of plays can be seen: see `distlib.judge.sandbox.contents`.
"""

from distlib.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
