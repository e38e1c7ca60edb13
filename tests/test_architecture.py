"""What a room may import; docs/architecture.md holds the same table."""

import ast
from pathlib import Path

import headway

ROOT = Path(headway.__file__).parent
BASE = {"bounded_files", "callbacks", "errors", "json_values", "registry", "randomness", "results"}
"""Words and tools that every room may use."""

MAY_IMPORT: dict[str, set[str]] = {
    "bounded_files": {"errors"},
    "callbacks": set(),
    "errors": set(),
    "arguments": {"errors"},
    "notebook_progress": {"callbacks"},
    "registry": {"errors"},
    "randomness": set(),
    "json_values": set(),
    "config": {"bounded_files", "errors", "json_values"},
    "statistics": set(),
    "narration": {"results", "statistics"},
    "seals": {"errors", "json_values"},
    "storage": {"bounded_files", "errors", "json_values", "seals"},
    "results": {"errors", "json_values", "registry"},
    "conversion": BASE | {"storage"},
    "origin": {"errors", "json_values"},
    "processes": set(),
    "runs": BASE | {"config", "origin", "results", "seals", "storage"},
    "tasks": BASE | {"config", "storage"},
    "model": BASE | {"config"},
    "attachment": BASE | {"config", "model", "storage"},
    "testing": BASE | {"config", "storage", "tasks"},
    "batches": BASE | {"config", "tasks", "model"},
    "evaluation": BASE | {"config", "batches", "tasks", "model", "statistics", "runs"},
    "training": BASE | {"config", "processes", "batches", "tasks", "model", "evaluation", "proofs", "runs"},
    "reports": BASE | {"config", "narration", "self_contained_html", "results", "runs", "statistics", "storage"},
    "explorer": BASE
    | {
        "batches",
        "evaluation",
        "head_analysis",
        "model",
        "origin",
        "self_contained_html",
        "results",
        "runs",
        "storage",
        "tasks",
    }
    | {"narration"}
    | {"__init__"},
    "self_contained_html": set(),
    "head_analysis": BASE
    | {"config", "narration", "results", "batches", "tasks", "model", "evaluation", "statistics", "runs"},
    "length_analysis": BASE
    | {"config", "results", "batches", "tasks", "model", "evaluation", "statistics", "runs", "head_analysis"}
    | {"narration"},
    "attached_analysis": BASE
    | {"attachment", "batches", "config", "evaluation", "head_analysis", "length_analysis", "model", "results", "runs"}
    | {"statistics", "tasks"},
    "attacks": BASE | {"batches", "evaluation", "head_analysis", "length_analysis", "results", "tasks"},
    "diagnosis": BASE
    | {"config", "origin", "batches", "tasks", "model", "training", "evaluation", "statistics", "runs"}
    | {"attached_analysis", "attachment", "attacks", "head_analysis", "length_analysis", "narration", "results"}
    | {"storage"},
    "proofs": BASE
    | {"config", "batches", "tasks", "model", "evaluation", "origin", "results", "runs", "seals", "storage"},
    "sweeps": BASE
    | {"config", "processes", "batches", "tasks", "model", "training", "evaluation", "runs", "statistics", "storage"}
    | {"narration"},
    "api": BASE | {"attachment", "config", "training", "evaluation", "head_analysis", "sweeps", "runs", "reports"},
    "studies": BASE
    | {"api", "config", "batches", "tasks", "model", "training", "evaluation", "length_analysis", "runs", "statistics"}
    | {"sweeps", "head_analysis", "diagnosis", "explorer", "narration", "processes", "reports", "results"}
    | {"attacks"},
    "cli": BASE
    | {
        "api",
        "attached_analysis",
        "attachment",
        "conversion",
        "config",
        "batches",
        "tasks",
        "testing",
        "model",
        "evaluation",
        "narration",
        "training",
        "origin",
        "results",
        "runs",
        "processes",
        "statistics",
        "storage",
    }
    | {"attacks", "head_analysis", "length_analysis", "diagnosis", "reports", "explorer", "proofs", "studies", "sweeps"}
    | {"__init__"},
    "__init__": {
        "api",
        "attached_analysis",
        "attachment",
        "attacks",
        "conversion",
        "diagnosis",
        "evaluation",
        "explorer",
        "head_analysis",
        "length_analysis",
        "proofs",
        "reports",
        "runs",
        "studies",
        "sweeps",
    },
    "__main__": {"cli"},
}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a file names in any import, wherever it stands in the file."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            names = [
                f"{node.module}.{alias.name}" if node.module == "headway" else str(node.module) for alias in node.names
            ]
        for name in names:
            parts = name.split(".")
            if parts[0] == "headway":
                inside = len(parts) > 1 and ((ROOT / parts[1]).is_dir() or (ROOT / f"{parts[1]}.py").exists())
                rooms.add(parts[1] if inside else "__init__")
    return rooms


def test_every_room_imports_only_what_the_table_allows() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        room = room_of(path)
        assert room in MAY_IMPORT, f"{path} is in no room of the table"
        found += [
            f"{path.relative_to(ROOT)} imports {other}" for other in imported_rooms(path) - MAY_IMPORT[room] - {room}
        ]
    assert found == []


def test_the_test_would_see_a_forbidden_import(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text("def later():\n    from headway.runs import RunDirectory\n    import headway.cli.main\n")
    assert imported_rooms(planted) == {"runs", "cli"}


def test_the_documented_table_is_the_tested_one() -> None:
    text = (ROOT.parents[1] / "docs" / "architecture.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    documented = {cells[1].strip(" `"): cells[2].strip() for cells in rows if len(cells) == 4}
    for room, allowed in MAY_IMPORT.items():
        if room.startswith("__"):
            continue
        words = set(documented[room].replace("`", "").replace(",", " ").split()) - {"nothing", "the", "base", "and"}
        expanded = words | (BASE if "the base" in documented[room] else set())
        assert expanded == allowed - {"__init__"}, room


def test_no_module_is_imported_for_nothing_when_headway_is() -> None:
    names = {
        node.module for node in ast.parse((ROOT / "__init__.py").read_text()).body if isinstance(node, ast.ImportFrom)
    }
    assert names == {"importlib", "typing"}
