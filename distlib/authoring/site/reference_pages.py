"""The reference: what the package offers, from its docstrings. Sources are read, and nothing of them is run.

A docstring is text with code in backticks, blocks of code or drawings that are indented, and the parts Args,
Attributes, Returns and Raises. It becomes Markdown, under a signature that Sphinx's search knows.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from distlib.lazy_names import homes_in

PAGES = {
    "names": ("distlib", "What `from distlib import …` gives: worlds, ranks, collectives, and their errors."),
    "network": ("distlib.network", "Links and clusters, and what an algorithm costs on them."),
    "collectives": ("distlib.collectives", "The algorithms, each under its own name."),
    "draw": ("distlib.draw", "Pictures of a run."),
    "clinic": ("distlib.clinic", "Broken programs, run for real."),
    "frameworks": ("distlib.frameworks", "TensorFlow and JAX in processes of their own."),
    "trainers": ("distlib.trainers", "One training, run by the frameworks of lesson 15."),
}
"""What has a page: a package with a stub or an `__all__`; its name for students, and a sentence."""

FOLDERS = {
    "training": ("distlib.training", "The ways of training, a module each."),
    "launch": ("distlib.launch", "Ranks on several machines: launchers, checkpoints, elastic runs."),
}
"""Packages of which all that is public in their modules has a place on their page."""

_PARTS = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):[ \t]*\n?", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}[\w., *]+?): (.*)", re.DOTALL)
_Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Described:
    """A public function or class, and the name that it is imported by."""

    name: str
    node: _Definition


def reference_pages(package: Path) -> dict[str, str]:
    """The pages by name, such as "collectives", in MyST's Markdown. package: the folder distlib/."""
    pages = {page: _page(module, about, _offered(package, page)) for page, (module, about) in PAGES.items()}
    for folder, (module, about) in FOLDERS.items():
        pages[folder] = _page(module, about, _public_in(package, folder))
    return pages


def _page(module: str, about: str, found: Iterator[Described]) -> str:
    parts = [f"# {module}", about, *(_described(each) for each in found)]
    return "\n\n".join(parts) + "\n"


def _offered(package: Path, name: str) -> Iterator[Described]:
    """What is in the stub or in the `__all__` of a package, wherever it is defined."""
    folder, prefix = (package, "distlib") if name == "names" else (package / name, f"distlib.{name}")
    stub, home = folder / "__init__.pyi", folder / "__init__.py"
    if stub.exists():
        homes = {public: _file(package, prefix + module) for public, module in homes_in(stub).items()}
    else:
        homes = dict.fromkeys(_exported(home), home)
    for public, path in sorted(homes.items()):
        if node := _definition(package, path, public):
            yield Described(f"{prefix}.{public}", node)


def _public_in(package: Path, folder: str) -> Iterator[Described]:
    for path in sorted((package / folder).rglob("*.py")):
        if any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(package).parts):
            continue
        module = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        for node in _tree(path).body:
            if isinstance(node, _Definition) and not node.name.startswith("_"):
                yield Described(f"{module}.{node.name}", node)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _exported(path: Path) -> list[str]:
    for node in _tree(path).body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    raise ValueError(f"{path} has no __all__")


def _definition(package: Path, path: Path, name: str) -> _Definition | None:
    """Where a name is defined, through any number of imports; None for a constant, and for what is imported as *."""
    defined, imported = _names_in(path)
    if name in defined:
        return defined[name]
    module, original = imported.get(name, ("", ""))
    home = _file(package, module)
    return _definition(package, home, original) if module and home != path else None


@cache
def _names_in(path: Path) -> tuple[dict[str, _Definition], dict[str, tuple[str, str]]]:
    """What a file defines, and what it imports of the package: its name there to module and name."""
    defined: dict[str, _Definition] = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in ast.walk(_tree(path)):
        if isinstance(node, _Definition):
            defined.setdefault(node.name, node)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("distlib"):
            for alias in node.names:
                imported.setdefault(alias.asname or alias.name, (str(node.module), alias.name))
    return defined, imported


def _file(package: Path, module: str) -> Path:
    path = package.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _described(each: Described) -> str:
    """A directive of Sphinx's with a signature and what the docstring says."""
    kind = "py:class" if isinstance(each.node, ast.ClassDef) else "py:function"
    lines = [f"::::{{{kind}}} {each.name}{_signature(each.node)}", "", _as_markdown(ast.get_docstring(each.node) or "")]
    if isinstance(each.node, ast.ClassDef):
        lines += [_method(node) for node in each.node.body if _is_public_method(node)]  # type: ignore[arg-type]
    return "\n".join([*lines, "::::"])


def _is_public_method(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and ast.get_docstring(node) is not None


def _method(node: ast.FunctionDef) -> str:
    words = [getattr(each, "id", "") for each in node.decorator_list]
    kind = "py:property" if "property" in words else "py:method"
    signature = "" if kind == "py:property" else _signature(node)
    return f"\n:::{{{kind}}} {node.name}{signature}\n\n{_as_markdown(ast.get_docstring(node) or '')}\n:::"


def _signature(node: _Definition) -> str:
    """Its arguments as they are written; of a class, those of its `__init__`."""
    if isinstance(node, ast.ClassDef):
        inits = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        return _signature(inits[0]).partition(" -> ")[0] if inits else ""
    arguments = ast.unparse(node.args)
    arguments = re.sub(r"^(self|cls)(, )?", "", arguments)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({arguments}){returns}"


def _as_markdown(docstring: str) -> str:
    """Text, indented blocks as code, and each part as a list."""
    text, *parts = _PARTS.split(docstring)
    blocks = [_prose(text)]
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        blocks.append(f"**{name}**\n\n{_part(textwrap.dedent(body))}")
    return "\n\n".join(block for block in blocks if block.strip())


def _prose(text: str) -> str:
    """Paragraphs as they are; what is indented, and what follows it indented, as code."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", text.rstrip()):
        if block.startswith("    ") and blocks and blocks[-1].startswith("    "):
            blocks[-1] += f"\n\n{block}"
        else:
            blocks.append(block)
    return "\n\n".join(_code(block) if block.startswith("    ") else block for block in blocks)


def _code(block: str) -> str:
    return f"```text\n{textwrap.dedent(block)}\n```"


def _part(body: str) -> str:
    """`name: what it is` as a list; anything else, as after "Returns:", as text."""
    entries = re.split(r"\n(?=\S)", body.strip())
    found = [_ENTRY.match(entry) for entry in entries]
    if not all(found):
        return _prose(body.strip())
    return "\n".join(f"- `{each[1]}`: {' '.join(each[2].split())}" for each in found if each)
