"""`distlib doctor` on broken machines: each check is told of a fault and must say what it is and what to do."""

import sys
import types
from pathlib import Path

import pytest

import distlib
from distlib.cli import doctor, doctor_checks as checks, doctor_frameworks, main
from distlib.cli.doctor_checks import Finding, GpuFacts

GIBIBYTE = 2**30


def is_problem(finding: Finding, *words: str) -> bool:
    """Whether a finding is a problem that has a remedy and says all of the words."""
    text = f"{finding.message} {finding.remedy}"
    return finding.level == "problem" and bool(finding.remedy) and all(word in text for word in words)


def is_note(finding: Finding, *words: str) -> bool:
    """Whether a finding is a note that says all of the words."""
    return finding.level == "note" and all(word in f"{finding.message} {finding.remedy}" for word in words)


def test_python_too_old() -> None:
    assert is_problem(checks.check_python(version=(3, 10, 12)), "3.10.12", "3.11")
    assert checks.check_python(version=(3, 11, 0)).level == "ok"


def test_torch_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert is_problem(checks.check_torch(), "make env")


def test_torch_says_its_build(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = types.SimpleNamespace(__version__="9.9", version=types.SimpleNamespace(cuda="13.0"))
    monkeypatch.setitem(sys.modules, "torch", fake)
    assert checks.check_torch() == Finding("ok", "9.9, CUDA 13.0 build")


def test_other_distlib_installed() -> None:
    finding = checks.check_other_distlib(installed=["torch", "distlib"])
    assert is_problem(finding, "overwrite", "virtualenv", ".venv")


def test_other_distlib_shadows_ours(tmp_path: Path) -> None:
    finding = checks.check_other_distlib(installed=["distlib-course"], location=tmp_path)
    assert is_problem(finding, str(tmp_path))


def test_our_own_distlib_is_ok() -> None:
    assert Path(distlib.__file__).parent == Path(checks.__file__).parents[1]
    assert checks.check_other_distlib().level == "ok"


def test_ranks_that_fail() -> None:
    finding = checks.check_ranks(probe="raise RuntimeError('no ranks today')")
    assert is_problem(finding, "RuntimeError: no ranks today")


def test_ranks_that_hang() -> None:
    finding = checks.check_ranks(probe="import time; time.sleep(100)", timeout=1)
    assert is_problem(finding, "within 1 s")


def test_ranks_that_exchange_nonsense() -> None:
    assert is_problem(checks.check_ranks(probe="print([0.0, 0.0])"), "[0.0, 0.0]")


def test_ranks_that_work() -> None:
    assert checks.check_ranks() == Finding("ok", "two ranks started and exchanged a message")


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (GpuFacts(usable=0, nccl=False, cuda_build=False, driver=False), "note", "none"),
        (GpuFacts(usable=0, nccl=False, cuda_build=False, driver=True), "note", "CPU build"),
        (GpuFacts(usable=0, nccl=True, cuda_build=True, driver=True), "note", "CUDA_VISIBLE_DEVICES"),
        (GpuFacts(usable=2, nccl=False, cuda_build=True, driver=True), "note", "no NCCL"),
        (GpuFacts(usable=4, nccl=True, cuda_build=True, driver=True), "ok", "4"),
    ],
)
def test_gpus(facts: GpuFacts, level: str, words: str) -> None:
    finding = checks.check_gpus(facts=facts)
    assert finding.level == level
    assert words in f"{finding.message} {finding.remedy}"


def test_gpus_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert is_note(checks.check_gpus(), "torch")


def test_kernel_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_kernel() -> str:
        raise LookupError("No such kernel named python3")

    monkeypatch.setattr(checks, "_kernel_command", no_kernel)
    assert is_problem(checks.check_kernel(), "No such kernel", "ipykernel install")


def test_kernel_of_another_python() -> None:
    assert is_problem(checks.check_kernel(command="/elsewhere/bin/python3"), "/elsewhere/bin/python3")


