#!/bin/sh
# Installs what requirements.txt lists, in the versions of constraints.txt, into /opt/venv: the packages of all images.
set -eu
PATH=/opt/venv/bin:$PATH
install="python -m pip install --no-cache-dir --no-compile -c constraints.txt"

python3 -m venv /opt/venv
$install -r requirements.txt
if python -m pip show --quiet tensorflow-cpu tensorflow 2>/dev/null; then
    $install --no-deps tf-keras # it asks for "tensorflow" by name; see the Makefile
fi

# Headers and libraries to compile with, and torch's own tests: half a gigabyte.
cd /opt/venv/lib/python3*/site-packages
rm -rf clang tensorflow/include torch/include torch/test
find torch/bin -type f ! -name torch_shm_manager -delete

# pip would compile on one core. Some files are for other Pythons and don't compile.
PYTHONWARNINGS=ignore python3 -m compileall -qq -j 0 /opt/venv/lib || true
