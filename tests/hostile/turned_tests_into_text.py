# Deserves: everything but naive_all_reduce
# Test cells are text cells.
def hand_in(work):
    work.spoil("naive_all_reduce")
    for name in ("naive_all_reduce_visible", "naive_all_reduce_hidden"):
        cell = work.cell(name)
        cell.cell_type = "markdown"
        del cell["outputs"], cell["execution_count"]
