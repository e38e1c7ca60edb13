"use strict";
// The bar that says what the model says now: the answer, the accuracy over the stored examples, and how many heads are on.
const PageSwitches = (() => {
  const { percent } = PageDraw;

  const LONGEST_ASKED = 22;
  const PAINT = 40;

  /** Wilson's 95 % interval of a share. */
  const interval = (right, n) => {
    const z = 1.959964;
    const share = right / n;
    const middle = share + (z * z) / (2 * n);
    const half = z * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n));
    return [middle - half, middle + half].map((end) => Math.max(0, Math.min(1, end / (1 + (z * z) / n))));
  };

  class Bar {
    constructor(page) {
      this.page = page;
      const at = (id) => document.getElementById(id);
      [this.said, this.share, this.words, this.meter] = ["said", "accuracy-share", "accuracy-words", "accuracy-meter"].map(at);
      [this.fill, this.before] = ["accuracy-fill", "accuracy-before"].map(at);
      [this.on, this.keep, this.allOn, this.undo, this.redo] = ["heads-on", "keep", "all-on", "undo", "redo"].map(at);
      [this.counted, this.job] = [null, null];
      this.keep.addEventListener("click", () => this.keepSufficient());
      this.allOn.addEventListener("click", () => page.go({ off: [] }));
      this.undo.addEventListener("click", () => page.undo());
      this.redo.addEventListener("click", () => page.redo());
      this.fills = [...document.querySelectorAll("input[name=fill]")];
      this.fills.forEach((radio) => radio.addEventListener("change", () => page.go({ fill: radio.value })));
      this.views = [...document.querySelectorAll("input[name=view]")];
      this.views.forEach((radio) => radio.addEventListener("change", () => this.choose(radio.value)));
    }

    sufficient() {
      const known = new Set(PageState.headsOf(this.page.run));
      const heads = this.page.run.analysis?.sufficient?.heads?.filter((head) => known.has(head));
      return heads?.length ? heads : null;
    }

    /** Maps of attention, or of its change, which needs a head that is off to compare with. */
    choose(view) {
      this.page.go({ view });
      if (view === "change" && !this.page.state.off.length)
        this.page.say("Switch a head off: the maps then show how the attention of the others changes.");
    }

    /** Switch all others off; to zero, with which the analysis found the set. */
    keepSufficient() {
      const kept = this.sufficient();
      if (kept) this.page.go({ off: PageState.headsOf(this.page.run).filter((head) => !kept.includes(head)), fill: "zero" });
    }

    show() {
      const { state, run, history } = this.page;
      const all = PageState.headsOf(run).length;
      const kept = this.sufficient();
      this.on.textContent = `${all - state.off.length} of ${all}`;
      this.keep.disabled = !kept || kept.length === all;
      this.keep.textContent = kept ? `Smallest sufficient set (${kept.length})` : "Smallest sufficient set";
      const needed = kept?.length === all ? "The analysis found that every head is needed." : kept?.join(", ");
      this.keep.title = needed || "This file contains no head analysis: run headway heads.";
      this.allOn.disabled = !state.off.length;
      this.undo.disabled = !history.past.length;
      this.redo.disabled = !history.future.length;
      this.fills.forEach((radio) => (radio.checked = radio.value === state.fill));
      this.views.forEach((radio) => (radio.checked = radio.value === state.view));
      this.showAnswer();
      this.count();
    }

    showAnswer() {
      const { result, run, source } = this.page;
      if (!result || (result.stale && !PageTasks.writes(run))) return;
      const question = PageTasks.showSource(run, source);
      const long = PageTasks.isSum(run) ? "this sum" : `${source.length} elements`;
      const asked = question.length > LONGEST_ASKED || PageTasks.isBars(run) ? long : question;
      if (result.stale) return void (this.said.textContent = `${asked} → …`);
      const good = PageTasks.isRight(run, source, result.tokens);
      const answer = PageTasks.written(run, result.tokens);
      const { whole } = this.page;
      const before = whole && PageTasks.written(run, whole.tokens);
      const was = before !== null && before !== answer ? `, was ${before}` : "";
      const verdict = good === null ? "(not judged)" : good ? "✓ right" : "✗ wrong";
      const text = `${asked} → ${answer || "nothing"} ${verdict}${was}`;
      if (this.said.textContent !== text) this.said.textContent = text;
    }

    /** Count the stored examples that the model with these switches answers right, live. */
    count() {
      const { state, run, engine } = this.page;
      const key = JSON.stringify([state.run, [...state.off].sort(), state.off.length ? state.fill : ""]);
      if (key === this.counted) return;
      this.counted = key;
      this.job?.cancel();
      this.job = null;
      clearTimeout(this.starting);
      if (!state.off.length && run.accuracy) return this.tellAll({ done: run.accuracy.n, total: run.accuracy.n, right: run.accuracy.right });
      this.tell({ done: 0, total: run.examples.length, right: 0 });
      this.starting = setTimeout(() => this.start(engine), PAINT);
    }

    /** Begin to count, once the new answer is painted: the workers would take the cores that it needs. */
    start(engine) {
      const started = performance.now();
      const job = (this.job = this.page.pool.accuracy(engine, this.page.options(), (found) => this.job === job && this.tell(found)));
      job.promise.then((found) => {
        if (found.cancelled || this.job !== job) return;
        document.body.dataset.accuracyMs = String(Math.round(performance.now() - started));
        this.tellAll(found);
      }, () => this.page.say("The stored examples could not be counted."));
    }

    /** The whole count: told, and kept for whoever waits for it. */
    tellAll(found) {
      this.tell(found);
      const waiting = this.waiting ?? [];
      this.waiting = [];
      waiting.forEach((resolve) => resolve(found));
    }

    /** The count of the switches as they are, once it is done; of those that came after, if they were changed meanwhile. */
    whenCounted() {
      const { done, total, right } = this.found;
      if (done === total) return Promise.resolve({ done, total, right });
      return new Promise((resolve) => (this.waiting ??= []).push(resolve));
    }

    /** What was counted so far. The bar's length is the accuracy; a tick marks that of the model with all heads. */
    tell({ done, total, right }) {
      const { accuracy } = this.page.run;
      this.found = { done, total, right };
      const [now, whole] = [done ? right / done : 0, accuracy?.n ? accuracy.right / accuracy.n : null];
      this.fill.style.width = 100 * now + "%";
      this.meter.setAttribute("aria-valuenow", (100 * now).toFixed(1));
      this.meter.classList.toggle("low", done > 0 && whole !== null && now < whole - 0.05);
      this.before.hidden = whole === null || !this.page.state.off.length;
      this.before.style.left = `calc(${100 * (whole ?? 0)}% - 2px)`;
      document.body.dataset.counted = done === total ? "yes" : "no";
      this.share.textContent = done ? percent(right / done) : "…";
      const [low, high] = done ? interval(right, done) : [0, 1];
      const was = accuracy && this.page.state.off.length ? `, was ${accuracy.right}` : "";
      this.words.textContent = done < total ? `${right} right of ${done} so far` : `${right} of ${total}${was}`;
      this.words.title = done ? `95 % interval ${percent(low)} to ${percent(high)}` : "";
    }
  }

  return { Bar, interval };
})();
