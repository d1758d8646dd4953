/* The step graph as a chart to zoom into. All other pictures of the report are static. */
const Charts = (() => {
  const ZOOM_FROM = 24;
  const drawn = [];

  const color = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();

  /* The columns of a table; of a chart with a choice, only the rows that have the chosen value. */
  function rowsOf(spec, table, choice) {
    const column = (name) => table.data[table.columns.findIndex((c) => c.name === name)];
    if (!spec.select) return column;
    const rows = column(spec.select).flatMap((value, i) => (value === choice ? [i] : []));
    return (name) => rows.map((i) => column(name)[i]);
  }

  function hover(spec, column) {
    return (points) => {
      const box = document.createElement("div");
      box.className = "hover";
      const row = points[0].dataIndex;
      const line = (key, name, value) => {
        const div = document.createElement("div");
        const mark = document.createElement("i");
        if (key) mark.className = "k-" + key;
        const number = document.createElement("b");
        number.textContent = value;
        div.append(mark, name, number);
        box.append(div);
      };
      const total = spec.series.reduce((sum, name) => sum + (column(name)[row] || 0), 0);
      line("", spec.xLabel + " " + column(spec.x)[row], Units.humanize(total, spec.unit));
      for (const point of [...points].reverse())
        if (point.value) line(spec.keys[point.seriesIndex], spec.names[point.seriesIndex], Units.humanize(point.value, spec.unit));
      return box;
    };
  }

  function optionsOf(spec, column, whole) {
    const muted = color("--muted"), line = color("--line"), count = column(spec.x).length;
    const axis = { axisLine: { lineStyle: { color: line } }, axisTick: { show: false }, axisLabel: { color: muted, hideOverlap: true } };
    const zoom = { type: "slider", height: 18, bottom: 4, borderColor: line, textStyle: { color: muted }, brushSelect: false, showDetail: false };
    return {
      animation: false,
      grid: { left: 64, right: 12, top: 8, bottom: count > ZOOM_FROM ? 52 : 26 },
      legend: { show: false, data: spec.names },
      tooltip: { trigger: "axis", axisPointer: { type: "shadow" }, formatter: hover(spec, column), confine: true, padding: 0, borderWidth: 0, backgroundColor: "transparent", extraCssText: "box-shadow:none" },
      xAxis: { type: "category", data: column(spec.x).map(String), ...axis },
      yAxis: { type: "value", max: spec.top && !whole ? spec.top : null, ...axis, splitLine: { lineStyle: { color: line } },
        axisLabel: { color: muted, formatter: (value) => Units.humanize(value, spec.unit), showMaxLabel: !(spec.top && !whole) } },
      dataZoom: count > ZOOM_FROM ? [{ type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false }, zoom] : [],
      series: spec.series.map((name, i) => ({
        name: spec.names[i], type: "bar", stack: "row", barCategoryGap: count > 400 ? 0 : "18%", barMaxWidth: 40,
        itemStyle: { color: color("--k-" + spec.keys[i]) }, emphasis: { disabled: true }, data: column(name).map((v) => Math.max(0, v)),
      })),
    };
  }

  function legend(box, chart, spec) {
    box.querySelectorAll("[data-series]").forEach((item) => {
      item.setAttribute("role", "button");
      item.tabIndex = 0;
      item.title = "Show or hide";
      const toggle = () => {
        item.classList.toggle("hid");
        chart.dispatchAction({ type: "legendToggleSelect", name: spec.names[Number(item.dataset.series)] });
      };
      item.addEventListener("click", toggle);
      item.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
    });
  }

  function build(box) {
    const spec = Tables.load(box.dataset.chart);
    const table = Tables.load(spec.table);
    const live = box.querySelector(".live");
    live.hidden = false;
    box.querySelector(".still").hidden = true;
    const chart = echarts.init(live, null, { renderer: "canvas" });
    let whole = false;
    const choices = spec.select ? [...new Set(rowsOf({}, table)(spec.select))] : [];
    let choice = choices[0];
    const draw = () => chart.setOption(optionsOf(spec, rowsOf(spec, table, choice), whole));
    draw();
    const select = box.querySelector(".select");
    if (select) {
      select.hidden = false;
      select.querySelector("input").addEventListener("input", (event) => {
        choice = choices[Number(event.target.value)];
        select.querySelector("b").textContent = choice;
        draw();
      });
    }
    legend(box, chart, spec);
    const button = box.querySelector(".whole");
    if (button) {
      button.hidden = false;
      button.addEventListener("click", () => {
        whole = !whole;
        button.textContent = whole ? "Cut the axis" : "Show the whole height";
        draw();
      });
    }
    new ResizeObserver(() => chart.resize()).observe(live);
    drawn.push(draw);
  }

  return {
    start: () => { if (window.echarts) document.querySelectorAll("[data-chart]").forEach(build); },
    redraw: () => drawn.forEach((draw) => draw()),
  };
})();
