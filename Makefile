# The course's commands. `make` alone lists them.
# Works with GNU make 3.81 (macOS) and later.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMPLETE := $(VENV)/.complete
FRAMEWORKS := .venv-frameworks
comma := ,
CONSTRAINTS := constraints.txt
# A pip that is told to install for the user can't do so in an environment of its own.
PIP = PIP_USER=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c $(CONSTRAINTS)

# The first of these that is new enough makes the environment; `make env PYTHON=/path/to/python` overrides it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help env frameworks lab update

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' Makefile | sed -e 's/:.*##/	/' | expand -t 14

env: $(READY)  ## make the environment in .venv; nothing to do when it is up to date

# TensorFlow and JAX, which are larger than all else, come when lesson 13 or 14 is opened: distlib fetch.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed. If it has another name: make env PYTHON=/path/to/python"; exit 1; }
	@echo "Making the environment in $(VENV). The first time this takes 1 to 5 minutes. A step prints nothing until it is done."
	@echo "  a Python of its own"
	@"$(PYTHON)" -m venv $(VENV)
	@echo "  pip itself: older ones don't tell how much of a file has come"
	@$(PIP) "pip>=24.1"
	@echo "  pip: torch, JupyterLab and all that they need, the longest step"
	@PYTHONWARNINGS="ignore:Editable installation" $(PIP) -e ".[lessons,grading]"
	@touch $(READY)

# They see torch and all else of the course by its site-packages, and pip, which sees it, too, adds only what is missing.
frameworks: $(READY)  ## make lesson 15's environment, Lightning, Accelerate, DeepSpeed; Ray, too: make frameworks ARGS=ray
	@echo "Making the environment in $(FRAMEWORKS), 0.1 GB, with Ray 0.6 GB. This takes 2 to 5 minutes."
	@echo "  a Python of its own, which sees the course's packages"
	@$(BIN)/python -m venv $(FRAMEWORKS)
	@cd $(FRAMEWORKS)/lib/python*/site-packages && echo 'import site; site.addsitedir("$(CURDIR)/$(VENV)/lib/'"$$(basename "$$(dirname "$$PWD")")"'/site-packages")' > course.pth
	@echo "  pip: the frameworks"
	@PIP_USER=0 $(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c $(CONSTRAINTS) "distlib-course[frameworks$(if $(ARGS),$(comma)$(ARGS))]"
	@echo "  compiling it all, DeepSpeed's extension last"
	@PYTHONWARNINGS=ignore $(FRAMEWORKS)/bin/python -m compileall -qq -j 0 $(FRAMEWORKS)/lib || true
	@$(BIN)/python -m distlib.trainers --prepare

lab: $(READY)  ## open JupyterLab on the course; without a screen: make lab BROWSER=no PORT=8899
	@$(BIN)/distlib lab $(if $(filter no,$(BROWSER)),--no-browser) $(if $(PORT),--port=$(PORT)) $(ARGS)

update: $(READY)  ## get a newer version of the course; what you have written stays
	@$(BIN)/distlib update

# >>> not for students: `distlib release` leaves out what follows

EXTRAS := [course,dev,site]

env: $(COMPLETE)

# Also the frameworks of lessons 13 and 14, and what tests are made with. tf-keras asks for "tensorflow" by name: on a PC
# that is the package for GPUs, and tensorflow-cpu is the same without them. Tests start thousands of processes, so all
# is compiled, which pip does on one core.
$(COMPLETE): $(READY)
	@echo "  pip: TensorFlow, JAX, and what tests need"
	@PYTHONWARNINGS="ignore:Editable installation" $(PIP) -e ".$(EXTRAS)"
	@test ! -d $(VENV)/lib/python*/site-packages/tensorflow || { echo "  pip: Keras, for TensorFlow"; $(PIP) --no-deps tf-keras; }
	@echo "  compiling it all"
	@PYTHONWARNINGS=ignore $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # some files are for other Pythons
	@touch $(COMPLETE)

.PHONY: test test-all test-ci test-slow test-newest test-lowest soak notebooks slides site repository exercises check answers grade-demo bench

# Tests start thousands of processes. Told to write no compiled files, each of them would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Three workers more than two cores: some tests compute, and some only wait. In kernels of lessons torch computes on
# several threads; those that wait for each other would keep a core busy with it. (Tests themselves have one thread.)
PYTEST = OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n 5 --dist loadfile --no-loadscope-reorder

test: $(COMPLETE)  ## run the everyday tests, in about 8 minutes; some of them: make test ARGS="-k ring"
	$(PYTEST) -m "not slow" $(ARGS)

test-all: $(COMPLETE)  ## run all tests, also whole lessons, every answer, browsers, Docker, Slurm: an hour
	$(PYTEST) $(ARGS)

# The share of the slow tests that a commit gets, see tests/shares.py.
SHARES := 16
SHARE ?= $(shell echo $$((0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 0) % $(SHARES) + 1)))

