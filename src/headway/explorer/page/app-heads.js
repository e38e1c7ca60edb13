"use strict";
// Every head as a small map where it stands in the model, the one that is looked at enlarged, and those that are pinned.
const PageHeads = (() => {
  const { make, percent } = PageDraw;
  const VERDICTS = { "depends on the ablation": "depends" };
  const SIDES = { encoder: "Encoder", decoder: "Decoder" };
  const SITES = { encoder: "self-attention", decoder: "self-attention", cross: "cross-attention to the encoder" };
  const SHARES = ["diagonal", "operator", "carry", "previous_column", "boundary", "first_operand", "second_operand",
    "next_element", "previous_element", "inversion", "self_token", "previous_token", "entropy_share", "sparsity"];

  const FEW_KEYS = 20;

  const isCausal = (site) => site.causal && site.kind !== "cross";
  const siteOf = (run, head) => run.sites.find((site) => site.heads.includes(head));

  /** What there is to draw of a head now; null until the model has answered. */
  const mapOf = (page, head) => {
    const { run, source, result, state } = page;
    const weights = result?.weights?.[head];
    if (!weights) return null;
    const site = siteOf(run, head);
    const axes = PageTasks.axes(run, site, source, result.tokens);
    const step = state.step === null ? null : Math.min(state.step, result.tokens.length - 1);
    const row = step === null ? null : PageTasks.rowOfStep(run, site, source, step);
    const shown = row === null ? axes.queries.length : row + 1;
    return { weights, ...axes, shown, row, causal: isCausal(site), top: topOf(weights, axes.keys.length) };
  };

  /** Over a few keys colours go from 0 to 1; over many, where no weight is near 1, to the largest of the map. */
  const topOf = (weights, keys) => (keys <= FEW_KEYS ? 1 : Math.max(1e-6, weights.reduce((most, weight) => Math.max(most, weight), 0)));

  const foundOf = (run, head) => run.analysis?.heads?.[head] || null;
  const roleOf = (found) => (found?.role ? found.role.split(":").pop().trim().replaceAll("_", " ") : "");

  /** A head in words, for those who hear the page. */
  const describe = (page, head) => {
    const found = foundOf(page.run, head);
    const words = [head, found?.verdict, roleOf(found), page.state.off.includes(head) ? "switched off" : "on"];
    return words.filter(Boolean).join(", ");
  };

  /** All heads, the encoder's and the decoder's, layer by layer. */
  class Grid {
    constructor(page) {
      this.page = page;
      this.element = document.getElementById("grid");
      this.tiles = new Map();
      this.tip = document.getElementById("tip");
      this.element.addEventListener("keydown", (event) => this.press(event));
      this.element.addEventListener("pointermove", (event) => this.hover(event));
      this.element.addEventListener("pointerleave", () => (this.tip.hidden = true));
      new ResizeObserver(() => this.draw()).observe(this.element);
    }

    /** Lay the run's heads out; once for each run. */
    build() {
      const { run } = this.page;
      this.tiles.clear();
      const sides = [...new Set(run.sites.map((site) => site.side))];
      this.element.classList.toggle("alone", sides.length === 1);
      this.element.style.setProperty("--heads", String(Math.min(8, Math.max(1, ...run.sites.map((site) => site.heads.length)))));
      this.element.replaceChildren(...sides.map((side) => this.side(side, run.sites.filter((site) => site.side === side))));
    }

    side(name, sites) {
      const layers = [...new Set(sites.map((site) => site.layer))];
      const rows = layers.flatMap((layer) => {
        const own = sites.filter((site) => site.layer === layer);
        return [this.layerLine(`${SIDES[name] || name} layer ${layer}`, layer, own), ...own.map((site) => this.site(site))];
      });
      return make("div", { class: "stack" }, make("h3", {}, SIDES[name] || name), ...rows);
    }

    layerLine(name, layer, sites) {
      const heads = sites.flatMap((site) => site.heads);
      const switchAll = () => this.page.switchAll(heads);
      const named = { "data-layer": heads.join(","), "data-name": name, "aria-label": `${name}: off` };
      const button = make("button", { type: "button", ...named, onclick: switchAll }, "Layer off");
      return make("div", { class: "layer-line" }, `Layer ${layer}`, heads.length ? button : null);
    }

    site(site) {
      const tiles = site.heads.map((head) => this.tile(head));
      const said = SITES[site.kind] + (isCausal(site) ? ", causal" : "") + (tiles.length ? "" : ": no heads left");
      return make("div", { class: "site" }, make("header", {}, said), make("div", { class: "tiles" }, ...tiles));
    }

    tile(head) {
      const found = foundOf(this.page.run, head);
      const face = make("span", { class: "face" }, make("canvas"));
      const words = found && [make("b", {}, VERDICTS[found.verdict] || found.verdict), make("span", {}, roleOf(found))];
      const verdict = found && make("span", { class: "found" }, ...words);
      const open = make(
        "button", { type: "button", class: "open", "data-head": head, tabindex: -1, onclick: () => this.page.look(head) },
        face, make("span", { class: "name" }, head.split(".").pop()), verdict
      );
      const toggle = make(
        "button",
        {
          type: "button", class: "switch", role: "switch", tabindex: -1, "aria-label": `${head} is on`,
          onclick: () => this.page.toggle(head),
        },
        make("i")
      );
      const tile = make("div", { class: "tile" }, open, toggle);
      this.tiles.set(head, { tile, open, toggle, canvas: face.firstChild });
      return tile;
    }

    show() {
      const { state } = this.page;
      const off = new Set(state.off);
      const focusable = this.tiles.has(state.head) ? state.head : [...this.tiles.keys()][0];
      this.tiles.forEach(({ tile, open, toggle }, head) => {
        tile.classList.toggle("off", off.has(head));
        tile.classList.toggle("chosen", head === state.head);
        open.tabIndex = head === focusable ? 0 : -1;
        open.setAttribute("aria-label", describe(this.page, head));
        toggle.setAttribute("aria-checked", String(!off.has(head)));
      });
      this.element.querySelectorAll("[data-layer]").forEach((button) => {
        const heads = button.dataset.layer.split(",");
        const turn = heads.every((head) => off.has(head)) ? "on" : "off";
        button.textContent = "Layer " + turn;
        button.setAttribute("aria-label", `${button.dataset.name}: ${turn}`);
      });
      const many = this.page.source.length > FEW_KEYS;
      document.getElementById("scale-top").textContent = many ? "the largest of each map" : "1";
      this.draw();
    }

    draw() {
      const sides = [...this.tiles.values()].map(({ canvas }) => canvas.clientWidth);
      [...this.tiles].forEach(([head, { canvas, toggle }], index) => {
        const map = mapOf(this.page, head);
        if (map && sides[index]) PageDraw.drawSmall(canvas, map, sides[index]);
        toggle.style.top = sides[index] + 7 + "px";
      });
    }

    /** The weight under the pointer, beside it. */
    hover(event) {
      const head = event.target.closest?.(".open")?.dataset.head;
      const map = head && mapOf(this.page, head);
      const canvas = map && this.tiles.get(head).canvas;
      const box = canvas && canvas.getBoundingClientRect();
      const cell = box && PageDraw.cellOf(map, box.width);
      const [row, column] = box ? [Math.floor((event.clientY - box.top) / cell), Math.floor((event.clientX - box.left) / cell)] : [-1, -1];
      this.tip.hidden = !(box && row >= 0 && column >= 0 && row < map.shown && column < map.keys.length);
      if (this.tip.hidden) return;
      this.tip.textContent = `${map.queries[row]} → ${map.keys[column]}: ${map.weights[row * map.keys.length + column].toFixed(3)}`;
      const left = Math.min(event.clientX + 14, window.innerWidth - this.tip.offsetWidth - 8);
      [this.tip.style.left, this.tip.style.top] = [left + "px", event.clientY + 16 + "px"];
    }

    /** Arrow keys move over the maps as they lie, Enter enlarges, X switches, P pins. */
    press(event) {
      const head = event.target.dataset?.head;
      if (!head || event.ctrlKey || event.metaKey || event.altKey) return;
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      if (moves[event.key]) this.focus(this.neighbour(head, ...moves[event.key]));
      else if (event.key === "x" || event.key === "X") this.page.toggle(head);
      else if (event.key === "p" || event.key === "P") this.page.pin(head);
      else return;
      event.preventDefault();
      event.stopPropagation();
    }

    /** The nearest map in a direction, as they lie on the page. */
    neighbour(head, across, down) {
      const centre = (one) => {
        const box = this.tiles.get(one).tile.getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2];
      };
      const [x, y] = centre(head);
      const distance = (one) => {
        const [dx, dy] = [centre(one)[0] - x, centre(one)[1] - y];
        const ahead = across * dx + down * dy;
        return ahead > 4 ? ahead + 4 * Math.abs(across ? dy : dx) : Infinity;
      };
      const best = [...this.tiles.keys()].reduce((one, other) => (distance(other) < distance(one) ? other : one), head);
      return best;
    }

    focus(head) {
      this.tiles.forEach(({ open }) => (open.tabIndex = -1));
      const { open } = this.tiles.get(head);
      open.tabIndex = 0;
      open.focus();
    }
  }

  /** The head that is looked at, large, with its tokens, lines, weights and findings. */
  class Large {
    constructor(page) {
      this.page = page;
      this.cell = null;
      const at = (id) => document.getElementById(id);
      [this.element, this.name, this.verdict, this.role] = ["large", "large-name", "large-verdict", "large-role"].map(at);
      [this.canvas, this.readout, this.lines, this.table] = ["large-map", "readout", "large-lines", "large-table"].map(at);
      [this.toggle, this.pin, this.cut, this.findings, this.fold] =
        ["large-switch", "large-pin", "table-cut", "findings", "table-fold"].map(at);
      this.toggle.addEventListener("click", () => page.toggle(page.state.head));
      this.pin.addEventListener("click", () => page.pin(page.state.head));
      at("large-back").addEventListener("click", () => page.grid.focus(page.state.head));
      at("large-patch").addEventListener("click", () => page.patching.begin());
      this.canvas.addEventListener("pointermove", (event) => this.point(event));
      this.canvas.addEventListener("pointerdown", (event) => this.point(event));
      this.canvas.addEventListener("pointerleave", () => this.mark(null));
      this.canvas.addEventListener("keydown", (event) => this.press(event));
      this.fold.addEventListener("toggle", () => this.tabulate());
      new ResizeObserver(() => this.draw()).observe(this.element);
    }

    show() {
      const { run, state } = this.page;
      this.element.hidden = !state.head;
      if (!state.head) return;
      const off = state.off.includes(state.head);
      const found = foundOf(run, state.head);
      this.name.textContent = state.head;
      this.verdict.textContent = found?.verdict || "";
      this.role.textContent = found ? `Attention pattern: ${roleOf(found)}.` : "This file contains no head analysis: run headway heads.";
      this.toggle.textContent = off ? "Switch on" : "Switch off";
      this.toggle.setAttribute("aria-pressed", String(off));
      const pinned = state.pins.includes(state.head);
      this.pin.textContent = pinned ? "Unpin" : "Pin";
      this.pin.setAttribute("aria-pressed", String(pinned));
      if (this.shownRun !== run || this.shownHead !== state.head) this.tell(found);
      [this.shownRun, this.shownHead] = [run, state.head];
      const map = mapOf(this.page, state.head);
      if (this.cell && map && (this.cell[0] >= map.shown || this.cell[1] >= map.keys.length)) this.cell = null;
      this.draw();
      this.say();
      this.tabulate();
    }

    draw() {
      const map = this.page.state && mapOf(this.page, this.page.state.head);
      const room = this.element.clientWidth - 36;
      if (!map || room < 50) return;
      this.place = PageDraw.drawLarge(this.canvas, map, room, this.cell);
      PageDraw.drawLines(this.lines, map, room, this.cell ? this.cell[0] : map.row);
    }

    point(event) {
      const map = mapOf(this.page, this.page.state.head);
      if (!map || !this.place) return;
      const box = this.canvas.getBoundingClientRect();
      const column = Math.floor((event.clientX - box.left - this.place.left) / this.place.cell);
      const row = Math.floor((event.clientY - box.top - this.place.top) / this.place.cell);
      const inside = row >= 0 && column >= 0 && row < map.shown && column < map.keys.length;
      this.mark(inside ? [row, column] : null);
    }

    press(event) {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      const map = mapOf(this.page, this.page.state.head);
      if (!move || !map) return;
      event.preventDefault();
      const [row, column] = this.cell ? [this.cell[0] + move[0], this.cell[1] + move[1]] : [map.row ?? 0, 0];
      if (row >= 0 && column >= 0 && row < map.shown && column < map.keys.length) this.mark([row, column]);
    }

    mark(cell) {
      if (String(cell) === String(this.cell)) return;
      this.cell = cell;
      this.draw();
      this.say();
    }

    say() {
      const map = mapOf(this.page, this.page.state.head);
      if (!map) return;
      const label = `Attention of ${this.page.state.head}; arrow keys move over the weights, and a table follows below`;
      this.canvas.setAttribute("aria-label", label);
      if (!this.cell) {
        const scaled = map.top < 1 ? ` The strongest colour is the largest weight, ${map.top.toFixed(3)}.` : "";
        this.readout.textContent = `Point at a cell, or move over the map with the arrow keys, to read its weight.${scaled}`;
        return;
      }
      const [row, column] = this.cell;
      const masked = map.causal && column > row;
      const weight = map.weights[row * map.keys.length + column];
      const said = masked ? "not visible from there" : `weight ${weight.toFixed(3)}`;
      this.readout.textContent = `query ${map.queries[row]} (place ${row + 1}) on key ${map.keys[column]} (place ${column + 1}): ${said}`;
    }

    tabulate() {
      const map = mapOf(this.page, this.page.state.head);
      if (!map || !this.fold.open) return;
      this.cut.textContent = PageDraw.fillTable(this.table, map) ? "The first 40 rows and columns." : "";
    }

    /** What the analysis measured of this head. */
    tell(found) {
      document.getElementById("scores-fold").hidden = !found;
      if (!found) return this.findings.replaceChildren();
      const { definitions = {}, n } = this.page.run.analysis;
      const names = [...new Set([...SHARES, ...this.page.run.task.parts])];
      const shares = names.filter((name) => typeof found.scores?.[name] === "number").map((name) => [name, found.scores[name]]);
      const scores = shares.flatMap(([name, share]) => [
        make("dt", { title: definitions[name] || "" }, name.replaceAll("_", " ")), PageDraw.rod(share), make("dd", {}, share.toFixed(2)),
      ]);
      const one = ([kind, { drop, interval }]) => `${kind} ${points(drop)} (${(interval || []).map(points).join(" to ")})`;
      const drops = Object.entries(found.drops || {}).map(one).join("; ");
      this.findings.replaceChildren(
        make("p", { class: "aside" }, `Switched off, it costs in points of accuracy: ${drops}. 95 % intervals, ${n} examples.`),
        make("p", { class: "label" }, "Share of attention on each part, and shape"), make("dl", {}, ...scores)
      );
    }
  }
  const points = (value) => (typeof value === "number" ? value.toFixed(1).replace(/^-0\.0$/, "0.0").replace("-", "−") : "–");

  /** Heads that stay in view whichever is looked at. */
  class Pins {
    constructor(page) {
      this.page = page;
      this.element = document.getElementById("pins");
    }

    show() {
      const { state } = this.page;
      this.element.hidden = !state.pins.length;
      this.element.replaceChildren(...state.pins.map((head) => this.pin(head)));
    }

    pin(head) {
      const canvas = make("canvas", { role: "img", "aria-label": describe(this.page, head) });
      const remove = make("button", { type: "button", "aria-label": `Unpin ${head}`, onclick: () => this.page.pin(head) }, "✕");
      const map = mapOf(this.page, head);
      if (map) PageDraw.drawLarge(canvas, map, 210 * PageDraw.unit(), null, 24);
      const off = this.page.state.off.includes(head);
      const title = make("header", {}, make("code", {}, head), remove);
      return make("div", { class: off ? "pin off" : "pin" }, title, make("span", { class: "face" }, canvas));
    }
  }

  return { Grid, Large, Pins, describe, foundOf, roleOf, percent };
})();
