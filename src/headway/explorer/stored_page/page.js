"use strict";
// Shows stored attention and stored answers; nothing is computed here.
const data = JSON.parse(document.getElementById("data").textContent);
const state = { example: 0, head: data.heads[0] };
const at = (id) => document.getElementById(id);

function make(tag, words, parent, name) {
  const made = document.createElement(tag);
  if (words !== undefined) made.textContent = words;
  if (name) made.className = name;
  if (parent) parent.append(made);
  return made;
}

function square(parent, weights) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  drawing.setAttribute("viewBox", `0 0 ${weights[0].length} ${weights.length}`);
  drawing.setAttribute("aria-hidden", "true");
  if (weights.length === 1 && weights[0].length === 1) drawing.setAttribute("preserveAspectRatio", "none");
  weights.forEach((row, y) => row.forEach((weight, x) => {
    const cell = document.createElementNS(space, "rect");
    for (const [key, value] of [["x", x], ["y", y], ["width", 1], ["height", 1], ["fill-opacity", weight]]) cell.setAttribute(key, value);
    drawing.append(cell);
  }));
  parent.append(drawing);
}

const written = (tokens) => tokens.join(" ");
const same = (one, other) => written(one) === written(other);
const site = (head) => head.slice(0, head.lastIndexOf("."));

function axes(head, example) {
  const cross = site(head).endsWith("cross");
  const own = site(head).startsWith("enc") || !example.prefix.length ? example.source : example.prefix;
  return { queries: cross ? example.prefix : own, keys: cross ? example.source : own };
}

function facts(example) {
  const list = at("facts");
  list.replaceChildren();
  const verdict = example.target.length ? (same(example.answer, example.target) ? "right" : "wrong") : "";
  for (const [name, tokens, kind] of [["reads", example.source], ["decoder reads", example.prefix], ["right answer", example.target], [example.prefix.length ? "answers, after the right tokens" : "answers", example.answer, verdict]]) {
    if (!tokens.length) continue;
    make("dt", name, list);
    make("dd", written(tokens), list, `token ${kind || ""}`);
  }
}

function heads(example) {
  const place = at("heads");
  place.replaceChildren();
  for (const name of [...new Set(data.heads.map(site))]) {
    make("h3", name, place);
    const row = make("div", undefined, place, "row");
    for (const head of data.heads.filter((one) => site(one) === name)) {
      const changes = !same(example.without[head], example.answer);
      const button = make("button", undefined, row, changes ? "head changes" : "head");
      make("span", head.slice(head.lastIndexOf(".") + 1), button);
      square(button, example.weights[head]);
      make("small", data.verdicts[head], button);
      button.setAttribute("aria-pressed", String(head === state.head));
      button.setAttribute("aria-label", `${head}, ${data.verdicts[head]}${changes ? ", its removal changes this answer" : ""}`);
      button.addEventListener("click", () => { state.head = head; draw(); });
    }
  }
}

function chosen(example) {
  const head = state.head;
  at("head-title").textContent = head;
  const without = example.without[head];
  const effect = at("effect");
  effect.replaceChildren();
  effect.append("Without it, the answer is ");
  make("span", written(without), effect, `token ${same(without, example.answer) ? "" : "wrong"}`);
  effect.append(same(without, example.answer) ? ", as with all heads." : `, with all heads ${written(example.answer)}.`);
  const place = at("map");
  place.replaceChildren();
  const { queries, keys } = axes(head, example);
  const table = make("table", undefined, place);
  const top = make("tr", undefined, make("thead", undefined, table));
  make("th", "query, key", top).scope = "col";
  keys.forEach((key) => { make("th", key, top, "token").scope = "col"; });
  const body = make("tbody", undefined, table);
  example.weights[head].forEach((weights, row) => {
    const line = make("tr", undefined, body);
    make("th", queries[row] ?? String(row), line, "token").scope = "row";
    weights.forEach((weight) => {
      const cell = make("td", undefined, line);
      square(cell, [[weight]]);
      make("span", weight.toFixed(2), cell);
    });
  });
}

function draw() {
  const example = data.examples[state.example];
  const choices = at("examples");
  choices.replaceChildren();
  data.examples.forEach((one, index) => {
    const button = make("button", String(index + 1), choices);
    button.setAttribute("aria-pressed", String(index === state.example));
    button.setAttribute("aria-label", `example ${index + 1}`);
    button.addEventListener("click", () => { state.example = index; draw(); });
  });
  facts(example);
  heads(example);
  chosen(example);
}

draw();
