/* SPDX-License-Identifier: Apache-2.0 */
/* A compiled program: the instructions around one of them as a graph, and the program's text. The address says which. */
const Program = (() => {
  const PAD = 9, LINE = 16, WIDEST = 300, RADII = [1, 2, 3], MOST_LINES = 1000;
  const { html, svg } = Dom;
  const element = (id) => document.getElementById(id);
  const text = document.getElementById("program-text"), op = document.getElementById("op"), choice = document.getElementById("program"), words = document.getElementById("filter");
  const opened = new Set(); // fusions whose parts are shown
  let found = null, asked = "", program = "", blocks = [];

  /* What the address asks for. */
  function wanted() {
    const query = new URLSearchParams(location.search);
    return { program: query.get("program") || "", op: query.get("op") || "", radius: query.get("radius") || "2" };
  }

  function address(changed) {
    return "?" + new URLSearchParams({ ...wanted(), ...changed });
  }

  function go(changed) {
    history.pushState(null, "", address(changed));
    load();
  }

  async function get(path) {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  }

  async function load() {
    const query = address({});
    asked = query;
    try {
      const answer = await get("near" + query);
      if (asked !== query) return;
      found = answer;
      show();
    } catch (error) {
      if (asked !== query) return;
      element("title").textContent = "A compiled program";
      element("state").textContent = error.message;
      element("legend").hidden = true;
      element("graph").replaceChildren();
      element("chosen").replaceChildren();
    }
  }

  function show() {
    element("title").textContent = `${found.op} of ${found.program}`;
    choice.replaceChildren(...found.programs.map((name) => html("option", name === found.program ? { selected: "" } : {}, name)));
    op.value = found.op;
    const few = found.is_whole ? "" : " These are the nearest ones.";
    const alike = found.alike > 1 ? ` ${found.alike} programs of this name have it: choose one above.` : "";
    element("state").textContent = `${found.nodes.length} instructions within ${found.radius} of ${found.op}.${few}${alike}`;
    element("legend").hidden = !found.nodes.some((node) => "above_share" in node);
    if (program !== found.program) {
      program = found.program;
      blocks = [];
      words.value = "";
      element("computations").replaceChildren();
      if (text.open) readText();
    }
    draw();
    element("chosen").replaceChildren(...described(found.nodes.find((node) => node.op === found.op)));
  }

  /* The lines of a box: name, what it is and takes, where it comes from; and the parts of an open fusion. */
  function lines(node) {
    const time = "time_ps" in node ? ` · ${Units.humanize(node.time_ps, "ps")} per step, ${(node.share * 100).toFixed(1)}%` : "";
    const source = node.source ? [[node.source.split("/").at(-1), "source"]] : [];
    const parts = opened.has(node.op) ? node.parts.map((part) => [part, "part"]) : [];
    return [[node.op, "name"], [node.opcode + time, "what"], ...source, ...parts];
  }

  const shorten = (name) => Units.shorten(name, 44);
  const width = (name, kind) => shorten(name).length * (kind === "name" ? 7.6 : 6.4);

  function heat(node) {
    if ("above_share" in node) return "h" + Math.min(4, Math.round(4 * node.above_share));
    return "time_ps" in node ? "ran" : "idle";
  }

  function draw() {
    const keeps = element("graph").contains(document.activeElement);
    const layout = new dagre.graphlib.Graph({ multigraph: false });
    layout.setGraph({ rankdir: "TB", nodesep: 22, ranksep: 44, marginx: 8, marginy: 8 });
    layout.setDefaultEdgeLabel(() => ({}));
    for (const node of found.nodes) {
      const rows = lines(node), more = node.parts.length ? 1 : 0;
      const wide = Math.min(WIDEST, Math.max(...rows.map(([name, kind]) => width(name, kind)))) + 2 * PAD;
      layout.setNode(node.op, { node, rows, width: wide, height: (rows.length + more) * LINE + PAD });
    }
    for (const edge of found.edges) layout.setEdge(edge.from, edge.to, { shape: edge.shape, width: edge.shape.length * 5.8, height: 14, labelpos: "c" });
    dagre.layout(layout);
    const size = layout.graph();
    const picture = svg("svg", { width: Math.ceil(size.width), height: Math.ceil(size.height), role: "group", "aria-label": `Instructions around ${found.op}` });
    for (const edge of layout.edges()) picture.append(line(layout.edge(edge)));
    for (const name of layout.nodes()) picture.append(box(layout.node(name)));
    element("graph").replaceChildren(picture);
    const centre = layout.node(found.op), frame = element("graph");
    frame.scrollLeft = centre.x - frame.clientWidth / 2;
    frame.scrollTop = centre.y - frame.clientHeight / 2;
    if (keeps) picture.querySelector(".centre").focus({ preventScroll: true });
  }

  function line({ points, shape, x, y }) {
    const path = points.map((point, at) => `${at ? "L" : "M"}${point.x.toFixed(1)} ${point.y.toFixed(1)}`).join("");
    const end = points.at(-1), before = points.at(-2), angle = Math.atan2(end.y - before.y, end.x - before.x);
    const corner = (turn) => `L${(end.x - 8 * Math.cos(angle + turn)).toFixed(1)} ${(end.y - 8 * Math.sin(angle + turn)).toFixed(1)}`;
    return svg("g", { class: "edge" }, svg("path", { d: path }),
      svg("path", { class: "head", d: `M${end.x.toFixed(1)} ${end.y.toFixed(1)}${corner(0.4)}${corner(-0.4)}Z` }),
      svg("text", { x: x ?? end.x, y: (y ?? end.y) + 4, "text-anchor": "middle" }, shape));
  }

  function box({ node, rows, x, y, width: wide, height: high }) {
    const left = x - wide / 2, top = y - high / 2, isCentre = node.op === found.op;
    const group = svg("g", { class: `node ${heat(node)}${isCentre ? " centre" : ""}`, tabindex: "0", role: "link", "aria-label": rows.slice(0, 3).map(([name]) => name).join(", ") },
      svg("title", {}, node.text), svg("rect", { class: "box", x: left, y: top, width: wide, height: high, rx: 4 }));
    rows.forEach(([name, kind], at) => group.append(svg("text", { class: kind, x: left + PAD, y: top + LINE * (at + 1) }, shorten(name))));
    const choose = () => { if (!isCentre) go({ op: node.op }); };
    group.addEventListener("click", choose);
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter") choose();
      else if (event.key === "o" && node.parts.length) toggle(node);
    });
    if (node.parts.length) {
      const told = opened.has(node.op) ? "close" : `${node.parts.length} parts: open (o)`;
      const more = svg("text", { class: "more", x: left + PAD, y: top + LINE * (rows.length + 1) }, told);
      more.addEventListener("click", (event) => { event.stopPropagation(); toggle(node); });
      group.append(more);
    }
    return group;
  }

  function toggle(node) {
    if (!opened.delete(node.op)) opened.add(node.op);
    draw();
    [...document.querySelectorAll("#graph .node")].find((group) => group.getAttribute("aria-label").startsWith(node.op + ","))?.focus();
  }

  /* The instruction in the middle, in full. */
  function described(node) {
    const known = [["Framework op", node.framework_op], ["Source", node.source], ["Bound by", node.bound]].filter(([, said]) => said);
    const facts = html("dl", {}, ...known.flatMap(([name, said]) => [html("dt", {}, name), html("dd", {}, said)]));
    return [html("h2", { class: "small" }, node.op), html("pre", {}, node.text), facts,
      html("p", {}, html("a", { href: "../#hlo_stats" }, "All instructions with their times"))];
  }

  /* The text, a computation at a time: its lines are made when it is opened. */
  async function readText() {
    if (blocks.length) return;
    const of = program;
    element("lines").textContent = "The text is on the way …";
    let all;
    try {
      all = await get("text?" + new URLSearchParams({ program: of }));
    } catch (error) {
      element("lines").textContent = error.message;
      return;
    }
    if (of !== program) return;
    blocks = [];
    for (const one of all) {
      if (one.endsWith("{")) blocks.push({ head: one.slice(0, -2), lines: [] });
      else if (one.startsWith("  ")) blocks.at(-1)?.lines.push(one);
    }
    filter();
  }

  function row(one) {
    const name = /^\s*(?:ROOT )?%([^ ]+) = /.exec(one)?.[1];
    if (!name) return html("div", {}, one);
    const at = one.indexOf("%"), link = html("a", { href: address({ op: name }), "data-op": name }, "%" + name);
    return html("div", {}, one.slice(0, at), link, one.slice(at + name.length + 1));
  }

  function fold() {
    element("computations").replaceChildren(...blocks.map(({ head, lines: all }, at) => {
      const part = html("details", {}, html("summary", {}, `${head.split(" (")[0]} `, html("span", { class: "muted" }, `${all.length} instructions`)));
      part.addEventListener("toggle", () => { if (part.open && !part.querySelector(".lines")) part.append(html("div", { class: "lines" }, ...all.map(row))); });
      if (at === blocks.length - 1) part.setAttribute("open", "");
      return part;
    }));
  }

  function filter() {
    const asks = words.value.trim().toLowerCase();
    const all = blocks.flatMap((block) => block.lines).filter((one) => one.toLowerCase().includes(asks));
    if (!asks) {
      element("lines").textContent = `${all.length.toLocaleString("en-US")} instructions`;
      fold();
      return;
    }
    element("lines").textContent = `${all.length.toLocaleString("en-US")} lines${all.length > MOST_LINES ? `, the first ${MOST_LINES.toLocaleString("en-US")}` : ""}`;
    element("computations").replaceChildren(html("div", { class: "lines" }, ...all.slice(0, MOST_LINES).map(row)));
  }

  function start() {
    Theme.start();
    const tabs = Dom.tabs("Radius", RADII.map((radius) => `radius ${radius}`), (at) => go({ radius: String(RADII[at]) }));
    const press = () => tabs.press(RADII.indexOf(Number(wanted().radius)));
    element("radius").append(tabs.group);
    press();
    choice.addEventListener("change", () => go({ program: choice.value, op: "" }));
    op.addEventListener("change", () => go({ op: op.value.trim().replace(/^%/, "") }));
    text.addEventListener("toggle", () => { if (text.open) readText(); });
    words.addEventListener("input", filter);
    element("computations").addEventListener("click", (event) => {
      const link = event.target.closest("a");
      if (!link || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      go({ op: link.dataset.op });
      element("title").scrollIntoView();
    });
    addEventListener("popstate", () => { press(); load(); });
    load();
  }

  return { start };
})();
Program.start();
