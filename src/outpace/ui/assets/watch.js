/* SPDX-License-Identifier: Apache-2.0 */
/* A training while it runs: its step time, its wait for input and its memory over its steps, drawn anew as lines are written. */
const Watch = (() => {
  const EACH = 2000, HIGH = 220, LEFT = 66, BOTTOM = 22, TOP = 8;
  const TALLEST = 3; // times the highest median: a percentile beyond it leaves the picture, so that the median can be read
  let drawn = "", runs = [];

  const element = (id) => document.getElementById(id);

  /* A curve as the text of a path; where a number is missing, it is interrupted. */
  function path(steps, values, x, y) {
    let text = "", on = false;
    values.forEach((value, at) => {
      if (value === null) { on = false; return; }
      text += `${on ? "L" : "M"}${x(steps[at]).toFixed(1)} ${y(value).toFixed(1)}`;
      on = true;
    });
    return text;
  }

  function curve(box, title, steps, lines, unit, marks) {
    const known = lines.flatMap(({ values }) => values.filter((value) => value !== null));
    if (!known.length) { box.replaceChildren(Dom.html("p", { class: "muted" }, "nothing was measured")); return; }
    const highest = (some) => Math.max(0, ...some.flatMap(({ values }) => values.filter((value) => value !== null)));
    const most = Math.min(highest(lines), TALLEST * highest(lines.filter((one) => one.key !== "l-other")) || Infinity) * 1.06 || 1;
    const wide = box.clientWidth || 800, first = steps[0], last = Math.max(steps.at(-1), first + 1);
    const x = (step) => LEFT + ((step - first) / (last - first)) * (wide - LEFT - 12), y = (value) => TOP + (1 - value / most) * HIGH;
    const told = `${title}: ${lines.map(({ name, values }) => `${name} ${Units.humanize(values.findLast((v) => v !== null) ?? null, unit)}`).join(", ")}`;
    const picture = Dom.svg("svg", { width: wide, height: TOP + HIGH + BOTTOM, role: "img", "aria-label": told });
    for (const [value, text] of Axis.ticks(0, most, unit, 4)) {
      picture.append(Dom.svg("line", { class: "grid", x1: LEFT, x2: wide - 12, y1: y(value), y2: y(value) }),
        Dom.svg("text", { class: "tick", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, text));
    }
    for (const [value, text] of Axis.ticks(first, last, "", 6))
      picture.append(Dom.svg("text", { class: "tick", x: x(value), y: TOP + HIGH + 16, "text-anchor": "middle" }, text));
    for (const { step } of marks) picture.append(Dom.svg("line", { class: "mark", x1: x(step), x2: x(step), y1: TOP, y2: TOP + HIGH }));
    if (highest(lines) > most) picture.append(Dom.svg("text", { class: "tick", x: wide - 12, y: TOP + 10, "text-anchor": "end" }, `95th percentile up to ${Units.humanize(highest(lines), unit)}`));
    for (const { key, values } of lines) picture.append(Dom.svg("path", { class: "line " + key, d: path(steps, values, x, y) }));
    box.replaceChildren(picture);
  }

  function show(found) {
    const marks = found.events.filter((event) => event.kind === "slowdown" || event.kind === "capture");
    element("state").textContent = found.step.length ? `${found.step.at(-1).toLocaleString("en-US")} steps` : "no interval was written yet";
    if (found.step.length) {
      curve(element("times"), "Step time and wait for input", found.step, [
        { name: "95th percentile", key: "l-other", values: found.p95 }, { name: "step time", key: "l-step", values: found.p50 }, { name: "wait for input", key: "l-input", values: found.wait },
      ], "ps", marks);
      curve(element("memory"), "Memory", found.step, [{ name: "resident", key: "l-step", values: found.memory }], "bytes", []);
    }
    element("events").replaceChildren(...found.events.map((event) => {
      const capture = runs.find((run) => run.id === event.run);
      const link = event.run ? [": ", Dom.html("a", { href: `../../run/${event.run}/`, title: capture?.headline }, capture?.verdict || "its report")] : [];
      return Dom.html("li", {}, Dom.html("span", { class: "muted" }, `step ${event.step}: `), event.text, ...link);
    }));
  }

  async function ask() {
    try {
      const answer = await fetch("curves");
      if (!answer.ok) throw new Error(await answer.text());
      const text = await answer.text();
      if (text !== drawn && text.includes('"capture"')) runs = await (await fetch("../../runs")).json();
      if (text !== drawn) show(JSON.parse(text));
      drawn = text;
    } catch (error) {
      drawn = "";
      element("state").textContent = "The workbench does not answer: start 'outpace ui' again. " + error.message;
    }
    setTimeout(ask, document.hidden ? EACH * 5 : EACH);
  }

  function start() {
    Theme.start();
    addEventListener("resize", () => { if (drawn) show(JSON.parse(drawn)); });
    ask();
  }

  return { start };
})();
Watch.start();
