"use strict";
// The page itself: one state, one model that answers it, and the views that show what it said.
(() => {
  const { make } = PageDraw;
  const LONG = 48;
  const WIDEST_SUM = 12;
  const at = (id) => document.getElementById(id);

  class Page {
    constructor(data) {
      this.data = data;
      this.runs = data.runs;
      this.engines = new Map();
      this.pool = Headway.pool();
      const { state, ignored } = PageState.fromFragment(this.runs, location.hash);
      this.history = new PageState.History(state);
      this.token = null; // the one that is pointed at
      this.sum = new PagePaper.Sum(this);
      this.sequence = new PageSequence.Sequence(this);
      this.direct = new PageLogits.Direct(this);
      this.strip = new PageTokens.Strip(this);
      this.flow = new PageFlow.Flow(this);
      this.show_ = new PageShow.Show(this);
      this.training = new PageTraining.Training(this);
      this.grid = new PageHeads.Grid(this);
      this.large = new PageHeads.Large(this);
      this.pins = new PageHeads.Pins(this);
      this.bar = new PageSwitches.Bar(this);
      this.patching = new PagePatch.Patching(this);
      this.tour = new PageTour.Tour(this);
      this.listen();
      this.update();
      this.sayIgnored(ignored);
    }

    get state() {
      return this.history.present;
    }
    get run() {
      return this.runs[this.state.run];
    }
    get engine() {
      return this.engineOf(this.run);
    }

    engineOf(run) {
      if (!this.engines.has(run)) this.engines.set(run, Headway.open(run));
      return this.engines.get(run);
    }

    /** What the model with all its heads answers, where some are off; null for long sequences, which take a while. */
    get whole() {
      const { state, source } = this;
      if (!state.off.length || source.length > LONG) return null;
      const key = JSON.stringify([state.run, state.input]);
      if (this.wholeFor !== key) [this.wholeFor, this.wholeKept] = [key, this.engine.answer(source, {})];
      return this.wholeKept;
    }

    /** What the model is asked with now. */
    options() {
      return { off: Object.fromEntries(this.state.off.map((head) => [head, this.state.fill])) };
    }

    // Changes

    /** Go to the present state with some of it changed. */
    go(change) {
      this.history.go({ ...this.state, ...change });
      this.update();
    }

    /** Another model; the question stays if that model can be asked it. */
    choose(index) {
      const first = PageState.initial(this.runs, index);
      const same = this.runs[index].task.name === this.run.task.name;
      const read = same ? PageTasks.read(this.runs[index], this.state.input) : { problem: "another task" };
      this.go(read.problem ? first : { ...first, input: read.text });
    }

    undo() {
      if (this.history.undo()) this.update();
    }

    redo() {
      if (this.history.redo()) this.update();
    }

    toggle(head) {
      const { off } = this.state;
      this.go({ off: off.includes(head) ? off.filter((one) => one !== head) : [...off, head] });
    }

    /** Switch some heads off; on again if they all are. */
    switchAll(heads) {
      const others = this.state.off.filter((head) => !heads.includes(head));
      this.go({ off: heads.every((head) => this.state.off.includes(head)) ? others : [...others, ...heads] });
    }

    look(head) {
      this.go({ head });
      const narrow = at("large").getBoundingClientRect().left < at("grid").getBoundingClientRect().right;
      if (narrow) at("large").scrollIntoView({ block: "start" });
    }

    pin(head) {
      const { pins } = this.state;
      if (pins.includes(head)) return this.go({ pins: pins.filter((one) => one !== head) });
      if (pins.length >= PageState.MOST_PINS) return this.say(`At most ${PageState.MOST_PINS} heads can be pinned: unpin one first.`);
      this.go({ pins: [...pins, head] });
    }

    // Asking the model

    /** Ask the model if the question or its switches changed, and show everything. */
    update() {
      const started = performance.now();
      this.say("");
      if (this.shownRun !== this.run) this.build();
      const { state } = this;
      this.source = PageTasks.read(this.run, state.input).source;
      const key = JSON.stringify([state.run, state.input, state.off, state.fill]);
      const anew = key !== this.asked;
      if (anew) {
        this.asked = key;
        if (this.source.length > LONG) return this.askSlowly(key);
        document.body.dataset.waiting = "no";
        this.result = this.engine.answer(this.source, this.options());
        if (!state.off.length) [this.wholeFor, this.wholeKept] = [JSON.stringify([state.run, state.input]), this.result];
      }
      this.show(anew);
      document.body.dataset.answerMs = (performance.now() - started).toFixed(1);
    }

    /** What is long is answered in a worker; until then a sequence is shown with the old answer, and a sum with none. */
    askSlowly(key) {
      this.slow?.cancel?.();
      if (this.result) this.result = { ...this.result, weights: {}, stale: true };
      this.show();
      document.body.dataset.waiting = "yes";
      this.slow = this.pool.answer(this.engine, this.source, this.options());
      (this.slow.promise || this.slow).then((result) => {
        if (key !== this.asked || !result || result.cancelled) return;
        this.result = result;
        this.show();
        document.body.dataset.waiting = "no";
      }, () => key === this.asked && this.say("The model could not answer this."));
    }

    // Showing

    /** What changes with the run and not with the state. */
    build() {
      const { run } = this;
      this.shownRun = run;
      this.result = this.asked = null;
      at("name").textContent = run.name;
      at("about").textContent = at("about").title = aboutRun(run);
      at("failing").hidden = !run.failing?.length;
      at("made-by").textContent = `${this.data.made_by || "headway"}. ${run.examples.length} test examples are stored here.`;
      at("sum").hidden = !PageTasks.writes(run);
      at("sequence").hidden = PageTasks.writes(run);
      at("ask").classList.toggle("long", !(PageTasks.isPadded(run) && run.task.page.digits <= 5));
      at("input-label").textContent = PageTasks.isSum(run) ? "A sum" : PageTasks.canType(run) ? "A sequence" : "A stored example";
      at("input").readOnly = at("ask-now").hidden = !PageTasks.canType(run);
      [this.sequence, this.training, this.grid, this.patching, this.show_, this.flow].forEach((view) => view.build());
    }

    /** A sum or tokens that fit into a column stand beside the heads; what is wide stands above them. */
    arrange() {
      const { run, source } = this;
      const wide = PageTasks.isSum(run) ? PageTasks.workOut(run, source).columns > WIDEST_SUM : !PageTasks.writes(run) || source.length > WIDEST_SUM;
      at("workbench").classList.toggle("wide", wide);
      at("workbench").classList.toggle("bars", PageTasks.isBars(run));
    }

    /** Show everything; where the answer is new, what stands below the first screen comes after it. */
    show(anew = false) {
      const { state, run } = this;
      at("run").value = String(state.run);
      if (this.shownInput !== state.input || document.activeElement !== at("input")) at("input").value = state.input;
      this.shownInput = state.input;
      this.complain("", PageTasks.read(run, state.input).note);
      this.arrange();
      if (PageTasks.writes(run)) this.sum.show();
      else this.sequence.show();
      if (this.result) {
        [this.strip, this.training, this.grid, this.large, this.pins, this.bar, this.show_, this.direct].forEach((view) => view.show());
        clearTimeout(this.later);
        if (anew && state.from) this.later = setTimeout(() => this.patching.show());
        else this.patching.show();
        cancelAnimationFrame(this.frame);
        this.frame = requestAnimationFrame(() => setTimeout(() => this.flow.show()));
      }
      this.link();
    }

    /** Everything that has colours, again. */
    recolour() {
      PageDraw.forgetColours();
      this.grid.scaled = null;
      this.grid.tellScale();
      this.grid.draw();
      this.large.draw();
      this.pins.show();
    }

    link() {
      try {
        history.replaceState(null, "", PageState.toFragment(this.state));
      } catch {
        // In a notebook's frame there is no address to write to; the link can still be copied.
      }
    }

    say(text) {
      at("word").textContent = text;
    }

    sayIgnored(ignored) {
      if (ignored.length) this.say(`Unknown parts of the link were ignored: ${ignored.join("; ")}.`);
    }

    complain(problem, note = "") {
      const place = at("complaint");
      place.classList.toggle("note", !problem);
      if (place.textContent !== (problem || note)) place.textContent = problem || note;
      at("input").setAttribute("aria-invalid", String(Boolean(problem)));
    }

    // Listening

    ask(typed) {
      const read = PageTasks.read(this.run, typed);
      if (read.problem) return this.complain(read.problem);
      this.shownInput = null;
      this.go({ input: read.text, step: null });
    }

    /** While it is typed: a whole sum is answered at once, half of one is not complained about, and the field stays as it is. */
    type(typed) {
      const read = PageTasks.read(this.run, typed);
      if (!PageTasks.isPadded(this.run) || read.problem || read.note) return this.complain("");
      this.shownInput = read.text;
      this.go({ input: read.text, step: null });
    }

    another() {
      const { examples } = this.run;
      const { source } = examples[Math.floor(Math.random() * examples.length)];
      this.go({ input: PageTasks.showSource(this.run, source), step: null });
    }

    /** The next of the inputs that an attack found the model to get wrong. */
    fail() {
      const { failing } = this.run;
      this.failed = ((this.failed ?? -1) + 1) % failing.length;
      const { input, family, tried } = failing[this.failed];
      const read = PageTasks.read(this.run, input);
      if (read.problem) return this.complain(read.problem);
      this.go({ input: read.text, step: null, off: [], from: "" });
      this.say(`headway attack found this input (${family}) among ${tried.toLocaleString("en")}: the whole model gets it wrong.`);
    }

    async copyLink() {
      if (location.protocol === "about:") return this.say("Inside a notebook there is no link to copy: save the page as a file first.");
      const link = location.href.split("#")[0] + PageState.toFragment(this.state);
      try {
        await navigator.clipboard.writeText(link);
        this.say("Link copied. It restores the input, the switches and the view.");
      } catch {
        this.say(`Copy this link: ${link}`);
      }
    }

    listen() {
      // No form: a frame without leave to send forms, as a notebook's, would not tell of a submission.
      at("ask-now").addEventListener("click", () => this.ask(at("input").value));
      at("input").addEventListener("keydown", (event) => event.key === "Enter" && this.ask(at("input").value));
      at("input").addEventListener("input", () => this.type(at("input").value));
      at("another").addEventListener("click", () => this.another());
      at("failing").addEventListener("click", () => this.fail());
      at("reset").addEventListener("click", () => this.go(PageState.initial(this.runs, this.state.run)));
      at("link").addEventListener("click", () => this.copyLink());
      at("skip").addEventListener("click", (event) => {
        event.preventDefault();
        at("input").focus();
      });
      const twice = (name) => this.runs.filter((run) => run.name === name).length > 1;
      const name = (run, index) => (twice(run.name) ? `${run.name} (${index + 1})` : run.name);
      at("run").replaceChildren(...this.runs.map((run, index) => make("option", { value: index }, name(run, index))));
      at("run-choice").hidden = this.runs.length < 2;
      at("run").addEventListener("change", () => this.choose(Number(at("run").value)));
      window.addEventListener("hashchange", () => this.follow());
      this.listenToColours();
      this.listenToKeys();
    }

    /** Somebody put another link into the address. */
    follow() {
      const { state, ignored } = PageState.fromFragment(this.runs, location.hash);
      this.history.go(state);
      this.update();
      this.sayIgnored(ignored);
    }

    listenToColours() {
      const system = matchMedia("(prefers-color-scheme: dark)");
      const root = document.documentElement;
      at("theme").addEventListener("click", () => {
        const dark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
        root.dataset.theme = dark ? "light" : "dark";
        at("theme").setAttribute("aria-label", `Light or dark colours, now ${root.dataset.theme}`);
        this.recolour();
      });
      system.addEventListener("change", () => this.recolour());
    }

    listenToKeys() {
      const keys = this.shortcuts();
      const words = keys.flatMap(([key, meaning]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, meaning)]);
      at("shortcut-list").replaceChildren(...words);
      at("shortcuts-open").addEventListener("click", () => at("shortcuts").showModal());
      at("shortcuts-close").addEventListener("click", () => at("shortcuts").close());
      const actions = new Map(keys.filter(([, , act]) => act).map(([key, , act]) => [key, act]));
      document.addEventListener("keydown", (event) => {
        const typing = event.target.closest?.("input[type=text], select, dialog");
        if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !typing) {
          event.preventDefault();
          if (event.shiftKey) this.redo();
          else this.undo();
        }
        if (typing || event.ctrlKey || event.metaKey || event.altKey || !actions.has(event.key)) return;
        event.preventDefault();
        actions.get(event.key)();
      });
    }

    /** Keys, what they do, and how; those without a deed belong to a part of the page. */
    shortcuts() {
      return [
        ["/", "type a question", () => at("input").select()],
        ["[", "one step back", () => PageTasks.writes(this.run) && this.sum.move(-1)],
        ["]", "one step on", () => PageTasks.writes(this.run) && this.sum.move(1)],
        ["x", "switch the head that is enlarged off or on", () => this.state.head && this.toggle(this.state.head)],
        ["p", "pin it", () => this.state.head && this.pin(this.state.head)],
        ["k", "keep only the smallest sufficient set", () => this.bar.keepSufficient()],
        ["0", "all heads on", () => this.go({ off: [] })],
        ["c", "maps of attention, or of its change", () => this.bar.choose(this.state.view === "change" ? "attention" : "change")],
        ["u", "undo (also Ctrl Z)", () => this.undo()],
        ["r", "redo (also Ctrl Shift Z)", () => this.redo()],
        ["a", "another example", () => this.another()],
        ["t", "take the tour", () => this.tour.start()],
        ["?", "these shortcuts", () => at("shortcuts").showModal()],
        ["arrows", "over the heads, over the cells of the large map, over the elements of a sequence"],
        ["Shift + arrows", "move an element, or change its value by ten"],
      ];
    }
  }

  const aboutRun = (run) => {
    const words = (run.settings || []).map(([name, value]) => `${name} ${typeof value === "number" ? value.toLocaleString("en") : value}`);
    return words.join(" · ");
  };

  /** Open the page; a browser that lacks something it needs is told so instead of being shown nothing. */
  const begin = () => {
    try {
      window.explorerPage = new Page(JSON.parse(at("data").textContent));
    } catch (error) {
      at("word").textContent = `This browser could not open the page: ${error.message}`;
      throw error;
    }
    document.body.dataset.ready = performance.now().toFixed(0);
  };
  /** The browser compiles what runs often: a few passes nobody sees make the first switch as quick as the later ones. */
  const warmUp = (page, times = 4) => {
    const [head] = PageState.headsOf(page.run);
    if (!times || !head || page.source.length > LONG) return;
    page.engine.answer(page.source, { off: { [head]: "zero" } });
    setTimeout(() => warmUp(page, times - 1), 20);
  };
  begin();
  setTimeout(() => warmUp(window.explorerPage), 50);
})();
