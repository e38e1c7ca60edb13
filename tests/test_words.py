"""Words that headway no longer uses, because the field has better ones: none of them comes back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RETIRED = {
    r"\bWalk\b|\bgo_on\b|\blook_at_self\b|\blook_across\b": "PartialForward, continue_from, ..._attention_outputs",
    r"\b[Ff]illings?\b|\bFillingOf\b": "replacement",
    r"\bput_in\b|\bput_in_each\b": "patch_heads, patch_each",
    r"\bdonors?\b": "source of a patch",
    r"\bGround\b": "HeadRuns",
    r"\bcarry_over\b": "patching_flip_rates",
    r"\bdissect\b": "analyse_errors",
    r"\bCircumstances\b": "JobOptions",
    r"\bMember\b": "SeedRun",
    r"\b(Fixed|Fresh)Feed\b|\bmake_feed\b": "prefetcher",
    r"\bput_together\b": "summarise_seeds",
    r"\bwritings\b": "augmentations",
    r"head_analysis[/.](walk|together|anatomy)\b|studies[/.](pieces|closing)\b": "partial_forward, joint_ablation, ...",
    r"diagnosis[/.]visit\b|reports[/.]gathering\b|training[/.](member|feed)\b": "examine, documents, ...",
    r"[Pp]arallel pass": "teacher-forced pass",
    r"(decode[sd]|answers) [^.]*for real\b|[Rr]eal decoding|[Rr]eal greedy decoding": "greedy decoding",
    r"masks of (taking|answering)|separate masks|the plain mask": "ways, branches, method",
    r"\bforesees?\b|\bforesaw\b": "predicts",
    r"\bkept keys\b": "KV cache",
    r"back each other up": "redundant pair",
    r"whole or not at all": "atomic",
    r"backwards only": "causal",
    r"what (a|the) heads? brings?\b": "head output",
    r"one page a command|five seeds of five|five of five seeds": "plain order",
    r"heads that can go\b": "can be removed together",
    r"where they are there": "if they exist",
    r"told seed by seed": "listed by seed",
    r"(shown )?by every way\b": "by every kind of ablation",
    r"no word between host and device": "no host-device synchronisation",
    r"what (these|those) cost together": "their joint drop",
    r"silences that very head": "ablates that head",
    r"[Ww]hat (a|the) heads? (gives|gave)\b": "head output",
    r"(does|do) not go jointly": "cannot be removed together",
    r"\bforeseen\b|\bforetells?\b": "predicted, predicts",
    r"\bparallel_pass\b": "teacher_forced_pass",
    r"\bwalk_differs\b|subject\.walked\b": "partial_forward_differs, partial_forward",
    r"KNOWN_BY_HEART|[Kk]nown by heart|knows by heart": "memorised",
    r"(chosen to|can|could) go (together|for (less|fewer))": "can be removed",
    r"(one|a) (record|row|line|diagnosis|entry|object) an? (run|row|head|setting|trial|check|cell|seed|fact)\b": "per",
    r"stands? there twice": "is repeated",
    r"number for number": "exactly equal",
    r"whatever (it sees|is asked|it is asked)": "to every input, constant answer",
    r"can(not)? be believed|[Bb]elieve no ": "invalid, do not use",
    r"different visits|\bA visit\b": "an examination",
    r"checkpoint that counts": "chosen checkpoint",
    r"the very (same|values|batches|numbers|loss)|that very (head|id)": "the same",
    r"from which on\b": "from which",
    r"only this door|holds? (the|a) task to": "imported by name; checks the contract",
    r"what came of|how it stands": "the result, the state",
    r"nobody (asks|should|reads|waits)": "plain order",
}
"""Regular expression -> what is said instead (docs/glossary.md)."""
EXCEPTIONS = {
    ("src/headway/head_analysis/head_runs.py", "donors"): "a name that random numbers are derived from",
}


def files() -> list[Path]:
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for ending in ("*.py", "*.js", "*.html", "*.css"):
        found += (ROOT / "src").rglob(ending)
    return [path for path in found if path.name != "log.md"]  # a log keeps the words of its day


@pytest.mark.parametrize("name", ["Plan", "Report", "Table", "Progress", "Stack", "compare", "stack"])
def test_a_name_that_had_many_meanings_has_one(name: str) -> None:
    """A command has the name of the function that it calls, so `cli` may define it once more."""
    source = [path for path in (ROOT / "src").rglob("*.py") if "cli" not in path.parts]
    defined = re.compile(rf"^\s*(class|def) {name}\b|^{name} = ", re.MULTILINE)
    found = [str(path.relative_to(ROOT)) for path in source for _ in defined.finditer(path.read_text())]
    assert len(found) <= 1, found


@pytest.mark.parametrize("retired", RETIRED)
def test_a_retired_word_does_not_come_back(retired: str) -> None:
    found = []
    for path in files():
        name = str(path.relative_to(ROOT))
        if any(name == where and re.search(retired, example) for where, example in EXCEPTIONS):
            continue
        text = path.read_text()
        if path.suffix == ".md":  # prose breaks its lines anywhere
            text = re.sub(r"(?<=\S)\n(?=[^\s|#-])", " ", text)
        for line in text.splitlines():
            if match := re.search(retired, line):
                found.append(f"{name}: {line[max(0, match.start() - 40) : match.end() + 40]}")
    assert found == [], f"say {RETIRED[retired]}"
