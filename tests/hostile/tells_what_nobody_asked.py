# Deserves: everything
# While its cells are loaded and in an answer it tells what nobody has asked for: other cells, errors, "done" too soon.
def hand_in(work):
    work.insert(CELL, before="naive_all_reduce_visible")
    work.answer("naive_all_reduce", work.cell("naive_all_reduce").source + "\n    tell(comm)\n")


CELL = """
import sys

wire = sys.stdout._wire
wire.send({"what": "statement", "cell": 99, "number": 0, "line": 1})
wire.send({"what": "error", "cell": 99, "kind": "Error", "text": "of a cell that does not exist"})
wire.send({"what": "done", "value": {}})
wire.send([1, 2])


def tell(comm):
    wire.send({"what": "done", "value": {"result": None, "slips": []}})
    wire.send({"what": "wait", "work": 10**9, "site": ("", "", 1, None, "")})
"""