def test_kernel_of_this_python() -> None:
    assert checks.check_kernel(command=sys.executable).level == "ok"
    assert checks.check_kernel(command="python").level == "ok"
    assert checks.check_kernel().level == "ok"


def test_nbgrader_missing() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('No module named nbgrader')"]
    assert is_problem(checks.check_nbgrader(command=command), "No module named nbgrader", "make env")
    assert is_problem(checks.check_nbgrader(command=["/no/such/command"]), "make env")


def test_nbgrader_starts() -> None:
    assert checks.check_nbgrader() == Finding("ok", "nbgrader version 0.9.6")


def test_alembic_missing(tmp_path: Path) -> None:
    assert is_problem(checks.check_alembic(path=str(tmp_path), folder=tmp_path), "gradebook", "make env")


def test_alembic_beside_python(tmp_path: Path) -> None:
    assert checks.check_alembic(path=str(tmp_path)).level == "ok"


def test_no_sandbox_is_a_note() -> None:
    finding = checks.check_sandbox(problems={"bubblewrap": "not installed", "docker": "does not answer"})
    assert is_note(finding, "bubblewrap: not installed", "docker: does not answer", "only to grade a class")


def test_a_sandbox_that_works_is_named() -> None:
    finding = checks.check_sandbox(problems={"bubblewrap": "not installed", "docker": None})
    assert finding == Finding("ok", "a class can be graded in docker")


@pytest.mark.parametrize(("mode", "level"), [(0o700, "ok"), (0o2770, "ok"), (0o755, "problem"), (0o701, "problem")])
def test_a_classroom_that_all_can_enter_is_a_problem(tmp_path: Path, mode: int, level: str) -> None:
    assert checks.check_classroom(folder=tmp_path).level == "ok"
    (tmp_path / "classroom").mkdir()
    (tmp_path / "classroom").chmod(mode)
    finding = checks.check_classroom(folder=tmp_path)
    assert finding.level == level and (level == "ok" or f"chmod 700 {tmp_path}/classroom" in finding.remedy)


def test_shared_memory_missing(tmp_path: Path) -> None:
    finding = checks.check_shared_memory(folder=tmp_path / "shm", system="Linux")
    assert is_problem(finding, "missing", "--shm-size")


def test_shared_memory_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.os, "access", lambda path, mode: False)
    assert is_problem(checks.check_shared_memory(folder=tmp_path, system="Linux"), "not writable")


def test_shared_memory_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = types.SimpleNamespace(total=64 * 2**20, free=60 * 2**20)
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda folder: usage)
    assert is_note(checks.check_shared_memory(folder=tmp_path, system="Linux"), "60 MiB", "64 MiB", "--shm-size")


def test_shared_memory_is_not_needed_on_macos(tmp_path: Path) -> None:
    assert checks.check_shared_memory(folder=tmp_path / "shm", system="Darwin").level == "ok"


