/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a whole as bars; which whole, and how it is divided, a reader chooses. */
Pictures.add("bars", (box, spec, table) => {
  const NAMED = 72, OTHERS = "all others"; // as `chart_data.OTHERS`, which has no bar
  const name = Pictures.column(table, spec.x), size = Pictures.column(table, spec.series[0]);
  const bar = Dom.html("div", { class: "controls" }), picture = Dom.html("table", { class: "bars" });
  box.append(bar, picture);

  function line(row, short, most, whole) {
    const value = size.values[row], share = Units.humanize(whole ? value / whole : 0, "fraction"), told = `${name.values[row]}: ${size.shown(row)} (${share})`;
    const length = Dom.svg("svg", { class: "length", width: "100%", height: 14, role: "img", "aria-label": told, "data-tip": told },
      Dom.svg("rect", { width: (most ? (value / most) * 100 : 0).toFixed(2) + "%", height: "100%", class: "k-cycle-0" }));
    const cells = [size.shown(row), share].map((text, i) => Dom.html("td", { class: i ? "v share" : "v" }, text));
    return Dom.html("tr", {}, Dom.html("th", { "data-tip": name.values[row] || undefined }, short || "(no name)"), ...cells,
      Dom.html("td", { class: "b" }, ...(name.values[row] === OTHERS ? [] : [length])));
  }

  function draw() {
    const rows = all.filter((row) => ways.every((way, i) => way.values[row] === chosen[i]));
    const whole = rows.reduce((sum, row) => sum + size.values[row], 0);
    const most = Math.max(0, ...rows.filter((row) => name.values[row] !== OTHERS).map((row) => size.values[row]));
    const short = Units.elide(rows.map((row) => name.values[row]), NAMED);
    picture.replaceChildren(...rows.map((row, i) => line(row, short[i], most, whole)));
  }

  const ways = spec.choices.map((way) => Pictures.column(table, way)), all = [...size.values.keys()], chosen = ways.map((way) => way.values[0]);
  const presses = ways.map((way, i) => {
    const values = [...new Set(way.values)], { group, press } = Dom.tabs(way.label, values, (at) => {
      chosen[i] = values[at];
      draw();
      Kept.put(spec.id, { ["is." + way.name]: at > 0 ? values[at] : "" });
    });
    if (values.length > 1) bar.append(Dom.html("span", {}, way.label + " ", group));
    return (value) => {
      const at = Math.max(0, values.indexOf(value));
      chosen[i] = values[at];
      press(at);
    };
  });
  Kept.hold(spec.id, (kept) => {
    ways.forEach((way, i) => presses[i](kept["is." + way.name]));
    draw();
  });
  draw();
  return () => {}; // as wide as its box by itself
});
