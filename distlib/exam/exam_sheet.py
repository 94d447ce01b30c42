"""Questions for an exam as Markdown or JSON, and apart from them the answers with their working."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from distlib.exam import (  # noqa: F401  each puts its questions into the bank
    about_all_reduce,
    about_data,
    about_layouts,
    about_memory,
    about_messages,
    about_pipelines,
    about_times,
)
from distlib.exam.exam_question import BANK, Asked, BankQuestion
from distlib.exam.number_words import shown
from distlib.exam.variant import Variant

TOPICS = ("messages", "all-reduce", "times", "data parallel", "pipelines", "memory", "layouts")
"""In the order of the course."""


def all_questions() -> list[BankQuestion]:
    """The bank, in the order of the course."""
    return sorted(BANK.values(), key=lambda question: TOPICS.index(question.topic))


def choose_questions(variant: Variant, topics: Sequence[str] = (), number: int | None = None) -> list[BankQuestion]:
    """Questions for a sheet, in the order of the course.

    Args:
        variant: decides which, if there are more than asked for.
        topics: only about these; all without it.
        number: how many; all without it.

    Raises:
        ValueError: there is no such topic, or there are not enough questions.
    """
    unknown = [topic for topic in topics if topic not in TOPICS]
    if unknown:
        raise ValueError(f"there is no topic {unknown[0]!r}; there are {', '.join(TOPICS)}")
    found = [question for question in all_questions() if not topics or question.topic in topics]
    if number is None:
        return found
    if not 1 <= number <= len(found):
        raise ValueError(f"there are {len(found)} questions to choose from, not {number}")
    chosen = random.Random(f"{variant.key}/which").sample(found, number)
    return [question for question in found if question in chosen]


def markdown_sheet(questions: Sequence[BankQuestion], variant: Variant, *, answers: bool = False) -> str:
    """The questions, numbered, below their topics; with `answers` the answers and their working instead of a gap."""
    lines = [f"# {'Answers' if answers else 'Questions'}, variant {variant.name}"]
    topic = ""
    for number, question in enumerate(questions, 1):
        if question.topic != topic:
            topic = question.topic
            lines += ["", f"## {topic[0].upper()}{topic[1:]}"]
        asked = question(variant.key)
        lines += ["", f"**{number}.** {asked.text}", ""]
        lines += [f"**{answer_words(asked)}.** {asked.working}"] if answers else ["Answer: ______________"]
    return "\n".join(lines) + "\n"


def answer_words(asked: Asked) -> str:
    """ "1,200 bytes", "1 worker"."""
    is_one = asked.answer == 1 and len(asked.unit) > 3 and "/" not in asked.unit
    unit = asked.unit.removesuffix("es" if asked.unit.endswith("ches") else "s") if is_one else asked.unit
    return " ".join(filter(None, [shown(asked.answer), unit]))


def json_sheet(questions: Sequence[BankQuestion], variant: Variant) -> str:
    """A list of objects: name, topic, text, answer, unit, working. For a learning platform's own importer."""
    rows = [(question, question(variant.key)) for question in questions]
    return json.dumps(
        [
            {
                "name": question.name,
                "topic": question.topic,
                "text": asked.text,
                "answer": asked.answer,
                "unit": asked.unit,
                "working": asked.working,
            }
            for question, asked in rows
        ],
        ensure_ascii=False,
        indent=1,
    )
