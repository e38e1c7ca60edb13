"use strict";
/**
 * Many passes without holding up the page: workers made from the engine's own text, fed one small piece at a time.
 *
 * A job is a list of pieces. Each worker asks for the next one, so pieces of all sizes share the cores well, the page
 * hears of every piece that is done, and a cancelled job leaves nothing behind but the piece in hand. Where the
 * browser makes no workers, the same pieces are worked off on the page's own thread, with pauses between them.
 */
Headway.pool = (() => {
  const MOST_WORKERS = 4;
  const TOKENS_A_PIECE = 256;
  /** Large enough for products of matrices, small enough to count up smoothly and to stop soon. */
  const MOST_KEPT = 16384;
  /** Source tokens of all examples up to which workers keep what they computed for the next count. */

  // What happens inside a worker

  /** Answers one message after another; models and what they computed before stay between messages. */
  function makeHandler() {
    const engines = new Map(), memos = new Map();
    const actions = {
      open: ({ engine, run, tensors }) => void engines.set(engine, new Headway.model.Engine(run, tensors)),
      score: ({ engine, piece, examples, options, keep }) => {
        const key = `${engine}/${piece}`, memo = memos.get(key) ?? { streams: [] };
        if (keep) memos.set(key, memo);
        return Headway.passes.verdicts(engines.get(engine), examples, options, memo);
      },
      answer: ({ engine, source, options, brief }) => {
        const found = engines.get(engine).answer(source, options);
        return brief ? { tokens: found.tokens, steps: found.steps } : found;
      },
    };
    return (message) => actions[message.action](message);
  }

  function answerMessage(handle, message) {
    try {
      return { task: message.task, result: handle(message) };
    } catch (error) {
      return { task: message.task, error: String(error.message ?? error) };
    }
  }

  /** Called in a worker, whose global scope is `scope`. */
  function serve(scope) {
    const handle = makeHandler();
    scope.onmessage = (event) => scope.postMessage(answerMessage(handle, event.data));
  }

  /** The page's own thread in place of a worker. */
  function localWorker() {
    const handle = makeHandler(), worker = { onmessage: null, onerror: null, terminate() {} };
    worker.postMessage = (message) =>
      setTimeout(() => worker.onmessage({ data: answerMessage(handle, message) }), 0);
    return worker;
  }

  function blobWorker(text) {
    const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    try {
      return new Worker(address);
    } finally {
      URL.revokeObjectURL(address);
    }
  }

  // What happens on the page

  let engineCount = 0;
  const numbers = new WeakMap();

  /** A number for each engine, by which workers know it. */
  function numberOf(engine) {
    if (!numbers.has(engine)) numbers.set(engine, ++engineCount);
    return numbers.get(engine);
  }

  class Pool {
    constructor(text, size) {
      this.text = text;
      this.size = size;
      this.workers = [];
      this.queue = [];
      this.taskCount = 0;
    }

    /** One more message to answer; `urgent` ones come first. */
    submit(engine, message, job, urgent = false) {
      return new Promise((resolve, reject) => {
        const task = { engine, message, job, resolve, reject, number: ++this.taskCount };
        if (urgent) this.queue.unshift(task);
        else this.queue.push(task);
        this.feed();
      });
    }

    drop(job) {
      this.queue = this.queue.filter((task) => task.job !== job);
    }

    feed() {
      while (this.queue.length) {
        const free = this.workers.find((worker) => !worker.task) ?? this.hire();
        if (!free) return;
        this.give(free, this.queue.shift());
      }
    }

    hire() {
      if (this.workers.length >= this.size) return null;
      let worker = null, local = this.size === 1 && !this.text;
      if (!local) {
        try {
          worker = blobWorker(this.text);
        } catch {
          local = true;
        }
      }
      const place = { worker: null, task: null, known: new Set(), spoke: local };
      this.workers.push(place);
      this.attach(place, worker ?? this.settleForPage());
      return place;
    }

    /** No workers here: one place, on the page's own thread. */
    settleForPage() {
      this.size = 1;
      this.text = null;
      return localWorker();
    }

    attach(place, worker) {
      place.worker = worker;
      worker.onmessage = (event) => this.receive(place, event.data);
      worker.onerror = (event) => {
        event.preventDefault?.();
        this.replace(place);
      };
    }

    /** A worker that never spoke was not allowed to start: its task goes to the page's own thread. */
    replace(place) {
      const { task } = place;
      place.worker.terminate();
      place.known.clear();
      place.task = null;
      if (place.spoke) {
        this.workers.splice(this.workers.indexOf(place), 1);
        if (task) task.reject(new Error("a worker stopped"));
      } else {
        place.spoke = true;
        this.attach(place, this.settleForPage());
        if (task) this.queue.unshift(task);
      }
      this.feed();
    }

    give(place, task) {
      const engine = numberOf(task.engine);
      place.task = task;
      if (!place.known.has(engine)) {
        const { weights, examples, analysis, contrasts, ...run } = task.engine.run;
        place.worker.postMessage({ action: "open", task: 0, engine, run, tensors: task.engine.tensors });
        place.known.add(engine);
      }
      place.worker.postMessage({ ...task.message, task: task.number, engine });
    }

    receive(place, { task: number, result, error }) {
      place.spoke = true;
      const { task } = place;
      if (!task || task.number !== number) return;
      place.task = null;
      if (error) task.reject(new Error(error));
      else task.resolve(result);
      this.feed();
    }

    /** How often the model is right on its run's examples; `progress({done, total, right})` as it counts up. */
    accuracy(engine, options = {}, progress = () => {}) {
      const { examples } = engine.run, total = examples.length, found = new Array(total).fill(null);
      const state = { done: 0, total, right: 0 }, job = { cancelled: false };
      const off = { off: options.off ?? {} };
      const keep = examples.reduce((sum, { source }) => sum + source.length, 0) <= MOST_KEPT;
      const parts = pieces(examples).map(async (indices, piece) => {
        const message = { action: "score", piece, examples: indices.map((i) => examples[i]), options: off, keep };
        const right = await this.submit(engine, message, job);
        if (job.cancelled) return;
        indices.forEach((i, place) => (found[i] = right[place]));
        state.done += indices.length;
        state.right += right.filter(Boolean).length;
        progress({ ...state });
      });
      return this.promise(job, parts, () => ({ ...state, verdicts: found, cancelled: job.cancelled }));
    }

    /** The answers to many sources; `progress({index, result})` for each one as it comes. */
    answers(engine, sources, options = {}, progress = () => {}) {
      const found = new Array(sources.length).fill(null), job = { cancelled: false };
      const parts = sources.map(async (source, index) => {
        const result = await this.submit(engine, { action: "answer", source, options, brief: true }, job);
        if (job.cancelled) return;
        found[index] = result;
        progress({ index, result });
      });
      return this.promise(job, parts, () => found);
    }

    /** One answer with its weights and outputs, before everything that waits. */
    answer(engine, source, options = {}) {
      const job = { cancelled: false };
      let found = null;
      const part = this.submit(engine, { action: "answer", source, options, brief: false }, job, true);
      return this.promise(job, [part.then((result) => (found = result))], () => found);
    }

    /** `promise` is kept when all parts are done or the job is cancelled, whichever comes first. */
    promise(job, parts, result) {
      let stop;
      const stopped = new Promise((resolve) => (stop = resolve));
      const cancel = () => {
        job.cancelled = true;
        this.drop(job);
        stop();
      };
      return { cancel, promise: Promise.race([Promise.all(parts), stopped]).then(result) };
    }
  }

  /** Indices of the examples in pieces of equal lengths. */
  function pieces(examples) {
    const groups = new Map();
    examples.forEach(({ source, target }, index) => {
      const lengths = [source.length, [target].flat().length], key = lengths.join("/");
      if (!groups.has(key)) groups.set(key, { tokens: lengths[0] + lengths[1], indices: [] });
      groups.get(key).indices.push(index);
    });
    const found = [];
    for (const { tokens, indices } of groups.values()) {
      const size = Math.max(1, Math.floor(TOKENS_A_PIECE / tokens));
      for (let at = 0; at < indices.length; at += size) found.push(indices.slice(at, at + size));
    }
    return found;
  }

  /** The pool of a page; its workers run the text of the script with the id "engine". `size` 0 makes none. */
  function make(size = Math.min(MOST_WORKERS, navigator.hardwareConcurrency || 2)) {
    const script = document.getElementById("engine");
    const text = script && size > 0 ? `${script.textContent}\nHeadway.pool.serve(self);` : null;
    return new Pool(text, Math.max(1, text ? size : 1));
  }

  return Object.assign(make, { serve });
})();
