# Wrong: lets the library's gossip do the messages. Loses all marks.
# Told: not by lines of yours
# Told by the judge: the library's gossip_average is not there
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    import distlib.training.gossip

    g = gradient(parameters)
    distlib.training.gossip.gossip_average(comm, parameters, matrix)
    parameters -= learning_rate * g
