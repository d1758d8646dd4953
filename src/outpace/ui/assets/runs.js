/* SPDX-License-Identifier: Apache-2.0 */
/* The list of runs: it asks again every two seconds, so that new runs and verdicts appear by themselves. */
const Runs = (() => {
  const EACH = 2000; // ms
  const BAR = 140, SPARK = 120, HIGH = 14; // pixels
  const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
  const SHORT = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
  const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
  const ORDERS = { when: (run) => -run.when, name: (run) => title(run).toLowerCase(), saves: (run) => -(run.saved || 0), step: (run) => -(run.ps || 0), change: (run) => -(run.against?.share ?? -Infinity) };
  const ticked = new Set();
  let runs = [], drawn = "", order = "when", columns = 9;

  const element = (id) => document.getElementById(id);

  function when(seconds) {
    if (!seconds) return "";
    const at = new Date(seconds * 1000), now = new Date();
    if (DAY.format(at) === DAY.format(now)) return "today " + TIME.format(at);
    return `${(at.getFullYear() === now.getFullYear() ? SHORT : DAY).format(at)}, ${TIME.format(at)}`;
  }

  /* A run is called by its script, where that is known; its folder is often only a time. */
  function title(run) {
    return run.program ? run.program.split("/").at(-1) : run.name;
  }

  function change(against) {
    if (!against) return "";
    const text = Math.abs(against.share) < against.same ? "same" : (against.share < 0 ? "−" : "+") + Math.abs(against.share * 100).toFixed(0) + "%";
    const kind = text === "same" ? "muted" : against.share < 0 ? "faster" : "slower";
    return Dom.html("span", { class: kind, title: `against ${against.name}, the run before it of the same program` }, text);
  }

  function tick(run) {
    const box = Dom.html("input", { type: "checkbox", "aria-label": "Tick " + run.name });
    box.checked = ticked.has(run.id);
    box.addEventListener("change", () => {
      if (box.checked) ticked.add(run.id);
      else ticked.delete(run.id);
      both();
    });
    return box;
  }

  /* Two ticked runs can be compared, and seen side by side, the older one first. */
  function both() {
    const chosen = runs.filter((run) => ticked.has(run.id)).map((run) => run.id).reverse(), two = chosen.length === 2;
    const [compare, side] = element("both").querySelectorAll("a");
    compare.setAttribute("href", `compare/${chosen.join("/")}/#compare`);
    side.setAttribute("href", `side/${chosen.join("/")}/`);
    element("both").hidden = !chosen.length;
    element("both").classList.toggle("two", two);
    element("ticks").textContent = two ? "2 ticked" : chosen.length > 2 ? `${chosen.length} ticked: two can be compared` : "1 ticked: tick another one to compare them";
  }

  function clear() {
    ticked.clear();
    draw();
  }

  /* The step in the colours of the report's own picture. */
  function bar(run) {
    if (!run.parts?.length) return "";
    const told = run.parts.map(([name, , share]) => `${name} ${Math.round(share * 100)}%`).join(", ");
    const picture = Dom.svg("svg", { class: "whole-step", width: BAR, height: HIGH, role: "img", "aria-label": told }, Dom.svg("title", {}, told));
    let left = 0;
    for (const [, key, share] of run.parts) {
      picture.append(Dom.svg("rect", { class: "k-" + key, x: left * BAR, width: Math.max(0, share * BAR - 0.5), height: HIGH }));
      left += share;
    }
    return picture;
  }

  /* The step time of a program's runs, oldest first, as a line from zero. */
  function spark(times) {
    const most = Math.max(...times), x = (at) => 2 + (at / (times.length - 1)) * (SPARK - 4), y = (time) => HIGH + 2 - (time / most) * HIGH;
    const told = `Step time of its ${times.length} runs, oldest first`;
    const points = times.map((time, at) => `${x(at).toFixed(1)},${y(time).toFixed(1)}`).join(" ");
    return Dom.svg("svg", { class: "spark", width: SPARK, height: HIGH + 4, role: "img", "aria-label": told }, Dom.svg("title", {}, told),
      Dom.svg("polyline", { points }), Dom.svg("circle", { cx: x(times.length - 1), cy: y(times.at(-1)), r: 2.2 }));
  }

  function verdict(run) {
    if (run.waits) return ["said", Dom.html("span", { class: "muted" }, "not looked at yet …")];
    if (run.error) return ["said error", run.error];
    return ["said", run.verdict ? Dom.html("b", { title: run.headline }, run.verdict) : run.headline];
  }

  function line(run, isGrouped = false) {
    const row = (...cells) => Dom.html("tr", { class: isGrouped ? "of" : undefined }, ...cells);
    const link = run.id ? Dom.html("a", { href: `run/${run.id}/`, title: run.name }, title(run)) : title(run);
    const about = [run.place, run.hosts > 1 ? `${run.hosts} hosts` : "", run.part].filter(Boolean).join(" · ");
    const cell = (kind, ...content) => Dom.html("td", { class: kind }, ...content);
    const [kind, said] = verdict(run);
    const first = [cell("tick", ...(run.id ? [tick(run)] : [])), cell("name", link, ...(about ? [" ", Dom.html("span", { class: "muted" }, about)] : [])), cell("when", when(run.when))];
    if (!run.verdict) return row(...first, Dom.html("td", { class: kind, colspan: columns - 3, title: run.headline || run.error }, said));
    const saves = run.saved ? [Dom.html("span", { title: run.saves }, Math.round(run.saved * 100) + "%")] : [];
    return row(...first, cell("picture", bar(run)), cell(kind, said), Dom.html("td", { class: "first", title: run.details }, run.change),
      cell("v gain", ...saves), cell("v", run.step), cell("v change", change(run.against)));
  }

  /* The runs by program, the program that ran last first; each is a chain of runs that were compared. */
  function programs(seen) {
    const before = new Map(runs.map((run) => [run.id, run.against?.id]));
    const first = (id) => { let at = id; while (before.get(at)) at = before.get(at); return at; };
    const groups = new Map();
    for (const run of seen) {
      const key = run.id ? first(run.id) : run.name;
      groups.set(key, [...(groups.get(key) ?? []), run]);
    }
    return [...groups.values()];
  }

  function rows(seen) {
    if (order !== "when") return [...seen].sort((one, other) => { const [a, b] = [one, other].map(ORDERS[order]); return a < b ? -1 : a > b ? 1 : 0; }).map((run) => line(run));
    return programs(seen).flatMap((group) => {
      if (group.length === 1) return [line(group[0])];
      const times = group.map((run) => run.ps).filter(Boolean).reverse();
      const head = Dom.html("th", { colspan: columns, scope: "rowgroup" }, title(group[0]), " ", Dom.html("span", { class: "muted" }, `${group.length} runs`), " ", ...(times.length > 1 ? [spark(times)] : []));
      return [Dom.html("tr", { class: "program" }, head), ...group.map((run) => line(run, true))];
    });
  }

  /* The filter and the order stand in the address, so that it can be sent. */
  function keep() {
    const query = new URLSearchParams(), text = element("filter").value;
    if (text) query.set("q", text);
    if (order !== "when") query.set("sort", order);
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
  }

  function draw() {
    const words = element("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const seen = runs.filter((run) => {
      const all = [run.name, run.place, run.script, run.headline, run.verdict, run.details].join("\n").toLowerCase();
      return words.every((word) => all.includes(word));
    });
    const focused = document.activeElement?.closest("tr")?.querySelector("a")?.getAttribute("href"), which = document.activeElement?.tagName;
    const changed = seen.some((run) => run.against);
    columns = changed ? 9 : 8;
    element("runs").closest("table").classList.toggle("unchanged", !changed);
    element("runs").replaceChildren(...rows(seen));
    document.querySelectorAll("thead button").forEach((head) => head.closest("th").setAttribute("aria-sort", head.dataset.sort === order ? (order === "name" ? "ascending" : "descending") : "none"));
    if (focused) element("runs").querySelector(`tr:has(a[href="${focused}"]) ${which}`)?.focus({ preventScroll: true });
    const waiting = runs.filter((run) => run.waits).length, [all, these] = [runs, seen].map((some) => some.filter((run) => run.id).length), some = these === all ? "" : `${these} of `;
    element("state").textContent = runs.length ? `${some}${all} ${all === 1 ? "run" : "runs"}${waiting ? `; ${waiting} still to be looked at` : ""}` : "";
    element("none").hidden = runs.length > 0;
    element("list").hidden = !runs.length;
    both();
  }

  /* What `outpace.Monitor` watches, or watched, each with its last numbers and what its last capture found. */
  function trainings(found) {
    element("trainings").hidden = element("listed").hidden = !found.length;
    const more = found.length && found[0].left_out ? [Dom.html("li", { class: "muted" }, `and ${found[0].left_out.toLocaleString("en-US")} older ones`)] : [];
    element("trainings").querySelector("ul").replaceChildren(...found.map((one) => {
      const numbers = [one.state, ...(one.step ? [`step ${one.step.toLocaleString("en-US")}`] : []), ...(one.ps ? [one.text] : []), ...(one.slow ? [`${one.slow} ${one.slow === 1 ? "slowdown" : "slowdowns"}`] : [])];
      const capture = runs.find((run) => run.id === one.run);
      const link = capture ? [" · ", Dom.html("a", { href: `run/${capture.id}/`, title: capture.headline }, capture.verdict || "its capture")] : [];
      return Dom.html("li", { class: one.state }, Dom.html("a", { href: `watched/${one.id}/` }, one.place ? `${one.place}/${one.name}` : one.name), " ",
        Dom.html("span", { class: "muted" }, [...numbers, when(one.when)].filter(Boolean).join(" · ")), ...link);
    }), ...more);
  }

  async function ask() {
    try {
      const answer = await fetch("runs");
      if (!answer.ok) throw new Error(await answer.text());
      const text = await answer.text();
      if (text !== drawn) {
        runs = JSON.parse(text);
        draw();
        drawn = text;
      }
    } catch (error) {
      drawn = "";
      element("state").textContent = "The workbench does not answer: start 'outpace ui' again. " + error.message;
    }
    try {
      const seen = await fetch("watched");
      if (seen.ok) trainings(await seen.json());
    } catch { /* the line above says that nobody answers */ }
    setTimeout(ask, document.hidden ? EACH * 5 : EACH);
  }

  /* A click anywhere in a line opens its run, but where it means something else. */
  function opened(event) {
    if (event.target.closest("a, input, td.tick, tr.program") || String(getSelection())) return;
    event.target.closest("tr")?.querySelector("a")?.click();
  }

  function start() {
    Wanted.open();
    Theme.start();
    Capture.start();
    element("runs").addEventListener("click", opened);
    const query = new URLSearchParams(location.search);
    element("filter").value = query.get("q") ?? "";
    order = query.get("sort") in ORDERS ? query.get("sort") : "when";
    element("filter").addEventListener("input", () => { keep(); draw(); });
    document.querySelectorAll("thead button").forEach((head) => head.addEventListener("click", () => { order = head.dataset.sort; keep(); draw(); }));
    element("clear").addEventListener("click", clear);
    document.querySelectorAll(".ways button.copy").forEach((button) => button.addEventListener("click", () => Dom.copy(button.dataset.text, "the command")));
    document.querySelector(".ways .ask")?.addEventListener("click", () => element("ask-capture").click());
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.matches("input, textarea, select")) return;
      event.preventDefault();
      element("filter").focus();
    });
    ask();
  }

  return { start };
})();
Runs.start();
