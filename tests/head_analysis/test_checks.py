"""The instruments' own checks: silent on a healthy model, loud on every planted fault."""

from collections.abc import Callable

import numpy as np
import pytest
from torch import Tensor

from headway.errors import InstrumentError
from headway.evaluation import Trained
from headway.head_analysis import checks, handles, partial_forward
from headway.head_analysis.checks import check_instruments
from headway.head_analysis.head_runs import KINDS
from headway.head_analysis.partial_forward import PartialForward, Replacement
from headway.head_analysis.variants import heads_of
from headway.model import attention
from headway.model.attention import Visibility
from headway.tasks.addition_text import AdditionText
from tests.head_analysis.small import SHAPES, favour, half_trained
from tests.head_analysis.test_variants import randomised


def some(trained: Trained, count: int = 12):  # type: ignore[no-untyped-def]
    return trained.examples("test").take(slice(0, count))


# Healthy models


@pytest.mark.parametrize("name", SHAPES)
def test_a_healthy_model_has_no_disagreements(name: str) -> None:
    trained = randomised(SHAPES[name], norm="post" if "text" in name else "pre")
    found = check_instruments(trained, some(trained, 5))
    variants = 1 + len(KINDS) * len(heads_of(trained))
    assert found.decoded == 5 * variants
    assert (found.disagreements, found.real_disagreements) == (0, 0)
    assert found.identity == 0.0
    assert found.misplaced == ()
    assert found.weights_off_one < 1e-6  # fp32 sums of a dozen weights


@pytest.mark.parametrize("task", ["addition", "sortedness"])
def test_a_half_trained_model_has_none_either(task: str) -> None:
    trained = half_trained(task)
    found = check_instruments(trained, some(trained, 32))
    assert (found.disagreements, found.real_disagreements) == (0, 0)


@pytest.mark.parametrize("name", SHAPES)
def test_a_model_without_heads_can_be_checked(name: str) -> None:
    trained = randomised(SHAPES[name], kept_heads=[])
    found = check_instruments(trained, some(trained))
    assert (found.decoded, found.disagreements, found.identity, found.weights_off_one) == (12, 0, 0.0, 0.0)


def test_an_ablated_answer_may_go_on_past_the_end_of_the_right_one() -> None:
    """Answers of unequal lengths, and a model that never writes the end."""
    for name in ("text, decoder-only", "text, encoder-decoder"):
        trained = favour(randomised(SHAPES[name]), AdditionText.vocabulary.eos, by=-1e6)
        found = check_instruments(trained, some(trained), ["position-mean", "resample"])
        assert found.disagreements == 0


def test_only_the_kinds_asked_for_are_decoded() -> None:
    trained = randomised(SHAPES["sortedness"])
    assert check_instruments(trained, some(trained), ["mean"]).decoded == 12 * (1 + 6)


# Planted faults


def see_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder whose mask is broken: the sweep reads ahead, and decoding cannot."""
    monkeypatch.setattr(Visibility, "mask", lambda self, queries, n_queries, n_keys, device: None)


def corrupted(change: Callable[[Tensor], Tensor]) -> Callable[[pytest.MonkeyPatch], None]:
    """A sweep that puts in something else than it was given."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        right = checks.run_tree

        def run_tree(way: PartialForward, plan: np.ndarray, replacements: list[Replacement], emit) -> None:  # type: ignore[no-untyped-def]
            right(way, plan, [{site: change(f[site]) for site in f} for f in replacements], emit)

        monkeypatch.setattr(checks, "run_tree", run_tree)

    return plant


def wrong_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that replaces the head beside the one meant."""
    right = partial_forward.patch_heads
    monkeypatch.setattr(
        partial_forward, "patch_heads", lambda heads, site, way, f: right(heads, site, np.roll(way, 1), f)
    )


def wrong_site(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that loses count of the columns: the heads of a site are the plan's first ones."""
    right = partial_forward._Tree.grow
    monkeypatch.setattr(
        partial_forward._Tree, "grow", lambda tree, state, step, column, groups: right(tree, state, step, 0, groups)
    )


