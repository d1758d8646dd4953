/* SPDX-License-Identifier: Apache-2.0 */
/* What the pictures that a reader works with share. Each kind is a script of its own, which adds itself here: `build(box, spec, table)` fills the
   box once it has a width (a box may be hidden at first) and returns what draws it anew at another width. */
const Pictures = (() => {
  const kinds = new Map();
  const ruler = Dom.html("canvas").getContext("2d");

  /* A table's column by name: values, and how to write one of them. */
  function column(table, name) {
    const at = table.columns.findIndex((c) => c.name === name);
    if (at < 0) return null;
    const { label, unit } = table.columns[at];
    return { name, label, unit, values: table.data[at], shown: (i) => Units.humanize(table.data[at][i], unit) };
  }

  function textWidth(text, size) {
    ruler.font = size + "px system-ui, sans-serif";
    return ruler.measureText(text).width;
  }

  /* The page's tooltip for who comes by keyboard: below the element that has the focus, once the page has scrolled to it (which hides a tip). */
  let wait = 0;
  function tipAt(element) {
    clearTimeout(wait);
    if (!element) { Tips.hide(); return; }
    wait = setTimeout(() => {
      const { left, bottom } = element.getBoundingClientRect();
      Tips.show(element.dataset.tip, left, bottom - 12);
    }, 60);
  }

  /* One <select> per column to choose by, each with the values that the choices before it leave. `chosen` gets the rows that are left.
     What is chosen is kept under the chart's id. */
  function choices(bar, table, { id, choices: names }, chosen) {
    const columns = names.map((name) => column(table, name));
    const selects = columns.map((c) => Dom.html("select", { "aria-label": c.label }));
    const all = [...(table.data[0] || []).keys()];
    const update = () => {
      let rows = all;
      columns.forEach((c, i) => {
        const values = [...new Set(rows.map((row) => c.values[row]))], kept = selects[i].value;
        selects[i].replaceChildren(...values.map((value) => Dom.html("option", { value }, String(value))));
        if (values.map(String).includes(kept)) selects[i].value = kept;
        selects[i].parentElement.hidden = values.length < 2;
        rows = rows.filter((row) => String(c.values[row]) === selects[i].value);
      });
      chosen(rows);
      follow(bar, JSON.stringify(selects.map((select) => select.value)));
    };
    const keep = () => Kept.put(id, Object.fromEntries(names.map((name, i) => ["is." + name, selects[i].selectedIndex > 0 ? selects[i].value : ""])));
    selects.forEach((select, i) => {
      bar.append(Dom.html("label", {}, columns[i].label + " ", select));
      select.addEventListener("change", () => { update(); keep(); });
    });
    update();
    Kept.hold(id, (kept) => {
      selects.forEach((select, i) => { // one after the other: each leaves the next its values
        const wanted = kept["is." + names[i]];
        if ([...select.options].some((option) => option.value === wanted)) select.value = wanted;
        else select.selectedIndex = 0;
        update();
      });
    });
  }

  /* Of the numbers of a view that are there for each choice, those of this one. */
  function follow(bar, choice) {
    const blocks = [...(bar.closest("section")?.querySelectorAll("[data-choice]") ?? [])];
    if (blocks.some((block) => block.dataset.choice === choice)) blocks.forEach((block) => { block.hidden = block.dataset.choice !== choice; });
  }

  function open(box, build) {
    let draw = null;
    Dom.whenWide(box, (width) => {
      if (!draw) {
        const spec = Tables.load(box.dataset.spec), live = box.querySelector(".live");
        draw = build(live, spec, Tables.load(spec.table));
        live.hidden = false;
        box.querySelector(".still").hidden = true; // only now: what could not be built leaves the static picture
      }
      draw(width);
    });
  }

  return {
    column, textWidth, tipAt, choices,
    add: (kind, build) => kinds.set(kind, build),
    start: (part) => part.querySelectorAll("[data-picture]").forEach((box) => {
      if (kinds.has(box.dataset.picture)) open(box, kinds.get(box.dataset.picture));
    }),
  };
})();
