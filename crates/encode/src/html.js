"use strict";
const flame = document.getElementById("flame");
const boxes = [...flame.children].map(box => ({
  box, left: parseFloat(box.getAttribute("x")), width: parseFloat(box.getAttribute("width")), y: +box.getAttribute("y"),
  name: box.querySelector("title").textContent.split("\n")[0],
}));
const body = document.querySelector("tbody");
const rows = [...body.rows];
const [tools, input, output, whole] = [".tools", "input", "output", ".tools button"].map(one => document.querySelector(one));
tools.hidden = false;

function zoom(to) {
  for (const one of boxes) {
    const isCaller = one.y < to.y && one.left <= to.left && one.left + one.width >= to.left + to.width;
    const isWithin = one.y >= to.y && one.left + one.width > to.left + 1e-3 && one.left < to.left + to.width - 1e-3;
    one.box.style.display = isCaller || isWithin ? "" : "none";
    one.box.setAttribute("x", isCaller ? "0%" : 100 * (one.left - to.left) / to.width + "%");
    one.box.setAttribute("width", isCaller ? "100%" : 100 * one.width / to.width + "%");
    addText(one, isCaller ? 100 : 100 * one.width / to.width);
  }
}
function addText(one, width) {
  const group = one.box.firstChild;
  if (width < 1.2 || group.querySelector("text")) return;
  const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
  text.setAttribute("x", 4);
  text.setAttribute("y", 13);
  text.textContent = one.name.slice(0, 200);
  group.append(text);
}
flame.addEventListener("click", event => {
  // A click that ends a selection of text is none.
  if (!getSelection().isCollapsed) return;
  const found = boxes.find(one => one.box.contains(event.target));
  if (found && found.width > 0) zoom(found);
});
whole.addEventListener("click", () => zoom(boxes[0]));
addEventListener("keydown", event => { if (event.key === "Escape") zoom(boxes[0]); });

input.addEventListener("input", () => {
  const wanted = input.value.toLowerCase();
  const matches = name => wanted !== "" && name.toLowerCase().includes(wanted);
  for (const one of boxes) one.box.firstChild.classList.toggle("found", matches(one.name));
  for (const row of rows) row.hidden = wanted !== "" && !matches(row.cells[6].textContent + "\n" + row.cells[7].textContent);
  output.textContent = wanted && `${rows.filter(row => !row.hidden).length} functions`;
});

document.querySelectorAll("th").forEach((heading, column) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = heading.textContent;
  heading.replaceChildren(button);
  button.addEventListener("click", () => {
    const isDown = column < 6 ? heading.ariaSort !== "descending" : heading.ariaSort === "ascending";
    document.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    const key = row => column < 6 ? +row.cells[column].dataset.v || 0 : row.cells[column].textContent;
    const order = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (isDown ? -1 : 1);
    body.append(...rows.sort(order));
  });
});
