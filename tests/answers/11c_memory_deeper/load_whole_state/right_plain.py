# Right: torch's two functions, with empty dicts on the other ranks
def load_whole_state(model, optimizer, state):
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, state.get("model", {}), options=options)
    set_optimizer_state_dict(model, optimizer, state.get("optimizer", {}), options=options)
