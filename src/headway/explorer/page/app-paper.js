"use strict";
// A sum on paper with its carries, or the tokens of another question, and the steps in which the model writes its answer.
const PagePaper = (() => {
  const { make, percent } = PageDraw;
  const MOST_STEPS = 12;
  const SHOWN_ANSWERS = 5;
  const WIDEST = 9;

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

  const columnCells = (run, cell, place, options) => {
    const name = (id) => PageTasks.tokenName(run, id);
    const here = cell.step === options.step ? " column" : "";
    const waiting = cell.written === null;
    const answer = ["answer", cell.wrong && "wrong", waiting && "waiting", options.moved?.has(cell.step) && "moved"];
    const put_ = (row, classes, text) => put(row, place, classes + here, text);
    return [
      put_(1, "carry", cell.carry ? "1" : ""),
      ...cell.digits.map((digit, row) => put_(2 + row, "digit", digit === undefined ? "" : name(digit))),
      put(4, place, "rule", ""),
      put_(5, answer.filter(Boolean).join(" "), waiting ? "·" : inColumn(run, cell.written)),
      put(6, place, "correction", cell.wrong ? (options.narrow ? "" : "✗ ") + name(cell.right) : ""),
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
    const isWrong = (id, index) => right !== null && id !== right[index];
    const classes = (id, index) => [isWrong(id, index) && "wrong", moved?.has(index) && "moved", index === step && "column"];
    const wrote = tokens.slice(0, shown).map((id, index) => chip(run, id, classes(id, index).filter(Boolean).join(" ")));
    const told = wrote.length ? [chipsOf("wrote", wrote)] : [];
    if (shown >= tokens.length && PageTasks.isRight(run, source, tokens) === false && tokens.length)
      told.push(chipsOf("right", right.map((id) => chip(run, id))));
    element.classList.add("tokens");
    const names = tokens.slice(0, shown).map((id) => PageTasks.tokenName(run, id));
    element.setAttribute("aria-label", `${PageTasks.showSource(run, source)}. The model wrote: ${names.join(", ") || "nothing yet"}.`);
    element.replaceChildren(askedLine(run, source), ...told);
  };

  /**
   * Draw a question into an element: a sum with carries above the columns, and below the line what the model wrote.
   * @param {{step?: number | null, shown?: number, moved?: Set<number>}} options
   */
  const draw = (element, run, source, tokens, options = {}) => {
    if (!PageTasks.isSum(run)) return drawTokens(element, run, source, tokens, options);
    element.classList.remove("tokens");
    const cells = cellsOf(run, source, tokens, options.shown ?? Infinity);
    options = { ...options, narrow: cells.length > WIDEST };
    element.classList.toggle("narrow", options.narrow);
    element.classList.toggle("double", PageTasks.gapOf(run) !== "");
    element.setAttribute("aria-label", inWords(run, source, cells));
    const sign = [put(3, 1, "digit", "+"), put(4, 1, "rule", "")];
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
    return PageTasks.isSum(run) ? `the ${name} digit` : name;
  };

  const odds = (run, probabilities, right, before) =>
    Headway.top(probabilities, SHOWN_ANSWERS).flatMap(([id, share], rank) => {
      const name = PageTasks.answerName(run, id) + (id === right && rank ? "✓" : "");
      return [
        make("span", { class: rank ? "other" : "name" }, name), PageDraw.rod(share, before?.[id]),
        make("span", { class: "share" }, percent(share)),
      ];
    });

  /** A view of an answer that is written: paper or tokens, verdict and steps. */
  class Sum {
    constructor(page) {
      this.page = page;
      const at = (id) => document.getElementById(id);
      [this.paper, this.verdict, this.steps, this.words] = ["paper", "verdict", "steps", "step-words"].map(at);
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
      const { run, source, result } = this.page;
      const wrong = right !== null && one.token !== right[index];
      const mark = make("span", { class: wrong ? "wrong" : "" }, right === null ? "" : wrong ? "✗" : "✓");
      const title = make("span", { class: "title" }, `${index + 1} · ${nameOfStep(run, source, index)}`, mark);
      const button = make(
        "button",
        {
          type: "button", "aria-current": index === step ? "step" : null, class: index < shown ? "" : "later",
          onclick: () => this.go(index),
        },
        title, make("span", { class: "odds" }, ...odds(run, one.probabilities, right?.[index], this.page.whole?.steps[index]?.probabilities))
      );
      return make("li", { "data-step": index }, button);
    }
  }

  return { Sum, draw, askedLine, verdictOf, tokenOfStep };
})();
