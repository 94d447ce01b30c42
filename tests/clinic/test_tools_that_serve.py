"""What a patient's text says of a tool is what the tool shows of that patient."""

import pytest

from distlib.clinic import PATIENTS, run_patient
from distlib.clinic.observer import NO_DUMP

EVERY_DAY = ("order_of_calls", "DETAIL")
SERVED = [
    pytest.param(name, tool, marks=[] if (name, tool) == EVERY_DAY else pytest.mark.slow, id=f"{name}-{tool}")
    for name, patient in PATIENTS.items()
    for tool in patient.served_by
]


@pytest.mark.parametrize(("name", "tool"), SERVED)
def test_a_tool_that_serves_says_what_is_said_of_it(name: str, tool: str) -> None:
    report = run_patient(name, tool)
    if NO_DUMP in report.text:
        pytest.skip("py-spy is not here, or may not look")
    assert PATIENTS[name].served_by[tool] in " ".join(ending.text for ending in report.endings), report
