// Trees that are made of another one: without hidden functions, from one function on, with recursion folded, in another order, callers or callees.
// A shape is such a tree and, for each node of the other one, the `place` that gets its value: its own, or with all that it called (`takes`).

// Values of nodes, and what they have with all that they called.
function withTotals(tree, self) {
    return { self, total: totalsOf(tree, self) };
}

// The values of a shape, from those of the tree that it was made of.
function valuesIn({ tree, place, takes }, source) {
    if (!place) return source;
    const from = source[takes], self = new Float64Array(tree.count);
    for (let node = 0; node < place.length; node++) if (place[node] >= 0) self[place[node]] += from[node];
    return withTotals(tree, self);
}

// A tree as it is.
function sameShape(tree) {
    return { tree, place: null, takes: "self" };
}

// A grown tree, siblings by name. `map`: which of its nodes gets the value of each node, or -1.
function grownShape(growing, map, rank, takes = "self") {
    const { tree, position } = inPreorder(growing, listsByRank(growing, rank));
    return { tree, place: map.map((node) => (node < 0 ? -1 : position[node])), takes };
}

// A shape with the heaviest siblings first.
function heaviestFirst({ tree: old, place, takes }, total) {
    const { tree, position } = inPreorder(old, listsByWeight(old, total));
    return { tree, place: place ? place.map((node) => (node < 0 ? -1 : position[node])) : position, takes };
}

// Whether stacks are changed at all.
function changesStacks({ hidden, focus, fold }) {
    return hidden.length > 0 || focus >= 0 || fold;
}

// The tree of stacks as the state wants it: with the functions in `hidden` left out, from the outermost call of `focus` on (if it is a function), and
// with a function that calls itself, directly or not, shown once.
function flameShape({ tree, frames, firstFrame }, { hidden, focus, fold }) {
    if (!changesStacks({ hidden, focus, fold })) return sameShape(tree);
    const { count, frame, parent, depth } = tree;
    const growing = new GrowingTree(count), map = new Int32Array(count);
    const isHidden = new Uint8Array(firstFrame.length);
    hidden.forEach((fn) => (isHidden[fn] = 1));
    map[0] = focus >= 0 ? -1 : 0;
    // Where each function stands on the way from the root, and what that was before; by depth.
    const standing = fold ? new Int32Array(firstFrame.length) : null, before = [], entered = [];
    let open = 0;
    for (let node = 1; node < count; node++) {
        const fn = frames.fn[frame[node]];
        if (fold) while (open >= depth[node]) {
            if (entered[open] >= 0) standing[entered[open]] = before[open];
            open--;
        }
        let above = map[parent[node]];
        if (above < 0 && fn === focus) above = 0;
        if (above < 0) map[node] = -1;
        else if (isHidden[fn] && fn !== focus) map[node] = above;
        else if (fold && standing[fn] > 0) map[node] = standing[fn];
        else map[node] = growing.add(above, frame[node]);
        if (fold) {
            open = depth[node];
            entered[open] = map[node] > 0 && !isHidden[fn] ? fn : -1;
            if (entered[open] >= 0) {
                before[open] = standing[fn];
                standing[fn] = map[node];
            }
        }
    }
    return grownShape(growing, map, frames.rank);
}

// The callers and the callees of a function: stacks above and below its outermost call.
function sandwichShapes({ frames }, { count, parent, frame, end }, fn) {
    const callers = new GrowingTree(1024), callees = new GrowingTree(1024);
    const above = new Int32Array(count).fill(-1), below = new Int32Array(count).fill(-1);
    for (let node = 1; node < count; ) {
        if (frames.fn[frame[node]] !== fn) {
            node++;
            continue;
        }
        let at = callers.add(0, frame[node]);
        for (let up = parent[node]; up > 0; up = parent[up]) at = callers.add(at, frame[up]);
        above[node] = at;
        for (let called = node; called < end[node]; called++) {
            below[called] = callees.add(called === node ? 0 : below[parent[called]], frame[called]);
        }
        node = end[node];
    }
    return [grownShape(callers, above, frames.rank, "total"), grownShape(callees, below, frames.rank)];
}
