// The page: its state, which is in the address so that Back works, and what follows from a change of it.

const VIEWS = ["flame", "inverted", "sandwich", "table"];

class Page {
    constructor(model) {
        this.model = model;
        this.views = new Views(model);
        this.colors = new Colors(model.header.kinds);
        this.state = this.initial();
        this.depth = 0;
        this.match = -1;
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

    initial() {
        const { header, facets } = this.model;
        return {
            view: "flame", value: header.shown, part: 0, zoom: 0, icicle: header.icicle, fold: false, order: "", search: "",
            hidden: [], focus: -1, fn: -1, off: facets.map(() => new Set()), range: null,
        };
    }

    begin() {
        const { header } = this.model;
        this.element("title").textContent = header.title;
        this.element("subtitle").textContent = header.subtitle;
        this.graph = new Graph(this.element("graph"), this.element("canvas"), this.element("spacer"), this.colors, this.model.frames);
        this.details = new Details(this);
        this.table = new Table(this);
        this.sidebar = new Sidebar(this);
        this.timeline = new Timeline(this);
        this.wire();
        listenToKeys(this);
        showKeys(this);
        showLedger(this);
        this.state = this.stateOf(location.hash);
        this.setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
        this.update();
        this.element("search").value = this.state.search;
        document.body.classList.add("ready");
        // Lists come after the first picture.
        setTimeout(() => {
            this.sidebar.show();
            this.timeline.show();
        });
    }

    wire() {
        const click = (id, action) => this.element(id).addEventListener("click", action);
        VIEWS.forEach((view) => click(`view-${view}`, () => this.show(view)));
        click("icicle", () => this.go({ icicle: !this.state.icicle }));
        click("fold", () => this.go({ fold: !this.state.fold, part: 0, zoom: 0 }));
        click("order", () => this.switchOrder());
        click("theme", () => this.switchTheme());
        click("help", () => this.toggleHelp());
        click("close-help", () => this.toggleHelp());
        click("reset", () => this.reset());
        for (const what of ["sandwich", "focus", "hide", "name", "stack"]) click(`act-${what}`, () => this.act(what));
        this.element("search").addEventListener("input", (event) => this.searchSoon(event.target.value));
        const value = this.element("value");
        value.replaceChildren(...this.model.header.values.map(({ kind }, number) => {
            const option = this.make("option", kind);
            option.value = number;
            return option;
        }));
        value.hidden = this.model.header.values.length < 2;
        value.addEventListener("change", () => this.go({ value: Number(value.value), part: 0, zoom: 0 }));
        this.wireCanvas();
        window.addEventListener("popstate", (event) => {
            this.depth = event.state?.depth || 0;
            const before = this.state;
            this.state = this.stateOf(location.hash);
            this.element("search").value = this.state.search;
            this.changed(before);
        });
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => this.setTheme(event.matches));
    }

    wireCanvas() {
        const canvas = this.element("canvas");
        const hit = (event) => this.graph.at(event.offsetX, event.offsetY);
        canvas.addEventListener("pointermove", (event) => {
            const under = hit(event);
            this.graph.hovered = under;
            canvas.classList.toggle("over", under !== null);
            this.graph.soon();
            this.details.showTip(under && this.facts(under), event.clientX, event.clientY);
        });
        canvas.addEventListener("pointerleave", () => {
            this.graph.hovered = null;
            this.graph.soon();
            this.details.showTip(null);
        });
        canvas.addEventListener("click", (event) => {
            const under = hit(event);
            if (!under) return;
            this.go({ part: under.part, zoom: under.node });
            this.setCurrent(under);
        });
    }

    // The address of a state: only what differs from the initial one.
    hashOf(state) {
        const initial = this.initial(), words = new URLSearchParams();
        for (const name of ["view", "value", "part", "zoom", "icicle", "fold", "order", "search", "focus", "fn"]) {
            if (state[name] !== initial[name]) words.set(name, state[name]);
        }
        if (state.hidden.length) words.set("hidden", state.hidden.join("."));
        if (state.range) words.set("range", state.range.join("."));
        state.off.forEach((off, facet) => off.size && words.set(`off${facet}`, [...off].join(".")));
        return `#${words}`;
    }

