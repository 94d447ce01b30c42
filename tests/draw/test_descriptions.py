"""Every picture and every widget says in words what it shows; and no notebook shows one that does not.

What the lessons show when they run is looked at in tests/notebooks/test_lessons.py, in the run that is made there.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ipywidgets
import matplotlib.figure
import nbformat
import pytest

from distlib import Cluster, Link, SimulatedWorld, draw
from distlib.collectives import ring_all_reduce
from distlib.draw.live import BROWSER
from distlib.draw.picture import Picture
from distlib.draw.predictions import form
from distlib.draw.style import INK, LIGHT_PAPER, color_of, contrast
from distlib.training.ddp.step_times import Span, StepTimes
from distlib.training.schedules import one_forward_one_backward, time_schedule, zero_bubble
from distlib.training.zero import Sample
from distlib.worlds.calibration import Comparison
from distlib.worlds.diagnosis import DeadlockError
from tests.tools.descriptions import FEWEST, descriptions, undescribed, undescribed_in, unnamed
from tests.tools.draw_samples import cut_array, ring_trace, served

ROOT = Path(__file__).parents[2]
MASTER = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "4711"}
LAUNCHED = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "GROUP_RANK": "0", **MASTER}
WIDGET = "application/vnd.jupyter.widget-view+json"
TRACE = ring_trace(4)
HANG = """cell 1, line 2: deadlock. rank 0 waits to send 4 float32 to rank 1 (cell 1, line 2, round 1)
  ← rank 1 waits to send 4 float32 to rank 0 (cell 1, line 2, round 1)
  ← rank 0."""
WORLD = SimulatedWorld(4)
TIMED = time_schedule(one_forward_one_backward(2, 4))
ALIVE = [Sample("forward", 0.0, {"parameters": 64, "activations": kept}) for kept in (0, 64)]
OVERLAPPED = StepTimes(
    0.0,
    3.0,
    [
        Span("backward", "1", 0.0, 1.0),
        Span("communication", "bucket 0", 1.0, 2.0),
        Span("backward", "0", 1.0, 2.0),
        Span("communication", "bucket 1", 2.0, 3.0),
    ],
)
QUEUED = StepTimes(0.0, 3.0, [Span("calls", "1", 0.0, 1.0), Span("computes", "1", 0.5, 3.0)])
CLUSTER = Cluster.flat(64, Link(1e-5, 2.5e9))

SHOWN: dict[str, Callable[[], Any]] = {
    "before_and_after": lambda: draw.before_and_after({"shift": ([[1], [2]], [[2], [1]])}, title="Two ranks"),
    "buckets_over_layers": lambda: draw.buckets_over_layers([["1"], ["0"]], OVERLAPPED, title="Two buckets"),
    "bytes_per_rank": lambda: draw.bytes_per_rank(TRACE),
    "curves": lambda: draw.curves({"plain": [(0, 2.0), (1, 0.5)]}, along="seconds", values="loss", title="Loss"),
    "cut_pair": lambda: draw.cut_pair([([[1.0]], [[2.0]], [[2.0]], [[3.0]], [[6.0]])] * 2, title="A pair"),
    "decision_tree": lambda: draw.decision_tree({"Does it rain?": {"yes": "stay", "no": "go"}}, title="Today, at 7"),
    "explore_race": lambda: draw.explore_race(CLUSTER),
    "expert_lanes": lambda: draw.expert_lanes({"even": draw.ExpertLayer([(0.0, 0.1)] * 2, 0.2)}, title="Two ranks"),
    "gossip_graphs": lambda: draw.gossip_graphs(
        {"ring": [[0.5, 0.5], [0.5, 0.5]]}, {"ring": [1.0, 1.0]}, title="Two ranks", subtitle="after one round"
    ),
    "gradient_timeline": lambda: draw.gradient_timeline({"asynchronous": served()}, title="Two workers", until=0.05),
    "heat_map": lambda: draw.heat_map({1: {2: 0.5, 4: 0.6}, 3: {2: 0.7, 4: 0.8}}, across="a", down="b", title="Found"),
    "compare_costs": lambda: draw.compare_costs({"ring": {"bytes": 8}, "tree": {"bytes": 4}}, title="Costs"),
    "histogram": lambda: draw.histogram({"equal": [0, 1, 1]}, along="staleness", title="Found"),
    "image_answers": lambda: draw.image_answers([[[0.0, 1.0], [1.0, 0.0]]], [8], {"plain": [3]}, title="Answers"),
    "matrix_cuts": lambda: draw.matrix_cuts({"columns": [([[1.0]], [[2.0]], [[2.0]])] * 2}, title="A layer"),
    "meeting_places": lambda: draw.meeting_places({"alone": [(LAUNCHED, "the sum is 1")]}, title="One process"),
    "kept_shards": lambda: draw.kept_shards({"DDP": {"weights": 64}, "stage 3": {"weights": 32}}, 2, title="Weights"),
    "memory_and_room": lambda: draw.memory_and_room(
        {"weights": 8e9, "gradients": 8e9}, {"a GPU": 12e9}, title="Too much"
    ),
    "memory_over_time": lambda: draw.memory_over_time({"stage 1": ALIVE}, "Memory", limit=96),
    "memory_parts": lambda: draw.memory_parts({"alone": [{"weights": 64, "gradients": 64}]}, "Memory"),
    "memory_per_rank": lambda: draw.memory_per_rank({"GPipe": [64, 64], "1F1B": [64, 32]}, "Activations"),
    "mesh_cube": lambda: draw.mesh_cube({"dp": 2, "tp": 2}, title="Four ranks"),
    "mesh_on_nodes": lambda: draw.mesh_on_nodes({"tp inside": {"dp": 2, "tp": 4}}, 4, title="Two nodes"),
    "pipeline_timeline": lambda: draw.pipeline_timeline({"1F1B": TIMED, "ZB-H1": time_schedule(zero_bubble(2, 4))}),
    "placements": lambda: draw.placements({"by rows": {"W": cut_array((4, 6), 2)}}, title="Pieces"),
    "play_chunks": lambda: draw.play_chunks(draw.watch_chunks(WORLD, ring_all_reduce)),
    "play_cluster": lambda: draw.play_cluster(2),
    "play_golf": lambda: draw.play_golf(1),
    "play_pipeline": lambda: draw.play_pipeline(TIMED),
    "play_timeline": lambda: draw.play_timeline(TRACE),
    "predict": lambda: draw.predict("How many bytes does rank 0 send?", unit="B"),
    "predicted_and_measured": lambda: draw.predicted_and_measured(
        [Comparison(4, 1e-4, 2e-4), Comparison(8, 1e-4, 1e-4)]
    ),
    "queue_lanes": lambda: draw.queue_lanes({"read": QUEUED}, title="One step"),
    "race": lambda: draw.race(CLUSTER, [1 << 10, 1 << 20]),
    "ranks_on_nodes": lambda: draw.ranks_on_nodes([LAUNCHED], title="One rank"),
    "speed_up": lambda: draw.speed_up({"ring": {1: 0.4, 2: 0.21, 4: 0.12}}),
    "stages_on_ranks": lambda: draw.stages_on_ranks([[0, 2], [1, 3]], title="Two ranks"),
    "step_timeline": lambda: draw.step_timeline({"alone": StepTimes(0.0, 1.0, [Span("forward", "0", 0.0, 1.0)])}),
    "sweep": lambda: draw.sweep({"plain": {1: [0.5, 0.6], 2: [0.7]}}, along="workers", title="Found"),
    "timeline": lambda: draw.timeline(TRACE),
    "who_sends": lambda: draw.who_sends({"ring": TRACE}, title="Around"),
    "token_routes": lambda: draw.token_routes({"even": [[1, 1], [1, 1]]}, title="Two ranks"),
    "unit_lanes": lambda: draw.unit_lanes({"stage 1": OVERLAPPED}, title="Two units"),
    "who_waits": lambda: draw.who_waits(DeadlockError(HANG)),
}
NOT_SHOWN = {"ChunkHistory", "ExpertLayer", "HeldPieces", "Picture", "format_seconds", "watch_chunks"}

Outputs = list[tuple[dict[str, Any], Any]]


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> Outputs:
    """What is displayed from now on: the data of an output, and the widget in it. Pictures have no pixels."""
    shown: Outputs = []

    def display(data: dict[str, Any], **options: Any) -> None:
        view = data.get(WIDGET)
        shown.append((data, ipywidgets.widgets.widget._instances[view["model_id"]] if view else None))

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(Picture, "_pixels", lambda self: None)
    monkeypatch.setattr(Picture, "_on_paper", lambda self, pixels, paper, ink: b"")
    return shown


def show(thing: Any, outputs: Outputs) -> None:
    """As a cell shows its last line."""
    if isinstance(thing, Picture):
        outputs.append((thing._repr_mimebundle_(), None))
    elif isinstance(thing, draw.predictions.prediction.Prediction):
        form.show_form(thing)
    else:
        thing._ipython_display_()


def test_every_function_that_shows_something_is_looked_at() -> None:
    assert set(SHOWN) | NOT_SHOWN == set(draw.__all__), "a new one needs a line in SHOWN"


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_is_described(name: str, outputs: Outputs) -> None:
    show(SHOWN[name](), outputs)
    assert outputs
    for data, widget in outputs:
        assert list(undescribed(data)) == []
        assert [what for part in parts(widget) for what in unnamed(part.get_state())] == []
    pictures = [words for data, _ in outputs for words in descriptions(data)]
    widgets = [widget for _, widget in outputs if widget is not None]
    assert pictures or name == "predict", "a widget leaves a picture for a page without it"
    players = ("explore_race", "play_chunks", "play_cluster", "play_golf", "play_pipeline", "play_timeline", "predict")
    assert len(widgets) == (name in players)


def parts(widget: Any) -> Iterator[Any]:
    """A widget and those in it."""
    if widget is not None:
        yield widget
        for child in getattr(widget, "children", ()):
            yield from parts(child)


# ── notebooks ────────────────────────────────────────────────────────────────────────────────────────────────────────

NOTEBOOKS = sorted([*ROOT.glob("course/*.ipynb"), *ROOT.glob("solutions/*/*.ipynb"), *ROOT.glob("exercises/*/*.ipynb")])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_notebook_shows_nothing_past_the_functions_that_describe_it(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert undescribed_in(notebook) == []
    for cell in notebook.cells:
        assert bare(cell) == []


def bare(cell: Mapping[str, Any]) -> list[str]:
    """What a cell shows, or may show, without a description: pictures in its text, plots and widgets in its code."""
    if cell["cell_type"] == "code":
        tree = ast.parse(re.sub(r"^\s*[%!].*", "", cell["source"], flags=re.MULTILINE))
        from_modules = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        imported = [node.module or "" for node in from_modules if not _imports_words(node)]
        imported += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
        plain = {"matplotlib", "ipywidgets", "anywidget", "seaborn", "plotly", "IPython", "PIL"}
        return [name for name in imported if name.partition(".")[0] in plain]
    marked = re.findall(r"!\[([^\]]*)\]", cell["source"])
    return [words for words in [*marked, *descriptions({"text/html": cell["source"]})] if len(words) < FEWEST]


def _imports_words(node: ast.ImportFrom) -> bool:
    """Whether it imports what shows text, such as a table: a screen reader reads that as it is."""
    return node.module == "IPython.display" and [name.name for name in node.names] == ["Markdown"]


def test_what_is_not_described_is_noticed() -> None:
    figure = matplotlib.figure.Figure()
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    for data in (
        {"image/png": "…", "text/plain": "<Figure size 640x480 with 1 Axes>"},
        {"text/html": '<img src="data:image/png;base64,…">'},
        {"text/html": '<img alt="figure" src="data:image/png;base64,…">'},
        {"text/html": "<svg></svg>"},
        {WIDGET: {"model_id": "1"}, "text/plain": "IntSlider(value=0)"},
    ):
        assert len(list(undescribed(data))) == 1, data
    assert list(unnamed(ipywidgets.IntSlider().get_state()))
    assert list(unnamed(form.PredictionForm(question=" ").get_state()))
    for kind, source in (("code", "import matplotlib.pyplot as plt"), ("markdown", "![](ring.svg)")):
        assert bare({"cell_type": kind, "source": source})


# ── colors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("paper", "ink"), [(LIGHT_PAPER, INK), ("#111111", "#DEDEDE")], ids=["light", "dark"])
def test_the_number_of_a_pale_dot_can_be_read(paper: str, ink: str) -> None:
    """A player shows the dots of past steps at 35 %, with their numbers in ink (`browser/player.css`)."""
    for rank in range(8):
        assert contrast(mixed(color_of(rank), paper, 0.35), ink) >= 4.5


@pytest.mark.parametrize(
    ("paper", "ink", "green", "red"),
    [("#FFFFFF", "#212121", "#388E3C", "#D32F2F"), ("#111111", "#E0E0E0", "#4CAF50", "#F44336")],
    ids=["light", "dark"],
)
def test_what_a_form_says_can_be_read_in_jupyterlabs_colors(paper: str, ink: str, green: str, red: str) -> None:
    """JupyterLab's own green is too pale for text on white; and so is its gray for the edge of a field."""
    css = (BROWSER / "form.css").read_text()
    colors = dict(re.findall(r"var\(--(\w+)\) (\d+)%", css))
    assert contrast("#388E3C", "#FFFFFF") < 4.5
    for color, name in ((green, "green"), (red, "red")):
        assert contrast(mixed(color, ink, int(colors[name]) / 100), paper) >= 4.5
    assert contrast(mixed(ink, paper, int(colors["ink"]) / 100), paper) >= 3


def mixed(one: str, other: str, part: float) -> str:
    """A color that lies `part` of the way from `other` to `one`, in sRGB."""
    pairs = ((int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part * a + (1 - part) * b):02X}" for a, b in pairs)
