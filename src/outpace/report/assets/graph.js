/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of stages as boxes: what feeds a stage stands above it, and the critical path is a thick line. */
Pictures.add("graph", (box, spec, table) => {
  const { html, svg } = Dom, { column, textWidth, choices, tipAt } = Pictures;
  const BAR = 15, GAP = 26, BESIDE = 28, ARROW = 7, PHONE = 700, INDENT = 18;
  const KEYS = ["k-cycle-0", "k-cycle-2"];
  const MARK = { bottleneck: "◀ bottleneck", critical: "● critical path" };
  const ids = column(table, spec.x).values;
  const [parents, labels, roles, ...said] = spec.series.map((name) => column(table, name));
  const texts = said.filter((c) => c.unit === "text"), flags = said.filter((c) => c.unit === "bool");
  const counts = said.filter((c) => c.unit === "count"), numbers = said.filter((c) => !Units.isText(c.unit) && c.unit !== "count");
  const hidden = new Set([spec.x, parents.name, ...spec.choices]);
  const told = table.columns.filter((c) => !hidden.has(c.name)).map((c) => column(table, c.name));

  const bar = html("div", { class: "controls" });
  const picture = svg("svg", { role: "list", "aria-label": spec.title });
  box.append(bar, html("div", { class: "scroll" }, picture));
  let rows = [], width = 0;

  /* Depth and column of every row. The first branch stays below its parent: the one with the bottleneck, or else the critical one. */
  function place() {
    const byId = new Map(rows.map((row) => [ids[row], row])), below = new Map(rows.map((row) => [row, []]));
    const roots = rows.filter((row) => {
      const parent = byId.get(parents.values[row]);
      if (parent === undefined || parent === row) return true;
      below.get(parent).push(row);
      return false;
    });
    const weight = new Map(), order = [];
    const visit = (starts) => {
      const stack = [...starts].reverse().map((row) => [row, 0]);
      while (stack.length) {
        const [row, depth] = stack.pop();
        if (weight.has(row)) continue;
        weight.set(row, { bottleneck: 2, critical: 1 }[roles.values[row]] || 0);
        order.push({ row, depth });
        stack.push(...below.get(row).map((child) => [child, depth + 1]).reverse());
      }
    };
    visit(roots);
    visit(rows); // what only a circle holds
    for (const { row } of [...order].reverse()) for (const child of below.get(row)) weight.set(row, Math.max(weight.get(row), weight.get(child)));
    const columns = new Map();
    let last = -1;
    for (const { row } of order) {
      if (!columns.has(row)) columns.set(row, ++last);
      const first = [...below.get(row)].sort((a, b) => weight.get(b) - weight.get(a))[0];
      if (first !== undefined && !columns.has(first)) columns.set(first, columns.get(row));
    }
    const placed = new Map(order.map(({ row, depth }) => [row, { depth, column: columns.get(row), line: 0 }]));
    if (last > 0 && width < PHONE) one(order.filter(({ depth }) => depth === 0).map(({ row }) => row), below, placed);
    return { placed, byId, count: last + 1 };
  }

  /* On a phone all boxes stand one below the other: the first branch right above what it feeds, the others above it and moved to the right. */
  function one(roots, below, placed) {
    const seen = new Set(), stack = [...roots].reverse();
    while (stack.length) {
      const row = stack.pop();
      if (seen.has(row)) continue;
      placed.get(row).line = seen.size;
      seen.add(row);
      stack.push(...[...below.get(row)].sort((a, b) => placed.get(b).column - placed.get(a).column));
    }
  }

  const tip = (row) => told.filter((c) => c.values[row] !== null && c.values[row] !== "").map((c) => c.label + " " + c.shown(row)).join("\n");

  const even = (text, size) => text.length * size * 0.61; // of letters of one width, as places have them

  function cut(text, size, room, widthOf = textWidth) {
    let most = text.length;
    while (most > 4 && widthOf(Units.shorten(text, most), size) > room) most -= 1;
    return Units.shorten(text, most);
  }

  /* A box: name, place in the source and marks; beside or below them a bar per number, all of one unit to one scale. */
  function node(row, x, y, shape, scales) {
    const role = roles.values[row], mark = MARK[role] || "", source = texts.map((c) => c.shown(row)).filter(Boolean).join(" ");
    const more = [...flags.filter((c) => c.values[row]).map((c) => c.label), ...counts.map((c) => c.label + " " + c.shown(row))].join(" · ").toLowerCase();
    const group = svg("g", { class: "node " + (MARK[role] ? role : "other"), role: "listitem", tabindex: 0, "data-tip": tip(row), "aria-label": tip(row), transform: `translate(${x} ${y})` },
      svg("rect", { class: "box", x: 0.5, y: 0.5, width: shape.width - 1, height: shape.height - 1, rx: 5 }),
      svg("text", { class: "name", x: 10, y: 19 }, cut(labels.shown(row), 13, shape.text - 14)),
      svg("text", { class: "source", x: 10, y: 35 }, cut([source, more].filter(Boolean).join(" · "), 11, shape.text - 14, even)));
    if (mark) group.append(svg("text", shape.beside ? { class: "mark", x: 10, y: 51 } : { class: "mark", x: shape.width - 10, y: 19, "text-anchor": "end" }, mark));
    const left = shape.beside ? shape.text : 10, room = shape.width - left - 10, name = 100, value = 74;
    scales.forEach(({ number, most }, i) => {
      const top = (shape.beside ? 7 : 44) + i * BAR, known = number.values[row];
      const length = most && known ? Math.max(1, (known / most) * (room - name - value)) : 0;
      const key = i === 0 && role === "bottleneck" ? "k-input" : KEYS[numbers.indexOf(number)] || "k-all_others";
      group.append(
        svg("text", { class: "what", x: left, y: top + 11 }, cut(number.label, 11.5, name - 8)),
        svg("rect", { class: key, x: left + name, y: top + 2, width: length.toFixed(1), height: BAR - 5, rx: 1.5 }),
        svg("text", { class: "value", x: shape.width - 10, y: top + 11, "text-anchor": "end" }, number.shown(row)));
    });
    group.addEventListener("focus", () => { if (group.matches(":focus-visible")) tipAt(group); });
    group.addEventListener("blur", () => tipAt(null));
    return group;
  }

  /* Down out of a box and into the one that it feeds. */
  function edge(from, to, thick) {
    const end = to.y - ARROW, middle = end - 8;
    return svg("g", { class: thick ? "edge thick" : "edge" },
      svg("path", { d: from.x === to.x ? `M${from.x} ${from.y}V${end}` : `M${from.x} ${from.y}V${middle}H${to.x + (from.x > to.x ? 14 : -14)}L${to.x + (from.x > to.x ? 6 : -6)} ${end}` }),
      svg("path", { class: "head", d: from.x === to.x ? `M${to.x - 5} ${end}h10l-5 ${ARROW}z` : `M${to.x + (from.x > to.x ? 2 : -12)} ${end}h10l${from.x > to.x ? -5 : 5} ${ARROW}z` }));
  }

  /* Down beside the boxes in between, and from the side into the one that it feeds. */
  function beside(from, to, thick) {
    return svg("g", { class: thick ? "edge thick" : "edge" },
      svg("path", { d: `M${from.x} ${from.y}V${to.y}H${to.x + ARROW}` }),
      svg("path", { class: "head", d: `M${to.x + ARROW} ${to.y - 5}v10l-${ARROW} -5z` }));
  }

  function shapeOf(count, bars, narrow) {
    const high = 52 + bars * BAR, wide = Math.floor(width / count - (count > 1 ? BESIDE : 0));
    if (narrow) return { width: width - 6 - (count - 1) * INDENT, height: high };
    if (width >= count * (570 + BESIDE)) return { beside: true, width: Math.min(700, wide), height: 60, text: 290 };
    return { width: Math.max(280, Math.min(340, wide)), height: high };
  }

  function draw() {
    const { placed, byId, count } = place(), narrow = [...placed.values()].some((p) => p.line > 0);
    const level = (p) => (narrow ? p.line : p.depth), deepest = Math.max(0, ...[...placed.values()].map(level));
    const known = numbers.filter((number) => rows.some((row) => number.values[row] !== null));
    const most = (unit) => Math.max(0, ...known.filter((c) => c.unit === unit).flatMap((c) => rows.map((row) => c.values[row] || 0)));
    const scales = known.map((number) => ({ number, most: most(number.unit) }));
    const shape = shapeOf(count, scales.length, narrow);
    shape.text ||= shape.width;
    const apart = narrow ? INDENT : shape.width + BESIDE;
    const x = (p) => p.column * apart, y = (p) => (deepest - level(p)) * (shape.height + GAP);
    const edges = [], nodes = [], listed = [...placed];
    if (narrow) listed.sort(([, a], [, b]) => a.line - b.line);
    listed.forEach(([row, p]) => {
      nodes.push(node(row, x(p), y(p), shape, scales));
      const above = byId.get(parents.values[row]), parent = placed.get(above);
      if (!parent || parent.depth >= p.depth) return;
      const middle = shape.width / 2, thick = roles.values[row] in MARK && roles.values[above] in MARK;
      if (narrow && p.column !== parent.column) edges.push(beside({ x: x(p) + shape.width - INDENT / 2, y: y(p) + shape.height }, { x: x(parent) + shape.width, y: y(parent) + shape.height / 2 }, thick));
      else edges.push(edge({ x: x(p) + middle, y: y(p) + shape.height }, { x: x(parent) + middle, y: y(parent) }, thick));
    });
    picture.setAttribute("width", (count - 1) * apart + shape.width);
    picture.setAttribute("height", (deepest + 1) * (shape.height + GAP) - GAP);
    picture.replaceChildren(...edges, ...nodes.reverse());
  }

  choices(bar, table, spec, (left) => { rows = left; if (width) draw(); });
  return (now) => { width = now; draw(); };
});
