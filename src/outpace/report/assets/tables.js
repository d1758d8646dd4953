/* SPDX-License-Identifier: Apache-2.0 */
/* What tables hold, apart from how they look: rows, order, filters, CSV. */
const Tables = (() => {
  const ORDER = new Intl.Collator("en", { numeric: true });
  const SIGN = /^\s*(<=|>=|<|>|=)?\s*(.+?)\s*$/, BETWEEN = /^\s*(\S.*?)\s*\.\.\s*(\S.*?)\s*$/;
  const parsed = new Map();

  /* Embedded data is parsed when it is first needed, and once. */
  function load(id) {
    if (!parsed.has(id)) {
      const found = JSON.parse(document.getElementById("data:" + id).textContent);
      if (found.data) found.data = found.data.map(column);
      parsed.set(id, found);
    }
    return parsed.get(id);
  }

  /* The values of a column, however `html_data.column_data` stored them. */
  function column(stored) {
    if (Array.isArray(stored)) return stored;
    const { texts, at, of = [] } = stored;
    for (let i = 0, text = "", end = texts?.length || 0; i < end; i += 2) of.push((text = text.slice(0, texts[i]) + texts[i + 1]));
    return at.map((number) => of[number] ?? null);
  }

  function values(table, name) {
    return table.data[table.columns.findIndex((c) => c.name === name)];
  }

  /* Missing values come last in both directions. */
  function compare(a, b, sign) {
    if (a === null) return b === null ? 0 : 1;
    if (b === null) return -1;
    return sign * (typeof a === "number" && typeof b === "number" ? a - b : ORDER.compare(String(a), String(b)));
  }

  /* Rows that one text asks for: all of its words, in any of the texts of the row. */
  function holds(text, columns) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const named = columns.filter((c) => Units.isText(c.unit));
    if (!words.length) return () => true;
    return (row) => {
      const all = named.map((c) => c.texts[row]).join("\n").toLowerCase();
      return words.every((word) => all.includes(word));
    };
  }

  /* The unit of a column's first number that has one: a table begins with its large numbers. */
  const usualUnit = (asked) => asked.texts.map((text) => text.match(/\d\s(\S+)$/)?.[1]).find(Boolean) || "";

  /* What a column's filter asks for: words of a text; of numbers `> 5 ms`, `10..20`, or what the cell shows. */
  function asks(text, asked) {
    const value = (row) => asked.values[row], usual = usualUnit(asked);
    if (!Units.isText(asked.unit)) {
      const range = text.match(BETWEEN);
      if (range) {
        const [low, high] = [Units.parse(range[1], asked.unit, usual), Units.parse(range[2], asked.unit, usual)];
        if (low !== null && high !== null) return (row) => value(row) !== null && value(row) >= low && value(row) <= high;
      }
      const [, sign, rest] = text.match(SIGN) || [];
      const limit = sign ? Units.parse(rest, asked.unit, usual) : null;
      const fits = { "<": (v) => v < limit, ">": (v) => v > limit, "<=": (v) => v <= limit, ">=": (v) => v >= limit, "=": (v) => v === limit };
      if (limit !== null) return (row) => value(row) !== null && fits[sign](value(row));
    }
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return (row) => words.every((word) => asked.texts[row].toLowerCase().includes(word));
  }

  /* A spreadsheet must not run a name as a formula: the same rule as `outpace.report.csv_`. */
  function csvCell(value, unit) {
    if (value === null) return "";
    let text = String(value);
    const first = /[^\p{C}\p{Z}]/u.exec(text)?.[0].normalize("NFKC");
    if (unit === "text" && (/^[\t\r]/.test(text) || /^[=+\-@]/.test(first))) text = "'" + text;
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  }

  /* Lines of values below the heads of their columns, as a CSV file. */
  function save(name, heads, lines) {
    const written = [heads.map((head) => csvCell(head.name, "")), ...lines.map((line) => line.map((value, i) => csvCell(value, heads[i].unit)))];
    const link = Dom.html("a", { download: name + ".csv" });
    link.href = URL.createObjectURL(new Blob([written.map((cells) => cells.join(",") + "\r\n").join("")], { type: "text/csv" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  return { load, column, values, compare, holds, usualUnit, asks, save };
})();
