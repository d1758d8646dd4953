/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the field, explained where they stand: of each the first in a view. GLOSSARY holds them: [names, what it is]. */
const Glossary = (() => {
  const ELSEWHERE = "h2, h3, a, button, summary, code, pre, svg, table, .table, .live, form, dfn, script, [data-tip]"; // names, values, and what does something itself
  const known = new Map(GLOSSARY.flatMap(([names, meaning]) => names.map((name) => [name.toLowerCase(), { name, meaning }])));
  const words = [...known.keys()].sort((a, b) => b.length - a.length).map((word) => word.replace(/[.-]/g, "\\$&"));
  const pattern = new RegExp(`(?<![\\w./-])(${words.join("|")})s?(?![\\w-]|\\.\\w)`, "gi"); // in no name of a file or a function

  function texts(part) {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, (node) => {
      if (node.nodeType === Node.TEXT_NODE) return NodeFilter.FILTER_ACCEPT;
      return node.matches(ELSEWHERE) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP;
    });
    const found = [];
    while (walker.nextNode()) found.push(walker.currentNode);
    return found;
  }

  /* An abbreviation is one as it is written only. */
  const means = (word, { name }) => word === name || name !== name.toUpperCase();

  function explained(text, said) {
    const parts = [];
    let at = 0;
    for (const found of text.matchAll(pattern)) {
      const entry = known.get(found[1].toLowerCase());
      if (said.has(entry.meaning) || !means(found[1], entry)) continue;
      said.add(entry.meaning);
      const told = { tabindex: 0, title: "", "data-tip": entry.meaning, "aria-description": entry.meaning };
      parts.push(text.slice(at, found.index), Dom.html("dfn", told, found[0]));
      at = found.index + found[0].length;
    }
    return parts.length ? [...parts, text.slice(at)] : null;
  }

  /* In a view, or in all of them. */
  function start(part) {
    const views = part.matches(".view") ? [part] : part.querySelectorAll(".view");
    for (const view of views) {
      const said = new Set();
      for (const node of texts(view)) {
        const parts = explained(node.textContent, said);
        if (parts) node.replaceWith(...parts);
      }
    }
  }

  return { start };
})();
