# Wrong: two rounds of gossip in a step. Loses all marks.
# Told: mixed twice
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    slope = gradient(parameters)
    gossip_average(comm, parameters, matrix, 2)
    parameters -= learning_rate * slope
