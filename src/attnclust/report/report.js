"use strict";
// The live parts of the page. Every text of the data reaches the page as text, never as markup.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const array = (packed, Kind) => {
    const bytes = atob(packed);
    const out = new Uint8Array(bytes.length);
    for (let i = 0; i < bytes.length; i++) out[i] = bytes.charCodeAt(i);
    return new Kind(out.buffer);
  };
  const labels = array(data.labels, Int32Array);
  const figures = Object.entries(data.figures).map(([name, packed]) => [name, array(packed, Float32Array)]);
  const x = array(data.x, Float32Array);
  const y = array(data.y, Float32Array);
  const drawn = data.drawn && array(data.drawn, Int32Array); // the rows of the map, if not all
  const codes = data.known && array(data.known.codes, Int32Array);
  const rowAt = (point) => (drawn ? drawn[point] : point);

  // Words

  const number = (digits) => (v) =>
    v.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const percent = (v) => `${number(1)(100 * v)}%`;
  const cut = (text, most) => {
    const characters = Array.from(text.slice(0, 2 * most));
    return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : text;
  };
  const nameOf = (row) => (data.ids ? `id ${cut(data.ids[row], 80) || "unknown"}` : `row ${row}`);
  const knownOf = (row) => (codes && codes[row] >= 0 ? data.known.names[codes[row]] : null);

  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  // A text of the data, set apart so that its direction cannot reorder what is around it.
  const said = (text, most) => {
    const element = make("bdi", { textContent: most ? cut(text, most) : text });
    element.dir = "auto";
    return element;
  };
  const digits = { confidence: 3, margin: 1, "outlier score": 2 };
  const lineOf = (row) => {
    const known = knownOf(row);
    const line = make("p", { className: "soft" }, said(nameOf(row)),
      ` · ${labels[row] < 0 ? "no cluster" : `cluster ${labels[row]}`}`);
    for (const [name, values] of figures) {
      const value = values[row];
      if (Number.isFinite(value)) line.append(` · ${name} ${number(digits[name])(value)}`);
    }
    if (known !== null) line.append(" · known: ", said(known, 80));
    return line;
  };
  const wordsOf = (text) => {
    if (!data.texts) return [];
    if (text === null || text === "") return [make("p", { className: "soft long" }, "no text")];
    return [make("p", { className: "long" }, said(text))];
  };

  // How a cluster looks: colour and symbol both, and no two alike among the first 49

  const symbols = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x"];
  const outlines = {
    circle: "M1 6a5 5 0 1 0 10 0a5 5 0 1 0-10 0", square: "M1.5 1.5h9v9h-9z",
    "triangle-up": "M6 .8L11.6 10.5H.4z", "triangle-down": "M6 11.2L11.6 1.5H.4z",
    diamond: "M6 0L12 6L6 12L0 6z", cross: "M4 1h4v3h3v4H8v3H4V8H1V4h3z",
    x: "M3 .7L6 3.7L9 .7L11.3 3L8.3 6L11.3 9L9 11.3L6 8.3L3 11.3L.7 9L3.7 6L.7 3z",
  };
  const colour = (k) => data.colours[k % data.colours.length];
  const symbol = (k) => symbols[(k + Math.floor(k / data.colours.length)) % symbols.length];
  const alike = data.colours.length * symbols.length;
  const swatch = (k) => {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", "0 0 12 12");
    svg.setAttribute("class", "swatch");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", outlines[symbol(k)]);
    path.setAttribute("fill", colour(k));
    svg.append(path);
    return svg;
  };
  const clusterButton = (k, words = "") => {
    const button = make("button", { type: "button", className: "cluster" }, swatch(k), words + k);
    button.setAttribute("aria-label", `cluster ${k}: show its rows`);
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      choose(k);
    });
    return button;
  };

  // The chosen cluster and its rows

  const clusters = new Map(data.clusters.map((c) => [c.cluster, c]));
  let chosen = null;

  const listed = (title, rows) => [
    make("h3", { textContent: title }),
    rows.length
      ? make("ol", {}, ...rows.map((row) => make("li", {}, ...wordsOf(data.long[row]), lineOf(row))))
      : make("p", { className: "soft", textContent: "none" }),
  ];
  const portrait = (c) => {
    const line = make("p", {}, `${number(0)(c.size)} rows, ${percent(c.share)} of all`);
    if (c.mostly !== null) line.append(", mostly ", said(c.mostly), ` (${percent(c.mostly_share)})`);
    if (c.nearest !== null) line.append("; nearest is", clusterButton(c.nearest, "cluster "));
    return [line, ...listed("Rows that stand for it", c.representative),
      ...listed("Rows at its border", c.borderline)];
  };
  $("panel-body").append(...listed("Rows farthest from their centres", data.outlying));
  const introduction = [...$("panel-body").children];
  const choose = (k, point = null) => {
    const c = clusters.get(k);
    const body = [];
    if (point !== null) {
      const text = data.texts && data.texts[point];
      body.push(make("div", { className: "row" }, ...wordsOf(text), lineOf(rowAt(point))));
    }
    body.push(...(c ? portrait(c) : point === null ? introduction : []));
    const title = c ? `Cluster ${k}` : point === null ? "Rows of a cluster" : "A row in no cluster";
    $("panel-title").replaceChildren(...(c ? [swatch(k), title] : [title]));
    $("panel-body").replaceChildren(...body);
    if (c || point !== null) $("panel").scrollIntoView({ block: "nearest" });
    chosen = c ? k : null;
    $("clear").disabled = !c && point === null;
    for (const [other, row] of tableRows) {
      row.classList.toggle("chosen", other === chosen);
      row.querySelector("button").setAttribute("aria-pressed", String(other === chosen));
    }
    highlight();
  };
  $("clear").addEventListener("click", () => choose(null));

  // The table of clusters

  const columns = [
    { key: "cluster", down: false, says: "Number, colour and symbol in the map." },
    { key: "size", format: number(0), says: "Rows with this label." },
    { key: "weight", format: number(3), says: "Its weight in the fitted mixture." },
    { key: "cohesion", format: number(3), says: "Mean confidence of its rows: 1 where none could belong elsewhere." },
    { key: "spread", format: (v) => v.toPrecision(3),
      says: "Root mean square distance of its rows to the centre, per coordinate." },
    { key: "nearest", down: false, says: "Cluster whose centre is nearest." },
    { key: "separation", format: number(1), says: "Distance to the nearest centre in standard deviations of the noise." },
    { key: "stability", format: number(2), says: "Mean overlap with its counterpart in refits "
      + "on resampled rows: above 0.85 it is found again, below 0.6 it is hardly there." },
    { key: "mostly", words: true, says: "Most frequent known label, and its share of the cluster." },
    { key: "text", words: true, says: "The row that stands for it best." },
  ];
  const content = (c, { key, format, words }) => {
    if (key === "cluster") return clusterButton(c.cluster);
    const value = c[key];
    if (value === null || value === undefined) return "–";
    if (key === "mostly") {
      return make("span", {}, said(value, 80), ` (${percent(c.mostly_share)})`);
    }
    return words ? said(value, 120) : format ? format(value) : String(value);
  };
  for (const c of data.clusters) c.text = data.texts ? data.long[c.representative[0]] : null;
  const kept = columns.filter(({ key }) => data.clusters.some((c) => ![null, undefined].includes(c[key])));
  const tableRows = new Map();
  const [head, body] = [$("clusters").tHead.rows[0], $("clusters").tBodies[0]];
  for (const c of data.clusters) {
    const row = body.insertRow();
    for (const column of kept) {
      row.insertCell().append(content(c, column));
      row.lastChild.className = column.words ? "words" : "number";
    }
    row.addEventListener("click", () => choose(c.cluster));
    tableRows.set(c.cluster, row);
  }
  const sort = (column, falling) => {
    const sign = falling ? -1 : 1;
    const compare = (a, b) => {
      const [u, v] = [a[column.key] ?? null, b[column.key] ?? null];
      if (u === null || v === null) return (u === null) - (v === null); // unknown ones last
      return sign * (column.words ? u.localeCompare(v) : u - v) || a.cluster - b.cluster;
    };
    body.append(...[...data.clusters].sort(compare).map((c) => tableRows.get(c.cluster)));
    for (const cell of head.cells) cell.removeAttribute("aria-sort");
    head.cells[kept.indexOf(column)].setAttribute("aria-sort", falling ? "descending" : "ascending");
  };
  const explain = (name, says) =>
    $("columns").append(make("dt", { textContent: name }), make("dd", { textContent: says }));
  for (const column of kept) {
    const button = make("button", { type: "button", textContent: column.key, title: column.says });
    const cell = make("th", { scope: "col", className: column.words ? "words" : "number" }, button);
    button.addEventListener("click", () => {
      const order = cell.getAttribute("aria-sort");
      sort(column, order ? order === "ascending" : !column.words && column.down !== false);
    });
    head.append(cell);
    explain(column.key, column.says);
  }
  explain("confidence", "Of a row: largest posterior.");
  if (data.clusters.length > 1) {
    explain("margin", "Of a row: log-odds of its cluster against the second best, in nats.");
  }
  explain("outlier score", "Of a row: squared distance to its centre over that of noise; 1 is usual.");
  sort(columns.find(({ key }) => key === "size"), true);

  const filter = () => {
    const wanted = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const c of data.clusters) {
      const words = [`cluster ${c.cluster}`, c.mostly, c.text].join("\n").toLowerCase();
      const fits = wanted.every((word) => words.includes(word));
      tableRows.get(c.cluster).hidden = !fits;
      left += fits;
    }
    $("count").textContent = `${left} of ${data.clusters.length} clusters`;
  };
  $("filter").addEventListener("input", filter);
  filter();

  // The map: one trace for each look, the chosen cluster on top, and the numbers of the clusters

  const map = $("map");
  const webgl = Boolean(document.createElement("canvas").getContext("webgl"));
  const step = webgl ? 1 : Math.ceil(x.length / 5000); // points of SVG are slow
  if (step > 1) {
    $("map-note").append(` This browser has no WebGL: one in ${step} of the rows is shown.`);
  }
  const looks = new Map();
  for (let point = 0; point < x.length; point += step) {
    const label = labels[rowAt(point)];
    const look = label < 0 ? -1 : label % alike;
    if (!looks.has(look)) looks.set(look, []);
    looks.get(look).push(point);
  }
  const size = x.length > 20000 ? 4 : x.length > 2000 ? 6 : 8;
  const pick = (values, points) => Float32Array.from(points, (point) => values[point]);
  const members = [...looks].sort(([a], [b]) => a - b);
  const dots = members.map(([look, points]) => ({
    type: webgl ? "scattergl" : "scatter", mode: "markers", hoverinfo: "none",
    x: pick(x, points), y: pick(y, points),
    marker: {
      size, opacity: 0.7, color: look < 0 ? "#8a949e" : colour(look),
      symbol: look < 0 ? "circle-open" : symbol(look),
    },
  }));
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const overlay = { ...dots[0], x: [], y: [], hoverinfo: "skip", marker: { size: size + 2 } };
  // Notes, as points of WebGL would hide markers of SVG.
  const numbers = () => data.clusters.map(({ cluster: k }) => ({
    x: data.centres[k][0], y: data.centres[k][1], text: `<b>${k}</b>`, showarrow: false,
    captureevents: true, opacity: chosen === null || chosen === k ? 0.95 : 0.5,
    font: { size: 11, color: style("--ink") }, bgcolor: style("--page"),
    bordercolor: colour(k), borderwidth: 2, borderpad: 2,
  }));
  const axis = (title) => ({
    title: { text: title, font: { size: 12 } }, gridcolor: style("--line"),
    linecolor: style("--line"), zerolinecolor: style("--line"), tickfont: { size: 11 },
  });
  const layout = () => ({
    annotations: numbers(), paper_bgcolor: style("--page"), plot_bgcolor: style("--page"), showlegend: false,
    font: { family: "system-ui, sans-serif", color: style("--soft") },
    margin: { l: 56, r: 12, t: 12, b: 52 }, hovermode: "closest", hoverdistance: 12,
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // leaves touch to scrolling
    xaxis: axis("first direction"),
    yaxis: { ...axis("second direction"), scaleanchor: "x" },
  });
  const highlight = () => {
    if (map.getAttribute("aria-busy") === "true") return;
    const points = [];
    for (let point = 0; chosen !== null && point < x.length; point += step) {
      if (labels[rowAt(point)] === chosen) points.push(point);
    }
    Plotly.restyle(map, {
      x: [pick(x, points)], y: [pick(y, points)], "marker.color": colour(chosen ?? 0),
      "marker.symbol": symbol(chosen ?? 0), "marker.opacity": 0.9,
    }, [dots.length]);
    Plotly.update(map, { "marker.opacity": chosen === null ? 0.7 : 0.2 },
      { annotations: numbers() }, dots.map((_, place) => place));
  };

  const hover = $("hover");
  const pointOf = ({ points: [{ curveNumber, pointNumber }] }) => members[curveNumber][1][pointNumber];
  const show = (event) => {
    const point = pointOf(event);
    hover.replaceChildren(...wordsOf(data.texts && data.texts[point]), lineOf(rowAt(point)));
    hover.hidden = false;
    const { clientX, clientY } = event.event;
    const { width, height } = hover.getBoundingClientRect();
    const left = clientX + 14 + width > innerWidth ? clientX - 14 - width : clientX + 14;
    hover.style.left = `${Math.max(4, left)}px`;
    hover.style.top = `${Math.max(4, Math.min(clientY + 14, innerHeight - height - 4))}px`;
  };
  const zoom = (factor) => {
    const range = ({ range: [from, to] }) => {
      const [middle, half] = [(from + to) / 2, (factor * (to - from)) / 2];
      return [middle - half, middle + half];
    };
    Plotly.relayout(map, { "xaxis.range": range(map.layout.xaxis), "yaxis.range": range(map.layout.yaxis) });
  };
  addEventListener("keydown", ({ key }) => { if (key === "Escape") hover.hidden = true; });
  $("zoom-in").addEventListener("click", () => zoom(0.6));
  $("zoom-out").addEventListener("click", () => zoom(1 / 0.6));
  $("whole").addEventListener("click", () =>
    Plotly.relayout(map, { "xaxis.autorange": true, "yaxis.autorange": true }));

  Plotly.newPlot(map, [...dots, overlay], layout(), { responsive: true, displayModeBar: false }).then(() => {
    map.on("plotly_hover", show);
    map.on("plotly_unhover", () => { hover.hidden = true; });
    map.on("plotly_click", (event) => choose(labels[rowAt(pointOf(event))], pointOf(event)));
    map.on("plotly_clickannotation", ({ index }) => choose(data.clusters[index].cluster));
    map.setAttribute("aria-busy", "false");
    if (chosen !== null) highlight();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    const { annotations, paper_bgcolor, plot_bgcolor, font, xaxis } = layout();
    const axes = Object.fromEntries(["xaxis", "yaxis"].flatMap((name) =>
      ["gridcolor", "linecolor", "zerolinecolor"].map((part) => [`${name}.${part}`, xaxis[part]])));
    Plotly.relayout(map, { annotations, paper_bgcolor, plot_bgcolor, "font.color": font.color, ...axes });
  });

  // The labels to take away

  $("download").addEventListener("click", () => {
    // A spreadsheet would run =, +, - and @ as formulas; the apostrophe makes text of them.
    const tame = (text) => (/^[=+\-@\t\r]/.test(text) && !Number.isFinite(+text) ? `'${text}` : text);
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const lines = [`${data.ids ? "id" : "row"},cluster,confidence`];
    const [[, confidence]] = figures;
    labels.forEach((label, row) => {
      const name = data.ids ? quoted(tame(data.ids[row])) : row;
      lines.push(`${name},${label},${Number(confidence[row].toPrecision(7))}`);
    });
    const url = URL.createObjectURL(new Blob([lines.join("\r\n"), "\r\n"], { type: "text/csv" }));
    make("a", { href: url, download: "labels.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  });
})();
