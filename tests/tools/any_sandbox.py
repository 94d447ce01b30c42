"""A sandbox for tests that need a judge and no walls, since the answers in them are the project's own."""

from distlib.judge.sandbox import KINDS, Sandbox, choose_sandbox


def any_sandbox() -> Sandbox:
    """What a class would be graded in on this machine; where there is no sandbox, none."""
    try:
        return choose_sandbox()
    except RuntimeError:
        return KINDS["none"]()
