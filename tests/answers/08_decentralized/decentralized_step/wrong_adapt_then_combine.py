# Wrong: the gradient step first, then a round of gossip. Loses all marks.
# Told: adapt, then combine
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    parameters -= learning_rate * gradient(parameters)
    gossip_average(comm, parameters, matrix, 1)
