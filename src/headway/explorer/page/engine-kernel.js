"use strict";
/**
 * Products of matrices, where nearly all of the time goes: y[row, out] = bias[out] + sum of x[row, k] weight[out, k].
 *
 * There are two ways. `Headway.plain` is JavaScript. `Headway.kernel` is a WebAssembly function of four numbers at a
 * time, about eight times as fast; it is put together below, instruction by instruction, so that nothing has to be
 * built. Where a browser refuses WebAssembly everything is done the plain way.
 */
Headway.plain = (() => {
  const { dot } = Headway.arithmetic;

  /** In tiles of 4 x 4, whose sums stay in registers. */
  function linear(x, rows, { weight, bias, inputs, outputs }) {
    const y = new Float32Array(rows * outputs);
    const fullRows = rows - (rows % 4), fullOutputs = outputs - (outputs % 4);
    for (let out = 0; out < fullOutputs; out += 4) {
      for (let row = 0; row < fullRows; row += 4) tile(x, row, weight, out, bias, y, inputs, outputs);
    }
    for (let row = 0; row < rows; row++) {
      for (let out = row < fullRows ? fullOutputs : 0; out < outputs; out++) {
        y[row * outputs + out] = bias[out] + dot(x, row * inputs, weight, out * inputs, inputs);
      }
    }
    return y;
  }

  function tile(x, row, weight, out, bias, y, inputs, outputs) {
    let a = row * inputs, b = a + inputs, c = b + inputs, d = c + inputs;
    let p = out * inputs, q = p + inputs, r = q + inputs, s = r + inputs;
    let ap = 0, aq = 0, ar = 0, as = 0, bp = 0, bq = 0, br = 0, bs = 0;
    let cp = 0, cq = 0, cr = 0, cs = 0, dp = 0, dq = 0, dr = 0, ds = 0;
    for (const end = a + inputs; a < end; a++, b++, c++, d++, p++, q++, r++, s++) {
      const wp = weight[p], wq = weight[q], wr = weight[r], ws = weight[s];
      const xa = x[a], xb = x[b], xc = x[c], xd = x[d];
      ap += xa * wp; aq += xa * wq; ar += xa * wr; as += xa * ws;
      bp += xb * wp; bq += xb * wq; br += xb * wr; bs += xb * ws;
      cp += xc * wp; cq += xc * wq; cr += xc * wr; cs += xc * ws;
      dp += xd * wp; dq += xd * wq; dr += xd * wr; ds += xd * ws;
    }
    const at = row * outputs + out, b0 = bias[out], b1 = bias[out + 1], b2 = bias[out + 2], b3 = bias[out + 3];
    put(y, at, ap + b0, aq + b1, ar + b2, as + b3);
    put(y, at + outputs, bp + b0, bq + b1, br + b2, bs + b3);
    put(y, at + 2 * outputs, cp + b0, cq + b1, cr + b2, cs + b3);
    put(y, at + 3 * outputs, dp + b0, dq + b1, dr + b2, ds + b3);
  }

  function put(y, at, first, second, third, fourth) {
    y[at] = first; y[at + 1] = second; y[at + 2] = third; y[at + 3] = fourth;
  }

  return { linear };
})();

