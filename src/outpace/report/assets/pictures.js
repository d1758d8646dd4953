/* What the pictures that a reader works with share. Each kind is a script of its own, which adds itself here: `build(box, spec, table)` fills the
   box once it has a width (a box may be hidden at first) and returns what draws it anew at another width. */
const Pictures = (() => {
  const kinds = new Map();
  const SVG = "http://www.w3.org/2000/svg";
  const ruler = document.createElement("canvas").getContext("2d");

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) if (value !== undefined) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }
  const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

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
    if (element) wait = setTimeout(() => showTip(element), 60);
    else document.getElementById("tip").hidden = true;
  }
  function showTip(element) {
    const tip = document.getElementById("tip");
    tip.hidden = false;
    tip.textContent = element.dataset.tip;
    const place = element.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(place.left, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (place.bottom + 6 + tip.offsetHeight > innerHeight ? place.top - tip.offsetHeight - 6 : place.bottom + 6) + "px";
  }

  /* One <select> per column to choose by, each with the values that the choices before it leave. `chosen` gets the rows that are left. */
  function choices(bar, table, names, chosen) {
    const columns = names.map((name) => column(table, name));
    const selects = columns.map((c) => html("select", { "aria-label": c.label }));
    const all = [...(table.data[0] || []).keys()];
    const update = () => {
      let rows = all;
      columns.forEach((c, i) => {
        const values = [...new Set(rows.map((row) => c.values[row]))], kept = selects[i].value;
        selects[i].replaceChildren(...values.map((value) => html("option", { value }, String(value))));
        if (values.map(String).includes(kept)) selects[i].value = kept;
        selects[i].parentElement.hidden = values.length < 2;
        rows = rows.filter((row) => String(c.values[row]) === selects[i].value);
      });
      chosen(rows);
    };
    selects.forEach((select, i) => {
      bar.append(html("label", {}, columns[i].label + " ", select));
      select.addEventListener("change", update);
    });
    update();
  }

  function open(box, build) {
    let draw = null, width = 0;
    new ResizeObserver(() => {
      const now = Math.floor(box.clientWidth);
      if (!now || now === width) return;
      width = now;
      if (!draw) {
        const spec = Tables.load(box.dataset.spec), live = box.querySelector(".live");
        draw = build(live, spec, Tables.load(spec.table));
        live.hidden = false;
        box.querySelector(".still").hidden = true; // only now: what could not be built leaves the static picture
      }
      draw(width);
    }).observe(box);
  }

  return {
    html, svg, column, textWidth, tipAt, choices,
    add: (kind, build) => kinds.set(kind, build),
    start: () => document.querySelectorAll("[data-picture]").forEach((box) => {
      if (kinds.has(box.dataset.picture)) open(box, kinds.get(box.dataset.picture));
    }),
  };
})();
