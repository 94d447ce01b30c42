# Wrong: calls the library's own function. Loses all marks.
# Told: a function of the library
# Told by the judge: the library's gpipe is not there
def gpipe(num_stages, num_microbatches):
    import distlib.training.schedules

    rows = distlib.training.schedules.gpipe(num_stages, num_microbatches)
    return [[str(action) for action in row] for row in rows]
