"""The hang clinic: broken programs of torch.distributed, what they show, and what brings the fault to light.

patients        broken programs, one fault each, to be run with torchrun; what torch printed is next to them
patient_table   what is the matter with each
tools           what looks into a program that hangs or dies

run_patient     runs a patient with or without a tool, and reports how each rank ended
observer        notices that nobody does anything any more
in_rank         what runs in each of the patient's processes
"""

from distlib.clinic.first_aid import FIRST_AID
from distlib.clinic.one_process import check_against_one_process
from distlib.clinic.our_ranks import run_on_our_ranks
from distlib.clinic.patient import CRASHES, HANGS, SILENT, Patient
from distlib.clinic.patient_report import PatientReport, RankEnding
from distlib.clinic.patient_table import PATIENTS
from distlib.clinic.replica_check import ReplicaCheck, check_samples
from distlib.clinic.run_patient import prepare_clinic, run_patient
from distlib.clinic.tools import TOOLS, Tool

__all__ = [
    "CRASHES",
    "FIRST_AID",
    "HANGS",
    "PATIENTS",
    "SILENT",
    "TOOLS",
    "Patient",
    "PatientReport",
    "RankEnding",
    "ReplicaCheck",
    "Tool",
    "check_against_one_process",
    "check_samples",
    "prepare_clinic",
    "run_on_our_ranks",
    "run_patient",
]
