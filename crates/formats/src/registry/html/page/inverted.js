// The inverted tree: the leaves of all stacks next to the root, their callers behind them. It is made in its final order and looks nothing up: the stacks
// below a node are a range of a list, which is grouped by the next caller into the ranges of its children.

// `isUsed`: whether stacks end in a node of the flame graph. `weight`: the values of these stacks if the heaviest siblings come first, else null.
function invertedShape({ frames }, flame, isUsed, weight) {
    const { count, parent, frame, depth } = flame, { rank } = frames;
    const place = new Int32Array(count).fill(-1);
    let stacks = 0, most = 1;
    for (let node = 1; node < count; node++) if (isUsed(node)) {
        stacks++;
        most += depth[node];
    }
    // By stack: where it ends, and how far it has come on its way to the root.
    const leaf = new Int32Array(stacks), at = new Int32Array(stacks), order = new Int32Array(stacks), kept = new Int32Array(stacks);
    for (let node = 1, stack = 0; stack < stacks; node++) if (isUsed(node)) {
        order[stack] = stack;
        leaf[stack] = at[stack] = node;
        stack++;
    }
    if (isUsed(0)) place[0] = 0;
    const tree = emptyTree(most);
    tree.frame[0] = tree.parent[0] = -1;
    let nodes = 1;
    const grow = (above, of) => {
        tree.parent[nodes] = above;
        tree.frame[nodes] = of;
        tree.depth[nodes] = tree.depth[above] + 1;
        return nodes++;
    };
    // By frame: how many stacks of a range have it next, their values, and where their range ends so far.
    const size = new Int32Array(frames.count), heavy = new Float64Array(frames.count), end = new Int32Array(frames.count);
    const byRank = (a, b) => rank[a] - rank[b], byWeight = (a, b) => heavy[b] - heavy[a] || byRank(a, b);
    const waiting = [], next = [];
    const group = (low, high, node) => {
        let last = low;
        next.length = 0;
        for (let i = low; i < high; i++) {
            const stack = order[i], of = frame[at[stack]];
            if (at[stack] === 0) {
                place[leaf[stack]] = node;
                continue;
            }
            kept[last++] = stack;
            if (size[of]++ === 0) next.push(of);
            if (weight) heavy[of] += weight[leaf[stack]];
        }
        if (next.length > 1) next.sort(weight ? byWeight : byRank);
        let begin = low;
        for (const of of next) {
            end[of] = begin;
            begin += size[of];
        }
        for (let i = low; i < last; i++) order[end[frame[at[kept[i]]]]++] = kept[i];
        for (let i = next.length - 1; i >= 0; i--) {
            const of = next[i];
            waiting.push(end[of] - size[of], end[of], node);
            size[of] = heavy[of] = 0;
        }
    };
    group(0, stacks, 0);
    while (waiting.length) {
        const above = waiting.pop(), high = waiting.pop(), low = waiting.pop(), stack = order[low];
        let node = grow(above, frame[at[stack]]);
        if (high - low > 1) {
            for (let i = low; i < high; i++) at[order[i]] = parent[at[order[i]]];
            group(low, high, node);
            continue;
        }
        for (let up = parent[at[stack]]; up > 0; up = parent[up]) node = grow(node, frame[up]);
        place[leaf[stack]] = node;
    }
    for (const name of ["frame", "parent", "depth", "end"]) tree[name] = tree[name].subarray(0, nodes);
    tree.count = nodes;
    return { tree: setEnds(tree), place, takes: "self" };
}
