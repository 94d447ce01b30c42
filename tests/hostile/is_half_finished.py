# Deserves: everything but naive_all_reduce
# An honest beginner: one answer missing, and a cell that does not parse.
def hand_in(work):
    work.spoil("naive_all_reduce")
    work.insert(CELL, before="naive_all_reduce_visible")


CELL = """
def unfinished(:
    ...
"""
