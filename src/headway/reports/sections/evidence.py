"""The section on evidence: a sample, an attack and a proof are three different strengths of it."""

from collections.abc import Iterator

from headway.narration import attack as narrated
from headway.narration.accuracy import SPLITS, WHOLE
from headway.narration.attack import failures, where
from headway.narration.numbers import number, percent
from headway.narration.proof import first_order
from headway.narration.tables import Table, words
from headway.narration.text import Strong, Words, code, text
from headway.reports.blocks import Block, Listing, Paragraph, Section, paragraph
from headway.reports.documents import Documents, RunDocuments
from headway.results.attack import Attack

MOST_RUNS = 12
"""With more runs, only those with an attack or a proof are listed."""
ABOUT = (
    "A sample measures how often a model is right on random inputs; an attack searches for inputs that fail, and "
    "proves nothing if it finds none; a proof covers every input."
)
NOT_ASKED = "not asked"


def section(documents: Documents) -> Section | None:
    """A row for each strength, and details of every attack."""
    asked = [run for run in documents.runs if run.attack is not None or run.proof is not None]
    told = [run for run in documents.runs if run in asked or run.best_evaluation is not None or run.lengths is not None]
    told = told if len(told) <= MOST_RUNS else asked
    if not told:
        return None
    several = len(documents.runs) > 1
    rows = [[*([code(run.name)] * several), *row] for run in told for row in strengths(run)]
    columns = words(*["run"] * several, "strength", "what was asked", "what was found")
    blocks: list[Block] = [Paragraph([ABOUT]), Table("Sample, attack and proof", columns, rows)]
    parts = [of_attack(run, run.attack) for run in told if run.attack is not None]
    return Section("evidence", "Sample, attack, proof", blocks, parts)


def strengths(run: RunDocuments) -> Iterator[list[Words]]:
    """The rows of a run, from the weakest to the strongest evidence."""
    yield from samples(run)
    yield ["attack", *attack_row(run.attack)]
    yield ["proof", *proof_row(run)]


def samples(run: RunDocuments) -> Iterator[list[Words]]:
    """Accuracy, on all inputs if they were all tested; and the length held, which is based on samples."""
    found, lengths = run.best_evaluation, run.lengths
    if found is not None:
        kind = "every input" if found.split == WHOLE else "sample"
        wrong = text("{} wrong, {} right", number(found.wrong), number(found.accuracy, percent))
        yield [kind, text("{} inputs of {}", number(found.n), SPLITS[found.split]), wrong]
    if lengths is not None:
        asked = text("{} examples of each set at each length", number(lengths.n))
        yield ["sample", asked, text("held to {} {}", number(lengths.length_held), lengths.unit)]
    if found is None and lengths is None:
        yield ["sample", NOT_ASKED, ""]


def attack_row(found: Attack | None) -> list[Words]:
    if found is None:
        return [NOT_ASKED, ""]
    asked = text("{} inputs tried{}", number(found.tried), where(found))
    if found.broken:
        return [asked, text("{} {}", Strong("wrong answers:"), failures(found))]
    return [asked, "no failing input, which proves nothing"]


def proof_row(run: RunDocuments) -> list[Words]:
    if run.proof is None:
        return [NOT_ASKED, ""]
    limit = ", with a first-order bound of rounding" if first_order(run.proof) else ""
    return [text("every input: {}", run.proof.scope), text("{}{}", Strong(run.proof.answer), limit)]


def of_attack(run: RunDocuments, found: Attack) -> Section:
    """The failing inputs, the inputs tried, and the fall of the smallest margin."""
    blocks = paragraph(narrated.story(found, run.name))
    if found.counterexamples:
        blocks.append(Listing([narrated.failing(one) for one in found.counterexamples]))
    blocks += [table for table in (narrated.family_table(found), narrated.length_table(found)) if table is not None]
    blocks += paragraph(narrated.afterwards(found))
    return Section(f"attack-{run.anchor}", text("The attack on {}", code(run.name)), blocks, folded=not found.broken)
