# Wrong: takes weights below 0.1 for none. Loses the hidden marks.
# Told: no message, but matrix
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    g = gradient(parameters.clone())
    gossip_average(comm, parameters, torch.where(matrix < 0.1, 0.0, matrix), 1)
    parameters -= learning_rate * g
