"""What a page shows of the outputs of a run: pictures as files, players that play without a kernel.

A notebook carries each picture inside, twice: for light and for dark paper. On the site they are files, and the browser
asks for the one that is seen, when it comes into view. A widget becomes a place with its state as JSON (`site.js` fills
it), and what stands for it in a notebook without a kernel stands there until then, and without JavaScript.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from distlib.draw.predictions.form import RUN_AGAIN
from distlib.draw.predictions.prediction import NOT_COMMITTED
from distlib.living_line import GONE

WIDGET = "application/vnd.jupyter.widget-view+json"
_STATE = "application/vnd.jupyter.widget-state+json"
_KINDS = {"PlayerWidget": "player", "PredictionForm": "form"}
_FORM_STATE = ("question", "kind", "options", "hint")
_DATA_IMAGE = re.compile(r'src="data:image/(png|svg\+xml|gif|jpeg);base64,([A-Za-z0-9+/=]+)"')
_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)


@dataclass
class PageOutputs:
    """Makes the outputs of one notebook fit for a page.

    Attributes:
        notebook: a stored run, as nbformat reads it.
        images: name to content of the pictures that were found.
    """

    notebook: Any
    images: dict[str, bytes] = field(default_factory=dict)

    def of_cell(self, cell: Any) -> list[dict[str, Any]]:
        """The outputs of a code cell, those of widgets joined with what stands for them."""
        outputs = [dict(output) for output in cell.outputs if output.get("data") != GONE]
        return list(self._shown(outputs))

    def _shown(self, outputs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        waiting: dict[str, Any] | None = None  # a widget whose stand-in is the next output
        for output in outputs:
            data = output.get("data", {})
            if WIDGET in data:
                waiting = output
                continue
            if waiting is not None:
                yield self._widget(waiting, data.get("text/html", ""))
                waiting = None
                if "distlib-still" in data.get("text/html", ""):
                    continue
            yield self._alone(output)
        if waiting is not None:
            yield self._widget(waiting, "")

    def _alone(self, output: dict[str, Any]) -> dict[str, Any]:
        if output["output_type"] == "stream":
            return output | {"text": output["text"].replace(NOT_COMMITTED, "")}  # whoever made the run was not asked
        if output["output_type"] == "error":  # Sphinx would read it as Python's own
            return {"output_type": "stream", "name": "stderr", "text": "\n".join(output["traceback"])}
        if "text/html" in output.get("data", {}):
            return output | {"data": {"text/html": self._with_files(output["data"]["text/html"])}}
        return output

    def _with_files(self, text: str) -> str:
        """HTML with its pictures as files, without the style sheets that are for JupyterLab."""

        def to_file(found: re.Match[str]) -> str:
            content = base64.b64decode(found[2])
            name = f"{hashlib.sha256(content).hexdigest()[:16]}.{found[1].partition('+')[0]}"
            self.images[name] = content
            return f'loading="lazy" src="../_static/runs/{name}"'

        return _DATA_IMAGE.sub(to_file, _STYLE.sub("", text)).strip()

    def _widget(self, output: dict[str, Any], instead: str) -> dict[str, Any]:
        """A place for a widget, and in it what stands for it; for a bar of progress and the like: its text."""
        models = self.notebook.metadata.get("widgets", {}).get(_STATE, {}).get("state", {})
        found = _first_of(models, output["data"][WIDGET]["model_id"])
        if found is None:
            return {"output_type": "display_data", "data": {"text/plain": output["data"]["text/plain"]}, "metadata": {}}
        kind, state, alone = found
        still = instead if "distlib-still" in instead else ""
        words = self._with_files(still).replace(RUN_AGAIN, "")  # a page has no kernel
        content = json.dumps(state, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
        note = "" if alone else "<p>In JupyterLab this picture has sliders, which ask the kernel.</p>"
        holder = (
            f'<div class="distlib-widget" data-kind="{kind}">{words}'
            f'<script type="application/json">{content}</script></div>{note}'
        )
        return {"output_type": "display_data", "data": {"text/html": holder}, "metadata": {}}


def _first_of(models: Mapping[str, Any], model_id: str) -> tuple[str, dict[str, Any], bool] | None:
    """The first widget of ours at or below a model: its kind, its state, and whether it is the model itself."""
    state = models.get(model_id, {}).get("state", {})
    kind = _KINDS.get(str(state.get("_anywidget_id", "")).rpartition(".")[2])
    if kind == "player":
        return kind, {"scene": state["scene"], "step": state.get("step", 0)}, True
    if kind == "form":
        return kind, {name: state[name] for name in _FORM_STATE if name in state}, True
    for child in state.get("children", []):
        if below := _first_of(models, child.removeprefix("IPY_MODEL_")):
            return (*below[:2], False)
    return None
