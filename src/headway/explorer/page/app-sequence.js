"use strict";
// What a model says of a sequence. One of values in order can be dragged, disturbed and lengthened, and has a chart over lengths.
const PageSequence = (() => {
  const { make, makeSvg, percent } = PageDraw;
  const FEW = 40;
  const GOLDEN = 0.6180339887498949;
  const LENGTHS = [2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 224, 256, 384, 512, 768, 1024];

  // Sequences, as values

  /** The place at which one more element changes nothing: in the widest rise, or beside an equal one. */
  const roomAt = (values, count) => {
    let [best, gap] = [-1, 1];
    for (let index = 0; index + 1 < values.length; index++)
      if (values[index + 1] - values[index] > gap) [best, gap] = [index, values[index + 1] - values[index]];
    if (best >= 0) return best;
    const start = Math.floor(((count * GOLDEN) % 1) * values.length);
    for (let offset = 0; offset < values.length; offset++) {
      const index = (start + offset) % values.length;
      if (index === values.length - 1 || values[index + 1] >= values[index]) return index;
    }
    return values.length - 1;
  };

  /** The sequence with a length: elements between its own, or without some that stand in no inversion. */
  const lengthened = (values, length) => {
    const found = [...values];
    while (found.length < length) {
      const at = roomAt(found, found.length);
      const next = found[at + 1] ?? found[at];
      found.splice(at + 1, 0, next >= found[at] ? Math.floor((found[at] + next) / 2) : found[at]);
    }
    while (found.length > length) found.splice(spare(found), 1);
    return found;
  };

  /** An element whose loss changes the order least: the one in the closest step, outside inversions where it can be. */
  const spare = (values) => {
    const down = new Set(PageTasks.descents(values).flatMap((index) => [index, index + 1]));
    const cost = (index) => (down.has(index) ? 1e6 : 0) + (values[index + 1] ?? 1e5) - (values[index - 1] ?? -1e5);
    return values.reduce((best, _, index) => (cost(index) < cost(best) ? index : best), 0);
  };

  const moved = (values, from, to) => {
    const found = [...values];
    found.splice(to, 0, ...found.splice(from, 1));
    return found;
  };

  /** Exchange one neighbouring pair that rises; the middlemost. Null if there is none. */
  const inverted = (values) => {
    const rises = values.flatMap((value, index) => (values[index + 1] > value ? [index] : []));
    if (!rises.length) return null;
    const middle = rises.reduce((one, other) => (Math.abs(other - values.length / 2) < Math.abs(one - values.length / 2) ? other : one));
    return moved(values, middle, middle + 1);
  };

  const shuffled = (values) => {
    const found = [...values];
    for (let last = found.length - 1; last > 0; last--) {
      const other = Math.floor(Math.random() * (last + 1));
      [found[last], found[other]] = [found[other], found[last]];
    }
    return found;
  };

  /** A view of the sequence: its elements, the answer, and the chart. */
  class Sequence {
    constructor(page) {
      this.page = page;
      this.chart = new Chart(page);
      [this.chosen, this.base] = [0, null];
      const at = (id) => document.getElementById(id);
      [this.elements, this.words, this.slider, this.length] = ["elements", "element-words", "length", "length-words"].map(at);
      [this.verdict, this.bars, this.margin] = ["class-verdict", "class-bars", "class-margin"].map(at);
      [this.frame, this.tokens, this.figure] = ["elements-frame", "class-tokens", "chart-frame"].map(at);
      at("sort").addEventListener("click", () => this.put([...page.source].sort((one, other) => one - other)));
      at("invert").addEventListener("click", () => this.invert());
      at("shuffle").addEventListener("click", () => this.put(shuffled(page.source)));
      this.slider.addEventListener("input", () => this.slide());
      this.slider.addEventListener("change", () => (this.mark = null));
      this.elements.addEventListener("pointerdown", (event) => this.grab(event));
      this.elements.addEventListener("pointermove", (event) => this.drag(event));
      ["pointerup", "pointercancel", "lostpointercapture"].forEach((name) => this.elements.addEventListener(name, () => this.drop()));
      this.elements.addEventListener("keydown", (event) => this.press(event));
    }

    /** Elements as bars and the chart over lengths are for sequences in order; any other has its tokens. */
    build() {
      const bars = PageTasks.isBars(this.page.run);
      [this.frame.hidden, this.figure.hidden, this.tokens.hidden] = [!bars, !bars, bars];
    }

    put(values, more = {}) {
      this.page.go({ input: values.join(" "), ...more });
    }

    invert() {
      const found = inverted(this.page.source);
      if (found) this.put(found);
      else this.page.say("No neighbouring pair ascends, so there is no pair to exchange.");
    }

    /** Lengthen what there was when the slider was first moved, so that sliding back brings it back. */
    slide() {
      const text = this.page.source.join(" ");
      if (this.base?.result !== text) this.base = { values: this.page.source };
      this.mark ??= this.page.history.past.length;
      const found = lengthened(this.base.values, Number(this.slider.value));
      this.base.result = found.join(" ");
      this.put(found);
      this.page.history.merge(this.mark);
    }

    // Dragging

    placeOf(event) {
      const box = this.elements.getBoundingClientRect();
      const share = (event.clientX - box.left) / box.width;
      return Math.max(0, Math.min(this.page.source.length - 1, Math.floor(share * this.page.source.length)));
    }

    grab(event) {
      if (event.button) return;
      this.chosen = this.placeOf(event);
      this.dragged = { from: this.chosen, past: this.page.history.past.length };
      this.elements.setPointerCapture(event.pointerId);
      this.show();
    }

    drag(event) {
      if (!this.dragged) return;
      const to = this.placeOf(event);
      if (to === this.chosen) return;
      const values = moved(this.page.source, this.chosen, to);
      this.chosen = to;
      this.put(values);
      this.page.history.merge(this.dragged.past);
    }

    drop() {
      if (!this.dragged) return;
      this.dragged = null;
      this.show();
      this.focusChosen();
    }

    focusChosen() {
      this.elements.children[this.chosen]?.focus({ preventScroll: true });
    }

    press(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const values = this.page.source;
      const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (across) {
        const to = Math.max(0, Math.min(values.length - 1, this.chosen + across));
        const from = this.chosen;
        this.chosen = to;
        if (event.shiftKey && to !== from) this.put(moved(values, from, to));
        else this.show();
      } else if (up) {
        const most = this.page.run.task.page.values - 1;
        const value = Math.max(0, Math.min(most, values[this.chosen] + up * (event.shiftKey ? 10 : 1)));
        this.put(values.with ? values.with(this.chosen, value) : Object.assign([...values], { [this.chosen]: value }));
      } else return;
      event.preventDefault();
      event.stopPropagation();
      this.focusChosen();
    }

    // Showing

    show() {
      if (PageTasks.isBars(this.page.run)) this.showElements();
      else this.tokens.replaceChildren(PagePaper.askedLine(this.page.run, this.page.source));
      this.showAnswer();
    }

    showElements() {
      const { source, run } = this.page;
      this.chosen = Math.min(this.chosen, source.length - 1);
      const down = new Set(PageTasks.descents(source).flatMap((index) => [index, index + 1]));
      const many = source.length > FEW;
      this.elements.classList.toggle("many", many);
      while (this.elements.children.length > source.length) this.elements.lastChild.remove();
      const bar = () => make("button", { type: "button" }, make("span"), make("i"));
      while (this.elements.children.length < source.length) this.elements.append(bar());
      [...this.elements.children].forEach((button, index) => this.element(button, index, source[index], down.has(index), many));
      const count = PageTasks.descents(source).length;
      const some = `${count === 1 ? "One inversion" : count + " inversions"}, hatched: a larger element right before a smaller one.`;
      this.words.textContent = count ? some : "In order. Drag an element, or use the arrow keys.";
      [this.slider.min, this.slider.max, this.slider.value] = ["2", String(run.task.longest), String(source.length)];
      this.length.textContent = String(source.length);
      document.getElementById("length-beyond").textContent = source.length > run.task.trained[1] ? "longer than in training" : "";
    }

    element(button, index, value, down, many) {
      const most = this.page.run.task.page.values - 1;
      button.className = [down ? "down" : "", this.dragged && index === this.chosen ? "dragged" : ""].filter(Boolean).join(" ");
      button.tabIndex = index === this.chosen ? 0 : -1;
      button.setAttribute("aria-label", `Place ${index + 1}: ${value}${down ? ", in an inversion" : ""}`);
      button.firstChild.textContent = many ? "" : String(value);
      button.lastChild.style.height = (many ? 100 : 86) * (value / most) + "%";
    }

    showAnswer() {
      const { result, run, source } = this.page;
      if (!result || result.stale) return;
      const right = PageTasks.rightAnswer(run, source)?.[0];
      const said = result.tokens[0];
      const name = (id) => PageTasks.answerName(run, id);
      const known = right !== undefined;
      this.verdict.className = "verdict " + (!known ? "" : said === right ? "right" : "wrong");
      const wrong = `✗ wrong: it says ${name(said)}, and it is ${name(right)}`;
      const judged = said === right ? `✓ right: it says ${name(said)}` : wrong;
      this.verdict.textContent = known ? judged : `It says ${name(said)}; ${PageTasks.UNJUDGED}`;
      const before = this.page.whole?.steps[0].probabilities;
      const rows = [...result.steps[0].probabilities].flatMap((share, id) => [
        make("span", {}, name(id) + (id === right ? " ✓" : "")), PageDraw.rod(share, before?.[id]),
        make("span", { class: "share" }, percent(share)),
      ]);
      this.bars.replaceChildren(...rows);
      this.margin.textContent = PagePaper.marginWords(run, result.steps[0], right, this.page.whole?.steps[0]);
      if (PageTasks.isBars(run)) this.chart.show(this.base?.result === source.join(" ") ? this.base.values : source);
    }
  }

  /** The probability of the right answer for this sequence at every length. */
  class Chart {
    constructor(page) {
      this.page = page;
      this.element = document.getElementById("chart");
      this.said = document.getElementById("chart-said");
      [this.points, this.key, this.job] = [[], "", null];
      this.kept = { values: "", curves: new Map() };
      new ResizeObserver(() => this.draw()).observe(this.element);
    }

    /** Draw for a sequence; its curve is computed in workers, anew when it or the model changed. */
    show(values) {
      const { state, run, engine } = this.page;
      this.run = run;
      const key = JSON.stringify([state.run, values, state.off, state.fill]);
      if (this.kept.values !== values.join()) this.kept = { values: values.join(), curves: new Map() };
      if (key !== this.key) {
        this.key = key;
        this.points = [];
        this.job?.cancel();
        clearTimeout(this.timer);
        const asked = { run, engine, values, options: this.page.options(), key, kept: state.off.length ? null : this.kept };
        this.timer = setTimeout(() => this.compute(asked), 150);
      }
      this.draw();
    }

    lengths({ task: { longest } } = this.page.run) {
      return [...LENGTHS.filter((length) => length < longest), longest];
    }

    /** The curve of what was asked, whatever the page shows by now; kept for later models if all heads are on. */
    async compute({ run, engine, values, options, key, kept }) {
      const lengths = this.lengths(run);
      const sources = lengths.map((length) => lengthened(values, length));
      const points = [];
      this.job = this.page.pool.answers(engine, sources, options, ({ index, result }) => {
        if (key !== this.key) return;
        const right = PageTasks.rightAnswer(run, sources[index])[0];
        points.push({ length: lengths[index], share: result.steps[0].probabilities[right] });
        this.points = [...points].sort((one, other) => one.length - other.length);
        this.draw();
      });
      await this.job.promise.catch(() => null);
      if (points.length === lengths.length) kept?.curves.set(run, this.points);
      else if (key === this.key) this.key = ""; // it did not finish: the next time it is shown it begins again
      if (key === this.key) await this.computeOthers(run, values, key);
    }

    /** The curves of the other models of this task in the file, all heads on: what this one is to be compared with. */
    async computeOthers(run, values, key) {
      const curves = this.kept.curves;
      for (const other of this.page.runs.filter((one) => one !== run && one.task.name === run.task.name && !curves.has(one))) {
        const fits = Math.max(...values) < other.task.page.values;
        const lengths = fits ? this.lengths(other) : [];
        const sources = lengths.map((length) => lengthened(values, length));
        this.job = this.page.pool.answers(this.page.engineOf(other), sources, {});
        const found = await this.job.promise.catch(() => []);
        if (key !== this.key || !lengths.length || found.some((one) => !one)) return;
        const right = (index) => PageTasks.rightAnswer(other, sources[index])[0];
        curves.set(other, found.map((one, index) => ({ length: lengths[index], share: one.steps[0].probabilities[right(index)] })));
        this.draw();
      }
    }

    draw() {
      const width = this.element.clientWidth;
      const height = this.element.clientHeight;
      const { run, source } = this.page;
      if (!width || this.run !== run || !PageTasks.isBars(run)) return;
      const box = { left: 34, right: width - 14, top: 8, bottom: height - 20 };
      const most = Math.log2(run.task.longest);
      const x = (length) => box.left + ((Math.log2(length) - 1) / (most - 1)) * (box.right - box.left);
      const y = (share) => box.bottom - share * (box.bottom - box.top);
      this.element.setAttribute("viewBox", `0 0 ${width} ${height}`);
      const here = x(source.length);
      const now = makeSvg("line", { x1: here, x2: here, y1: box.top, y2: box.bottom, class: "now" });
      this.element.replaceChildren(...this.frame(box, x, y), ...this.curve(x, y), now);
      this.tell();
    }

    frame(box, x, y) {
      const [shortest, longest] = this.page.run.task.trained;
      const size = { width: x(longest) - x(shortest) + 6, height: box.bottom - box.top };
      const trained = makeSvg("rect", { x: x(shortest) - 3, y: box.top, ...size, class: "trained" });
      const levels = [0, 0.5, 1].flatMap((share) => [
        makeSvg("line", { x1: box.left, x2: box.right, y1: y(share), y2: y(share), class: "grid-line" }),
        makeSvg("text", { x: box.left - 6, y: y(share) + 4, "text-anchor": "end" }, String(share)),
      ]);
      const ticks = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].filter((length) => length <= this.page.run.task.longest);
      const words = ticks.map((length) => makeSvg("text", { x: x(length), y: box.bottom + 15, "text-anchor": "middle" }, String(length)));
      return [trained, ...levels, ...words];
    }

    /** What was measured at each length, on the set that this sequence is most like. */
    measured() {
      const { run, source } = this.page;
      const set = PageTasks.descents(source).length === 1 ? "adjacent" : "swaps";
      return (run.lengths?.rows || []).filter((row) => row.set === set && row.length >= 2 && row.length <= run.task.longest);
    }

    /** What other models of the file, looked at before, gave for this same sequence. */
    others() {
      return [...this.kept.curves].filter(([run]) => run !== this.page.run);
    }

    curve(x, y) {
      const place = (point) => `${x(point.length).toFixed(1)} ${y(point.share).toFixed(1)}`;
      const line = (points) => points.map((point, index) => (index ? "L" : "M") + place(point)).join("");
      const others = this.others().map(([, points]) => makeSvg("path", { d: line(points), class: "curve other" }));
      const path = line(this.points);
      const dots = this.points.map((point) => makeSvg("circle", { cx: x(point.length), cy: y(point.share), r: 2.6, class: "point" }));
      const rows = this.measured();
      const measured = rows.map((row) => makeSvg("circle", { cx: x(row.length), cy: y(row.accuracy), r: 3.4, class: "measured" }));
      return [...others, ...measured, ...(path ? [makeSvg("path", { d: path, class: "curve" })] : []), ...dots];
    }

    tell() {
      const { run } = this.page;
      const [shortest, longest] = run.task.trained;
      const wrong = this.points.find((point) => point.share < 0.5);
      const end = wrong ? `First wrong at ${wrong.length} elements.` : "Right at every length shown.";
      const found = this.points.length < this.lengths().length ? "Counting…" : end;
      const [row] = this.measured();
      const rings = row ? ` Rings: accuracy of the whole model on many such sequences (${row.set}), from headway lengths.` : "";
      this.element.dataset.points = String(this.points.length);
      const others = this.others().map(([other]) => other.name);
      const dashed = others.length ? ` Dashed: ${others.join(", ")}, all heads on.` : "";
      const what = `This sequence, made longer and shorter. Shaded: the training lengths, ${shortest} to ${longest}.`;
      this.said.textContent = `${what} ${found}${dashed}${rings}`;
    }
  }

  return { Sequence, lengthened, inverted, moved };
})();
