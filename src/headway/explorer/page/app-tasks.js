"use strict";
// What the page knows of a task: reading what was typed, the right answer, and names of tokens. No model, no document.
const PageTasks = (() => {
  /**
   * What was typed, read: either a source for the model, or one sentence that says what is wrong.
   * @typedef {{source: number[], text: string, note: string}} Read
   * @typedef {{problem: string}} Refused
   */
  const SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyz";
  const LONGEST_QUOTE = 12;
  const SHORTEST_LIMIT = 4000;

  const quote = (text) => {
    const letters = [...text];
    return "“" + (letters.length > LONGEST_QUOTE ? letters.slice(0, LONGEST_QUOTE).join("") + "…" : text) + "”";
  };
  // How a task is shown and judged it says itself: run.task.page, from Task.page().
  const isSum = (run) => run.task.page.view === "sum";
  const isBars = (run) => run.task.page.view === "bars";
  /** Whether the model writes an answer token by token; else it chooses a class. */
  const writes = (run) => run.task.kind === "sequence";
  /** Whether a question can be typed; else only the stored examples can be asked. */
  const canType = (run) => isSum(run) || Boolean(run.task.page.values);
  /** A sum whose numbers all have one width, filled up with zeros. */
  const isPadded = (run) => Boolean(run.task.page.digits);
  const baseOf = (run) => run.task.page.base;
  /** What stands between two digits: a space where one digit takes several characters. */
  const gapOf = (run) => (baseOf(run) > SYMBOLS.length ? " " : "");
  /** Whether the model reads its operands most significant digit first; a person types them so in any case. */
  const areOperandsFalling = (run) => run.task.page.operands_falling;
  const isFalling = (run) => run.task.page.falling;

  // Sums

  /** A sum that this model can be asked, for messages. */
  const exampleOf = (run) => showSource(run, run.examples[0].source);

  /** The most digits an operand may have. */
  const mostDigits = (run) => run.task.page.digits ?? Math.floor((run.task.longest - 6) / 2);

  const wrongSymbol = (run, text) => {
    const base = baseOf(run);
    const allowed = base > SYMBOLS.length ? SYMBOLS.slice(0, 10) + " " : SYMBOLS.slice(0, base);
    return [...text.toLowerCase()].find((letter) => !allowed.includes(letter));
  };

  /** The one sentence about a text that is no sum; null if its two sides can be read. */
  const complaintAboutSum = (run, text, sides) => {
    const like = `type a sum such as ${exampleOf(run)}.`;
    if (!text) return "Nothing was typed: " + like;
    if (/[-−–]\s*\d/.test(text)) return "Numbers have no sign here: " + like;
    if (/\d[.,]\d/.test(text)) return "Whole numbers only: " + like;
    const strange = wrongSymbol(run, text.replace(/[+\s]/g, ""));
    if (strange) return `${quote(strange)} is not a digit${baseOf(run) === 10 ? "" : " in base " + baseOf(run)}: ${like}`;
    if (sides.length !== 2) return (sides.length < 2 ? "There is no +: " : "One + only: ") + like;
    if (sides.some((side) => !side)) return "A number is missing beside the +: " + like;
    if (baseOf(run) <= SYMBOLS.length && sides.some((side) => /\s/.test(side))) return "No spaces within a number: " + like;
    return null;
  };

  const digitsOf = (run, side) =>
    baseOf(run) > SYMBOLS.length ? side.split(/\s+/).map(Number) : [...side.toLowerCase()].map((letter) => SYMBOLS.indexOf(letter));

  const complaintAboutDigits = (run, operands) => {
    const most = mostDigits(run);
    const which = operands.findIndex((digits) => digits.length > most);
    const name = which ? "second" : "first";
    if (which >= 0) return `The ${name} number has ${operands[which].length} digits; this model takes ${most} at most.`;
    const base = baseOf(run);
    const large = operands.flat().find((digit) => digit >= base);
    if (large !== undefined) return `${large} is not a digit in base ${base}.`;
    if (!isPadded(run) && operands.some((digits) => digits.length > 1 && digits[0] === 0))
      return "A number does not begin with 0 here, unless it is 0.";
    return null;
  };

  /** Numbers as the task writes them: padded to its width, or as text with its spaces. */
  const encodeSum = (run, operands) => {
    const ids = new Map(run.vocabulary.tokens.map((token, id) => [token, id]));
    if (!isPadded(run)) {
      const [a, b] = operands.map((digits) => (areOperandsFalling(run) ? digits : [...digits].reverse()).join(""));
      return [...`${a} + ${b} = `].map((letter) => ids.get(letter));
    }
    const width = run.task.page.digits;
    const [a, b] = operands.map((digits) => [...Array(width - digits.length).fill(0), ...digits]);
    return [...a, ids.get("+"), ...b];
  };

  const noteAboutSum = (run, operands) => {
    if (!areOperandsFalling(run)) {
      const [a, b] = operands.map((digits) => [...digits].reverse().join(""));
      return `The model reads each number with its units first: ${a} + ${b}.`;
    }
    if (!isPadded(run) || run.task.page.leading_zeros) return "";
    const short = operands.some((digits) => digits.length < run.task.page.digits || digits[0] === 0);
    return short ? "Training had no number that begins with 0, so the answer may be wrong." : "";
  };

  const readSum = (run, typed) => {
    const text = typed.trim().replace(/\s*=\s*$/, "");
    const sides = text.split("+").map((side) => side.trim());
    const complaint = complaintAboutSum(run, text, sides);
    if (complaint) return { problem: complaint };
    const operands = sides.map((side) => digitsOf(run, side));
    const second = complaintAboutDigits(run, operands);
    if (second) return { problem: second };
    const source = encodeSum(run, operands);
    return { source, text: showSource(run, source), note: noteAboutSum(run, operands) };
  };

  /** The operands of a source, least significant digit first. */
  const operandsOf = (run, source) => {
    const base = baseOf(run);
    const groups = [[]];
    source.forEach((token) => (token < base ? groups.at(-1).push(token) : groups.at(-1).length && groups.push([])));
    const two = groups.filter((group) => group.length).slice(0, 2);
    return areOperandsFalling(run) ? two.map((group) => group.reverse()) : two;
  };

  /**
   * A sum in columns, as on paper; column 0 holds the units.
   * @returns {{operands: number[][], carries: number[], total: number[], columns: number}} carries[c] goes into column c
   */
  const workOut = (run, source) => {
    const base = baseOf(run);
    const operands = operandsOf(run, source);
    const width = Math.max(...operands.map((digits) => digits.length));
    const [carries, total] = [[0], []];
    for (let column = 0; column < width; column++) {
      const sum = (operands[0][column] || 0) + (operands[1][column] || 0) + carries[column];
      total.push(sum % base);
      carries.push(sum >= base ? 1 : 0);
    }
    if (isPadded(run) || carries[width]) total.push(carries[width]);
    return { operands, carries, total, columns: total.length };
  };

  /** The right answers that a task may name as its rule. */
  const RULES = {
    "same": (source, end) => [...source, end],
    "ascending": (source, end) => [...[...source].sort((one, other) => one - other), end],
    "is ascending": (source) => [isSorted(source) ? 1 : 0],
    "odd ones": (source) => [source.filter((value) => value === 1).length % 2],
  };

  const answersOf = new WeakMap();

  /** The oracle's answer to a stored example; null for any other question. */
  const storedAnswer = (run, source) => {
    if (!answersOf.has(run)) answersOf.set(run, new Map(run.examples.map((one) => [one.source.join(), [one.target].flat()])));
    return answersOf.get(run).get(source.join()) ?? null;
  };

  /** The right answer as the model should write it, with its end, or the right class; null where nobody stored it. */
  const rightAnswer = (run, source) => {
    const { rule } = run.task.page;
    if (!isSum(run)) return rule ? RULES[rule](source, run.vocabulary.eos) : storedAnswer(run, source);
    const { total } = workOut(run, source);
    return [...(isFalling(run) ? [...total].reverse() : total), run.vocabulary.eos];
  };

  /** Whether this is the right answer; null where the page does not know. */
  const isRight = (run, source, tokens) => {
    const right = rightAnswer(run, source);
    return right && right.length === tokens.length && right.every((id, index) => id === tokens[index]);
  };

  const UNJUDGED = "not judged: no answer is stored for this question";

  /** The column into which the step-th token is written. */
  const columnOfStep = (run, columns, step) => (isFalling(run) ? columns - 1 - step : step);

  const PLACES = ["units", "tens", "hundreds", "thousands"];

  /** How a column is called: the units, the tens; past them, and in other bases, by its number. */
  const columnName = (run, column) => (baseOf(run) === 10 && PLACES[column]) || `column ${column}`;

  // Sequences

  const isSorted = (values) => values.every((value, index) => index === 0 || values[index - 1] <= value);

  /** Places whose element is larger than the next. */
  const descents = (values) => values.flatMap((value, index) => (index + 1 < values.length && values[index + 1] < value ? [index] : []));

  const complaintAboutSequence = (run, words) => {
    const { values } = run.task.page;
    const like = `type numbers from 0 to ${values - 1} with spaces between, such as ${isBars(run) ? "2 7 31 90" : exampleOf(run)}.`;
    if (!words.length) return "Nothing was typed: " + like;
    const negative = words.find((word) => /^[-−–]\d+$/.test(word));
    if (negative) return `${quote(negative)} is below 0: ${like}`;
    const strange = words.find((word) => !/^\d+$/.test(word));
    if (strange !== undefined) return `${quote(strange)} is not a whole number: ${like}`;
    const large = words.find((word) => word.length > 9 || Number(word) >= values);
    if (large) return `${quote(large)} is too large: ${like}`;
    if (words.length < run.task.shortest)
      return isBars(run) ? "One element is always in order: type two or more." : `That is ${words.length} elements; at least ${run.task.shortest} needed.`;
    if (words.length > run.task.longest) return `That is ${words.length} elements; this page shows ${run.task.longest} at most.`;
    return null;
  };

  const readSequence = (run, typed) => {
    const words = typed.split(/[\s,;]+/).filter(Boolean);
    const problem = complaintAboutSequence(run, words);
    if (problem) return { problem };
    const source = words.map(Number);
    return { source, text: source.join(" "), note: run.task.page.rule ? "" : STORED_ONLY };
  };

  // Tokens

  const STORED_ONLY = "Answers are judged by the stored answers of the oracle, because the page does not know this task’s rule.";

  /** A question of a task that gives the page nothing to read it with: one of those that are stored. */
  const readStored = (run, typed) => {
    const plain = (text) => text.trim().replace(/\s+/g, " ");
    const pairs = (run.contrasts || []).flatMap((pair) => [pair.base, pair.patch_source]);
    const source = [...run.examples.map((one) => one.source), ...pairs].find((one) => plain(showSource(run, one)) === plain(typed));
    if (!source) return { problem: "No such example is stored, and this task has no form to type one in: press Another." };
    return { source, text: showSource(run, source), note: STORED_ONLY };
  };

  // Either

  /** The most characters that are read: never fewer than the page itself writes for its longest source. */
  const mostCharacters = (run) => {
    const widest = run.vocabulary.tokens.reduce((most, token) => Math.max(most, token.length), 0);
    return Math.max(SHORTEST_LIMIT, run.task.longest * (widest + 1));
  };

  /** @returns {Read | Refused} */
  const read = (run, typed) => {
    if (typed.length > SHORTEST_LIMIT && typed.length > mostCharacters(run))
      return { problem: `That is ${typed.length} characters; ${mostCharacters(run)} at most.` };
    return isSum(run) ? readSum(run, typed) : canType(run) ? readSequence(run, typed) : readStored(run, typed);
  };

  const showSource = (run, source) => {
    if (!isSum(run)) return source.map((id) => tokenName(run, id)).join(" ");
    const text = (ids) => ids.map((id) => run.vocabulary.tokens[id]).join(gapOf(run));
    const [a, b] = operandsOf(run, source).map((digits) => text(digits.reverse()));
    return `${a} + ${b}`;
  };

  /** How a token is called on the page. */
  const tokenName = (run, id) => {
    if (id === run.vocabulary.eos) return "end";
    if (id === run.vocabulary.bos) return "start";
    const token = run.vocabulary.tokens[id];
    return token === " " ? "␣" : token;
  };

  /** The names of the answers that a step chooses among. */
  const answerName = (run, id) => (writes(run) ? tokenName(run, id) : run.task.class_names[id]);

  /** A whole answer as a person reads it, without its end. */
  const written = (run, tokens) => {
    if (!writes(run)) return answerName(run, tokens[0]);
    const found = tokens.filter((id) => id !== run.vocabulary.eos);
    if (!isSum(run)) return found.map((id) => tokenName(run, id)).join(" ");
    return (isFalling(run) ? found : [...found].reverse()).map((id) => tokenName(run, id)).join(gapOf(run));
  };

  /**
   * The tokens along both sides of a site's map: queries and keys. A query of cross-attention is named for the token that
   * it writes; in self-attention queries and keys are the same tokens, those that are read.
   */
  const axes = (run, site, source, tokens) => {
    const asked = source.map((id) => tokenName(run, id));
    if (site.kind === "encoder") return { queries: asked, keys: asked };
    const prefix = ["start", ...tokens.slice(0, -1).map((id) => tokenName(run, id))];
    if (site.kind === "cross") return { queries: tokens.map((id) => tokenName(run, id)), keys: asked };
    const all = run.model.shape === "decoder" ? [...asked, ...prefix] : prefix;
    return { queries: all, keys: all };
  };

  /** The row of a site's map that belongs to a step of decoding; null for the encoder, which has no steps. */
  const rowOfStep = (run, site, source, step) => {
    if (site.kind === "encoder") return null;
    return run.model.shape === "decoder" ? source.length + step : step;
  };

  /**
   * Where a token stands in a site's map: its row, where it is a query, else its column; null where it is neither. A token
   * of the answer is the query that writes it.
   * @param {{side: "source" | "answer", index: number}} token
   */
  const placeOfToken = (run, site, source, { side, index }) => {
    const joined = run.model.shape === "decoder";
    if (site.kind === "encoder") return side === "source" ? { row: index, column: null } : null;
    if (side === "answer") return { row: joined ? source.length + index : index, column: null };
    if (site.kind === "cross") return { row: null, column: index };
    return joined ? { row: index, column: null } : null;
  };

  /** Logit of the right token, or of the model's own where the right one is not known, less the best other one. */
  const marginOf = (step, right) => {
    const own = right ?? step.token;
    let other = own === 0 ? 1 : 0;
    step.logits.forEach((logit, id) => id !== own && logit > step.logits[other] && (other = id));
    return { own, other, value: step.logits[own] - step.logits[other] };
  };

  return {
    placeOfToken, marginOf, read, showSource, exampleOf, rightAnswer, isRight, UNJUDGED, workOut, gapOf, columnOfStep, columnName, isSum, isBars, isPadded,
    writes, canType, isFalling, isSorted, descents, tokenName, answerName, written, axes, rowOfStep,
  };
})();
