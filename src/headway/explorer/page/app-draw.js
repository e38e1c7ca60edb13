"use strict";
// Elements and pictures: heat maps, lines from queries to keys, a chart. Knows no model and no state.
const PageDraw = (() => {
  /**
   * One head's weights, as drawn.
   * @typedef {{weights: Float32Array, queries: string[], keys: string[], shown: number, row: number | null, causal: boolean,
   *            top: number, signed: boolean, only: {row: number | null, column: number | null} | null}} HeatMap
   * shown: rows that there are yet; row: the one to mark; top: the weight that has the strongest colour; signed: changes
   * of weights, which can be below 0; only: the row or column of the token that is pointed at.
   */

  /** An element; every string becomes text, never markup. */
  const make = (tag, properties = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "class") element.className = value;
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  };
  const SVG = "http://www.w3.org/2000/svg";
  const makeSvg = (tag, properties = {}, text = "") => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
    if (text) element.textContent = text;
    return element;
  };

  /** A share as it is read: 0.9987 is 99.9 %, and only 1 is 100 %. */
  const percent = (share, digits = 1) => {
    const text = (100 * share).toFixed(digits);
    if (share < 1 && Number(text) === 100) return (100 - 10 ** -digits).toFixed(digits) + "\u00a0%";
    if (share > 0 && Number(text) === 0) return "<" + (10 ** -digits).toFixed(digits) + "\u00a0%";
    return text + "\u00a0%";
  };

  /** A share as a bar; a tick stands where it was before, if that is known. */
  const rod = (share, before) => {
    const bar = make("i");
    bar.style.width = 100 * Math.max(0, Math.min(1, share)) + "%";
    if (before === undefined || Math.abs(before - share) < 0.005) return make("span", { class: "rod" }, bar);
    const tick = make("b", { title: `with all heads ${percent(before)}` });
    tick.style.left = `calc(${100 * before}% - 1px)`;
    return make("span", { class: "rod" }, bar, tick);
  };

  // Colours

  const scales = new Map();
  const parse = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** 256 colours between the stops that the style sheet names, for the colours of now, as pixels. */
  const colours = (name) => {
    if (scales.has(name)) return scales.get(name);
    const stops = style(name).split(/\s+/).map(parse);
    const pixels = new Uint8ClampedArray(4 * 256).fill(255);
    for (let index = 0; index < 256; index++) {
      const place = (index / 255) * (stops.length - 1);
      const low = Math.min(stops.length - 2, Math.floor(place));
      stops[low].forEach((value, channel) => (pixels[4 * index + channel] = value + (stops[low + 1][channel] - value) * (place - low)));
    }
    scales.set(name, new Uint32Array(pixels.buffer));
    return scales.get(name);
  };
  const forgetColours = () => scales.clear();

  // Heat maps

  /** The map's cells as a picture of one pixel each; what is not there yet, or masked, stays clear. */
  const picture = (map) => {
    const [rows, columns] = [map.queries.length, map.keys.length];
    const small = new OffscreenCanvas(Math.max(1, columns), Math.max(1, rows));
    const context = small.getContext("2d");
    const image = context.createImageData(small.width, small.height);
    const [pixels, table] = [new Uint32Array(image.data.buffer), colours(map.signed ? "--change" : "--heat")];
    for (let row = 0; row < Math.min(rows, map.shown); row++)
      for (let column = 0; column < (map.causal ? Math.min(columns, row + 1) : columns); column++) {
        const at = row * columns + column;
        const share = map.signed ? (map.weights[at] / map.top + 1) / 2 : map.weights[at] / map.top;
        pixels[at] = table[Math.max(0, Math.min(255, Math.round(share * 255)))];
      }
    context.putImageData(image, 0, 0);
    return small;
  };

  /** Fit a canvas to its size on the page in the screen's own pixels; gives a context in CSS pixels. */
  const fit = (canvas, width, height) => {
    const dense = window.devicePixelRatio || 1;
    const [inner, outer] = [Math.round(width * dense), Math.round(height * dense)];
    if (canvas.width !== inner || canvas.height !== outer) [canvas.width, canvas.height] = [inner, outer];
    const context = canvas.getContext("2d");
    context.setTransform(dense, 0, 0, dense, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  };

  const drawCells = (context, map, box) => {
    context.imageSmoothingEnabled = map.keys.length > box.width || map.queries.length > box.height;
    context.imageSmoothingQuality = "high";
    context.drawImage(picture(map), box.left, box.top, box.width, box.height);
  };

  /** The side of a cell of a map without words. */
  const cellOf = (map, width, height) => Math.min(width / map.keys.length, height / map.queries.length);

  /** A map without words that fills its canvas; a line at its left marks the row of this step. */
  const drawSmall = (canvas, map, width, height) => {
    const context = fit(canvas, width, height);
    const cell = cellOf(map, width, height);
    const box = { left: 0, top: 0, width: cell * map.keys.length, height: cell * map.queries.length };
    drawCells(context, map, box);
    if (map.only) return drawOnly(context, map, box, cell);
    if (map.row === null || map.row >= map.queries.length) return;
    context.strokeStyle = style("--accent");
    context.lineWidth = 1.5;
    context.strokeRect(0.75, map.row * cell + 0.75, box.width - 1.5, Math.max(1, cell - 1.5));
  };

  /** Fade everything but the row or the column of one token, and frame it. */
  const drawOnly = (context, { only: { row, column } }, box, cell) => {
    const [left, top] = [column === null ? 0 : column * cell, row === null ? 0 : row * cell];
    const [width, height] = [column === null ? box.width : cell, row === null ? box.height : cell];
    context.fillStyle = style("--paper");
    context.globalAlpha = 0.82;
    context.fillRect(0, 0, box.width, top);
    context.fillRect(0, top + height, box.width, box.height - top - height);
    context.fillRect(0, top, left, height);
    context.fillRect(left + width, top, box.width - left - width, height);
    context.globalAlpha = 1;
    context.strokeStyle = style("--lit");
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.75, top + 0.75, Math.max(1, width - 1.5), Math.max(1, height - 1.5));
  };

  /** How much larger than usual the page's letters are: wide screens have larger ones. */
  const unit = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

  /** Where cells and words of a large map stand. */
  const layout = (map, room, largest) => {
    const probe = new OffscreenCanvas(1, 1).getContext("2d");
    const size = unit();
    probe.font = `${13 * size}px ${FONT}`;
    const widest = (words) => Math.max(0, ...words.map((word) => probe.measureText(word).width));
    const left = Math.ceil(Math.min(60 * size, widest(map.queries))) + 10;
    const cell = Math.min(largest * size, (room - left - 2) / map.keys.length, (1.2 * room) / map.queries.length);
    const font = Math.min(13 * size, cell);
    const keys = (widest(map.keys) * font) / (13 * size);
    const upright = keys <= cell - 1;
    return { left, top: upright ? Math.ceil(24 * size) : Math.ceil(Math.min(60 * size, keys)) + 10, cell, upright, font };
  };

  const writeAxes = (context, map, place) => {
    if (place.cell < 9) return;
    context.font = `${place.font}px ${FONT}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    map.queries.forEach((word, row) => {
      context.fillStyle = style(row === map.row ? "--accent" : row < map.shown ? "--ink" : "--faint");
      context.fillText(word, place.left - 7, place.top + (row + 0.5) * place.cell, place.left - 7);
    });
    context.fillStyle = style("--ink");
    map.keys.forEach((word, column) => {
      context.save();
      context.translate(place.left + (column + 0.5) * place.cell, place.top - 7);
      if (!place.upright) context.rotate(-Math.PI / 2);
      context.textAlign = place.upright ? "center" : "left";
      context.textBaseline = place.upright ? "alphabetic" : "middle";
      context.fillText(word, 0, 0);
      context.restore();
    });
  };

  const frame = (context, place, row, column, columns, colour) => {
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.strokeRect(
      place.left + column * place.cell + 1, place.top + row * place.cell + 1, columns * place.cell - 2, Math.max(1, place.cell - 2)
    );
  };

  /** A map with its tokens on both axes; gives where its cells are. */
  const drawLarge = (canvas, map, room, chosen, largest = 46) => {
    const place = layout(map, room, largest);
    const [width, height] = [place.left + place.cell * map.keys.length + 2, place.top + place.cell * map.queries.length + 2];
    [canvas.style.width, canvas.style.height] = [width + "px", height + "px"];
    const context = fit(canvas, width, height);
    const cells = { width: place.cell * map.keys.length, height: place.cell * map.queries.length };
    drawCells(context, map, { left: place.left, top: place.top, ...cells });
    if (place.cell > 14) drawGaps(context, map, place);
    writeAxes(context, map, place);
    if (map.row !== null && map.row < map.queries.length) frame(context, place, map.row, 0, map.keys.length, style("--accent"));
    if (chosen) frame(context, place, chosen[0], chosen[1], 1, style("--ink"));
    return place;
  };

  const drawGaps = (context, map, place) => {
    context.fillStyle = style("--paper");
    const [width, height] = [place.cell * map.keys.length, place.cell * map.queries.length];
    for (let column = 1; column < map.keys.length; column++) context.fillRect(place.left + column * place.cell - 0.5, place.top, 1, height);
    for (let row = 1; row < map.queries.length; row++) context.fillRect(place.left, place.top + row * place.cell - 0.5, width, 1);
  };

  /** The colours of maps, from the least to the most, as a strip. */
  const drawScale = (canvas, signed = false) => {
    const weights = Float32Array.from({ length: 120 }, (_, index) => (signed ? (2 * index) / 119 - 1 : index / 119));
    const map = { weights, queries: [""], keys: Array(120).fill(""), shown: 1, row: null, causal: false, top: 1, signed, only: null };
    const dense = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [120 * dense, 10 * dense];
    drawCells(canvas.getContext("2d"), map, { left: 0, top: 0, width: 120 * dense, height: 10 * dense });
  };

  // Lines

  const LEAST_LINE = 0.02;
  const MOST_LINES = 160;
  const MANY_KEYS = 40;
  const FEW_QUERIES = 12;

  /** The queries whose lines are drawn: all, one, or over many keys a few at equal distances, whose lines stay apart. */
  const queriesOf = (map, row) => {
    const count = Math.min(map.shown, map.queries.length);
    if (row !== null) return [row];
    const every = map.keys.length > MANY_KEYS ? Math.ceil(count / FEW_QUERIES) : 1;
    return [...Array(count).keys()].filter((query) => query % every === Math.floor(every / 2));
  };

  const linesOf = (map, row) => {
    const rows = queriesOf(map, row);
    const strength = (line) => Math.abs(line.weight);
    const found = rows.flatMap((query) => {
      const lines = map.keys.map((_, key) => ({ query, key, weight: map.weights[query * map.keys.length + key] }));
      if (map.keys.length <= MANY_KEYS || row !== null) return lines;
      return lines.sort((one, other) => strength(other) - strength(one)).slice(0, 3);
    });
    const strong = found.filter((line) => strength(line) >= LEAST_LINE * map.top);
    return strong.sort((one, other) => strength(other) - strength(one)).slice(0, MOST_LINES).reverse();
  };

  const writeTokens = (drawing, words, width, y, marked, seen) => {
    const gap = width / words.length;
    words.forEach((word, index) => {
      if (gap < 13 * unit() && index !== marked) return;
      const classes = index === marked ? "marked" : index < seen ? "" : "later";
      const text = makeSvg("text", { x: (index + 0.5) * gap, y, class: classes, "text-anchor": "middle" }, word);
      if (gap < 26 * unit()) text.style.fontSize = Math.max(8, gap * 0.55) + "px";
      drawing.append(text);
    });
  };

  /** Queries above, keys below, and a line from each query to what it looks at, as thick as the weight. */
  const drawLines = (drawing, map, width, row) => {
    const height = 150 * unit();
    const [top, bottom] = [24 * unit(), height - 24 * unit()];
    drawing.replaceChildren();
    drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    drawing.setAttribute("height", String(height));
    drawing.setAttribute("width", String(width));
    const x = (index, count) => ((index + 0.5) * width) / count;
    const thickest = Math.min(5.5, (0.6 * width) / Math.min(map.queries.length, 3 * FEW_QUERIES));
    linesOf(map, row).forEach(({ query, key, weight }) => {
      const share = Math.abs(weight) / map.top;
      const [from, to] = [x(query, map.queries.length), x(key, map.keys.length)];
      const path = makeSvg("path", {
        d: `M${from} ${top} C${from} ${height / 2} ${to} ${height / 2} ${to} ${bottom}`,
        "stroke-width": (0.5 + thickest * share).toFixed(2), opacity: (0.12 + 0.88 * share).toFixed(2),
      });
      drawing.append(path);
    });
    writeTokens(drawing, map.queries, width, top - 8, row, map.shown);
    writeTokens(drawing, map.keys, width, height - 6, null, map.keys.length);
  };

  // Tables

  const LARGEST_TABLE = 40;

  /** The same weights as a table, for those who cannot see colours. */
  const fillTable = (table, map) => {
    const rows = map.queries.slice(0, Math.min(map.shown, LARGEST_TABLE));
    const keys = map.keys.slice(0, LARGEST_TABLE);
    const heading = make("tr", {}, make("th", { scope: "col" }, "query"), ...keys.map((key) => make("th", { scope: "col" }, key)));
    const body = rows.map((query, row) => {
      const cells = keys.map((_, column) =>
        make("td", {}, map.causal && column > row ? "–" : map.weights[row * map.keys.length + column].toFixed(3))
      );
      return make("tr", {}, make("th", { scope: "row" }, query), ...cells);
    });
    table.replaceChildren(make("thead", {}, heading), make("tbody", {}, ...body));
    return rows.length < Math.min(map.shown, map.queries.length) || keys.length < map.keys.length;
  };

  /** A number with its sign: +1.20, −3.00. */
  const signed = (value, digits = 1) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);

  /** A number as a bar to the right of 0, or to the left of it, on a scale from `least` to `most`. */
  const both = (value, least, most) => {
    const place = (number) => (100 * (number - least)) / Math.max(1e-9, most - least);
    const bar = make("i", { class: value < 0 ? "against" : "" });
    [bar.style.left, bar.style.width] = [place(Math.min(0, value)) + "%", place(Math.max(0, value)) - place(Math.min(0, value)) + "%"];
    const frame = make("span", { class: "both" }, bar);
    frame.style.setProperty("--zero", place(0) + "%");
    return frame;
  };

  return {
    make, makeSvg, percent, signed, both, rod, MANY_KEYS, style, forgetColours, unit, drawScale, cellOf, drawSmall, drawLarge, drawLines, fillTable,
  };
})();
