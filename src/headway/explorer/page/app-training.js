"use strict";
// Heads over training: a slider over the kept steps, which colours the heads by what they cost at that step.
const PageTraining = (() => {
  const { make, makeSvg, percent } = PageDraw;
  const PAUSE = 350;
  const named = (step) => `step ${step.toLocaleString("en")}`;
  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  /** The kept steps before the page's own model, whose place on the slider is the last one. */
  const earlier = (run) => (run.over_training?.steps || []).filter((one) => one.step !== run.step);

  /** The kept step that is looked at; null for the page's own model. */
  const chosen = ({ run, state }) => (state.at === null ? null : (earlier(run).find((one) => one.step === state.at) ?? null));

  /** What was measured of the page's own model, if its step was kept. */
  const ownStep = (run) => run.over_training?.steps.find((one) => one.step === run.step) ?? null;

  const of = (run, step, values, head) => (step ? values(step)[run.over_training.heads.indexOf(head)] : null);

  /** What a head costs at the step that is looked at, in points; null where it was not measured. */
  const costOf = (page, head) => {
    const { run } = page;
    const step = chosen(page);
    if (step) return of(run, step, (one) => one.drops, head);
    return PageHeads.dropOf(run, head) ?? of(run, ownStep(run), (one) => one.drops, head);
  };

  /** The largest cost at any step: colours mean the same along the slider. */
  const largest = (run) => Math.max(0, ...(run.over_training?.steps || []).flatMap((one) => one.drops));

  /** The share of the pairs in which patching the head flips what they differ in; null without a usable pair. */
  const flipRate = (run, step, head) => (step.usable ? of(run, step, (one) => one.flips, head) / step.usable : null);

  /** A sentence on the step that is looked at, if that is not the page's own model. */
  const stepWords = (page) => {
    const step = chosen(page);
    return step ? `${capital(named(step.step))}: accuracy ${percent(step.accuracy)}. ` : "";
  };

  class Training {
    constructor(page) {
      this.page = page;
      const at = (id) => document.getElementById(id);
      [this.element, this.slider, this.step] = ["training", "training-at", "training-step"].map(at);
      [this.chart, this.said, this.key] = ["training-chart", "training-said", "training-key"].map(at);
      this.slider.addEventListener("input", () => {
        this.stop();
        this.slide(Number(this.slider.value));
      });
    }

    /** Without a document there is no slider. */
    build() {
      const { run } = this.page;
      this.stop();
      this.steps = earlier(run);
      this.element.hidden = !this.steps.length;
      document.getElementById("steps").style.setProperty("--rows", this.steps.length ? Math.ceil(run.task.longest_answer / 2) : 0);
      if (this.element.hidden) return;
      this.slider.max = String(this.steps.length);
      const { followed, subject } = run.over_training;
      const flips = followed && [make("i", { class: "flips" }), `how often ${followed} flips the ${subject} `];
      this.key.replaceChildren(make("i"), "accuracy ", ...(flips || []));
      this.drawn = null;
    }

    slide(index) {
      this.page.go({ at: this.steps[index]?.step ?? null });
    }

    /** Every step in turn, up to the page's own model; another click, or the slider, ends it. */
    play() {
      if (this.playing) return this.stop();
      const turn = (index) => {
        this.playing = index < this.steps.length && setTimeout(() => turn(index + 1), PAUSE);
        this.slide(index);
      };
      turn(0);
    }

    stop() {
      clearTimeout(this.playing);
      if (this.playing && this.page.result) {
        this.playing = null;
        this.page.show_.show();
      }
    }

    show() {
      if (this.element.hidden) return;
      const { run } = this.page;
      const step = chosen(this.page);
      const words = named((step || run).step);
      this.index = step ? this.steps.indexOf(step) : this.steps.length;
      this.slider.value = String(this.index);
      this.step.textContent = words;
      this.slider.setAttribute("aria-valuetext", step ? `${words}, accuracy ${percent(step.accuracy)}` : `${words}, the model of this page`);
      const text = step ? this.tellStep(step) : this.tellWhole();
      if (this.said.textContent !== text) this.said.textContent = text;
      this.draw();
    }

    // Words

    /** What is known of one step: accuracy, and the cost and patching of the followed and of the enlarged head. */
    tellStep(step) {
      const { run, state } = this.page;
      const [low, high] = step.interval.map((end) => percent(end));
      const heads = [...new Set([run.over_training.followed, state.head])].filter(Boolean);
      const accuracy = `Accuracy ${percent(step.accuracy)} (${low} to ${high}; ${run.over_training.n} examples).`;
      return [accuracy, ...heads.map((head) => this.tellHead(step, head))].join(" ") + " Maps, answers and the panel of one head stay those of the trained model.";
    }

    tellHead(step, head) {
      const { run } = this.page;
      const [drop, interval] = [of(run, step, (one) => one.drops, head), of(run, step, (one) => one.drop_intervals, head)];
      const rate = flipRate(run, step, head);
      const { subject } = run.over_training;
      const cost = `${head} costs ${PageHeads.points(drop)} points (${interval.map(PageHeads.points).join(" to ")})`;
      if (!subject) return `${cost}.`;
      if (rate === null) return `${cost}; no pair is answered right yet, so there is no flip rate.`;
      return `${cost}; patched, it flips the ${subject} in ${percent(rate)} of ${step.usable} pairs.`;
    }

    /** At the page's own model: what the slider shows, and when the accuracy and the followed head came. */
    tellWhole() {
      const { jump, formed, followed, subject } = this.page.run.over_training;
      const came = [
        jump === null ? "" : `the accuracy stays above 50 % from ${named(jump)}`,
        formed === null ? "" : `${followed} flips the ${subject} at half its final rate or more from ${named(formed)}`,
      ].filter(Boolean).join("; ");
      return `Move the slider back to colour the heads by what they cost at ${this.steps.length} earlier steps.${came ? ` In this run ${came}.` : ""}`;
    }

    // Picture

    /** Accuracy and flip rate at each step, above the slider's own places. */
    draw() {
      const { run } = this.page;
      const steps = [...this.steps, ...(ownStep(run) ? [ownStep(run)] : [])];
      const [width, height, edge] = [240, 40, 4];
      const x = (index) => (index / this.steps.length) * width;
      const y = (share) => edge + (1 - share) * (height - 2 * edge);
      if (this.drawn !== run) {
        const line = (value, name) => makeSvg("path", { d: path(steps.map((one, index) => [x(index), value(one)]), y), class: name });
        const { followed } = run.over_training;
        this.now = makeSvg("line", { y1: 0, y2: height, class: "now" });
        const flips = followed ? [line((one) => flipRate(run, one, followed), "flips")] : [];
        this.chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
        this.chart.replaceChildren(this.now, line((one) => one.accuracy, "curve"), ...flips);
        this.drawn = run;
      }
      this.now.setAttribute("x1", x(this.index));
      this.now.setAttribute("x2", x(this.index));
    }
  }

  /** A line through the points whose value is known. */
  const path = (points, y) => {
    const known = points.filter(([, value]) => value !== null);
    return known.map(([x, value], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y(value).toFixed(1)}`).join("");
  };

  return { Training, costOf, largest, earlier, stepWords };
})();
