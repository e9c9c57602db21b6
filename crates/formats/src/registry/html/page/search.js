// The search: its field, and the way from match to match.

class Search {
    constructor(page) {
        this.page = page;
        this.field = page.element("search");
        this.match = -1;
        this.field.addEventListener("input", () => this.soon());
    }

    // Shows another word in the field.
    set(word) {
        this.field.value = word;
    }

    // The tree is another one: no match was gone to.
    forget() {
        this.match = -1;
    }

    // Searches when the reader has stopped typing for a moment.
    soon() {
        clearTimeout(this.waiting);
        this.waiting = setTimeout(() => this.apply(), 120);
    }

    apply() {
        clearTimeout(this.waiting);
        this.forget();
        this.page.replace({ search: this.field.value });
    }

    // Goes to the next match in the order of weight.
    next(step) {
        const { page } = this, { views, graph } = page, word = this.field.value;
        if (word !== page.state.search) this.apply();
        if (!word || page.state.view === "table" || !graph.parts.length) return;
        const { isMatch } = views.matches(page.state);
        const { nodes } = views.keep("nodes", `${views.graphKey(page.state)}|${word}`, () => matchesOf(graph.parts[0].graph, isMatch));
        if (!nodes.length) return page.messages.say("No match");
        this.match = (this.match + step + nodes.length) % nodes.length;
        const hit = { part: 0, node: nodes[this.match] };
        if (!graph.find(hit)) page.go({ part: 0, zoom: this.zoomFor(hit.node) });
        page.current.set(hit);
        page.messages.say(`Match ${this.match + 1} of ${nodes.length}`);
    }

    // The frame to zoom to, so that a frame is drawn: the outermost one that lets it be wide enough.
    zoomFor(node) {
        const { graph } = this.page, { tree, total } = graph.parts[0].graph;
        let zoom = node;
        while (zoom > 0 && (total[node] / total[tree.parent[zoom]]) * graph.width >= 40) zoom = tree.parent[zoom];
        return zoom;
    }
}
