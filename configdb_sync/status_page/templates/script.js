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
