/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader chose in a view (filters, order, groups, zoom) stands in the address behind a `?`: a link, a reload and Back bring it back.
   A table or a chart keeps its choices under its own name; an empty one is as it was at first, and is left out. */
const Kept = (() => {
  const choices = new Map(); // by view: of each name in it, what was chosen
  const writers = new Map(); // by name: what shows its choices

  const viewOf = (name) => name.split("/")[0];
  const route = () => location.hash.slice(1).split("?")[0];
  const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  const shown = () => decoded(viewOf(route()));

  const asked = () => location.hash.split("?").slice(1).join("?");

  function of(view) {
    if (!choices.has(view)) choices.set(view, new Map(new URLSearchParams(view === shown() ? asked() : "")));
    return choices.get(view);
  }

  /* The choices of one name, without the name. */
  function own(name) {
    const begin = name.slice(viewOf(name).length + 1) + ".";
    return Object.fromEntries([...of(viewOf(name))].flatMap(([key, text]) => (key.startsWith(begin) ? [[key.slice(begin.length), text]] : [])));
  }

  /* The address says what is chosen in the view that is shown. */
  function told() {
    const query = new URLSearchParams([...of(shown())]).toString();
    const hash = query ? "#" + route() + "?" + query : location.hash.split("?")[0];
    if (hash !== location.hash) history.replaceState(history.state, "", hash || location.pathname + location.search);
  }

  /* `write` shows choices, now and whenever another address brings some. Nothing is put under a name before it is held. */
  function hold(name, write) {
    const chosen = own(name);
    writers.set(name, write);
    if (Object.keys(chosen).length) write(chosen);
  }

  /* What is chosen now, by what it is; the others of this name stay. */
  function put(name, chosen) {
    if (!writers.has(name)) return;
    const all = of(viewOf(name)), begin = name.slice(viewOf(name).length + 1) + ".";
    for (const [what, text] of Object.entries(chosen)) {
      if (text) all.set(begin + what, String(text));
      else all.delete(begin + what);
    }
    if (viewOf(name) === shown()) told();
  }

  /* Shows what the address asks for. One without choices asks for none if it was gone back to; else a view stays as the reader left it. */
  function follow(back) {
    const view = shown();
    if (!asked() && !back) return void told();
    choices.set(view, new Map(new URLSearchParams(asked())));
    const all = [...writers].filter(([name]) => viewOf(name) === view).map(([name, write]) => ({ write, chosen: own(name) }));
    for (const { write, chosen } of all) write(chosen); // one may put what another then writes
    told();
  }

  return { hold, put, follow, route };
})();
