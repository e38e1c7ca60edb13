"""Sentences and tables about length generalization."""

from collections.abc import Iterator, Sequence

from headway.narration.numbers import NONE, interval, lowest, number, percent, ratio, with_interval
from headway.narration.places import place_of
from headway.narration.tables import Column, Table, words
from headway.narration.text import Aside, Code, Text, Words, code, join, listed, quote, text
from headway.results.lengths import GIVEN, LengthRow, Lengths, RowOverSeeds, SeedSummary, SetOverSeeds
from headway.results.study import StudyCell

SETS = {
    "swaps": "random swaps",
    "adjacent": "one adjacent inversion",
    "matched": "one adjacent inversion, gaps as in training",
    "sums": "random sums",
    "ripple": "sums with one travelling carry or none",
    "full": "9...9 + m",
    "nines": "sums of mostly 0 and 9",
    "plateaus": "constant runs in order",
    "descents": "a descent between constant runs",
    "files": "the test files",
}
STRICTEST = "adjacent"
"""The set on which a wrong rule is least likely to be right."""
NEARLY = 0.98
"""Share of one answer from which a row counts as nearly constant."""
LONGEST_SHOWN = 120
"""Characters of an example that are shown."""
MARKS = "+ is certain to be at least {} ({}), * always the same answer"


def set_name(name: str) -> str:
    """A description of a set."""
    return SETS.get(name, name)


def measured(found: Lengths, name: str) -> Text:
    """The training lengths, the checkpoint and the examples of a measurement."""
    if found.checkpoint.chosen_on == GIVEN:
        return text(
            "{} was trained on {} to {} {}, the lengths in train.json; measured with the given weights, on at most {} "
            "examples per set and length.",
            code(name),
            number(found.training.shortest),
            number(found.training.longest),
            found.unit,
            number(found.n),
        )
    return text(
        "{} was trained on {} to {} {}; measured at step {}, chosen by {}, on {} examples per set and length.",
        code(name),
        number(found.training.shortest),
        number(found.training.longest),
        found.unit,
        number(found.checkpoint.step),
        quote(found.checkpoint.chosen_on),
        number(found.n),
    )


def held(found: Lengths, name: str) -> Text:
    """The length held on a set, and shorter lengths that are not held."""
    reached, longest = found.held[name], found.training.longest
    if reached == 0:
        return text("On {} it holds at no length.", set_name(name))
    times = text(", {} times the longest training length", ratio(reached, longest)) if reached > longest else ""
    limit = ", the longest that was tested" if reached == max(found.of_set(name)) else ""
    gaps = [number(length) for length in found.not_held.get(name, ())]
    but = text(", but not at {}", listed(gaps)) if gaps else ""
    return text("On {} it holds to {}{}{}{}.", set_name(name), number(reached), times, limit, but)


def constant(found: Lengths) -> Text | None:
    """A model's constant answer, and what its accuracy then is."""
    if found.constant is None:
        return None
    return text(
        "From length {} on it answers {} to every input: its accuracy there is the share of such examples.",
        number(found.constant.start),
        answer_of(found.constant.answer),
    )


def answer_of(answer: str) -> Code:
    return Code(answer, place_of(answer))


def nearly_constant(found: Lengths) -> Iterator[Text]:
    """Each set and answer that is given nearly always at some lengths."""
    at: dict[tuple[str, str], list[Words]] = {}
    for row in (row for row in found.rows if not row.one_class and found.constant is None):
        for label, share in (row.answer_shares or {}).items():
            if share >= NEARLY:
                at.setdefault((row.set_name, label), []).append(number(row.length))
    for (name, label), some in at.items():
        yield text("It answers {} to nearly everything: {} at {}.", label, set_name(name), join(", ", some))


def unreadable(found: Lengths) -> Text | None:
    """The lengths at which the model fails with an error."""
    if not found.unreadable:
        return None
    lengths = listed([number(length) for length in found.unreadable])
    return text("It cannot read inputs of length {} and fails with an error there; they are left out.", lengths)


def exhausted(found: Lengths) -> Iterator[Text]:
    """Sets with fewer examples than requested."""
    for row in (row for row in found.rows if row.exhausted):
        where = text("{} at {}", set_name(row.set_name), number(row.length))
        yield text("{}: only {} examples that training did not see were found.", where, number(row.n))


