/* What stands above a table: search, columns, filters by column, what to copy. */
const GridTools = (() => {
  const FEW = 5;

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
    grid.box.addEventListener("cleared", () => { field.value = ""; });
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

  function columns(grid) {
    const menu = Dom.html("details", { class: "menu" }), title = Dom.html("summary", {}, "Columns");
    const list = Dom.html("div", { class: "choices" });
    const draw = () => {
      title.textContent = "Columns" + (grid.shown.length < grid.columns.length ? ` ${grid.shown.length} of ${grid.columns.length}` : "");
      grid.layOut();
    };
    grid.columns.forEach((column, i) => {
      const choice = check(column.label, true, (checked) => {
        column.hidden = !checked;
        grid.active[1] = 0;
        draw();
      });
      choice.title = column.meaning;
      choice.firstChild.disabled = i === 0; // the column that names the rows stays
      list.append(choice);
    });
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
      button.setAttribute("aria-pressed", String(Boolean(grid.filtering)));
      grid.drawHead();
      if (grid.filtering) grid.head.querySelector(".filters input").focus();
    });
    button.setAttribute("aria-pressed", "false");
    grid.box.addEventListener("cleared", () => grid.drawHead());
    return button;
  }

  /* Shown once a cell was picked: before, there is nothing to copy. */
  function copies(grid) {
    const group = Dom.html("span", { class: "copies" });
    group.append(
      Dom.button("Copy cell", "Copy the whole text of the picked cell (Ctrl+C)", () => grid.copyCell()),
      Dom.button("Copy row", "Copy the picked row, with tabs between the cells", () => grid.copyRow()),
      Dom.button("Link to row", "Go to the address of the picked row (Enter)", () => { location.hash = grid.route + "/" + (grid.rows[grid.active[0]] + 1); }),
    );
    group.hidden = true;
    grid.box.addEventListener("picked", () => { group.hidden = false; });
    return group;
  }

  function add(grid) {
    const bar = grid.box.querySelector(".tools");
    if (grid.count > FEW) bar.append(search(grid));
    bar.append(count(grid));
    if (grid.columns.length > 2) bar.append(columns(grid));
    if (grid.count > FEW) bar.append(filters(grid));
    if (grid.aside?.some(Boolean)) {
      const toggle = check("Show " + grid.columns.find((c) => c.name === grid.box.dataset.aside).label.toLowerCase(), false, (checked) => { grid.showAside = checked; grid.choose(); });
      grid.box.addEventListener("cleared", () => { toggle.firstChild.checked = grid.showAside; });
      bar.append(toggle);
    }
    const file = grid.box.dataset.file;
    bar.append(copies(grid), Dom.button("CSV", "Save the rows as shown (filtered and sorted), with all columns, as a CSV file", () => Tables.save(file, grid.columns, grid.rows)));
    bar.hidden = false;
  }

  return { add };
})();
