"use strict";
// Every head as a small map where it stands in the model, the one that is looked at enlarged, and those that are pinned.
const PageHeads = (() => {
  const { make } = PageDraw;
  const SIDES = { encoder: "Encoder", decoder: "Decoder" };
  const SITES = { encoder: "self-attention", decoder: "self-attention", cross: "cross-attention" };
  const SHARES = ["diagonal", "operator", "carry", "previous_column", "boundary", "first_operand", "second_operand",
    "next_element", "previous_element", "inversion", "self_token", "previous_token", "entropy_share", "sparsity"];

  const FEW_KEYS = 20;

  const isCausal = (site) => site.causal && site.kind !== "cross";
  const siteOf = (run, head) => run.sites.find((site) => site.heads.includes(head));

  /** What there is to draw of a head now; null until the model has answered. */
  const mapOf = (page, head) => {
    const { run, source, result, state, token } = page;
    const known = result?.weights?.[head];
    if (!known) return null;
    const site = siteOf(run, head);
    const signed = isChange(page);
    const weights = signed ? changeOf(known, page.whole.weights[head]) : known;
    const only = token && PageTasks.placeOfToken(run, site, source, token);
    const axes = PageTasks.axes(run, site, source, result.tokens);
    const step = state.step === null ? null : Math.min(state.step, result.tokens.length - 1);
    const row = step === null ? null : PageTasks.rowOfStep(run, site, source, step);
    const shown = row === null ? axes.queries.length : row + 1;
    return { weights, ...axes, shown, row, causal: isCausal(site), top: topOf(weights, axes.keys.length), signed, only };
  };

  /** Whether maps show changes: that is asked for, and there is something to compare with. */
  const isChange = ({ state, whole, result }) => state.view === "change" && Boolean(whole && state.off.length && result && !result.stale);

  /** Weights now less those with all heads; rows that only one of the two answers has are 0. */
  const changeOf = (now, before) => now.map((weight, index) => (index < before.length ? weight - before[index] : 0));

  /** Over a few keys colours go from 0 to 1; over many, where no weight is near 1, to the largest of the map. */
  const topOf = (weights, keys) =>
    keys <= FEW_KEYS ? 1 : Math.max(1e-6, weights.reduce((most, weight) => Math.max(most, Math.abs(weight)), 0));

  const foundOf = (run, head) => run.analysis?.heads?.[head] || null;
  const dropOf = (run, head) => foundOf(run, head)?.drops?.zero?.drop ?? null;
  const roleOf = (found) => (found?.role ? found.role.split(":").pop().trim().replaceAll("_", " ") : "");

  /** A head in words, for those who hear the page. */
  const describe = (page, head) => {
    const found = foundOf(page.run, head);
    const drop = PageTraining.costOf(page, head);
    const cost = drop === null ? "" : `costs ${points(drop)} points`;
    const words = [head, found?.verdict, cost, roleOf(found), page.state.off.includes(head) ? "switched off" : "on"];
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
      this.dearest = Math.max(PageTraining.largest(run), ...PageState.headsOf(run).map((head) => dropOf(run, head) ?? 0));
      const stacks = sides.map((side) => this.side(run.sites.filter((site) => site.side === side)));
      stacks[0]?.append(...(sides.length > 1 ? [this.page.direct.element] : []));
      this.element.replaceChildren(...stacks);
      if (sides.length < 2) this.element.after(this.page.direct.element);
      document.getElementById("importance-legend").hidden = !this.dearest;
      document.getElementById("importance-top").textContent = `${points(this.dearest)} points`;
    }

    side(sites) {
      const rows = sites.map((site, index) => this.site(site, sites[index - 1]?.layer === site.layer ? [] : sites));
      return make("div", { class: "stack" }, ...rows);
    }

    /** One site; the first of a layer has the button that switches the whole layer. */
    site(site, sites) {
      const name = `${SIDES[site.side] || site.side} layer ${site.layer}`;
      const heads = sites.filter((one) => one.layer === site.layer).flatMap((one) => one.heads);
      const named = { "data-layer": heads.join(","), "data-name": name, "aria-label": `${name}: off` };
      const button = make("button", { type: "button", ...named, onclick: () => this.page.switchAll(heads) }, "Layer off");
      const tiles = site.heads.map((head) => this.tile(head));
      const said = SITES[site.kind] + (tiles.length ? "" : ": no heads left");
      const title = site.kind === "cross" ? "It looks at what the encoder made of the question." : isCausal(site) ? "A token sees itself and those before it." : "";
      const line = make("div", { class: "layer-line", title }, make("span", {}, make("b", {}, name), ` · ${said}`), heads.length ? button : null);
      return make("div", { class: "site" }, line, make("div", { class: "tiles" }, ...tiles));
    }

    tile(head) {
      const face = make("span", { class: "face" }, make("canvas"));
      const said = make("span", { class: "found" });
      const open = make(
        "button", { type: "button", class: "open", "data-head": head, tabindex: -1, onclick: () => this.page.look(head) },
        face, make("span", { class: "name" }, make("b", {}, head.split(".").pop()), said)
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
      face.firstChild.style.aspectRatio = this.aspect(head);
      this.tiles.set(head, { tile, open, toggle, said, canvas: face.firstChild });
      return tile;
    }

    /** The shape of a small map: square, but for cross-attention whose sizes the task fixes. */
    aspect(head) {
      const { run } = this.page;
      const { longest, longest_answer } = run.task;
      return PageTasks.isPadded(run) && siteOf(run, head).kind === "cross" ? `${longest} / ${longest_answer}` : "1";
    }

    /** Under a map: what the head costs; while a token is pointed at, what that token looks at most, or who at it. */
    caption(head, map) {
      const drop = PageTraining.costOf(this.page, head);
      if (!this.page.token || !map) return drop === null ? "" : drop >= 9.95 ? `−${drop.toFixed(0)}` : drop >= 0.05 ? points(-drop) : "0";
      if (!map.only) return "–";
      const { row, column } = map.only;
      if ((row !== null && row >= map.shown) || (column !== null && column >= map.keys.length)) return "–";
      const count = row === null ? map.shown : map.keys.length;
      const weight = (index) => map.weights[row === null ? index * map.keys.length + column : row * map.keys.length + index];
      const best = [...Array(count).keys()].reduce((one, other) => (Math.abs(weight(other)) > Math.abs(weight(one)) ? other : one), 0);
      return `${(row === null ? map.queries : map.keys)[best]} ${weight(best).toFixed(2).replace("-", "−").replace("0.", ".")}`;
    }

    show() {
      const { state } = this.page;
      const off = new Set(state.off);
      const focusable = this.tiles.has(state.head) ? state.head : [...this.tiles.keys()][0];
      this.tiles.forEach(({ tile, open, toggle }, head) => {
        tile.classList.toggle("off", off.has(head));
        tile.classList.toggle("chosen", head === state.head);
        const share = this.dearest ? Math.max(0, PageTraining.costOf(this.page, head) ?? 0) / this.dearest : 0;
        tile.style.setProperty("--share", (100 * share).toFixed(1) + "%");
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
      this.tellScale();
      this.draw();
    }

    tellScale() {
      const [change, many] = [isChange(this.page), this.page.source.length > FEW_KEYS];
      const [low, high] = [document.getElementById("scale-low"), document.getElementById("scale-top")];
      const top = many ? "the largest of each map" : "1";
      low.textContent = change ? `A map’s colour: weight less ${many ? "" : "1 "}than with all heads` : "A map’s colour: weight 0";
      high.textContent = change ? `${many ? "" : "1 "}more` : top;
      if (this.scaled !== change) PageDraw.drawScale(document.getElementById("scale"), change);
      this.scaled = change;
    }

    draw() {
      this.element.classList.toggle("reading", Boolean(this.page.token));
      const sizes = [...this.tiles.values()].map(({ canvas }) => [canvas.clientWidth, canvas.clientHeight]);
      [...this.tiles].forEach(([head, { tile, canvas, said }], index) => {
        const map = mapOf(this.page, head);
        if (map && sizes[index][0]) PageDraw.drawSmall(canvas, map, ...sizes[index]);
        said.textContent = this.caption(head, map);
        tile.classList.toggle("reads", Boolean(this.page.token && map?.only));
      });
    }

    /** The weight under the pointer, beside it. */
    hover(event) {
      const head = event.target.closest?.(".open")?.dataset.head;
      const map = head && mapOf(this.page, head);
      const canvas = map && this.tiles.get(head).canvas;
      const box = canvas && canvas.getBoundingClientRect();
      const cell = box && PageDraw.cellOf(map, box.width, box.height);
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
      const drop = dropOf(run, state.head);
      const cost = drop === null ? "" : `Removing it costs ${points(drop)} points of accuracy. `;
      this.role.textContent = found ? `${cost}Attention pattern: ${roleOf(found)}.` : "This file contains no head analysis: run headway heads.";
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
      PageDraw.drawLines(this.lines, map, room, this.cell ? this.cell[0] : map.only ? map.only.row : map.row);
      this.lines.classList.toggle("lit", this.page.state.off.includes(this.page.state.head));
      const some = map.keys.length > PageDraw.MANY_KEYS && !this.cell ? ": a few queries of many, three keys each" : "";
      document.getElementById("lines-label").textContent = `From each query to the keys it attends to${some}`;
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
        const rows = siteOf(this.page.run, this.page.state.head).kind === "cross" ? " A row is the token that it helps to write." : "";
        this.readout.textContent = `Point at a cell, or use the arrow keys, to read its weight.${rows}${scaled}`;
        return;
      }
      const [row, column] = this.cell;
      const masked = map.causal && column > row;
      const weight = map.weights[row * map.keys.length + column];
      const what = map.signed ? "change of weight" : "weight";
      const said = masked ? "not visible from there" : `${what} ${weight.toFixed(3)}`;
      this.readout.textContent = `query ${map.queries[row]} (position ${row + 1}) on key ${map.keys[column]} (position ${column + 1}): ${said}`;
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
        make("dt", { title: definitions[name] || "" }, name.replaceAll("_", " ")), make("dd", {}, PageDraw.rod(share), share.toFixed(2)),
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

  return { Grid, Large, Pins, mapOf, siteOf, describe, foundOf, dropOf, roleOf, points };
})();
