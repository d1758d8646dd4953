/* SPDX-License-Identifier: Apache-2.0 */
/* The list of runs: it asks again every two seconds, so that new runs and verdicts appear by themselves. */
const Runs = (() => {
  const EACH = 2000; // ms
  const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
  const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
  const ticked = new Set();
  let runs = [], drawn = "";

  const element = (id) => document.getElementById(id);

  function when(seconds) {
    if (!seconds) return "";
    const at = new Date(seconds * 1000), today = DAY.format(at) === DAY.format(new Date());
    return (today ? "" : DAY.format(at) + ", ") + TIME.format(at);
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
    element("both").classList.toggle("two", two);
    element("ticks").textContent = two ? "" : chosen.length > 2 ? `${chosen.length} runs are ticked: two can be compared.` : "Tick two runs to compare them.";
  }

  function verdict(run) {
    if (run.waits) return [Dom.html("span", { class: "muted" }, "not looked at yet …")];
    if (run.error) return [Dom.html("span", { class: "muted" }, run.error)];
    const first = run.change ? [Dom.html("div", { class: "first", title: run.details }, "First: " + run.change + ".", ...(run.saves ? [" Saves ", Dom.html("b", { class: "gain" }, run.saves)] : []))] : [];
    return [run.headline, ...first];
  }

  function line(run) {
    const name = run.id ? Dom.html("a", { href: `run/${run.id}/` }, run.name) : run.name, place = run.place ? [Dom.html("div", { class: "muted" }, run.place)] : [];
    const cell = (kind, ...content) => Dom.html("td", { class: kind }, ...content);
    return Dom.html("tr", {}, cell("tick", ...(run.id ? [tick(run)] : [])), cell("name", name, ...place, ...(run.hosts > 1 ? [Dom.html("div", { class: "muted" }, run.hosts + " hosts")] : [])),
      cell("when", when(run.when)), cell("said", ...verdict(run)), cell("v", run.step || ""), cell("v", change(run.against)), cell("script", run.script || ""));
  }

  function draw() {
    const words = document.getElementById("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const seen = runs.filter((run) => {
      const all = [run.name, run.place, run.script, run.headline, run.details].join("\n").toLowerCase();
      return words.every((word) => all.includes(word));
    });
    const focused = document.activeElement?.closest("tr")?.querySelector("a")?.getAttribute("href"), which = document.activeElement?.tagName;
    element("runs").replaceChildren(...seen.map(line));
    if (focused) element("runs").querySelector(`tr:has(a[href="${focused}"]) ${which}`)?.focus({ preventScroll: true });
    const waiting = runs.filter((run) => run.waits).length, [all, these] = [runs, seen].map((some) => some.filter((run) => run.id).length), some = these === all ? "" : `${these} of `;
    element("state").textContent = runs.length ? `${some}${all} ${all === 1 ? "run" : "runs"}, newest first${waiting ? `; ${waiting} still to be looked at` : ""}` : "";
    element("none").hidden = runs.length > 0;
    both();
  }

  /* What `outpace.Monitor` watches, or watched, each with its last numbers. */
  function trainings(found) {
    element("trainings").hidden = !found.length;
    const more = found.length && found[0].left_out ? [Dom.html("li", { class: "muted" }, `and ${found[0].left_out.toLocaleString("en-US")} older ones`)] : [];
    element("trainings").querySelector("ul").replaceChildren(...found.map((one) => {
      const numbers = [one.state, ...(one.step ? [`step ${one.step.toLocaleString("en-US")}`] : []), ...(one.ps ? [one.text] : []), ...(one.slow ? [`${one.slow} ${one.slow === 1 ? "slowdown" : "slowdowns"}`] : [])];
      return Dom.html("li", {}, Dom.html("a", { href: `watched/${one.id}/` }, one.place ? `${one.place}/${one.name}` : one.name), " ",
        Dom.html("span", { class: "muted" }, [...numbers, when(one.when)].filter(Boolean).join(" · ")));
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
    if (event.target.closest("a, input, td.tick") || String(getSelection())) return;
    event.target.closest("tr")?.querySelector("a")?.click();
  }

  function start() {
    Wanted.open();
    Theme.start();
    Capture.start();
    element("runs").addEventListener("click", opened);
    element("filter").addEventListener("input", draw);
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
