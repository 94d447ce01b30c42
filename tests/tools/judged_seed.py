"""The seed of what a judge draws in a test."""

import os


def judged_seed() -> str:
    """CI judges the same inputs each time, so that a run can be repeated. At home each run draws others."""
    return "the inputs of CI" if "CI" in os.environ else ""