def wrong_examples(found: Lengths) -> Iterator[Text]:
    """The shortest wrong answer of each set."""
    for name in found.held:
        rows = [row for row in found.of_set(name).values() if row.wrong_examples]
        if rows:
            row = min(rows, key=lambda row: row.length)
            first, every = row.wrong_examples[0], " (every member)" if row.whole else ""
            example = first.example if len(first.example) <= LONGEST_SHOWN else f"{first.example[:LONGEST_SHOWN]} ..."
            wrong = text("{} of {}{} wrong at {}", number(row.wrong), number(row.n), every, number(row.length))
            yield text("{}: {}; for example {}, answered {}", set_name(name), wrong, example, f"{first.answered:.60}")


def decoding(found: Lengths) -> Text | None:
    decoded = [row.decoded for row in found.rows if row.decoded is not None]
    if not decoded:
        return None
    count, apart = (sum(values) for values in zip(*((one.n, one.disagreements) for one in decoded), strict=True))
    return text(
        "{} answers were decoded greedily; {} disagree with the teacher-forced pass.", number(count), number(apart)
    )


def too_few(found: Lengths) -> bool:
    """Whether even a model without errors could not be shown to hold a length."""
    from headway.statistics import wilson_interval  # slow to import, and `headway --help` needs no statistics

    return wilson_interval(found.n, found.n, found.confidence)[0] < found.threshold


def no_length(found: Lengths) -> Words:
    """What is said of a model that holds at no length; of too few examples nothing follows."""
    if too_few(found):
        return text("is not shown to hold at any length, for which {} examples are too few", number(found.n))
    return "holds at no length"


def in_short(found: Lengths) -> Text:
    """The length held and the accuracy beyond it, in one sentence."""
    reached = [text("{} on {}", number(length), set_name(name)) for name, length in found.held.items() if length]
    if found.constant is not None:
        start, answer = number(found.constant.start), answer_of(found.constant.answer)
        beyond = text("; from {} on it answers {} to every input", start, answer)
    else:
        beyond = decline(found)
    return text(
        "Trained on {} to {} {}, it {}{}.",
        number(found.training.shortest),
        number(found.training.longest),
        found.unit,
        text("holds to {}", listed(reached)) if reached else no_length(found),
        beyond,
    )


def weakest_set(found: Lengths) -> str:
    """The set with the smallest length held; of several the strictest."""
    return min(found.held, key=lambda one: (found.held[one], one != STRICTEST))


def decline(found: Lengths) -> Text:
    """Accuracy at the longest training length and the longest tested one, on the set with the smallest length held."""
    name = weakest_set(found)
    rows = list(found.of_set(name).values())
    trained = [row for row in rows if row.trained]
    if not trained or trained[-1] is rows[-1]:
        return Text()
    first, last = (
        text("{} at {}", number(row.accuracy, percent), number(row.length)) for row in (trained[-1], rows[-1])
    )
    return text("; on {} its accuracy is {} and {}", set_name(name), first, last)


# Tables


def table_of_sets(found: Lengths) -> Table:
    """One row per set: the worst training length, the longest, all longer ones, and requested lengths."""
    longest, asked = found.training.longest, found.asked or ()
    shown = sorted({row.length for row in found.rows if row.length >= longest or row.length in asked})
    rows: list[list[Words]] = []
    for name in found.held:
        of_set = found.of_set(name)
        worst = min((row for row in of_set.values() if row.trained), key=lambda row: row.accuracy, default=None)
        cells = [NONE if (row := of_set.get(length)) is None else marked(row, found.threshold) for length in shown]
        inside = NONE if worst is None else text("{} at {}", marked(worst, found.threshold), number(worst.length))
        rows.append([name, inside, *cells])
    marks = text(MARKS, number(found.threshold, percent), number(found.confidence, percent))
    caption = f"accuracy, {found.n:,} examples of each set at each length; {marks}"
    return Table(caption, [*words("set"), Column("worst trained"), *lengths_columns(shown)], rows)


def lengths_columns(lengths: Sequence[int]) -> list[Column]:
    return [Column(number(length)) for length in lengths]


def marked(row: LengthRow, threshold: float) -> Text:
    sure, same = "+" * (row.interval[0] >= threshold), "*" * (row.constant is not None)
    return text("{}{}", number(row.accuracy, percent), sure + same)


def table_of_runs(runs: Sequence[tuple[str, Lengths]], name: str) -> Table:
    """Accuracy of every run on a set from the longest training length on; `*` marks a constant answer."""
    longest = min(found.training.longest for _, found in runs)
    tested = {
        row.length: row.length for _, found in runs for row in found.of_set(name).values() if row.length >= longest
    }
    shown = [tested[length] for length in sorted(tested)]
    rows = [
        [
            code(run),
            *(accuracy_cell(found.of_set(name).get(length)) for length in shown),
            number(found.held[name]) if name in found.held else NONE,
        ]
        for run, found in runs
    ]
    columns = [*words("run"), *lengths_columns(shown), Column("length held")]
    return Table(f"Accuracy against length: {set_name(name)} (* always the same answer)", columns, rows)


