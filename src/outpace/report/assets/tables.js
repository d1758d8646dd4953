/* Static tables become sortable, filterable ones when they come into view. Every text goes in as text, never as markup. */
const Tables = (() => {
  const PAGE_HEIGHT = 460;
  const FEW = 14;
  const ORDER = new Intl.Collator("en", { numeric: true });

  const load = (id) => JSON.parse(document.getElementById(id).textContent);

  function node(tag, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  /* Missing values come last in both directions. */
  function compare(a, b, _rowA, _rowB, _column, direction) {
    const missing = direction === "asc" ? 1 : -1;
    if (a === null) return b === null ? 0 : missing;
    if (b === null) return -missing;
    return typeof a === "number" && typeof b === "number" ? a - b : ORDER.compare(String(a), String(b));
  }

  /* Wide enough for every number and for the longest word of the heading, which may wrap. */
  function widthOf(spec, values) {
    const longest = (texts) => texts.reduce((most, text) => Math.max(most, text.length), 0);
    const cells = longest(values.map((value) => Units.humanize(value, spec.unit)));
    return Math.max(60, cells * 7.4 + 16, longest(spec.label.split(" ")) * 8.4 + 16, spec.label.length * 3.9 + 16);
  }

  function columnOf(spec, index, values) {
    const text = Units.isText(spec.unit);
    const width = matchMedia("(max-width: 860px)").matches ? 34 : 64;
    return {
      field: "c" + index,
      title: spec.name,
      titleFormatter: () => {
        const title = node("span", spec.label);
        title.title = spec.meaning;
        return title;
      },
      formatter: (cell) => {
        const whole = Units.humanize(cell.getValue(), spec.unit);
        const short = Units.shorten(whole, width);
        const span = node("span", short, text ? "name" : "");
        if (short !== whole) span.title = whole;
        return span;
      },
      hozAlign: text ? "left" : "right",
      headerHozAlign: text ? "left" : "right",
      sorter: compare,
      headerSortStartingDir: text ? "asc" : "desc",
      minWidth: 56,
      ...(text ? {} : { width: Math.round(widthOf(spec, values)) }),
    };
  }

  /* A spreadsheet must not run a name as a formula: the same rule as `outpace.report.csv_`. */
  function csvCell(value, unit) {
    if (value === null) return "";
    let text = String(value);
    if (unit === "text" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  }

  function download(table, specs, name) {
    const lines = [specs.map((s) => csvCell(s.name, "")).join(",")];
    for (const row of table.getData("active")) lines.push(specs.map((s, i) => csvCell(row["c" + i], s.unit)).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
    link.download = name + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  function tools(box, table, specs, rows) {
    const bar = box.querySelector(".tools");
    const count = node("span", rows.length.toLocaleString("en-US") + (rows.length === 1 ? " row" : " rows"));
    if (rows.length > FEW) {
      const filter = node("input");
      filter.type = "search";
      filter.placeholder = "Filter rows";
      filter.setAttribute("aria-label", "Filter rows");
      const texts = rows.map((row) => specs.map((s, i) => (Units.isText(s.unit) ? row["c" + i] : "")).join("\n").toLowerCase());
      rows.forEach((row, i) => { row.search = texts[i]; });
      let wait = 0;
      filter.addEventListener("input", () => {
        clearTimeout(wait);
        wait = setTimeout(() => {
          const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
          table.setFilter((row) => words.every((w) => row.search.includes(w)));
          count.textContent = table.getDataCount("active").toLocaleString("en-US") + " of " + rows.length.toLocaleString("en-US") + " rows";
        }, 120);
      });
      bar.append(filter);
    }
    const save = node("button", "CSV");
    save.type = "button";
    save.title = "Save the rows as shown (filtered and sorted) as a CSV file";
    save.addEventListener("click", () => download(table, specs, box.dataset.file));
    bar.append(count, save);
    bar.hidden = false;
  }

  function build(box) {
    const { columns, data } = load(box.dataset.table);
    const first = box.dataset.first ? box.dataset.first.split(" ") : [];
    const rank = (c) => (first.includes(c.name) ? first.indexOf(c.name) : first.length);
    const order = columns.map((_, i) => i).sort((a, b) => rank(columns[a]) - rank(columns[b]) || a - b);
    const specs = order.map((i) => columns[i]);
    const rows = (data[0] || []).map((_, r) => Object.fromEntries(order.map((i, c) => ["c" + c, data[i][r]])));
    const live = box.querySelector(".live");
    live.hidden = false;
    const options = { data: rows, columns: order.map((i, c) => columnOf(columns[i], c, data[i])), layout: "fitData", placeholder: "no row matches", headerSortTristate: true };
    if (rows.length > FEW) options.maxHeight = PAGE_HEIGHT;
    const table = new Tabulator(live, options);
    table.on("tableBuilt", () => { box.querySelector(".still").hidden = true; });
    tools(box, table, specs, rows);
  }

  function start() {
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        seen.unobserve(entry.target);
        build(entry.target);
      }
    }, { rootMargin: "300px" });
    document.querySelectorAll("[data-table]").forEach((box) => seen.observe(box));
  }

  return { start, load };
})();
