/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph to click through, root at the top. Mouse: click zooms. Keys: arrows move, Enter zooms, Escape or Backspace goes up. */
Pictures.add("flame", (box, spec, table) => {
  const { html, svg } = Dom, { column, textWidth, tipAt } = Pictures;
  const ROW = 22, FONT = 11, LETTER = 6.2, THINNEST = 0.5, LABELLED = 18, COLOURS = 6;
  const [parent, label, size, ...more] = spec.series.map((name) => column(table, name));
  const state = column(table, spec.state), beside = column(table, spec.aside);
  const rows = { ids: column(table, spec.x).values, parents: parent.values, names: label.values, sizes: size.values, aside: beside?.values };
  const write = (value) => Units.humanize(value, size.unit);
  const share = (value, whole) => Units.humanize(whole ? value / whole : 0, "fraction");

  const GREY = "all_others"; // what has it is nothing to look at
  const word = (one) => (state && one.rows.length ? state.values[one.rows[0]] : "");

  let tree = FlameTree.grow(rows, true), top = tree.root, at = tree.root, width = 0, cells = [], found = null;

  const named = (names) => (names.length > 3 ? names[0] + " to " + names[names.length - 1] : names.join(", "));
  const search = html("input", { type: "search", placeholder: "Search names", "aria-label": "Search names in the flame graph" });
  const matches = html("span", { class: "matches", "aria-live": "polite" });
  const merge = html("input", { type: "checkbox" });
  const replicas = html("label", {}, merge, " Merge replicas (" + named(tree.replicas) + ")");
  const aside = html("input", { type: "checkbox" });
  const toggle = html("label", {}, aside, " Show " + beside?.label.toLowerCase());
  const reset = html("button", { type: "button" }, "Reset zoom");
  const crumbs = html("p", { class: "crumbs" });
  const picture = svg("svg", { role: "tree", tabindex: 0, "aria-label": spec.title + ". Arrow keys move, Enter zooms in, Escape goes up." });
  merge.checked = true;
  replicas.hidden = tree.replicas.length === 0;
  replicas.title = "Adds up what has the same name in every replica (the first one often has no name of its own). Off: side by side.";
  toggle.hidden = !beside?.values.some(Boolean);
  box.append(html("div", { class: "controls" }, search, matches, replicas, toggle, reset), crumbs, picture);

  const name = (one) => (FlameTree.path(one).join("/") || "all") + (word(one) && ": " + word(one));

  function tip(one) {
    const lines = [name(one), size.label + " " + write(one.size) + ", " + share(one.size, top.size) + " of what is shown"];
    if (top !== tree.root) lines[1] += ", " + share(one.size, tree.root.size) + " of all";
    lines.push("Self " + write(one.self) + ", " + share(one.self, top.size) + " of what is shown");
    if (one.rows.length > 1) lines.push("Sum of " + one.rows.length + " replicas");
    else for (const row of one.rows) lines.push(...more.filter((c) => c.values[row] !== null).map((c) => c.label + " " + c.shown(row)));
    return lines.join("\n");
  }

  /* Numbers only for the cell that somebody looks at: to write them for every cell takes longer than to draw. */
  function describe(group, one) {
    group.dataset.tip = tip(one);
    group.setAttribute("aria-label", group.dataset.tip.replaceAll("\n", ", "));
  }

  function text(cell) {
    const { one } = cell, room = cell.width - 8;
    if (cell.width < LABELLED) return "";
    const whole = one.parent ? one.name : "all: " + write(one.size);
    const marked = word(one) && spec.colors[word(one)] !== GREY ? whole + ": " + word(one) : whole;
    for (const each of [marked, whole]) if (textWidth(each, FONT) <= room) return each;
    return FlameTree.label(whole, one.parent ? one.parent.children.map((other) => other.name) : [], Math.floor(room / LETTER));
  }

  const id = (one) => spec.id + "-" + one.at;

  function shape(cell) {
    const { one, depth } = cell, written = text(cell);
    const kind = "k-" + (state ? spec.colors[word(one)] || GREY : one.colour < 0 ? GREY : "cycle-" + (one.colour % COLOURS));
    const dim = cell.around || (found && !found.hits.has(one)), hit = cell.width < 4 ? "hit thin" : "hit";
    const group = svg("g", { id: id(one), role: "treeitem", "aria-level": depth + 1, "aria-label": name(one), class: dim ? "dim" : found ? hit : "" },
      svg("rect", { x: cell.left.toFixed(2), y: depth * ROW, width: Math.max(THINNEST, cell.width - (cell.width > 3 ? 1 : 0)).toFixed(2), height: ROW - 1, class: kind }));
    if (written) group.append(svg("text", { x: (cell.left + 4).toFixed(1), y: depth * ROW + 15 }, written));
    group.addEventListener("pointerover", () => describe(group, one));
    group.addEventListener("click", () => { zoom(one === top && one.parent ? one.parent : one); });
    return group;
  }

  function draw() {
    cells = FlameTree.layout(top, width, THINNEST);
    const height = (1 + cells.reduce((most, cell) => Math.max(most, cell.depth), 0)) * ROW;
    picture.setAttribute("width", width);
    picture.setAttribute("height", height);
    picture.replaceChildren(...cells.map(shape));
    mark();
    const way = [];
    for (let one = top; one; one = one.parent) way.unshift(one);
    crumbs.hidden = reset.hidden = way.length === 1;
    crumbs.replaceChildren(...way.flatMap((one, i) => {
      const button = html("button", { type: "button" }, one.name);
      if (one === top) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => { zoom(one); picture.focus(); });
      return i ? [" › ", button] : [button];
    }), html("span", {}, " " + write(top.size) + ", " + share(top.size, tree.root.size) + " of all"));
  }

  function mark() {
    picture.querySelector(".on")?.classList.remove("on");
    const group = document.getElementById(id(at));
    if (!group) return;
    group.classList.add("on");
    describe(group, at);
    picture.setAttribute("aria-activedescendant", group.id);
    if (picture === document.activeElement && picture.matches(":focus-visible")) tipAt(group);
  }

  function zoom(one) {
    top = at = one;
    find();
    keep();
    follow();
  }

  /* The table of this picture, where the view has it, shows the same part. */
  function follow() {
    const shown = box.closest(".view")?.querySelector(`[data-table="${CSS.escape(spec.table)}"]`);
    if (!shown || (top === tree.root && !Grid.has(shown))) return;
    Grid.of(shown).within(top === tree.root ? null : { rows: new Set(FlameTree.rowsOf(top)), name: top.name });
  }

  /* In the address: what is zoomed to, by the first of its rows, what is searched, and which nodes there are. */
  function keep() {
    const zoomed = top === tree.root ? "" : String(rows.ids[top.rows[0]]);
    Kept.put(spec.id, { zoom: zoomed, search: search.value, apart: merge.checked ? "" : "1", aside: aside.checked ? "1" : "" });
  }

  /* Another tree of the same rows, zoomed to the one with that id, if it is there. */
  function regrow(zoomed) {
    tree = FlameTree.grow(rows, merge.checked, aside.checked);
    let wanted = tree.root;
    FlameTree.each(tree.root, (one) => { if (one.rows.length && String(rows.ids[one.rows[0]]) === zoomed) wanted = one; });
    zoom(wanted);
  }

  function restore(kept) {
    search.value = kept.search || "";
    merge.checked = kept.apart !== "1";
    aside.checked = kept.aside === "1";
    regrow(kept.zoom);
  }

  function find() {
    const wanted = search.value.trim();
    found = wanted ? FlameTree.search(top, wanted) : null;
    const count = found ? found.hits.size : 0;
    matches.textContent = found ? count.toLocaleString("en-US") + (count === 1 ? " match, " : " matches, ") + write(found.size) + ", " + share(found.size, top.size) + " of what is shown" : "";
    draw();
  }

  /* The next cell for an arrow key: what is above or below it, or beside it on its level. */
  function next(key) {
    const here = cells.find((cell) => cell.one === at);
    if (!here) return cells[0].one;
    if (key === "ArrowUp") return at.parent;
    if (key === "ArrowDown") return here.around ? cells.find((cell) => cell.depth === here.depth + 1).one : cells.find((cell) => cell.one.parent === at)?.one;
    const level = cells.filter((cell) => cell.depth === here.depth).sort((a, b) => a.left - b.left);
    return level[level.indexOf(here) + (key === "ArrowRight" ? 1 : -1)]?.one;
  }

  picture.addEventListener("keydown", (event) => {
    const { key } = event;
    if (key === "Enter" || key === " ") zoom(at);
    else if (key === "Escape" || key === "Backspace") zoom(top.parent || top);
    else if (key === "Home") zoom(tree.root);
    else if (key.startsWith("Arrow")) { at = next(key) || at; mark(); } else return;
    event.preventDefault();
  });
  picture.addEventListener("focus", mark);
  picture.addEventListener("blur", () => tipAt(null));
  reset.addEventListener("click", () => { zoom(tree.root); picture.focus(); });
  search.addEventListener("input", () => { find(); keep(); });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { search.value = ""; find(); keep(); }
    if (event.key !== "Enter" || !found || !found.hits.size) return;
    at = [...found.hits].reduce((best, one) => (one.size > best.size ? one : best));
    picture.focus();
  });
  merge.addEventListener("change", () => regrow());
  aside.addEventListener("change", () => regrow(String(rows.ids[top.rows[0]])));

  Kept.hold(spec.id, restore);
  return (now) => { width = now; draw(); };
});