# The commit before this one: what has changed since then is tested first.
SINCE ?= HEAD~1

test-ci: $(COMPLETE)  ## what the CI runs: the everyday tests, the slow ones that the commit touches, and a sixteenth of all
	$(PYTEST) --share=$(SHARE)/$(SHARES) --touched-since=$(SINCE) $(ARGS)

test-slow: $(COMPLETE)  ## one of eight shares of the slow tests: make test-slow SHARES=8 SHARE=2
	$(PYTEST) -m slow --share=$(SHARE)/$(SHARES) $(ARGS)

test-newest:  ## run the everyday tests with the newest versions that pyproject.toml allows, in .venv-newest
	$(MAKE) test VENV=.venv-newest CONSTRAINTS=/dev/null

test-lowest: $(READY)  ## the same with the lowest ones, without TensorFlow and JAX, in .venv-lowest
	$(BIN)/python -m tests.tools.lowest_versions > .venv-lowest.txt
	$(MAKE) test VENV=.venv-lowest CONSTRAINTS=.venv-lowest.txt EXTRAS=[lessons,grading,dev]

soak: $(COMPLETE)  ## repeat the tests that depend on processes, under load; fewer rounds than ten: make soak ROUNDS=2
	$(BIN)/python -m tests.tools.soak $(if $(ROUNDS),--rounds=$(ROUNDS)) $(if $(LOAD),--load=$(LOAD)) $(if $(PAUSE),--pause=$(PAUSE)) $(ARGS)

notebooks: $(COMPLETE)  ## make the notebooks of course/ and solutions/ from their text sources
	$(BIN)/python -m distlib.authoring notebooks

slides: $(COMPLETE)  ## make slides of lessons and their pictures, in slides/: make slides ARGS=02, or ARGS=all
	$(BIN)/python -m distlib.authoring slides $(ARGS)

exercises: $(COMPLETE)  ## make exercises/ from solutions/ with nbgrader; one of them: make exercises ARGS=02
	$(BIN)/python -m distlib.authoring exercises $(ARGS)

check: $(COMPLETE)  ## format, lint, types, and whether the generated notebooks are up to date
	@status=0; \
	for command in "ruff format --check ." "ruff check ." "mypy" "python -m distlib.authoring check"; do \
		echo "$$command"; $(BIN)/$$command || status=1; \
	done; \
	exit $$status

answers: $(COMPLETE)  ## grade every answer of tests/answers for real; in 3 minutes: make answers ARGS=--fast
	$(BIN)/python -m tests.$(if $(filter --mutants,$(ARGS)),mutants,$(if $(filter --fast,$(ARGS)),answers_fast,answers_table)) $(ARGS)

grade-demo: $(COMPLETE)  ## grade a made-up class of three and print the marks
	$(BIN)/python -m distlib.classroom.demo

bench: $(COMPLETE)  ## measure what the course promises to reach; some of it: make bench ARGS="check class"
	$(BIN)/python -m tests.tools.benchmarks $(ARGS)

site: $(COMPLETE)  ## build the site in build/site from stored runs; first run what is missing or old: make site ARGS=run
	$(BIN)/python -m distlib.authoring.site $(ARGS)

repository: $(READY)  ## name the repository on GitHub wherever it stands: make repository NAME=ada/course
	$(BIN)/python -m distlib.authoring.repository $(NAME)

# <<< not for students
