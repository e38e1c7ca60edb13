"""`hw.heads` on models of other programs: every number against a plain hook, and errors in one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import headway as hw
from headway.attached_analysis.attached_runs import AttachedRuns
from headway.attached_analysis.examples import read_data
from headway.attached_analysis.hf_checkpoints import read_texts
from headway.attached_analysis.metrics import METRICS, find_metric
from headway.attached_analysis.token_scores import token_parts
from headway.attachment.attached import Attached, attach
from headway.errors import InputError
from headway.head_analysis.ablation import ablate
from headway.results.heads import HeadAnalysis
from tests.attachment.small_models import VOCABULARY, made

ROWS = 24


def data_for(name: str) -> tuple[Attached, dict[str, Tensor]]:
    model, batch = made(name)
    random = torch.Generator().manual_seed(3)
    columns = {key: column.repeat(ROWS // len(column), 1) for key, column in batch.items()}
    columns["input_ids"] = torch.randint(3, VOCABULARY, columns["input_ids"].shape, generator=random)
    attached = attach(model, example=batch)
    answers = attached.logits(columns).argmax(-1)
    columns["labels"] = torch.where(torch.rand(answers.shape, generator=random) < 0.9, answers, 1)
    for key in ("answer", "other"):
        columns[key] = torch.randint(3, VOCABULARY, (ROWS,), generator=random)
    return attached, columns


def zeroed(attached: Attached, columns: dict[str, Tensor], head: int) -> Tensor:
    """The logits of a full pass with one head set to zero by a hook."""
    place = attached.heads[head]

    def edit(heads: Tensor) -> Tensor:
        heads = heads.clone()
        heads[:, :, place.index] = 0
        return heads

    arguments = {key: column for key, column in columns.items() if key not in ("labels", "answer", "other")}
    with attached.intervene({place.site_name: edit}):
        return attached.run(arguments)


def by_hand(metric: str, logits: Tensor, whole: Tensor, columns: dict[str, Tensor]) -> np.ndarray:
    """The metric of every row, in a loop over rows and tokens."""
    real = columns["attention_mask"].bool()
    found = []
    for row in range(ROWS):
        places = real[row].nonzero().flatten().tolist()
        if metric == "logit_difference":
            last = logits[row, places[-1]]
            found.append(float(last[columns["answer"][row]] - last[columns["other"][row]]))
        elif metric == "kl":
            before, after = whole[row].log_softmax(-1), logits[row].log_softmax(-1)
            apart = (before.exp() * (before - after)).sum(-1)
            found.append(float(apart if apart.ndim == 0 else apart[places].mean()))
        else:
            ids = columns["input_ids"][row]
            each = [logits[row, place].log_softmax(-1) for place in places[:-1]]
            after = [int(ids[place + 1]) for place in places[:-1]]
            if metric == "next_token_loss":
                found.append(-float(np.mean([float(one[token]) for one, token in zip(each, after, strict=True)])))
            else:
                found.append(float(np.mean([int(one.argmax()) == t for one, t in zip(each, after, strict=True)])))
    return np.array(found)


CASES = [
    *((name, metric) for name in ("gpt2", "llama") for metric in METRICS if METRICS[metric].value is not None),
    *(("bert", "kl"), ("bart", "accuracy"), ("t5", "accuracy")),
]


@pytest.mark.parametrize(("name", "metric"), CASES)
def test_every_head_costs_what_a_full_pass_with_a_hook_says(name: str, metric: str) -> None:
    attached, columns = data_for(name)
    runs = AttachedRuns(attached, read_data(columns), find_metric(metric))
    heads = len(attached.heads)
    found = runs.run(np.concatenate([np.zeros((1, heads), dtype=np.int64), np.eye(heads, dtype=np.int64)]))
    whole = attached.run({key: x for key, x in columns.items() if key not in ("labels", "answer", "other")})
    for head in range(heads):
        logits = zeroed(attached, columns, head)
        if metric == "accuracy":
            right = (logits.argmax(-1) == columns["labels"]).all(-1).numpy()
            assert found.right[head + 1].tolist() == right.tolist()
            continue
        chosen = find_metric(metric)
        values = found.values[head + 1] * runs.scale * chosen.sign
        assert values == pytest.approx(by_hand(metric, logits, whole, columns), abs=1e-4)
        before = by_hand(metric, whole, whole, columns)
        change = (before - values).mean() * chosen.sign / runs.scale * 100
        drop = ablate(runs, kinds=["zero"]).drops["zero"][str(attached.heads[head])] if head == 1 else None
        assert drop is None or drop.drop == pytest.approx(change, abs=1e-3)


def test_the_whole_analysis_is_one_document() -> None:
    attached, columns = data_for("gpt2")
    pairs = {key: column.flip(0) for key, column in columns.items()}
    found = hw.heads(attached, columns, "logit_difference", source=pairs, separators=[5])
    assert found.metric is not None and found.metric.unit == "logits" and found.doubts() == []
    assert found.unit_of_drops == "% of the whole model's mean logit difference"
    assert HeadAnalysis.from_json(found.to_json()) == found
    assert [head.name for head in found.heads] == [str(head) for head in attached.heads]
    row = found.heads[0]
    assert {"induction", "duplicate_token", "first_token", "separator", "previous_token"} <= row.scores.keys()
    assert set(row.ablation) == {"zero", "mean", "position-mean", "resample"}
    assert all(drop.spread is not None for head in found.heads for drop in head.ablation.values())
    everything = next(one for one in found.interventions.contrasts[0].rows if one.who == "all decoder")
    assert everything.effect_interval is None or everything.effect_interval[0] <= (everything.effect or 0)


def test_generated_text_is_what_greedy_steps_with_a_hook_write() -> None:
    """Three tokens after each prompt, one pass for each token, with nothing, one head or two heads set to zero."""
    attached, columns = data_for("gpt2")
    prompt = {"input_ids": columns["input_ids"], "attention_mask": torch.ones_like(columns["input_ids"])}
    heads = len(attached.heads)

    def written(chosen: list[int]) -> Tensor:
        edits = {}
        for site in attached.sites:
            own = [attached.heads[head].index for head in chosen if attached.heads[head].site_name == site.name]
            keep = torch.tensor([index not in own for index in range(site.n_heads)])[:, None]
            edits[site.name] = lambda x, keep=keep: x * keep
        ids = prompt["input_ids"]
        for _ in range(3):
            with attached.intervene(edits):
                logits = attached.run({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
        return ids[:, -3:]

    choices = [[], *([head] for head in range(heads)), [1, heads - 1]]
    masks = np.array([[head in chosen for head in range(heads)] for chosen in choices], dtype=np.int64)
    whole = written([])
    runs = AttachedRuns(attached, read_data({**prompt, "labels": whole}), find_metric("generated"))
    found = runs.run(masks).right
    wanted = np.stack([(written(chosen) == whole).all(1).numpy() for chosen in choices])
    assert found[0].all() and not wanted.all(1)[1:].all()
    assert np.array_equal(found, wanted)


class Spells:
    """A tokenizer as far as headway asks it."""

    all_special_ids = (5, 6)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [f"<{one}>" for one in ids]


@pytest.mark.parametrize(("separators", "scored"), [(None, True), ([7], True), ([], False)])
def test_special_tokens_are_separators_unless_separators_are_given(separators: list[int] | None, scored: bool) -> None:
    attached, columns = data_for("bert")
    found = hw.heads(attached, columns, kinds=["zero"], maps=1, tokenizer=Spells(), separators=separators)
    assert ("separator" in found.definitions) is scored
    assert ("separator" in found.heads[0].scores) is scored


def test_a_hook_that_is_off_by_one_head_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the sweep ablates the neighbour of the head that it names."""
    from headway.attached_analysis import shared_prefix

    attached, columns = data_for("bert")
    true = shared_prefix.patch_each
    monkeypatch.setattr(
        shared_prefix, "patch_each", lambda heads, site, masks, filled: true(heads, site, np.roll(masks, 1, 1), filled)
    )
    found = hw.heads(attached, columns, "accuracy", kinds=["zero"])
    assert any("another head than they name" in reason for reason in found.doubts())


