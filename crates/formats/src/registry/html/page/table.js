// The table of functions, of which each column sorts. What the columns are depends on what is shown: values, or changes.

const MAX_ROWS = 300;

class Table {
    constructor(page) {
        this.page = page;
        this.columns = page.model.difference ? new ChangeColumns(page) : new ValueColumns(page);
        this.sort = this.columns.sort;
        this.body = page.element("rows");
        const heads = this.columns.heads.concat([{ id: "name", text: "Function" }, { text: "Where" }]);
        page.element("heads").replaceChildren(...heads.map(({ id, text, span, is }) => {
            const head = page.make("th", id ? "" : text, is);
            head.colSpan = span || 1;
            head.scope = span ? "colgroup" : "col";
            if (!id) return head;
            const button = page.make("button", text);
            button.id = `by-${id}`;
            button.addEventListener("click", () => {
                this.sort = id;
                this.show();
            });
            head.append(button);
            return head;
        }));
        this.body.addEventListener("click", (event) => {
            const button = event.target.closest("button");
            if (button) page.sandwich(Number(button.dataset.fn));
        });
    }

    show() {
        const { page, columns } = this, { model, state, views } = page, { frames, firstFrame, header } = model;
        const { isMatch } = views.matches(state), isOwner = header.kinds.length - 1, shown = [];
        columns.prepare();
        for (let fn = 0; fn < firstFrame.length; fn++) {
            const frame = firstFrame[fn];
            if (columns.has(fn) && frames.kind[frame] !== isOwner && (!state.search || isMatch[frame])) shown.push(fn);
        }
        const byName = (a, b) => frames.rank[firstFrame[a]] - frames.rank[firstFrame[b]];
        const order = this.sort === "name" ? byName : columns.order(this.sort);
        shown.sort((a, b) => order(a, b) || byName(a, b));
        for (const button of page.element("heads").querySelectorAll("button")) {
            const isSorted = button.id === `by-${this.sort}`;
            button.closest("th").setAttribute("aria-sort", !isSorted ? "none" : this.sort === "name" ? "ascending" : "descending");
        }
        const listed = shown.slice(0, MAX_ROWS), rest = shown.length - MAX_ROWS;
        columns.measure(listed);
        this.body.replaceChildren(...listed.map((fn) => this.row(fn)));
        page.element("rows-note").textContent = rest > 0 ? `${rest.toLocaleString("en-US")} more: search to see them` : "";
        page.element("rows-count").textContent = columns.caption(shown);
    }

    row(fn) {
        const { make, model, colors } = this.page, { frames, texts, firstFrame } = model, frame = firstFrame[fn];
        const row = make("tr"), name = make("td", "", "name"), both = make("div", "", "named");
        const swatch = make("i", "", "swatch"), link = make("button", cut(frames.name[frame], 500), "link");
        link.dataset.fn = fn;
        link.title = "Show its callers and callees";
        swatch.style.setProperty("background", colors.of(frames.kind[frame], 0));
        both.append(swatch, link);
        name.append(both);
        const path = texts[frames.file[frame]] || texts[frames.module[frame]];
        const line = texts[frames.file[frame]] && frames.line[frame] ? `:${frames.line[frame]}` : "";
        const place = make("td", cut(path.split("/").slice(-2).join("/"), 100) + line, "place");
        place.title = cut(path, MAX_SHOWN) + line;
        row.append(...this.columns.cells(fn), name, place);
        return row;
    }
}

// Flat is what was counted in a function itself, cumulative with all that it called.
class ValueColumns {
    constructor(page) {
        this.page = page;
        this.sort = "flat";
        this.heads = [{ id: "flat", text: "Flat", span: 2 }, { id: "cum", text: "Cumulative", span: 2 }];
    }

    prepare() {
        const { state, views } = this.page;
        Object.assign(this, views.functions(state)[0], { whole: views.flame(state).total[0] });
    }

    has(fn) {
        return this.cum[fn] > 0;
    }

    order(sort) {
        const [first, second] = sort === "flat" ? [this.flat, this.cum] : [this.cum, this.flat];
        return (a, b) => first[b] - first[a] || second[b] - second[a];
    }

    // Bars are as long as their share of the largest value.
    measure(listed) {
        this.most = Math.max(...listed.map((fn) => this.cum[fn]), 0);
    }

    caption(shown) {
        return `${shown.length.toLocaleString("en-US")} functions`;
    }

    cells(fn) {
        const { make, model, state } = this.page, of = model.header.values[state.value];
        return [this.flat[fn], this.cum[fn]].flatMap((value) => {
            const cell = make("td", percent(value, this.whole), "share");
            cell.style.setProperty("--share", `${(100 * value) / this.most}%`);
            return [make("td", amount(value, of), "number"), cell];
        });
    }
}
