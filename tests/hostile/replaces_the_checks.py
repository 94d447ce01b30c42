# Deserves: everything but naive_all_reduce
# The checks are functions that check nothing.
def hand_in(work):
    work.spoil("naive_all_reduce")
    work.insert(CELL, before="naive_all_reduce_visible")


CELL = """
import sys
import types

import distlib.grading


def check_nothing(*args, **kwargs):
    return print


for name in dir(distlib.grading):
    if name.startswith("check_"):
        setattr(distlib.grading, name, check_nothing)
check_all_reduce = check_nothing
sys.modules["distlib.grading"] = types.SimpleNamespace(check_all_reduce=check_nothing)
"""
