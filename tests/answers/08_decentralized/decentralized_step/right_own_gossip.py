# Right: the gradient first, then a round of the student's own gossip, then the update.
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    g = gradient(parameters)
    gossip_average(comm, parameters, matrix, 1)
    parameters -= learning_rate * g
