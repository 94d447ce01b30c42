# Deserves: everything
# The first answer and the last stand at the end.
def hand_in(work):
    for name in ("naive_all_reduce", "ring_all_reduce"):
        cell = work.cell(name)
        work.notebook.cells.remove(cell)
        work.notebook.cells.append(cell)
