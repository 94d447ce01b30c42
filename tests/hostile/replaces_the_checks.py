# Deserves: everything but naive_all_reduce
# The checks are functions that check nothing.
def hand_in(work):
    work.spoil("naive_all_reduce")
    work.insert(CELL, before="naive_all_reduce_visible")


CELL = """
import sys
import types

import distlib.checks


def check_nothing(*args, **kwargs):
    return print


for name in dir(distlib.checks):
    if name.startswith("check_"):
        setattr(distlib.checks, name, check_nothing)
check_naive_all_reduce = check_nothing
sys.modules["distlib.checks"] = types.SimpleNamespace(check_naive_all_reduce=check_nothing)
"""
