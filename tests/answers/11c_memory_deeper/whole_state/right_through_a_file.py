# Right: writes the state as into a file, and reads it again
import io


def whole_state(model, optimizer):
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = {"model": get_model_state_dict(model, options=options)}
    state["optimizer"] = get_optimizer_state_dict(model, optimizer, options=options)
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)
