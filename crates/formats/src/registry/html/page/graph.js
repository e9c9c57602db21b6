// The graph: frames on a canvas as high as its window, in a box that scrolls over all rows.

const ROW = 20, NARROWEST = 1, MAX_LABEL = 300;

// Frames that are wide enough, by depth. What is narrower than a pixel becomes one grey pixel, node -1, and is not entered.
function layoutOf({ graph, from }, zoom, width) {
    const { tree, total } = graph, { parent, depth, end } = tree, rows = [];
    const place = (level, x, w, node) => {
        const row = (rows[level] ||= { x: [], w: [], node: [] });
        row.x.push(x);
        row.w.push(w);
        row.node.push(node);
    };
    for (let node = zoom; node >= 0; node = parent[node]) if (depth[node] >= from) place(depth[node], 0, width, node);
    const scale = total[zoom] > 0 ? width / total[zoom] : 0, next = [], lastGrey = [];
    next[depth[zoom] + 1] = 0;
    for (let node = zoom + 1; node < end[zoom]; ) {
        const level = depth[node], x = next[level], w = total[node] * scale;
        next[level] = x + w;
        if (w < NARROWEST) {
            if (w > 0 && level >= from && lastGrey[level] !== Math.floor(x)) {
                lastGrey[level] = Math.floor(x);
                place(level, Math.floor(x), 1, -1);
            }
            node = end[node];
            continue;
        }
        if (level >= from) place(level, x, w, node);
        next[level + 1] = x;
        node++;
    }
    return rows;
}

class Graph {
    constructor(box, canvas, spacer, colors, frames) {
        Object.assign(this, { box, canvas, spacer, colors, frames });
        this.context = canvas.getContext("2d", { alpha: false });
        this.parts = [];
        this.lines = [];
        this.current = null;
        this.hovered = null;
        this.isMatch = null;
        this.pending = false;
        box.addEventListener("scroll", () => this.soon(), { passive: true });
        new ResizeObserver(() => this.resized()).observe(box);
    }

    // Shows the graphs of a view, zoomed to a node of one of them.
    show(parts, zoom, isMatch) {
        this.parts = parts;
        this.zoom = zoom;
        this.isMatch = isMatch;
        this.place();
    }

    resized() {
        if (this.box.clientWidth !== this.width || this.box.clientHeight !== this.seen) this.place();
    }

    // Places all frames and keeps the scroll position at the root's end.
    place() {
        this.width = this.box.clientWidth;
        this.seen = this.box.clientHeight;
        this.lines = [];
        let below = 0;
        this.parts.forEach((part, number) => {
            const zoom = this.zoom.part === number ? Math.min(this.zoom.node, part.graph.tree.count - 1) : 0;
            const rows = layoutOf(part, zoom, this.width).slice(part.from);
            part.zoom = zoom;
            const depths = rows.map((row, index) => ({ ...row, part: number, depth: index + part.from, zoomDepth: part.graph.tree.depth[zoom] }));
            this.lines.push(...(part.down ? depths : depths.reverse()));
            if (!part.down) below = this.lines.length;
        });
        this.height = this.lines.length * ROW;
        const canvasHeight = Math.max(1, Math.min(this.seen, this.height));
        const ratio = window.devicePixelRatio || 1;
        this.canvas.style.setProperty("height", `${canvasHeight}px`);
        this.canvas.width = Math.round(this.width * ratio);
        this.canvas.height = Math.round(canvasHeight * ratio);
        this.spacer.style.setProperty("height", `${this.height - canvasHeight}px`);
        const rootIsLast = this.parts.length === 1 && !this.parts[0].down;
        if (this.parts.length === 2) {
            // Another function stands in the middle.
            if (this.middle !== this.parts[0].graph) this.box.scrollTop = below * ROW - this.seen / 2;
        } else if (this.middle || this.rootIsLast !== rootIsLast || (rootIsLast && this.isAtEnd)) {
            this.box.scrollTop = rootIsLast ? this.height : 0;
        }
        this.middle = this.parts.length === 2 ? this.parts[0].graph : null;
        this.rootIsLast = rootIsLast;
        this.draw();
    }

    soon() {
        if (this.pending) return;
        this.pending = true;
        requestAnimationFrame(() => {
            this.pending = false;
            this.draw();
        });
    }

    draw() {
        const { context, canvas } = this, ratio = window.devicePixelRatio || 1;
        const style = getComputedStyle(this.box), top = this.box.scrollTop;
        this.isAtEnd = top + this.seen >= this.height - 2;
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.fillStyle = style.getPropertyValue("--panel") || "#fff";
        context.fillRect(0, 0, canvas.width, canvas.height);
        context.font = `12px ${style.fontFamily}`;
        context.textBaseline = "middle";
        const first = Math.max(0, Math.floor(top / ROW)), last = Math.min(this.lines.length, Math.ceil((top + this.seen) / ROW));
        for (let line = first; line < last; line++) this.drawLine(this.lines[line], line * ROW - top);
        this.outline(this.hovered, 1, top);
        this.outline(this.current, 2, top);
    }