    // The state of an address. What makes no sense is left out.
    stateOf(hash) {
        const words = new URLSearchParams(hash.slice(1)), state = this.initial(), { model } = this;
        const number = (name, limit) => {
            const value = Number(words.get(name) ?? NaN);
            if (Number.isInteger(value) && value >= 0 && value < limit) state[name] = value;
        };
        const list = (name, limit) => (words.get(name) || "").split(".").filter(Boolean).map(Number).filter((item) => item >= 0 && item < limit);
        if (VIEWS.includes(words.get("view"))) state.view = words.get("view");
        number("value", model.values.length);
        number("part", 2);
        number("zoom", 2 ** 31);
        number("focus", model.firstFrame.length);
        number("fn", model.firstFrame.length);
        for (const name of ["icicle", "fold"]) if (words.has(name)) state[name] = words.get(name) === "true";
        if (["name", "weight"].includes(words.get("order"))) state.order = words.get("order");
        state.search = words.get("search") || "";
        state.hidden = list("hidden", model.firstFrame.length);
        state.off = model.facets.map((facet, index) => new Set(list(`off${index}`, facet.values.length)));
        const range = list("range", model.times ? model.times.bins + 1 : 0);
        if (range.length === 2 && range[0] < range[1]) state.range = range;
        return state;
    }

    // Changes the state.
    go(change) {
        const before = this.state;
        this.state = { ...before, ...change };
        const hash = this.hashOf(this.state);
        if (hash === this.hashOf(before)) return;
        this.depth++;
        history.pushState({ depth: this.depth }, "", hash);
        this.changed(before);
    }

