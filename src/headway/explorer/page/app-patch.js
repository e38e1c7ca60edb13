"use strict";
// Patching: one head's output from question A, put into question B, and what becomes of the answer.
const PagePatch = (() => {
  const { make, percent } = PageDraw;

  const LONGEST = 64;

  /** The first token in which two answers differ; null if none. */
  const firstDifference = (one, other) => {
    const length = Math.max(one.length, other.length);
    for (let index = 0; index < length; index++) if (one[index] !== other[index]) return index;
    return null;
  };

  const told = (text) => make("p", { class: "told" }, text);

  /** Why questions of these lengths cannot be patched into each other; "" if they can. */
  const misfit = (from, into) => {
    if (into > LONGEST) return `Patching takes ${LONGEST} elements at most; B has ${into}.`;
    return from === into ? "" : `A must be as long as B, which has ${into} tokens; it has ${from}.`;
  };

  class Patching {
    constructor(page) {
      this.page = page;
      const at = (id) => document.getElementById(id);
      [this.section, this.lead, this.complaint] = ["patching", "patching-lead", "patch-complaint"].map(at);
      [this.head, this.from, this.into, this.pair] = ["patch-head", "patch-from", "patch-into", "patch-pair"].map(at);
      [this.pairLabel, this.result, this.all, this.ranking] = ["patch-pair-label", "patch-result", "patch-all", "patch-ranking"].map(at);
      at("patch-now").addEventListener("click", () => this.ask());
      this.from.addEventListener("keydown", (event) => event.key === "Enter" && this.ask());
      this.head.addEventListener("change", () => page.go({ head: this.head.value }));
      this.pair.addEventListener("change", () => this.takePair(this.pair.value));
      this.all.addEventListener("click", () => this.rank());
    }

    /** Fill the choices of a run; once for each run. */
    build() {
      const { run } = this.page;
      const option = (text, value) => make("option", { value }, text);
      this.head.replaceChildren(...PageState.headsOf(run).map((head) => option(head, head)));
      const names = [...new Set((run.contrasts || []).map((one) => one.name))];
      this.pair.replaceChildren(option("choose…", ""), ...names.map((name) => option(name, name)));
      this.pairLabel.hidden = !names.length;
      this.from.placeholder = names.length ? PageTasks.showSource(run, run.contrasts[0].patch_source) : PageTasks.exampleOf(run);
      [this.from.value, this.shownFrom, this.turn] = ["", "", -1];
      this.section.hidden = !PageState.headsOf(run).length;
      const what = PageTasks.isSum(run) ? "the carry" : PageTasks.writes(run) ? "the answer" : "the verdict";
      this.lead.textContent = `The model runs on B, but one head gives its output on A. See whether ${what} moves with it.`;
      this.from.readOnly = !PageTasks.canType(run);
    }

    /** From the large view: choose this head, and a pair if there is none yet. */
    begin() {
      if (!this.page.state.from) {
        const first = (this.page.run.contrasts || []).find((one) => one.about === "carry") || (this.page.run.contrasts || [])[0];
        if (first) this.takePair(first.name);
      }
      this.section.scrollIntoView({ block: "start" });
      this.from.focus({ preventScroll: true });
    }

    /** The next stored pair of this name, so that choosing again shows another. */
    takePair(name) {
      const pairs = (this.page.run.contrasts || []).filter((one) => one.name === name);
      if (!pairs.length) return;
      const { run } = this.page;
      this.turn = ((this.turn ?? -1) + 1) % pairs.length;
      const { base, patch_source } = pairs[this.turn];
      this.page.go({ input: PageTasks.showSource(run, base), from: PageTasks.showSource(run, patch_source), step: null });
      this.pair.value = "";
    }

    ask() {
      const read = this.read(this.from.value);
      this.complaint.textContent = read.problem || "";
      this.from.setAttribute("aria-invalid", String(Boolean(read.problem)));
      if (!read.problem) this.page.go({ from: read.text });
    }

    /** A as it was typed, or the sentence why it cannot be patched into B. */
    read(typed) {
      const { run, source } = this.page;
      const read = PageTasks.read(run, typed);
      const problem = read.problem || misfit(read.source.length, source.length);
      return problem ? { problem } : read;
    }

    /** Everything that a patch depends on, but its head. */
    get key() {
      const { state } = this.page;
      return JSON.stringify([state.run, state.input, state.from, state.off, state.fill]);
    }

    /** What patches one head after another into B as it is now. */
    patcher(given) {
      const { engine, source } = this.page;
      const options = this.page.options();
      return (head) => engine.answer(source, { ...options, patch: { [head]: given.outputs[head] } });
    }

    show() {
      const { state, run, source, result } = this.page;
      const { key } = this;
      if (key !== this.rankedFor) this.ranking.hidden = true;
      if (!result || result.stale) return;
      this.head.value = state.head;
      this.into.textContent = !PageTasks.isSum(run) && source.length > 20 ? `${source.length} elements` : PageTasks.showSource(run, source);
      if (this.shownFrom !== state.from) {
        this.from.value = state.from || this.from.value;
        this.shownFrom = state.from;
        this.complaint.textContent = "";
      }
      const { source: patch_source, problem } = state.from ? this.read(state.from) : {};
      this.all.hidden = !patch_source;
      if (!patch_source || !state.head) return this.result.replaceChildren(...(problem ? [told(problem)] : []));
      const off = state.off.includes(state.head);
      if (off) return this.result.replaceChildren(told(`${state.head} is switched off: switch it on to patch it.`));
      const given = this.given(patch_source, key);
      this.tell(patch_source, given, this.patcher(given)(state.head));
    }

    /** What the model does on A, kept until something changes. */
    given(patch_source, key) {
      if (this.givenFor !== key) [this.givenFor, this.kept] = [key, this.page.engine.answer(patch_source, this.page.options())];
      return this.kept;
    }

    tell(patch_source, given, patched) {
      const { run, source, result } = this.page;
      const sentence = told(this.sentence(given, result, patched));
      const title = `B with A’s ${this.page.state.head}`;
      if (!PageTasks.writes(run)) {
        const sure = ({ tokens: [id], steps: [step] }) => `${PageTasks.answerName(run, id)}, ${percent(step.probabilities[id])}`;
        const line = (name, found) => make("p", {}, `${name}: ${sure(found)}`);
        return this.result.replaceChildren(sentence, line("A alone", given), line("B alone", result), line(title, patched));
      }
      const movedAt = new Set(patched.tokens.flatMap((id, index) => (id !== result.tokens[index] ? [index] : [])));
      const sheet = (name, asked, found, moved) => {
        const paper = make("div", { class: "paper", role: "img" });
        PagePaper.draw(paper, run, asked, found.tokens, { moved });
        return make("div", {}, make("h3", {}, name), paper);
      };
      const alone = [sheet("A alone", patch_source, given), sheet("B alone", source, result)];
      this.result.replaceChildren(sentence, ...alone, sheet(title, source, patched, movedAt));
    }

    /** What the patch did, in one or two sentences. */
    sentence(given, before, after) {
      const { run, source, state } = this.page;
      const change = firstDifference(before.tokens, after.tokens);
      const name = (id) => (id === undefined ? "nothing" : PageTasks.answerName(run, id));
      if (change === null) {
        const place = firstDifference(given.tokens, before.tokens);
        const share = place === null ? null : after.steps[place]?.probabilities[given.tokens[place]];
        const sure = share === null || share === undefined ? "" : ` It gives A’s ${name(given.tokens[place])} there ${percent(share)}.`;
        return `Nothing moved: with ${state.head} from A the answer to B stays ${PageTasks.written(run, before.tokens)}.${sure}`;
      }
      const whole = firstDifference(given.tokens, after.tokens) === null ? " That is A’s whole answer." : "";
      const way = `from ${name(before.tokens[change])} to ${name(after.tokens[change])}`;
      if (!PageTasks.writes(run)) return `The verdict moved ${way} with ${state.head}.${whole}`;
      const same = after.tokens[change] === given.tokens[change];
      const as = same ? ", as in A: it moved with this head" : `, which is neither A’s ${PageTasks.isSum(run) ? "digit" : "token"} nor B’s`;
      return `It moved: ${PagePaper.tokenOfStep(run, source, change)} goes ${way}${as}.${whole}`;
    }

    /** Patch every head in turn, a few at a time so that the page stays awake, and rank them. */
    async rank() {
      const { run, result, state } = this.page;
      const { source: patch_source } = this.read(state.from);
      if (!patch_source || !result || result.stale) return;
      const key = (this.rankedFor = this.key);
      const given = this.given(patch_source, key);
      const place = firstDifference(given.tokens, result.tokens);
      if (place === null) return this.page.say("A and B have the same answer: no head can move it.");
      const [patch, rows] = [this.patcher(given), []];
      for (const head of PageState.headsOf(run).filter((one) => !state.off.includes(one))) {
        const patched = patch(head);
        const share = patched.steps[place]?.probabilities[given.tokens[place]] ?? 0;
        rows.push({ head, share, moved: firstDifference(patched.tokens, result.tokens) !== null });
        await new Promise((resolve) => setTimeout(resolve));
        if (key !== this.rankedFor || key !== this.key) return; // B, or what is off, is another by now
      }
      this.showRanking(rows.sort((one, other) => other.share - one.share), given.tokens[place], place);
    }

    showRanking(rows, token, place) {
      const { run, source } = this.page;
      const where = PageTasks.writes(run) ? ` as ${PagePaper.tokenOfStep(run, source, place)}` : "";
      const name = PageTasks.answerName(run, token);
      const title = make("li", { class: "aside" }, `Probability of A’s ${name}${where}, with each head from A alone:`);
      title.style.gridColumn = "1 / -1";
      const lines = rows.map(({ head, share, moved }) => {
        const button = make(
          "button", { type: "button", onclick: () => this.page.go({ head }) },
          make("code", {}, head), PageDraw.rod(share), make("span", { class: "share" }, percent(share)),
          make("span", { class: moved ? "right" : "aside" }, moved ? "moved" : "stayed")
        );
        return make("li", {}, button);
      });
      this.ranking.replaceChildren(title, ...lines);
      this.ranking.hidden = false;
    }
  }

  return { Patching, firstDifference };
})();
