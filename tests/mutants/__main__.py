"""Plants every bug, one at a time, and says which of them the tests notice.

python -m tests.mutants                 all that have no verdict yet; then the table
python -m tests.mutants --missing       those without a verdict in docs/results/mutants.json
python -m tests.mutants --only ID       one of them, again
python -m tests.mutants --room tasks    those of one room
python -m tests.mutants --survivors     those that were not noticed, again
python -m tests.mutants --wider         survivors again, with the tests of neighbouring rooms
python -m tests.mutants --all           survivors again, with the whole suite
python -m tests.mutants --write         docs/mutants.md and docs/results/mutants.json from the verdicts
"""

import argparse
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from threading import Lock

from tests.mutants.catalogue import ROOT, Mutant, read_catalogue
from tests.mutants.copies import Copy
from tests.mutants.judging import (
    NOT_IMPORTED,
    NOT_JUDGED,
    Baselines,
    Verdict,
    append,
    judge,
    read_verdicts,
    survived_at_first,
)
from tests.mutants.rings import ring_of, whole_suite
from tests.mutants.table import read_committed, share_noticed, write_page

RESULTS = ROOT / "build" / "mutants"


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that copies are deleted
    known = verdicts(options)
    chosen = [mutant for mutant in read_catalogue() if wanted(mutant, options, known.get((mutant.id, mutant.digest)))]
    if options.only:
        chosen.sort(key=lambda mutant: options.only.index(mutant.id))
    if chosen and not options.write:
        run_all(chosen, options.jobs, wider_ring(options))
    return report(verdicts(options), options.write)


def verdicts(options: argparse.Namespace) -> dict[tuple[str, str], Verdict]:
    """Those of earlier runs here; with --missing or --write also the committed ones, which stand until run again."""
    committed = read_committed(ROOT / "docs") if options.missing or options.write else {}
    return committed | read_verdicts(RESULTS / "verdicts.jsonl")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="ID", action="append", default=[], help="this bug, also if it has a verdict")
    parser.add_argument("--room", metavar="ROOM", action="append", default=[], help="the bugs of this room")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="copies of the repository that work at once")
    parser.add_argument("--missing", action="store_true", help="committed verdicts stand; only the others are run")
    rings = parser.add_mutually_exclusive_group()
    rings.add_argument("--survivors", action="store_true", help="survivors again, after tests were written")
    rings.add_argument("--wider", action="store_true", help="survivors again, with tests of neighbouring rooms")
    rings.add_argument("--all", action="store_true", help="survivors again, with the whole suite")
    parser.add_argument("--write", action="store_true", help="write the page from the verdicts; run nothing")
    return parser.parse_args()


def wanted(mutant: Mutant, options: argparse.Namespace, known: Verdict | None) -> bool:
    if options.only:
        return mutant.id in options.only
    if options.room and mutant.room not in options.room:
        return False
    if options.survivors or options.wider or options.all:
        return known is None or not known.seen
    return known is None or known.verdict in (NOT_JUDGED, NOT_IMPORTED)


def wider_ring(options: argparse.Namespace) -> Callable[[Mutant], tuple[str, ...]]:
    if options.all:
        return whole_suite
    return ring_of if options.wider else lambda mutant: ()


def run_all(chosen: list[Mutant], jobs: int, wider: Callable[[Mutant], tuple[str, ...]]) -> None:
    """Each job has a copy of its own; verdicts are appended as they come."""
    copies: Queue[Copy] = Queue()
    made = [Copy() for _ in range(jobs)]
    for copy in made:
        copies.put(copy)
    baselines = Baselines(RESULTS / "baselines.json")
    lock = Lock()

    def one(mutant: Mutant) -> None:
        copy = copies.get()
        try:
            verdict = judge(mutant, copy, baselines, wider(mutant))
        finally:
            copies.put(copy)
        with lock:
            append(RESULTS / "verdicts.jsonl", verdict)
            print(f"{verdict.verdict:12} {verdict.seconds:6.1f} s  {mutant.id}  {verdict.test}", flush=True)

    pool = ThreadPoolExecutor(jobs)
    try:
        list(pool.map(one, chosen))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for copy in made:
            copy.close()


def report(known: dict[tuple[str, str], Verdict], write: bool) -> int:
    """Says how many were noticed, and which were not; 1 if a survivor has not been judged."""
    catalogue = read_catalogue()
    found = [(mutant, known.get((mutant.id, mutant.digest))) for mutant in catalogue]
    judged = [(mutant, verdict) for mutant, verdict in found if verdict is not None]
    noticed, total = share_noticed(judged)
    print(f"{noticed} of {total} noticed; {len(catalogue) - len(judged)} of {len(catalogue)} not run")
    bad = [mutant for mutant, verdict in judged if not verdict.seen and not mutant.judged]
    for mutant in bad:
        print(f"  {mutant.id}: {mutant.file}: {mutant.seen}")
    if write:
        write_page(judged, len(catalogue), survived_at_first(RESULTS / "verdicts.jsonl"), ROOT / "docs")
    return 1 if bad or len(judged) < len(catalogue) else 0


if __name__ == "__main__":
    sys.exit(main())
