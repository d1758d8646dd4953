/* SPDX-License-Identifier: Apache-2.0 */
/* Areas stacked over time, as stairs: a value holds until the next event. Drag or choose a stretch to zoom, arrow keys go from event to event. */
Pictures.add("area", (box, spec, table) => {
  const { html, svg } = Dom, { column, choices, textWidth, tipAt } = Pictures;
  const LEFT = 74, RIGHT = 10, TOP = 20, HIGH = 240, GAP = 16, STRIP = 44, FULL = 0.4, NEAR = 4;
  const x = column(table, spec.x), [room, band, strip, ...parts] = spec.series.map((name) => column(table, name));
  const told = table.columns.filter((c) => !spec.choices.includes(c.name)).map((c) => column(table, c.name));
  const sight = spec.id + "/sight"; // what is kept beside the choices
  const sum = (row) => parts.reduce((all, part) => all + Math.max(0, part.values[row] || 0), 0);
  const limit = (row) => (room.values[row] === null ? null : sum(row) + Math.max(0, room.values[row]));

  const bar = html("div", { class: "controls" });
  const stretch = html("select", { "aria-label": "Stretch of time" }), height = html("select", { "aria-label": "Height" });
  const zoom = html("label", {}, "Show ", stretch), reset = html("button", { type: "button" }, "Reset zoom");
  const picture = svg("svg", { role: "group", "aria-label": spec.title });
  const note = html("p", { class: "muted" });
  const legend = html("ul", { class: "legend inline" });
  box.append(bar, picture, legend, note);

  let rows = [], width = 0, from = 0, until = 1, at = -1, peak = -1, bands = [], usual = "";

  /* Rows of one choice: its highest point (the last of equal ones), its steps, and the height that shows most. */
  function choose(left) {
    rows = left;
    peak = rows.reduce((best, row, i) => (sum(row) >= sum(rows[best]) ? i : best), 0);
    at = -1;
    bands = [];
    rows.forEach((row) => {
      const value = band ? band.values[row] : null, last = bands[bands.length - 1];
      if (value === null) return;
      if (last && last.value === value) last.until = x.values[row];
      else if (!last || x.values[row] >= last.until) bands.push({ value, from: x.values[row], until: x.values[row] });
    });
    const most = limit(rows[peak]);
    height.replaceChildren(...[["peak", "from 0 to the peak"], ...(most ? [["limit", "from 0 to the capacity"]] : []), ["fit", "lowest to highest"]]
      .map(([value, text]) => html("option", { value }, text)));
    height.value = usual = most && sum(rows[peak]) >= FULL * most ? "limit" : "peak";
    stretch.replaceChildren(html("option", { value: "" }, "whole capture"), ...bands.map(({ value }, i) => html("option", { value: i }, band.label.toLowerCase() + " " + value)));
    zoom.hidden = bands.length === 0;
    whole();
  }

  function whole() {
    stretch.value = "";
    show(x.values[rows[0]], x.values[rows[rows.length - 1]]);
  }

  function show(low, high) {
    from = low;
    until = high > low ? high : low + 1;
    reset.hidden = from === x.values[rows[0]] && until >= x.values[rows[rows.length - 1]];
    if (width) draw();
    keep();
  }

  /* In the address: the stretch that is in sight, and the height if somebody chose one. */
  function keep() {
    Kept.put(sight, { zoom: reset.hidden ? "" : `${Math.round(from)}-${Math.round(until)}`, height: height.value === usual ? "" : height.value });
  }

  function write(kept) {
    const [low, high] = (kept.zoom || "").split("-").map(Number);
    height.value = [...height.options].some((option) => option.value === kept.height) ? kept.height : usual;
    if (high > low) show(low, high);
    else whole();
  }

  const across = (value) => ((value - from) / (until - from)) * (width - LEFT - RIGHT);
  const timeAt = (place) => from + (place / (width - LEFT - RIGHT)) * (until - from);

  /* Positions of the rows in sight, with the one before them, whose value still holds. */
  function inSight() {
    const first = Math.max(0, rows.findIndex((row) => x.values[row] >= from) - 1);
    const end = rows.findIndex((row) => x.values[row] > until);
    return [first, end < 0 ? rows.length : end];
  }

  /** @param {number[]} seen */
  function heights([first, end]) {
    const seen = rows.slice(first, end).map(sum), most = Math.max(...seen), least = Math.min(...seen);
    if (height.value === "limit") return [0, Math.max(...rows.slice(first, end).map(limit)) * 1.04];
    if (height.value === "peak") return [0, most * 1.08 || 1];
    const spare = (most - least || most || 1) * 0.08;
    return [Math.max(0, least - spare), most + spare];
  }

  /* Corners of the stairs through (x, value), from the left edge to the right one. */
  function stairs([first, end], value, down) {
    const corners = [];
    for (let i = first; i < end; i++) {
      const v = value(rows[i]);
      if (v === null) continue;
      const left = Math.max(-2, across(x.values[rows[i]])).toFixed(1), top = down(v).toFixed(1);
      if (corners.length) corners.push(left + " " + corners[corners.length - 1].split(" ")[1]);
      corners.push(left + " " + top);
    }
    if (corners.length) corners.push(width - LEFT - RIGHT + " " + corners[corners.length - 1].split(" ")[1]);
    return corners;
  }
  const line = (corners) => (corners.length ? "M" + corners.join("L") : "");

  function plot(seen, low, high) {
    const inner = width - LEFT - RIGHT, down = (v) => HIGH - ((v - low) / (high - low)) * HIGH;
    const view = svg("svg", { x: LEFT, y: TOP, width: inner, height: HIGH });
    bands.forEach((one, i) => {
      const left = across(one.from), right = across(bands[i + 1] ? Math.min(bands[i + 1].from, Math.max(one.until, one.from)) : one.until);
      if (right >= 0 && left <= inner) view.append(svg("rect", { class: i % 2 ? "band odd" : "band", x: left.toFixed(1), y: 0, width: Math.max(1, right - left).toFixed(1), height: HIGH }));
    });
    let below = stairs(seen, () => low, down);
    parts.forEach((part, i) => {
      const above = stairs(seen, (row) => parts.slice(0, i + 1).reduce((all, one) => all + Math.max(0, one.values[row] || 0), 0), down);
      view.append(svg("path", { class: "area k-" + spec.keys[i], d: line([...above, ...below.reverse()]) + "z" }), svg("path", { class: "line", d: line(above) }));
      below = above;
    });
    const most = limit(rows[peak]);
    if (most !== null && most <= high) {
      const text = "capacity " + Units.humanize(most, parts[0].unit);
      view.append(svg("path", { class: "limit", d: line(stairs(seen, limit, down)) }), svg("text", { x: 6, y: (down(most) + 15).toFixed(1) }, text));
    }
    return { view, down };
  }

  function axes(low, high) {
    const inner = width - LEFT - RIGHT, items = [];
    for (const [value, text] of Axis.ticks(low, high, parts[0].unit, 5)) {
      const y = TOP + HIGH - ((value - low) / (high - low)) * HIGH;
      items.push(svg("path", { class: "grid", d: `M${LEFT} ${y.toFixed(1)}h${inner}` }), svg("text", { x: LEFT - 8, y: (y + 4).toFixed(1), "text-anchor": "end" }, text));
    }
    const bottom = TOP + HIGH + (strip ? GAP + STRIP : 0);
    for (const [value, text] of Axis.ticks(from, until, x.unit, Math.max(2, Math.floor(inner / 130)))) {
      const place = LEFT + across(value);
      if (place + textWidth(text, 11.5) / 2 > width) continue;
      items.push(svg("path", { class: "grid", d: `M${place.toFixed(1)} ${bottom}v5` }), svg("text", { x: place.toFixed(1), y: bottom + 18, "text-anchor": "middle" }, text));
    }
    let free = LEFT; // labels of bands, as many as stand side by side
    for (const one of bands) {
      const left = Math.max(LEFT, LEFT + across(one.from)), text = band.label.toLowerCase() + " " + one.value;
      if (LEFT + across(one.until) < LEFT || left < free || left + textWidth(text, 11) > width) continue;
      items.push(svg("text", { class: "step", x: left.toFixed(1), y: TOP - 6 }, text));
      free = left + textWidth(text, 11) + 10;
    }
    return items;
  }

  function beneath(seen) {
    const top = TOP + HIGH + GAP, down = (v) => STRIP - 1 - v * (STRIP - 2);
    const view = svg("svg", { x: LEFT, y: top, width: width - LEFT - RIGHT, height: STRIP });
    view.append(svg("rect", { class: "ground", width: "100%", height: STRIP }), svg("path", { class: "strip", d: line(stairs(seen, (row) => strip.values[row], down)) }));
    const label = (text, y) => svg("text", { x: LEFT - 8, y, "text-anchor": "end" }, text);
    return [view, label("100 %", top + 10), label("0 %", top + STRIP), svg("text", { class: "step", x: LEFT + 4, y: top + 12 }, strip.label)];
  }

  const tip = (row) => told.filter((c) => c.values[row] !== null && c.values[row] !== "").map((c) => c.label + " " + c.shown(row)).join("\n");

  /* The highest point: a button that leads to the table of what it is made of. */
  function summit(down) {
    const row = rows[peak], place = LEFT + across(x.values[row]);
    if (x.values[row] < from || x.values[row] > until) return [];
    const text = "peak " + Units.humanize(sum(row), parts[0].unit), end = place + textWidth(text, 12) + 12 > width;
    const y = TOP + Math.max(0, down(sum(row)));
    const group = svg("g", { class: "peak", role: "button", tabindex: 0, "aria-label": text + ". Shows what it is made of.", "data-tip": tip(row) + (spec.detail ? "\nClick: what it is made of" : "") },
      svg("circle", { cx: place.toFixed(1), cy: y.toFixed(1), r: 5 }),
      svg("text", { x: (place + (end ? -9 : 9)).toFixed(1), y: (y + (y < TOP + 14 ? 14 : -5)).toFixed(1), "text-anchor": end ? "end" : "start" }, text));
    group.addEventListener("click", detail);
    group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); detail(); } });
    return [group];
  }

  function detail() {
    const target = (box.closest("section") || document).querySelector(`[data-file="${CSS.escape(spec.detail)}"]`);
    if (!target) return;
    const fold = target.closest("details");
    if (fold) fold.open = true;
    target.scrollIntoView({ block: "center" });
    target.classList.add("found");
    setTimeout(() => target.classList.remove("found"), 4000);
    narrow(target);
  }

  /* Of several memories only the rows of the chosen one. */
  function narrow(target) {
    const chosen = spec.choices.map((name) => column(table, name)).filter((c) => new Set(c.values).size > 1).map((c) => c.values[rows[peak]]);
    const words = chosen.filter((word) => word.length > 2).join(" "), grid = Grid.of(target);
    if (words) grid.write({ ...grid.chosen(), words });
  }

  function draw() {
    const seen = inSight(), [low, high] = heights(seen), { view, down } = plot(seen, low, high);
    const most = limit(rows[peak]), inner = width - LEFT - RIGHT, bottom = HIGH + (strip ? GAP + STRIP : 0);
    const cross = svg("path", { class: "cross" });
    const glass = svg("rect", { class: "glass", x: LEFT, y: TOP, width: inner, height: bottom, tabindex: 0, role: "img", "aria-label": spec.title + ". Arrow keys go from event to event." });
    const drag = svg("rect", { class: "drag", y: TOP, height: bottom, width: 0 });
    picture.setAttribute("width", width);
    picture.setAttribute("height", TOP + bottom + 26);
    picture.replaceChildren(...axes(low, high), view, ...(strip ? beneath(seen) : []), cross, drag, glass, ...summit(down));
    listen(glass, cross, drag);
    note.textContent = most === null ? "Its allocator reports no capacity." : high < most ? "The capacity, " + Units.humanize(most, parts[0].unit) + ", is above the picture." : "";
  }

  function point(glass, cross, i) {
    at = i;
    const place = LEFT + across(x.values[rows[i]]);
    cross.setAttribute("d", `M${place.toFixed(1)} ${TOP}v${HIGH + (strip ? GAP + STRIP : 0)}`);
    glass.dataset.tip = tip(rows[i]);
    glass.setAttribute("aria-label", glass.dataset.tip.replaceAll("\n", ", "));
  }

  /* The event whose value holds at a time; the next one where the pointer is as good as on it. */
  function holding(time) {
    let low = 0, high = rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (x.values[rows[middle]] <= time) low = middle; else high = middle - 1;
    }
    return low + 1 < rows.length && across(x.values[rows[low + 1]]) - across(time) < NEAR && across(time) - across(x.values[rows[low]]) > NEAR ? low + 1 : low;
  }

  function listen(glass, cross, drag) {
    let start = null;
    const place = (event) => Math.max(0, Math.min(width - LEFT - RIGHT, event.clientX - picture.getBoundingClientRect().left - LEFT));
    glass.addEventListener("pointerdown", (event) => { start = place(event); if (event.pointerType === "mouse") glass.setPointerCapture(event.pointerId); });
    glass.addEventListener("pointermove", (event) => {
      point(glass, cross, holding(timeAt(place(event))));
      if (start === null || event.pointerType !== "mouse") return;
      drag.setAttribute("x", LEFT + Math.min(start, place(event)));
      drag.setAttribute("width", Math.abs(place(event) - start));
    });
    glass.addEventListener("pointerup", (event) => {
      const end = place(event), begin = start;
      start = null;
      drag.setAttribute("width", 0);
      if (begin !== null && event.pointerType === "mouse" && Math.abs(end - begin) > 6) show(timeAt(Math.min(begin, end)), timeAt(Math.max(begin, end)));
    });
    glass.addEventListener("pointerleave", () => cross.removeAttribute("d"));
    glass.addEventListener("blur", () => tipAt(null));
    glass.addEventListener("keydown", (event) => {
      const last = rows.length - 1, [first, end] = inSight();
      const next = { ArrowRight: at < 0 ? first : Math.min(last, end - 1, at + 1), ArrowLeft: Math.max(0, first, at - 1), Home: first, End: end - 1 }[event.key];
      if (event.key === "Escape") whole();
      if (next === undefined) return;
      event.preventDefault();
      point(glass, cross, next);
      tipAt(glass);
    });
  }

  reset.addEventListener("click", whole);
  height.addEventListener("change", () => { draw(); keep(); });
  stretch.addEventListener("change", () => {
    const one = bands[stretch.value];
    if (!one) return whole();
    const spare = (one.until - one.from) * 0.03 || 1;
    show(one.from - spare, one.until + spare);
  });
  legend.append(...parts.map((part, i) => html("li", {}, html("i", { class: "k-" + spec.keys[i] }), part.label)),
    ...(band ? [html("li", {}, html("i", { class: "band" }), band.label + "s")] : []));
  choices(bar, table, spec, choose);
  bar.append(zoom, html("label", {}, "Height ", height), reset);
  Kept.hold(sight, write);
  return (now) => { width = now; draw(); };
});
