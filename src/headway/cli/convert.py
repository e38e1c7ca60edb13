"""headway convert"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Json, Quiet, show

if TYPE_CHECKING:
    from headway.results.conversion import Conversion


def convert(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that torch.save wrote: weights or a checkpoint.")],
    out: Annotated[Path | None, typer.Option(help="The new file; default: FILE with the ending .safetensors.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Convert a PyTorch pickle into safetensors, without running its code.

    Example: headway convert model.pth
    """
    from headway.conversion import convert as convert_file

    result = convert_file(file, out=out)
    show(result, lines_of(result), as_json=json)


def lines_of(result: "Conversion") -> list[str]:
    """What was read, what was left out, and where the weights are."""
    where = f"{result.file}[{result.entry!r}]" if result.entry else result.file
    numbers = f"{len(result.tensors)} tensors, {result.parameters:,} numbers ({', '.join(result.dtypes)})"
    lines = [f"{where}: {numbers}"]
    if result.prefix:
        lines.append(f"prefix {result.prefix!r} removed from every name")
    if result.left_out:
        lines.append(f"left out, no weights: {', '.join(result.left_out)}")
    return [*lines, f"written to {result.out}"]
