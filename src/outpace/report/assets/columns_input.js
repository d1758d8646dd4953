/* SPDX-License-Identifier: Apache-2.0 */
/* Pointer and keys on a chart of columns: hover, open, drag to zoom. */
const ColumnsInput = (() => {
  const DRAG = 6;

  /* The parts of one column, with their colours. */
  function parts(chart, at) {
    const { spec } = chart, row = chart.rows[at], box = document.createDocumentFragment();
    const line = (key, name, value) => {
      const div = Dom.html("div", { class: "part" });
      div.append(Dom.html("i", { class: key && "k-" + key }), name, Dom.html("b", {}, value));
      box.append(div);
    };
    line("", `${spec.xLabel} ${chart.places[at]}`, row < 0 ? "no data" : Units.humanize(chart.size(row), spec.unit));
    if (row >= 0)
      for (let i = spec.series.length - 1; i >= 0; i -= 1)
        if (chart.parts[i][row] > 0 && !chart.off.has(i)) line(spec.keys[i], spec.names[i], Units.humanize(chart.parts[i][row], spec.unit));
    return box;
  }

  function spoken(chart, at) {
    const { spec } = chart, row = chart.rows[at];
    const largest = row < 0 ? [] : spec.series.map((_, i) => [chart.parts[i][row] || 0, i]).filter(([v, i]) => v > 0 && !chart.off.has(i)).sort((a, b) => b[0] - a[0]).slice(0, 3);
    const total = row < 0 ? "no data" : Units.humanize(chart.size(row), spec.unit);
    return `${spec.xLabel} ${chart.places[at]}: ${total}. ` + largest.map(([v, i]) => `${spec.names[i]} ${Units.humanize(v, spec.unit)}`).join(", ");
  }

  function open(chart, at) {
    if (at === null || chart.rows[at] < 0) return;
    const route = chart.route(at);
    if (Kept.route() === route) Routes.go();
    else Routes.to(route);
  }

  function attach(chart) {
    const { plot } = chart;
    let from = null;
    const x = (event) => event.clientX - plot.getBoundingClientRect().left;

    plot.addEventListener("pointermove", (event) => {
      const at = chart.placeAt(x(event));
      if (from !== null && Math.abs(x(event) - from) > DRAG) {
        chart.brush.setAttribute("x", Math.min(from, x(event)));
        chart.brush.setAttribute("width", Math.abs(x(event) - from));
        plot.setPointerCapture(event.pointerId);
      }
      chart.point(at);
      if (at === null) Tips.hide();
      else Tips.show(parts(chart, at), event.clientX, event.clientY);
    });
    plot.addEventListener("pointerleave", () => { chart.point(chart.cursor); Tips.hide(); });
    plot.addEventListener("pointerdown", (event) => { if (event.button === 0) from = x(event); });
    plot.addEventListener("pointercancel", () => { from = null; });
    plot.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const [a, b] = [Math.min(from, x(event)), Math.max(from, x(event))];
      from = null;
      chart.brush.setAttribute("width", 0);
      if (b - a > DRAG) {
        const last = chart.drawn.length - 1, place = (value) => Math.max(0, Math.min(last, Math.floor((value - (plot.querySelector(".grid")?.getAttribute("x1") || 0)) / chart.step)));
        chart.show(chart.drawn[place(a)], (chart.drawn[place(b) + 1] ?? chart.range[1]));
      } else open(chart, chart.placeAt(x(event)));
    });
    plot.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      chart.zoom(event.deltaY < 0 ? 0.7 : 1.4, chart.placeAt(x(event)) ?? undefined);
    }, { passive: false });
    plot.addEventListener("keydown", (event) => key(chart, event));
    plot.addEventListener("blur", Tips.hide);
  }

  function key(chart, event) {
    const [begin, end] = chart.range, at = chart.cursor;
    const to = { ArrowRight: at === null ? begin : at + 1, ArrowLeft: at === null ? end - 1 : at - 1, Home: 0, End: chart.rows.length - 1 }[event.key];
    if (to !== undefined) {
      chart.cursor = Math.max(0, Math.min(chart.rows.length - 1, to));
      if (chart.cursor < begin || chart.cursor >= end) chart.show(chart.cursor - (chart.cursor < begin ? 0 : end - begin - 1), chart.cursor + (chart.cursor < begin ? end - begin : 1));
      const j = chart.point(chart.cursor), box = chart.plot.getBoundingClientRect();
      chart.heard.textContent = spoken(chart, chart.cursor);
      Tips.show(parts(chart, chart.cursor), box.left + 66 + (j + 0.5) * chart.step, box.top + 40);
    } else if (event.key === "Enter") open(chart, at);
    else if (event.key === "+" || event.key === "=") chart.zoom(0.5);
    else if (event.key === "-") chart.zoom(2);
    else if (event.key === "Escape" || event.key === "0") chart.show(0, chart.rows.length);
    else return;
    event.preventDefault();
  }

  return { attach };
})();