    // Shows another state. Another tree has no current frame.
    changed(before) {
        if (this.views.graphKey(before) !== this.views.graphKey(this.state)) {
            this.graph.current = null;
            this.match = -1;
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
        for (const name of ["icicle", "fold"]) element(name).setAttribute("aria-pressed", String(state[name]));
        element("order").setAttribute("aria-pressed", String(orderOf(state) === "weight"));
        element("value").value = state.value;
        element("table-box").hidden = !isTable;
        element("graph").hidden = isTable;
        element("matched").textContent = state.search ? `${percent(found.sum, views.flame(state).total[0])} matched` : "";
        this.showChanges();
        this.graph.hovered = null;
        this.details.showTip(null);
        element("current-line").hidden = isTable;
        if (isTable) this.table.show();
        else {
            const parts = views.graphs(state);
            this.graph.show(parts, { part: state.part, node: state.zoom }, state.search ? found.isMatch : null);
        }
        this.showEmpty();
        this.showCurrent();
    }

    showEmpty() {
        const { state, views } = this;
        let text = "";
        if (state.view === "sandwich" && state.fn < 0) text = "Choose a function: in the table (4), or a frame of a graph and then s.";
        else if (!(views.flame(state).total[0] > 0)) text = changesStacks(state) || this.hasSelection() ? "Nothing is selected." : "The profile has no samples.";
        this.element("empty").textContent = text;
        this.element("empty").hidden = !text;
    }

    hasSelection() {
        return this.state.off.some((off) => off.size) || this.state.range !== null;
    }

    // What is hidden, focused or looked at, each with a button that undoes it.
    showChanges() {
        const { state, make } = this, name = (fn) => cut(this.model.frames.name[this.model.firstFrame[fn]], 60);
        const chips = [];
        const chip = (text, undo) => {
            const button = make("button", `${text} ✕`, "undo");
            button.addEventListener("click", () => this.go({ ...undo, part: 0, zoom: 0 }));
            chips.push(button);
        };
        if (state.view === "sandwich" && state.fn >= 0) chips.push(make("span", `Callers and callees of ${name(state.fn)}`, "about"));
        if (state.focus >= 0) chip(`focus: ${name(state.focus)}`, { focus: -1 });
        state.hidden.forEach((fn) => chip(`hidden: ${name(fn)}`, { hidden: state.hidden.filter((other) => other !== fn) }));
        if (state.fold) chip("recursion folded", { fold: false });
        if (this.hasSelection()) chip("a part of the samples", { off: state.off.map(() => new Set()), range: null });
        if (state.zoom > 0) chip("zoomed", {});
        this.element("changes").replaceChildren(...chips);
        this.element("reset").hidden = !chips.some((made) => made.localName === "button");
    }

    facts(hit) {
        const part = this.graph.parts[hit.part];
        return part && hit.node < part.graph.tree.count ? factsOf(this.model, this.state, part, hit.node, this.views.flame(this.state).total[0]) : null;
    }

    showCurrent() {
        const hit = this.graph.current, facts = hit && this.facts(hit);
        const tree = facts && this.graph.parts[hit.part].graph.tree;
        this.details.showCurrent(facts, facts ? `depth ${tree.depth[hit.node]}` : "");
    }

    setCurrent(hit) {
        this.graph.setCurrent(hit);
        this.showCurrent();
    }

    // Whether callees are below their callers at the current frame.
    isDown() {
        const part = this.graph.parts[this.graph.current?.part ?? 0];
        return !part || part.down;
    }

    step(way) {
        const { graph, state } = this;
        if (!graph.parts.length) return;
        const next = graph.current ? graph.neighbour(graph.current, way) : { part: state.part, node: state.zoom };
        if (next) this.setCurrent(next);
    }

    show(view) {
        if (view === this.state.view) return;
        const fn = this.currentFunction();
        this.go({ view, part: 0, zoom: 0, ...(view === "sandwich" && fn >= 0 ? { fn } : {}) });
    }

    sandwich(fn) {
        this.go({ view: "sandwich", fn, part: 0, zoom: 0 });
    }

    zoomToCurrent() {
        const { current } = this.graph;
        if (current) this.go({ part: current.part, zoom: current.node });
        this.setCurrent(current);
    }

    back() {
        if (!this.element("help-box").hidden) return this.toggleHelp();
        if (this.depth > 0) history.back();
    }

    reset() {
        this.element("search").value = "";
        this.go({ ...this.initial(), view: this.state.view, value: this.state.value, icicle: this.state.icicle, order: this.state.order, fn: this.state.fn });
    }

    // The current frame's number, or -1.
    currentFrame() {
        const hit = this.graph.current, part = hit && this.graph.parts[hit.part];
        return part && hit.node < part.graph.tree.count ? part.graph.tree.frame[hit.node] : -1;
    }

    currentFunction() {
        const frame = this.currentFrame();
        return frame < 0 ? -1 : this.model.frames.fn[frame];
    }

    // Does something with the current frame.
    act(what) {
        const fn = this.currentFunction(), { state, model } = this;
        if (fn < 0) return this.say("Choose a frame first: click it, or use the arrow keys.");
        if (what === "sandwich") return this.sandwich(fn);
        if (what === "focus") return this.go({ focus: fn, part: 0, zoom: 0 });
        if (what === "hide") return this.go({ hidden: state.hidden.includes(fn) ? state.hidden : [...state.hidden, fn], part: 0, zoom: 0 });
        const { part, node } = this.graph.current;
        if (what === "name") return this.details.copy(model.frames.name[this.currentFrame()], "the name");
        // Inverted and callers' trees begin at the leaf.
        const path = pathOf(this.graph.parts[part].graph, node).map((frame) => model.frames.name[frame]);
        const isLeafFirst = state.view === "inverted" || (state.view === "sandwich" && part === 0);
        return this.details.copy((isLeafFirst ? path.reverse() : path).join(";"), `a stack of ${path.length} frames`);
    }

    searchSoon(word) {
        clearTimeout(this.waiting);
        this.waiting = setTimeout(() => {
            this.match = -1;
            this.state = { ...this.state, search: word };
            history.replaceState({ depth: this.depth }, "", this.hashOf(this.state));
            this.update();
        }, 120);
    }

    // Goes to the next match in the order of weight.
    nextMatch(step) {
        const { state, views, graph } = this;
        const word = this.element("search").value;
        if (word !== state.search) {
            clearTimeout(this.waiting);
            this.match = -1;
            this.state = { ...state, search: word };
            this.update();
        }
        if (!word || this.state.view === "table" || !graph.parts.length) return;
        const { isMatch } = views.matches(this.state);
        const { nodes } = views.keep("nodes", `${views.graphKey(this.state)}|${word}`, () =>
            matchesOf(graph.parts[0].graph, isMatch));
        if (!nodes.length) return this.say("No match");
        this.match = (this.match + step + nodes.length) % nodes.length;
        const hit = { part: 0, node: nodes[this.match] };
        if (!graph.find(hit)) this.go({ part: 0, zoom: this.zoomFor(hit.node) });
        this.setCurrent(hit);
        this.say(`Match ${this.match + 1} of ${nodes.length}`);
    }

    // The frame to zoom to, so that a frame is drawn: the outermost one that lets it be wide enough.
    zoomFor(node) {
        const { tree, total } = this.graph.parts[0].graph;
        let zoom = node;
        while (zoom > 0 && (total[node] / total[tree.parent[zoom]]) * this.graph.width >= 40) zoom = tree.parent[zoom];
        return zoom;
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

    toggleHelp() {
        const box = this.element("help-box");
        box.hidden = !box.hidden;
        if (!box.hidden) this.element("close-help").focus();
        else this.element("canvas").focus();
    }

    // A short message, also for those who hear the page.
    say(text) {
        const box = this.element("said");
        box.textContent = text;
        box.classList.add("shown");
        clearTimeout(this.saying);
        this.saying = setTimeout(() => box.classList.remove("shown"), 2500);
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
