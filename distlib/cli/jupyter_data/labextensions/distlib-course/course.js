/* An extension of JupyterLab, loaded as it stands here: nothing builds it, and nobody installs it.

     run      Cells wait for their kernel, and say so. In an exercise they run one after another, also below one that
              fails, so that all parts show what they do. An interrupt ends all of them.
     place    A notebook opens at the cell where one was.

   JupyterLab calls `init` with the modules that it shares, and then `get`: the interface of module federation. */
(() => {
  "use strict";

  const SILENT = 500; // milliseconds; who waits no longer is told nothing
  const RESTS = 600; // milliseconds without scrolling, after which a place counts
  let shared;
  let notebooks = null; // JupyterLab's tracker of notebooks, once that is there

  async function load(name) {
    const [version] = Object.values(shared[name]);
    return (await version.get())();
  }

  /* ---- run ---- */

  function runner({ runCell }, { Notification }) {
    const waits = new WeakMap(); // by session context: what ends when its kernel is there
    const queues = new WeakMap(); // by session context: of an exercise, see inTurn

    function hasKernel(context) {
      return context.isReady && (Boolean(context.session?.kernel) || context.hasNoKernel);
    }

    async function kernelOf(context) {
      let shown = null;
      const timer = setTimeout(() => {
        const said = "The kernel is not there yet. The cells that wait for it run as soon as it is.";
        shown = Notification.emit(said, "in-progress", { autoClose: false });
      }, SILENT);
      try {
        await context.ready;
        if (!hasKernel(context)) {
          await new Promise(resolve => {
            const look = () => {
              if (context.isDisposed || hasKernel(context)) {
                context.kernelChanged.disconnect(look);
                context.disposed.disconnect(look);
                resolve();
              }
            };
            context.kernelChanged.connect(look);
            context.disposed.connect(look);
          });
        }
      } finally {
        clearTimeout(timer);
        waits.delete(context);
        if (shown !== null) Notification.dismiss(shown);
      }
    }

    function wait(context) {
      if (!waits.has(context)) waits.set(context, kernelOf(context));
      return waits.get(context);
    }

    function showsState(cell, state) {
      if ("executionState" in cell.model) cell.model.executionState = state; // "running" is shown as [*]
    }

    async function run(options) {
      const { cell, sessionContext } = options;
      if (cell.model.type !== "code" || !sessionContext) return runCell(options);
      if (!cell.model.sharedModel.getSource().trim()) return runCell(options);
      if (!hasKernel(sessionContext)) {
        showsState(cell, "running");
        await wait(sessionContext);
        if (cell.isDisposed || sessionContext.isDisposed) return false;
      }
      return runCell(options);
    }

    /* One after another. JupyterLab sends all at once, and after an error the kernel drops those that it has not begun. */
    async function inTurn(options) {
      const { cell, sessionContext } = options;
      if (!queues.has(sessionContext)) queues.set(sessionContext, { end: Promise.resolve(), left: 0, of: 0, failed: [], stops: 0 });
      const queue = queues.get(sessionContext);
      const stops = queue.stops;
      const before = queue.end;
      let done;
      queue.end = new Promise(resolve => (done = resolve));
      queue.left += 1;
      queue.of += 1;
      if (queue.left > 1) showsState(cell, "running");
      try {
        await before;
        if (cell.isDisposed) return false;
        if (queue.stops !== stops) {
          showsState(cell, "idle");
          return false;
        }
        return await run(options);
      } catch (error) {
        const said = String(error?.message ?? error);
        if (!said.startsWith("KernelReplyNotOK") || said.includes("KeyboardInterrupt")) queue.stops += 1;
        if (!said.startsWith("KernelReplyNotOK")) throw error;
        queue.failed.push(cell);
        return false;
      } finally {
        queue.left -= 1;
        done();
        if (queue.left === 0) {
          tellOf(queue, queue.stops !== stops);
          Object.assign(queue, { of: 0, failed: [] });
        }
      }
    }

    function tellOf({ of, failed }, stopped) {
      if (of < 2 || failed.length === 0 || stopped) return;
      const cells = failed.length === 1 ? "1 cell ended" : `${failed.length} cells ended`;
      const actions = [{ label: "Show the first", callback: () => showCell(failed[0]) }];
      Notification.warning(`${cells} with an error. All others have run, too.`, { autoClose: false, actions });
    }

    return options => {
      const isExercise = [...options.notebook.cells].some(cell => cell.getMetadata("nbgrader"));
      const isCode = options.cell.model.type === "code" && options.sessionContext;
      return isExercise && isCode ? inTurn(options) : run(options);
    };
  }

  async function showCell(cell) {
    const panel = notebooks?.find(each => each.content.widgets.includes(cell));
    if (!panel) return;
    panel.content.activeCellIndex = panel.content.widgets.indexOf(cell);
    panel.content.deselectAll();
    await panel.content.scrollToCell(cell, "start");
  }

  /* ---- place ---- */

  function placeKeeper({ ServerConnection }, { URLExt }, { Notification }) {
    const settings = ServerConnection.makeSettings();
    const url = URLExt.join(settings.baseUrl, "distlib", "places");
    const known = ServerConnection.makeRequest(url, {}, settings)
      .then(response => (response.ok ? response.json() : {}))
      .catch(() => ({})); // an older server, or none any more: a notebook opens at its top

    async function keep(path, cell) {
      (await known)[path] = cell;
      const body = JSON.stringify({ path, cell });
      await ServerConnection.makeRequest(url, { method: "PUT", body, keepalive: true }, settings).catch(() => {});
    }

    function isInView(cell, box) {
      const { top, bottom } = cell.node.getBoundingClientRect();
      return bottom > box.top + 20 && top < box.bottom - 20;
    }

    function placeIn(notebook, outer) {
      const box = outer.getBoundingClientRect();
      const active = notebook.activeCell;
      return active && isInView(active, box) ? active : notebook.widgets.find(cell => isInView(cell, box));
    }

    return async panel => {
      await panel.context.ready;
      await panel.revealed;
      const places = await known;
      const notebook = panel.content;
      const outer = notebook.node.querySelector(".jp-WindowedPanel-outer");
      if (panel.isDisposed || !outer) return;
      const path = panel.context.localPath;
      const place = notebook.widgets.find(cell => cell.model.id === places[path]);
      if (place && !location.hash && notebook.activeCellIndex <= 0 && outer.scrollTop === 0) {
        await showCell(place);
        const top = { label: "To the top", callback: () => showCell(notebook.widgets[0]) };
        Notification.info("Opened where you were.", { autoClose: 5000, actions: [top] });
      }
      let kept = places[path];
      let timer = 0;
      const look = () => {
        clearTimeout(timer);
        timer = setTimeout(() => {
          if (panel.isDisposed || !panel.isVisible) return;
          const cell = placeIn(notebook, outer)?.model.id;
          if (cell && cell !== kept) void keep(panel.context.localPath, (kept = cell));
        }, RESTS);
      };
      outer.addEventListener("scroll", look, { passive: true });
      notebook.activeCellChanged.connect(look);
      panel.disposed.connect(() => clearTimeout(timer));
    };
  }

  /* ---- what JupyterLab asks for ---- */

  async function plugins() {
    const [notebook, apputils, services, coreutils] = await Promise.all(
      ["notebook", "apputils", "services", "coreutils"].map(name => load(`@jupyterlab/${name}`))
    );
    const run = {
      id: "distlib-course:run",
      description: "Runs cells when their kernel is there; in an exercise, to the end.",
      autoStart: true,
      provides: notebook.INotebookCellExecutor, // JupyterLab takes the one that comes last, and extensions come last
      activate: () => Object.freeze({ runCell: runner(notebook, apputils) }),
    };
    const place = {
      id: "distlib-course:place",
      description: "Opens a notebook at the cell where one was.",
      autoStart: true,
      requires: [notebook.INotebookTracker],
      activate: (app, tracker) => {
        notebooks = tracker;
        const keepPlace = placeKeeper(services, coreutils, apputils);
        tracker.forEach(panel => void keepPlace(panel));
        tracker.widgetAdded.connect((_, panel) => void keepPlace(panel));
      },
    };
    return [run, place];
  }

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["distlib-course"] = {
    init: scope => {
      shared = scope;
    },
    get: async () => {
      const found = await plugins();
      return () => ({ __esModule: true, default: found });
    },
  };
})();
