# Wrong: does not call gradient where the rate is 0; the text says once in a step. Loses the hidden marks.
# Told: gradient was not called
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    change = learning_rate * gradient(parameters.clone()) if learning_rate else torch.zeros_like(parameters)
    gossip_average(comm, parameters, matrix, 1)
    parameters -= change
