"use strict";
// What the theme leaves to the pointer, for the keyboard: its toggles are labels of hidden checkboxes, and code or tables
// that are wider than the page scroll sideways.
document.addEventListener("DOMContentLoaded", () => {
  const checkboxes = [...document.querySelectorAll("#__navigation, #__toc")];
  const toggles = [...document.querySelectorAll("label[for=__navigation]:not(.overlay), label[for=__toc]:not(.overlay)")];
  const tell = () => toggles.forEach((label) => label.setAttribute("aria-expanded", String(label.control.checked)));
  for (const label of toggles) {
    label.tabIndex = 0;
    label.setAttribute("role", "button");
    label.setAttribute("aria-label", label.control.getAttribute("aria-label"));
    label.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      label.click();
    });
  }
  checkboxes.forEach((one) => one.addEventListener("change", tell));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    checkboxes.forEach((one) => (one.checked = false));
    tell();
  });
  tell();

  const wide = [...document.querySelectorAll("pre, .table-wrapper")];
  const reach = () => wide.forEach((one) => one.toggleAttribute("tabindex", one.scrollWidth > one.clientWidth) && one.setAttribute("tabindex", "0"));
  reach();
  addEventListener("resize", reach);
});