/** The bytes of the WebAssembly function; memory is imported, sizes are multiples of `GRAIN`. */
Headway.kernelBytes = (() => {
  const I32 = 0x7f, V128 = 0x7b, ROWS = 2, OUTPUTS = 4, LANES = 4, BYTES = 16;

  function unsigned(value) {
    return value < 128 ? [value] : [(value & 127) | 128, ...unsigned(value >> 7)];
  }

  function signed(value) {
    const low = value & 127, rest = value >> 7, done = rest === 0 ? !(low & 64) : rest === -1 && Boolean(low & 64);
    return done ? [low] : [low | 128, ...signed(rest)];
  }

  const text = (word) => [word.length, ...Array.from(word, (letter) => letter.charCodeAt(0))];
  const section = (id, ...content) => [id, ...unsigned(content.flat().length), ...content.flat()];
  const get = (local) => [0x20, local], set = (local) => [0x21, local], number = (value) => [0x41, ...signed(value)];
  const simd = (code) => [0xfd, ...unsigned(code)];
  const PLUS = [0x6a], TIMES = [0x6c], BELOW = [0x49];
  const load = (...address) => [...address.flat(), ...simd(0), 4, 0], STORE = [...simd(11), 4, 0];
  const ADD = simd(228), MULTIPLY = simd(230), ZERO = [...simd(12), ...new Array(16).fill(0)];
  const increase = (local, ...by) => [get(local), ...by, PLUS, set(local)].flat();
  /** Do `body` at least once, and again while the number that `test` leaves is not 0. */
  const repeat = (body, test) => [0x03, 0x40, ...body.flat(), ...test.flat(), 0x0d, 0, 0x0b];

  /** Two vectors' numbers, chosen by 0 to 3 (of the first) and 4 to 7 (of the second). */
  const shuffle = (...chosen) => [...simd(13), ...chosen.flatMap((one) => [0, 1, 2, 3].map((byte) => 4 * one + byte))];

  /** Parameters, then locals: pointers, counters, and sums[row][output]. */
  const [X, WEIGHT, BIAS, Y, ROW_COUNT, INPUT_BYTES, OUTPUT_BYTES] = [0, 1, 2, 3, 4, 5, 6];
  const [ROW, OUT, K, W, XK] = [7, 8, 9, 10, 11], FIRST_VECTOR = 12;
  const inputs = Array.from({ length: ROWS }, (_, row) => FIRST_VECTOR + row), ONE_WEIGHT = FIRST_VECTOR + ROWS;
  const sumsOf = (row) => Array.from({ length: OUTPUTS }, (_, out) => ONE_WEIGHT + 1 + OUTPUTS * row + out);
  const sums = inputs.map((_, row) => sumsOf(row));
  const vectors = ROWS + 1 + ROWS * OUTPUTS;

  /** Four numbers of each row of x times four of each of the weight's rows. */
  const further = (rows) => new Array(rows).fill([...get(INPUT_BYTES), ...PLUS]);
  const addProduct = (sum, vector) => [get(sum), get(vector), get(ONE_WEIGHT), MULTIPLY, ADD, set(sum)].flat();
  const products = [
    ...inputs.flatMap((vector, row) => [load(get(XK), ...further(row)), set(vector)]),
    ...Array.from({ length: OUTPUTS }, (_, out) => [
      load(get(W), get(K), PLUS, ...further(out)),
      set(ONE_WEIGHT),
      ...sums.map((row, index) => addProduct(row[out], inputs[index])),
    ].flat()),
    increase(XK, ...number(BYTES)),
    increase(K, ...number(BYTES)),
  ];

  /** The four sums of a row, each over its four lanes, as one vector. */
  const pair = (one, other) => [
    get(one), get(other), shuffle(0, 4, 2, 6), get(one), get(other), shuffle(1, 5, 3, 7), ADD, set(one)];
  const total = ([first, second, third, fourth]) => [
    pair(first, second), pair(third, fourth),
    get(first), get(third), shuffle(0, 1, 4, 5), get(first), get(third), shuffle(2, 3, 6, 7), ADD].flat(2);
  const addressOfY = (row) =>
    [get(Y), get(ROW), number(row), PLUS, get(OUTPUT_BYTES), TIMES, PLUS, get(OUT), PLUS].flat();
  const storeRow = (row, index) =>
    [...addressOfY(index), ...total(row), ...load(get(BIAS), get(OUT), PLUS), ...ADD, ...STORE];

  const oneBlock = [
    ...sums.flat().map((sum) => [...ZERO, ...set(sum)]),
    number(0), set(K),
    get(X), get(ROW), get(INPUT_BYTES), TIMES, PLUS, set(XK),
    repeat(products, [get(K), get(INPUT_BYTES), BELOW]),
    ...sums.map(storeRow),
    increase(W, ...get(INPUT_BYTES), ...number(OUTPUTS), ...TIMES),
    increase(OUT, ...number(BYTES)),
  ];
  const twoRows = [
    number(0), set(OUT),
    get(WEIGHT), set(W),
    repeat(oneBlock, [get(OUT), get(OUTPUT_BYTES), BELOW]),
    increase(ROW, ...number(ROWS)),
  ];
  const body = [2, 5, I32, vectors, V128, ...repeat(twoRows, [get(ROW), get(ROW_COUNT), BELOW]), 0x0b];

  const bytes = Uint8Array.from([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    section(1, 1, 0x60, 7, new Array(7).fill(I32), 0),
    section(2, 1, text("headway"), text("memory"), 2, 0, 1),
    section(3, 1, 0),
    section(7, 1, text("linear"), 0, 0),
    section(10, 1, unsigned(body.length), body),
  ].flat(2));
  return { bytes, GRAIN: { rows: ROWS, outputs: OUTPUTS, inputs: LANES } };
})();

