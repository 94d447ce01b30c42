# Right: the optimizer first; copies of the state, whose tensors loading would change
def load_whole_state(model, optimizer, state):
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True, cpu_offload=True)
    model_state, optimizer_state = {}, {}
    if dist.get_rank() == 0:
        model_state, optimizer_state = copy.deepcopy(state["model"]), copy.deepcopy(state["optimizer"])
    set_optimizer_state_dict(model, [optimizer], optimizer_state, options=options)
    missing, unexpected = set_model_state_dict(model, model_state, options=options)
    assert not missing and not unexpected
