"""Stands for a framework: a module that a fork server imports once. It knows by which import it came."""

import os
import time
import uuid

IMPORT = uuid.uuid4().hex  # another one in each process that imports it
LEVEL = os.environ.get("TF_CPP_MIN_LOG_LEVEL")

if os.environ.get("DISTLIB_TEST_IMPORT") == "fails":
    raise RuntimeError("this framework is broken")
if os.environ.get("DISTLIB_TEST_IMPORT") == "takes long":
    time.sleep(1000)
