# Wrong: calls the function that the checks bring along for ring_all_reduce. Loses all marks.
# Told: were sent by distlib.checks.supplied.ring_reduce_scatter
# Told by the judge: no message was sent
def ring_reduce_scatter(comm, tensor):
    from distlib.grading import helpers

    helpers.ring_reduce_scatter(comm, tensor)
