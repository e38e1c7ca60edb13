"use strict";
/**
 * The forward pass of a run in JavaScript: the same numbers as headway's PyTorch model, up to rounding.
 *
 * It knows three shapes of model and no positional encoding: what an encoding adds, turns and biases comes as tables
 * over rows (see headway/explorer/encoding_tables.py). The files engine-*.js are joined in this order: arithmetic, kernel,
 * model, attention, passes, pool. Each adds its part to the one global name `Headway`.
 */
const Headway = {};

/** Functions on arrays of numbers. A stream is tokens x d_model, one token after another. */
Headway.arithmetic = (() => {
  /** The sum of products, in four parts that do not wait for each other. */
  function dot(x, at, weight, from, count) {
    let first = 0, second = 0, third = 0, fourth = 0, k = 0;
    for (; k + 4 <= count; k += 4) {
      first += x[at + k] * weight[from + k];
      second += x[at + k + 1] * weight[from + k + 1];
      third += x[at + k + 2] * weight[from + k + 2];
      fourth += x[at + k + 3] * weight[from + k + 3];
    }
    for (; k < count; k++) first += x[at + k] * weight[from + k];
    return first + second + (third + fourth);
  }

  function layerNorm(x, rows, norm) {
    const { weight, bias, epsilon } = norm, width = weight.length, y = new Float32Array(rows * width);
    for (let at = 0; at < rows * width; at += width) {
      let mean = 0, spread = 0;
      for (let k = 0; k < width; k++) mean += x[at + k];
      mean /= width;
      for (let k = 0; k < width; k++) spread += (x[at + k] - mean) ** 2;
      const scale = 1 / Math.sqrt(spread / width + epsilon);
      for (let k = 0; k < width; k++) y[at + k] = (x[at + k] - mean) * scale * weight[k] + bias[k];
    }
    return y;
  }

  function relu(x) {
    for (let k = 0; k < x.length; k++) if (x[k] < 0) x[k] = 0;
  }

  /** x times the share of the normal distribution below x, with the error function to 1.5e-7. */
  function gelu(x) {
    for (let k = 0; k < x.length; k++) {
      const z = Math.abs(x[k]) / Math.SQRT2, t = 1 / (1 + 0.3275911 * z);
      const tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
      const below = 0.5 * tail * Math.exp(-z * z);
      x[k] *= x[k] < 0 ? below : 1 - below;
    }
  }

  function softmax(logits) {
    let highest = -Infinity, sum = 0;
    for (const value of logits) if (value > highest) highest = value;
    const found = new Float32Array(logits.length);
    for (let k = 0; k < logits.length; k++) sum += found[k] = Math.exp(logits[k] - highest);
    for (let k = 0; k < logits.length; k++) found[k] /= sum;
    return found;
  }

  /** The place of the largest number; the first of equals. */
  function largest(values) {
    let best = 0;
    for (let k = 1; k < values.length; k++) if (values[k] > values[best]) best = k;
    return best;
  }

  /** The `count` most likely: [[id, probability], ...], best first; of equals the lower id. */
  function top(probabilities, count) {
    const pairs = Array.from(probabilities, (probability, id) => [id, probability]);
    return pairs.sort((one, other) => other[1] - one[1] || one[0] - other[0]).slice(0, count);
  }

  return { dot, layerNorm, relu, gelu, softmax, largest, top };
})();