    drawLine(row, y) {
        const { context, colors, frames, isMatch } = this, { tree, changes } = this.parts[row.part].graph, { frame } = tree;
        for (let i = 0; i < row.node.length; i++) {
            const of = row.node[i] < 0 ? -2 : frame[row.node[i]], x = row.x[i], w = row.w[i];
            const matches = of >= 0 && isMatch && isMatch[of] === 1;
            if (of === -2) context.fillStyle = colors.narrow;
            else if (of === -1) context.fillStyle = colors.root;
            else if (matches) context.fillStyle = colors.match;
            else context.fillStyle = changes ? colors.ofChange(changes.strength[row.node[i]]) : colors.of(frames.kind[of], frames.shade[of]);
            context.globalAlpha = row.depth < row.zoomDepth ? 0.55 : isMatch && !matches ? 0.6 : 1;
            context.fillRect(x, y, w > 3 ? w - 1 : Math.max(w - 0.3, 0.7), ROW - 1);
            if (w < 26 || of === -2) continue;
            context.globalAlpha = 1;
            context.fillStyle = matches ? "#fff" : colors.text;
            const label = this.fitted(of < 0 ? "all" : frames.name[of], w - 8);
            if (label) context.fillText(label, x + 4, y + ROW / 2);
        }
        context.globalAlpha = 1;
    }

    // The begin of a name, as far as it fits.
    fitted(name, room) {
        const text = cut(name, Math.min(MAX_LABEL, Math.ceil(room / 3)));
        const width = this.context.measureText(text).width;
        if (width <= room) return text;
        const length = Math.floor((text.length * (room - 4)) / width) - 1;
        return length < 2 ? "" : `${text.slice(0, length)}…`;
    }

    outline(hit, thick, top) {
        const at = hit && this.find(hit);
        if (!at) return;
        const { context } = this;
        context.strokeStyle = this.colors.outline;
        context.lineWidth = thick;
        context.strokeRect(at.x + thick / 2, at.line * ROW - top + thick / 2, Math.max(1, at.w - 1 - thick), ROW - 1 - thick);
    }

    // Where a frame stands, if it is drawn.
    find({ part, node }) {
        const graph = this.parts[part];
        if (!graph || node >= graph.graph.tree.count) return null;
        const depth = graph.graph.tree.depth[node];
        const line = this.lines.findIndex((row) => row.part === part && row.depth === depth);
        const index = line < 0 ? -1 : this.lines[line].node.indexOf(node);
        return index < 0 ? null : { line, index, x: this.lines[line].x[index], w: this.lines[line].w[index] };
    }

    // The frame at a point of the canvas.
    at(x, y) {
        const row = this.lines[Math.floor((y + this.box.scrollTop) / ROW)];
        if (!row) return null;
        let low = 0, high = row.x.length - 1;
        while (low < high) {
            const middle = (low + high + 1) >> 1;
            if (row.x[middle] <= x) low = middle;
            else high = middle - 1;
        }
        const isInside = row.x[low] <= x && x < row.x[low] + row.w[low];
        return isInside && row.node[low] >= 0 ? { part: row.part, node: row.node[low] } : null;
    }

    // The frame next to one: "child", "parent", "previous" or "next" of those that are drawn.
    neighbour(hit, way) {
        const graph = this.parts[hit.part], { tree, total } = graph.graph, at = this.find(hit);
        if (way === "parent") {
            const up = tree.parent[hit.node];
            if (up >= 0 && tree.depth[up] >= Math.min(graph.from, 1)) return { part: hit.part, node: up };
            return null;
        }
        if (way === "child") {
            let best = -1;
            for (let node = hit.node + 1; node < tree.end[hit.node]; node = tree.end[node]) {
                if (best < 0 || total[node] > total[best]) best = node;
            }
            return best >= 0 && total[best] > 0 ? { part: hit.part, node: best } : null;
        }
        if (!at) return null;
        const { node } = this.lines[at.line], step = way === "next" ? 1 : -1;
        for (let index = at.index + step; index >= 0 && index < node.length; index += step) {
            if (node[index] >= 0) return { part: hit.part, node: node[index] };
        }
        return null;
    }

    // Makes a frame the current one and scrolls to it.
    setCurrent(hit) {
        this.current = hit;
        const at = hit && this.find(hit);
        if (at) {
            const y = at.line * ROW;
            if (y < this.box.scrollTop) this.box.scrollTop = y;
            else if (y + ROW > this.box.scrollTop + this.seen) this.box.scrollTop = y + ROW - this.seen;
        }
        this.soon();
    }
}
