# Deserves: everything
# The names of an answer and of its test are swapped in the metadata.
def hand_in(work):
    answer, test = work.cell("naive_all_reduce"), work.cell("naive_all_reduce_hidden")
    answer.metadata.nbgrader["grade_id"], test.metadata.nbgrader["grade_id"] = (
        "naive_all_reduce_hidden",
        "naive_all_reduce",
    )
