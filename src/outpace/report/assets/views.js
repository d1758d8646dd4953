/* SPDX-License-Identifier: Apache-2.0 */
/* Views come alive when they are there: in a file from the beginning, in the workbench when they are first shown. */
const Views = (() => {
  const coming = new Map();

  /* What is seen gets its tables before it is painted: one that came later would move what a reader looks at. Folded ones come when they are opened. */
  function draw(view) {
    view.querySelectorAll("[data-table]").forEach((box) => { if (box.checkVisibility()) Grid.of(box); });
  }

  /* Charts, tables and what scrolls, in a part of the page. */
  function enliven(part) {
    part.querySelectorAll(".scroll").forEach((area) => { area.tabIndex = 0; }); // what scrolls must be reached without a mouse
    part.querySelectorAll("[data-tip] > title").forEach((title) => title.remove());
    if (typeof Columns !== "undefined") Columns.start(part); // a report without them has none
    if (typeof Pictures !== "undefined") Pictures.start(part);
    Grid.start(part);
    Glossary.start(part);
    draw(part);
  }

  async function fetched(view) {
    view.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(view.dataset.later);
      if (!answer.ok) throw new Error(await answer.text());
      view.innerHTML = await answer.text(); // made by the templates that made this page
      delete view.dataset.later;
      enliven(view);
      return true;
    } catch (error) {
      view.querySelector(".coming").textContent = "This view did not come: " + error.message;
      return false;
    } finally {
      view.removeAttribute("aria-busy");
      coming.delete(view);
    }
  }

  /* Null where a view is there; else a promise: whether it came. */
  function awaited(view) {
    if (view?.dataset.later === undefined) return null;
    if (!coming.has(view)) coming.set(view, fetched(view));
    return coming.get(view);
  }

  const all = () => Promise.all([...document.querySelectorAll(".view[data-later]")].map(awaited));

  return { enliven, draw, awaited, all };
})();
