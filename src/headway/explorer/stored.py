"""The explorer's page of a model of another program: stored examples, with answers that were computed before."""

from importlib.resources import files

import jinja2
from markupsafe import Markup

from headway.errors import InputError
from headway.json_values import JsonObject
from headway.results.heads import HeadAnalysis
from headway.runs import ModelDirectory
from headway.self_contained_html import policy, script_json


def stored_document(model: ModelDirectory) -> JsonObject:
    """The stored examples with attention and answers, and the verdict of every head."""
    record, found = model.record(), model.read_result(HeadAnalysis, "heads")
    if found is None or not record.examples or len(record.examples) != len(found.capture.examples):
        raise InputError(f"{model.path} has no stored examples to show; headway heads ... --out makes them")
    for one, stored in zip(found.capture.examples, record.examples, strict=True):
        for head in found.verdicts:
            if head not in stored.without or not any(one.weights.get(head, ())):
                raise InputError(
                    f"{model.path}: head {head} of heads.json has no stored answer or no attention; "
                    "headway heads ... --out makes them again"
                )
    examples: list[JsonObject] = [
        {
            "source": list(one.source),
            "prefix": list(one.prefix),
            "target": list(one.target),
            "answer": list(stored.answer),
            "without": {head: list(answer) for head, answer in stored.without.items()},
            "weights": {head: [list(row) for row in table] for head, table in one.weights.items()},
        }
        for one, stored in zip(found.capture.examples, record.examples, strict=True)
    ]
    return {"name": record.model, "heads": list(found.verdicts), "verdicts": dict(found.verdicts), "examples": examples}


def render_stored(document: JsonObject, report: str | None) -> str:
    """The page's text; its content security policy allows its own script and style alone."""
    folder = files("headway.explorer") / "stored_page"
    page, style, script = (
        (folder / name).read_text(encoding="utf-8") for name in ("page.html", "style.css", "page.js")
    )
    examples = document["examples"]
    assert isinstance(examples, list)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(page).render(
        title=document["name"],
        count=len(examples),
        report=report,
        style=Markup(style),
        script=Markup(script),
        data=Markup(script_json(document)),
        policy=policy(style, [script]),
    )
