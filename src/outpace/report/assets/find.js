/* SPDX-License-Identifier: Apache-2.0 */
/* One search over tools, tables, findings and all rows of all tables; `/` goes there, results are links. */
const Find = (() => {
  const MOST = 60, MOST_EACH = 6;
  let index = null;

  const heading = (element) => element.closest(".view").querySelector("h2, h1").textContent;

  /* (what it is, text, address) of everything that can be gone to. Rows come per table, on demand. */
  function places() {
    const found = [];
    document.querySelectorAll("nav a").forEach((link) => found.push({ kind: "Tool", text: link.textContent, route: link.hash }));
    document.querySelectorAll(".finding[id]").forEach((finding) => {
      const text = finding.querySelector("h4").firstChild.nextSibling.textContent.trim();
      found.push({ kind: "Finding, " + heading(finding), text, more: finding.querySelector("p").textContent, route: "#" + finding.id });
    });
    const tables = new Map([...document.querySelectorAll("[data-table]")].reverse().map((box) => [box.dataset.table, box]));
    for (const [route, box] of [...tables].reverse()) found.push({ kind: "Table, " + heading(box), text: box.dataset.title, route: "#" + route });
    return { found, tables: [...tables].reverse() };
  }

  function rows(words) {
    const found = [];
    for (const [route, box] of index.tables) {
      const { columns, data } = Tables.load(route);
      const texts = columns.flatMap((c, i) => (c.unit === "text" ? [data[i]] : []));
      let met = 0;
      for (let row = 0; row < (data[0]?.length || 0) && met < MOST_EACH; row += 1) {
        const cells = texts.map((column) => column[row]).filter((cell) => cell !== null && cell !== "");
        const all = cells.join("\n").toLowerCase();
        if (!words.every((word) => all.includes(word))) continue;
        met += 1;
        const text = cells.find((cell) => words.some((word) => String(cell).toLowerCase().includes(word)));
        found.push({ kind: `${heading(box)}, ${box.dataset.title}, row ${row + 1}`, text: Units.shorten(String(text), 160), route: `#${route}/${row + 1}` });
      }
    }
    return found;
  }

  async function search(text) {
    await Views.all();
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    index ||= places();
    const named = index.found.filter((place) => words.every((word) => [place.kind, place.text, place.more].join(" ").toLowerCase().includes(word)));
    return [...named, ...rows(words)].slice(0, MOST);
  }

  function draw(list, found, asked) {
    const items = found.map(({ kind, text, route }) => {
      const item = Dom.html("li"), link = Dom.html("a");
      link.href = route;
      link.append(Dom.html("span", {}, text), Dom.html("span", { class: "muted" }, kind));
      item.append(link);
      return item;
    });
    if (asked && !items.length) items.push(Dom.html("li", { class: "muted" }, "nothing found"));
    list.replaceChildren(...items);
    list.hidden = !items.length;
  }

  function move(event, field, list) {
    const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
    if (event.key === "Escape") { list.hidden = true; field.focus(); }
    else if (event.key === "ArrowDown" && links.length) links[Math.min(at + 1, links.length - 1)].focus();
    else if (event.key === "ArrowUp") (at > 0 ? links[at - 1] : field).focus();
    else if (event.key === "Enter" && document.activeElement === field && links.length) links[0].click();
    else return;
    event.preventDefault();
  }

  function start() {
    const box = document.getElementById("find"), field = Dom.html("input"), list = Dom.html("ul");
    field.type = "search";
    field.placeholder = "Search all tables ( / )";
    field.setAttribute("aria-label", "Search tools, findings and the rows of all tables");
    list.hidden = true;
    list.setAttribute("aria-label", "Found");
    box.append(field, list);
    box.hidden = false;
    let wait = 0;
    field.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(async () => {
        const asked = field.value, found = await search(asked);
        if (field.value === asked) draw(list, found, asked.trim());
      }, 120);
    });
    field.addEventListener("focus", () => { if (field.value.trim()) list.hidden = false; });
    box.addEventListener("keydown", (event) => move(event, field, list));
    list.addEventListener("click", (event) => { if (event.target.closest("a")) list.hidden = true; });
    document.addEventListener("click", (event) => { if (!event.target.closest("#find")) list.hidden = true; });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.matches("input, textarea, select")) return;
      event.preventDefault();
      field.focus();
      field.select();
    });
  }

  return { start };
})();
