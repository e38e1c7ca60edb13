"use strict";
// The first half minute: one button removes the head that matters most, another the harmless ones until accuracy breaks.
// Both come from the run's findings; a run without them is offered neither.
const PageShow = (() => {
  const { makeSvg, percent } = PageDraw;
  const CRITICAL = 10;
  const SURE = 0.5;
  const MOST_TRIED = 24;
  const PAUSE = 220;

  /** The head that moves a difference between examples in most pairs, or else the one whose loss costs most; null if none does. */
  const chosenHead = (run) => {
    const known = new Set(PageState.headsOf(run));
    const drop = (head) => PageHeads.dropOf(run, head) ?? 0;
    const carriers = (run.analysis?.carries || []).filter((one) => one.rate >= SURE && known.has(one.head) && drop(one.head) >= CRITICAL);
    const dearest = (one, other) => (drop(other.head) > drop(one.head) ? other : one);
    if (carriers.length) return carriers.reduce(dearest);
    const critical = [...known].filter((head) => drop(head) >= CRITICAL).map((head) => ({ head, about: null }));
    return critical.length ? critical.reduce(dearest) : null;
  };

  /** The heads of the elimination order up to the first whose removal costs a critical number of points; [] if there are none. */
  const untilCliff = (run) => {
    const known = new Set(PageState.headsOf(run));
    const steps = run.analysis?.elimination || [];
    if (!steps.length || !steps.every((step) => known.has(step.removed)) || steps[0].drop >= CRITICAL) return [];
    const cliff = steps.findIndex((step) => step.drop >= CRITICAL);
    return cliff < 0 ? [] : steps.slice(0, cliff + 1);
  };

  class Show {
    constructor(page) {
      this.page = page;
      const at = (id) => document.getElementById(id);
      [this.element, this.button, this.cliff] = ["show", "show-head", "show-cliff"].map(at);
      [this.chart, this.said, this.forming] = ["show-chart", "show-said", "show-training"].map(at);
      this.button.addEventListener("click", () => this.remove());
      this.cliff.addEventListener("click", () => (this.running ? this.stop() : this.eliminate()));
      this.forming.addEventListener("click", () => {
        this.stop();
        page.training.play();
      });
    }

    build() {
      const { run } = this.page;
      this.stop();
      [this.chosen, this.order] = [chosenHead(run), untilCliff(run)];
      const kept = PageTraining.earlier(run).length;
      this.element.hidden = !this.chosen && !this.order.length && !kept;
      [this.button.hidden, this.cliff.hidden, this.forming.hidden] = [!this.chosen, !this.order.length, !kept];
      this.points = [];
      this.tell("");
    }

    show() {
      if (this.element.hidden) return;
      const { off } = this.page.state;
      const what = this.chosen?.about ? `carries the ${this.chosen.about}` : "matters most";
      if (this.chosen) this.button.textContent = this.isRemoved() ? `Put ${this.chosen.head} back` : `Remove the head that ${what}`;
      this.forming.textContent = this.page.training.playing ? "Stop" : "Watch the heads form";
      this.cliff.textContent = this.running ? "Stop" : "Remove harmless heads until it breaks";
      if (!this.running && off.join() !== this.shownOff) this.clear();
    }

    /** Forget what was said about switches that are others by now. */
    clear() {
      this.shownOff = null;
      this.points = [];
      const carries = this.chosen?.about ? `${this.chosen.head} carries the ${this.chosen.about}. ` : "";
      const first = PageTraining.stepWords(this.page) || carries;
      this.tell(this.page.state.off.length ? "" : `${first}Tiles are coloured by how much accuracy is lost without the head.`);
    }

    tell(text) {
      this.said.textContent = text;
      this.chart.toggleAttribute("hidden", !this.points.length);
      if (this.points.length) this.draw();
    }

    isRemoved() {
      return this.page.state.off.join() === this.chosen?.head;
    }

    // One head

    /** The shown question if this head decides it, else a stored one that it does, with most to see first. */
    telling(head) {
      const { run, engine, state } = this.page;
      const right = (source, options) => PageTasks.isRight(run, source, engine.answer(source, options).tokens);
      const decides = (source) => right(source, {}) && !right(source, { off: { [head]: "zero" } });
      if (this.page.source.length <= 48 && decides(this.page.source)) return state.input;
      const worth = (source) => (PageTasks.isSum(run) ? PageTasks.workOut(run, source).carries.reduce((sum, one) => sum + one, 0) : 0);
      const ordered = [...run.examples].sort((one, other) => worth(other.source) - worth(one.source)).slice(0, MOST_TRIED);
      const found = ordered.find(({ source }) => decides(source));
      return found ? PageTasks.showSource(run, found.source) : state.input;
    }

    async remove() {
      const { page } = this;
      this.stop();
      if (this.isRemoved()) return page.go({ off: [] });
      const { head } = this.chosen;
      const off = [head];
      this.shownOff = off.join();
      page.go({ off, head, fill: "zero", step: null, from: "", input: this.telling(head) });
      const { run, source, result } = page;
      this.tell(`Without ${head} it ${this.sentence(run, source, result)}`);
      const { right, total } = await page.bar.whenCounted();
      if (page.state.off.join() !== this.shownOff) return;
      this.tell(`Without ${head} it ${this.sentence(run, source, result)} Accuracy falls from ${this.whole()} to ${percent(right / total)}.`);
    }

    whole() {
      const { right, n } = this.page.run.accuracy;
      return percent(right / n);
    }

    /** What the model answers now, in place of what. */
    sentence(run, source, result) {
      if (!result || result.stale) return "answers…";
      const answer = PageTasks.written(run, result.tokens) || "nothing";
      const before = this.page.whole && PageTasks.written(run, this.page.whole.tokens);
      return before && before !== answer ? `answers ${answer} in place of ${before}.` : `still answers ${answer} here.`;
    }

    // Until the cliff

    /** Remove head after head in the order of the elimination, counting after each; one change to undo. */
    async eliminate() {
      const { page, order } = this;
      const token = (this.running = {});
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      const past = page.history.past.length;
      this.points = [{ removed: 0, share: page.run.accuracy.right / page.run.accuracy.n }];
      for (let count = 1; count <= order.length; count++) {
        const off = order.slice(0, count).map((step) => step.removed);
        this.shownOff = off.join();
        page.go({ off, fill: "zero", step: null, from: "", head: off.at(-1) });
        page.history.merge(past);
        const [{ right, total }] = await Promise.all([page.bar.whenCounted(), new Promise((resolve) => setTimeout(resolve, calm ? 0 : PAUSE))]);
        if (this.running !== token || page.state.off.join() !== this.shownOff) return this.stop();
        this.points.push({ removed: count, share: right / total });
        this.tell(this.progress(count));
      }
      this.stop();
    }

    progress(count) {
      const [all, { share }] = [PageState.headsOf(this.page.run).length, this.points.at(-1)];
      const said = `${count} of ${all} heads removed: accuracy ${percent(share)}.`;
      if (count < this.order.length) return said;
      const harmless = this.points.filter((point) => this.points[0].share - point.share < 0.05).at(-1).removed;
      return `${said} The first ${harmless} cost less than 5 points together; ${this.order.at(-1).removed} was one too many.`;
    }

    stop() {
      this.running = null;
      if (this.page.result) this.show();
    }

    /** Accuracy against heads removed, as counted here; dotted, what the analysis found on other examples. */
    draw() {
      const [width, height, edge] = [208, 36, 4];
      const x = (removed) => edge + (removed / this.order.length) * (width - 2 * edge);
      const y = (share) => edge + (1 - share) * (height - 2 * edge);
      const path = (points) => points.map(([removed, share], index) => `${index ? "L" : "M"}${x(removed).toFixed(1)} ${y(share).toFixed(1)}`).join("");
      const measured = [[0, 1], ...this.order.map((step, index) => [index + 1, step.exact_match])];
      const counted = this.points.map(({ removed, share }) => [removed, share]);
      this.chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
      const dots = counted.map(([removed, share]) => makeSvg("circle", { cx: x(removed), cy: y(share), r: 2.4 }));
      this.chart.replaceChildren(makeSvg("path", { d: path(measured), class: "measured" }), makeSvg("path", { d: path(counted), class: "curve" }), ...dots);
    }
  }

  return { Show, chosenHead, untilCliff };
})();
