"use strict";
// Patching: one head's output from question A, put into question B, and what becomes of the answer.
const PagePatch = (() => {
  const { make, percent, signed } = PageDraw;

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
      [this.positions, this.map] = ["patch-positions", "patch-map"].map(at);
      this.positions.addEventListener("click", () => this.mapPositions());
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
      if (key !== this.mappedFor) this.map.hidden = true;
      if (!result || result.stale) return;
      this.head.value = state.head;
      this.into.textContent = !PageTasks.isSum(run) && source.length > 20 ? `${source.length} elements` : PageTasks.showSource(run, source);
      if (this.shownFrom !== state.from) {
        this.from.value = state.from || this.from.value;
        this.shownFrom = state.from;
        this.complaint.textContent = "";
      }
      const { source: patch_source, problem } = state.from ? this.read(state.from) : {};
      this.all.hidden = this.positions.hidden = !patch_source;
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
      const changed = patched.tokens.flatMap((id, index) => (id !== result.tokens[index] ? [[index, id === given.tokens[index] ? "source" : "other"]] : []));
      const movedAt = new Map(changed);
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

    /**
     * What a patch is measured by: the first token in which the answers to A and B differ, after what they have in common.
     * A's token there against B's, as logits; null where there is nothing to measure, which is said.
     */
    contest() {
      const { engine, run, source, result, state } = this.page;
      const { source: patch_source } = this.read(state.from);
      if (!patch_source || !result || result.stale) return null;
      const given = this.given(patch_source, this.key);
      const place = firstDifference(given.tokens, result.tokens);
      const [own, other] = [given.tokens[place], result.tokens[place]];
      if (place === null || own === undefined || other === undefined) {
        this.page.say("A and B have the same answer: no head can move it.");
        return null;
      }
      const prefix = PageTasks.writes(run) && [run.vocabulary.bos, ...result.tokens.slice(0, place)];
      const answer = (asked, more) => {
        const options = { ...this.page.options(), ...more };
        return (prefix ? engine.read(asked, prefix, options) : engine.answer(asked, options)).steps.at(-1);
      };
      const difference = ({ logits }) => logits[own] - logits[other];
      const patched = (head, at = null) => answer(source, { patch: { [head]: given.outputs[head] }, at });
      return { place, own, other, patched, difference, base: difference(answer(source, {})), most: difference(answer(patch_source, {})) };
    }

    /** Work through a list a piece at a time so that the page stays awake; null if B, or what is off, became another. */
    async each(list, work) {
      const [key, found] = [this.key, []];
      for (const one of list) {
        found.push(work(one));
        await new Promise((resolve) => setTimeout(resolve));
        if (key !== this.key) return null;
      }
      return found;
    }

    /** The heads that are on. */
    heads() {
      return PageState.headsOf(this.page.run).filter((head) => !this.page.state.off.includes(head));
    }

    /** Patch every head in turn, and rank them. */
    async rank() {
      const contest = this.contest();
      if (!contest) return;
      const { own, other, patched, difference } = contest;
      this.rankedFor = this.key;
      const rows = await this.each(this.heads(), (head) => {
        const step = patched(head);
        return { head, share: step.probabilities[own], margin: difference(step), effect: effectOf(this.page.run, step.token, own, other) };
      });
      if (rows && this.rankedFor === this.key) this.showRanking(rows.sort((one, last) => last.margin - one.margin), contest);
    }

    showRanking(rows, { own, other, place, base }) {
      const { run, source } = this.page;
      const where = PageTasks.writes(run) ? ` as ${PagePaper.tokenOfStep(run, source, place)}` : "";
      const [name, was] = [own, other].map((id) => PageTasks.answerName(run, id));
      const said = `With each head from A alone: probability of A’s ${name}${where}, and its logit less that of B’s ${was}, ${signed(base)} without a patch.`;
      const title = make("li", { class: "aside" }, said);
      title.style.gridColumn = "1 / -1";
      const lines = rows.map(({ head, share, margin, effect }) => {
        const button = make(
          "button", { type: "button", onclick: () => this.page.go({ head }) },
          make("code", {}, head), PageDraw.rod(share), make("span", { class: "share" }, percent(share)),
          make("span", { class: "margin" }, signed(margin)), make("span", { class: effect.moved ? "right" : "aside" }, effect.words)
        );
        return make("li", {}, button);
      });
      this.ranking.replaceChildren(title, ...lines);
      this.ranking.hidden = false;
    }

    // By position

    /** The queries of a site at which a patch can change the measured token, with their names. */
    queriesOf(site, place) {
      const { run, source, result } = this.page;
      const { queries } = PageTasks.axes(run, site, source, result.tokens);
      const last = PageTasks.rowOfStep(run, site, source, place);
      const wrote = site.kind === "decoder" && run.model.shape !== "decoder" ? result.tokens.map((id) => PageTasks.tokenName(run, id)) : queries;
      return wrote.slice(0, last === null ? queries.length : last + 1);
    }

    /** Patch every head at one position after another: what share of the way from B's logit difference to A's it goes. */
    async mapPositions() {
      const contest = this.contest();
      if (!contest) return;
      const { run } = this.page;
      this.mappedFor = this.key;
      const cells = this.heads().flatMap((head) => {
        const site = PageHeads.siteOf(run, head);
        return this.queriesOf(site, contest.place).map((_, at) => ({ head, at }));
      });
      const found = await this.each(cells, ({ head, at }) => {
        const moved = contest.difference(contest.patched(head, at)) - contest.base;
        return { head, at, share: moved / (contest.most - contest.base) };
      });
      if (found && this.mappedFor === this.key) this.showPositions(found, contest);
    }

    showPositions(found, { own, other, place, base, most }) {
      const { run } = this.page;
      const name = (id) => PageTasks.answerName(run, id);
      const title = `Each head from A, at one position alone. 100: the logit of ${name(own)} less ${name(other)} becomes A’s (${signed(most)}); 0: it stays B’s (${signed(base)}).`;
      const groups = new Map();
      for (const site of run.sites) {
        const names = this.queriesOf(site, place);
        const group = site.kind === "encoder" ? "Encoder: token that is read" : run.model.shape === "decoder" ? "Decoder: token" : "Decoder: token that is written";
        if (!groups.has(group)) groups.set(group, { names, heads: [] });
        groups.get(group).heads.push(...site.heads.filter((head) => found.some((cell) => cell.head === head)));
      }
      const tables = [...groups].filter(([, { heads }]) => heads.length).map(([group, { names, heads }]) => this.positionTable(group, names, heads, found));
      this.map.replaceChildren(make("p", { class: "aside" }, title), ...tables);
      this.map.hidden = false;
    }

    positionTable(group, names, heads, found) {
      const head = make("tr", {}, make("th", { scope: "col" }, group), ...names.map((name) => make("th", { scope: "col" }, name)));
      const rows = heads.map((one) =>
        make("tr", {}, make("th", { scope: "row" }, make("code", {}, one)), ...found.filter((cell) => cell.head === one).map((cell) => this.positionCell(cell, names)))
      );
      return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
    }

    positionCell({ head, at, share }, names) {
      const text = (100 * share).toFixed(0).replace("-", "−").replace(/^−0$/, "0");
      const classes = [share < 0 && "against", Math.abs(share) > 0.6 && "strong"].filter(Boolean).join(" ");
      const said = `${head} at ${names[at]}: ${text} %`;
      const button = make("button", { type: "button", class: classes, "aria-label": said, title: said, onclick: () => this.page.go({ head }) }, text);
      button.style.setProperty("--share", 100 * Math.min(1, Math.abs(share)) + "%");
      return make("td", {}, button);
    }
  }

  /** Whether a patch made the token A's; and what it made of it, in words. */
  const effectOf = (run, token, own, other) => {
    if (token === own) return { moved: true, words: "becomes A’s" };
    return { moved: false, words: token === other ? "stays" : `becomes ${PageTasks.answerName(run, token)}` };
  };

  return { Patching, firstDifference };
})();
