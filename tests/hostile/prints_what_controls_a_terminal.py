# Deserves: everything but ring_all_reduce
# Prints and raises escape sequences, halves of characters and texts that run backward, also as the name of an error.
def hand_in(work):
    work.insert(CELL, before="naive_all_reduce_visible")
    printing = '\n    print("\\udcff\\x1b[2J\\x1b]0;title\\x07\\u202e")\n'
    work.answer("naive_all_reduce", work.cell("naive_all_reduce").source + printing)
    work.answer("ring_all_reduce", ANSWER)


CELL = """
Broken = type("E\\udcff\\x1b[31m", (Exception,), {})
print("\\ud800\\x9b2J")
raise Broken("\\udcff\\x1b[2J")
"""
ANSWER = """
def ring_all_reduce(comm, tensor):
    raise Broken("\\udcff\\x1b]0;title\\x07")
"""
