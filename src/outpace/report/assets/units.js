/* SPDX-License-Identifier: Apache-2.0 */
"use strict";
/* Numbers as people read them: the same forms as `outpace.model.units.humanize`. */
const Units = (() => {
  /** @typedef {[number, string][]} Steps */
  /** @type {Steps} */
  const TIME = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];
  /** @type {Steps} */
  const BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
  /** @type {Steps} */
  const LARGE = [[1e12, " T"], [1e9, " G"], [1e6, " M"]];
  const FORMATS = [0, 1, 2].map((digits) => // made once: a table has a hundred thousand numbers
    new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven" }));
  const fixed = (value, digits) => FORMATS[digits].format(value);

  function scaled(value, steps, zero) {
    if (value === 0) return "0 " + zero;
    let at = steps.findIndex(([f]) => Math.abs(value) >= f);
    if (at < 0) at = steps.length - 1;
    if (at > 0 && Number((Math.abs(value) / steps[at][0]).toFixed(0)) * steps[at][0] >= steps[at - 1][0]) at -= 1;
    const [factor, name] = steps[at];
    const size = Math.abs(value / factor);
    return fixed(value / factor, factor === 1 || Number(size.toFixed(1)) >= 100 ? 0 : Number(size.toFixed(2)) >= 10 ? 1 : 2) + " " + name;
  }

  function general(value) {
    if (value === 0) return "0";
    const shown = Number(value.toPrecision(3)), [factor, name] = LARGE.find(([f]) => Math.abs(shown) >= f) || [1, ""];
    const kept = Number((shown / factor).toPrecision(3)), size = Math.abs(kept);
    if (size >= 1000 && size < 1e6) return fixed(kept, 0) + name;
    if (size >= 1e-4 && size < 1000) return kept + name;
    return kept.toExponential(2).replace(/\.?0+e/, "e").replace(/e([+-])(\d)$/, "e$10$2") + name;
  }

  function humanize(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "bool") return value ? "yes" : "no";
    if (unit === "text" || unit === "" || typeof value !== "number") return String(value);
    if (unit === "ps") return scaled(value, TIME, "µs");
    if (unit === "bytes") return scaled(value, BYTES, "B");
    if (unit === "bytes_per_s") return scaled(value, BYTES, "B") + "/s";
    if (unit === "fraction") return fixed(value * 100, 1).replaceAll(",", "") + "%";
    if (unit === "count") return fixed(value, 0);
    if (unit === "cores") return fixed(value, 2).replaceAll(",", "") + " cores";
    return general(value);
  }

  /* A number as a person writes it, in the unit of a column: "1.5 ms", "20 %", "3" (then of the `usual` unit, as "ms"). Null for anything else. */
  function parse(text, unit, usual = "") {
    const [, number, written] = text.replaceAll(",", "").match(/^\s*(-?[\d.]+(?:e-?\d+)?)\s*(\S*?)\s*$/i) || [];
    if (number === undefined || Number.isNaN(Number(number))) return null;
    if (unit === "fraction") return Number(number) / 100;
    const name = written || usual, steps = unit === "ps" ? TIME : unit.startsWith("bytes") ? BYTES : [];
    const asked = name.toLowerCase().replace("/s", "").replace("us", "µs").replace("kb", "kib").replace("mb", "mib").replace("gb", "gib");
    const [factor] = steps.find(([, known]) => known.toLowerCase() === asked) || [name && steps.length ? NaN : 1];
    return Number.isNaN(factor) ? null : Number(number) * factor;
  }

  /* Cut in the middle, like `outpace.model.text.shorten`: scope and op both stay readable. */
  function shorten(name, width) {
    if (name.length <= width) return name;
    const head = Math.floor((width - 1) / 2);
    return name.slice(0, head).replace(/…+$/, "") + "…" + name.slice(name.length - (width - 1 - head)).replace(/^…+/, "");
  }

  const PART = /[^/:,<( ]*[/:,<( ]+|[^/:,<( ]+/g;

  /* A name without as many of its parts that tell nothing as it takes; its first and its last part stay. */
  function elided(parts, follows, width) {
    const spare = [];
    let before = parts[0] + "\n" + parts.at(-1) + "\n", text = parts.join("");
    parts.forEach((part, i) => {
      if (i > 0 && i < parts.length - 1 && follows.get(before).size === 1) spare.push(i);
      before += part;
    });
    for (let count = 1; count <= spare.length && text.length > width; count += 1) text = without(parts, new Set(spare.slice(0, count)));
    return text;
  }

  const PINCHED = /^([^0-9/:,<( …]{4})[^0-9/:,<( …]{2,}([/:,<( ]+)$/u; // a part whose word is long and has no number

  /* A name whose long words, but for the last and for those with a number, are cut to their beginnings, the longest first, until it fits. */
  function pinched(text, width) {
    const parts = text.match(PART) || [], spare = [...parts.keys()].slice(0, -1).filter((i) => PINCHED.test(parts[i]));
    for (const i of spare.sort((a, b) => parts[b].length - parts[a].length || a - b)) {
      if (parts.join("").length <= width) break;
      parts[i] = parts[i].replace(PINCHED, "$1…$2");
    }
    return parts.join("");
  }

  function without(parts, gone) {
    let text = "", leftOut = "";
    parts.forEach((part, i) => {
      if (gone.has(i)) { leftOut = part; return; }
      text += (leftOut ? "…" + leftOut.at(-1) : "") + part;
      leftOut = "";
    });
    return text;
  }

  /* The names of one column, cut where they agree and never where they differ, like `outpace.model.text.elide`. */
  function elide(names, width) {
    if (names.every((name) => name.length <= width)) return names;
    const parts = new Map(names.map((name) => [name, name.match(PART) || [name]]));
    const follows = new Map();
    for (const own of parts.values()) {
      let before = own[0] + "\n" + own.at(-1) + "\n";
      for (const part of [...own, ""]) {
        if (!follows.has(before)) follows.set(before, new Set());
        follows.get(before).add(part);
        before += part;
      }
    }
    let short = new Map([...parts.keys()].map((name) => [name, name]));
    const cuts = [(name) => elided(parts.get(name), follows, width), (name) => pinched(short.get(name), width), (name) => shorten(short.get(name), width)];
    for (const cut of cuts) {
      const met = new Map(), tried = new Map();
      for (const [name, text] of short) {
        const next = text.length > width ? cut(name) : text;
        tried.set(name, next);
        for (const taken of new Set([next, text])) met.set(taken, (met.get(taken) || 0) + 1);
      }
      short = new Map([...short].map(([name, text]) => [name, met.get(tried.get(name)) === 1 ? tried.get(name) : text]));
    }
    return names.map((name) => short.get(name));
  }

  return { humanize, parse, shorten, elide, isText: (unit) => unit === "text" || unit === "bool" };
})();
