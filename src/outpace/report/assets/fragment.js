/* SPDX-License-Identifier: Apache-2.0 */
/* Reports in a notebook: a click on a heading sorts the rows that are shown, a link opens what it leads to. Where scripts do not run, they stay as
   they are. */
(() => {
  const HEADS = ".outpace.fragment table.rows thead th", KEYS = ["Enter", " "];

  function sort(head) {
    const table = head.closest("table"), body = table.tBodies[0], at = head.cellIndex;
    const falls = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : head.classList.contains("v");
    const value = (row) => row.cells[at].dataset.v ?? row.cells[at].textContent;
    const missing = (row) => Number(row.cells[at].textContent === "–");
    const order = (a, b) => missing(a) - missing(b) || (falls ? -1 : 1) * value(a).localeCompare(value(b), "en", { numeric: true });
    const number = (a, b) => missing(a) - missing(b) || (falls ? -1 : 1) * (Number(value(a)) - Number(value(b)));
    body.append(...[...body.rows].sort(head.classList.contains("v") ? number : order));
    table.querySelectorAll("thead th").forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
  }

  /* Notebooks take an address for one of their own: a link inside a report is followed here. */
  function follow(link) {
    const target = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    for (let parent = target; parent; parent = parent.parentElement) if (parent.matches("details")) parent.setAttribute("open", "");
    target?.scrollIntoView({ block: "start" });
  }

  document.querySelectorAll(HEADS).forEach((head) => { head.tabIndex = 0; });
  if (window.outpaceSorts) return;
  window.outpaceSorts = true;
  const asked = (event) => (event.type === "click" || KEYS.includes(event.key)) && event.target.closest?.(HEADS);
  for (const type of ["click", "keydown"])
    document.addEventListener(type, (event) => { // before the notebook's own
      const head = asked(event), link = event.type === "click" && event.target.closest?.(".outpace.fragment a[href^='#']");
      if (head) { event.preventDefault(); sort(head); }
      if (link) { event.preventDefault(); event.stopPropagation(); follow(link); }
    }, true);
})();
