// Trees of frames in preorder: node 0 is the root; `end` of a node is the first node behind what it called. A frame is a number; the root has -1.

function emptyTree(count) {
    return { count, frame: new Int32Array(count), parent: new Int32Array(count), depth: new Int32Array(count), end: new Int32Array(count) };
}

function setEnds(tree) {
    const { count, parent, end } = tree;
    end.fill(0);
    for (let node = count - 1; node >= 0; node--) {
        if (end[node] === 0) end[node] = node + 1;
        if (node > 0 && end[parent[node]] === 0) end[parent[node]] = end[node];
    }
    return tree;
}

// `ups` tells for each node but the root how many levels to go up from the node before.
function treeOfColumns(ups, frames) {
    const tree = emptyTree(ups.length + 1), { frame, parent, depth } = tree;
    frame[0] = -1;
    parent[0] = -1;
    for (let node = 1; node < tree.count; node++) {
        let above = node - 1;
        for (let up = ups[node - 1]; up > 0; up--) above = parent[above];
        parent[node] = above;
        depth[node] = depth[above] + 1;
        frame[node] = frames[node - 1];
    }
    return setEnds(tree);
}

// What was counted in each node with all that it called.
function totalsOf(tree, self) {
    const total = Float64Array.from(self), { parent } = tree;
    for (let node = tree.count - 1; node > 0; node--) total[parent[node]] += total[node];
    return total;
}

// A tree that grows: `add` gives the child of a node with a frame. Children have higher numbers than their parents.
class GrowingTree {
    constructor(expected) {
        this.count = 1;
        this.parent = new Int32Array(expected + 1);
        this.frame = new Int32Array(expected + 1);
        this.frame[0] = -1;
        this.parent[0] = -1;
        this.resize(1 << 12);
    }

    resize(size) {
        this.mask = size - 1;
        this.table = new Int32Array(size);
        for (let node = 1; node < this.count; node++) this.table[this.slot(this.parent[node], this.frame[node])] = node;
    }

    // The slot of a child, or the free one where it belongs.
    slot(parent, frame) {
        const { table, mask } = this;
        let at = Math.imul(parent, 0x9e3779b1) + Math.imul(frame, 0x85ebca6b);
        at = Math.imul(at ^ (at >>> 15), 0x2c1b3c6d);
        at = (at ^ (at >>> 13)) & mask;
        for (;;) {
            const node = table[at];
            if (node === 0 || (this.parent[node] === parent && this.frame[node] === frame)) return at;
            at = (at + 1) & mask;
        }
    }

    add(parent, frame) {
        let at = this.slot(parent, frame);
        if (this.table[at]) return this.table[at];
        if (this.count * 2 > this.mask) {
            this.resize((this.mask + 1) * 4);
            at = this.slot(parent, frame);
        }
        if (this.count === this.parent.length) {
            for (const name of ["parent", "frame"]) {
                const larger = new Int32Array(this.count * 2);
                larger.set(this[name]);
                this[name] = larger;
            }
        }
        this.parent[this.count] = parent;
        this.frame[this.count] = frame;
        return (this.table[at] = this.count++);
    }
}

// For each node its first child and its next sibling, siblings by the rank of their frames.
function listsByRank({ count, parent, frame }, rank) {
    const begin = new Int32Array(rank.length + 1), order = new Int32Array(count);
    for (let node = 1; node < count; node++) begin[rank[frame[node]] + 1]++;
    for (let i = 1; i < begin.length; i++) begin[i] += begin[i - 1];
    for (let node = 1; node < count; node++) order[begin[rank[frame[node]]]++] = node;
    const first = new Int32Array(count), next = new Int32Array(count);
    for (let i = count - 2; i >= 0; i--) {
        const node = order[i];
        next[node] = first[parent[node]];
        first[parent[node]] = node;
    }
    return { first, next };
}

// The same of a tree in preorder, the heaviest siblings first.
function listsByWeight({ count, end }, total) {
    const first = new Int32Array(count), next = new Int32Array(count), children = [];
    for (let node = 0; node < count; node++) {
        children.length = 0;
        for (let child = node + 1; child < end[node]; child = end[child]) children.push(child);
        if (children.length > 1) children.sort((a, b) => total[b] - total[a] || a - b);
        for (let i = children.length - 1; i >= 0; i--) {
            next[children[i]] = first[node];
            first[node] = children[i];
        }
    }
    return { first, next };
}

// The same tree in preorder with siblings as in the lists, and where each node went.
function inPreorder({ count, parent, frame }, { first, next }) {
    const position = new Int32Array(count), tree = emptyTree(count);
    tree.frame[0] = -1;
    tree.parent[0] = -1;
    let node = 0, at = 0;
    for (;;) {
        position[node] = at;
        if (node > 0) {
            const above = position[parent[node]];
            tree.parent[at] = above;
            tree.frame[at] = frame[node];
            tree.depth[at] = tree.depth[above] + 1;
        }
        at++;
        if (first[node]) {
            node = first[node];
            continue;
        }
        while (node > 0 && !next[node]) node = parent[node];
        if (node <= 0) break;
        node = next[node];
    }
    return { tree: setEnds(tree), position };
}
