/* SPDX-License-Identifier: Apache-2.0 */
/* The tree behind a flame graph: merged, laid out, searched and labelled. No page is needed here. */
const FlameTree = (() => {
  const REPLICA = /^(?:replica|tower|clone)_?\d+$/i; // as tf.distribute and its forerunners name them; the first one often has no name
  const NO_NAME = /^\(.*\)$/; // "(no scope)" stands for what has none

  const ORDER = new Intl.Collator("en", { numeric: true });

  const node = (name, parent, at) => ({ name, parent, at, size: 0, children: [], byName: new Map(), rows: [] });

  /* Root of the rows, whose sizes hold those of their children. `merge`: a replica's level is left out, so that replicas add up. Rows that are
     `aside` are left out too, unless `whole`; no other row's size holds theirs. */
  function grow({ ids, parents, names, sizes, aside = [] }, merge, whole) {
    const root = node("all", null, 0), found = new Map(), known = new Set(ids), replicas = new Set();
    const beside = new Set(ids.filter((_, i) => aside[i]));
    let count = 0;
    ids.forEach((id, i) => {
      if (aside[i] && !whole) return;
      const size = Math.max(0, sizes[i] || 0), above = found.get(parents[i]);
      if (found.has(id) || (!above && known.has(parents[i]))) return; // twice, or before its parent: no tree
      if (!above) root.size += size;
      else if (aside[i] && !beside.has(parents[i])) for (let at = above; at; at = at.parent) at.size += size;
      if (REPLICA.test(names[i])) replicas.add(names[i]);
      const parent = above || root;
      if (merge && REPLICA.test(names[i])) return void found.set(id, parent);
      let mine = merge && parent.byName.get(names[i]);
      if (!mine) {
        mine = node(names[i], parent, ++count);
        parent.byName.set(names[i], mine);
        parent.children.push(mine);
      }
      mine.size += size;
      mine.rows.push(i);
      found.set(id, mine);
    });
    each(root, (one) => {
      arrange(one.children);
      const inner = one.children.reduce((sum, child) => sum + child.size, 0);
      one.size = Math.max(one.size, inner);
      one.self = one.size - inner;
    });
    colour(root);
    return { root, replicas: [...replicas].sort(ORDER.compare) };
  }

  const stem = (one) => one.name.replace(/\d+/g, "").replace(/_+$/, "");

  /* Brothers of one kind stay together and in order (layer_0, layer_1, ...), the kind that takes most comes first, what has no name last. */
  function arrange(children) {
    const sums = new Map();
    for (const one of children) sums.set(stem(one), (sums.get(stem(one)) || 0) + one.size);
    children.sort((a, b) => Number(NO_NAME.test(a.name)) - Number(NO_NAME.test(b.name)) || sums.get(stem(b)) - sums.get(stem(a)) || ORDER.compare(a.name, b.name));
  }

  /* Every node below `top`, parents first; without recursion, because names may nest deeper than the stack. */
  function each(top, visit) {
    const stack = [top];
    while (stack.length) {
      const one = stack.pop();
      if (visit(one) !== false) for (let i = one.children.length - 1; i >= 0; i--) stack.push(one.children[i]);
    }
  }

  /* layer_1 and layer_2 are of one kind and have one colour; the kinds that take most have the first colours. */
  function colour(root) {
    const sums = new Map();
    each(root, (one) => { sums.set(stem(one), (sums.get(stem(one)) || 0) + one.size); });
    const order = [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
    const rank = new Map(order.map((name, i) => [name, i]));
    each(root, (one) => { one.colour = NO_NAME.test(one.name) || !one.parent ? -1 : rank.get(stem(one)); });
  }

  /* The rows of a node and of all below it. */
  function rowsOf(top) {
    const rows = [];
    each(top, (one) => { rows.push(...one.rows); });
    return rows;
  }

  function path(one) {
    const names = [];
    for (let at = one; at.parent; at = at.parent) names.unshift(at.name);
    return names;
  }

  /* Cells to draw when `top` is as wide as `width`: what is around it, itself, and all below it that is at least `thinnest` wide. */
  function layout(top, width, thinnest) {
    const cells = [], around = [];
    for (let at = top.parent; at; at = at.parent) around.unshift(at);
    around.forEach((one, depth) => cells.push({ one, depth, left: 0, width, around: true }));
    const stack = [{ one: top, depth: around.length, left: 0, width }];
    while (stack.length) {
      const cell = stack.pop();
      cells.push(cell);
      let right = cell.left + cell.width * (cell.one.size ? 1 - cell.one.self / cell.one.size : 1);
      for (const child of [...cell.one.children].reverse()) { // from the right, so that the left one is drawn first
        const room = top.size ? (child.size / top.size) * width : 0;
        right -= room;
        if (room >= thinnest) stack.push({ one: child, depth: cell.depth + 1, left: right, width: room });
      }
    }
    return cells;
  }

  /* What matches below `top`, and the size of it, where a match inside of a match counts once. */
  function search(top, text) {
    const wanted = text.toLowerCase(), hits = new Set();
    let size = 0;
    const fits = (one) => (wanted.includes("/") ? path(one).join("/") : one.name).toLowerCase().includes(wanted);
    each(top, (one) => {
      if (!one.parent || !fits(one)) return;
      hits.add(one);
      for (let at = one.parent; at; at = at.parent) if (hits.has(at)) return;
      size += one.size;
    });
    return { hits, size };
  }

  const shared = (a, b) => {
    let i = 0;
    while (i < a.length && i < b.length && a[i] === b[i]) i++;
    return i;
  };

  /* A name in `room` characters: cut where it agrees with its neighbours `others`, never where it differs; "" where that does not fit. */
  function label(name, others, room) {
    if (name.length <= room) return name;
    if (room < 2) return "";
    const same = Math.max(0, ...others.filter((other) => other !== name).map((other) => shared(name, other)));
    if (room >= 4 && room - 1 > same) return name.slice(0, room - 1) + "…";
    const from = same - name.slice(0, same).match(/[A-Za-z]*$|\d*$/)[0].length; // begin of the word in which they differ
    const rest = "…" + name.slice(from);
    if (from > 0 && rest.length <= room) return rest;
    const until = from + room - 2;
    return from > 0 && room >= 5 && until > same && !/\d/.test(name[until]) ? "…" + name.slice(from, until) + "…" : "";
  }

  return { grow, each, rowsOf, path, layout, search, label };
})();