FAULTS = [see_the_future, corrupted(lambda f: f + 3.0), corrupted(lambda f: f.roll(1, 0) if f.ndim == 4 else f)]
FAULTS += [wrong_head, wrong_site]


@pytest.mark.parametrize(
    "fault", FAULTS, ids=["see the future", "another replacement", "another row", "another head", "another site"]
)
def test_a_planted_fault_is_seen_as_a_real_disagreement(fault, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = half_trained("addition")
    fault(monkeypatch)
    found = check_instruments(trained, some(trained, 32))
    assert found.disagreements >= found.real_disagreements > 0


@pytest.mark.parametrize("fault", [FAULTS[1], wrong_head], ids=["another replacement", "another head"])
def test_so_it_is_in_a_classifier(fault, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = randomised(SHAPES["sortedness"])
    fault(monkeypatch)
    assert check_instruments(trained, some(trained, 40)).real_disagreements > 0


def test_a_fault_as_small_as_rounding_is_no_real_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the two best tokens are nearly equal, another order of sums may decide."""
    trained = half_trained("addition")
    corrupted(lambda f: f + 3.0)(monkeypatch)
    monkeypatch.setattr(checks, "NEAR_TIE", 1e9)
    found = check_instruments(trained, some(trained, 32))
    assert found.disagreements > 0
    assert found.real_disagreements == 0


@pytest.mark.parametrize("off", [2e-4, -5.0, float("nan")])
def test_a_walk_that_is_not_the_models_pass_is_refused(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    right = PartialForward.logits
    monkeypatch.setattr(PartialForward, "logits", lambda self, state: right(self, state) + off)
    trained = randomised(SHAPES["addition"])
    with pytest.raises(
        InstrumentError,
        match=r"with every head kept, the partial forward pass differs from the model by (0.0002|5|nan)",
    ):
        check_instruments(trained, some(trained))


def test_a_pass_that_leaves_out_a_layer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = PartialForward.continue_from

    def skip(self, state, site, heads):  # type: ignore[no-untyped-def]
        return state if site.name == "decoder.1.cross" else right(self, state, site, heads)

    monkeypatch.setattr(PartialForward, "continue_from", skip)
    trained = randomised(SHAPES["addition"])
    with pytest.raises(InstrumentError, match="the partial forward pass differs from the model by"):
        check_instruments(trained, some(trained))


def exchanged_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that looks up the other layer: the sweep of all heads at once would not show it."""
    right = handles.attention_at

    def other(model, name):  # type: ignore[no-untyped-def]
        stack, layer, looks = name.split(".")
        return right(model, f"{stack}.{1 - int(layer)}.{looks}")

    monkeypatch.setattr(handles, "attention_at", other)


def exchanged_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are recorded under the name of the other layer."""
    right = attention.MultiHeadAttention.head_outputs_at

    def head_outputs_at(self, x, key, value, place, visibility, record=None, name=""):  # type: ignore[no-untyped-def]
        if record is not None:
            stack, layer, looks = name.split(".")
            name = f"{stack}.{1 - int(layer)}.{looks}"
        return right(self, x, key, value, place, visibility, record, name)

    monkeypatch.setattr(attention.MultiHeadAttention, "head_outputs_at", head_outputs_at)


@pytest.mark.parametrize(
    ("fault", "instrument"),
    [(exchanged_layers, "hook"), (exchanged_maps, "map"), (wrong_head, "sweep"), (wrong_site, "sweep")],
)
def test_an_instrument_on_another_head_is_named(fault, instrument: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = randomised(SHAPES["sortedness"])
    fault(monkeypatch)
    found = check_instruments(trained, some(trained))
    assert f"{instrument} enc0.self.h1" in found.misplaced
    assert found.doubts()


def test_weights_that_do_not_add_up_to_one_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    right = attention.attend

    def attend(*arguments):  # type: ignore[no-untyped-def]
        mixed, weights = right(*arguments)
        return mixed, weights * 1.25

    monkeypatch.setattr(attention, "attend", attend)
    trained = randomised(SHAPES["text, decoder-only"])
    assert check_instruments(trained, some(trained)).weights_off_one == pytest.approx(0.25, abs=1e-5)
