// The current frame: which one it is, the steps to its neighbours, and what the reader does with it.

class Current {
    constructor(page) {
        this.page = page;
        for (const what of ["sandwich", "focus", "hide", "name", "stack"]) page.click(`act-${what}`, () => this.act(what));
    }

    // What is known about a frame of the graph, or null.
    facts(hit) {
        const { page } = this, part = page.graph.parts[hit.part];
        return part && hit.node < part.graph.tree.count ? factsOf(page, part.graph, hit.node) : null;
    }

    show() {
        const { graph, details } = this.page, hit = graph.current, facts = hit && this.facts(hit);
        const tree = facts && graph.parts[hit.part].graph.tree;
        details.showCurrent(facts, facts ? `depth ${tree.depth[hit.node]}` : "");
    }

    set(hit) {
        this.page.graph.setCurrent(hit);
        this.show();
    }

    // Whether callees are below their callers here.
    isDown() {
        const { graph } = this.page, part = graph.parts[graph.current?.part ?? 0];
        return !part || part.down;
    }

    step(way) {
        const { graph, state } = this.page;
        if (!graph.parts.length) return;
        const next = graph.current ? graph.neighbour(graph.current, way) : { part: state.part, node: state.zoom };
        if (next) this.set(next);
    }

    zoom() {
        const { current } = this.page.graph;
        if (current) this.page.go({ part: current.part, zoom: current.node });
        this.set(current);
    }

    // Its frame's number, or -1.
    frame() {
        const { graph } = this.page, hit = graph.current, part = hit && graph.parts[hit.part];
        return part && hit.node < part.graph.tree.count ? part.graph.tree.frame[hit.node] : -1;
    }

    // Its function's number, or -1.
    fn() {
        const frame = this.frame();
        return frame < 0 ? -1 : this.page.model.frames.fn[frame];
    }

    act(what) {
        const { page } = this, { state, model, graph } = page, fn = this.fn();
        if (fn < 0) return page.messages.say("Choose a frame first: click it, or use the arrow keys.");
        if (what === "sandwich") return page.sandwich(fn);
        if (what === "focus") return page.go({ focus: fn, part: 0, zoom: 0 });
        if (what === "hide") return page.go({ hidden: state.hidden.includes(fn) ? state.hidden : [...state.hidden, fn], part: 0, zoom: 0 });
        const { part, node } = graph.current;
        if (what === "name") return page.details.copy(model.frames.name[this.frame()], "the name");
        // Inverted and callers' trees begin at the leaf.
        const path = pathOf(graph.parts[part].graph, node).map((frame) => model.frames.name[frame]);
        const isLeafFirst = state.view === "inverted" || (state.view === "sandwich" && part === 0);
        return page.details.copy((isLeafFirst ? path.reverse() : path).join(";"), `a stack of ${path.length} frames`);
    }
}
