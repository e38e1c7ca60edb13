"""The row of write orders: what it says of calls in a wrong order; the long version runs strace."""

from pathlib import Path

import pytest
from faults.campaign import run
from faults.rows.write_order import ROW, Order

OPEN = 'openat(AT_FDCWD</x>, "{0}", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0666) = 3</x/{0}>'
WRITE, SYNC, SYNC_FOLDER = 'write(3</x/{0}>, ""..., 9) = 9', "fsync(3</x/{0}>)    = 0", "fsync(3</x>) = 0"
RENAME = 'rename("{0}", "{1}") = 0'
STEP = [OPEN, WRITE, SYNC]


def judged(*lines: str) -> list[str]:
    order = Order(Path("/x"))
    for line in lines:
        order.take(line)
    order.finish(Path("/x"))
    return order.wrong


def lines(name: str, *calls: str) -> list[str]:
    return [call.format(name) for call in calls]


def test_a_file_in_order() -> None:
    assert judged(*lines("a.writing", *STEP), RENAME.format("a.writing", "a"), SYNC_FOLDER) == []


def test_a_file_that_is_not_synced_before_it_takes_its_place() -> None:
    written = [*lines("a.writing", OPEN, SYNC, WRITE), RENAME.format("a.writing", "a"), SYNC_FOLDER]
    assert judged(*written) == ["a.writing is not synced when a takes its place"]


def test_a_checkpoint_whose_manifest_is_not_last_or_whose_metrics_are_not_synced() -> None:
    beside = "run/checkpoints/writing-step-000001"
    last, first = lines(f"{beside}/MANIFEST", *STEP), lines(f"{beside}/state.json", *STEP)
    place = [RENAME.format(beside, "run/checkpoints/step-000001"), "fsync(3</x/run/checkpoints>) = 0"]
    assert judged(*first, *last, *place) == []
    assert judged(*last, *first, *place) == ["the manifest of step-000001 is not its last file"]
    assert judged(*lines("run/metrics.jsonl", WRITE), *first, *last, *place) == [
        "metrics.jsonl is not synced before step-000001"
    ]


def test_a_file_that_is_written_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    order = Order(tmp_path)
    order.finish(tmp_path)
    assert order.wrong == ["a was written where it stands"]


@pytest.mark.long
def test_every_command_writes_in_order() -> None:
    assert run(ROW, ROW.count, 0).failures == ()
