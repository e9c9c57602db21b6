// Figures of functions, and frames that match a search.

// What was counted in each function, and in it with all that it called; a function counts once in each stack.
function functionsOf(model, tree, { self, total }) {
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

// For each frame whether its name matches: a regular expression, or if it is none, a part of the name.
function matchingFrames(model, word) {
    const { name, count } = model.frames, isMatch = new Uint8Array(count);
    let test;
    try {
        const pattern = new RegExp(word, "i");
        test = (text) => pattern.test(text);
    } catch {
        const lower = word.toLowerCase();
        test = (text) => text.toLowerCase().includes(lower);
    }
    if (word) for (let frame = 0; frame < count; frame++) isMatch[frame] = test(name[frame]) ? 1 : 0;
    return isMatch;
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
