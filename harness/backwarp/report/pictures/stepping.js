// A recorded run, moment by moment: see stepping.py, which fills in RUN_NAME and RUN_VIEWS.
// A view is of one warp.
(() => {
  const VIEWS = RUN_VIEWS;
  const show = (root, chosen) => {
  const V = VIEWS[chosen], DOES = ["reads", "writes", "updates"];
  const NOW = ["#a6d8f5", "#f2b134", "#ef8354"], GREY = "#666";
  const make = (parent, tag, text = "", style = "") => {
    const node = parent.appendChild(document.createElement(tag));
    node.textContent = text;
    node.style.cssText = style;
    return node;
  };
  const bit = (mask, lane) => mask >>> lane & 1;
  const value = number => number < 0 ? "" : V.texts[number];
  const last = V.moments.length - 1;

  // every line has a colour, strong where a thread runs it and faint where it waits
  const numbers = V.lines.map(([n]) => n), ran = [...new Set(V.moments.map(([line]) => line))].sort((a, b) => a - b);
  const colour = (line, faint) => {
    const i = ran.indexOf(line);
    return i < 0 ? "#fff" : `hsl(${(i * 137.5 + 200) % 360} 65% ${faint ? 88 : 62}%)`;
  };

  // the line at which each lane is at each moment, 0: not begun, negative: it takes no part and waits there
  const lines = V.lanes.map(([lane], i) => {
    let at = V.before[i];
    return V.moments.map(([line, mask], t) => {
      if (bit(mask, lane)) at = line;
      return bit(mask, lane) ? at : t > V.ends[i] ? 0 : -at;
    });
  });

  // the first index of what is past the end goes on
  const split = (flat, shape) => [...shape].reverse().map((n, axis) => {
    const i = axis + 1 < shape.length ? flat % n : flat;
    flat = (flat - i) / n;
    return i;
  }).reverse();
  const size = array => array.shape.reduce((a, b) => a * b, 1);
  const element = (array, flat) => array.shape.length < 2 ? `${array.name}[${flat}]`
    : `${array.name}[${split(flat, array.shape).map((i, axis) => array.axes.length === array.shape.length ? `${array.axes[axis]}=${i}` : i).join(",")}]`;

  // what is known at a moment: variables of each lane, elements of each array
  function state(time) {
    const known = V.lanes.map(() => new Map()), held = V.arrays.map(a => a.values && [...a.values]);
    for (let t = -1; t <= time; t++) {
      for (const [mask, name, text] of V.sets[t + 1])
        V.lanes.forEach(([lane], i) => {
          if (!bit(mask, lane)) return;
          if (text < 0) known[i].delete(name); else known[i].set(name, {text, fresh: t === time});
        });
      if (t >= 0) for (const [array, flat, text] of V.writes[t]) held[array][flat] = text;
    }
    return {known, held};
  }

  // [kind, array, flat, width, text of what was moved] of a lane at a moment; of all lanes, with lane -1
  function accesses(time, wanted) {
    const found = [];
    for (const [kind, array, rows, values] of V.touched[time]) {
      let nth = 0;
      for (const [first, flat, many, apart, width] of rows)
        for (let i = 0; i < many; i++, nth++)
          if (wanted < 0 || first + i === wanted) found.push([kind, array, flat + i * apart, width, values[nth]]);
    }
    return found;
  }

  function start() {
    root.textContent = "";
    let [time, lane] = V.at;
    const index = () => Math.max(0, V.lanes.findIndex(([n]) => n === lane));
    const thread = () => `(${V.lanes[index()].slice(1)})`;

    make(root, "div", `${V.kernel}, case ${V.case}`, "font-weight:bold");
    const where = make(root, "div", `grid ${V.grid.join(" x ")}, blocks of ${V.block.join(" x ")} threads; `, `color:${GREY}`);
    const named = v => `warp ${v.warp} of block (${v.of})`;
    if (VIEWS.length > 1) {
      const other = make(where, "select", "", "font:inherit");
      other.setAttribute("aria-label", "warp");
      VIEWS.forEach(v => make(other, "option", named(v)));
      other.selectedIndex = chosen;
      other.onchange = () => { show(root, other.selectedIndex); root.querySelector("select").focus(); };
    } else make(where, "span", named(V));
    make(where, "span", (V.moments.length < V.total ? `, moments ${V.first + 1} to ${V.first + V.moments.length} of ${V.total}` : "")
      + (V.full ? ", as far as the record goes" : ""));
    const bar = make(root, "div", "", "display:flex;flex-wrap:wrap;gap:.3em .5em;align-items:center;margin:.5em 0");
    const slider = make(bar, "input", "", "flex:1 1 12em;min-width:8em");
    Object.assign(slider, {type: "range", min: 0, max: last, value: time});
    slider.setAttribute("aria-label", "time");
    const count = make(bar, "output", "", "min-width:6em");
    const strip = make(root, "div", "", "position:relative;cursor:pointer");
    const canvas = make(strip, "canvas", "", "display:block;width:100%;image-rendering:pixelated;border:1px solid #999;box-sizing:border-box");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "the threads of the warp as rows, the moments as columns, lines as colours");
    canvas.width = V.moments.length;
    canvas.height = V.lanes.length;
    canvas.style.height = `${Math.max(40, Math.min(8 * V.lanes.length, 224))}px`;
    const column = make(strip, "div", "", "position:absolute;top:0;bottom:0;border:1.5px solid #000;pointer-events:none;box-sizing:border-box");
    const row = make(strip, "div", "", "position:absolute;left:0;right:0;border:1px solid #000;pointer-events:none;box-sizing:border-box");
    const pen = canvas.getContext("2d");
    lines.forEach((of, y) => of.forEach((line, x) => {
      pen.fillStyle = line ? colour(Math.abs(line), line < 0) : "#fff";
      pen.fillRect(x, y, 1, 1);
    }));
    make(root, "div", "Rows are threads, columns moments, colours lines: faint where a thread waits for others of its warp, white before it begins and after it ends.",
      `font-size:.85em;color:${GREY}`);
    const says = make(root, "div", "", "min-height:2.8em;margin:.4em 0");
    const body = make(root, "div", "", "display:flex;flex-wrap:wrap;gap:.4em 1.2em;align-items:flex-start");
    const code = make(body, "div", "", "flex:3 1 24em;min-width:0;max-width:100%;max-height:22em;overflow:auto;font:12.5px/1.45 ui-monospace,monospace;background:#f6f6f6");
    const about = make(body, "div", "", "flex:1 1 13em;min-width:0;max-height:22em;overflow:auto;font:12.5px/1.45 ui-monospace,monospace");
    const arrays = make(root, "div", "", "display:flex;flex-wrap:wrap;gap:.2em 1.2em;align-items:flex-start;margin-top:.5em");
    const prints = make(root, "pre", "", "margin:.4em 0 0;max-height:8em;overflow:auto;white-space:pre-wrap");

    const rows = V.lines.map(([n, text]) => {
      const line = make(code, "div", "", "white-space:pre;width:max-content;min-width:100%");
      make(line, "span", "", `display:inline-block;width:.6em;height:1em;vertical-align:-2px;background:${ran.includes(n) ? colour(n) : "none"}`);
      const here = make(line, "span", "", "display:inline-block;width:2.2em;text-align:right;color:#555");
      make(line, "span", `${n}`.padStart(5) + " | ", `color:${GREY}`);
      make(line, "span", text);
      return {line, here};
    });
    const grids = V.arrays.map(array => array.values && grid(array));

    function grid(array) {
      const columns = array.shape.length > 1 ? array.shape.at(-1) : Math.min(16, array.shape[0]);
      const figure = make(arrays, "figure", "", "margin:0;max-width:100%");
      make(figure, "figcaption", `${array.name}  ${array.shape.join(" x ")}${array.shared ? ", shared" : ""}`, `font-size:.85em;color:${GREY}`);
      const box = make(figure, "div", "", "overflow:auto;max-height:16em");
      const table = make(box, "table", "", "border-collapse:collapse;color:#222;font:11.5px/1.3 ui-monospace,monospace;margin:0");
      const cells = [];
      for (let flat = 0; flat < array.values.length; flat += columns) {
        const line = make(table, "tr", "", "background:none");
        const plane = array.shape.length > 2 && flat && flat % (columns * array.shape.at(-2)) === 0;
        for (let i = flat; i < Math.min(flat + columns, array.values.length); i++) {
          const cell = make(line, "td", "", `border:1px solid #bbb;padding:0 .3em;text-align:right;min-width:1.2em;height:1.3em${plane ? ";border-top:3px solid #777" : ""}`);
          cell.title = element(array, i);
          cells.push(cell);
        }
      }
      return cells;
    }

    // a number in few characters, in a cell
    const brief = text => text.length <= 7 || isNaN(text) ? text : `${+(+text).toPrecision(4)}`;

    function draw() {
      const [line, mask, interval] = V.moments[time], {known, held} = state(time), me = index(), at = Math.abs(lines[me][time]);
      slider.value = time;
      count.textContent = `moment ${time + 1} of ${V.moments.length}`;
      column.style.left = `${100 * time / V.moments.length}%`;
      column.style.width = `max(3px, ${100 / V.moments.length}%)`;
      row.style.top = `${100 * me / V.lanes.length}%`;
      row.style.height = `${100 / V.lanes.length}%`;
      const together = V.lanes.filter(([n]) => bit(mask, n)).length, takes = bit(mask, lane);
      says.textContent = "";
      make(says, "div", `${together} of ${V.lanes.length} threads run line ${line}; ${interval} barrier${interval === 1 ? "" : "s"} passed.`);
      const own = takes ? accesses(time, lane) : [];
      const moved = own.map(([kind, array, flat, width, text]) => `${DOES[kind]} ${element(V.arrays[array], flat)}` +
        (flat < 0 || flat + width > size(V.arrays[array]) ? `, outside ${V.arrays[array].name}` : ": " +
          (text === undefined ? Array.from({length: width}, (_, i) => value(held[array][flat + i]) || "unset").join(" ") : value(text))));
      make(says, "div", `Thread ${thread()} ${takes ? moved.length ? moved.join(", ") : "runs it" : at ? time > V.ends[me] ? "has ended" : `waits after line ${at}` : "has not begun, or has ended"}.`);
      if (V.fault.length && time === V.fault[0]) make(says, "div", V.fault[2], "color:#b3261e;font-weight:bold");
      else if (V.says && time === V.at[0]) make(says, "div", V.says, "font-weight:bold");
      rows.forEach(({line: node, here}, i) => {
        const standing = lines.filter(of => Math.abs(of[time]) === numbers[i]).length;
        here.textContent = standing || "";
        node.style.background = numbers[i] === line ? colour(line, true) : "none";
        node.style.fontWeight = numbers[i] === at ? "bold" : "normal";
        if (numbers[i] === line) code.scrollTop = Math.max(0, node.offsetTop - code.offsetTop - code.clientHeight / 2);
      });
      about.textContent = "";
      make(about, "div", `thread ${thread()}`, "font-weight:bold");
      for (const [name, {text, fresh}] of [...known[me]].reverse())
        make(about, "div", `${fresh ? "*" : " "}${V.names[name]} = ${V.texts[text]}`, `white-space:pre-wrap;overflow-wrap:anywhere${fresh ? ";font-weight:bold" : ""}`);
      const live = new Map();
      for (const [kind, array, flat, width] of accesses(time, -1))
        for (let i = 0; i < width; i++) live.set(`${array}.${flat + i}`, kind);
      const mine = new Set(own.flatMap(([, array, flat, width]) => Array.from({length: width}, (_, i) => `${array}.${flat + i}`)));
      grids.forEach((cells, n) => cells?.forEach((cell, flat) => {
        const kind = live.get(`${n}.${flat}`), text = brief(value(held[n][flat]));
        if (cell.textContent !== text) cell.textContent = text;
        cell.style.backgroundColor = kind === undefined ? "transparent" : NOW[kind];
        cell.style.outline = mine.has(`${n}.${flat}`) ? "2px solid #000" : "none";
      }));
      prints.textContent = V.printed.slice(0, time + 1).flat().join("").trimEnd();
      prints.style.display = prints.textContent ? "block" : "none";
    }

    const go = (t, l = lane) => { time = Math.max(0, Math.min(last, t)); lane = l; draw(); };
    const find = (by, wanted) => { for (let t = time + by; t >= 0 && t <= last; t += by) if (wanted(t)) return go(t); };
    const runs = t => bit(V.moments[t][1], lane);
    const barrier = by => find(by, t => runs(t) && V.moments[t][2] !== V.moments[time][2]);
    const other = by => { const i = index() + by; if (V.lanes[i]) go(time, V.lanes[i][0]); };
    const KEYS = {ArrowLeft: () => go(time - 1), ArrowRight: () => go(time + 1), ArrowUp: () => other(-1), ArrowDown: () => other(1),
      n: () => find(1, runs), p: () => find(-1, runs), b: () => barrier(1), B: () => barrier(-1), s: () => go(0), e: () => go(last),
      Home: () => go(0), End: () => go(last), f: () => V.fault.length && go(V.fault[0], V.fault[1])};
    const button = (text, key, says) => {
      const node = make(bar, "button", text, "font:inherit;padding:.1em .5em");
      node.title = `${says} (${key})`;
      node.onclick = KEYS[key];
    };
    button("\u25c0", "p", "the thread's line before");
    button("\u25b6", "n", "the thread's next line");
    if (V.moments.some(([, , interval]) => interval !== V.moments[0][2])) button("barrier", "b", "to the next barrier; back: B");
    if (V.fault.length) button("fault", "f", "to the fault");
    make(bar, "span", "keys: \u2190 \u2192 moment, \u2191 \u2193 thread, n p its lines, b B barrier, s e start and end" + (V.fault.length ? ", f fault" : ""),
      `font-size:.85em;color:${GREY}`);
    slider.oninput = () => go(+slider.value);
    strip.onclick = event => {
      const box = canvas.getBoundingClientRect(), part = (at, size, n) => Math.max(0, Math.min(n - 1, Math.floor(at / size * n)));
      go(part(event.clientX - box.left, box.width, V.moments.length), V.lanes[part(event.clientY - box.top, box.height, V.lanes.length)][0]);
      root.focus({preventScroll: true});
    };
    root.onkeydown = event => {
      event.stopPropagation();
      if (event.target.tagName === "SELECT") return;
      if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
      event.preventDefault();
      KEYS[event.key]();
    };
    draw();
  }
  start();
  };

  for (const root of document.querySelectorAll("#RUN_NAME:not([data-live])")) {
    root.dataset.live = "yes";
    root.dataset.lmSuppressShortcuts = "true";  // JupyterLab would take the keys for itself
    root.classList.add("backwarp-drawn");
    root.tabIndex = 0;
    root.style.cssText += ";background:#fff;color:#222;color-scheme:light;font:14px/1.4 system-ui,sans-serif;box-sizing:border-box";
    show(root, VIEWS.findIndex(v => v.chosen));
  }
})();
