"""The exercises, one folder each. What two of them share is the engine, `distlib.checks`; it knows none of them.

    checks.py      the graded functions: their cases, and what must be true of each
    plays.py       what runs on every rank around a student's function; the name of such a file ends with "plays"
    cases.py, …    whatever else the checks need

In a sandbox only the files of plays can be seen: see `distlib.judge.sandbox.contents`.
"""
