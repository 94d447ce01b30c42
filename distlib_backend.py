"""What `import torch` finds of this course: the backend "distlib" of torch.distributed.

So one changed word in a script is enough, init_process_group("distlib"), and the course is imported only then. torch
calls `register` because pyproject.toml names it as an entry point of the group "torch.backends".
"""

from typing import Any

NAME = "distlib"


def register() -> None:
    """Tell torch.distributed of the backend. Does nothing where torch was built without it, or knows it already."""
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, NAME.upper()):
        dist.Backend.register_backend(NAME, _make_group, extended_api=True, devices=["cpu", "cuda"])


def _make_group(options: Any, _: object = None) -> Any:
    from distlib.torch_backend.default_group import is_rank, make_group

    if not is_rank():
        from distlib.launch.script_rank import become_rank

        become_rank(options)
    return make_group(options)
