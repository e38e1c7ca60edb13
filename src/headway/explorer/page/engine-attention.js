"use strict";
/** Where tokens stand, and attention between them. */
Headway.attention = (() => {
  const { dot } = Headway.arithmetic;

  // Where tokens stand

  /** For each digit how many places it stands after the last token that is none; 0 for the others. */
  function placesInNumbers(tokens, fromRight) {
    const found = new Int32Array(tokens.length);
    const order = fromRight ? -1 : 1, start = fromRight ? tokens.length - 1 : 0;
    for (let step = 0, place = 0; step < tokens.length; step++) {
      const at = start + order * step;
      found[at] = place = tokens[at] < 10 ? place + 1 : 0;
    }
    return found;
  }

  function taskPositions(rule, source, answer) {
    if (rule.by === "place") return [rule.source, rule.prefix];
    if (rule.by === "digits") {
      return [placesInNumbers(source, rule.from === "right"), answer.map((place) => place + rule.answer)];
    }
    return [source.map((_, place) => place), answer];
  }

  /** The rows of one source's tokens, and of `count` tokens of its answer. */
  function rowsOf(engine, source, count) {
    const { task, model } = engine.run, { tables } = model, places = Array.from({ length: count }, (_, place) => place);
    const [own, answer] = taskPositions(tables.positions, Array.from(source), places);
    const shift = tables.shift ? source.length : 0;
    if (!tables.moved) return [Int32Array.from(own), Int32Array.from(places, (place) => answer[place] + shift)];
    const table = engine.tensors.placement.values;
    const start = (source.length - task.shortest) * (task.longest + task.longest_answer);
    return [
      Int32Array.from(own, (place) => table[start + place]),
      Int32Array.from(answer, (place) => table[start + task.longest + place]),
    ];
  }

  /** Tokens as a stream, with what the encoding adds at their rows. */
  function embed(engine, tokens, rows) {
    const { width, embedding } = engine, added = engine.tensors.added?.values;
    const x = new Float32Array(tokens.length * width);
    for (let t = 0; t < tokens.length; t++) {
      const from = tokens[t] * width, at = t * width, row = rows[t] * width;
      for (let k = 0; k < width; k++) x[at + k] = embedding[from + k] + (added ? added[row + k] : 0);
    }
    return x;
  }

  /** Turn queries or keys in place, plane by plane, as the encoding does at their rows. */
  function turn(engine, x, rows, heads) {
    const turned = engine.tensors.turned?.values, size = engine.run.model.d_head;
    if (!turned) return x;
    for (let t = 0, at = 0; t < rows.length; t++) {
      for (let head = 0; head < heads; head++) {
        for (let k = 0; k < size; k += 2, at += 2) {
          const cos = turned[rows[t] * size + k], sin = turned[rows[t] * size + k + 1];
          const first = x[at], second = x[at + 1];
          x[at] = first * cos - second * sin;
          x[at + 1] = first * sin + second * cos;
        }
      }
    }
    return x;
  }

  // Attention

  /**
   * What to do at each site, from {off, patch, at}: a list of {head, values, rows, at}. `values` null is zero; `rows` is
   * how many queries the values are for, 0 when they are for all; `at` is the one query that a patch is for, null for all.
   */
  function changesOf(engine, { off = {}, patch = {}, at = null }) {
    const changes = new Map(), size = engine.run.model.d_head;
    const add = (name, make) => {
      const site = engine.run.sites.find((one) => one.heads.includes(name));
      if (!site) throw new RangeError(`the model has no head ${name}`);
      if (!changes.has(site.name)) changes.set(site.name, []);
      changes.get(site.name).push(make(site, site.heads.indexOf(name)));
    };
    for (const [name, kind] of Object.entries(off)) {
      if (kind !== "zero" && kind !== "mean") throw new RangeError(`${name} is off by ${kind}; zero or mean`);
      add(name, (site, head) => {
        const mean = engine.tensors[`mean.${site.name}`].values;
        return { head, values: kind === "mean" ? mean.subarray(head * size, (head + 1) * size) : null, rows: 0, at: null };
      });
    }
    for (const [name, values] of Object.entries(patch)) {
      add(name, (_, head) => ({ head, values, rows: values.length / size, at }));
    }
    return changes;
  }

  /** Put the changes into what the heads of a site bring, tokens x (head d_head); `start` is the first query. */
  function change(pass, site, mixed, queries, start) {
    const size = pass.engine.run.model.d_head, width = site.kept.length * size;
    for (const { head, values, rows, at: only } of pass.changes.get(site.name) ?? []) {
      for (let t = 0; t < mixed.length / width; t++) {
        const query = start + (t % queries), at = t * width + head * size;
        if ((rows && query >= rows) || (only !== null && query !== only)) continue;
        const from = rows ? query * size : 0;
        for (let k = 0; k < size; k++) mixed[at + k] = values ? values[from + k] : 0;
      }
    }
  }

  /** Where a head's bias for one query lies: add a key's row (by rows), or its position (by offset). */
  function biasRow(bias, head, row, rows) {
    if (bias.by === "rows") return (head * bias.width + row) * bias.width;
    return head * bias.width - bias.least - rows[row];
  }

  function isNear(model, window, query, key) {
    const inside = Math.abs(query - key) <= window;
    return model.position_kind === "index" ? inside : (inside && query > 0) || key === 0;
  }

  /**
   * Weights of one query of one head over `seen` keys, into `weights`; the rest of it stays 0.
   * A query that sees nothing has weights 0.
   */
  function weigh(pass, site, head, view, example, i, seen, weights) {
    const { engine, model } = pass, { rows } = engine, { query, key } = view, { bias } = site;
    const size = model.d_head, width = site.kept.length * size;
    const own = view.queryRows[example * view.queries + i], keysAt = example * view.keys;
    const from = (example * view.queries + i) * width + head * size;
    const scale = (model.log_length_scale ? Math.log(seen) : 1) / Math.sqrt(size);
    const start = bias ? biasRow(bias, site.kept[head], own, rows) : 0;
    const window = site.window ?? model.window ?? null;  // models exported before windows differed by kind have one
    let highest = -Infinity, sum = 0;
    for (let j = 0; j < seen; j++) {
      const row = view.keyRows[keysAt + j];
      if (window !== null && !isNear(model, window, rows[own], rows[row])) {
        weights[j] = -Infinity;
        continue;
      }
      let score = dot(query, from, key, (keysAt + j) * width + head * size, size) * scale;
      if (bias) score += bias.values[start + (bias.by === "rows" ? row : rows[row])];
      weights[j] = score;
      if (score > highest) highest = score;
    }
    if (highest === -Infinity) return weights.fill(0);
    for (let j = 0; j < seen; j++) sum += weights[j] = Math.exp(weights[j] - highest);
    for (let j = 0; j < seen; j++) weights[j] /= sum;
    return weights.fill(0, seen);
  }

  /** What the heads of a site bring: tokens x (head d_head). */
  function look(pass, site, view, n) {
    const size = pass.model.d_head, width = site.kept.length * size, { queries, keys } = view;
    const mixed = new Float32Array(n * queries * width), weights = new Float64Array(keys);
    for (let example = 0; example < n; example++) {
      for (let head = 0; head < site.kept.length; head++) {
        for (let i = 0; i < queries; i++) {
          const seen = site.causal ? keys - queries + i + 1 : keys;
          weigh(pass, site, head, view, example, i, seen, weights);
          const at = (example * queries + i) * width + head * size;
          mix(mixed, at, weights, seen, view.value, example * keys * width + head * size, width, size);
          if (pass.record) pass.record.weights[site.heads[head]].push(new Float32Array(weights));
        }
      }
    }
    change(pass, site, mixed, queries, view.start);
    if (pass.record) keepOutputs(pass.record, site, mixed, queries, size);
    return mixed;
  }

  /** The mean of the seen values of one head, by the weights; sums of four coordinates at a time stay in registers. */
  function mix(mixed, at, weights, seen, value, from, width, size) {
    let k = 0;
    for (; k + 4 <= size; k += 4) {
      let first = 0, second = 0, third = 0, fourth = 0;
      for (let j = 0, place = from + k; j < seen; j++, place += width) {
        const weight = weights[j];
        first += weight * value[place];
        second += weight * value[place + 1];
        third += weight * value[place + 2];
        fourth += weight * value[place + 3];
      }
      mixed[at + k] = first;
      mixed[at + k + 1] = second;
      mixed[at + k + 2] = third;
      mixed[at + k + 3] = fourth;
    }
    for (; k < size; k++) {
      let sum = 0;
      for (let j = 0, place = from + k; j < seen; j++, place += width) sum += weights[j] * value[place];
      mixed[at + k] = sum;
    }
  }

  function keepOutputs(record, site, mixed, queries, size) {
    const width = site.kept.length * size;
    site.heads.forEach((name, head) => {
      for (let i = 0; i < queries; i++) {
        record.outputs[name].push(mixed.slice(i * width + head * size, i * width + (head + 1) * size));
      }
    });
  }

  return { rowsOf, embed, turn, changesOf, look };
})();
