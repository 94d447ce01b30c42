# Wrong: calls the function that the checks bring along for ring_all_reduce. Loses all marks.
# Told: a library function does the work
# Told by the judge: no message was sent
def ring_reduce_scatter(comm, tensor):
    from distlib.checks import helpers

    helpers.ring_reduce_scatter(comm, tensor)