def test_parts_of_tokens() -> None:
    ids = torch.tensor([[7, 8, 9, 7, 8]])
    parts = token_parts(ids, torch.ones_like(ids, dtype=torch.bool), separators=[9])
    assert parts["induction"][0].nonzero().tolist() == [[3, 1], [4, 2]]
    assert parts["duplicate_token"][0, 3].nonzero().flatten().tolist() == [0]
    assert parts["separator"][0, 0].nonzero().flatten().tolist() == [2]
    assert parts["first_token"][0].sum(1).tolist() == [1] * 5


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"metric": "accurcy"}, "unknown metric 'accurcy'; did you mean accuracy"),
        ({"labels": None}, {}, "metric 'accuracy' needs 'labels' in the data, which has input_ids"),
        ({"labels": torch.zeros(3)}, {}, "different numbers of rows"),
        ({}, {"kinds": ["resample"], "metric": "generated"}, "metric 'generated' with ablation 'resample'"),
        ({}, {"kinds": ["cero"]}, "unknown kind of ablation 'cero'"),
    ],
)
def test_wrong_uses(change: dict[str, Any], options: dict[str, Any], message: str) -> None:
    attached, columns = data_for("gpt2")
    columns = {key: column for key, column in {**columns, **change}.items() if column is not None}
    with pytest.raises(InputError, match=message.replace("(", "\\(")):
        hw.heads(attached, columns, **options)


def test_other_wrong_uses() -> None:
    attached, columns = data_for("bert")
    few = {key: column[:5] for key, column in columns.items()}
    with pytest.raises(InputError, match="5 examples; at least 20 needed"):
        hw.heads(attached, few)
    with pytest.raises(InputError, match="needs data"):
        hw.heads(attached)
    with pytest.raises(InputError, match="takes no data"):
        hw.heads("addition-seed0", columns)
    with pytest.raises(InputError, match="a mapping of tensors, or a tuple"):
        hw.heads(attached, ["a text"])
    with pytest.raises(InputError, match="24 examples have 5 sources"):
        hw.heads(attached, columns, source=few, kinds=["zero"])


@pytest.mark.parametrize(("most", "lines"), [(1, [2]), (3, [2, 5, 6]), (4, [2, 5, 6, 9]), (9, [2, 5, 6, 9])])
@pytest.mark.parametrize("suffix", ["txt", "jsonl"])
def test_as_many_texts_are_read_as_were_asked_for_and_blank_lines_are_none(
    tmp_path: Path, suffix: str, most: int, lines: list[int]
) -> None:
    texts = {2: "good film", 5: "bad plot", 6: "very good", 9: "not bad"}
    shown = [texts.get(number, "  " if number % 3 else "") for number in range(1, 11)]
    if suffix == "jsonl":
        shown = [json.dumps({"text": text}) if text.strip() else text for text in shown]
    path = tmp_path / f"texts.{suffix}"
    path.write_text("\n".join(shown))
    found = read_texts(path, None, None, most)
    assert [(row.line, row.text) for row in found] == [(number, texts[number]) for number in lines]
