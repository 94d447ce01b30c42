# Wrong: the neighbors' gradients are averaged, and not their parameters. Loses all marks.
# Told: Mix the parameters
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    slope = gradient(parameters)
    gossip_average(comm, slope, matrix, 1)
    parameters -= learning_rate * slope
