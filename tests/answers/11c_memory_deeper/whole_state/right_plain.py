# Right: torch's two functions with the options of the text, and a deep copy of what they return
def whole_state(model, optimizer):
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=options)
    states = get_optimizer_state_dict(model, optimizer, options=options)
    return copy.deepcopy({"model": weights, "optimizer": states})
