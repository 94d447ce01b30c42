# Wrong: calls the library's own function. Loses all marks.
# Told: a function of the library
# Told by the judge: the library's metropolis_weights is not there
def mixing_matrix(neighbors):
    import distlib.training.mixing

    return distlib.training.mixing.metropolis_weights(neighbors)
