# Wrong: returns the new parameters, and leaves the tensor as it was. Loses all marks.
# Told: in place
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    mixed = parameters.clone()
    gossip_average(comm, mixed, matrix, 1)
    return mixed - learning_rate * gradient(parameters)
