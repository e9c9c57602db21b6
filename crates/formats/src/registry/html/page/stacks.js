// Trees that are made of the tree of all stacks: without hidden functions, from one function on, with recursion folded, upside down.

// Whether stacks are changed at all.
function changesStacks({ hidden, focus, fold }) {
    return hidden.length > 0 || focus >= 0 || fold;
}

// The stacks with the functions in `hidden` left out, from the outermost call of `focus` on (if it is a function), and with a function that
// calls itself, directly or not, shown once.
function changedStacks(model, values, { hidden, focus, fold }) {
    const { tree, frames } = model, { count, frame, parent, depth } = tree;
    const growing = new GrowingTree(count), map = new Int32Array(count);
    const isHidden = new Uint8Array(model.firstFrame.length);
    hidden.forEach((fn) => (isHidden[fn] = 1));
    map[0] = focus >= 0 ? -1 : 0;
    if (focus < 0) growing.self[0] = values[0];
    // Where each function stands on the way from the root, and what that was before; by depth.
    const standing = fold ? new Int32Array(model.firstFrame.length) : null, before = [], entered = [];
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
        if (values[node] > 0 && map[node] >= 0) growing.self[map[node]] += values[node];
        if (fold) {
            open = depth[node];
            entered[open] = map[node] > 0 && !isHidden[fn] ? fn : -1;
            if (entered[open] >= 0) {
                before[open] = standing[fn];
                standing[fn] = map[node];
            }
        }
    }
    return finished(growing, frames.rank);
}

// The tree of stacks as the state wants it.
function flameOf(model, self, state) {
    if (!changesStacks(state)) return valued(model.tree, self);
    return changedStacks(model, self, state);
}

// Upside down: the leaves of all stacks next to the root, their callers behind them.
function invertedOf(model, flame) {
    const { tree, self } = flame, { parent, frame } = tree;
    const growing = new GrowingTree(tree.count);
    for (let node = 0; node < tree.count; node++) {
        if (self[node] <= 0) continue;
        let at = 0;
        for (let up = node; up > 0; up = parent[up]) at = growing.add(at, frame[up]);
        growing.self[at] += self[node];
    }
    return finished(growing, model.frames.rank);
}

// The callers and the callees of a function: stacks above and below its outermost call.
function sandwichOf(model, flame, fn) {
    const { tree, self, total } = flame, { parent, frame, end } = tree;
    const callers = new GrowingTree(1024), callees = new GrowingTree(1024);
    const map = new Int32Array(tree.count);
    for (let node = 1; node < tree.count; ) {
        if (model.frames.fn[frame[node]] !== fn) {
            node++;
            continue;
        }
        let at = callers.add(0, frame[node]);
        for (let up = parent[node]; up > 0; up = parent[up]) at = callers.add(at, frame[up]);
        callers.self[at] += total[node];
        for (let below = node; below < end[node]; below++) {
            map[below] = callees.add(below === node ? 0 : map[parent[below]], frame[below]);
            callees.self[map[below]] += self[below];
        }
        node = end[node];
    }
    const { rank } = model.frames;
    return {
        callers: finished(callers, rank),
        callees: finished(callees, rank),
    };
}

// What was counted in each function, and in it with all that it called; a function counts once in each stack.
function functionsOf(model, { tree, self, total }) {
    const count = model.firstFrame.length, { frame, end } = tree, { fn } = model.frames;
    const flat = new Float64Array(count), cum = new Float64Array(count), active = new Int32Array(count), open = [];
    for (let node = 1; node < tree.count; node++) {
        while (open.length && end[open[open.length - 1]] <= node) active[fn[frame[open.pop()]]]--;
        const of = fn[frame[node]];
        flat[of] += self[node];
        if (active[of]++ === 0) cum[of] += total[node];
        open.push(node);
    }
    return { flat, cum };
}

// The functions from the root to a node.
function pathOf({ tree }, node) {
    const path = [];
    for (let at = node; at > 0; at = tree.parent[at]) path.unshift(tree.frame[at]);
    return path;
}

// The sum of the outermost nodes whose frames match, and these nodes, the heaviest first.
function matchesOf({ tree, total }, isMatch) {
    const nodes = [];
    let sum = 0;
    for (let node = 1; node < tree.count; ) {
        if (isMatch[tree.frame[node]] && total[node] > 0) {
            sum += total[node];
            nodes.push(node);
            node = tree.end[node];
        } else node++;
    }
    return { sum, nodes: nodes.sort((a, b) => total[b] - total[a] || a - b) };
}
