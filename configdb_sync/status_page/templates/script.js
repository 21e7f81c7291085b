// Narrows a table down while one types; without it the form does the same. "/" goes to the field.
(() => {
  const field = document.querySelector("input[data-rows]");
  if (!field) return;
  const rows = [...document.querySelectorAll(`#${field.dataset.rows} tbody tr`)];
  const texts = rows.map((row) => (row.dataset.name ?? row.cells[0].textContent).toLowerCase());
  const told = document.getElementById("told");
  let waiting = 0;
  const narrow = () => {
    const part = field.value.toLowerCase();
    let shown = 0;
    rows.forEach((row, place) => {
      row.hidden = !texts[place].includes(part);
      shown += row.hidden || row.className === "why" ? 0 : 1;
    });
    if (told) told.textContent = `${shown} shown`;
  };
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(narrow, 120);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      field.focus();
    }
  });
})();
// Of the matrix's many links one is a Tab stop; arrow keys move between them.
(() => {
  const body = document.querySelector("#matrix tbody");
  if (!body) return;
  let current;
  const stop = (link) => {
    if (current) current.tabIndex = -1;
    current = link;
    current.tabIndex = 0;
  };
  const links = body.querySelectorAll("td.s a");
  for (const link of links) link.tabIndex = -1;
  if (links.length) stop(links[0]);
  body.addEventListener("focusin", (event) => {
    if (event.target.matches("td.s a")) stop(event.target);
  });
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  body.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    let cell = event.target.closest("td.s");
    if (!step || !cell) return;
    event.preventDefault();
    const rows = [...body.rows].filter((row) => !row.hidden && row.className !== "why");
    let row = rows.indexOf(cell.parentElement);
    let place = cell.cellIndex;
    do {
      row += step[0];
      place += step[1];
      cell = rows[row]?.cells[place];
    } while (cell && !cell.querySelector("a"));
    cell?.querySelector("a")?.focus();
  });
})();
