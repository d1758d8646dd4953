/* SPDX-License-Identifier: Apache-2.0 */
/* A static table becomes one to sort, filter, walk through and copy from when it first has a width. Long tables draw only the rows in sight. */
const Grid = (() => {
  const LINE = 16, GAP = 9, BAR = 17, FEW = 8, MANY = 12, NOTHING = "nothing", MOST_HIGH = 480, ALL_DRAWN = 300, AHEAD = 15;
  const grids = new Map();

  class Table {
    constructor(box) {
      const { columns } = Tables.load(box.dataset.table);
      this.box = box;
      this.route = box.dataset.table;
      const named = (what) => (box.dataset[what] || "").split(" ").filter(Boolean);
      this.hidden = named("hidden");
      this.pickers = named("pick");
      this.by = named("by");
      this.sums = named("sums");
      this.columns = box.dataset.order.split(" ").map((name) => this.column(columns, name));
      this.programs = document.body.dataset.programs && box.dataset.table.endsWith("hlo_ops") ? this.columns.find((c) => c.name === "program") : undefined;
      this.count = this.columns[0].values.length;
      this.aside = columns.some((c) => c.name === box.dataset.aside) ? Tables.values(Tables.load(this.route), box.dataset.aside) : null;
      this.showAside = false;
      this.picked = new Map(); // of a column, the only value whose rows are shown
      this.grouped = ""; // the column whose values the lines sum up
      this.asked = null; // the one that the reader chose, "" for none; null: as the table opens
      this.whole = false; // whether the reader opened the table beyond its first lines
      this.opened = new Set();
      this.filters = new Map();
      this.words = "";
      this.filtering = false; // whether a row of filters, one by column, stands below the heads
      this.sorted = null;
      this.active = [0, 0];
      this.high = LINE + GAP;
      this.inside = null; // rows that a picture of this table is zoomed to, with what it calls them
      this.frame();
      this.coming = typeof Rest === "undefined" ? null : Rest.of(this); // a file has all rows that it will have
      if (!this.coming) GridTools.add(this);
      this.foot();
      this.choose();
      Kept.hold(this.route, (chosen) => this.write(chosen));
      Dom.whenWide(this.live, () => this.layOut());
    }

    column(columns, name) {
      const spec = columns.find((c) => c.name === name);
      const values = Tables.values(Tables.load(this.route), name);
      const texts = values.map((value) => Units.humanize(value, spec.unit)), right = !Units.isText(spec.unit);
      const prose = !right && texts.length <= ALL_DRAWN && GridLayout.isProse(texts);
      return { ...spec, values, texts, right, prose, hidden: this.hidden.includes(name) };
    }

    frame() {
      this.live = this.box.querySelector(".live");
      this.scroller = Dom.html("div", { class: "scroll" });
      this.table = Dom.html("table", { class: "rows grid" });
      this.table.setAttribute("aria-label", this.box.dataset.title);
      this.columnGroup = Dom.html("colgroup");
      this.head = Dom.html("thead");
      this.body = Dom.html("tbody");
      this.table.append(this.columnGroup, this.head, this.body);
      this.scroller.append(this.table);
      this.live.append(this.scroller);
      this.live.hidden = false;
      this.box.querySelector(".still").hidden = true;
      this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
      this.scroller.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
      this.body.addEventListener("keydown", (event) => this.key(event));
      this.body.addEventListener("mousedown", (event) => this.pick(event.target));
      this.body.addEventListener("click", (event) => { if (event.target.closest("tr.group")) this.enter(Number(event.target.closest("tr").dataset.at)); });
      this.body.addEventListener("focusin", (event) => this.pick(event.target));
    }

    get few() { return !this.whole && this.lines.length > MANY; }

    get scrolls() { return this.few || this.lines.length * this.high > MOST_HIGH; }

    /* How high the table is at most: its first lines until the reader opens it. Lines of prose differ in height. */
    get limit() {
      const last = this.lines.length <= ALL_DRAWN ? this.body.rows[FEW - 1] : null;
      const bar = this.scroller.offsetHeight - this.scroller.clientHeight; // below them, where the table is wide
      return this.few ? (last ? last.offsetTop + last.offsetHeight : this.head.offsetHeight + FEW * this.high) + bar : MOST_HIGH;
    }

    /* The way from the first lines to all of them. */
    foot() {
      this.opener = Dom.button("", "A higher table: the first lines are in sight, the others below them", () => {
        this.whole = true;
        this.layOut();
        this.cell(this.active)?.focus({ preventScroll: true });
      });
      this.opener.classList.add("opener");
      this.live.after(this.opener);
    }

    get shown() { return this.columns.filter((c) => !c.hidden); }

    /* Which rows are there, and in which order. */
    choose() {
      const tests = [...this.filters].map(([name, text]) => Tables.asks(text, this.columns.find((c) => c.name === name)));
      tests.push(Tables.holds(this.words, this.columns));
      for (const [name, text] of this.picked) {
        const { texts } = this.columns.find((c) => c.name === name);
        tests.push((row) => texts[row] === text);
      }
      if (this.aside && !this.showAside) tests.push((row) => !this.aside[row]);
      if (this.inside) tests.push((row) => this.inside.rows.has(row));
      this.rows = Array.from({ length: this.count }, (_, row) => row).filter((row) => tests.every((test) => test(row)));
      if (this.sorted) {
        const { values } = this.columns.find((c) => c.name === this.sorted.name);
        this.rows.sort((a, b) => Tables.compare(values[a], values[b], this.sorted.sign) || a - b);
      }
      this.relist();
      this.keep();
      this.box.dispatchEvent(new CustomEvent("chosen"));
    }

    keep() { Kept.put(this.route, this.chosen()); }

    /* What a reader chose, as it is kept in the address. */
    chosen() {
      const { columns, sorted } = this, changed = columns.some((c) => c.hidden !== this.hidden.includes(c.name));
      const all = { words: this.words, sort: sorted ? (sorted.sign < 0 ? "-" : "") + sorted.name : "", by: this.asked === "" ? NOTHING : this.asked || "", aside: this.showAside ? "1" : "" };
      all.columns = changed ? this.shown.map((c) => c.name).join(",") : "";
      for (const { name } of columns) {
        all["has." + name] = this.filters.get(name) || "";
        all["is." + name] = this.picked.get(name) || "";
      }
      return all;
    }

    /* Shows what was kept; what is not among it is as it was at first. */
    write(chosen) {
      const known = (name) => this.columns.some((c) => c.name === name), shown = chosen.columns?.split(",");
      const sort = chosen.sort?.replace(/^-/, ""), given = (begin) => new Map(this.columns.flatMap(({ name }) => (chosen[begin + name] ? [[name, chosen[begin + name]]] : [])));
      this.words = chosen.words || "";
      this.sorted = known(sort) ? { name: sort, sign: chosen.sort.startsWith("-") ? -1 : 1 } : null;
      this.asked = chosen.by === NOTHING ? "" : this.by.includes(chosen.by) ? chosen.by : null;
      this.showAside = chosen.aside === "1";
      this.filters = given("has.");
      this.picked = given("is.");
      this.filtering ||= this.filters.size > 0;
      this.columns.forEach((c, i) => { c.hidden = i > 0 && (shown ? !shown.includes(c.name) : this.hidden.includes(c.name)); });
      this.opened.clear();
      const wide = this.widths;
      this.widths = null; // those of other columns
      this.choose();
      if (wide) this.layOut();
      this.box.dispatchEvent(new CustomEvent("written"));
    }

    /* Only the rows that a picture of this table shows; null for all. */
    within(inside) {
      this.inside = inside;
      this.choose();
      this.box.dispatchEvent(new CustomEvent("written"));
    }

    /* Which lines are drawn: rows, or groups of them. */
    relist() {
      this.grouped = this.asked ?? GridGroups.initial(this, FEW);
      this.lines = GridGroups.lines(this);
      this.table.setAttribute("role", this.grouped ? "treegrid" : "grid");
      this.active = [Math.min(this.active[0], Math.max(0, this.lines.length - 1)), this.active[1]];
      this.drawn = "";
      if (this.widths) this.draw();
    }

    group(name) {
      this.asked = name;
      this.opened.clear();
      this.active = [0, 0];
      this.scroller.scrollTop = 0;
      this.choose();
    }

    layOut() {
      const columns = this.shown, number = String(this.count).length * 8 + 18, room = this.live.clientWidth - number;
      const lines = GridLayout.lines(columns[0], room);
      this.nameLines = lines;
      this.high = lines * LINE + GAP;
      this.table.style.setProperty("--high", this.high + "px");
      this.table.classList.toggle("tall", lines > 1);
      const bar = this.scrolls ? BAR : 0;
      this.widths = GridLayout.fit(columns, room - bar, lines);
      this.columnGroup.replaceChildren(...[number, ...this.widths].map((width) => {
        const col = Dom.html("col");
        col.style.width = width + "px";
        return col;
      }));
      const whole = [number, ...this.widths].reduce((a, b) => a + b, 0);
      this.table.style.width = whole + "px";
      this.scroller.style.width = whole + bar + "px";
      this.table.style.setProperty("--number", number + "px");
      this.drawHead();
      this.relist();
    }

    drawHead() {
      const names = Dom.html("tr"), filters = Dom.html("tr", { class: "filters" });
      names.append(Dom.html("th", { class: "no" }, "#"));
      filters.append(Dom.html("td", { class: "no" }));
      this.shown.forEach((column, i) => {
        const side = (column.right ? "v" : "t") + (i === 0 ? " first" : "");
        const cell = Dom.html("th", { class: side });
        const sort = Dom.button(column.label, column.meaning, () => this.sort(column));
        const sign = this.sorted?.name === column.name ? this.sorted.sign : 0;
        cell.setAttribute("aria-sort", sign ? (sign > 0 ? "ascending" : "descending") : "none");
        cell.append(sort);
        names.append(cell);
        const place = Dom.html("td", { class: side }), field = Dom.html("input");
        field.type = "search";
        field.value = this.filters.get(column.name) || "";
        field.placeholder = column.right ? ("> 5 " + Tables.usualUnit(column)).trim() : "contains";
        field.setAttribute("aria-label", "Filter " + column.label);
        field.addEventListener("input", () => {
          if (field.value.trim()) this.filters.set(column.name, field.value);
          else this.filters.delete(column.name);
          this.choose();
        });
        place.append(field);
        filters.append(place);
      });
      filters.hidden = !this.filtering;
      this.head.replaceChildren(names, filters);
    }

    sort(column) {
      const first = column.right ? -1 : 1, sign = this.sorted?.name === column.name ? this.sorted.sign : 0;
      this.sorted = sign === 0 ? { name: column.name, sign: first } : sign === first ? { name: column.name, sign: -first } : null;
      const focused = this.shown.indexOf(column);
      this.choose();
      this.drawHead();
      this.head.querySelectorAll("th button")[focused].focus({ preventScroll: true });
    }

    scrolled() {
      const { scrollLeft, scrollWidth, clientWidth, offsetWidth } = this.scroller;
      this.live.style.setProperty("--bar", offsetWidth - clientWidth + "px");
      this.live.classList.toggle("more-right", scrollLeft + clientWidth < scrollWidth - 2);
      this.live.classList.toggle("more-left", scrollLeft > 2);
      this.draw();
    }

    /* The wheel moves the page, unless the reader works in the table: a page of tables would stop at each of them. */
    wheel(event) {
      const inside = this.scroller.contains(document.activeElement) || event.ctrlKey || event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (inside || this.scroller.scrollHeight <= this.scroller.clientHeight) return;
      event.preventDefault();
      scrollBy(0, event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? this.high : 1));
    }

    /* The rows in sight, between two rows as high as all that are not. */
    draw() {
      const all = this.lines.length <= ALL_DRAWN;
      const from = all ? 0 : Math.max(0, Math.floor(this.scroller.scrollTop / this.high) - AHEAD);
      const to = all ? this.lines.length : Math.min(this.lines.length, from + Math.ceil(MOST_HIGH / this.high) + 2 * AHEAD);
      if (this.drawn === from + ":" + to) return;
      const focused = this.body.contains(document.activeElement);
      this.drawn = from + ":" + to;
      const rows = [this.space(from)];
      for (let at = from; at < to; at += 1) rows.push(typeof this.lines[at] === "object" ? GridGroups.row(this, this.lines[at], at) : this.row(at));
      rows.push(this.space(this.lines.length - to));
      if (!this.lines.length) rows.push(this.none());
      this.body.replaceChildren(...rows.filter(Boolean));
      this.scroller.style.maxHeight = this.scrolls ? this.limit + "px" : "";
      this.opener.textContent = "All " + this.lines.length.toLocaleString("en-US") + (this.grouped ? " lines" : " rows");
      this.opener.hidden = !this.few;
      this.mark(focused);
      this.scrolled();
    }

    space(rows) {
      if (!rows) return null;
      const row = Dom.html("tr", { class: "space" }), cell = Dom.html("td");
      row.setAttribute("aria-hidden", "true");
      cell.colSpan = this.shown.length + 1;
      cell.style.height = rows * this.high + "px";
      row.append(cell);
      return row;
    }

    none() {
      const row = Dom.html("tr"), cell = Dom.html("td", { class: "muted" }, "no row matches");
      cell.colSpan = this.shown.length + 1;
      row.append(cell);
      return row;
    }

    row(at) {
      const index = this.lines[at], row = Dom.html("tr");
      row.dataset.at = at;
      if (index === this.target) row.className = "target";
      const number = Dom.html("th", { class: "no" }), link = Dom.html("a", {}, String(index + 1));
      link.href = "#" + this.route + "/" + (index + 1);
      link.tabIndex = -1;
      link.setAttribute("aria-label", "Link to row " + (index + 1));
      number.append(link);
      row.append(number);
      this.shown.forEach((column, i) => {
        const cell = Dom.html("td", { class: (column.right ? "v" : "t") + (i === 0 ? " first" : "") + (column.prose ? " prose" : "") }, column.short[index]);
        cell.tabIndex = -1;
        if (i === 0 && this.nameLines > 1) this.breakName(cell, column.short[index]);
        if (!column.right && !column.prose && (column.short[index] !== column.texts[index] || GridLayout.pixels(column.texts[index].length) > this.widths[i]))
          cell.dataset.tip = column.texts[index];
        if (column.name === "op" && this.programs) cell.replaceChildren(this.instruction(index, column));
        row.append(cell);
      });
      return row;
    }

    /* On a server, an instruction of a compiled program leads to what is around it. */
    instruction(index, column) {
      const query = new URLSearchParams({ program: this.programs.texts[index], op: column.texts[index] });
      return Dom.html("a", { href: `${document.body.dataset.programs}?${query}`, tabindex: "-1" }, column.short[index]);
    }

    breakName(cell, name) {
      if (GridLayout.characters(this.widths[0]) >= name.length) return;
      const at = GridLayout.joint(name, this.widths[0]);
      if (at) cell.replaceChildren(name.slice(0, at), Dom.html("wbr"), name.slice(at));
      else cell.classList.add("unjointed");
    }

    /** @param {number[]} place */
    cell([at, column]) {
      return this.body.querySelector(`tr[data-at="${at}"]`)?.cells[column + 1];
    }

    /* One cell of the table is in the tab order: the arrow keys move it. */
    mark(focus) {
      this.body.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
      const cell = this.cell(this.active);
      if (!cell) return;
      cell.tabIndex = 0;
      if (focus) cell.focus({ preventScroll: true });
    }

    pick(target) {
      const cell = target.closest("td"), row = target.closest("tr");
      if (!cell || row?.dataset.at === undefined) return;
      this.active = [Number(row.dataset.at), cell.cellIndex - 1];
      this.mark(false);
      this.box.dispatchEvent(new CustomEvent("picked"));
    }

    key(event) {
      const page = Math.floor(this.scroller.clientHeight / this.high) - 2, [at, column] = this.active;
      const moves = {
        ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1],
        PageDown: [page, 0], PageUp: [-page, 0], Home: [0, -column], End: [0, this.shown.length],
      };
      if (event.key === "c" && (event.ctrlKey || event.metaKey) && !String(getSelection())) this.copyCell();
      else if (event.key === "Enter" && event.target.closest("td")) {
        const link = event.target.closest("td").querySelector("a");
        if (link) link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
        else this.enter(at);
      }
      else if (moves[event.key] && !event.ctrlKey && !event.altKey) this.go(at + moves[event.key][0], column + moves[event.key][1]);
      else return;
      event.preventDefault();
    }

    /* Opens a group, or goes to the address of a row. */
    enter(at) {
      const line = this.lines[at];
      if (typeof line === "object") GridGroups.toggle(this, line);
      else Routes.to(this.route + "/" + (line + 1));
    }

    go(at, column) {
      const within = (value, end) => Math.max(0, Math.min(end - 1, value));
      this.active = [within(at, this.lines.length), within(column, this.shown.length)];
      this.showRow(this.active[0]);
      this.mark(true);
      const cell = this.cell(this.active);
      if (cell && this.active[1] > 0) cell.scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    showRow(at) {
      const { scrollTop, clientHeight } = this.scroller, head = this.head.offsetHeight, top = at * this.high;
      if (top < scrollTop) this.scroller.scrollTop = top;
      else if (top + this.high > scrollTop + clientHeight - head) this.scroller.scrollTop = top + this.high - clientHeight + head + 14;
      this.draw();
    }

    copyCell() {
      const line = this.lines[this.active[0]], text = this.text(line, this.shown[this.active[1]]);
      Dom.copy(text, Units.shorten(text, 60));
    }

    copyRow() {
      const line = this.lines[this.active[0]];
      Dom.copy(this.shown.map((c) => this.text(line, c)).join("\t"), typeof line === "object" ? line.name : "row " + (line + 1));
    }

    text(line, column) {
      return typeof line === "object" ? GridGroups.text(this, line, column) : column.texts[line];
    }

    /* Brings a row into view by its number in the data; filters that hide it are taken away. */
    reveal(number) {
      const index = number - 1;
      if (!(index >= 0 && index < this.count)) return null;
      this.target = index;
      if (!this.rows.includes(index)) {
        this.filters.clear();
        this.words = "";
        this.picked.clear();
        this.inside = null;
        this.showAside ||= Boolean(this.aside?.[index]);
        this.choose();
        this.box.dispatchEvent(new CustomEvent("written"));
      }
      this.relist(); // a row that an address names ends the groups that the table opened with
      if (this.grouped) {
        this.opened.add(this.columns.find((c) => c.name === this.grouped).texts[index]);
        this.relist();
      }
      this.box.dispatchEvent(new CustomEvent("chosen"));
      this.active = [this.lines.indexOf(index), 0];
      this.drawn = "";
      if (!this.widths) this.layOut();
      this.showRow(this.active[0]);
      this.drawn = "";
      this.draw();
      return this.cell(this.active);
    }
  }

  function of(box) {
    if (!grids.has(box)) grids.set(box, new Table(box));
    return grids.get(box);
  }

  const has = (box) => grids.has(box);

  /* Tables are built when they come near the part of the page that is seen. */
  function start(part) {
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        seen.unobserve(entry.target);
        of(entry.target);
      }
    }, { rootMargin: "300px" });
    part.querySelectorAll("[data-table]").forEach((box) => seen.observe(box));
  }

  return { start, of, has };
})();
