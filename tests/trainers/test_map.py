"""The map of frameworks: whole, checked against the sources that it names, and legible as text and as HTML."""

import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from distlib.trainers.algorithm_map import ALGORITHMS, FRAMEWORKS, NOTHING, Entry, algorithm_map, sources
from distlib.trainers.by_use import USES, by_use
from distlib.trainers.environment_of_frameworks import folder, version_of
from distlib.trainers.side_by_side import SideBySide
from distlib.trainers.torchtitan_places import COMMIT, PLACES, torchtitan_places

COURSE = Path(__file__).parents[2] / "course"


def test_each_entry_says_where_it_was_read() -> None:
    for algorithm in ALGORITHMS.values():
        assert list(algorithm.entries) == list(FRAMEWORKS)
        for entry in algorithm.entries.values():
            assert entry.source.startswith("no ") == (entry.name == NOTHING), entry
            assert entry.name == NOTHING or re.fullmatch(r"[\w/]+\.(py|md): .+", entry.source), entry


def test_each_row_belongs_to_a_lesson() -> None:
    lessons = {path.name.partition("_")[0] for path in COURSE.glob("*_*.py")}
    named = {row.lesson for row in ALGORITHMS.values()} | {place.lesson for place in PLACES}
    assert named <= lessons


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_torch_has_stands_where_it_was_read(algorithm: str) -> None:
    if not version("torch").startswith("2.13."):
        pytest.skip(f"the map was read in {FRAMEWORKS['torch']}, this is {version('torch')}")
    entry = ALGORITHMS[algorithm].entries["torch"]
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    file, _, name = entry.source.partition(": ")
    assert name in (Path(spec.origin).parent / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("framework", ["lightning", "accelerate", "deepspeed", "ray"])
def test_what_a_framework_has_stands_where_it_was_read(framework: str) -> None:
    if (found := version_of(framework)) is None:
        pytest.skip(f"{framework} is not installed here (make frameworks)")
    if found not in FRAMEWORKS[framework]:
        pytest.skip(f"the map was read in {FRAMEWORKS[framework]}, this is {found}")
    (package,) = folder().glob(f"lib/python*/site-packages/{framework}")
    for name, algorithm in ALGORITHMS.items():
        assert wrong_entry(algorithm.entries[framework], package) is None, name


def wrong_entry(entry: Entry, package: Path) -> str | None:
    """What an entry says that is not so, None if all is."""
    if entry.name == NOTHING:
        words = re.compile(entry.source.removeprefix("no "), re.IGNORECASE)
        files = (package / "train" if package.name == "ray" else package).rglob("*.py")
        return next((str(file) for file in files if words.search(file.read_text("utf-8", "replace"))), None)
    file, _, name = entry.source.partition(": ")
    return None if name in (package / file).read_text(encoding="utf-8") else entry.source


def test_the_map_can_be_cut() -> None:
    table = algorithm_map(["pipeline", "experts"], ["torch", "deepspeed"])
    assert table.head == ["lesson", "algorithm", FRAMEWORKS["torch"], FRAMEWORKS["deepspeed"]]
    assert [row[0] for row in table.rows] == ["09", "12b"]
    assert len(algorithm_map().rows) == len(ALGORITHMS)


def test_sources_of_a_row() -> None:
    rows = sources("local").rows
    assert [row[0] for row in rows] == list(FRAMEWORKS.values())
    assert rows[2] == [FRAMEWORKS["accelerate"], "`LocalSGD`", "local_sgd.py: LocalSGD"]


@pytest.mark.parametrize("call", [lambda: algorithm_map(["gossip"]), lambda: algorithm_map([], ["horovod"])])
def test_an_unknown_name_is_refused_with_the_known_ones(call: object) -> None:
    with pytest.raises(
        ValueError, match=r"expected (algorithms of start|frameworks of torch), .*, got '(gossip|horovod)'"
    ):
        call()  # type: ignore[operator]
    with pytest.raises(ValueError, match="got 'gossip'"):
        sources("gossip")


def test_places_and_uses_are_whole() -> None:
    assert re.fullmatch("[0-9a-f]{40}", COMMIT)
    assert [place.lesson for place in PLACES] == sorted(place.lesson for place in PLACES)
    assert len(torchtitan_places().rows) == len(PLACES)
    assert len(by_use().rows) == len(USES) and all(use.read for use in USES)


# The table


def test_text_is_aligned_and_long_cells_take_several_lines() -> None:
    table = SideBySide(["a", "b"], [["1", "two words " * 5], ["22", "three"]])
    assert str(table).splitlines() == [
        "a   b",
        "1   two words two words two words",
        "    two words two words",
        "22  three",
    ]
    assert repr(table) == str(table)


def test_html_has_code_and_no_markup_of_a_cell() -> None:
    page = SideBySide(["a"], [["`x < 1` & more"]])._repr_html_()
    assert "<code>x &lt; 1</code> &amp; more" in page
    assert 'scope="col"' in page and "color" not in page


def test_html_lets_long_names_break_between_their_words() -> None:
    page = SideBySide(["a"], [["`PipelineStage(num_stages=2)`"]])._repr_html_()
    assert "<code>Pipeline<wbr>Stage(<wbr>num_<wbr>stages=<wbr>2)</code>" in page


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 2 cells in each row, got 1: \['1'\]"):
        SideBySide(["a", "b"], [["1"]])
