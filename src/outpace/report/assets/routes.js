/* SPDX-License-Identifier: Apache-2.0 */
/* Views of one page, by what stands behind the `#`: a tool, a table, a row, a finding, a column of a chart. See `html_places.py`.
   What a reader chose there follows a `?` (`kept.js`). */
const Routes = (() => {
  const FIRST = "summary";
  const GROWING = 3000; // ms
  let before = null, wait = 0, held = new AbortController();

  const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };

  function show(view) {
    const changed = !view.classList.contains("on");
    document.querySelectorAll(".view").forEach((each) => each.classList.toggle("on", each === view));
    document.querySelectorAll("nav a").forEach((link) => {
      const on = link.hash === "#" + view.id;
      link.classList.toggle("on", on);
      if (on) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "nearest" }); }
      else link.removeAttribute("aria-current");
    });
    Views.draw(view);
    return changed;
  }

  /* The element that a route names, and the part of the page to bring into sight with it. Null where there is none. */
  function resolve(parts) {
    const own = document.getElementById(parts.join("/"));
    if (own?.closest(".view")) return { element: own, make: () => own };
    const stage = document.getElementById(parts[0]);
    if (stage?.dataset.timeline !== undefined) return { element: stage, make: () => stage };
    const table = document.querySelector(`[data-table="${CSS.escape(parts.slice(0, -1).join("/"))}"]`);
    if (table && /^\d+$/.test(parts.at(-1))) return { element: table, make: () => Grid.of(table).reveal(Number(parts.at(-1))), around: table };
    const view = document.getElementById(parts[0]);
    const box = view && [...view.querySelectorAll("[data-chart]")].find((each) => each.dataset.x === parts[1]);
    if (!box || parts.length < 3) return null;
    const make = () => {
      const chart = Columns.of(box), row = chart.find(parts[2], parts[3]);
      return row === null ? null : Step.open(chart, row);
    };
    return { element: box, make, around: box };
  }

  function focus(element) {
    if (!element.matches("a, button, input, [tabindex]")) element.tabIndex = -1;
    element.focus({ preventScroll: true });
  }

  /* Keeps a place while the page still grows: tables, charts and pictures get their height a little later, and would push it out of sight.
     It ends where the reader scrolls or does anything else. A page that shrinks below what is seen scrolls by itself: that is no reader. */
  function hold(place) {
    held.abort();
    const own = held = new AbortController(), { signal } = own, root = document.documentElement, end = () => own.abort();
    let at = 0, height = 0;
    const put = () => { place(); at = scrollY; height = root.scrollHeight; };
    const grown = new ResizeObserver(put);
    root.style.overflowAnchor = "none"; // what the browser scrolls by itself is not told from what a reader does
    signal.addEventListener("abort", () => { grown.disconnect(); root.style.overflowAnchor = ""; });
    for (const moved of ["wheel", "touchmove", "mousedown", "keydown"]) addEventListener(moved, end, { passive: true, signal });
    const shrank = () => root.scrollHeight < height && scrollY + innerHeight > root.scrollHeight - 2;
    document.addEventListener("scroll", () => { if (scrollY !== at && !shrank()) end(); }, { passive: true, signal });
    setTimeout(end, GROWING);
    put();
    grown.observe(document.body);
  }

  function land(found, moved) {
    for (let parent = found.element; parent; parent = parent.parentElement) if (parent.matches("details")) parent.open = true;
    const target = found.make();
    if (!target) return false;
    const row = target.closest("tr");
    document.querySelectorAll(".target").forEach((each) => { if (each !== row) each.classList.remove("target"); });
    if (!target.matches(".view")) target.classList.add("target");
    const around = found.around?.closest(".block") || target;
    hold(() => {
      if (moved || around === target) around.scrollIntoView({ block: "start" });
      target.scrollIntoView({ block: "nearest" });
    });
    focus(target);
    return true;
  }

  /* Shows what the address names. `at` is where the page was scrolled to, when a reader goes back; `changed` says that its view was shown just now. */
  function go(at, changed = false) {
    const asked = Kept.route() || FIRST, parts = asked.split("/").map(decoded);
    if (document.body.dataset.whole !== undefined && !document.getElementById(parts[0])) return; // it comes with the whole report
    Kept.follow(at !== undefined);
    const later = document.getElementById(parts[0])?.closest(".view"), comes = Views.awaited(later) || (typeof Rest === "undefined" ? null : Rest.awaited(parts));
    if (comes) {
      const anew = show(later) || before === null;
      before = asked;
      comes.then((came) => { if (came && (Kept.route() || FIRST) === asked) go(at, anew); });
      return;
    }
    const found = resolve(parts), first = document.getElementById(FIRST);
    const view = (found?.element || document.getElementById(parts[0]))?.closest(".view") || first;
    const moved = show(view) || before === null || changed;
    before = asked;
    Tips.hide();
    if (view.dataset.timeline !== undefined) Timeline.open(view, parts.slice(1));
    if (!found?.element.dataset.chart) document.querySelectorAll(".opened").forEach((panel) => panel.remove());
    if (at !== undefined) { if (found && found.element !== view) found.make(); hold(() => scrollTo(0, at)); return; }
    if (!found || (found.element !== view && !land(found, moved))) Dom.say("Not in this report: " + parts.join(" / "));
    if (!found || found.element === view) { hold(() => scrollTo(0, 0)); if (location.hash && found) focus(view); }
  }

  /* A link that names a place of its own is copied with its click, since that is what it is for. */
  function links(event) {
    const link = event.target.closest("a.here");
    if (!link) return;
    Dom.copy(link.href, "the address of this place");
    if (link.hash === "#" + Kept.route()) go();
  }

  /* Where the page is scrolled to, for a reader who comes back. */
  function keep() {
    clearTimeout(wait);
    if (history.state?.y !== scrollY) history.replaceState({ y: scrollY }, "");
  }

  /* To another address: what was scrolled a moment ago is kept first, for afterwards it would be kept at the new one. */
  function to(route) {
    keep();
    location.hash = route;
  }

  function start() {
    history.scrollRestoration = "manual";
    document.addEventListener("scroll", () => {
      clearTimeout(wait);
      wait = setTimeout(keep, 100);
    }, { passive: true });
    addEventListener("popstate", (event) => { // every entry of the history has a state, so that a new one is told from one that is gone back to
      clearTimeout(wait);
      go(event.state?.y);
      if (!event.state) history.replaceState({ y: scrollY }, "");
    });
    document.addEventListener("click", (event) => { if (event.target.closest("a[href^='#']")) keep(); }, true);
    document.addEventListener("click", links);
    go(history.state?.y);
    keep();
  }

  return { start, go, to };
})();
