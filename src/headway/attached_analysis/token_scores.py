"""What a head of a foreign model looks at, from token ids alone, and its attention on a few examples."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.attached_analysis.examples import IGNORED, ModelExamples
from headway.attachment.attached import Attached
from headway.attachment.sites import AttachedSite
from headway.head_analysis.capture import DECIMALS, LONGEST_SHOWN, rounded
from headway.head_analysis.scores import HeadScores, ScoreSums, scores_of_weights
from headway.model.sites import HeadSite
from headway.results.attention import Capture, ExampleAttention

Names = Callable[[Sequence[int]], list[str]]
"""Token ids -> what each is called."""

PARTS = {
    "first_token": "the first token that is no padding.",
    "separator": "separator tokens (given by `separators=`, else those that the tokenizer calls special).",
    "duplicate_token": "other tokens with the query's own id.",
    "induction": "tokens right after an earlier token with the query's own id (Elhage et al. 2021).",
}
"""What each part of an example is; shares of attention on them are scores."""


def token_parts(
    ids: Int[Tensor, "batch token"], real: Bool[Tensor, "batch token"], separators: Sequence[int] = ()
) -> dict[str, Bool[Tensor, "batch query key"]]:
    """The parts of a sequence that attends to itself.

    In `a b c a`, the last token's duplicate is the first token, and its induction token is the second.
    """
    size = ids.shape[1]
    back = torch.arange(size, device=ids.device)[:, None] - torch.arange(size, device=ids.device)[None]
    alike = ids[:, :, None] == ids[:, None, :]
    after = torch.zeros_like(alike)
    after[:, :, 1:] = alike[:, :, :-1] & real[:, None, :-1]
    first = real & (real.cumsum(1) == 1)
    marks = torch.isin(ids, torch.tensor(list(separators), device=ids.device, dtype=ids.dtype)) & real
    found = {
        "first_token": first[:, None].expand_as(alike),
        "duplicate_token": alike & (back != 0),
        "induction": after & (back >= 0),
    }
    return found | ({"separator": marks[:, None].expand_as(alike)} if len(separators) else {})


@torch.no_grad()
def score_heads(attached: Attached, examples: ModelExamples, separators: Sequence[int] = ()) -> HeadScores:
    """The scores of every head over the examples."""
    sums = ScoreSums()
    for _, part in examples.parts(attached.device):
        arguments = part.arguments()
        queries, keys = attached.query_mask(arguments), attached.key_mask(arguments)
        for name, weights in attached.attention(arguments).items():
            site = attached.site(name)
            seen = visible(site, queries[name], keys[name], weights)
            parts = {}
            if site.kind != "cross" and part.inputs.ndim == 2 and part.inputs.shape[1] == weights.shape[-1]:
                parts = token_parts(part.inputs, queries[name], separators)
            scores = scores_of_weights(weights.float(), seen, parts, across=site.kind == "cross")
            for score, (values, uniform) in scores.items():
                sums.add(HeadSite(site.heads[0].site, site.kept), score, values, uniform)
    return sums.result(len(examples))


def visible(site: AttachedSite, queries: Tensor, keys: Tensor, weights: Tensor) -> Bool[Tensor, "batch query key"]:
    """Which keys each real query may see. A decoder sees no later ones, unless its weights show that it does."""
    seen = queries[:, :, None] & keys[:, None, :]
    if site.causal and weights.shape[-1] == weights.shape[-2] and not bool(weights.triu(1).any()):
        seen = seen & torch.ones_like(seen[0]).tril()
    return seen


@torch.no_grad()
def capture(attached: Attached, examples: ModelExamples, maps: int, names: Names) -> Capture:
    """Every head's weights on the first examples; longer ones are left out."""
    found = [
        _captured(attached, one, source, prefix, names)
        for one, source, prefix in shown(attached, examples, maps, names)
    ]
    return Capture(decimals=DECIMALS, class_names=None, examples=tuple(found), mean=None)


def shown(
    attached: Attached, examples: ModelExamples, maps: int, names: Names
) -> Iterator[tuple[ModelExamples, list[str], list[str]]]:
    """The first examples that are not too long, each with the tokens that encoder and decoder read."""
    for row in range(min(maps, len(examples))):
        one = examples.take(slice(row, row + 1)).to(attached.device)
        source, prefix = _tokens(attached, one, names)
        if max(len(source), len(prefix)) <= LONGEST_SHOWN:
            yield one, source, prefix


def _captured(
    attached: Attached, one: ModelExamples, source: list[str], prefix: list[str], names: Names
) -> ExampleAttention:
    arguments = one.arguments()
    queries, keys = attached.query_mask(arguments), attached.key_mask(arguments)
    weights = {
        str(head): rounded(table[0, place][queries[name][0]][:, keys[name][0]].float().cpu().numpy())
        for name, table in attached.attention(arguments).items()
        for place, head in enumerate(attached.site(name).heads)
    }
    answer = attached.logits(arguments)[0].argmax(-1)
    label = one.columns.get("labels")
    right = [] if label is None else [x for x in label[0].reshape(-1).tolist() if x != IGNORED]
    wrote = answer.reshape(-1).tolist() if label is not None and label[0].numel() == answer.numel() else []
    return ExampleAttention(
        source=tuple(source),
        target=tuple(map(str, right)),
        generated=tuple(map(str, wrote)) if wrote else tuple(prefix),
        prefix=tuple(prefix),
        weights=weights,
    )


def _tokens(attached: Attached, one: ModelExamples, names: Names) -> tuple[list[str], list[str]]:
    """What encoder and decoder read; a model with one stack reads as an encoder does."""
    source = names([int(x) for x in one.inputs[0][one.real()[0]].reshape(-1).tolist()])
    if not any(site.kind == "cross" for site in attached.sites):
        decodes = any(site.kind == "decoder" for site in attached.sites)
        return ([], source) if decodes else (source, [])
    columns: Mapping[str, Tensor] = one.columns
    second = columns.get("decoder_input_ids", columns.get("argument 1"))
    return source, [] if second is None else names([int(x) for x in second[0].reshape(-1).tolist()])
