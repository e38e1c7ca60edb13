"""An encoder-decoder transformer in NumPy, from the formulas alone: it shares no code with headway.

attention:  softmax(q k' / sqrt(d) + mask) v, head by head, then one projection of all heads side by side
norm:       (x - mean) / sqrt(variance + 1e-5) * weight + bias
pre-norm:   x + branch(norm(x)), and one more norm at the end;   post-norm:   norm(x + branch(x))
position p: sin(p / 10000^(2i/d)) and cos of the same in turn, or row p of a trained table
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import erf

Array = np.ndarray


@dataclass(frozen=True)
class NumpyTransformer:
    """Weights by name; `pre` norms before each branch, `gelu` (else ReLU), `learned` positions (else sinusoids).

    `without` is one head to leave out: (stack, layer, "own" or "cross", index).
    """

    weights: dict[str, Array]
    n_heads: int
    pre: bool
    gelu: bool
    learned: bool
    without: tuple[str, int, str, int] | None = None

    def logits(self, source: Array, lengths: Array, prefix: Array) -> Array:
        """Of the next token after each prefix token; the source tokens from `lengths` on are not seen."""
        return np.stack([self._one(s[:n], p) for s, n, p in zip(source, lengths, prefix, strict=True)])

    def _one(self, source: Array, prefix: Array) -> Array:
        x, layers = self._embed(source), 0
        while f"encoder.{layers}.own.query.weight" in self.weights:
            x = self._self_attention(x, "encoder", layers, np.ones((len(x), len(x)), dtype=bool))
            x, layers = self._feed_forward(x, "encoder", layers), layers + 1
        memory = self._norm(x, "encoder_norm") if self.pre else x
        x, layers = self._embed(prefix), 0
        while f"decoder.{layers}.own.query.weight" in self.weights:
            x = self._self_attention(x, "decoder", layers, np.tri(len(x), dtype=bool))
            x = self._cross_attention(x, memory, layers)
            x, layers = self._feed_forward(x, "decoder", layers), layers + 1
        return self._linear(self._norm(x, "decoder_norm") if self.pre else x, "readout")

    def _embed(self, tokens: Array) -> Array:
        table = self.weights["embedding.weight"]
        where = np.arange(len(tokens))
        if self.learned:
            return table[tokens] + self.weights["encoding.table.weight"][where]
        added = np.zeros((len(tokens), table.shape[1]))
        for column in range(table.shape[1]):
            angle = where / 10_000 ** (2 * (column // 2) / table.shape[1])
            added[:, column] = np.cos(angle) if column % 2 else np.sin(angle)
        return table[tokens] + added

    def _self_attention(self, x: Array, stack: str, layer: int, seen: Array) -> Array:
        name = f"{stack}.{layer}.own"
        if self.pre:
            y = self._norm(x, f"{name}_norm")
            return x + self._attention(y, y, seen, stack, layer, "own")
        return self._norm(x + self._attention(x, x, seen, stack, layer, "own"), f"{name}_norm")

    def _cross_attention(self, x: Array, memory: Array, layer: int) -> Array:
        name = f"decoder.{layer}.cross_norm"
        seen = np.ones((len(x), len(memory)), dtype=bool)
        if self.pre:
            return x + self._attention(self._norm(x, name), memory, seen, "decoder", layer, "cross")
        return self._norm(x + self._attention(x, memory, seen, "decoder", layer, "cross"), name)

    def _feed_forward(self, x: Array, stack: str, layer: int) -> Array:
        name = f"{stack}.{layer}.feed_forward"

        def branch(y: Array) -> Array:
            wide = self._linear(y, f"{name}.expand")
            wide = wide * (1 + erf(wide / np.sqrt(2))) / 2 if self.gelu else np.maximum(wide, 0)
            return self._linear(wide, f"{name}.contract")

        if self.pre:
            return x + branch(self._norm(x, f"{name}_norm"))
        return self._norm(x + branch(x), f"{name}_norm")

    def _attention(self, x: Array, memory: Array, seen: Array, stack: str, layer: int, looks: str) -> Array:
        name = f"{stack}.{layer}.{looks}"
        query, key, value = (
            np.split(self._linear(given, f"{name}.{part}"), self.n_heads, axis=1)
            for given, part in ((x, "query"), (memory, "key"), (memory, "value"))
        )
        brought = []
        for head in range(self.n_heads):
            score = query[head] @ key[head].T / np.sqrt(key[head].shape[1])
            weight = np.exp(score) * seen
            weight = weight / weight.sum(1, keepdims=True)
            kept = (stack, layer, looks, head) != self.without
            brought.append(weight @ value[head] if kept else np.zeros_like(query[head]))
        return self._linear(np.concatenate(brought, axis=1), f"{name}.output")

    def _linear(self, x: Array, name: str) -> Array:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
        return centred / deviation * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
