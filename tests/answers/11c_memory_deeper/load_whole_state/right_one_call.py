# Right: set_state_dict, which asks for a dict that is not empty: the other ranks hand in what their model has
from torch.distributed.checkpoint.state_dict import set_state_dict


def load_whole_state(model, optimizer, state):
    set_state_dict(
        model,
        optimizer,
        model_state_dict=state.get("model") or model.state_dict(),
        optim_state_dict=state.get("optimizer", {}),
        options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),
    )
