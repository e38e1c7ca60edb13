"use strict";
// The question and the answer as tokens: resting on one shows its attention in every head at once.
const PageTokens = (() => {
  const { make } = PageDraw;
  const MOST = 64;

  class Strip {
    constructor(page) {
      this.page = page;
      this.held = null;
      this.element = document.getElementById("tokens");
      this.element.addEventListener("pointerover", (event) => this.point(event));
      this.element.addEventListener("pointerleave", () => this.put(this.held));
      this.element.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && this.point(event));
      this.element.addEventListener("focusout", () => this.put(this.held));
      this.element.addEventListener("keydown", (event) => this.press(event));
      this.element.addEventListener("click", (event) => this.hold(event));
    }

    tokenOf(event) {
      const { side, index } = event.target.closest?.("button")?.dataset ?? {};
      return side ? { side, index: Number(index) } : null;
    }

    point(event) {
      const token = this.tokenOf(event);
      if (token) this.put(token);
    }

    /** A click keeps the token chosen after the pointer has left; a second one lets it go. */
    hold(event) {
      const token = this.tokenOf(event);
      if (!token) return;
      this.held = JSON.stringify(this.held) === JSON.stringify(token) ? null : token;
      this.put(this.held);
    }

    put(token) {
      if (JSON.stringify(token) === JSON.stringify(this.page.token)) return;
      this.page.token = token;
      this.mark();
      this.page.grid.draw();
      this.page.large.draw();
      this.page.sum.drawArcs();
    }

    press(event) {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const buttons = [...this.element.querySelectorAll("button")];
      const at = buttons.indexOf(document.activeElement);
      if (event.key === "Escape") return this.put((this.held = null));
      if (!by || at < 0) return;
      event.preventDefault();
      const next = buttons[Math.max(0, Math.min(buttons.length - 1, at + by))];
      buttons.forEach((button) => (button.tabIndex = button === next ? 0 : -1));
      next.focus();
    }

    mark() {
      const is = (button, token) => token && button.dataset.side === token.side && Number(button.dataset.index) === token.index;
      this.element.querySelectorAll("button").forEach((button) => {
        button.classList.toggle("hovered", Boolean(is(button, this.page.token)));
        button.setAttribute("aria-pressed", String(Boolean(is(button, this.held))));
      });
    }

    /** The tokens as they are; a token that is no longer there is let go. */
    show() {
      const { run, source, result } = this.page;
      const answer = PageTasks.writes(run) ? result.tokens : [];
      const names = [source, answer].map((ids) => ids.map((id) => PageTasks.tokenName(run, id)));
      const key = JSON.stringify(names);
      const [asked, wrote] = names;
      this.element.hidden = source.length > MOST || !PageState.headsOf(run).length;
      if (this.key === key) return;
      this.key = key;
      const gone = (token) => token && token.index >= (token.side === "source" ? source : answer).length;
      if (gone(this.held)) this.held = null;
      if (gone(this.page.token) || this.element.hidden) this.page.token = this.held;
      const label = (text) => make("span", { class: "label" }, text);
      const written = wrote.length ? [label("writes"), ...wrote.map((name, index) => this.button("answer", index, name))] : [];
      this.element.replaceChildren(label("Attention of a token: reads"), ...asked.map((name, index) => this.button("source", index, name)), ...written);
      this.element.querySelector("button").tabIndex = 0;
      this.mark();
    }

    button(side, index, name) {
      const said = side === "source" ? `Token ${index + 1}, ${name}` : `Written token ${index + 1}, ${name}`;
      return make("button", { type: "button", tabindex: -1, "data-side": side, "data-index": index, "aria-label": said }, name);
    }
  }

  return { Strip };
})();
