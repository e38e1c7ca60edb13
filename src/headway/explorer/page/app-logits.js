"use strict";
// Direct logit attribution: what each head and MLP of the decoder writes into one logit difference of the shown answer.
const PageLogits = (() => {
  const { make, signed, both } = PageDraw;
  const MOST_SHOWN = 9;

  /** The step that is looked at, or the one with the smallest margin, and its two tokens; null for what cannot be split. */
  const marginOf = (page) => {
    const { run, source, result, state } = page;
    const right = PageTasks.rightAnswer(run, source);
    const margins = result.steps.map((step, index) => ({ step: index, ...PageTasks.marginOf(step, right?.[index]) }));
    if (state.step !== null) return margins[Math.min(state.step, margins.length - 1)];
    return margins.reduce((one, other) => (other.value < one.value ? other : one));
  };

  class Direct {
    constructor(page) {
      this.page = page;
      const at = (id) => document.getElementById(id);
      [this.element, this.title, this.bars, this.said] = ["direct", "direct-title", "direct-bars", "direct-said"].map(at);
    }

    /** The parts of the margin, largest first; null where it is no sum. */
    split() {
      const { engine, run, source, result } = this.page;
      if (Headway.attribution.whyNot(engine) || !result?.embedded?.decoder || result.stale) return null;
      const margin = marginOf(this.page);
      const site = run.sites.find((one) => one.side === "decoder");
      const row = PageTasks.rowOfStep(run, site ?? { kind: "decoder" }, source, margin.step);
      return { ...margin, ...Headway.attribution.split(engine, result, row, margin.own, margin.other) };
    }

    show() {
      const found = this.split();
      this.element.hidden = !found;
      if (!found) return;
      const { run, source } = this.page;
      const name = (id) => PageTasks.tokenName(run, id);
      this.title.textContent =
        `Who writes ${PagePaper.tokenOfStep(run, source, found.step)}: logit of ${name(found.own)} less ${name(found.other)}, ${signed(found.total)}`;
      const ranked = [...found.parts].sort((one, other) => Math.abs(other.value) - Math.abs(one.value));
      const shown = ranked.slice(0, MOST_SHOWN);
      const rest = ranked.slice(MOST_SHOWN).reduce((sum, { value }) => sum + value, 0);
      const rows = [...shown, ...(ranked.length > MOST_SHOWN ? [{ part: `${ranked.length - MOST_SHOWN} others`, value: rest }] : [])];
      const [least, most] = [Math.min(0, ...rows.map((row) => row.value)), Math.max(0, ...rows.map((row) => row.value))];
      this.bars.replaceChildren(...rows.flatMap((row) => this.row(row, least, most)));
      this.said.textContent = "Direct logit attribution: the parts add up to it. What later layers make of a head’s output is not in its bar.";
    }

    row({ part, value }, least, most) {
      const isHead = PageState.headsOf(this.page.run).includes(part);
      const label = isHead ? make("button", { type: "button", onclick: () => this.page.look(part) }, make("code", {}, part)) : make("code", {}, part);
      return [label, both(value, least, most), make("span", { class: "value" }, signed(value))];
    }
  }

  return { Direct, marginOf };
})();
