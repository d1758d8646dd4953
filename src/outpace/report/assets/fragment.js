/* Tables of a notebook: a click on a heading sorts the rows that are shown. Where scripts do not run, they stay as they are. */
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

  document.querySelectorAll(HEADS).forEach((head) => { head.tabIndex = 0; });
  if (window.outpaceSorts) return;
  window.outpaceSorts = true;
  const asked = (event) => (event.type === "click" || KEYS.includes(event.key)) && event.target.closest?.(HEADS);
  for (const type of ["click", "keydown"])
    document.addEventListener(type, (event) => {
      const head = asked(event);
      if (head) { event.preventDefault(); sort(head); }
    });
})();
