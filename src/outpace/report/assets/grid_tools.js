/* SPDX-License-Identifier: Apache-2.0 */
/* What stands above a table: search, columns, filters by column, what to copy. */
const GridTools = (() => {
  const FEW = 5, TABS = 4, SHORT = 24; // entries that are tabs, and their characters

  function count(grid) {
    const element = Dom.html("span", { class: "count" });
    const number = (n) => n.toLocaleString("en-US");
    const show = () => {
      const some = grid.rows.length !== grid.count ? number(grid.rows.length) + " of " : "";
      element.textContent = some + number(grid.count) + (grid.count === 1 ? " row" : " rows");
    };
    grid.box.addEventListener("chosen", show);
    return element;
  }

  function search(grid) {
    const field = Dom.html("input");
    field.type = "search";
    field.placeholder = "Filter rows";
    field.setAttribute("aria-label", "Filter rows of " + grid.box.dataset.title);
    let wait = 0;
    field.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(() => { grid.words = field.value; grid.choose(); }, 120);
    });
    grid.box.addEventListener("written", () => { field.value = grid.words; });
    return field;
  }

  function check(text, checked, action) {
    const label = Dom.html("label", { class: "check" }), field = Dom.html("input");
    field.type = "checkbox";
    field.checked = checked;
    field.addEventListener("change", () => action(field.checked));
    label.append(field, text);
    return label;
  }

  /* Which part of a picture the rows are limited to, and the way back to all. */
  function inside(grid) {
    const button = Dom.button("", "Show all rows again", () => grid.within(null));
    grid.box.addEventListener("chosen", () => {
      button.hidden = !grid.inside;
      button.textContent = grid.inside ? `in ${Units.shorten(grid.inside.name, 40)} ×` : "";
    });
    button.hidden = true;
    return button;
  }

  const titled = (grid, name) => grid.columns.find((c) => c.name === name).label;

  /* Which rows by the values of one column: tabs where they are few, else a list. */
  function picker(grid, name) {
    const texts = [...new Set(grid.columns.find((c) => c.name === name).texts)].sort((a, b) => Tables.compare(a, b, 1));
    const pick = (text) => {
      if (text === null) grid.picked.delete(name);
      else grid.picked.set(name, text);
      grid.choose();
    };
    if (texts.length < 2) return [];
    const label = titled(grid, name), written = (action) => grid.box.addEventListener("written", () => action(grid.picked.get(name)));
    if (texts.length <= TABS && texts.join("").length <= SHORT) {
      const { group, press } = Dom.tabs(label, ["All", ...texts], (i) => pick(i ? texts[i - 1] : null));
      written((text) => press(texts.indexOf(text) + 1));
      return [group];
    }
    const select = Dom.html("select", {}, Dom.html("option", { value: "" }, "all"), ...texts.map((text, i) => Dom.html("option", { value: i }, Units.shorten(text, 40))));
    select.addEventListener("change", () => pick(select.value === "" ? null : texts[select.value]));
    written((text) => { select.value = text === undefined ? "" : String(texts.indexOf(text)); });
    return [Dom.html("label", { class: "check" }, label, select)];
  }

  /* Sums by the values of a column, in the place of rows. */
  function grouping(grid) {
    const names = grid.by.filter((name) => new Set(grid.columns.find((c) => c.name === name).texts).size > 1);
    if (!names.length) return [];
    const select = Dom.html("select", {}, Dom.html("option", { value: "" }, "nothing"), ...names.map((name) => Dom.html("option", { value: name }, titled(grid, name).toLowerCase())));
    select.addEventListener("change", () => grid.group(select.value));
    grid.box.addEventListener("chosen", () => { select.value = grid.grouped; });
    return [Dom.html("label", { class: "check", title: "Sums by the values of a column; a click on a line, or Enter, shows its rows" }, "Group by", select)];
  }

  function columns(grid) {
    const menu = Dom.html("details", { class: "menu" }), title = Dom.html("summary", {}, "Columns");
    const list = Dom.html("div", { class: "choices" });
    const told = () => { title.textContent = "Columns" + (grid.shown.length < grid.columns.length ? ` ${grid.shown.length} of ${grid.columns.length}` : ""); };
    grid.columns.forEach((column, i) => {
      const choice = check(column.label, !column.hidden, (checked) => {
        column.hidden = !checked;
        grid.active[1] = 0;
        told();
        grid.layOut();
        grid.keep();
      });
      grid.box.addEventListener("written", () => { choice.firstChild.checked = !column.hidden; });
      choice.title = column.meaning;
      choice.firstChild.disabled = i === 0; // the column that names the rows stays
      list.append(choice);
    });
    told();
    grid.box.addEventListener("written", told);
    menu.append(title, list);
    menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { menu.open = false; title.focus(); }
    });
    document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
    return menu;
  }

  function filters(grid) {
    const button = Dom.button("Filter columns", "A filter for each column: words of a text, or > 5 ms, 10..20 of a number", () => {
      grid.filtering = !grid.filtering;
      if (!grid.filtering && grid.filters.size) { grid.filters.clear(); grid.choose(); }
      button.setAttribute("aria-pressed", String(grid.filtering));
      grid.drawHead();
      if (grid.filtering) grid.head.querySelector(".filters input").focus();
    });
    button.setAttribute("aria-pressed", "false");
    grid.box.addEventListener("written", () => {
      button.setAttribute("aria-pressed", String(grid.filtering));
      if (grid.widths) grid.drawHead();
    });
    return button;
  }

  /* Shown once a cell was picked: before, there is nothing to copy. Their room is kept: a table that moved under the pointer would miss the click. */
  function copies(grid) {
    const group = Dom.html("span", { class: "copies" });
    group.append(
      Dom.button("Copy cell", "Copy the whole text of the picked cell (Ctrl+C)", () => grid.copyCell()),
      Dom.button("Copy row", "Copy the picked row, with tabs between the cells", () => grid.copyRow()),
      Dom.button("Link to row", "Go to the address of the picked row (Enter)", () => grid.enter(grid.active[0])),
    );
    group.inert = true;
    grid.box.addEventListener("picked", () => { group.inert = false; });
    return group;
  }

  function add(grid) {
    const bar = grid.box.querySelector(".tools");
    const many = grid.count > FEW;
    if (many) bar.append(search(grid));
    bar.append(...(many ? grid.pickers.flatMap((name) => picker(grid, name)) : []), count(grid), inside(grid), ...(many ? grouping(grid) : []));
    if (grid.columns.length > 2) bar.append(columns(grid));
    if (many) bar.append(filters(grid));
    if (grid.aside?.some(Boolean)) {
      const toggle = check("Show " + grid.columns.find((c) => c.name === grid.box.dataset.aside).label.toLowerCase(), false, (checked) => { grid.showAside = checked; grid.choose(); });
      grid.box.addEventListener("written", () => { toggle.firstChild.checked = grid.showAside; });
      bar.append(toggle);
    }
    const save = () => {
      const { heads, values } = GridGroups.saved(grid);
      Tables.save(grid.box.dataset.file, heads, values);
    };
    bar.append(Dom.button("CSV", "Save the lines as shown (filtered, grouped and sorted), with all columns, as a CSV file", save), copies(grid));
    bar.hidden = false;
  }

  return { add };
})();
