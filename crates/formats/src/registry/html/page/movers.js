// The columns of the table of a difference: functions before and after, their changes with the intervals of 95 %, the significant ones first.

class ChangeColumns {
    constructor(page) {
        this.page = page;
        this.sort = "moved";
        this.part = "flat";
        this.heads = [
            { id: "before", text: "Before", is: "number" }, { id: "after", text: "After", is: "number" },
            { id: "moved", text: "Change", is: "number" }, { text: "95 % interval", is: "number" },
        ];
        page.element("counted").hidden = false;
        page.click("counted", () => {
            this.part = this.part === "flat" ? "cum" : "flat";
            page.table.show();
        });
    }

    prepare() {
        const { views, state, model } = this.page;
        this.changes = model.difference.ofFunctions(views, state, this.part);
        this.page.element("counted").textContent = this.part === "flat"
            ? "flat: in the function itself. Show cumulative"
            : "cumulative: with what it called. Show flat";
    }

    // A count as a share of its side, or per unit of what it is measured against.
    share(fn, side) {
        return this.changes.counts[side][fn] / this.changes.sides[side].exposure;
    }

    has(fn) {
        return this.changes.counts[0][fn] + this.changes.counts[1][fn] > 0;
    }

    order(sort) {
        const side = SIDES.indexOf(sort), moved = (fn) => Math.abs(this.share(fn, 1) - this.share(fn, 0));
        if (side >= 0) return (a, b) => this.share(b, side) - this.share(a, side);
        return (a, b) => this.changes.isFound(b) - this.changes.isFound(a) || moved(b) - moved(a);
    }

    measure() {}

    caption(shown) {
        const found = shown.filter((fn) => this.changes.isFound(fn)).length;
        return `${found.toLocaleString("en-US")} of ${shown.length.toLocaleString("en-US")} functions changed significantly`;
    }

    cells(fn) {
        const { make, colors, model } = this.page, { changes } = this, isFound = changes.isFound(fn);
        const change = changes.isComplete ? changes.change(fn) : null, { isShare, measured } = model.difference;
        const figures = SIDES.map((_, side) => {
            const share = this.share(fn, side) || 0;
            const cell = make("td", isShare ? percent(share, 1) : `${share.toFixed(2)} per ${measured}`, "number");
            cell.title = changes.told(fn, side);
            return cell;
        });
        const grown = make("td", change ? growthText(change) : "", isFound ? "number found" : "number faint");
        if (isFound) grown.style.setProperty("background", colors.ofChange(strengthOf(change)));
        return [...figures, grown, make("td", change ? intervalText(change) : "", "number faint")];
    }
}
