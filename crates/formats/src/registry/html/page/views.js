// What the page shows in a state: the trees of the view, and what is common to all views.

// The order of siblings: by name, so that captures compare, but the heaviest leaves of stacks first; or the other one if the reader wants it.
function orderOf({ order, view }) {
    return order || (view === "inverted" ? "weight" : "name");
}

// Parts are remembered by what they depend on: a search changes no tree. A graph is a tree with the values that are shown, and all `sides`: one, or in a
// difference those before and after.
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

    // The key of the changes to stacks.
    stacksKey({ hidden, focus, fold }) {
        return [hidden, focus, fold].join("|");
    }

    flameKey(state) {
        return [this.selectionKey(state), this.stacksKey(state), state.widths].join("|");
    }

    // The key of what a view draws.
    graphKey(state) {
        return [this.flameKey(state), state.view, state.fn, orderOf(state)].join("|");
    }

    // The selected values of the tree of all stacks, of each side.
    selected(state) {
        const { model } = this;
        return this.keep("selected", this.selectionKey(state), () =>
            model.sides.map((groups) => withTotals(model.tree, selectedValues(model, state, groups))));
    }

    // A shape with values, of which those of one side are shown.
    graphOf(shape, sources, state) {
        const sides = sources.map((source) => valuesIn(shape, source));
        return { tree: shape.tree, shape, sides, ...sides[state.widths === "after" ? sides.length - 1 : 0] };
    }

    // The tree of stacks, siblings by name.
    flame(state) {
        return this.keep("flame", this.flameKey(state), () => {
            const shape = this.keep("stacks", this.stacksKey(state), () => flameShape(this.model, state));
            return this.graphOf(shape, this.selected(state), state);
        });
    }

    // Flat and cumulative values of functions, of each side.
    functions(state) {
        const flame = this.flame(state);
        return this.keep("functions", this.flameKey(state), () => flame.sides.map((side) => functionsOf(this.model, flame.tree, side)));
    }

    // The trees of a view.
    trees(state) {
        const { model } = this, flame = this.flame(state), { tree, sides } = flame, isByWeight = orderOf(state) === "weight";
        if (state.view === "inverted") {
            const isUsed = (node) => sides.some(({ self }) => self[node] > 0);
            return [this.graphOf(invertedShape(model, tree, isUsed, isByWeight ? flame.self : null), sides, state)];
        }
        const ordered = (shape) => {
            const graph = this.graphOf(shape, sides, state);
            return isByWeight ? this.graphOf(heaviestFirst(shape, graph.total), sides, state) : graph;
        };
        if (state.view !== "sandwich") return [ordered(sameShape(tree))];
        return state.fn < 0 ? [] : sandwichShapes(model, tree, state.fn).map(ordered);
    }

    // The graphs of a view: whether callees are drawn below their callers, and the smallest depth that is drawn.
    graphs(state) {
        const trees = this.keep("graphs", this.graphKey(state), () => {
            const made = this.trees(state), { difference } = this.model;
            if (difference) made.forEach((graph) => (graph.changes = difference.ofGraph(this, state, graph)));
            return made;
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
