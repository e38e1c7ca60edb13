"use strict";
/** Layers, poolings, and whole passes: one example with everything recorded, or many with the answers alone. */
Headway.passes = (() => {
  const { layerNorm, relu, gelu, softmax, largest } = Headway.arithmetic, { linear } = Headway;
  const { rowsOf, embed, turn, changesOf, look } = Headway.attention;

  // Layers

  function add(x, branch) {
    for (let k = 0; k < x.length; k++) x[k] += branch[k];
  }

  /** One branch of a block, added to the stream in place; its norm stands before it or after the sum. */
  function addBranch(pass, x, norm, compute) {
    const rows = x.length / pass.engine.width, before = pass.model.norm === "pre";
    add(x, compute(before ? layerNorm(x, rows, norm) : x, rows));
    if (!before) x.set(layerNorm(x, rows, norm));
  }

  function keysAndValues(pass, site, x, rows) {
    const key = turn(pass.engine, linear(x, rows.length, site.key), rows, site.kept.length);
    return { key, value: linear(x, rows.length, site.value) };
  }

  /** Keys and values of all tokens so far: the new ones are put behind those that the cache holds. */
  function grow(cache, found, start, width) {
    if (!cache) return found;
    cache.key.set(found.key, start * width);
    cache.value.set(found.value, start * width);
    return cache;
  }

  /** `place`: rows of the new tokens and of all keys, how many queries and keys an example has, the first query. */
  function lookAtSelf(pass, site, x, n, place, cache) {
    const width = site.kept.length * pass.model.d_head;
    const query = turn(pass.engine, linear(x, place.rows.length, site.query), place.rows, site.kept.length);
    const { key, value } = grow(cache, keysAndValues(pass, site, x, place.rows), place.start, width);
    const view = { ...place, query, key, value, queryRows: place.rows, keyRows: place.allRows };
    return linear(look(pass, site, view, n), place.rows.length, site.output);
  }

  function lookAcross(pass, site, x, n, place, memory) {
    const query = turn(pass.engine, linear(x, place.rows.length, site.query), place.rows, site.kept.length);
    memory.read[site.name] ??= keysAndValues(pass, site, memory.encoded, memory.rows);
    const { key, value } = memory.read[site.name], keys = memory.rows.length / n;
    const view = { ...place, query, key, value, keys, queryRows: place.rows, keyRows: memory.rows };
    return linear(look(pass, site, view, n), place.rows.length, site.output);
  }

  function feedForward(pass, block, x, rows) {
    const hidden = linear(x, rows, block.expand);
    (pass.model.activation === "relu" ? relu : gelu)(hidden);
    return linear(hidden, rows, block.contract);
  }

  function runBlock(pass, block, x, n, place, memory, cache) {
    addBranch(pass, x, block.ownNorm, (read) => lookAtSelf(pass, block.own, read, n, place, cache));
    if (block.cross) {
      addBranch(pass, x, block.crossNorm, (read) => lookAcross(pass, block.cross, read, n, place, memory));
    }
    addBranch(pass, x, block.feedForwardNorm, (read, rows) => {
      const found = feedForward(pass, block, read, rows);
      if (pass.record) keepRows(pass.record.mlps, `${block.name}.mlp`, found, pass.engine.width);
      return found;
    });
  }

  /** Remember what was computed at each token, one vector a token. */
  function keepRows(lists, name, found, width) {
    lists[name] ??= [];
    for (let at = 0; at < found.length; at += width) lists[name].push(found.slice(at, at + width));
  }

  function normed(x, norm, width) {
    return norm ? layerNorm(x, x.length / width, norm) : x;
  }

  // Poolings: features over the places of one example's stream, each as wide as the stream

  const FEATURES = {
    mean: (x, places, width) => over(places, width, (k) => sumOf(places, (t) => x[t * width + k]) / places),
    max: (x, places, width) => over(places, width, (k) => highestOf(places, (t) => x[t * width + k])),
    min: (x, places, width) => over(places, width, (k) => -highestOf(places, (t) => -x[t * width + k])),
    first: (x, places, width) => x.slice(0, width),
    last: (x, places, width) => x.slice((places - 1) * width),
    "smallest step": (x, places, width) => over(places, width, (k) => smallestStep(x, places, width, k)),
    "mean step": (x, places, width) =>
      over(places, width, (k) => (x[(places - 1) * width + k] - x[k]) / Math.max(1, places - 1)),
  };

  function over(places, width, feature) {
    return Float32Array.from({ length: width }, (_, k) => feature(k));
  }

  function sumOf(places, value) {
    let sum = 0;
    for (let t = 0; t < places; t++) sum += value(t);
    return sum;
  }

  function highestOf(places, value) {
    let highest = -Infinity;
    for (let t = 0; t < places; t++) highest = Math.max(highest, value(t));
    return highest;
  }

  /** The least rise from one place to the next; 0 where there is one place only. */
  function smallestStep(x, places, width, k) {
    return places < 2 ? 0 : -highestOf(places - 1, (t) => x[t * width + k] - x[(t + 1) * width + k]);
  }

  /** The mean of the places, each weighted by the softmax of its score. */
  function weighted(x, places, width, score) {
    const weights = softmax(linear(x, places, score));
    return over(places, width, (k) => sumOf(places, (t) => weights[t] * x[t * width + k]));
  }

  /** One vector from one example's stream. */
  function pool(engine, x, places) {
    const { read, score, project, features } = engine.pooling;
    const values = read ? linear(x, places, read) : x, width = read ? read.outputs : engine.width;
    const found = features.map((name) =>
      name === "weighted" ? weighted(values, places, width, score) : FEATURES[name](values, places, width));
    const joined = new Float32Array(found.length * width);
    found.forEach((feature, index) => joined.set(feature, index * width));
    return project ? linear(joined, 1, project) : joined;
  }

  // Passes

  function startPass(engine, options, record) {
    return { engine, model: engine.run.model, changes: changesOf(engine, options), record };
  }

  function emptyRecord(engine) {
    const lists = () => Object.fromEntries(engine.run.sites.flatMap((site) => site.heads.map((head) => [head, []])));
    return { weights: lists(), outputs: lists(), mlps: {}, embedded: {} };
  }

  /** Rows of vectors as one array; shorter ones end in zeros. */
  function stacked(vectors, width) {
    const found = new Float32Array(vectors.length * width);
    vectors.forEach((vector, index) => found.set(vector, index * width));
    return found;
  }

  /**
   * @typedef {Object} Result
   * @property {number[]} tokens what was written, EOS last if it came; for a classifier its class alone
   * @property {{logits: Float32Array, probabilities: Float32Array, token: number}[]} steps one for each token
   * @property {Object<string, Float32Array>} weights of each head, queries x keys; what a query cannot see is 0
   * @property {Object<string, Float32Array>} outputs of each head, queries x d_head: what a patch puts elsewhere
   * @property {Object<string, number[]>} shapes of each site's weights: [queries, keys]
   * @property {Object<string, Float32Array>} mlps what each MLP adds to the stream, tokens x d_model
   * @property {Object<string, Float32Array>} embedded what enters the first layer of each stack, tokens x d_model
   */
  function resultOf(engine, record, tokens, steps) {
    const weights = {}, outputs = {}, shapes = {};
    for (const site of engine.run.sites) {
      for (const head of site.heads) {
        const rows = record.weights[head], keys = rows[rows.length - 1].length;
        weights[head] = stacked(rows, keys);
        outputs[head] = stacked(record.outputs[head], engine.run.model.d_head);
        shapes[site.name] = [rows.length, keys];
      }
    }
    const rows = (lists) => Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, stacked(list, engine.width)]));
    return { tokens, steps, weights, outputs, shapes, mlps: rows(record.mlps), embedded: rows(record.embedded) };
  }

  function stepOf(logits) {
    return { logits, probabilities: softmax(logits), token: largest(logits) };
  }

  function wholePlace(rows, n) {
    const count = rows.length / n;
    return { rows, allRows: rows, queries: count, keys: count, start: 0 };
  }

  /** Tokens as they enter a stack. */
  function enter(pass, stack, tokens, rows) {
    const x = embed(pass.engine, tokens, rows);
    if (pass.record) keepRows(pass.record.embedded, stack, x, pass.engine.width);
    return x;
  }

  function classify(engine, source, options) {
    const record = emptyRecord(engine), pass = startPass(engine, options, record);
    const [rows] = rowsOf(engine, source, 0), x = enter(pass, "encoder", source, rows);
    for (const block of engine.encoder) runBlock(pass, block, x, 1, wholePlace(rows, 1));
    const pooled = pool(engine, normed(x, engine.encoderNorm, engine.width), source.length);
    const step = stepOf(linear(pooled, 1, engine.readout));
    return resultOf(engine, record, [step.token], [step]);
  }

  /** What decoding keeps of a source: the encoder's output and the keys and values of every layer so far. */
  function begin(pass, source, capacity) {
    const { engine, model } = pass, [sourceRows, answerRows] = rowsOf(engine, source, capacity);
    const joined = model.shape === "decoder";
    const rows = joined ? Int32Array.of(...sourceRows, ...answerRows) : answerRows;
    const room = ({ own }) => new Float32Array(rows.length * own.kept.length * model.d_head);
    const caches = engine.decoder.map((block) => ({ key: room(block), value: room(block) }));
    if (joined) return { rows, caches, memory: null, filled: 0 };
    const x = enter(pass, "encoder", source, sourceRows);
    for (const block of engine.encoder) runBlock(pass, block, x, 1, wholePlace(sourceRows, 1));
    const memory = { encoded: normed(x, engine.encoderNorm, engine.width), rows: sourceRows, read: {} };
    return { rows, caches, memory, filled: 0 };
  }

  /** Read more tokens; the logits after each of them, one after another. */
  function advance(pass, state, tokens) {
    const { engine } = pass, start = state.filled, end = start + tokens.length;
    const rows = state.rows.subarray(start, end), x = enter(pass, "decoder", tokens, rows);
    const place = { rows, allRows: state.rows.subarray(0, end), queries: tokens.length, keys: end, start };
    engine.decoder.forEach((block, layer) => runBlock(pass, block, x, 1, place, state.memory, state.caches[layer]));
    state.filled = end;
    return linear(normed(x, engine.decoderNorm, engine.width), tokens.length, engine.readout);
  }

  /** Decode greedily, or read a prefix that is given. */
  function decode(engine, source, prefix, options) {
    const { task, vocabulary, model } = engine.run, words = vocabulary.tokens.length;
    const record = emptyRecord(engine), pass = startPass(engine, options, record);
    const most = prefix ? prefix.length : task.longest_answers[source.length - task.shortest];
    const state = begin(pass, source, most), steps = [];
    const before = model.shape === "decoder" ? Array.from(source) : [];
    const read = (tokens) => {
      const logits = advance(pass, state, tokens), count = logits.length / words;
      for (let t = Math.max(0, count - (prefix ? prefix.length : 1)); t < count; t++) {
        steps.push(stepOf(logits.slice(t * words, (t + 1) * words)));
      }
    };
    read([...before, ...(prefix ?? [vocabulary.bos])]);
    while (!prefix && steps.length < most && steps[steps.length - 1].token !== vocabulary.eos) {
      read([steps[steps.length - 1].token]);
    }
    return resultOf(engine, record, steps.map((step) => step.token), steps);
  }

  // Many examples of the same lengths in one pass, with the right prefix everywhere

  /** The first block that a change touches; blocks are counted through encoder and decoder. */
  function firstChanged(engine, changes) {
    const touched = (block) => [block.own, block.cross].some((site) => site && changes.has(site.name));
    const first = [...engine.encoder, ...engine.decoder].findIndex(touched);
    return first < 0 ? Infinity : first;
  }

  /**
   * Run the blocks from `memo`'s furthest stream that no change has touched, and remember the streams on the way.
   * `memo.streams[b]` is what enters block b of the unchanged model.
   */
  function runStack(pass, blocks, first, x, n, place, memory, memo) {
    const start = Math.max(first, furthest(memo, first, first + blocks.length - 1, pass.limit));
    let stream = memo.streams[start]?.slice() ?? x();
    for (let b = start; b < first + blocks.length; b++) {
      if (b <= pass.limit) memo.streams[b] ??= stream.slice();
      runBlock(pass, blocks[b - first], stream, n, place, memory);
    }
    return stream;
  }

  function furthest(memo, first, last, limit) {
    for (let b = Math.min(last, limit); b > first; b--) if (memo.streams[b]) return b;
    return first;
  }

  function joinedRows(parts) {
    const found = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      found.set(part, at);
      at += part.length;
    }
    return found;
  }

  /** Sources of one length through the encoder; the memo spares what the last pass computed and no change touches. */
  function encodeMany(pass, sources, rows, memo) {
    const { engine } = pass, n = sources.length, layers = engine.encoder.length;
    if (pass.limit >= layers && memo.encoded) return memo.encoded;
    const start = () => embed(engine, joinedRows(sources), rows);
    const x = runStack(pass, engine.encoder, 0, start, n, wholePlace(rows, n), null, memo);
    const encoded = normed(x, engine.encoderNorm, engine.width);
    if (pass.limit >= layers) memo.encoded = encoded;
    return encoded;
  }

  /** Logits of examples {source, target} of the same lengths, example by example; `memo` starts as {streams: []}. */
  function teach(engine, examples, options, memo = { streams: [] }) {
    const pass = startPass(engine, options, null), n = examples.length, { shape } = pass.model;
    pass.limit = firstChanged(engine, pass.changes);
    const sources = examples.map((example) => example.source);
    if (engine.pooling) return classifyMany(pass, sources, memo);
    const prefixes = examples.map(({ target }) => [engine.run.vocabulary.bos, ...target.slice(0, -1)]);
    const rows = sources.map((source) => rowsOf(engine, source, prefixes[0].length));
    const sourceRows = joinedRows(rows.map((pair) => pair[0]));
    const memory = shape === "decoder" ? null
      : { encoded: encodeMany(pass, sources, sourceRows, memo), rows: sourceRows, read: {} };
    const together = shape === "decoder";
    const tokens = joinedRows(prefixes.map((prefix, i) => (together ? [...sources[i], ...prefix] : prefix)));
    const own = joinedRows(rows.map(([source, answer]) => (together ? joinedRows([source, answer]) : answer)));
    const start = () => embed(engine, tokens, own), first = engine.encoder.length;
    const x = runStack(pass, engine.decoder, first, start, n, wholePlace(own, n), memory, memo);
    return readMany(engine, x, n, prefixes[0].length);
  }

  function classifyMany(pass, sources, memo) {
    const { engine } = pass, rows = joinedRows(sources.map((source) => rowsOf(engine, source, 0)[0]));
    const encoded = encodeMany(pass, sources, rows, memo), size = sources[0].length * engine.width;
    return sources.map((source, i) => {
      const pooled = pool(engine, encoded.subarray(i * size, (i + 1) * size), source.length);
      return [linear(pooled, 1, engine.readout)];
    });
  }

  /** The logits of the last `count` tokens of each example. */
  function readMany(engine, x, n, count) {
    const words = engine.readout.outputs, tokens = x.length / engine.width / n;
    const logits = linear(normed(x, engine.decoderNorm, engine.width), n * tokens, engine.readout);
    return Array.from({ length: n }, (_, i) =>
      Array.from({ length: count }, (_, t) => {
        const at = ((i + 1) * tokens - count + t) * words;
        return logits.subarray(at, at + words);
      }));
  }

  /** Whether each example is answered rightly, every token of it: the same as greedy decoding would find. */
  function verdicts(engine, examples, options, memo) {
    return teach(engine, examples, options, memo).map((logits, i) => {
      const target = [examples[i].target].flat();
      return logits.every((values, t) => largest(values) === target[t]);
    });
  }

  return { classify, decode, teach, verdicts };
})();

Headway.open = (run) => new Headway.model.Engine(run);
Headway.top = Headway.arithmetic.top;
