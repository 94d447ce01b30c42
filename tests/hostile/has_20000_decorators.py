# Deserves: everything
# A function with 20,000 decorators, in a cell of its own.
def hand_in(work):
    work.insert("@print\n" * 20_000 + "def decorated(): pass", before="naive_all_reduce_visible")
