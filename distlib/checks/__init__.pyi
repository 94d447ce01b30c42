from .remark import CheckFailed as CheckFailed
from .report import Report as Report
from .student_communicator import StudentCommunicator as StudentCommunicator
