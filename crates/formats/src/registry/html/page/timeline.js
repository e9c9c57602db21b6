// The timeline: selected samples, or how long selected threads waited, by time, and a range to select by dragging or by keys. Profiles without times have none.

class Timeline {
    constructor(page) {
        this.page = page;
        this.canvas = page.element("timeline");
        this.drag = null;
        const isShown = page.model.times !== null;
        page.element("timeline-box").hidden = !isShown;
        if (!isShown) return;
        this.bins = page.model.times.bins;
        this.canvas.addEventListener("pointerdown", (event) => this.begin(event));
        this.canvas.addEventListener("pointermove", (event) => this.move(event));
        this.canvas.addEventListener("pointerup", () => this.finish());
        this.canvas.addEventListener("dblclick", () => page.go({ range: null }));
        this.canvas.addEventListener("keydown", (event) => this.key(event));
        page.element("whole-time").addEventListener("click", () => page.go({ range: null }));
        new ResizeObserver(() => this.draw()).observe(this.canvas);
    }

    binAt(event) {
        const { left, width } = this.canvas.getBoundingClientRect();
        return Math.max(0, Math.min(this.bins, ((event.clientX - left) / width) * this.bins));
    }

    begin(event) {
        this.canvas.setPointerCapture(event.pointerId);
        this.drag = [this.binAt(event), this.binAt(event)];
    }

    move(event) {
        if (!this.drag) return;
        this.drag[1] = this.binAt(event);
        this.draw();
    }

    finish() {
        if (!this.drag) return;
        const [low, high] = [Math.min(...this.drag), Math.max(...this.drag)];
        this.drag = null;
        // A click without a drag selects nothing.
        if (high - low < this.bins / 400) this.draw();
        else this.page.go({ range: [Math.floor(low), Math.max(Math.floor(low) + 1, Math.ceil(high))], part: 0, zoom: 0 });
    }

    // Arrows move the range, with Shift its end.
    key(event) {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step) return;
        const by = step * Math.max(1, Math.round(this.bins / 50));
        let [low, high] = this.page.state.range || [0, Math.max(1, Math.round(this.bins / 10))];
        if (this.page.state.range && event.shiftKey) high += by;
        else if (this.page.state.range) [low, high] = [low + by, high + by];
        if (low >= 0 && high <= this.bins && high > low) this.page.go({ range: [low, high], part: 0, zoom: 0 });
        event.preventDefault();
        event.stopPropagation();
    }

    seconds(bin) {
        return `${((this.page.model.times.width * bin) / 1e9).toFixed(2)} s`;
    }

    show() {
        if (!this.bins) return;
        this.sums = binSums(this.page.model, this.page.state);
        const { range } = this.page.state, whole = this.sums.selected.reduce((sum, count) => sum + count, 0);
        const part = range ? this.sums.selected.subarray(...range).reduce((sum, count) => sum + count, 0) : whole;
        const text = range
            ? `${this.seconds(range[0])} to ${this.seconds(range[1])}: ${percent(part, whole)} of the ${this.page.model.times.of}`
            : `${this.seconds(this.bins)}: drag to select a range`;
        this.page.element("range").textContent = text;
        this.page.element("whole-time").hidden = !range;
        this.canvas.setAttribute("aria-label", `The ${this.page.model.times.of} of the profile over the capture. ${text}. Arrow keys select a range.`);
        this.draw();
    }

    draw() {
        if (!this.sums) return;
        const { canvas, bins, sums } = this, ratio = window.devicePixelRatio || 1;
        const width = canvas.clientWidth, height = canvas.clientHeight, context = canvas.getContext("2d");
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, width, height);
        const style = getComputedStyle(canvas), highest = sums.all.reduce((most, count) => Math.max(most, count), 1);
        const range = this.drag ? [Math.min(...this.drag), Math.max(...this.drag)] : this.page.state.range;
        for (const [counts, color] of [[sums.all, "--faint-bar"], [sums.selected, "--bar"]]) {
            context.fillStyle = style.getPropertyValue(color);
            for (let bin = 0; bin < bins; bin++) {
                if (!counts[bin]) continue;
                const isOut = range && (bin + 1 <= range[0] || bin >= range[1]);
                context.globalAlpha = isOut ? 0.3 : 1;
                const bar = Math.max(1, (counts[bin] / highest) * (height - 2)), x = (bin / bins) * width;
                context.fillRect(x, height - bar, Math.max(1, width / bins - 0.4), bar);
            }
        }
        context.globalAlpha = 1;
        if (!range) return;
        const [low, high] = range.map((bin) => (bin / bins) * width);
        context.strokeStyle = style.getPropertyValue("--accent");
        context.lineWidth = 1.5;
        context.strokeRect(low + 0.75, 0.75, Math.max(2, high - low - 1.5), height - 1.5);
    }
}
