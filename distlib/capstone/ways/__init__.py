"""One training, nine ways: the same model, seed and batches. A way is a short function of communicator and plan.

    World(4).run(train_by, "zero", CapstonePlan(Additions()), steps=20)

capstone_plan         what is trained
way_on_rank           what a way hands over, and what several need
compute_time          what computing takes in virtual time
train_by              the loop around all of them, and their names
step_costs            what a step costs: messages, bytes, memory, virtual seconds

alone                 one process
with_ddp              lesson 05
with_local_sgd        lesson 06b
with_parameter_server lesson 07b, asynchronous
with_gossip           lesson 08
with_pipeline         lesson 09
with_tensor_parallel  lesson 10
with_zero             lesson 11, stage 3
with_mesh             lesson 12, dp × pp × tp
"""

from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.step_costs import StepCosts, step_costs
from distlib.capstone.ways.train_by import WAYS, TrainedModel, train_by
from distlib.capstone.ways.way_on_rank import WayOnRank

__all__ = ["WAYS", "CapstonePlan", "StepCosts", "TrainedModel", "WayOnRank", "step_costs", "train_by"]
