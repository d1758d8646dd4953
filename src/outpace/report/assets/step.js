/* SPDX-License-Identifier: Apache-2.0 */
/* One column of a chart, opened below it: a step with its parts, beside the median of all. */
const Step = (() => {
  function median(values) {
    const sorted = [...values].sort((a, b) => a - b), last = sorted.length - 1;
    return sorted.length ? (sorted[last >> 1] + sorted[(last + 1) >> 1]) / 2 : 0;
  }

  function difference(value, unit) {
    if (Math.abs(value) < 0.5) return "–";
    return (value > 0 ? "+" : "−") + Units.humanize(Math.abs(value), unit);
  }

  /* What of a column differs most from the usual comes first. */
  function compared(chart, row) {
    const rows = chart.rows.filter((own) => own >= 0);
    const found = chart.spec.series.map((_, i) => {
      const own = Math.max(0, chart.parts[i][row] || 0), usual = median(rows.map((r) => Math.max(0, chart.parts[i][r] || 0)));
      return { name: chart.spec.names[i], key: chart.spec.keys[i], own, usual };
    });
    return found.filter((p) => p.own || p.usual).sort((a, b) => Math.abs(b.own - b.usual) - Math.abs(a.own - a.usual));
  }

  function table(chart, row) {
    const { unit, xLabel } = chart.spec, element = Dom.html("table", { class: "rows" }), head = Dom.html("tr"), body = Dom.html("tbody");
    const rows = chart.rows.filter((own) => own >= 0), total = (r) => chart.parts.reduce((sum, part) => sum + Math.max(0, part[r] || 0), 0);
    const line = (name, key, own, usual) => {
      const tr = Dom.html("tr"), th = Dom.html("th");
      th.scope = "row";
      if (key) th.append(Dom.html("i", { class: "k-" + key }));
      th.append(name);
      tr.append(th, ...[Units.humanize(own, unit), Units.humanize(usual, unit), difference(own - usual, unit)].map((text) => Dom.html("td", { class: "v" }, text)));
      body.append(tr);
      return tr;
    };
    for (const text of ["Part", `This ${xLabel.toLowerCase()}`, `Median of ${rows.length}`, "Difference"]) {
      const th = Dom.html("th", { class: text === "Part" ? "" : "v" }, text);
      th.scope = "col";
      head.append(th);
    }
    line("Total", "", total(row), median(rows.map(total))).className = "total";
    for (const part of compared(chart, row)) line(part.name, part.key, part.own, part.usual);
    const thead = Dom.html("thead");
    thead.append(head);
    element.append(thead, body);
    return element;
  }

  /* The address of one step as a part of the run, with all its events; of several hosts, of the column's own. */
  function part(chart, row) {
    const query = new URLSearchParams(location.search), options = [...document.querySelectorAll(".chips [name=hosts] option")];
    const host = chart.choices.length > 1 ? options.find((option) => option.dataset.name === chart.of[row])?.getAttribute("value") : "";
    query.delete("whole");
    const hosts = host || options.find((option) => option.hasAttribute("selected"))?.getAttribute("value");
    if (hosts) query.set("hosts", hosts);
    query.set("steps", `${chart.labels[row]}:${chart.labels[row]}`);
    return `?${query.toString().replaceAll("%3A", ":")}#explain`;
  }

  /* What tells every event of a step, and what shows them. */
  function commands(chart, row) {
    if (chart.spec.x !== "step") return [];
    const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");
    const host = chart.choices.length > 1 && chart.spec.select === "host" ? " --host " + quoted(chart.of[row]) : "";
    const { source } = document.body.dataset, label = quoted(chart.labels[row]);
    const line = (what, text) => Dom.html("p", { class: "command" }, what, Dom.html("code", {}, text), " ", Dom.button("Copy", "Copy the command", () => Dom.copy(text, "the command")));
    if (document.getElementById("timeline")) {
      const link = Dom.html("a", {}, "In the timeline"), at = ["timeline", "step", chart.labels[row], ...(host ? [chart.of[row]] : [])];
      link.href = "#" + at.map(encodeURIComponent).join("/");
      return [Dom.html("p", {}, link, " ", Dom.html("a", { href: part(chart, row) }, "Every event of it"))];
    }
    return [line("Every event of it: ", `outpace explain ${source} ${label}${host}`), line("In the timeline: ", `outpace trace ${source} --steps ${label}`)];
  }

  function close(panel) {
    const chart = Columns.of(panel.parentElement);
    panel.remove();
    chart.cursor = null;
    chart.draw();
    history.pushState({ y: scrollY }, "", "#" + chart.view);
    chart.plot.focus({ preventScroll: true });
  }

  /* Opens the panel of a row; returns it, to scroll to and to focus. */
  function open(chart, row) {
    chart.box.querySelector(".opened")?.remove();
    const { spec } = chart, panel = Dom.html("div", { class: "opened" }), head = Dom.html("h4");
    const at = chart.rows.indexOf(row), route = chart.route(at);
    const title = `${spec.xLabel} ${chart.labels[row]}${chart.choices.length > 1 ? ` of ${chart.of[row]}` : ""}`;
    const link = Dom.html("a", { class: "here" }, "#");
    link.href = "#" + route;
    link.setAttribute("aria-label", "Link to " + title);
    const shut = Dom.button("×", "Close", () => close(panel));
    shut.setAttribute("aria-label", "Close");
    head.append(title, " ", link, shut);
    const rowLink = Dom.html("a", {}, "Its row in the table");
    rowLink.href = `#${spec.table}/${row + 1}`;
    const more = Dom.html("p");
    more.append(rowLink);
    panel.append(head, table(chart, row), ...commands(chart, row), more);
    panel.setAttribute("role", "region");
    panel.setAttribute("aria-label", title);
    panel.addEventListener("keydown", (event) => { if (event.key === "Escape") close(panel); });
    chart.box.append(panel);
    return panel;
  }

  return { open };
})();
