"""Words in the names of results, grouped by the kind of number that they announce."""


def _words(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


ACCURACY = _words(
    "acc accs accuracies accuracy autoregressive correct em exact forced generation greedy match matches"
    " performance score scores share"
)
OTHER = _words(
    "args attention_weight auc batch beta betas cfg char ci clip config count counts critical date diagonal digit"
    " dim dropout duration elapsed entropy epochs eps error errors examples f high hparams hyperparameters"
    " important interval loss losses low lower lr macro metadata minutes model_dim momentum num optimizer param"
    " parameters params perplexity ppl precision prunable pvalue rank recall redundant runtime samples sec seconds"
    " seed seeds sem settings size sizes smoothing sparsity std steps support threshold time timestamp token"
    " tokens total upper version vocab warmup weight weighted"
)
"""Words for numbers that are not accuracies of whole answers."""
MEASURED = _words(
    "auc ci entropy interval loss losses minutes perplexity ppl precision pvalue recall sec seconds sem std timestamp"
)
"""Those that always name a measure; the others may be part of a model's name, such as token_shift."""
SETTINGS = _words(
    "batch beta clip dim dropout epochs eps examples high lower lr low model_dim momentum num param parameters params"
    " rank samples seed seeds size sizes smoothing sparsity steps threshold upper vocab warmup weight"
)
"""Those that distinguish models if accuracies stand below them: {"dropout_0.1": {"32": 0.5}}."""
BOUNDS = (_words("lower upper"), _words("low high"))
"""Names that are the ends of an interval if both are present."""
CONSTANTS = _words("beta betas clip dropout eps lr momentum smoothing threshold warmup weight")
"""Settings that are repeated at every length with the same value."""
DROP = _words("change decline decrease degradation delta diff difference drop drops impact importance")
BASELINE = frozenset(["baseline", "full", "intact", "original", "unablated"])
LENGTH = frozenset(["characters", "chars", "l", "len", "length", "lengths", "lens", "n", "seqlen"])
STACK = frozenset(["attention", "attn", "cross", "dec", "decoder", "enc", "encoder", "h", "head", "l", "layer", "self"])
ABOUT_HEADS = frozenset(["ablated", "ablation", "ablations", "head", "heads", "knockout", "layers", "pruning"])
HOW = frozenset(["autoregressive", "forced", "generation", "greedy"])
"""Words for how answers were generated; they are part of a claim's name."""
SILENT = (
    (ACCURACY - HOW)
    | DROP
    | LENGTH
    | ABOUT_HEADS
    | _words(
        "all answer at average avg best by data dev epoch eval evaluation extrapolation final generalisation"
        " generalization history json log logs mean metrics of overall pct per percent rate result results seq"
        " sequence stats summary table test tests the train training val valid validation value values whole"
    )
)
"""Words that do not identify a model."""
NOBODY = frozenset(
    ["", "(none)", "-", "baseline", "full", "full model", "n/a", "nan", "no ablation", "no head", "none", "original"]
)
"""Entries in the column of heads that mean that no head was ablated."""