/** Weights in the memory of WebAssembly, and the products with them; null where there is no WebAssembly. */
Headway.kernel = (() => {
  const PAGE = 65536, SCRATCH = 1 << 20;
  const { bytes, GRAIN } = Headway.kernelBytes;
  const up = (value, grain) => Math.ceil(value / grain) * grain;

  function instantiate(memory) {
    try {
      return new WebAssembly.Instance(new WebAssembly.Module(bytes), { headway: { memory } }).exports.linear;
    } catch {
      return null;
    }
  }

  const memory = typeof WebAssembly === "undefined" ? null : new WebAssembly.Memory({ initial: SCRATCH / PAGE });
  const compute = memory && instantiate(memory);
  if (!compute) return null;
  let used = SCRATCH, view = new Float32Array(memory.buffer);

  /** Room for so many floats; the address in bytes. Nothing is ever given back: a page keeps its models. */
  function reserve(count) {
    const at = used, missing = used + 4 * count - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / PAGE));
    view = new Float32Array(memory.buffer);
    used = up(at + 4 * count, 16);
    return at;
  }

  function copyRows(from, rows, width, address, stride) {
    for (let row = 0; row < rows; row++) {
      view.set(from.subarray(row * width, (row + 1) * width), address / 4 + row * stride);
    }
  }

  /** Put a layer's weights in place, filled up with zeros; an empty one, or one too wide, stays plain. */
  function place(layer) {
    const inputs = up(layer.inputs, GRAIN.inputs), outputs = up(layer.outputs, GRAIN.outputs);
    const rows = Math.floor(SCRATCH / 4 / (inputs + outputs) / GRAIN.rows) * GRAIN.rows;
    if (rows === 0 || layer.inputs === 0 || layer.outputs === 0) return null;
    const weight = reserve(inputs * outputs), bias = reserve(outputs);
    copyRows(layer.weight, layer.outputs, layer.inputs, weight, inputs);
    copyRows(layer.bias, 1, layer.outputs, bias, outputs);
    return { inputs, outputs, weight, bias, rows };
  }

  function linear(x, rows, layer) {
    const { inputs, outputs, weight, bias, rows: most } = layer.placed, y = new Float32Array(rows * layer.outputs);
    for (let start = 0; start < rows; start += most) {
      const count = Math.min(most, rows - start), even = up(count, GRAIN.rows), address = 4 * even * inputs;
      // Filled-up weights are 0, but 0 times an infinity that stood here before would not be.
      if (inputs !== layer.inputs) view.fill(0, 0, even * inputs);
      copyRows(x.subarray(start * layer.inputs), count, layer.inputs, 0, inputs);
      compute(0, weight, bias, address, even, 4 * inputs, 4 * outputs);
      for (let row = 0; row < count; row++) {
        const from = address / 4 + row * outputs;
        y.set(view.subarray(from, from + layer.outputs), (start + row) * layer.outputs);
      }
    }
    return y;
  }

  return { place, linear };
})();

/** y = x weight + bias for `rows` rows of x, in whichever way the layer was laid out. */
Headway.linear = (x, rows, layer) => (layer.placed ? Headway.kernel : Headway.plain).linear(x, rows, layer);
