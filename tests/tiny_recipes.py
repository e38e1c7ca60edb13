"""Recipe files so small that a whole training takes a blink."""

from pathlib import Path

RECIPES = {
    "addition": """
[task]
name = "addition"
digits = 2
[data]
train = 64
validation = 16
test = 16
[model]
d_model = 8
n_heads = 2
d_ff = 16
encoder_layers = 1
decoder_layers = 1
dropout = 0.1
[train]
steps = 4
batch_size = 8
lr = 0.01
validate_every = 2
""",
    "addition-text": """
[task]
name = "addition-text"
max_characters = 12
test_lengths = [16]
[data]
train = 64
validation = 16
test = 16
[model]
shape = "decoder"
d_model = 8
n_heads = 2
d_ff = 16
decoder_layers = 1
[train]
steps = 4
batch_size = 8
validate_every = 2
""",
    "sortedness": """
[task]
name = "sortedness"
min_length = 3
max_length = 5
test_lengths = [7]
[data]
train = 64
validation = 16
test = 16
[model]
shape = "encoder"
d_model = 8
n_heads = 2
d_ff = 16
encoder_layers = 1
[train]
steps = 4
batch_size = 8
validate_every = 2
""",
}


def write_recipe(folder: Path, task: str = "addition", name: str = "tiny") -> Path:
    """Put the tiny recipe of a task into a folder."""
    path = folder / f"{name}.toml"
    path.write_text(RECIPES[task], encoding="utf-8")
    return path
