/* SPDX-License-Identifier: Apache-2.0 */
/* A large table comes with its first rows; the others follow by pages. It is searched and grouped when all of its rows are here. */
const Rest = (() => {
  const number = (count) => count.toLocaleString("en-US");

  async function fetched(table, grown) {
    while (table.data[0].length < table.total) {
      const answer = await fetch(table.more + table.data[0].length);
      if (!answer.ok) throw new Error(await answer.text());
      const columns = (await answer.json()).map(Tables.column);
      if (!columns[0].length) break;
      columns.forEach((values, i) => table.data[i].push(...values));
      grown();
    }
    delete table.more;
  }

  /* More rows have come. */
  function grow(grid) {
    for (const c of grid.columns) for (let row = c.texts.length; row < c.values.length; row += 1) c.texts.push(Units.humanize(c.values[row], c.unit));
    grid.count = grid.columns[0].values.length;
    const wide = grid.widths;
    grid.widths = null;
    grid.choose();
    if (wide) grid.layOut();
  }

  async function complete(grid, table) {
    const bar = grid.box.querySelector(".tools"), told = Dom.html("span", { class: "count" });
    const tell = () => { told.textContent = number(grid.count) + " rows, the others are on the way …"; };
    grid.box.addEventListener("chosen", tell);
    bar.append(told);
    bar.hidden = false;
    let fault = "";
    await fetched(table, () => grow(grid)).catch((error) => { fault = error.message; });
    grid.box.removeEventListener("chosen", tell);
    grid.coming = null;
    bar.replaceChildren();
    GridTools.add(grid);
    grid.choose();
    grid.box.dispatchEvent(new CustomEvent("written"));
    if (fault) bar.prepend(Dom.html("span", { class: "unavailable" }, "Further rows did not come: " + fault));
    return true;
  }

  /* A promise that all rows of a table come; null where they are here. */
  function of(grid) {
    const table = Tables.load(grid.route);
    return table.more === undefined ? null : complete(grid, table);
  }

  /* Null where the row that an address names is here, or none is; else a promise that it comes. */
  function awaited(parts) {
    const box = document.querySelector(`[data-table="${CSS.escape(parts.slice(0, -1).join("/"))}"]`), row = Number(parts.at(-1));
    return box && row > Grid.of(box).count ? Grid.of(box).coming : null;
  }

  return { of, awaited };
})();
