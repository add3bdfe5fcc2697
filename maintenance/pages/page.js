// Draws the plots and follows the choosers. Rows come as blocks: `is` is what all rows share, `columns` what they do not.
(() => {
  "use strict";
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const drawn = {};

  const rowsOf = (blocks) => blocks.flatMap(({is, columns}) => {
    const names = Object.keys(columns);
    const length = names.length ? columns[names[0]].length : 1;
    return Array.from({length}, (_, i) => {
      const row = {...is};
      for (const name of names) row[name] = columns[name][i];
      return row;
    });
  });

  const datasets = (view) => Object.fromEntries(
    Object.entries(view.rows).map(([name, blocks]) => [name, rowsOf(blocks)]));

  const choiceOf = (plot) => {
    const chooser = plot.chooser && document.getElementById(plot.chooser);
    return chooser ? chooser.value : Object.keys(plot.views)[0];
  };

  const show = async (id) => {
    const plot = plots[id], place = document.getElementById(id), view = plot.views[choiceOf(plot)];
    place.closest("figure").classList.toggle("untold", !view);
    if (!view) return;
    place.setAttribute("aria-label", view.words);
    const rows = datasets(view);
    if (drawn[id]) {
      for (const [name, values] of Object.entries(rows)) drawn[id].data(name, values);
      await drawn[id].runAsync();
    } else {
      const options = {renderer: "svg", actions: false, tooltip: {theme: "report"}};
      drawn[id] = (await vegaEmbed(place, {...plot.spec, datasets: rows}, options)).view;
    }
  };

  const follow = async (chooser) => {
    for (const part of document.querySelectorAll(`[data-chooser="${chooser.id}"]`))
      part.hidden = part.dataset.choice !== chooser.value;
    for (const said of document.querySelectorAll(`[data-says="${chooser.id}"]`))
      said.textContent = chooser.selectedOptions[0].textContent;
    await Promise.all(Object.keys(plots).filter((id) => plots[id].chooser === chooser.id).map(show));
  };

  // Paper has another width than the screen: draw anew for it, so that words keep their size.
  const WIDE = 660, HALF = 320;
  addEventListener("beforeprint", () => {
    for (const [id, view] of Object.entries(drawn)) {
      const wide = document.getElementById(id).closest("figure").classList.contains("wide");
      view.width(wide ? WIDE : HALF).run();
    }
  });
  addEventListener("afterprint", () => dispatchEvent(new Event("resize")));

  for (const chooser of document.querySelectorAll("select"))
    chooser.addEventListener("change", () => follow(chooser));

  Promise.all(Object.keys(plots).map(show)).then(() => {
    document.documentElement.dataset.plots = Object.keys(drawn).length;
  });
})();
