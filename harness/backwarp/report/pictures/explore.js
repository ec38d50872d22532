// Sliders over one run of a kernel: see explore.py, which fills in RUN_NAME and RUN_VIEWS.
(() => {
  const VIEWS = RUN_VIEWS, SVG = "http://www.w3.org/2000/svg", WARP = 32, BANKS = 32, SHARED = -1;
  const NOW = ["#a6d8f5", "#e69f00", "#d55e00"], BEFORE = ["#d6e6f0", "#f6e3b8", "#f3cdb5"], PLAIN = "#ffffff";
  const DOES = ["reads", "writes", "updates"];

  const make = (parent, tag, text = "", style = "") => {
    const node = parent.appendChild(document.createElement(tag));
    node.textContent = text;
    node.style.cssText = style;
    return node;
  };
  const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const product = sizes => sizes.reduce((a, b) => a * b, 1);
  const split = (flat, sizes) => sizes.map(size => { const i = flat % size; flat = (flat - i) / size; return i; });
  const named = (flat, sizes) => sizes.length === 1 ? `${flat}` : `(${split(flat, sizes)})`;

  // lane -> its elements, of a step's [first lane, element, lanes, step, width]
  const lanesOf = (step, view) => {
    const found = new Map();
    for (const [lane, element, many, apart, width] of view.lanes[step[3]])
      for (let i = 0; i < many; i++)
        found.set(lane + i, Array.from({length: width}, (_, w) => element + i * apart + w));
    return found;
  };

  const element = (array, flat) => {
    const index = split(flat, [...array.shape].reverse()).reverse();
    return `${array.name}[${index.map((i, axis) => `${array.axes[axis]}=${i}`).join(",")}]`;
  };

  const word = (view, flat) => view.shared[Math.floor(flat / BANKS)] * BANKS + flat % BANKS;

  function grid(box, array) {
    const shape = array.shape, columns = shape.at(-1), rows = shape.at(-2) ?? 1, across = shape.at(-3) ?? 1;
    const down = product(shape.slice(0, -3)), flatRow = shape.length === 1 && columns > BANKS;
    const perRow = flatRow ? BANKS : columns;
    const lines = flatRow ? Math.ceil(columns / BANKS) : rows;
    const wide = across * (perRow + 0.5) - 0.5, high = down * (lines + 0.5) - 0.5;
    const side = Math.max(5, Math.min(34, Math.floor(620 / wide), array.axes ? 34 : Math.max(8, Math.floor(240 / high))));
    const figure = make(box, "figure", "", "margin:.3em 1.2em .3em 0;max-width:100%");
    make(figure, "figcaption", `${array.name}  ${array.note ?? shape.join(" x ")}`, "font-size:.85em;color:#555");
    const svg = figure.appendChild(document.createElementNS(SVG, "svg"));
    svg.setAttribute("viewBox", `-1 -1 ${wide * side + 2} ${high * side + 2}`);
    svg.style.cssText = `width:${wide * side + 2}px;max-width:100%;height:auto;display:block`;
    const cells = [];
    for (let flat = 0; flat < product(shape); flat++) {
      const plane = Math.floor(flat / (rows * columns)), inside = flat % (rows * columns);
      const x = (plane % across) * (perRow + 0.5) + inside % perRow;
      const y = Math.floor(plane / across) * (lines + 0.5) + Math.floor(inside / perRow);
      const rect = svg.appendChild(document.createElementNS(SVG, "rect"));
      for (const [key, value] of Object.entries({x: x * side, y: y * side, width: side, height: side}))
        rect.setAttribute(key, value);
      rect.appendChild(document.createElementNS(SVG, "title")).textContent =
        array.axes ? element(array, flat) : `word ${array.word(flat)}, bank ${flat % BANKS}`;
      const text = [array.values?.[flat], array.after?.[flat]].reduce((a, b) => (b?.length ?? 0) > (a?.length ?? 0) ? b : a);
      let label = null;
      if (text && side >= 22 && text.length <= 6) {
        label = svg.appendChild(document.createElementNS(SVG, "text"));
        label.setAttribute("x", (x + 0.5) * side);
        label.setAttribute("y", (y + 0.5) * side);
        label.style.cssText = `font:${Math.min(12, side * 0.9 / text.length * 1.5)}px sans-serif;text-anchor:middle;` +
          "dominant-baseline:central;pointer-events:none;fill:#222";
      }
      cells.push({rect, label});
    }
    return cells;
  }

  function start(root) {
    root.textContent = "";
    root.dataset.lmSuppressShortcuts = "true";  // JupyterLab would take the arrow keys for itself
    root.addEventListener("keydown", event => event.stopPropagation());
    root.classList.add("backwarp-drawn");
    root.style.background = "#fff";
    root.style.color = "#222";
    root.style.colorScheme = "light";
    root.style.font = "14px/1.4 system-ui, sans-serif";
    const at = {view: 0, block: 0, warp: 0, thread: -1, time: 0};
    const bar = make(root, "div", "", "display:flex;flex-wrap:wrap;gap:.3em 1.2em;align-items:center");
    let choose = null;
    if (VIEWS.length > 1) {
      choose = make(make(bar, "label", "run "), "select", "", "max-width:80vw");
      VIEWS.forEach((v, i) => { make(choose, "option", `${v.kernel}: ${v.case}`).value = i; });
      choose.onchange = () => { at.view = +choose.value; at.block = at.warp = at.time = 0; at.thread = -1; begin(); };
    } else make(bar, "b", `${VIEWS[0].kernel}: ${VIEWS[0].case}`);
    const sizes = make(bar, "span", "", "color:#555");
    const sliders = make(root, "div", "", "display:flex;flex-wrap:wrap;gap:.2em 1.2em;margin:.4em 0");
    const says = make(root, "div", "", "min-height:4.3em");
    const arrays = make(root, "div", "", "display:flex;flex-wrap:wrap;align-items:flex-start");
    const legend = make(root, "div", "", "font-size:.85em;color:#555;margin-top:.3em");
    const colours = [[NOW[0], "read now"], [NOW[1], "written now"], [BEFORE[0], "read before"], [BEFORE[1], "written before"]];
    for (const [colour, text] of colours) {
      const item = make(legend, "span", "", "white-space:nowrap;margin-right:1.2em");
      make(item, "span", "", `display:inline-block;width:1em;height:1em;border:1px solid #999;background:${colour};` +
        "vertical-align:-2px;margin-right:.3em");
      item.append(text);
    }
    let cells = [], handles = {}, playing = 0;

    const view = () => VIEWS[at.view];
    // how many steps of the whole run write an element
    const writes = () => view().counted ??= Object.values(view().steps).flat().reduce((found, step) => {
      if (step[0]) for (const elements of lanesOf(step, view()).values())
        for (const e of elements) found.set(`${step[1]}.${e}`, (found.get(`${step[1]}.${e}`) ?? 0) + 1);
      return found;
    }, new Map());
    // what it holds: known until it is written, and after its only write
    const held = (array, key, written) => {
      const flat = +key.split(".")[1];
      return !written ? array.values[flat] ?? "" : writes().get(key) === 1 ? array.after[flat] : "";
    };
    const warps = () => Math.ceil(product(view().block) / WARP);
    const lanes = () => Math.min(WARP, product(view().block) - at.warp * WARP);
    const steps = () => view().steps[`${at.block}.${at.warp}`] ?? [];

    const slider = (key, least, most) => {
      const label = make(sliders, "label", "", "display:flex;align-items:center;gap:.4em;max-width:100%");
      make(label, "span", key);
      const input = make(label, "input", "", `flex:0 1 ${key === "time" ? 15 : 7}em;min-width:2em`);
      Object.assign(input, {type: "range", min: least, max: most, value: at[key]});
      input.setAttribute("aria-label", key);
      const shown = make(label, "output", "", "min-width:4em");
      input.oninput = () => {
        at[key] = +input.value;
        if (key === "block" || key === "warp") {
          at.thread = -1;
          at.time = Math.min(at.time, Math.max(0, steps().length - 1));
          begin();
          handles[key].input.focus();
        } else draw();
      };
      handles[key] = {input, shown};
    };

    function begin() {
      clearInterval(playing);
      const v = view();
      sizes.textContent = `${v.sizes}   grid ${v.grid.join(" x ")}, blocks of ${v.block.join(" x ")} threads`;
      sliders.textContent = arrays.textContent = "";
      handles = {};
      if (product(v.grid) > 1) slider("block", 0, product(v.grid) - 1);
      if (warps() > 1) slider("warp", 0, warps() - 1);
      slider("thread", -1, lanes() - 1);
      slider("time", 0, Math.max(0, steps().length - 1));
      const play = make(sliders, "button", "play");
      play.onclick = () => {
        const was = playing;
        clearInterval(playing);
        playing = 0;
        play.textContent = was ? "play" : "stop";
        if (!was) playing = setInterval(() => {
          if (!root.isConnected) return clearInterval(playing);
          at.time = (at.time + 1) % Math.max(1, steps().length);
          handles.time.input.value = at.time;
          draw();
        }, 700);
      };
      const all = v.arrays.map(array => grid(arrays, array));
      if (v.shared.length) all[SHARED] = grid(arrays, {
        name: "shared memory", note: "of this block: the rows that are used, a bank to each column",
        shape: [v.shared.length * BANKS], word: flat => word(v, flat)});
      cells = all;
      draw();
    }

    function draw() {
      const v = view(), list = steps(), now = list[at.time], chosen = at.thread;
      const first = at.warp * WARP;
      for (const [key, {shown}] of Object.entries(handles))
        shown.textContent = key === "time" ? `${list.length ? at.time + 1 : 0} of ${list.length}`
          : key === "thread" ? (chosen < 0 ? "all" : named(first + chosen, v.block))
          : key === "block" ? named(at.block, v.grid) : at.warp;
      const before = new Map(), live = new Map(), done = new Set();
      list.slice(0, at.time + 1).forEach((step, i) => {
        for (const [lane, elements] of lanesOf(step, v))
          for (const e of elements) {
            const key = `${step[1]}.${e}`;
            if (step[0]) done.add(key);
            if (chosen < 0 || lane === chosen) (i === at.time ? live : before).set(key, step[0]);
          }
      });
      for (const [number, of] of Object.entries(cells)) of.forEach(({rect, label}, flat) => {
        const key = `${number}.${+number === SHARED ? word(v, flat) : flat}`, known = before.get(key), is = live.get(key);
        rect.setAttribute("fill", is !== undefined ? NOW[is] : known !== undefined ? BEFORE[known] : PLAIN);
        rect.setAttribute("stroke", is !== undefined ? "#222" : "#aaa");
        rect.setAttribute("stroke-width", is !== undefined ? 1.6 : 0.7);
        if (label) label.textContent = held(v.arrays[number], key, done.has(key));
      });
      says.textContent = "";
      if (!now) {
        make(says, "div", "The threads of this warp touch no memory.");
        return;
      }
      const touched = lanesOf(now, v), distinct = new Set([...touched.values()].flat()).size;
      const name = now[1] === SHARED ? "shared memory" : v.arrays[now[1]].name;
      const cost = now[1] === SHARED ? `in ${plural(now[2], "turn")}` : `in ${plural(now[2], "sector")} of 32 bytes`;
      make(says, "div", `Step ${at.time + 1}: the warp ${DOES[now[0]]} ${name}: ${plural(touched.size, "thread")}, ` +
        `${plural(distinct, now[1] === SHARED ? "word" : "element")}, ${cost}.`);
      if (chosen >= 0) {
        const own = touched.get(chosen), who = `Thread ${named(first + chosen, v.block)}`;
        const what = own && (now[1] === SHARED ? `word ${own.join(", ")}`
          : own.map(e => element(v.arrays[now[1]], e)).join(", "));
        make(says, "div", own ? `${who} ${DOES[now[0]]} ${what}.` : `${who} takes no part in this step.`);
      }
      if (v.cut && at.time === list.length - 1) make(says, "div", "What came later is not shown.");
    }
    begin();
  }

  for (const root of document.querySelectorAll("#RUN_NAME:not([data-live])")) {
    root.dataset.live = "yes";
    start(root);
  }
})();
