"use strict";
// A sum on paper with its carries, or the tokens of another question, and the steps in which the model writes its answer.
const PagePaper = (() => {
  const { make, makeSvg, percent, signed } = PageDraw;
  const MOST_STEPS = 12;
  const SHOWN_ANSWERS = 3;
  const WIDEST = 6;
  const LEAST_ARC = 0.15;

  /** What stands where on paper, column by column from the left. */
  const cellsOf = (run, source, tokens, shown) => {
    const { operands, carries, total, columns } = PageTasks.workOut(run, source);
    const right = PageTasks.rightAnswer(run, source);
    return Array.from({ length: columns }, (_, index) => {
      const column = columns - 1 - index;
      const step = PageTasks.isFalling(run) ? index : column;
      const written = step < Math.min(shown, tokens.length) ? tokens[step] : null;
      return {
        column, step, carry: column > 0 && carries[column], digits: operands.map((digits) => digits[column]), written,
        wrong: written !== null && written !== right[step], right: total[column],
      };
    });
  };

  /** A token in a column of one digit's width; a box stands for what is no digit. */
  const inColumn = (run, id) => {
    const name = PageTasks.tokenName(run, id);
    return id === run.vocabulary.eos ? "∎" : name.length > 2 ? "□" : name;
  };

  const put = (row, column, classes, text) => {
    const cell = make("span", { class: classes }, text);
    [cell.style.gridRow, cell.style.gridColumn] = [String(row), String(column)];
    return cell;
  };

  /** What a token that a patch changed is called: as in the source, or neither that nor as before; "" for the others. */
  const movedClass = (moved, step) => (moved?.has(step) ? "moved " + moved.get(step) : "");

  const columnCells = (run, cell, place, options) => {
    const name = (id) => PageTasks.tokenName(run, id);
    const here = cell.step === options.step ? " column" : "";
    const waiting = cell.written === null;
    const wrong = cell.wrong && !options.moved;
    const answer = ["answer", wrong && "wrong", waiting && "waiting", movedClass(options.moved, cell.step)];
    const put_ = (row, classes, text) => put(row, place, classes + here, text);
    const digit = (id, row) => {
      const made = put_(2 + row, "digit", id === undefined ? "" : name(id));
      made.dataset.digit = `${row}/${cell.column}`;
      return made;
    };
    const written = put_(5, answer.filter(Boolean).join(" "), waiting ? "·" : inColumn(run, cell.written));
    written.dataset.step = cell.step;
    return [
      put_(1, "carry", cell.carry ? "1" : ""), ...cell.digits.map(digit), put(4, place, "rule", ""), written,
      put(6, place, "correction", wrong ? (options.narrow ? "" : "✗ ") + name(cell.right) : ""),
    ];
  };

  /** What the model wrote past the last column: nothing, if it knew when to end. */
  const extraCells = (run, tokens, columns, shown) => {
    const extra = tokens.slice(columns, Math.min(shown, tokens.length)).filter((id, index) => index || id !== run.vocabulary.eos);
    const place = (index) => (PageTasks.isFalling(run) ? columns + 2 + index : 1 + extra.length - index);
    return extra.flatMap((id, index) => [
      put(5, place(index), "answer wrong", inColumn(run, id)), put(6, place(index), "correction", "✗"),
    ]);
  };

  const inWords = (run, source, cells) => {
    const carried = cells.filter((cell) => cell.carry).map((cell) => PageTasks.columnName(run, cell.column));
    const wrote = cells.map((cell) => (cell.written === null ? "nothing yet" : PageTasks.tokenName(run, cell.written)));
    const sum = PageTasks.showSource(run, source);
    return `${sum}. Carries into: ${carried.join(", ") || "none"}. The model wrote, from the left: ${wrote.join(", ")}.`;
  };

  // Tokens

  const chipsOf = (name, chips) => make("div", { class: "chips" }, make("span", { class: "label" }, name), ...chips);
  const chip = (run, id, classes = "") => make("span", { class: "chip-token " + classes }, PageTasks.tokenName(run, id));

  /** The question as a line of tokens. */
  const askedLine = (run, source) => chipsOf("asked", source.map((id) => chip(run, id)));

  /** Draw a question into an element as its tokens, those that the model wrote, and the right ones where they differ. */
  const drawTokens = (element, run, source, tokens, { step = null, shown = Infinity, moved }) => {
    const right = PageTasks.rightAnswer(run, source);
    const isWrong = (id, index) => !moved && right !== null && id !== right[index];
    const classes = (id, index) => [isWrong(id, index) && "wrong", movedClass(moved, index), index === step && "column"];
    const wrote = tokens.slice(0, shown).map((id, index) => chip(run, id, classes(id, index).filter(Boolean).join(" ")));
    const told = wrote.length ? [chipsOf("wrote", wrote)] : [];
    if (!moved && shown >= tokens.length && PageTasks.isRight(run, source, tokens) === false && tokens.length)
      told.push(chipsOf("right", right.map((id) => chip(run, id))));
    element.classList.add("tokens");
    const names = tokens.slice(0, shown).map((id) => PageTasks.tokenName(run, id));
    element.setAttribute("aria-label", `${PageTasks.showSource(run, source)}. The model wrote: ${names.join(", ") || "nothing yet"}.`);
    element.replaceChildren(askedLine(run, source), ...told);
  };

  /**
   * Draw a question into an element: a sum with carries above the columns, and below the line what the model wrote.
   * @param {{step?: number | null, shown?: number, moved?: Map<number, "source" | "other">}} options
   *   moved: the tokens that a patch changed; an answer that was patched is not judged.
   */
  const draw = (element, run, source, tokens, options = {}) => {
    if (!PageTasks.isSum(run)) return drawTokens(element, run, source, tokens, options);
    element.classList.remove("tokens");
    const cells = cellsOf(run, source, tokens, options.shown ?? Infinity);
    options = { ...options, narrow: cells.length > WIDEST };
    element.classList.toggle("narrow", options.narrow);
    element.classList.toggle("double", PageTasks.gapOf(run) !== "");
    element.setAttribute("aria-label", inWords(run, source, cells));
    const sign = [put(3, 1, "digit plus", "+"), put(4, 1, "rule", "")];
    const extra = extraCells(run, tokens, cells.length, options.shown ?? Infinity);
    const first = PageTasks.isFalling(run) ? 2 : 2 + extra.length / 2;
    element.replaceChildren(...sign, ...cells.flatMap((cell, index) => columnCells(run, cell, index + first, options)), ...extra);
  };

  /** Whether the answer is right, in words and with a mark. */
  const verdictOf = (run, source, tokens) => {
    const right = PageTasks.isRight(run, source, tokens);
    if (right === null) return { kind: "", text: PageTasks.UNJUDGED };
    if (right) return { kind: "right", text: "✓ right" };
    return { kind: "wrong", text: `✗ wrong: ${PageTasks.written(run, PageTasks.rightAnswer(run, source))} is right` };
  };

  // Arcs on paper

  /** The cell of each token of the source, in its order; null for one that stands nowhere on paper. */
  const sourceCells = (element, run, source) => {
    const { operands } = PageTasks.workOut(run, source);
    let [operand, index, before] = [-1, 0, false];
    return source.map((id) => {
      const isDigit = id < run.task.page.base;
      if (isDigit && !before) [operand, index] = [operand + 1, 0];
      before = isDigit;
      if (!isDigit) return PageTasks.tokenName(run, id) === "+" ? element.querySelector(".plus") : null;
      const column = run.task.page.operands_falling ? operands[operand].length - 1 - index : index;
      index += 1;
      return element.querySelector(`[data-digit="${operand}/${column}"]`);
    });
  };

  /** The cells of a map's queries and keys on paper: a token of the answer is where it is written. */
  const cellsOfMap = (element, run, site, source, tokens) => {
    const asked = sourceCells(element, run, source);
    if (site.kind === "encoder") return { queries: asked, keys: asked };
    const wrote = tokens.map((_, step) => element.querySelector(`[data-step="${step}"]`));
    if (site.kind === "cross") return { queries: wrote, keys: asked };
    const read = [null, ...wrote.slice(0, -1)];
    return run.model.shape === "decoder" ? { queries: [...asked, ...wrote], keys: [...asked, ...read] } : { queries: wrote, keys: read };
  };

  /** Draw the attention of one head over the sum: an arc from each token to those it looks at, as thick as the weight. */
  const drawArcs = (drawing, element, page) => {
    const { run, source, result, state } = page;
    drawing.replaceChildren();
    const map = state.head && PageTasks.isSum(run) && !element.classList.contains("narrow") && PageHeads.mapOf(page, state.head);
    if (!map) return;
    const { queries, keys } = cellsOfMap(element, run, PageHeads.siteOf(run, state.head), source, result.tokens);
    const frame = drawing.parentElement.getBoundingClientRect();
    const centre = (cell) => {
      const box = cell.getBoundingClientRect();
      return [box.left - frame.left + box.width / 2, box.top - frame.top + box.height / 2];
    };
    const only = map.only?.row ?? map.row;
    for (let query = 0; query < map.shown; query++)
      for (let key = 0; key < keys.length; key++) {
        const weight = Math.abs(map.weights[query * keys.length + key]);
        if (weight < LEAST_ARC || !queries[query] || !keys[key] || queries[query] === keys[key]) continue;
        if ((only !== null && only !== query) || ((map.only?.column ?? key) !== key)) continue;
        const [[x, y], [to, down]] = [centre(queries[query]), centre(keys[key])];
        const bend = 0.18 * Math.hypot(to - x, down - y) + 6;
        const d = `M${x} ${y} Q${(x + to) / 2 + bend} ${(y + down) / 2 - bend / 3} ${to} ${down}`;
        drawing.append(makeSvg("path", { d, "stroke-width": (0.6 + 3.4 * weight).toFixed(2), opacity: (0.15 + 0.5 * weight).toFixed(2) }));
      }
    drawing.classList.toggle("lit", state.off.includes(state.head));
  };

  // Steps

  const nameOfStep = (run, source, step) => {
    if (!PageTasks.isSum(run)) return run.task.answer_names[step] ?? `token ${step}`;
    const { columns } = PageTasks.workOut(run, source);
    if (step >= columns) return step === columns ? "end" : "after the end";
    return PageTasks.columnName(run, PageTasks.columnOfStep(run, columns, step));
  };

  /** The token of a step within a sentence: the tens digit, token 3. */
  const tokenOfStep = (run, source, step) => {
    const name = nameOfStep(run, source, step);
    return PageTasks.isSum(run) ? (name.includes("end") ? `the ${name}` : `the ${name} digit`) : name;
  };

  const odds = (run, probabilities, right, before) =>
    Headway.top(probabilities, SHOWN_ANSWERS).flatMap(([id, share], rank) => {
      const name = PageTasks.answerName(run, id) + (id === right && rank ? "✓" : "");
      return [
        make("span", { class: rank ? "other" : "name" }, name), PageDraw.rod(share, before?.[id]),
        make("span", { class: "share" }, percent(share)),
      ];
    });

  const MARGIN = "Logit of the right token less that of the best other one; in brackets, with all heads on";

  /** The logit difference of a step in words: of the right token and the best other one, and what it was with all heads. */
  const marginWords = (run, step, right, before) => {
    const { own, other, value } = PageTasks.marginOf(step, right);
    const was = before ? ` (${signed(before.logits[own] - before.logits[other])})` : "";
    return `logit ${PageTasks.answerName(run, own)}−${PageTasks.answerName(run, other)}: ${signed(value)}${was}`;
  };

  /** A view of an answer that is written: paper or tokens, verdict and steps. */
  class Sum {
    constructor(page) {
      this.page = page;
      const at = (id) => document.getElementById(id);
      [this.paper, this.verdict, this.steps, this.words, this.arcs] = ["paper", "verdict", "steps", "step-words", "arcs"].map(at);
      at("first-step").addEventListener("click", () => this.go(0));
      at("back-step").addEventListener("click", () => this.move(-1));
      at("next-step").addEventListener("click", () => this.move(1));
      at("last-step").addEventListener("click", () => this.go(null));
    }

    go(step) {
      this.page.go({ step });
    }

    /** One step on or back; past the last one is the whole answer. */
    move(by) {
      if (!this.isAnswered()) return;
      const last = this.page.result.tokens.length - 1;
      const { step } = this.page.state;
      if (step === null) return by < 0 ? this.go(last) : undefined;
      this.go(step + by > last ? null : Math.max(0, step + by));
    }

    isAnswered() {
      return this.page.result && !this.page.result.stale;
    }

    /** The question without an answer: a long one is still being answered. */
    wait() {
      const { run, source } = this.page;
      draw(this.paper, run, source, []);
      [this.verdict.className, this.verdict.textContent, this.words.textContent] = ["verdict", "", "answering…"];
      this.steps.replaceChildren();
      this.arcs.replaceChildren();
    }

    /** The arcs of the head that is looked at, once the paper is laid out. */
    drawArcs() {
      if (PageTasks.isSum(this.page.run) && this.isAnswered()) drawArcs(this.arcs, this.paper, this.page);
      else this.arcs.replaceChildren();
    }

    show() {
      if (!this.isAnswered()) return this.wait();
      const { run, source, result, state } = this.page;
      const step = state.step === null ? null : Math.min(state.step, result.tokens.length - 1);
      const shown = step === null ? Infinity : step + 1;
      draw(this.paper, run, source, result.tokens, { step, shown });
      const verdict = verdictOf(run, source, result.tokens);
      this.verdict.className = "verdict " + (step === null ? verdict.kind : "");
      this.verdict.textContent = step === null ? verdict.text : "";
      this.words.textContent = step === null ? "the whole answer" : `step ${step + 1} of ${result.tokens.length}`;
      this.showSteps(step, shown);
      this.drawArcs();
    }

    showSteps(step, shown) {
      const { run, source, result } = this.page;
      const right = PageTasks.rightAnswer(run, source);
      const first = Math.max(0, Math.min((step ?? result.steps.length) - MOST_STEPS / 2, result.steps.length - MOST_STEPS));
      const kept = document.activeElement?.closest?.("#steps li")?.dataset.step;
      const cards = result.steps.slice(first, first + MOST_STEPS).map((one, offset) => this.card(one, first + offset, step, shown, right));
      this.steps.replaceChildren(...cards);
      if (kept !== undefined) this.steps.querySelector(`li[data-step="${kept}"] button`)?.focus();
    }

    card(one, index, step, shown, right) {
      const { run, source } = this.page;
      const wrong = right !== null && one.token !== right[index];
      const mark = make("span", { class: wrong ? "wrong" : "" }, right === null ? "" : wrong ? "✗" : "✓");
      const title = make("span", { class: "title" }, `${index + 1} · ${nameOfStep(run, source, index)}`, mark);
      const button = make(
        "button",
        {
          type: "button", "aria-current": index === step ? "step" : null, class: index < shown ? "" : "later",
          onclick: () => this.go(index),
        },
        title, make("span", { class: "odds" }, ...odds(run, one.probabilities, right?.[index], this.page.whole?.steps[index]?.probabilities)),
        make("span", { class: "margin", title: MARGIN }, marginWords(run, one, right?.[index], this.page.whole?.steps[index]))
      );
      return make("li", { "data-step": index }, button);
    }
  }

  return { Sum, draw, askedLine, verdictOf, tokenOfStep, marginWords, WIDEST };
})();
