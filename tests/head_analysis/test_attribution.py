"""Direct logit attribution against the model's own logits, and against a model whose parts are known."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.cli import head_lines
from headway.evaluation import Trained
from headway.head_analysis.attribution import (
    CONSTANT,
    EMBEDDING,
    Attribution,
    Part,
    _smallest_margin,
    attribute,
    why_not_defined,
)
from headway.head_analysis.variants import heads_of, run_variants, zero
from headway.narration.places import placed
from headway.reports import writing
from headway.reports.bars import bars
from headway.reports.documents import gather
from headway.reports.figures import head_figures
from headway.results.heads import HeadAnalysis, read_heads
from headway.results.schema import write
from headway.tasks import Examples
from tests.head_analysis.small import ADDITION, SORTEDNESS, TEXT, TEXT_ACROSS, untrained
from tests.reports.made_up_runs import make_run
from tests.results.made_up_values import filled


def examples_of(trained: Trained, n: int = 17) -> Examples:
    return trained.task.draw(np.random.default_rng(3), n)


@pytest.mark.parametrize("base", [ADDITION, TEXT, TEXT_ACROSS], ids=["addition", "decoder", "text"])
def test_the_parts_sum_to_the_margin_that_ablations_use(base: dict[str, Any]) -> None:
    trained = untrained(base)
    examples = examples_of(trained)
    found = attribute(trained, examples)
    assert found is not None and found.n == 17
    assert found.largest_error < 1e-4  # single precision, margins of a few logits
    assert sum(part.value for part in found.parts) == pytest.approx(found.margin, abs=1e-4)
    nothing = np.zeros((1, len(heads_of(trained))), dtype=int)
    outcomes = run_variants(trained, examples, nothing, [zero], keep_margin=True)
    assert outcomes.margin is not None
    assert found.margin == pytest.approx(float(outcomes.margin.mean()), abs=1e-5)
    names = [part.part for part in found.parts]
    assert len(set(names)) == len(names)
    decoder = [str(head) for head in heads_of(trained) if str(head).startswith("dec")]
    layers = len(trained.model.decoder)
    assert set(names) == {*decoder, *(f"dec{layer}.mlp" for layer in range(layers)), EMBEDDING, CONSTANT}
    assert set(found.not_defined) == {str(head) for head in heads_of(trained)} - set(decoder)


def test_the_smallest_margin_is_never_that_of_padding() -> None:
    """Tokens 3 and 1 are right by 4 - 1 and 2 - 0.5 logits; token 0 is padding, where another is far better."""
    logits = torch.tensor([[[0.0, 1.0, 0.0, 4.0], [0.5, 2.0, 0.0, 0.0], [0.0, 0.0, 9.0, 0.0]]])
    right, other, at, margin = _smallest_margin(logits, torch.tensor([[3, 1, 0]]), pad=0)
    assert (right.tolist(), other.tolist(), at.tolist(), margin.tolist()) == ([1], [0], [1], [1.5])


def test_a_head_that_alone_writes_the_answer_has_the_whole_margin() -> None:
    """Everything but one head is silenced, so that the margin is its alone, up to the constant and the embedding."""
    trained = untrained(TEXT_ACROSS)
    block = trained.model.decoder[0]
    width = block.own.d_head
    with torch.no_grad():
        for module in (block.own.output, block.cross.output, block.feed_forward.contract):
            module.weight.mul_(0)
            module.bias.mul_(0)
        block.cross.output.weight[:, width : 2 * width].normal_(generator=torch.Generator().manual_seed(1))
        block.cross.output.weight.mul_(5)
    found = attribute(trained, examples_of(trained))
    assert found is not None
    values = {part.part: part.value for part in found.parts}
    silent = [name for name in values if name not in ("dec0.cross.h1", EMBEDDING, CONSTANT)]
    assert len(silent) == 6 and all(values[name] == 0 for name in silent)
    assert values["dec0.cross.h1"] + values[EMBEDDING] + values[CONSTANT] == pytest.approx(found.margin, abs=1e-4)
    assert abs(values["dec0.cross.h1"]) > 0.05


def test_a_pruned_model_keeps_the_names_of_its_heads() -> None:
    trained = untrained(TEXT_ACROSS, model={"kept_heads": ["enc0.self.h0", "dec0.self.h2", "dec0.cross.h1"]})
    found = attribute(trained, examples_of(trained))
    assert found is not None and found.largest_error < 1e-4
    assert {part.part for part in found.parts if ".h" in part.part} == {"dec0.self.h2", "dec0.cross.h1"}


def test_where_it_is_not_defined_it_says_why() -> None:
    classifier = untrained(SORTEDNESS)
    assert attribute(classifier, examples_of(classifier)) is None
    assert "a classifier pools" in why_not_defined(classifier)
    post = untrained(ADDITION, model={"norm": "post"})
    assert attribute(post, examples_of(post)) is None
    assert "post-norm" in why_not_defined(post)


def test_no_hook_stays_behind() -> None:
    trained = untrained(TEXT)
    attribute(trained, examples_of(trained))
    assert not any(module._forward_hooks for module in trained.model.modules())


def test_a_missing_part_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    import headway.head_analysis.attribution as attribution

    trained = untrained(ADDITION)
    whole = attribution._note_heads

    def without_the_last(written: Any, site: Any, output: Any, given: Any, made: Any) -> None:
        whole(written, replace(site, kept=site.kept), output, given, made)
        written.pop(str(site.heads[-1]))

    monkeypatch.setattr(attribution, "_note_heads", without_the_last)
    found = attribute(trained, examples_of(trained))
    assert found is not None and found.largest_error > 0.01


# What is told of it


def made_up(**changes: Any) -> Attribution:
    parts = (
        Part(part="embedding", value=0.25, interval=(0.2, 0.3)),
        Part(part="dec0.self.h0", value=-1.5, interval=(-2.0, -1.0)),
        Part(part="dec0.cross.h2", value=4.0, interval=(3.5, 4.5)),
        Part(part="dec0.mlp", value=0.5, interval=(0.25, 0.75)),
    )
    found = Attribution(n=40, margin=3.25, parts=parts, largest_error=1e-6, not_defined=("enc0.self.h0",))
    return replace(found, **changes)


def test_it_says_who_writes_most_and_every_number_knows_its_place() -> None:
    (told,) = placed(made_up(), "heads/attribution").sentences()
    assert str(told) == (
        "Heads and MLPs that write most of the margin of 3.25 logits directly (n = 40): "
        "dec0.cross.h2 +4.00 (+3.50 to +4.50), dec0.self.h0 −1.50 (−2.00 to −1.00), dec0.mlp +0.50 (+0.25 to +0.75)."
    )
    assert 'data-at="heads/attribution/parts/2/interval/0"' in told.__html__()


def test_its_figure_has_a_bar_for_every_part() -> None:
    shown = made_up().figure()
    assert [(bar.name, bar.value) for bar in shown.bars] == [(part.part, part.value) for part in made_up().parts]
    drawn = bars(shown)
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()] == [bar.name for bar in shown.bars]


def test_parts_that_do_not_sum_to_the_margin_are_doubted() -> None:
    assert made_up().doubts() == []
    assert made_up(largest_error=0.5).doubts() == ["the parts of the margin miss it by up to 0.5 logits"]


def test_it_is_read_as_a_part_of_heads_json_without_torch() -> None:
    document = {**filled(HeadAnalysis, {}), "attribution": write(made_up())}
    found = HeadAnalysis.from_json(document)
    assert found.part(Attribution) == made_up()
    assert found.to_json()["attribution"] == document["attribution"]
    assert HeadAnalysis.from_json(filled(HeadAnalysis, {})).part(Attribution) is None
    code = "import sys; from headway.results.analyses import further; further(); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_that_is_known_of_it_reaches_terminal_report_and_doctor(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", analyses=("heads", "doctor"))
    document = run.read_analysis("heads") or {}
    run.replace_analysis("heads", {**document, "attribution": write(made_up(largest_error=0.5))})
    found = read_heads(run)
    assert found is not None
    assert "write most of the margin of 3.25 logits" in "\n".join(head_lines.summary(found))
    assert "the parts of the margin miss it by up to 0.5 logits" in found.doubts()
    assert "attribution" in dict(head_figures(found))
    gathered = gather([run.path])
    text = str(writing.compose(gathered.documents, gathered.name).sections)
    assert "What heads write directly" in text and "attribution/parts/2/value" in text
