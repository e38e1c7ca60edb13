"use strict";
/**
 * Direct logit attribution of one step of one answer: the logit difference of two tokens as a sum over the parts of the
 * decoder, with the deviation of the final norm held at its value. The same split as headway/head_analysis/attribution.py.
 */
Headway.attribution = (() => {
  /** Why a model's logit difference is no sum of what its parts write; "" if it is. */
  function whyNot({ run: { model } }) {
    if (model.shape === "encoder") return "A classifier pools its encoder’s output: its logits are no sum of what heads write.";
    return model.norm === "pre" ? "" : "A post-norm model normalises its stream in every layer: it is no sum of what heads write.";
  }

  /** What one head adds to the stream: its output through its slice of the output projection. */
  function written(site, head, output, size) {
    const { weight, inputs, outputs } = site.output, found = new Float64Array(outputs);
    for (let k = 0; k < outputs; k++) {
      for (let j = 0; j < size; j++) found[k] += weight[k * inputs + head * size + j] * output[j];
    }
    return found;
  }

  /** Everything that is added up in the decoder's stream at one row: [{part, values}]. */
  function partsAt(engine, result, row) {
    const { width } = engine, size = engine.run.model.d_head;
    const slice = (values, count) => values.subarray(row * count, (row + 1) * count);
    const parts = [{ part: "embedding", values: slice(result.embedded.decoder, width) }];
    for (const block of engine.decoder) {
      for (const site of [block.own, block.cross].filter(Boolean)) {
        site.heads.forEach((part, head) => {
          parts.push({ part, values: written(site, head, slice(result.outputs[part], size), size) });
        });
        parts.push({ part: "constant", values: site.output.bias });
      }
      parts.push({ part: `${block.name}.mlp`, values: slice(result.mlps[`${block.name}.mlp`], width) });
    }
    return parts;
  }

  /**
   * The logit of token `right` less that of `other` at a step, split: {parts: [{part, value}], total}; `row` is the
   * decoder's query that writes the step.
   */
  function split(engine, result, row, right, other) {
    const { width, readout, decoderNorm } = engine, found = partsAt(engine, result, row);
    const stream = new Float64Array(width), direction = new Float64Array(width);
    for (const { values } of found) for (let k = 0; k < width; k++) stream[k] += values[k];
    const mean = stream.reduce((sum, value) => sum + value, 0) / width;
    const spread = stream.reduce((sum, value) => sum + (value - mean) ** 2, 0) / width;
    const deviation = Math.sqrt(spread + decoderNorm.epsilon);
    let constant = readout.bias[right] - readout.bias[other];
    for (let k = 0; k < width; k++) {
      const difference = readout.weight[right * width + k] - readout.weight[other * width + k];
      direction[k] = (difference * decoderNorm.weight[k]) / deviation;
      constant += difference * decoderNorm.bias[k];
    }
    const level = direction.reduce((sum, value) => sum + value, 0) / width;
    const values = new Map([["constant", constant]]);
    for (const { part, values: vector } of found) {
      let value = 0;
      for (let k = 0; k < width; k++) value += vector[k] * (direction[k] - level);
      values.set(part, (values.get(part) ?? 0) + value);
    }
    const parts = [...values].map(([part, value]) => ({ part, value }));
    return { parts, total: parts.reduce((sum, { value }) => sum + value, 0) };
  }

  return { whyNot, split, written };
})();
