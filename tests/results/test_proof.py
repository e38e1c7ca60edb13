"""proof.json as types: documents of earlier versions are read."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from headway.errors import InputError
from headway.narration.proof import proved
from headway.results.proof import Check, Proof, Rounding
from headway.results.schema import blank, read

RESULTS = Path(__file__).parents[2] / "docs/results"
CERTIFICATE = RESULTS / "proofs/local-addition-seed0/analysis/proof.json"
EARLIER = json.loads((RESULTS / "proofs-sortedness.json").read_text())["proofs"]


def test_a_margin_is_read_under_its_earlier_name() -> None:
    document = json.loads(CERTIFICATE.read_text())
    assert "margin" not in document
    proof = read(Proof, document, "proof.json")
    assert (proof.margin, proof.lengths) == (document["smallest_margin"], "every")
    assert (proof.counterexample, proof.counterexamples) == (None, ())
    assert read(Proof, proof.to_json(), "proof.json") == proof
    check = {"certificate": "", "holds": True, "contexts": 1, "smallest_margin": 2.5, "method": "", "seconds": 0.0}
    assert read(Check, check, "check").margin == 2.5


@pytest.mark.parametrize(("strength", "told"), [("first-order", True), ("rigorous", False)])
def test_a_proof_with_a_linear_estimate_of_rounding_says_that_it_is_no_bound(
    strength: Literal["first-order", "rigorous"], told: bool
) -> None:
    rounding = Rounding(allowance=0.5, measured=0.25, inputs=9, strength=strength)
    found = blank(Proof, answer="proved", scope="every sum", margin=1.0, rounding=rounding)
    said = " ".join(map(str, proved(found)))
    assert said.startswith("proved: right on every sum. 0 contexts, smallest margin 1 logits, of which 0.5 are allowed")
    assert ("not a rigorous bound" in said) is told


@pytest.mark.parametrize("document", EARLIER, ids=lambda document: f"seed {document['seed']}")
def test_a_list_of_counterexamples_is_read_as_the_shortest_and_the_others(document: dict[str, Any]) -> None:
    proof = read(Proof, document, "proof.json")
    assert len(proof.counterexamples) == len(document["counterexamples"]) > 1
    for one, written in zip(proof.counterexamples, document["counterexamples"], strict=True):
        assert one.tokens == tuple(map(int, one.input.split())) == tuple(written["tokens"])
        assert one.expected == str(int(list(one.tokens) == sorted(one.tokens)))
        assert one.answered == written["answered"]
    assert read(Proof, proof.to_json(), "proof.json") == proof


def test_a_proof_of_some_lengths_is_refused() -> None:
    with pytest.raises(InputError, match=r'lengths is "1 to 5"; "every" needed'):
        read(Proof, {**json.loads(CERTIFICATE.read_text()), "lengths": "1 to 5"}, "proof.json")
