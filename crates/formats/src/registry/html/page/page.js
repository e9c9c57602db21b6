// The page: its state, its parts, and what follows from a change of the state.

class Page {
    constructor(model) {
        this.model = model;
        this.views = new Views(model);
        this.colors = new Colors(model.header.kinds);
        this.state = initialState(model);
        this.depth = 0;
    }

    element(id) {
        return document.getElementById(id);
    }

    // An element whose content is text.
    make = (tag, text = "", className = "") => {
        const made = document.createElement(tag);
        if (text) made.textContent = text;
        if (className) made.className = className;
        return made;
    };

    click(id, action) {
        this.element(id).addEventListener("click", action);
    }

    begin() {
        const { header } = this.model;
        this.element("title").textContent = header.title;
        this.element("subtitle").textContent = header.subtitle;
        this.graph = new Graph(this.element("graph"), this.element("canvas"), this.element("spacer"), this.colors, this.model.frames);
        this.details = new Details(this);
        this.current = new Current(this);
        this.search = new Search(this);
        this.messages = new Messages(this);
        this.table = new Table(this);
        this.sidebar = new Sidebar(this);
        this.timeline = new Timeline(this);
        this.wire();
        this.wireCanvas();
        listenToKeys(this);
        showKeys(this);
        showLedger(this);
        this.state = stateOf(this.model, location.hash);
        const dark = matchMedia("(prefers-color-scheme: dark)");
        dark.addEventListener("change", (event) => this.setTheme(event.matches));
        this.setTheme(dark.matches);
        this.update();
        this.search.set(this.state.search);
        document.body.classList.add("ready");
        // Lists come after the first picture.
        setTimeout(() => {
            this.sidebar.show();
            this.timeline.show();
        });
    }

    wire() {
        VIEWS.forEach((view) => this.click(`view-${view}`, () => this.show(view)));
        this.click("icicle", () => this.go({ icicle: !this.state.icicle }));
        this.click("fold", () => this.go({ fold: !this.state.fold, part: 0, zoom: 0 }));
        this.click("order", () => this.switchOrder());
        this.click("widths", () => this.switchWidths());
        this.click("theme", () => this.switchTheme());
        this.click("reset", () => this.reset());
        this.element("widths").hidden = !this.model.difference;
        const value = this.element("value");
        value.replaceChildren(...this.model.header.values.map(({ kind }, number) => {
            const option = this.make("option", kind);
            option.value = number;
            return option;
        }));
        value.hidden = this.model.header.values.length < 2;
        value.addEventListener("change", () => this.go({ value: Number(value.value), part: 0, zoom: 0 }));
        window.addEventListener("popstate", (event) => {
            this.depth = event.state?.depth || 0;
            const before = this.state;
            this.state = stateOf(this.model, location.hash);
            this.search.set(this.state.search);
            this.changed(before);
        });
    }

    wireCanvas() {
        const { graph, details, current } = this, canvas = this.element("canvas");
        const hit = (event) => graph.at(event.offsetX, event.offsetY);
        const hover = (under, event) => {
            graph.hovered = under;
            canvas.classList.toggle("over", under !== null);
            graph.soon();
            details.showTip(under && current.facts(under), event.clientX, event.clientY);
        };
        canvas.addEventListener("pointermove", (event) => hover(hit(event), event));
        canvas.addEventListener("pointerleave", (event) => hover(null, event));
        canvas.addEventListener("click", (event) => {
            const under = hit(event);
            if (!under) return;
            this.go({ part: under.part, zoom: under.node });
            current.set(under);
        });
    }

    // Changes the state.
    go(change) {
        const before = this.state, next = { ...before, ...change }, hash = hashOf(this.model, next);
        if (hash === hashOf(this.model, before)) return;
        this.state = next;
        this.depth++;
        history.pushState({ depth: this.depth }, "", hash);
        this.changed(before);
    }

    // Changes the state, and Back does not come here.
    replace(change) {
        this.state = { ...this.state, ...change };
        history.replaceState({ depth: this.depth }, "", hashOf(this.model, this.state));
        this.update();
    }

    // Shows another state. Another tree has no current frame.
    changed(before) {
        if (this.views.graphKey(before) !== this.views.graphKey(this.state)) {
            this.graph.current = null;
            this.search.forget();
        }
        this.update();
        this.sidebar.show();
        this.timeline.show();
    }

    // Draws the view of the state.
    update() {
        const { state, views, element } = this, isTable = state.view === "table";
        const found = views.matches(state);
        for (const view of VIEWS) element(`view-${view}`).setAttribute("aria-selected", String(view === state.view));
        const graph = element(`view-${state.view}`).textContent;
        element("canvas").setAttribute("aria-label", `${graph}. Arrow keys go from frame to frame, Enter zooms, 4 shows the same as a table.`);
        for (const name of ["icicle", "fold"]) element(name).setAttribute("aria-pressed", String(state[name]));
        element("order").setAttribute("aria-pressed", String(orderOf(state) === "weight"));
        element("widths").textContent = `Widths: ${state.widths}`;
        element("value").value = state.value;
        element("table-box").hidden = !isTable;
        element("graph").hidden = isTable;
        element("matched").textContent = state.search ? `${percent(found.sum, views.flame(state).total[0])} matched` : "";
        showChips(this);
        this.graph.hovered = null;
        this.details.showTip(null);
        element("current-line").hidden = isTable;
        if (isTable) this.table.show();
        else this.graph.show(views.graphs(state), { part: state.part, node: state.zoom }, state.search ? found.isMatch : null);
        showEmpty(this);
        this.current.show();
    }

    show(view) {
        if (view === this.state.view) return;
        const fn = this.current.fn();
        this.go({ view, part: 0, zoom: 0, ...(view === "sandwich" && fn >= 0 ? { fn } : {}) });
    }

    sandwich(fn) {
        this.go({ view: "sandwich", fn, part: 0, zoom: 0 });
    }

    back() {
        if (this.messages.isHelpShown()) return this.messages.toggleHelp();
        if (this.depth > 0) history.back();
    }

    reset() {
        const { view, value, icicle, order, fn, widths } = this.state;
        this.search.set("");
        this.go({ ...initialState(this.model), view, value, icicle, order, fn, widths });
    }

    setTheme(isDark) {
        document.documentElement.dataset.theme = isDark ? "dark" : "light";
        this.colors.setDark(isDark);
        showLegend(this);
        this.graph.soon();
        this.timeline.draw();
    }

    switchTheme() {
        this.setTheme(!this.colors.isDark);
        this.update();
    }

    switchOrder() {
        this.go({ order: orderOf(this.state) === "name" ? "weight" : "name", part: 0, zoom: 0 });
    }

    // Of a difference: the other side gives the widths. Frames stay what they are, so the zoom may stay, unless the order follows the widths.
    switchWidths() {
        if (!this.model.difference) return;
        const { part, zoom } = orderOf(this.state) === "name" ? this.state : { part: 0, zoom: 0 };
        this.go({ widths: this.state.widths === "after" ? "before" : "after", part, zoom });
    }
}

async function main() {
    const failed = document.getElementById("failed");
    try {
        if (!window.DecompressionStream) throw new Error("this browser is too old: it has no DecompressionStream");
        const bytes = await unpacked(bytesOfBase64(document.getElementById("data").textContent.trim()));
        new Page(modelOf(opened(bytes))).begin();
    } catch (error) {
        failed.textContent = `The data of this report cannot be shown: ${error.message || error}. Is the file complete?`;
        failed.hidden = false;
        console.error(error);
    }
}

main();
