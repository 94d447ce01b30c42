# Wrong: calls the library's own function. Loses all marks.
# Told: a function of the library
# Told by the judge: the library's one_forward_one_backward is not there
def one_forward_one_backward(num_stages, num_microbatches):
    from distlib.training import schedules

    rows = schedules.one_forward_one_backward(num_stages, num_microbatches)
    return [[str(action) for action in row] for row in rows]
