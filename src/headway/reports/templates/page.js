"use strict";
(() => {
  // Colours: as the system has them, then light, then dark; the choice lives as long as the page.
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const systemIsDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  theme.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : systemIsDark();
    root.dataset.theme = dark ? "light" : "dark";
    theme.setAttribute("aria-pressed", String(root.dataset.theme === "dark"));
    viewers.forEach((viewer) => viewer.draw());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => viewers.forEach((viewer) => viewer.draw()));

  // Where a number comes from.
  document.addEventListener("pointerover", (event) => {
    const number = event.target.closest("data");
    if (number && !number.title) number.title = number.dataset.at + " = " + number.value;
  });

  // Tables: numbers by their exact value, words by the alphabet, what is missing last.
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.key !== undefined) return Number(cell.dataset.key);
    const text = cell.textContent.trim();
    return text === "–" ? null : text;
  };
  const compare = (one, other) =>
    typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
  document.querySelectorAll("thead button").forEach((button) => {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const numeric = head.classList.contains("numeric");
      const now = head.getAttribute("aria-sort");
      const next = now === "descending" ? "ascending" : now === "ascending" ? "descending" : numeric ? "descending" : "ascending";
      head.parentNode.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", next);
      const body = head.closest("table").tBodies[0];
      const rows = [...body.rows].map((row) => ({ row, key: key(row, head.cellIndex) }));
      const there = rows.filter((one) => one.key !== null).sort((one, other) => compare(one.key, other.key));
      if (next === "descending") there.reverse();
      body.append(...there.map((one) => one.row), ...rows.filter((one) => one.key === null).map((one) => one.row));
    });
  });

  // Short tables: rows that say little and further columns are shown when a reader asks for them.
  root.classList.add("scripted");
  document.querySelectorAll(".more .whole").forEach((button) => {
    button.addEventListener("click", () => {
      const short = button.closest("figure").querySelector("table").classList.toggle("short");
      button.setAttribute("aria-expanded", String(!short));
      button.textContent = short ? "Show all rows and columns" : "Show less";
      cues();
    });
  });

  // What is wider than its place says so, in words and by a shadow on the side where there is more.
  const cue = (place) => {
    const hidden = place.scrollWidth - place.clientWidth;
    const said = place.nextElementSibling?.classList.contains("cue") ? place.nextElementSibling : null;
    if (hidden < 2) {
      delete place.dataset.more;
      said?.remove();
      return;
    }
    const [left, right] = [place.scrollLeft > 1, place.scrollLeft < hidden - 1];
    place.dataset.more = left && right ? "both" : left ? "left" : "right";
    place.tabIndex = 0;
    if (said) return;
    const words = document.createElement("p");
    words.className = "cue";
    words.textContent = "Scroll sideways for the rest →";
    place.after(words);
  };
  const places = [...document.querySelectorAll(".scroll")];
  const cues = () => places.forEach(cue);
  places.forEach((place) => place.addEventListener("scroll", () => cue(place), { passive: true }));
  document.querySelectorAll("details").forEach((one) => one.addEventListener("toggle", cues));
  window.addEventListener("resize", cues);
  cues();

  // Heat maps.
  const { scale, runs } = JSON.parse(document.getElementById("maps").textContent);
  const colour = (weight) => scale[Math.min(scale.length - 1, Math.floor(weight * scale.length))];
  const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const option = (text, value) => {
    const made = document.createElement("option");
    made.textContent = text;
    made.value = value;
    return made;
  };

  const fillCells = (context, map, left, top, size, gap) => {
    map.cells.forEach((row, query) =>
      row.forEach((weight, column) => {
        if (weight === null) return;
        context.fillStyle = colour(weight);
        context.fillRect(left + column * size, top + query * size, size - gap, size - gap);
      })
    );
  };

  class Viewer {
    constructor(element) {
      this.element = element;
      this.run = runs[Number(element.dataset.maps)];
      this.example = 0;
      this.cell = null;
      this.head = this.run.examples[0].maps[0].head;
      [this.examples, this.heads] = [element.querySelector("select.example"), element.querySelector("select.head")];
      this.canvas = element.querySelector(".chosen canvas");
      this.readout = element.querySelector(".readout");
      this.all = element.querySelector(".all");
      this.examples.append(...this.run.examples.map((one, index) => option(one.name, index)));
      this.heads.append(...this.run.examples[0].maps.map((map) => option(map.head, map.head)));
      this.examples.addEventListener("change", () => this.choose(Number(this.examples.value), this.head));
      this.heads.addEventListener("change", () => this.choose(this.example, this.heads.value));
      this.canvas.addEventListener("pointermove", (event) => this.point(event));
      this.canvas.addEventListener("pointerdown", (event) => this.point(event));
      this.canvas.addEventListener("pointerleave", () => this.mark(null));
      this.canvas.addEventListener("keydown", (event) => this.step(event));
      new ResizeObserver(() => this.draw()).observe(element);
      this.choose(0, this.head);
    }

    get map() {
      return this.run.examples[this.example].maps.find((map) => map.head === this.head) || this.run.examples[this.example].maps[0];
    }

    choose(example, head) {
      [this.example, this.head, this.cell] = [example, head, null];
      this.examples.value = example;
      this.heads.value = head;
      this.drawAll();
      this.draw();
      this.say();
    }

    drawAll() {
      const groups = new Map();
      this.run.examples[this.example].maps.forEach((map) => groups.set(map.kind, [...(groups.get(map.kind) || []), map]));
      this.all.replaceChildren();
      groups.forEach((maps, kind) => {
        const [title, row] = [document.createElement("p"), document.createElement("div")];
        title.textContent = kind;
        row.append(...maps.map((map) => this.small(map)));
        this.all.append(title, row);
      });
    }

    small(map) {
      const button = document.createElement("button");
      const canvas = document.createElement("canvas");
      const size = 8;
      [canvas.width, canvas.height] = [size * map.keys.length, size * map.queries.length];
      fillCells(canvas.getContext("2d"), map, 0, 0, size, 0);
      const remark = document.createElement("span");
      remark.className = "aside";
      remark.textContent = map.remark;
      button.type = "button";
      button.dataset.head = map.head;
      button.setAttribute("aria-pressed", String(map.head === this.head));
      button.append(canvas, map.head, remark);
      button.addEventListener("click", () => {
        this.choose(this.example, map.head);
        this.all.querySelector('[aria-pressed="true"]').focus();
      });
      return button;
    }

    layout() {
      const context = this.canvas.getContext("2d");
      context.font = "12px system-ui, sans-serif";
      const widest = (texts) => Math.max(...texts.map((text) => context.measureText(text).width));
      const left = Math.ceil(Math.min(150, widest(this.map.queries))) + 8;
      const room = Math.min(this.element.clientWidth || 600, 640) - left - 2;
      const size = Math.max(4, Math.min(44, Math.floor(room / this.map.keys.length)));
      const upright = widest(this.map.keys) < size - 2;
      const top = upright ? 20 : Math.ceil(Math.min(120, widest(this.map.keys))) + 8;
      return { left, top, size, upright };
    }

    draw() {
      const { left, top, size, upright } = (this.place = this.layout());
      const [width, height] = [left + size * this.map.keys.length + 2, top + size * this.map.queries.length + 2];
      const dense = window.devicePixelRatio || 1;
      [this.canvas.width, this.canvas.height] = [width * dense, height * dense];
      [this.canvas.style.width, this.canvas.style.height] = [width + "px", height + "px"];
      const context = this.canvas.getContext("2d");
      context.scale(dense, dense);
      fillCells(context, this.map, left, top, size, size > 8 ? 1 : 0);
      context.fillStyle = style("--ink");
      context.font = Math.min(12, size + 2) + "px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.textAlign = "right";
      this.map.queries.forEach((text, row) => context.fillText(text, left - 5, top + (row + 0.5) * size));
      this.map.keys.forEach((text, column) => {
        context.save();
        context.translate(left + (column + 0.5) * size, top - 5);
        if (!upright) context.rotate(-Math.PI / 2);
        context.textAlign = upright ? "center" : "left";
        context.textBaseline = upright ? "alphabetic" : "middle";
        context.fillText(text, 0, 0);
        context.restore();
      });
      if (this.cell) {
        context.strokeStyle = style("--focus");
        context.lineWidth = 2;
        context.strokeRect(left + this.cell[1] * size, top + this.cell[0] * size, size - 1, size - 1);
      }
    }

    point(event) {
      const { left, top, size } = this.place;
      const box = this.canvas.getBoundingClientRect();
      const shrunk = box.width / parseFloat(this.canvas.style.width);
      const row = Math.floor(((event.clientY - box.top) / shrunk - top) / size);
      const column = Math.floor(((event.clientX - box.left) / shrunk - left) / size);
      this.mark(this.map.cells[row]?.[column] === undefined ? null : [row, column]);
    }

    step(event) {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      const [row, column] = this.cell ? [this.cell[0] + move[0], this.cell[1] + move[1]] : [0, 0];
      if (this.map.cells[row]?.[column] !== undefined) this.mark([row, column]);
    }

    mark(cell) {
      this.cell = cell;
      this.draw();
      this.say();
    }

    say() {
      const about = this.map.head + (this.map.remark ? " (" + this.map.remark + ")" : "");
      if (!this.cell) {
        this.readout.textContent = about + ": point at a cell, or move over it with the arrow keys.";
        return;
      }
      const [row, column] = this.cell;
      const weight = this.map.cells[row][column];
      const said = weight === null ? "not there yet for this query" : "weight " + weight.toFixed(3);
      this.readout.textContent = `${this.map.head}: query ${this.map.queries[row]} (${row + 1}) on key ${this.map.keys[column]} (${column + 1}): ${said}`;
    }
  }
  const viewers = [];
  document.querySelectorAll(".viewer").forEach((element) => viewers.push(new Viewer(element)));

  // A link into a folded part opens it.
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  };
  window.addEventListener("hashchange", open);
  // On paper everything is open and light; the canvases are pictures already and must be drawn anew.
  let before;
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((one) => (one.open = true));
    before = root.dataset.theme;
    root.dataset.theme = "light";
    viewers.forEach((viewer) => viewer.draw());
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    viewers.forEach((viewer) => viewer.draw());
  });
  open();
})();
