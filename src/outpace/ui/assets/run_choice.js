/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of the run, in the head of a run's page: another run opens on the tool that is open. */
const RunChoice = (() => {
  const TIME = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

  function title(run) {
    const script = run.program ? run.program.split("/").at(-1) + ", " : "", at = run.when ? ", " + TIME.format(new Date(run.when * 1000)) : "";
    return script + [run.place, run.name].filter(Boolean).join("/") + at;
  }

  async function start() {
    const own = location.pathname.match(/\/run\/(\w+)\/$/)?.[1], box = document.getElementById("run-choice");
    if (!own || !box) return;
    const answer = await fetch("../../runs?names=1").catch(() => null);
    if (!answer?.ok) return; // the page itself says that nobody answers
    const runs = (await answer.json()).filter((run) => run.id);
    if (runs.length < 2) return;
    const select = Dom.html("select", { "aria-label": "Run" }, ...runs.map((run) => Dom.html("option", { value: run.id }, title(run))));
    select.value = own;
    select.addEventListener("change", () => { location.href = `../${select.value}/${location.hash.split("/")[0]}`; });
    box.replaceChildren(select);
  }

  return { start };
})();
RunChoice.start();
