"""A result knows what it was made from; another run's or another checkpoint's is not taken for this run's."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import headway as hw
from headway.errors import InputError
from headway.evaluation import Trained
from headway.explorer.export import export_run
from headway.head_analysis.analysis import analyse_and_keep, settings_of
from headway.origin import digest_of_files
from headway.reports.documents import gather
from headway.results.heads import HeadAnalysis
from headway.runs import RunDirectory
from headway.storage import write_json
from headway.studies.jobs import Heads
from headway.studies.plan import Study
from headway.training import train
from tests.tiny import ADDITION, config


def without_checksum(path: Path) -> dict[str, Any]:
    """A document as someone who edits it by hand leaves it."""
    return {key: value for key, value in json.loads(path.read_text()).items() if key != "sha256"}


def analyse(trained: Trained) -> None:
    analyse_and_keep(trained, settings_of(trained, split="test", examples=20, thorough=False))


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> list[RunDirectory]:
    """Two seeds whose heads were analysed, of the checkpoint that counts."""
    folder = tmp_path_factory.mktemp("analysed")
    runs = [RunDirectory(folder / str(seed)) for seed in (0, 1)]
    for seed, run in enumerate(runs):
        train(config(ADDITION, seed, task={"digits": 2}, data={"test": 20}), run.path, device="cpu")
        analyse(hw.load(run.path, device="cpu"))
    return runs


@pytest.fixture
def foreign(analysed: list[RunDirectory], tmp_path: Path) -> RunDirectory:
    """Seed 0 with the analysis of seed 1."""
    run = RunDirectory(shutil.copytree(analysed[0].path, tmp_path / "foreign"))
    shutil.copy(analysed[1].path / "analysis" / "heads.json", run.path / "analysis" / "heads.json")
    return run


@pytest.fixture
def stale(analysed: list[RunDirectory], tmp_path: Path) -> RunDirectory:
    """A run that was analysed at step 0, which is not the checkpoint that counts."""
    run = RunDirectory(shutil.copytree(analysed[0].path, tmp_path / "stale"))
    analyse(hw.load(run.path, checkpoint=0, device="cpu"))
    return run


def test_a_document_names_the_weights_the_config_and_the_data(analysed: list[RunDirectory]) -> None:
    one, other = (json.loads((run.path / "analysis" / "heads.json").read_text())["made_from"] for run in analysed)
    assert set(one) == {"step", "weights", "config", "data"}
    assert one["data"] == other["data"] and one["weights"] != other["weights"] and one["config"] != other["config"]
    manifest = (analysed[0].checkpoint_path(one["step"]) / "MANIFEST").read_text()
    assert f"{one['weights']}  model.safetensors" in manifest
    assert "made_from" not in (analysed[0].read_analysis("heads") or {})


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("foreign", "heads.json was made from a run with another config; run headway heads again"),
        ("stale", "heads.json was made from another checkpoint"),
    ],
)
def test_every_reader_refuses_it(which: str, words: str, request: pytest.FixtureRequest) -> None:
    run: RunDirectory = request.getfixturevalue(which)
    if run.best_step == 0:
        pytest.fail("the checkpoint that counts is the untrained one; the fixture shows nothing")
    with pytest.raises(InputError, match=words):
        run.read_analysis("heads")
    assert words in gather([run]).documents.runs[0].damaged["heads"]
    told: list[str] = []
    document = export_run(hw.load(run.path, device="cpu"), warn=told.append)
    assert document.analysis is None and any(words in line for line in told)
    assert Heads(run, Study(arms=(), seeds=())).known() is None
    finding = next(one for one in hw.doctor(run.path).findings if one.check == "analysis-of-another-run")
    assert finding.level == "error" and words in finding.evidence


def test_documents_of_earlier_versions_name_no_origin_and_are_read(
    analysed: list[RunDirectory], tmp_path: Path
) -> None:
    run = RunDirectory(shutil.copytree(analysed[0].path, tmp_path / "earlier"))
    path = run.path / "analysis" / "heads.json"
    document = json.loads(path.read_text())
    del document["made_from"]
    write_json(path, document)
    assert run.read_analysis("heads") == analysed[0].read_analysis("heads")


@pytest.mark.parametrize("value", [[], "x", 3, {}])
def test_an_origin_that_is_none_is_refused(value: object, analysed: list[RunDirectory], tmp_path: Path) -> None:
    run = RunDirectory(shutil.copytree(analysed[0].path, tmp_path / "damaged"))
    path = run.path / "analysis" / "heads.json"
    write_json(path, {**json.loads(path.read_text()), "made_from": value})
    with pytest.raises(InputError, match=r"heads\.json was made from something that its made_from does not name"):
        run.read_analysis("heads")


def test_a_document_of_an_earlier_version_that_says_another_seed_is_refused(foreign: RunDirectory) -> None:
    path = foreign.path / "analysis" / "heads.json"
    document = json.loads(path.read_text())
    del document["made_from"]
    write_json(path, document)
    with pytest.raises(InputError, match=r"heads\.json is of seed 1, and this run has seed 0; run headway heads again"):
        foreign.read_analysis("heads")


def test_content_is_parsed_once_until_it_changes(analysed: list[RunDirectory], tmp_path: Path) -> None:
    copied = RunDirectory(shutil.copytree(analysed[0].path, tmp_path / "copy"))
    first = copied.read_result(HeadAnalysis, "heads")
    assert first is not None and copied.read_result(HeadAnalysis, "heads") is first
    path = copied.analysis("heads")
    document = without_checksum(path)
    path.write_text(json.dumps({**document, "n": document["n"] + 1}))
    changed = copied.read_result(HeadAnalysis, "heads")
    assert changed is not None and changed.n == first.n + 1


def test_the_digest_of_files_holds_their_names_and_their_ends(tmp_path: Path) -> None:
    """The same bytes under another name, or divided otherwise between two files, are other data."""
    found = []
    contents = [{"test": "a", "train": "bc"}, {"test": "ab", "train": "c"}, {"test": "abc"}, {"train": "abc"}]
    for number, files in enumerate([*contents, contents[0]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in files.items():
            (folder / f"{name}.json").write_text(content)
        found.append(digest_of_files(folder))
    assert len(set(found)) == 4
    assert found[0] == found[4]


def test_every_part_of_a_document_is_of_this_run(analysed: list[RunDirectory], tmp_path: Path) -> None:
    run = RunDirectory(shutil.copytree(analysed[0].path, tmp_path / "parts"))
    for split in ("validation", "test"):
        run.add_to_analysis("evaluation", {split: {"split": split}})
    both = run.read_analysis("evaluation")
    assert both is not None
    assert {"validation", "test"} <= set(both), "a second command adds to the first one's result"
    path = run.analysis("evaluation")
    document = without_checksum(path)
    document["test"]["made_from"]["weights"] = "0" * 64
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"evaluation.json was made from another checkpoint"):
        run.read_analysis("evaluation")
