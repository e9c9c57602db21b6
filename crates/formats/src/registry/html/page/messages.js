// Short messages, and the box with the keys.

class Messages {
    constructor(page) {
        this.page = page;
        page.click("help", () => this.toggleHelp());
        page.click("close-help", () => this.toggleHelp());
    }

    // A short message, also for those who hear the page.
    say(text) {
        const box = this.page.element("said");
        box.textContent = text;
        box.classList.add("shown");
        clearTimeout(this.saying);
        this.saying = setTimeout(() => box.classList.remove("shown"), 2500);
    }

    isHelpShown() {
        return !this.page.element("help-box").hidden;
    }

    toggleHelp() {
        const { page } = this;
        page.element("help-box").hidden = this.isHelpShown();
        page.element(this.isHelpShown() ? "close-help" : "canvas").focus();
    }
}
