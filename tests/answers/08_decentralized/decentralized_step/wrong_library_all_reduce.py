# Wrong: the library's all-reduce of the parameters. Loses all marks.
# Told: not by lines of yours
# Told by the judge: the library's all_reduce is not there
def decentralized_step(comm, parameters, gradient, matrix, learning_rate):
    from distlib import ReduceOp, all_reduce

    g = gradient(parameters)
    all_reduce(comm, parameters, ReduceOp.AVG)
    parameters -= learning_rate * g
