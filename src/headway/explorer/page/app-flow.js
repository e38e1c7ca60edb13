"use strict";
// The whole computation as one picture, from tokens to logits: every part can be opened and says what it does here, in numbers.
const PageFlow = (() => {
  const { make, percent, signed } = PageDraw;
  const MOST_TOKENS = 12;
  const SHOWN = 5;

  const length = (values) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  const rowOf = (values, row, width) => values.subarray(row * width, (row + 1) * width);

  class Flow {
    constructor(page) {
      this.page = page;
      this.chosen = null;
      const at = (id) => document.getElementById(id);
      [this.section, this.element, this.detail, this.lead] = ["computation", "flow", "flow-detail", "computation-lead"].map(at);
    }

    build() {
      this.chosen = null;
      this.detail.replaceChildren();
      this.section.hidden = !this.page.run.sites.length;
    }

    /** What a part adds to the stream: at the query of the step that is looked at, or at the last token of the encoder. */
    written(part) {
      const { engine, result } = this.page;
      const block = this.blockOf(part);
      const row = this.rowIn(block);
      if (part.endsWith(".mlp")) return rowOf(result.mlps[part], row, engine.width);
      const site = [block.own, block.cross].find((one) => one?.heads.includes(part));
      const size = engine.run.model.d_head;
      return Headway.attribution.written(site, site.heads.indexOf(part), rowOf(result.outputs[part], row, size), size);
    }

    blockOf(part) {
      const { engine } = this.page;
      return [...engine.encoder, ...engine.decoder].find((block) => part.startsWith(block.name + "."));
    }

    /** The row of a block's stream that is looked at. */
    rowIn(block) {
      const { engine, run, source } = this.page;
      if (engine.encoder.includes(block)) return source.length - 1;
      return PageTasks.rowOfStep(run, { kind: "decoder" }, source, PageLogits.marginOf(this.page).step);
    }

    show() {
      const { engine, run, result, source } = this.page;
      if (!result || result.stale || !result.mlps || this.section.hidden) return;
      const blocks = [...engine.encoder, ...engine.decoder];
      const parts = blocks.flatMap((block) => [...block.own.heads, ...(block.cross?.heads ?? []), `${block.name}.mlp`]);
      this.lengths = new Map(parts.map((part) => [part, length(this.written(part))]));
      this.longest = Math.max(...this.lengths.values());
      const { step } = PageLogits.marginOf(this.page);
      const where = PageTasks.writes(run) ? `the step that writes ${PagePaper.tokenOfStep(run, source, step)}` : "the last token";
      this.lead.textContent = `A part is darker the more it adds to the stream, at ${where}. Choose a part to see what it does, in numbers.`;
      const joined = run.model.shape === "decoder";
      const wrote = ["start", ...result.tokens.slice(0, step).map((id) => PageTasks.tokenName(run, id))];
      const asked = source.map((id) => PageTasks.tokenName(run, id));
      const rows = [];
      if (engine.encoder.length) rows.push(this.row("Encoder", asked, engine.encoder, engine.decoder.length ? [make("span", { class: "label" }, "read by cross-attention ↓")] : this.end(result.steps[0])));
      if (engine.decoder.length) rows.push(this.row("Decoder", joined ? [...asked, ...wrote] : wrote, engine.decoder, this.end(result.steps[step])));
      this.element.replaceChildren(make("div", { class: "flow-column" }, ...rows));
      this.tell();
    }

    row(name, tokens, blocks, end) {
      const shown = tokens.length > MOST_TOKENS ? [...tokens.slice(0, MOST_TOKENS - 1), "…"] : tokens;
      const start = [make("span", { class: "label" }, name), this.unit("tokens", shown.map((token) => make("span", {}, token))), arrow(), this.unit("vectors", [this.part(`${name} embedding`, "embed")])];
      return make("div", { class: "flow-row" }, ...start, ...blocks.flatMap((block) => [arrow(), this.block(block)]), arrow(), ...end);
    }

    unit(name, parts) {
      return make("div", { class: "unit" }, make("span", {}, name), make("div", { class: "parts" }, ...parts));
    }

    block(block) {
      const heads = (site) => site.heads.map((head) => this.part(head, head.split(".").pop()));
      const sites = [make("span", {}, "self"), make("div", { class: "parts" }, ...heads(block.own))];
      if (block.cross) sites.push(make("span", {}, "cross"), make("div", { class: "parts" }, ...heads(block.cross)));
      return make("div", { class: "unit" }, make("span", {}, `layer ${block.name.slice(3)}`), ...sites, this.part(`${block.name}.mlp`, "MLP"));
    }

    part(name, text) {
      const off = this.page.state.off.includes(name);
      const said = `${name}${off ? ", switched off" : ""}`;
      const button = make("button", { type: "button", class: off ? "off" : "", "aria-label": said, "aria-pressed": String(this.chosen === name), onclick: () => this.choose(name) }, text);
      button.style.setProperty("--share", (45 * (this.lengths.get(name) ?? 0)) / Math.max(1e-9, this.longest) + "%");
      return button;
    }

    /** The last norm or pooling, and the answers that are likeliest. */
    end(step) {
      const { run } = this.page;
      const best = Headway.top(step.probabilities, SHOWN).flatMap(([id, share]) => [
        make("span", { class: "other" }, PageTasks.answerName(run, id)), PageDraw.rod(share), make("span", { class: "share" }, percent(share)),
      ]);
      const [read, name] = run.model.pooling ? ["pooling", "pooling"] : ["norm", "final norm"];
      const logits = make("div", { class: "unit" }, this.part("logits", "logits"), make("div", { class: "odds" }, ...best));
      return [this.unit(read, [this.part(name, read === "norm" ? "LN" : "pool")]), arrow(), logits];
    }

    choose(name) {
      this.chosen = this.chosen === name ? null : name;
      this.show();
      [...this.element.querySelectorAll("button")].find((one) => one.getAttribute("aria-label").split(",")[0] === name)?.focus({ preventScroll: true });
    }

    // One part in numbers

    tell() {
      if (!this.chosen) return this.detail.replaceChildren();
      const { run } = this.page;
      const isHead = PageState.headsOf(run).includes(this.chosen);
      const words = isHead ? this.headWords() : this.chosen.endsWith(".mlp") ? this.mlpWords() : this.otherWords();
      const open = isHead && make("button", { type: "button", onclick: () => this.page.look(this.chosen) }, "Enlarge its map");
      const toggle = isHead && make("button", { type: "button", onclick: () => this.page.toggle(this.chosen) }, this.page.state.off.includes(this.chosen) ? "Switch on" : "Switch off");
      const buttons = isHead ? make("div", { class: "buttons" }, open, toggle) : null;
      this.detail.replaceChildren(make("h3", {}, this.chosen), make("ol", {}, ...words.map((text) => make("li", {}, text))), ...(buttons ? [buttons] : []));
    }

    headWords() {
      const { engine, run, state, result } = this.page;
      const head = this.chosen;
      const map = PageHeads.mapOf({ ...this.proxy(), state: { ...state, view: "attention" } }, head);
      const row = Math.min(this.rowIn(this.blockOf(head)), map.queries.length - 1);
      const weights = map.keys.map((name, key) => [name, map.weights[row * map.keys.length + key]]).sort((one, other) => other[1] - one[1]).slice(0, 3);
      const size = run.model.d_head;
      const output = length(rowOf(result.outputs[head], row, size));
      const off = state.off.includes(head) ? ` It is switched off: ${state.fill === "zero" ? "zeros stand" : "its mean output stands"} in its place.` : "";
      return [
        `The query of ${map.queries[row]} is compared with ${map.keys.length} keys: products of ${size} numbers each, divided by √${size}, plus what the positional encoding adds.`,
        `A softmax makes weights of them, which sum to 1: ${weights.map(([name, weight]) => `${name} ${weight.toFixed(2)}`).join(", ")}${map.keys.length > 3 ? ", …" : ""}.`,
        `The values of those tokens, averaged with these weights, are the head’s output: ${size} numbers of length ${output.toFixed(2)}.${off}`,
        `The output projection makes ${engine.width} numbers of them, of length ${this.lengths.get(head).toFixed(2)}, which are added to the stream.${this.directWords(head)}`,
      ];
    }

    /** The page without the token that is pointed at, which a map would be cut down to. */
    proxy() {
      const { run, source, result, whole } = this.page;
      return { run, source, result, whole, token: null };
    }

    /** What a part writes directly into the margin of this step, where that is defined. */
    directWords(part) {
      const found = this.page.direct.split();
      const own = found?.parts.find((one) => one.part === part);
      if (!own) return "";
      const [right, other] = [found.own, found.other].map((id) => PageTasks.tokenName(this.page.run, id));
      return ` Directly it moves the logit of ${right} less ${other} by ${signed(own.value, 2)}, of ${signed(found.total, 2)} in all.`;
    }

    mlpWords() {
      const { model } = this.page.run;
      return [
        `Each token’s ${model.d_model} numbers are multiplied out to ${model.d_ff}, passed through ${model.activation}, and multiplied back to ${model.d_model}; no token sees another here.`,
        `What it adds to the stream has length ${this.lengths.get(this.chosen).toFixed(2)}.${this.directWords(this.chosen)}`,
      ];
    }

    otherWords() {
      const { run, result } = this.page;
      const { model } = run;
      if (this.chosen === "logits") {
        const step = result.steps[PageLogits.marginOf(this.page).step];
        const best = Headway.top(step.probabilities, SHOWN).map(([id]) => `${PageTasks.answerName(run, id)} ${step.logits[id].toFixed(2)}`);
        return [`${step.logits.length} logits, one for each answer; the largest: ${best.join(", ")}.`, "A softmax makes probabilities of them; the largest logit is what the model answers."];
      }
      if (this.chosen === "pooling") return [`The tokens’ vectors become one (pooling: ${model.pooling.features.join(", ")}), which a linear map turns into logits.`];
      if (this.chosen === "final norm") return ["The stream is shifted and scaled to mean 0 and deviation 1, and a linear map turns it into logits."];
      return [`Each token is looked up in a table of ${run.vocabulary.tokens.length} rows of ${model.d_model} numbers.`, "The positional encoding adds to it, or acts on queries, keys or scores in every layer."];
    }
  }

  const arrow = () => make("span", { class: "arrow", "aria-hidden": "true" }, "→");

  return { Flow };
})();
