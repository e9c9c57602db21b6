// What the page shows in a state: the trees of the view, and what is common to all views.

// The order of siblings: by name, so that captures compare, but the heaviest leaves of stacks first; or the other one if the reader wants it.
function orderOf({ order, view }) {
    return order || (view === "inverted" ? "weight" : "name");
}

// Parts are remembered by what they depend on: a search changes no tree.
class Views {
    constructor(model) {
        this.model = model;
        this.kept = new Map();
    }

    keep(name, key, make) {
        const old = this.kept.get(name);
        if (old && old.key === key) return old.made;
        const made = make();
        this.kept.set(name, { key, made });
        return made;
    }

    // The key of the selected values.
    selectionKey(state) {
        return [state.value, state.off.map((off) => [...off].join(".")).join(","), state.range || ""].join("|");
    }

    flameKey(state) {
        return [this.selectionKey(state), state.hidden, state.focus, state.fold].join("|");
    }

    // The key of what a view draws.
    graphKey(state) {
        return [this.flameKey(state), state.view, state.fn, orderOf(state)].join("|");
    }

    // The tree of stacks, siblings by name.
    flame(state) {
        return this.keep("flame", this.flameKey(state), () => {
            const self = this.keep("self", this.selectionKey(state), () => selectedValues(this.model, state));
            return flameOf(this.model, self, state);
        });
    }

    // Flat and cumulative values of functions.
    functions(state) {
        return this.keep("functions", this.flameKey(state), () => functionsOf(this.model, this.flame(state)));
    }

    // The graphs of a view: whether callees are drawn below their callers, and the smallest depth that is drawn.
    graphs(state) {
        const trees = this.keep("graphs", this.graphKey(state), () => {
            const ordered = (graph) => (orderOf(state) === "weight" ? heaviestFirst(graph) : graph);
            if (state.view === "sandwich" && state.fn < 0) return [];
            const flame = this.flame(state);
            if (state.view === "inverted") return [ordered(invertedOf(this.model, flame))];
            if (state.view !== "sandwich") return [ordered(flame)];
            const { callers, callees } = sandwichOf(this.model, flame, state.fn);
            return [ordered(callers), ordered(callees)];
        });
        if (state.view !== "sandwich") return trees.map((graph) => ({ graph, down: state.icicle, from: 0 }));
        // The function itself is at depth 1 of both, and drawn once.
        return trees.map((graph, part) => ({ graph, down: part === 1, from: part + 1 }));
    }

    // Frames that match the search, and the sum of the stacks with one.
    matches(state) {
        const isMatch = this.keep("isMatch", state.search, () => matchingFrames(this.model, state.search));
        const { sum, nodes } = this.keep("matches", `${this.flameKey(state)}|${state.search}`, () =>
            state.search ? matchesOf(this.flame(state), isMatch) : { sum: 0, nodes: [] });
        return { isMatch, sum, nodes };
    }
}
