"use strict";
const order = new Intl.Collator("en", { numeric: true });
const valueOf = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
const number = (text) => (text.trim() === "" ? NaN : Number(text));
const compare = (one, other) => {
  const difference = number(one) - number(other);
  return Number.isNaN(difference) ? order.compare(one, other) : difference;
};

for (const table of document.querySelectorAll("table[data-sorts]")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
      rows.sort((one, other) => sign * compare(one[0], other[0]));
      body.append(...rows.map(([, row]) => row));
    });
  });

  const label = document.createElement("label");
  const input = document.createElement("input");
  const told = document.createElement("span");
  label.className = "search";
  input.type = "search";
  told.setAttribute("role", "status");
  label.append("Search ", input);
  const line = document.createElement("div");
  line.className = "search";
  line.append(label, told);
  table.parentElement.before(line);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    told.textContent = input.value ? `${shown} of ${body.rows.length} rows` : "";
  });
}
