
// Enhances a page that is complete without it: theme, read-outs on charts, legends that toggle, tables that sort, copy.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, properties = {}) => Object.assign(document.createElement(name), properties);
  const svgElement = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);

  // Theme: follow the system until told otherwise.
  const themes = ["auto", "light", "dark"];
  const root = document.documentElement;
  const remembered = () => { try { return localStorage.getItem("highwater-theme"); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem("highwater-theme", theme); } catch { /* not allowed from here */ } };
  const themeButton = make("button", { className: "theme", type: "button" });
  const setTheme = (theme) => {
    root.toggleAttribute("data-theme", theme !== "auto");
    if (theme !== "auto") root.setAttribute("data-theme", theme);
    themeButton.textContent = `Theme: ${theme}`;
    themeButton.dataset.now = theme;
  };
  setTheme(themes.includes(remembered()) ? remembered() : "auto");
  themeButton.addEventListener("click", () => {
    const next = themes[(themes.indexOf(themeButton.dataset.now) + 1) % themes.length];
    setTheme(next);
    remember(next);
  });
  document.querySelector("header").append(themeButton);

  // Tables: a button in each header sorts by that column; a third press restores the order of the plan.
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0];
    const planned = [...body.rows];
    const headers = all("tr.columns th", table);
    const key = (row, column) => {
      const field = row.cells[column];
      const text = field.dataset.sort ?? field.textContent.trim();
      const number = Number(text.replaceAll(",", ""));
      return text === "" || text === "–" ? null : Number.isNaN(number) ? text : number;
    };
    const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
    headers.forEach((header, column) => {
      const button = make("button", { type: "button" });
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: null }[header.ariaSort] ?? (header.ariaSort ? null : "ascending");
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        let rows = planned;
        if (next) {
          header.setAttribute("aria-sort", next);
          const sign = next === "ascending" ? 1 : -1;
          rows = [...planned].sort((a, b) => {
            const [one, two] = [key(a, column), key(b, column)];
            return one === null || two === null ? (one === null) - (two === null) : sign * compare(one, two);
          });
        }
        body.append(...rows);
      });
    });
  }

  // Axes: a drawing carries "kind low high unit" for x and y, and the rectangle of its plot.
  const axis = (text) => {
    const [kind, low, high, unit = ""] = text.split(" ");
    const [from, to] = [Number(low), Number(high)];
    const value = {
      linear: (t) => from + t * (to - from),
      log: (t) => from * (to / from) ** t,
      percentile: (t) => 100 * (1 - (1 - to / 100) ** t),
    }[kind];
    return { kind, unit, value };
  };
  const figureText = (value, unit) => {
    const digits = unit === "%" ? 7 : 3;
    const decimals = value === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
    const shown = unit === "%" ? 100 - Number((100 - value).toPrecision(2)) : Number(value.toFixed(Math.min(decimals, 12)));
    const text = shown.toLocaleString("en", { maximumFractionDigits: 7 });
    return unit.startsWith("/") || unit === "" ? text + unit : `${text} ${unit}`;
  };

  // The points of a line, from the relative steps of its path.
  const points = (path) => {
    const found = [];
    let x = 0;
    let y = 0;
    for (const [, command, rest] of path.getAttribute("d").matchAll(/([Mlh])([^Mlh]*)/g)) {
      const [a, b] = (rest.match(/-?[\d.]+/g) ?? []).map(Number);
      if (command === "h") continue;
      [x, y] = command === "M" ? [a, b] : [x + a, y + b];
      found.push([x, y]);
    }
    return found;
  };
  const nearest = (list, x) => {
    let low = 0;
    let high = list.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (list[middle][0] < x) low = middle; else high = middle;
    }
    return x - list[low][0] <= list[high][0] - x ? list[low] : list[high];
  };

  const tip = make("div", { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);

  for (const figure of all("figure")) {
    // Legends: an item becomes a switch for its series.
    for (const item of all(".legend li", figure)) {
      const button = make("button", { type: "button" });
      button.append(...item.childNodes);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(on));
        all(`svg.chart [data-s="${item.dataset.s}"]`, figure).forEach((part) => part.classList.toggle("off", !on));
      });
      item.append(button);
    }

    // Read-outs: one cursor through all panels of a figure, moved by pointer or by arrow keys.
    for (const group of all(".panels", figure)) {
      const charts = all("svg.chart[data-x]", group).map((svg) => {
        const [left, top, right, bottom] = svg.dataset.plot.split(" ").map(Number);
        const cursor = svgElement("line");
        cursor.setAttribute("class", "cursor off");
        cursor.setAttribute("y1", top);
        cursor.setAttribute("y2", bottom);
        svg.append(cursor);
        return { svg, left, top, right, bottom, cursor, x: axis(svg.dataset.x), y: axis(svg.dataset.y), lines: null };
      });
      if (!charts.length) continue;
      let at = 0.5;
      let current = charts[0];
      const hide = () => {
        tip.hidden = true;
        charts.forEach((chart) => chart.cursor.classList.add("off"));
      };
      const show = () => {
        const { svg, left, top, right, bottom, x, y } = current;
        current.lines ??= all("path[data-name]", svg)
          .map((path) => ({ path, points: points(path) }))
          .filter((line) => line.points.length);
        const wanted = left + at * (right - left);
        const near = current.lines
          .filter(({ path }) => !path.classList.contains("off"))
          .map(({ path, points: list }) => ({ name: path.dataset.name, list, point: nearest(list, wanted) }));
        // The cursor stands on a measured point, never between two.
        const pixel = near.reduce(
          (best, { point }) => (Math.abs(point[0] - wanted) < Math.abs(best - wanted) ? point[0] : best),
          near[0]?.point[0] ?? wanted,
        );
        const share = (pixel - left) / (right - left);
        for (const chart of charts) {
          const middle = chart.left + share * (chart.right - chart.left);
          chart.cursor.setAttribute("x1", middle);
          chart.cursor.setAttribute("x2", middle);
          chart.cursor.classList.remove("off");
        }
        const rows = near.map(({ name, list, point }) => {
          const beyond = pixel < list[0][0] - 1 || pixel > list.at(-1)[0] + 1;
          return `${name}: ${beyond ? "–" : figureText(y.value((bottom - point[1]) / (bottom - top)), y.unit)}`;
        });
        tip.textContent = [figureText(x.value(share), x.unit), ...rows].join("\n");
        tip.hidden = false;
        const frame = svg.getBoundingClientRect();
        const scale = frame.width / svg.viewBox.baseVal.width;
        const rightOf = frame.left + pixel * scale + 14;
        const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
        const beside = rightOf > room ? frame.left + pixel * scale - tip.offsetWidth - 14 : rightOf;
        tip.style.left = `${Math.max(4, beside) + scrollX}px`;
        tip.style.top = `${frame.top + top * scale + 4 + scrollY}px`;
      };
      charts.forEach((chart) => {
        chart.svg.addEventListener("pointermove", (event) => {
          const frame = chart.svg.getBoundingClientRect();
          const x = ((event.clientX - frame.left) / frame.width) * chart.svg.viewBox.baseVal.width;
          at = Math.min(1, Math.max(0, (x - chart.left) / (chart.right - chart.left)));
          current = chart;
          show();
        });
        chart.svg.addEventListener("pointerleave", hide);
      });
      group.tabIndex = 0;
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", "Chart read-out: arrow keys move along the axis and between panels");
      group.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        const panel = { ArrowUp: -1, ArrowDown: 1 }[event.key];
        if (event.key === "Escape") return hide();
        if (!step && (!panel || charts.length < 2)) return;
        event.preventDefault();
        if (step) at = Math.min(1, Math.max(0, at + step / (event.shiftKey ? 10 : 50)));
        if (panel) current = charts[(charts.indexOf(current) + panel + charts.length) % charts.length];
        show();
      });
      group.addEventListener("blur", hide);
    }
  }

  // Copying a command.
  for (const command of all("pre.command")) {
    const copy = make("button", { type: "button", className: "copy", textContent: "Copy command" });
    copy.addEventListener("click", async () => {
      getSelection().selectAllChildren(command);
      try {
        await navigator.clipboard.writeText(command.textContent);
      } catch {
        document.execCommand("copy");
      }
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy command"; }, 2000);
    });
    command.after(copy);
  }
})();
