# Right: from the last microbatch to the first, on every stage.
def one_forward_one_backward(num_stages, num_microbatches):
    def row(stage):
        order = list(reversed(range(num_microbatches)))
        ahead = num_stages - stage
        for number in order[:ahead]:
            yield f"{stage}F{number}"
        for place, number in enumerate(order):
            yield f"{stage}B{number}"
            for later in order[place + ahead : place + ahead + 1]:
                yield f"{stage}F{later}"

    return [list(row(stage)) for stage in range(num_stages)]
