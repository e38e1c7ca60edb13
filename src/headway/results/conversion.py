"""`headway convert FILE --json`: the tensors that a pickle held, and where they are now."""

from dataclasses import dataclass

from headway.results.schema import Document, fact


@dataclass(frozen=True, kw_only=True)
class Conversion(Document):
    """What was read from a pickle and written as safetensors."""

    file: str = fact("the pickle that was read")
    out: str = fact("the safetensors file that was written")
    entry: str | None = fact("entry of the checkpoint that held the weights; null if it was the weights")
    prefix: str | None = fact("prefix that was removed from every name; null if there was none")
    tensors: dict[str, tuple[int, ...]] = fact("shape of each tensor, by name")
    parameters: int = fact("numbers in all tensors")
    dtypes: tuple[str, ...] = fact("types of the numbers")
    left_out: tuple[str, ...] = fact("entries that are no weights, and were not written")
