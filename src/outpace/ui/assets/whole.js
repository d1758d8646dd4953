/* SPDX-License-Identifier: Apache-2.0 */
/* A run opens on what is known first, its step; the report takes its place when all tools have had their say. */
const Whole = (() => {
  async function start() {
    const { whole } = document.body.dataset;
    if (whole === undefined) return;
    const waits = document.querySelector("#summary .coming");
    try {
      const answer = await fetch(whole);
      if (!answer.ok) throw new Error(await answer.text());
      const made = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of ["nav", "main"]) document.querySelector(part).replaceWith(made.querySelector(part));
      Chips.renew(made.querySelector(".chips"));
      document.title = made.title;
      delete document.body.dataset.whole;
      Views.enliven(document.querySelector("main"));
      Routes.go(history.state?.y);
    } catch (error) {
      waits.textContent = "The report did not come: " + error.message;
    }
  }

  return { start };
})();
Whole.start();
