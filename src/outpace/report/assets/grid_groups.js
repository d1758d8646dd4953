/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table summed up by the values of one column: a line per value, which opens to show its rows. */
const GridGroups = (() => {
  const COUNT = 12; // characters for "1,234 rows" beside a name

  /* The column that a table opens grouped by: its first, where the groups are several and far fewer than the rows; not while rows are to come, for a row that an address names, or where the reader sorts by what groups have no sum of. */
  function initial(grid, few) {
    const by = grid.by[0], { rows, sorted } = grid;
    if (!by || grid.coming || grid.target !== undefined || rows.length <= few || (sorted && sorted.name !== by && !grid.sums.includes(sorted.name))) return "";
    const { texts } = grid.columns.find((c) => c.name === by), groups = new Set(rows.map((row) => texts[row])).size;
    return groups > 1 && groups <= rows.length / 2 ? by : "";
  }

  /* What is drawn: numbers are rows; where the table is grouped, an object is the line of a group, above its rows if it is open. */
  function lines(grid) {
    if (!grid.grouped) return grid.rows;
    const by = grid.columns.find((c) => c.name === grid.grouped), groups = new Map();
    for (const row of grid.rows) {
      const name = by.texts[row];
      if (!groups.has(name)) groups.set(name, { name, rows: [], texts: new Map() });
      groups.get(name).rows.push(row);
    }
    const found = [...groups.values()];
    for (const group of found) group.sums = new Map(grid.sums.map((name) => [name, total(grid, name, group.rows)]));
    const room = grid.widths ? GridLayout.characters(grid.widths[0]) * grid.nameLines - COUNT : Infinity;
    Units.elide(found.map((group) => group.name), room).forEach((short, i) => { found[i].short = Units.shorten(short || "(none)", Math.max(COUNT, room)); });
    return order(grid, found).flatMap((group) => (grid.opened.has(group.name) ? [group, ...group.rows] : [group]));
  }

  const total = (grid, name, rows) => {
    const { values } = grid.columns.find((c) => c.name === name);
    return rows.reduce((sum, row) => sum + (values[row] || 0), 0);
  };

  /* By the column that the table is sorted by, where that is a sum; else by the first sum. Groups without one stay in the order of their rows. */
  function order(grid, groups) {
    const { name, sign } = grid.sorted && grid.sums.includes(grid.sorted.name) ? grid.sorted : { name: grid.sums[0], sign: -1 };
    if (grid.sorted?.name === grid.grouped) return groups;
    return groups.sort((a, b) => sign * (a.sums.get(name) - b.sums.get(name)));
  }

  /* What all rows of a group say in a column; empty where they differ. */
  function common(group, column) {
    if (!group.texts.has(column.name)) {
      const first = column.texts[group.rows[0]];
      group.texts.set(column.name, group.rows.every((row) => column.texts[row] === first) ? first : null);
    }
    return group.texts.get(column.name);
  }

  /* What a group has in a column: the sum, or the value of all of its rows, else null. Shares of different wholes (host and device) have no sum. */
  function value(grid, group, column) {
    if (!group.sums.has(column.name)) return common(group, column) === null ? null : column.values[group.rows[0]];
    const mixed = column.unit === "fraction" && grid.columns.some((c) => grid.pickers.includes(c.name) && common(group, c) === null);
    return mixed ? null : group.sums.get(column.name);
  }

  function text(grid, group, column) {
    if (column === grid.shown[0]) return group.name;
    const own = value(grid, group, column);
    return own === null ? "" : Units.humanize(own, column.unit);
  }

  /* What a file holds of the lines that are drawn, with all columns; where they are groups, a last column counts the rows of each. */
  function saved(grid) {
    const { columns, grouped } = grid, isGroup = (line) => typeof line === "object";
    const values = grid.lines.map((line) => columns.map((column) => (isGroup(line) ? value(grid, line, column) : column.values[line])));
    if (!grouped) return { heads: columns, values };
    return { heads: [...columns, { name: "rows", unit: "count" }], values: values.map((own, at) => [...own, isGroup(grid.lines[at]) ? grid.lines[at].rows.length : null]) };
  }

  function row(grid, group, at) {
    const open = grid.opened.has(group.name), count = group.rows.length;
    const line = Dom.html("tr", { class: "group", "data-at": at, "aria-expanded": String(open) }, Dom.html("th", { class: "no" }, open ? "▾" : "▸"));
    grid.shown.forEach((column, i) => {
      const cell = Dom.html("td", { class: (column.right ? "v" : "t") + (i === 0 ? " first" : ""), tabindex: -1 });
      if (i > 0) cell.append(text(grid, group, column));
      else {
        cell.append(group.short, Dom.html("span", { class: "muted" }, " " + count.toLocaleString("en-US") + (count === 1 ? " row" : " rows")));
        cell.dataset.tip = group.name;
      }
      line.append(cell);
    });
    return line;
  }

  function toggle(grid, group) {
    if (!grid.opened.delete(group.name)) grid.opened.add(group.name);
    grid.relist();
  }

  return { initial, lines, row, saved, text, toggle };
})();
