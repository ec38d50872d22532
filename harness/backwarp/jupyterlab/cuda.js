// Colours the cells of CUDA as C++: JupyterLab itself knows one language for all cells of a notebook. And in a dark theme
// what is drawn for a white page becomes dark: the lessons' pictures, and plots in the course's own notebooks. Their
// formulas can be moved sideways where a page is narrow.
//
// A prebuilt extension, written by hand because it is this small: JupyterLab looks in window._JUPYTERLAB for a container
// (of webpack's module federation) and calls its init with the packages that all extensions share.
(() => {
  const CPP = "text/x-c++src", CUDA = /^%%(kernel|cuda)\b[^]*__global__/;
  let packages;

  const colour = cell => {
    const see = () => {
      if (cell.type === "code" && cell.mimeType !== CPP && CUDA.test(cell.sharedModel.getSource())) cell.mimeType = CPP;
    };
    see();
    cell.contentChanged.connect(see);
    cell.mimeTypeChanged.connect(see);  // a kernel that starts gives all cells its language
  };

  const STYLE = `.backwarp-course mjx-container[display="true"] { display: block; max-width: 100%; overflow-x: auto; }
    body[data-jp-theme-light="false"] :is(.jp-RenderedMarkdown img[src*="/puzzles/"],
    .backwarp-course .jp-RenderedImage img) { filter: invert(0.93) hue-rotate(180deg); }`;

  const activate = (app, notebooks) => {
    document.head.appendChild(document.createElement("style")).textContent = STYLE;
    const seen = new WeakSet();
    const watch = async panel => {
      await panel.context.ready;
      panel.toggleClass("backwarp-course", panel.context.model.getMetadata("kernelspec")?.name === "backwarp");
      const cells = panel.context.model.cells;
      const all = () => {
        for (const cell of cells) if (!seen.has(cell)) seen.add(cell), colour(cell);
      };
      all();
      cells.changed.connect(all);
    };
    notebooks.forEach(watch);
    notebooks.widgetAdded.connect((_, panel) => watch(panel));
  };

  (window._JUPYTERLAB ??= {}).backwarp = {
    init: given => { packages = given; },
    get: async () => {
      const [notebook] = Object.values(packages["@jupyterlab/notebook"]);
      const {INotebookTracker} = (await notebook.get())();
      const plugin = {id: "backwarp:cuda", autoStart: true, requires: [INotebookTracker], activate};
      return () => ({__esModule: true, default: plugin});
    },
  };
})();
