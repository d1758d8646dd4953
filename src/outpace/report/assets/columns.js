/* SPDX-License-Identifier: Apache-2.0 */
/* Stacked columns to zoom into: a step graph. Colours are classes, so that a theme needs no redrawing. */
const Columns = (() => {
  const HIGH = 230, LEFT = 66, TOP = 8, BOTTOM = 24, NARROWEST = 3, WIDEST = 44, TALL = 4, FEWEST = 4, LETTER = 7, MOST_NAMED = 20, SHORTEST = 240;
  const charts = new Map();

  class Chart {
    constructor(box) {
      this.box = box;
      this.spec = Tables.load(box.dataset.chart);
      const table = Tables.load(this.spec.table);
      this.parts = this.spec.series.map((name) => Tables.values(table, name));
      this.labels = Tables.values(table, this.spec.x).map(String);
      this.of = this.spec.select ? Tables.values(table, this.spec.select).map(String) : this.labels.map(() => "");
      this.choices = [...new Set(this.of)];
      this.off = new Set();
      this.toggled = [];
      this.whole = false;
      this.cursor = null;
      this.view = box.closest(".view").id;
      this.frame();
      this.choose(this.choices[0]);
      Kept.hold(box.dataset.chart, (kept) => this.write(kept));
      Dom.whenWide(this.live, () => this.draw());
    }

    /* What a reader chose, as it is kept in the address: the choice, the columns in sight, and what is hidden. */
    keep() {
      const [from, to] = this.range, all = from === 0 && to === this.rows.length;
      const of = this.choice === this.choices[0] ? "" : this.choice;
      Kept.put(this.box.dataset.chart, { of, zoom: all ? "" : `${from}-${to}`, off: [...this.off].map((i) => this.spec.series[i]).join(","), whole: this.whole ? "1" : "" });
    }

    write(kept) {
      const [from, to] = (kept.zoom || "").split("-").map(Number), off = (kept.off || "").split(",");
      this.off = new Set(this.spec.series.flatMap((name, i) => (off.includes(name) ? [i] : [])));
      this.whole = kept.whole === "1";
      this.choose(this.choices.includes(kept.of) ? kept.of : this.choices[0]);
      if (to > from) this.show(from, to);
      this.toggled.forEach((show) => show());
    }

    /* The rows of one choice, in places that all choices share: where this one has no row, that is seen. */
    choose(choice) {
      this.choice = choice;
      const rows = this.labels.flatMap((_, row) => (this.of[row] === choice ? [row] : []));
      this.rows = rows;
      if (this.spec.select && this.spec.named) {
        const at = new Map(rows.map((row) => [this.labels[row], row]));
        const places = [...new Set(this.labels)];
        if (places.every((label) => label.trim() !== "" && !Number.isNaN(Number(label)))) places.sort((a, b) => a - b);
        this.rows = places.map((label) => at.get(label) ?? -1);
        this.places = places;
      } else this.places = rows.map((row) => this.labels[row]);
      this.range = [0, this.rows.length];
      this.cursor = null;
      if (this.select) this.select.value = choice;
      this.note();
      this.draw();
      this.keep();
    }

    size(row) {
      return row < 0 ? 0 : this.parts.reduce((sum, part, i) => sum + (this.off.has(i) ? 0 : Math.max(0, part[row] || 0)), 0);
    }

    /* End of the axis, as `chart_data.axis_end`: a few columns far above the median reach beyond it. */
    top() {
      const all = this.rows.map((row) => this.size(row)).filter((_, i) => this.rows[i] >= 0).sort((a, b) => a - b);
      const middle = all.length ? (all[(all.length - 1) >> 1] + all[all.length >> 1]) / 2 : 0, most = all.at(-1) || 0;
      const limit = TALL * middle;
      if (!most) return { end: 1, most };
      if (limit <= 0 || most <= limit) return { end: most, most };
      return { end: Math.max(...all.filter((size) => size <= limit)) * 1.15, most };
    }

    frame() {
      this.live = this.box.querySelector(".live");
      this.live.hidden = false;
      this.box.querySelector(".still").hidden = true;
      this.bar = Dom.html("div", { class: "zoom" });
      const step = (text, title, action) => { const b = Dom.button(text, title, action); b.setAttribute("aria-label", title); return b; };
      this.bar.append(
        step("‹", "Earlier", () => this.pan(-0.5)), step("›", "Later", () => this.pan(0.5)),
        step("+", "Zoom in", () => this.zoom(0.5)), step("−", "Zoom out", () => this.zoom(2)),
      );
      this.all = Dom.button("All", "Show all columns", () => this.show(0, this.rows.length));
      this.bar.append(this.all);
      this.plot = Dom.html("div", { class: "plot" });
      this.plot.tabIndex = 0;
      this.plot.setAttribute("role", "application");
      this.plot.setAttribute("aria-roledescription", "chart");
      this.heard = Dom.html("span", { class: "heard" });
      this.heard.setAttribute("aria-live", "polite");
      this.live.append(this.bar, this.plot, this.heard);
      ColumnsInput.attach(this);
      this.chooser();
      this.legend();
      this.notes = this.box.querySelector(".notes");
      const toggle = this.wholeButton = Dom.button("Show the whole height", "", () => {
        this.whole = !this.whole;
        told();
        this.draw();
        this.keep();
      });
      const told = () => { toggle.textContent = this.whole ? "Cut the axis" : "Show the whole height"; };
      this.toggled.push(told);
    }

    chooser() {
      const place = this.box.querySelector(".select");
      if (!place) return;
      const label = Dom.html("label", {}, this.spec.selectLabel + " ");
      this.select = Dom.html("select");
      for (const choice of this.choices) this.select.append(Dom.html("option", {}, choice));
      this.select.addEventListener("change", () => this.choose(this.select.value));
      label.append(this.select);
      place.replaceChildren(label);
    }

    legend() {
      this.box.querySelectorAll("[data-series]").forEach((item) => {
        const button = Dom.html("button");
        button.type = "button";
        button.title = "Show or hide";
        button.setAttribute("aria-pressed", "true");
        button.append(...item.childNodes);
        item.replaceChildren(button);
        const series = Number(item.dataset.series), told = () => {
          item.classList.toggle("hid", this.off.has(series));
          button.setAttribute("aria-pressed", String(!this.off.has(series)));
        };
        this.toggled.push(told);
        button.addEventListener("click", () => {
          if (!this.off.delete(series)) this.off.add(series);
          told();
          this.draw();
          this.keep();
        });
      });
    }

    note() {
      const { end, most } = this.top(), { unit, xLabel } = this.spec, said = [];
      const missing = this.places.filter((_, i) => this.rows[i] < 0);
      if (missing.length) said.push(`${this.choice} has no ${xLabel.toLowerCase()} ${ranges(missing)}.`);
      if (most > end) {
        const highest = this.places[this.rows.findIndex((row) => this.size(row) === most)];
        said.push(`The axis ends at ${Units.humanize(end, unit)} so that ordinary columns can be read; the highest (${xLabel} ${highest}) is ${Units.humanize(most, unit)}.`);
      }
      this.notes.replaceChildren(said.join(" ") + " ");
      if (most > end) this.notes.append(this.wholeButton);
      this.plot.setAttribute("aria-label", `${this.spec.title}${this.choice ? ", " + this.choice : ""}: ${this.rows.length} columns, ${xLabel} ${this.places[0]} to ${this.places.at(-1)}. Arrow keys move, Enter opens, plus and minus zoom.`);
    }

    show(from, to) {
      const count = this.rows.length, wide = Math.min(count, Math.max(Math.min(FEWEST, count), Math.round(to - from)));
      const begin = Math.max(0, Math.min(count - wide, Math.round(from)));
      this.range = [begin, begin + wide];
      this.draw();
      this.keep();
    }

    zoom(factor, around) {
      const [from, to] = this.range, middle = around ?? (this.cursor ?? (from + to) / 2), wide = (to - from) * factor;
      const share = (middle - from) / Math.max(1, to - from);
      this.show(middle - wide * share, middle + wide * (1 - share));
    }

    pan(share) {
      const [from, to] = this.range, by = Math.sign(share) * Math.max(1, Math.round((to - from) * Math.abs(share)));
      this.show(from + by, to + by);
    }

    /* Bins of neighbours where there is no room for each: a bin shows its highest column, which is a real one. */
    bins(width) {
      const [from, to] = this.range, per = Math.max(1, Math.ceil(((to - from) * NARROWEST) / width));
      const bins = [];
      for (let at = from; at < to; at += per) {
        let best = at;
        for (let i = at + 1; i < Math.min(to, at + per); i += 1) if (this.size(this.rows[i]) > this.size(this.rows[best])) best = i;
        bins.push(best);
      }
      return { bins, per };
    }

    draw() {
      const wide = this.live.clientWidth - LEFT - 6;
      if (wide <= 0) return;
      const { end, most } = this.top(), { bins, per } = this.bins(wide);
      const seen = this.range[0] === 0 && this.range[1] === this.rows.length;
      const highest = Math.max(...bins.map((at) => this.size(this.rows[at])), 0);
      this.end = (this.whole || most <= end ? (seen ? most : highest) : Math.min(end, seen ? end : highest)) || 1;
      const longest = Math.max(...bins.map((at) => Math.min(this.places[at].length, MOST_NAMED)), 1);
      this.label = longest * LETTER + 14;
      this.step = Math.min(Math.max(WIDEST, this.label), wide / Math.max(1, bins.length));
      this.drawn = bins;
      const height = TOP + HIGH + BOTTOM;
      const svg = Dom.svg("svg", { class: "columns", viewBox: `0 0 ${LEFT + wide + 6} ${height}`, width: LEFT + wide + 6, height, "aria-hidden": "true" });
      svg.append(...this.axis(Math.min(wide, Math.max(SHORTEST, this.step * bins.length))), ...this.shapes(bins), ...this.names(bins, LEFT + wide));
      this.mark = Dom.svg("rect", { class: "mark", y: TOP, height: HIGH, width: 0 });
      this.brush = Dom.svg("rect", { class: "brush", y: TOP, height: HIGH, width: 0 });
      svg.prepend(this.mark);
      svg.append(this.brush);
      this.plot.replaceChildren(svg);
      this.all.disabled = seen;
      this.bar.hidden = this.rows.length <= FEWEST * 2;
      this.bar.dataset.per = per > 1 ? `each column is the highest of ${per}` : "";
      this.point(this.cursor);
    }

    axis(wide) {
      const shapes = [];
      for (const value of ticks(this.end, this.spec.unit)) {
        const y = TOP + HIGH * (1 - value / this.end);
        shapes.push(Dom.svg("line", { class: "grid", x1: LEFT, x2: LEFT + wide, y1: y, y2: y }));
        shapes.push(Dom.svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, Units.humanize(value, this.spec.unit)));
      }
      return shapes;
    }

    shapes(bins) {
      const bottom = bins.map(() => 0), width = Math.min(WIDEST, this.step - Math.min(4, this.step * 0.18)), found = [];
      const x = (j) => LEFT + (j + 0.5) * this.step - width / 2;
      this.parts.forEach((part, i) => {
        if (this.off.has(i)) return;
        const moves = bins.map((at, j) => {
          const value = this.rows[at] < 0 ? 0 : Math.max(0, part[this.rows[at]] || 0);
          const low = Math.min(bottom[j], this.end), high = Math.min((bottom[j] += value), this.end);
          if ((high - low) / this.end < 0.0005) return "";
          const y = (v) => (TOP + HIGH * (1 - v / this.end)).toFixed(2);
          return `M${x(j).toFixed(2)} ${y(low)}V${y(high)}h${width.toFixed(2)}V${y(low)}z`;
        }).join("");
        if (moves) found.push(Dom.svg("path", { d: moves, class: "k-" + this.spec.keys[i] }));
      });
      bins.forEach((at, j) => {
        if (this.rows[at] < 0 && !(this.rows[bins[j - 1]] < 0)) found.push(this.ghost(bins, j));
        else if (bottom[j] > this.end * 1.001) found.push(Dom.svg("path", { class: "beyond", d: `M${x(j)} ${TOP + 7}l${width / 2} -7l${width / 2} 7z` }));
      });
      return found;
    }

    /* Columns without data, neighbours as one. */
    ghost(bins, from) {
      let to = from;
      while (this.rows[bins[to]] < 0) to += 1;
      return Dom.svg("rect", { class: "ghost", x: LEFT + from * this.step + 1, y: TOP, width: (to - from) * this.step - 2, height: HIGH });
    }

    names(bins, end) {
      const every = Math.max(1, Math.ceil(this.label / this.step)), found = [];
      bins.forEach((at, j) => {
        if (j % every) return;
        const text = Units.shorten(this.places[at], MOST_NAMED), x = LEFT + (j + 0.5) * this.step;
        found.push(Dom.svg("text", { x: Math.min(x, end + 6 - (text.length * LETTER) / 2), y: TOP + HIGH + 17, "text-anchor": "middle" }, text));
      });
      return found;
    }

    /* Marks a column and says what it is; `at` is a place, null marks none. */
    point(at) {
      const j = at === null ? -1 : this.drawn.findIndex((bin, i) => bin >= at || (this.drawn[i + 1] ?? this.range[1]) > at);
      this.mark.setAttribute("width", j < 0 ? 0 : this.step);
      this.mark.setAttribute("x", LEFT + Math.max(0, j) * this.step);
      return j;
    }

    placeAt(x) {
      const j = Math.floor((x - LEFT) / this.step);
      return j >= 0 && j < this.drawn.length ? this.drawn[j] : null;
    }

    route(at) {
      const parts = [this.spec.x, this.places[at], ...(this.choices.length > 1 ? [this.choice] : [])];
      return [this.view, ...parts.map(encodeURIComponent)].join("/");
    }

    /* Shows one column by its label and choice; returns its row, or null where it has none. */
    find(label, choice) {
      if (choice && !this.choices.includes(choice)) return null;
      const row = this.labels.findIndex((own, i) => own === label && (!choice || this.of[i] === choice));
      if (row < 0) return null;
      if (this.of[row] !== this.choice) this.choose(this.of[row]);
      this.cursor = this.rows.indexOf(row);
      const [from, to] = this.range;
      if (this.cursor < from || this.cursor >= to) this.show(0, this.rows.length);
      else this.draw();
      return row;
    }
  }

  /* Round numbers of the unit: 1, 2 or 5 times a power of ten; of bytes a power of two. */
  function ticks(end, unit) {
    const rough = end / 4, ten = 10 ** Math.floor(Math.log10(rough));
    const size = unit.startsWith("bytes") ? 2 ** Math.ceil(Math.log2(rough)) : ten * [1, 2, 5, 10].find((n) => n * ten >= rough * 0.999);
    return Array.from({ length: Math.floor(end / size + 1e-9) + 1 }, (_, i) => i * size);
  }

  /* "119, 122 to 125" */
  function ranges(labels) {
    const numbers = labels.map(Number), found = [];
    if (numbers.some(Number.isNaN)) return labels.length > 6 ? labels.slice(0, 6).join(", ") + " …" : labels.join(", ");
    for (const n of numbers) {
      if (found.length && n === found.at(-1)[1] + 1) found.at(-1)[1] = n;
      else found.push([n, n]);
    }
    const said = found.slice(0, 6).map(([a, b]) => (a === b ? String(a) : `${a} to ${b}`)).join(", ");
    return found.length > 6 ? said + " …" : said;
  }

  function of(box) {
    if (!charts.has(box)) charts.set(box, new Chart(box));
    return charts.get(box);
  }

  return { of, start: (part) => part.querySelectorAll("[data-chart]").forEach((box) => Dom.whenWide(box, () => of(box))) };
})();
