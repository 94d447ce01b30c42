# Deserves: everything
# Cells of 2,000 lines that each ask IPython for something: it reads a cell again for each line.
def hand_in(work):
    for line in ("a?", "/f x", ",f a b", "a, b = !ls"):
        work.insert(f"{line}\n" * 2_000, before="naive_all_reduce_visible")
