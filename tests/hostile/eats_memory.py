# Deserves: everything but naive_all_reduce
# Takes 16 GB of memory.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
def naive_all_reduce(comm, tensor):
    kept = []
    for _ in range(400):
        kept.append(torch.ones(10_000_000))
"""
