"use strict";
// Five stops that show what this model does, made from its own findings where there are some, else from what the page computes.
const PageTour = (() => {
  const { percent } = PageDraw;

  /**
   * @typedef {{title: string, text: string, at: string[], enter: object, action: string | null, act: (() => void) | null}} Stop
   * at: what is marked, the first of it in view; enter: the state it begins with; action: what the button says; act: what it does.
   */

  const MOST_TRIED = 40;

  const points = (value) => `${value.toFixed(1)} points`;
  const list = (names) => (names.length < 2 ? names.join("") : names.slice(0, -1).join(", ") + " and " + names.at(-1));

  const tileOf = (head) => `[data-head="${CSS.escape(head)}"]`;

  /** Heads by what they cost alone, dearest first; measured where the run has it. */
  const measuredDrops = (run) =>
    Object.entries(run.analysis?.heads || {})
      .filter(([, found]) => typeof found.drops?.zero?.drop === "number")
      .map(([head, found]) => ({ head, drop: found.drops.zero.drop, verdict: found.verdict, role: PageHeads.roleOf(found) }))
      .sort((one, other) => other.drop - one.drop);

  /** The input a run begins with: what the tour computes itself is computed on it, and shown with it. */
  const firstInput = (page) => PageState.initial(page.runs, page.state.run).input;

  /** How much less sure the model is of its own answer to this question without each head. */
  const computedLosses = (page, input) => {
    const { engine, run } = page;
    const { source } = PageTasks.read(run, input);
    const whole = engine.answer(source, {});
    const sure = (found) => whole.tokens.reduce((product, id, index) => product * (found.steps[index]?.probabilities[id] ?? 0), 1);
    const before = sure(whole);
    const rows = PageState.headsOf(run).map((head) => ({ head, loss: before - sure(engine.answer(source, { off: { [head]: "zero" } })) }));
    return rows.sort((one, other) => other.loss - one.loss);
  };

  /** Two heads that cost little alone and much together. */
  const backup = (run) => (run.analysis?.pairs || []).find((pair) => pair.alone.every((drop) => drop < 5) && pair.together > 10) || null;

  /** A stored example that is answered right, and wrong with these heads off; none in the first few is left as it is. */
  const telling = (page, heads) => {
    const { run, engine } = page;
    const off = Object.fromEntries(heads.map((head) => [head, "zero"]));
    const isRight = ({ source, target }, options) => engine.answer(source, options).tokens.join() === [target].flat().join();
    const found = run.examples.slice(0, MOST_TRIED).find((one) => isRight(one, {}) && !isRight(one, { off }));
    return found ? { input: PageTasks.showSource(run, found.source) } : {};
  };

  // Stops

  const askStop = (page) => {
    const { run } = page;
    const { n, right } = run.accuracy || { n: 0, right: 0 };
    const how = n ? ` It answers ${right} of ${n} stored examples right.` : "";
    const start = { at: ["#question"], enter: { off: [], from: "", step: null, input: firstInput(page) } };
    if (PageTasks.writes(run)) {
      const [what, paper] = PageTasks.isSum(run) ? ["sum", "; the carries stand above the columns as on paper"] : ["answer", ""];
      return {
        title: `It writes, one ${PageTasks.isSum(run) ? "digit" : "token"} after another`, ...start,
        text: `The model writes the ${what} one token at a time${paper}.${how} Step through it and watch the probabilities and the maps.`,
        action: "Go to the first step", act: () => page.go({ step: 0 }),
      };
    }
    const bars = PageTasks.isBars(run);
    const [what, then] = bars ? ["whether it is in order", "Drag an element"] : ["which class it is of", "Ask for another example"];
    return {
      title: "It reads, and judges", text: `The model reads the whole sequence and says ${what}.${how} ${then} and it reads again.`, ...start,
      action: bars ? "Insert an inversion" : "Another example",
      act: () => document.getElementById(bars ? "invert" : "another").click(),
    };
  };

  const dearestStop = (page) => {
    const [best] = measuredDrops(page.run);
    const input = firstInput(page);
    const [computed] = best ? [null] : computedLosses(page, input);
    const head = best ? best.head : computed.head;
    const text = best
      ? `Without ${head} the model loses ${points(best.drop)} of accuracy; the analysis calls it ${best.verdict}. Its attention pattern: ${best.role}.`
      : `On this example ${head} matters most: without it the model gives its answer ${percent(Math.max(0, computed.loss))} less. ` +
        "Run headway heads for a full analysis.";
    return {
      title: "The head it misses most", text: text + " Switch it off and see the answer and the accuracy.", at: [tileOf(head)],
      enter: { off: [], head, step: null, from: "", ...(best ? telling(page, [head]) : { input }) },
      action: `Switch ${head} off`, act: () => page.go({ off: [head] }),
    };
  };

  const carryStop = (page) => {
    const { run } = page;
    const best = run.analysis?.carries?.find((one) => one.about === "carry" && one.rate > 0);
    const pair = (run.contrasts || []).find((one) => one.name === best?.contrast) || (run.contrasts || [])[0];
    if (!pair) return layerStop(page);
    const enter = { off: [], step: null, head: best?.head || page.state.head, input: PageTasks.showSource(run, pair.base), from: "" };
    const said = best
      ? `Patched into another sum, ${best.head} moves the ${best.contrast} in ${percent(best.rate)} of ${best.usable} pairs.`
      : `A and B differ in one thing: ${pair.name}.`;
    const [patch_source, base] = [pair.patch_source, pair.base].map((source) => PageTasks.showSource(run, source));
    const text = `${said} Patch it from ${patch_source} into ${base} and see whether the answer moves.`;
    return {
      title: best ? "This head carries the carry" : "Patch a head", text, at: ["#patch-form", "#patch-result"], shows: "#patch-result",
      enter, action: "Patch it", act: () => page.go({ from: patch_source }),
    };
  };

  const layerStop = (page) => {
    const { run } = page;
    const site = run.sites.find((one) => one.heads.length) || { heads: [], layer: 0, side: "encoder" };
    const heads = run.sites.filter((one) => one.side === site.side && one.layer === site.layer).flatMap((one) => one.heads);
    return {
      title: "A whole layer", at: heads.map(tileOf),
      text: `Layer ${site.layer} of the ${site.side} has ${heads.length} heads. Switch them all off: the remaining information bypasses them.`,
      enter: { off: [], step: null, from: "" }, action: "Switch the layer off", act: () => page.go({ off: heads }),
    };
  };

  const pairStop = (page, pair) => ({
    title: "A redundant pair",
    text:
      `Alone, ${list(pair.heads)} cost ${list(pair.alone.map(points))}. Together they cost ${points(pair.together)}: ` +
      "each stands in for the other. Counting heads one at a time would have missed it.",
    at: pair.heads.map(tileOf),
    enter: { off: [pair.heads[0]], head: pair.heads[0], step: null, from: "", ...telling(page, pair.heads) },
    action: "Switch both off", act: () => page.go({ off: pair.heads }),
  });

  const idleStop = (page) => {
    const drops = measuredDrops(page.run);
    if (!drops.length) return layerStop(page);
    const pair = backup(page.run);
    if (pair) return pairStop(page, pair);
    const heads = drops.filter((one) => one.drop < 1).map((one) => one.head);
    if (!heads.length) return layerStop(page);
    return {
      title: "Redundant alone, and together?",
      text:
        `${heads.length} of ${drops.length} heads cost less than one point each, alone. Switch them all off together: ` +
        "what is redundant one by one need not be redundant together.",
      at: heads.map(tileOf), enter: { off: [], step: null, from: "", ...telling(page, heads) },
      action: "Switch them off", act: () => page.go({ off: heads }),
    };
  };

  const aloneStop = (page) => {
    const [{ head }] = measuredDrops(page.run).length ? measuredDrops(page.run) : computedLosses(page, firstInput(page));
    const others = PageState.headsOf(page.run).filter((one) => one !== head);
    const none = page.bar.sufficient() ? "No head can be removed for less than a point. " : "";
    return {
      title: "One head alone",
      text: `${none}Now the other way: only ${head} stays on, and the stored examples say how far one head goes.`,
      at: [tileOf(head)], enter: { off: [], from: "", step: null }, action: "Keep only it", act: () => page.go({ off: others }),
    };
  };

  const enoughStop = (page) => {
    const kept = page.bar.sufficient();
    const all = PageState.headsOf(page.run);
    if (!kept || kept.length === all.length) return aloneStop(page);
    const share = page.run.analysis.sufficient.exact_match;
    const held = typeof share === "number" ? ` On examples held back for this it answers ${percent(share)}.` : "";
    return {
      title: `${kept.length} of ${all.length} heads are enough`,
      text: `The analysis removed heads one after another while less than a point was lost; these are left.${held} Keep only them.`,
      at: ["#keep", ...kept.map(tileOf)], enter: { off: [], step: null, from: "" },
      action: "Keep only these", act: () => page.bar.keepSufficient(),
    };
  };

  const lengthStop = (page) => {
    const { run } = page;
    const longest = run.task.longest;
    const reached = run.lengths?.held ?? run.lengths?.certified;  // models exported by earlier versions say certified
    const held = reached ? ` On every set that was tested it holds to ${reached} elements.` : "";
    const text =
      `It was trained on ${run.task.trained.join(" to ")} elements.${held} Make this sequence ${longest} long: ` +
      "the chart shows how sure it is of the right answer at each length.";
    const grow = () => page.go({ input: PageSequence.lengthened(page.source, longest).join(" ") });
    return {
      title: "Past the training length", text, at: ["#question"], enter: { off: [], from: "", input: firstInput(page) },
      action: `Make it ${longest} long`, act: grow,
    };
  };

  /** @returns {((page) => Stop)[]} the five stops of a run's task */
  const stopsOf = (run) => {
    const last = [idleStop, enoughStop];
    return PageTasks.isBars(run) ? [askStop, lengthStop, dearestStop, ...last] : [askStop, dearestStop, carryStop, ...last];
  };

  class Tour {
    constructor(page) {
      this.page = page;
      const at = (id) => document.getElementById(id);
      [this.element, this.place, this.title, this.text] = ["tour", "tour-place", "tour-title", "tour-text"].map(at);
      [this.back, this.action, this.next, this.result] = ["tour-back", "tour-do", "tour-next", "tour-result"].map(at);
      at("tour-start").addEventListener("click", () => this.start());
      at("tour-end").addEventListener("click", () => this.end());
      this.back.addEventListener("click", () => this.go(this.index - 1));
      this.next.addEventListener("click", () => (this.index === this.stops.length - 1 ? this.end() : this.go(this.index + 1)));
      this.action.addEventListener("click", () => this.act());
      this.element.addEventListener("keydown", (event) => event.key === "Escape" && this.end());
      window.addEventListener("resize", () => this.stop && this.makeRoom());
      window.addEventListener("scroll", () => this.stop && this.makeRoom(), { passive: true });
    }

    /** Begin; the state as it was comes back at the end. */
    start() {
      if (!PageState.headsOf(this.page.run).length) return this.page.say("Every head of this model was pruned away: there is no tour.");
      if (!this.stop) this.before = this.page.state;
      this.stops = stopsOf(this.page.run);
      this.element.hidden = false;
      this.go(0);
    }

    go(index) {
      this.index = index;
      this.stop = this.stops[index](this.page);
      this.page.go({ fill: "zero", view: "attention", ...this.stop.enter });
      this.place.textContent = `Stop ${index + 1} of ${this.stops.length}`;
      [this.title.textContent, this.text.textContent, this.result.textContent] = [this.stop.title, this.stop.text, ""];
      this.action.textContent = this.stop.action;
      this.back.disabled = index === 0;
      this.next.textContent = index === this.stops.length - 1 ? "Finish" : "Next";
      this.spot(this.stop.at);
      this.title.focus({ preventScroll: true });
    }

    /** Do what the button says, and report the result. */
    async act() {
      const before = this.page.result && !this.page.result.stale ? this.page.result.tokens : null;
      const { stop } = this;
      stop.act();
      if (stop.shows) this.spot([stop.shows]);
      const changed = this.outcome(before);
      this.result.textContent = changed;
      this.makeRoom();
      const { right, total } = await this.page.bar.whenCounted();
      if (this.stop === stop && total && this.page.state.off.length) this.result.textContent = `${changed} Accuracy now: ${percent(right / total)}.`;
      if (this.stop) this.makeRoom();
    }

    /** The answer now, and what it was. */
    outcome(before) {
      const { run, state, result } = this.page;
      if (state.from) return document.querySelector("#patch-result .told")?.textContent || "The patch is below.";
      if (state.step !== null) return `Step ${state.step + 1} of ${result.tokens.length} is shown.`;
      if (!result || result.stale) return "It is being answered.";
      const answer = PageTasks.written(run, result.tokens) || "nothing";
      const was = before && PageTasks.written(run, before);
      return was === answer ? `The answer stays ${answer}.` : `The answer is ${answer} now${was ? `, it was ${was}` : ""}.`;
    }

    /** Mark these, bring the first of them into view, and put the card where it covers none of them. */
    spot(selectors) {
      document.querySelectorAll(".spot").forEach((one) => one.classList.remove("spot"));
      const targets = selectors.map((one) => document.querySelector(one)).map((one) => one?.closest(".tile") || one).filter(Boolean);
      targets.forEach((one) => one.classList.add("spot"));
      targets[0]?.scrollIntoView({ block: targets[0].matches("section") ? "start" : "center", behavior: "instant" });
      this.makeRoom();
    }

    /** Of the corners of the window, the one in which the card covers least of what is marked. */
    makeRoom() {
      const { width, height } = this.element.getBoundingClientRect();
      const bar = document.getElementById("bar").getBoundingClientRect().bottom + 8;
      const [right, bottom] = [document.documentElement.clientWidth - width - 16, window.innerHeight - height - 12];
      const targets = [...document.querySelectorAll(".spot")].map((one) => one.getBoundingClientRect());
      const covered = ([left, top]) =>
        targets.reduce((sum, box) => {
          const across = Math.min(left + width, box.right) - Math.max(left, box.left);
          const down = Math.min(top + height, box.bottom) - Math.max(top, box.top);
          return sum + Math.max(0, across) * Math.max(0, down);
        }, 0);
      const corners = [[right, bottom], [16, bottom], [right, bar], [16, bar]].map(([left, top]) => [Math.max(8, left), Math.max(8, top)]);
      const [left, top] = corners.reduce((one, other) => (covered(other) < covered(one) ? other : one));
      Object.assign(this.element.style, { left: left + "px", top: top + "px", right: "auto", bottom: "auto" });
    }

    end() {
      this.stop = null;
      this.spot([]);
      this.element.hidden = true;
      this.page.go(this.before);
      document.getElementById("tour-start").focus({ preventScroll: true });
    }
  }

  return { Tour };
})();