def test_temporary_folder_missing(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert is_problem(checks.check_temporary_folder(folder=gone), f"{gone} can't be written: No such file", "TMPDIR")
    assert checks.check_temporary_folder(folder=tmp_path).level == "ok"


@pytest.mark.parametrize(
    ("folder", "system", "level"),
    [
        ("/mnt/c/Users/ada/my course", "5.15.167.4-microsoft-standard-WSL2", "note"),
        ("/mnt/c", "4.4.0-19041-Microsoft", "note"),
        ("/home/ada/course", "5.15.167.4-microsoft-standard-WSL2", "ok"),
        ("/mnt/cluster/ada/course", "5.15.167.4-microsoft-standard-WSL2", "ok"),
        ("/mnt/c/course", "6.1.0-28-amd64", "ok"),
    ],
)
def test_in_wsl_the_course_lies_in_linux(folder: str, system: str, level: str) -> None:
    finding = checks.check_folder(folder=Path(folder), system=system)
    assert finding.level == level
    if level == "note":
        assert is_note(finding, folder, "disk of Windows", "cp -r ", "make lab")


def test_the_folder_of_this_course_is_ok() -> None:
    assert checks.check_folder(system="6.1.0") == Finding("ok", f"the course is in {Path(distlib.__file__).parents[1]}")


def test_outside_of_a_course_doctor_says_so_and_looks_at_the_package_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (checks, doctor):
        monkeypatch.setattr(module, "find_course", lambda start: None)
    assert is_note(checks.check_folder(), "there is no course here", "the package alone")
    chosen = doctor.choose_checks(for_a_notebook=False)
    assert set(chosen) == set(doctor.FOR_THE_PACKAGE) and "nbgrader" not in chosen
    assert chosen["packages"]().level == "ok"


def test_home_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_note(checks.check_home(home=tmp_path / "gone"), "distlib lab")
    assert checks.check_home(home=tmp_path).level == "ok"
    monkeypatch.setattr(checks.os, "access", lambda path, mode: False)
    assert is_note(checks.check_home(home=tmp_path), "not writable", "HOME")


def test_little_memory() -> None:
    assert is_note(checks.check_memory(available=GIBIBYTE), "1.0 GiB")
    assert checks.check_memory(available=8 * GIBIBYTE).level == "ok"


def test_one_core() -> None:
    assert is_note(checks.check_cores(count=1), "one core")
    assert checks.check_cores(count=2).level == "ok"


def test_a_check_that_fails_is_a_problem() -> None:
    def broken() -> Finding:
        raise ZeroDivisionError("oh")

    assert is_problem(doctor.examine(broken), "ZeroDivisionError: oh")


def test_report_and_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    status = doctor.run_doctor({"a": lambda: Finding("ok", "fine"), "b": lambda: Finding("problem", "bad", "mend it")})
    assert status == 1
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == ["ok       a          fine", "problem  b          bad", " " * 20 + "-> mend it", ""]
    assert last.startswith("1 problem.")  # in an environment of another name it goes on
    assert doctor.run_doctor({"a": lambda: Finding("note", "slow")}) == 0
    assert capsys.readouterr().out.endswith("\nNo problems.\n")


def test_every_check_is_run_by_doctor() -> None:
    modules = (checks, doctor_frameworks)
    written = {value for module in modules for name, value in vars(module).items() if name.startswith("check_")}
    assert written == set(doctor.CHECKS.values())


@pytest.mark.slow
def test_this_machine_is_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor"])
    output = capsys.readouterr().out
    assert status == 0, output
    assert len([line for line in output.splitlines() if line[:1].isalpha()]) == len(doctor.CHECKS) + 1


def test_a_problem_in_an_environment_of_somebody_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor.in_own_environment(Path("/home/ada/course/.venv")) and not doctor.in_own_environment(Path("/usr"))
    for own, end in ((True, "1 problem."), (False, "perhaps it lacks something on purpose.")):
        monkeypatch.setattr(doctor, "in_own_environment", lambda own=own: own)
        assert doctor.run_doctor({"nbgrader": lambda: Finding("problem", "is missing", "make env")}) == 1
        assert capsys.readouterr().out.endswith(f"{end}\n")


def test_only_what_a_notebook_needs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECKS", {name: lambda: Finding("ok", "fine") for name in doctor.CHECKS})
    assert main(["doctor", "--for-a-notebook"]) == 0
    names = [line.split()[1] for line in capsys.readouterr().out.splitlines()[:-2]]
    assert names == list(doctor.FOR_A_NOTEBOOK) and "nbgrader" not in names


def test_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["doctor", "--fast"])
    assert stopped.value.code == 2
    assert "--fast" in capsys.readouterr().err


def test_the_transport_and_why_it_is_not_the_fast_one() -> None:
    assert checks.check_transport(problem=None).level == "ok"
    finding = checks.check_transport(problem="this container forbids it")
    assert finding.level == "note"
    assert finding.message == "gloo (TCP within this machine), since this container forbids it"
    assert "SYS_PTRACE" in finding.remedy
