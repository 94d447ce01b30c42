# Deserves: cannot be graded
# A thousand copies of a cell.
def hand_in(work):
    work.notebook.cells += [work.cell("naive_all_reduce")] * 1_000