def accuracy_cell(row: LengthRow | None) -> Words:
    if row is None:
        return NONE
    mark = "*" * (row.constant is not None)
    return text("{}{} {}", number(row.accuracy, percent), mark, Aside(interval(row.interval)))


def table_of_cells(cells: Sequence[StudyCell], name: str) -> Table | None:
    """A study's combinations on a set: the median over seeds at each length, and its interval."""
    found = [(cell, cell.together, past_training(cell.together, name)) for cell in cells if cell.together is not None]
    tested = {row.length: row.length for _, _, rows in found for row in rows.values()}
    shown = [tested[length] for length in sorted(tested)]
    rows = [
        [
            quote(cell.cell),
            number(together.n_seeds),
            *(median_cell(own.get(length)) for length in shown),
            number(together.sets[name].median) if name in together.sets else NONE,
        ]
        for cell, together, own in found
        if own
    ]
    columns = [*words("combination"), Column("seeds"), *lengths_columns(shown), Column("length held, median")]
    return Table(f"Medians over seeds: {set_name(name)}", columns, rows) if shown else None


def past_training(together: SeedSummary, name: str) -> dict[int, RowOverSeeds]:
    """Length -> a combination's numbers on a set, from the longest training length on."""
    longest = max((row.length for row in together.rows if row.trained), default=0)
    return {row.length: row for row in together.rows if row.set_name == name and row.length >= longest}


def median_cell(row: RowOverSeeds | None) -> Words:
    """A median with its interval if there are enough seeds; the mean for documents of earlier versions."""
    if row is None:
        return NONE
    if row.median is None:
        return text("mean {}", number(row.mean, percent))
    return with_interval(row.median, row.interval)


def mastery_table(cells: Sequence[StudyCell]) -> Table | None:
    """The runs of a study that passed the gate, their steps, and the accuracy of the others."""
    rows = [
        [
            quote(cell.cell),
            number(run.seed),
            "yes" if run.mastery.mastered else "no",
            NONE if run.mastery.step is None else number(run.mastery.step),
            number(run.mastery.accuracy, percent),
        ]
        for cell in cells
        for run in cell.runs
        if run.mastery is not None
    ]
    columns = [*words("combination"), Column("seed"), *words("mastered")]
    columns += [Column("steps to mastery"), Column("validation accuracy")]
    caption = "Mastery of the training lengths (only runs that mastered count at longer ones)"
    return Table(caption, columns, rows) if rows else None


# Several seeds


def over_seeds(whole: SeedSummary) -> Iterator[Text]:
    """Every seed's length held, the median, and how many seeds reach multiples of the training length."""
    few = "; fewer than 6: descriptive" if whole.descriptive else ""
    yield text("{} seeds together{}", number(whole.n_seeds), few)
    for name, found in whole.sets.items():
        every = join(", ", map(number, found.held))
        middle = text(" ({} to {})", *map(number, found.interval)) if found.interval is not None else ""
        parts = (name, every, number(found.median), middle, reach(found, whole.n_seeds))
        yield text("  {}: held {}; median {}{}; {}", *parts)


def reach(found: SetOverSeeds, n_seeds: int) -> Words:
    parts = [
        text("{} of {} reach {}x ({})", number(row.seeds), number(n_seeds), number(row.times), interval(row.interval))
        for row in found.reach
    ]
    return join(", ", parts) if parts else "no multiple of the training length was tested"


def median_table(whole: SeedSummary) -> Table:
    """The median accuracy over seeds of every set, from the longest training length on."""
    of_sets = {name: past_training(whole, name) for name in whole.sets}
    shown = sorted({length for rows in of_sets.values() for length in rows})
    medians = {name: {length: rows[length].median for length in rows} for name, rows in of_sets.items()}
    rows = [
        [name, *(NONE if (one := own.get(length)) is None else number(one, percent) for length in shown)]
        for name, own in medians.items()
    ]
    return Table("Medians over seeds", [*words("median over seeds"), *lengths_columns(shown)], rows)


def one_answer(whole: SeedSummary) -> Text | None:
    if not whole.constant_seeds:
        return None
    return text(
        "  {} of {} give one answer at the longest lengths", number(whole.constant_seeds), number(whole.n_seeds)
    )


def fewest_seeds(cells: Sequence[StudyCell]) -> Words:
    return lowest([cell.together.n_seeds for cell in cells if cell.together is not None])
