"use strict";
// The page's state as one value, its link, and its history. No document, no model.
const PageState = (() => {
  /**
   * Everything that a link restores.
   * @typedef {{run: number, input: string, off: string[], fill: "zero" | "mean", step: number | null, head: string | null,
   *            pins: string[], from: string, view: "attention" | "change", at: number | null}} State
   * view: whether maps show attention, or how it changed from that of the model with all heads; step null is the whole answer; from is the sum whose head output is patched in, "" for none; at is the kept step of
   * training whose costs colour the heads, null for the model of the page.
   */
  const MOST_PINS = 6;
  const LONGEST_LINK = 20000;

  const headsOf = (run) => run.sites.flatMap((site) => site.heads);

  /** @returns {State} what a run shows at first */
  const initial = (runs, index = 0) => {
    const run = runs[index];
    return {
      run: index, input: firstInput(run), off: [], fill: "zero", step: null, head: firstHead(run), pins: [], from: "", view: "attention",
      at: null,
    };
  };

  /** An example that shows something: the sum with most carries, the sorted sequence with the widest range; else the first. */
  const firstInput = (run) => {
    if (!PageTasks.isSum(run) && !PageTasks.isBars(run)) return PageTasks.exampleOf(run);
    const carries = (source) => PageTasks.workOut(run, source).carries.reduce((sum, one) => sum + one, 0);
    const range = (source) => (PageTasks.isSorted(source) ? source.at(-1) - source[0] : -1);
    const worth = PageTasks.isSum(run) ? carries : range;
    const best = run.examples.reduce((one, other) => (worth(other.source) > worth(one.source) ? other : one));
    return PageTasks.showSource(run, best.source);
  };

  /** The head whose loss costs most, or the last one. */
  const firstHead = (run) => {
    const heads = headsOf(run);
    const cost = (head) => run.analysis?.heads?.[head]?.drops?.zero?.drop ?? 0;
    return heads.length ? heads.reduce((one, other) => (cost(other) > cost(one) ? other : one), heads.at(-1)) : null;
  };

  /** The part of a state after #. */
  const toFragment = (state) => {
    const words = new URLSearchParams();
    words.set("run", String(state.run));
    words.set("input", state.input);
    if (state.off.length) words.set("off", state.off.join(","));
    if (state.fill !== "zero") words.set("fill", state.fill);
    if (state.step !== null) words.set("step", String(state.step + 1));
    if (state.head) words.set("head", state.head);
    if (state.pins.length) words.set("pin", state.pins.join(","));
    if (state.from) words.set("from", state.from);
    if (state.view !== "attention") words.set("view", state.view);
    if (state.at !== null) words.set("at", String(state.at));
    return "#" + words;
  };

  const short = (text) => ([...text].length > 40 ? [...text].slice(0, 40).join("") + "…" : text);

  const readRun = (runs, words, ignored) => {
    const said = words.get("run");
    if (said === null) return 0;
    if (/^\d{1,4}$/.test(said) && Number(said) < runs.length) return Number(said);
    ignored.push(`run=${short(said)}`);
    return 0;
  };

  const readHeads = (run, words, key, ignored) => {
    const known = new Set(headsOf(run));
    const said = (words.get(key) || "").split(",").filter(Boolean);
    const strange = said.filter((head) => !known.has(head));
    if (strange.length) ignored.push(`${key}=${short(strange.join(","))}`);
    return [...new Set(said.filter((head) => known.has(head)))];
  };

  const readInput = (run, words, key, otherwise, ignored) => {
    const said = words.get(key);
    if (said === null || said === "") return otherwise;
    const read = PageTasks.read(run, said);
    if (!read.problem) return read.text;
    ignored.push(`${key}=${short(said)}`);
    return otherwise;
  };

  const readStep = (run, words, ignored) => {
    const said = words.get("step");
    if (said === null) return null;
    if (/^\d{1,4}$/.test(said) && Number(said) >= 1 && Number(said) <= run.task.longest_answer) return Number(said) - 1;
    ignored.push(`step=${short(said)}`);
    return null;
  };

  /** A kept step of training. */
  const readKept = (run, words, ignored) => {
    const said = words.get("at");
    const kept = PageTraining.earlier(run).find((one) => String(one.step) === said);
    if (said !== null && !kept) ignored.push(`at=${short(said)}`);
    return kept?.step ?? null;
  };

  /** One of a few words; the first of them where none is said. */
  const readWord = (words, key, allowed, ignored) => {
    const said = words.get(key);
    if (said === null || allowed.includes(said)) return said || allowed[0];
    ignored.push(`${key}=${short(said)}`);
    return allowed[0];
  };

  /**
   * The state of a link; whatever in it this file does not know is left out and named.
   * @returns {{state: State, ignored: string[]}}
   */
  const fromFragment = (runs, fragment) => {
    const text = fragment.replace(/^#/, "");
    if (!text) return { state: initial(runs), ignored: [] };
    if (text.length > LONGEST_LINK) return { state: initial(runs), ignored: [short(text)] };
    const words = new URLSearchParams(text);
    const known = new Set(["run", "input", "off", "fill", "step", "head", "pin", "from", "view", "at"]);
    const ignored = [...new Set(words.keys())].filter((key) => !known.has(key)).map(short);
    const index = readRun(runs, words, ignored);
    const run = runs[index];
    const first = initial(runs, index);
    const state = {
      run: index,
      input: readInput(run, words, "input", first.input, ignored),
      off: readHeads(run, words, "off", ignored),
      fill: readWord(words, "fill", ["zero", "mean"], ignored),
      step: PageTasks.writes(run) ? readStep(run, words, ignored) : null,
      head: readHeads(run, words, "head", ignored)[0] || first.head,
      pins: readHeads(run, words, "pin", ignored).slice(0, MOST_PINS),
      from: readInput(run, words, "from", "", ignored),
      view: readWord(words, "view", ["attention", "change"], ignored),
      at: readKept(run, words, ignored),
    };
    return { state, ignored };
  };

  /** What undo brings back; looking around (step, head, pins, at) is not a change. */
  const undoable = (state) => JSON.stringify([state.run, state.input, state.off, state.fill, state.from]);

  /** States before and after the present one. */
  class History {
    constructor(state) {
      [this.present, this.past, this.future] = [state, [], []];
    }

    /** Go to a state; it can be undone if it changes more than what is looked at. */
    go(state) {
      if (undoable(state) !== undoable(this.present)) {
        this.past.push(this.present);
        if (this.past.length > 500) this.past.shift();
        this.future = [];
      }
      this.present = state;
    }

    undo() {
      if (!this.past.length) return false;
      this.future.push(this.present);
      this.present = this.past.pop();
      return true;
    }

    /** Make one change of all since the past had this many states: a drag is one change. */
    merge(count) {
      if (this.past.length > count + 1) this.past.length = count + 1;
    }

    redo() {
      if (!this.future.length) return false;
      this.past.push(this.present);
      this.present = this.future.pop();
      return true;
    }
  }

  return { initial, headsOf, toFragment, fromFragment, History, MOST_PINS };
})();
