# Wrong: mixes first, and takes the gradient at what comes out. Loses all marks.
# Told: these are the parameters after the mixing
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    gossip_average(comm, parameters, matrix, 1)
    parameters -= learning_rate * gradient(parameters)
