# Right: the last microbatch goes back first, as in the paper's picture; tuples, and it prints.
def gpipe(num_stages, num_microbatches):
    def row(stage):
        forwards = tuple(str(stage) + "F" + str(number) for number in range(num_microbatches))
        return forwards + tuple(action.replace("F", "B") for action in reversed(forwards))

    print("stages:", num_stages)
    return tuple(row(stage) for stage in range(num_stages))
