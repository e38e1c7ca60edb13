"use strict";
/** A run's weights and tables, laid out for the pass. */
Headway.model = (() => {
  // Reading a run

  const HALVES = { table: null };

  /** Every half-precision number as a float, by its bits. */
  function halves() {
    if (HALVES.table) return HALVES.table;
    const table = new Float32Array(65536);
    for (let bits = 0; bits < 65536; bits++) {
      const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
      if (exponent === 0) table[bits] = sign * fraction * 2 ** -24;
      else if (exponent === 31) table[bits] = fraction ? NaN : sign * Infinity;
      else table[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
    }
    HALVES.table = table;
    return table;
  }

  function bytesOf(base64) {
    const text = atob(base64), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  function readTensor(buffer, { type, shape, at }) {
    const count = shape.reduce((product, size) => product * size, 1);
    if (type === "fp32") return new Float32Array(buffer, at, count).slice();
    const bits = new Uint16Array(buffer, at, count);
    if (type === "u16") return bits.slice();
    const table = halves(), values = new Float32Array(count);
    for (let i = 0; i < count; i++) values[i] = table[bits[i]];
    return values;
  }

  /** All tensors of a run by name: {values, shape}. */
  function readTensors(weights) {
    const buffer = bytesOf(weights.data).buffer, tensors = {};
    for (const [name, entry] of Object.entries(weights.index)) {
      tensors[name] = { values: readTensor(buffer, entry), shape: entry.shape };
    }
    return tensors;
  }

  // A model, laid out for the pass

  function layerOf(tensors, name) {
    const { values, shape } = tensors[`${name}.weight`];
    const layer = { weight: values, bias: tensors[`${name}.bias`].values, outputs: shape[0], inputs: shape[1] };
    return { ...layer, placed: Headway.kernel ? Headway.kernel.place(layer) : null };
  }

  function normOf(tensors, name, epsilon) {
    const weight = tensors[`${name}.weight`];
    return weight ? { weight: weight.values, bias: tensors[`${name}.bias`].values, epsilon } : null;
  }

  function siteOf(run, tensors, site, path) {
    const bias = run.model.tables.bias[site.kind], values = tensors[`bias.${site.kind}`];
    return {
      ...site,
      query: layerOf(tensors, `${path}.query`),
      key: layerOf(tensors, `${path}.key`),
      value: layerOf(tensors, `${path}.value`),
      output: layerOf(tensors, `${path}.output`),
      bias: bias ? { ...bias, values: values.values, width: values.shape[values.shape.length - 1] } : null,
    };
  }

  function blockOf(run, tensors, stack, layer) {
    const path = `${stack}.${layer}`, epsilon = run.model.epsilon;
    const find = (looks) => run.sites.find((site) => site.name === `${path}.${looks}`);
    const across = find("cross");
    return {
      name: `${stack.slice(0, 3)}${layer}`,
      own: siteOf(run, tensors, find("self"), `${path}.own`),
      ownNorm: normOf(tensors, `${path}.own_norm`, epsilon),
      cross: across ? siteOf(run, tensors, across, `${path}.cross`) : null,
      crossNorm: normOf(tensors, `${path}.cross_norm`, epsilon),
      expand: layerOf(tensors, `${path}.feed_forward.expand`),
      contract: layerOf(tensors, `${path}.feed_forward.contract`),
      feedForwardNorm: normOf(tensors, `${path}.feed_forward_norm`, epsilon),
    };
  }

  function poolingOf(pooling, tensors) {
    if (!pooling) return null;
    const named = (name) => (name ? layerOf(tensors, name) : null);
    return { ...pooling, read: named(pooling.read), score: named(pooling.score), project: named(pooling.project) };
  }

  /** A run with its weights, ready to compute. `tensors` spares the decoding where they are known already. */
  class Engine {
    constructor(run, tensors = readTensors(run.weights)) {
      const { model } = run, count = (size) => Array.from({ length: size }, (_, index) => index);
      this.run = run;
      this.tensors = tensors;
      this.width = model.d_model;
      this.embedding = tensors["embedding.weight"].values;
      this.rows = tensors.rows.values;
      this.encoder = count(model.encoder_layers).map((layer) => blockOf(run, tensors, "encoder", layer));
      this.decoder = count(model.decoder_layers).map((layer) => blockOf(run, tensors, "decoder", layer));
      this.encoderNorm = normOf(tensors, "encoder_norm", model.epsilon);
      this.decoderNorm = normOf(tensors, "decoder_norm", model.epsilon);
      this.readout = layerOf(tensors, "readout");
      this.pooling = poolingOf(model.pooling, tensors);
    }

    /**
     * Greedy decoding of one source, or its class.
     * @param {number[]} source token ids
     * @param {{off?: Object<string, "zero"|"mean">, patch?: Object<string, Float32Array>, at?: number | null}} options
     *   at: the one query at which the patch is put; all of them without it
     * @returns {Result} see engine-passes.js
     */
    answer(source, options = {}) {
      checkSource(this, source);
      const { classify, decode } = Headway.passes;
      return this.pooling ? classify(this, source, options) : decode(this, source, null, options);
    }

    /** One pass over a source and a given prefix (BOS first). */
    read(source, prefix, options = {}) {
      checkSource(this, source);
      if (this.pooling) throw new RangeError("this model answers with a class; it reads no prefix");
      checkTokens(this, prefix, "prefix", 1, this.run.task.longest_answer);
      return Headway.passes.decode(this, source, prefix, options);
    }
  }

  function checkSource(engine, source) {
    checkTokens(engine, source, "source", engine.run.task.shortest, engine.run.task.longest);
  }

  function checkTokens(engine, tokens, name, least, most) {
    if (tokens.length < least || tokens.length > most) {
      const allowed = least === most ? `${least}` : `${least} to ${most}`;
      throw new RangeError(`the ${name} has ${tokens.length} tokens; ${allowed} can be shown`);
    }
    for (const token of tokens) {
      if (!(Number.isInteger(token) && token >= 0 && token < engine.run.vocabulary.tokens.length)) {
        throw new RangeError(`the ${name} holds ${token}, which is no token`);
      }
    }
  }

  return { Engine };
})();
