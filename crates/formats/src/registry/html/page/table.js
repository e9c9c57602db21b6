// The table of functions: flat is what was counted in a function itself, cumulative with all that it called.

const MAX_ROWS = 300;

class Table {
    constructor(page) {
        this.page = page;
        this.sort = "flat";
        this.body = page.element("rows");
        for (const order of ["flat", "cum", "name"]) {
            page.element(`by-${order}`).addEventListener("click", () => {
                this.sort = order;
                this.show();
            });
        }
        this.body.addEventListener("click", (event) => {
            const button = event.target.closest("button");
            if (button) page.sandwich(Number(button.dataset.fn));
        });
    }

    show() {
        const { model, state, views } = this.page, { frames, firstFrame, header } = model;
        const { flat, cum } = views.functions(state), { isMatch } = views.matches(state);
        const whole = views.flame(state).total[0], of = header.values[state.value], isOwner = header.kinds.length - 1;
        const shown = [];
        for (let fn = 0; fn < firstFrame.length; fn++) {
            const frame = firstFrame[fn];
            if (cum[fn] > 0 && frames.kind[frame] !== isOwner && (!state.search || isMatch[frame])) shown.push(fn);
        }
        const name = (fn) => frames.rank[firstFrame[fn]];
        const orders = {
            flat: (a, b) => flat[b] - flat[a] || cum[b] - cum[a] || name(a) - name(b),
            cum: (a, b) => cum[b] - cum[a] || flat[b] - flat[a] || name(a) - name(b),
            name: (a, b) => name(a) - name(b),
        };
        shown.sort(orders[this.sort]);
        for (const order of Object.keys(orders)) {
            const head = this.page.element(`by-${order}`).closest("th");
            head.setAttribute("aria-sort", order !== this.sort ? "none" : order === "name" ? "ascending" : "descending");
        }
        this.most = Math.max(...shown.slice(0, MAX_ROWS).map((fn) => cum[fn]), 0);
        this.body.replaceChildren(...shown.slice(0, MAX_ROWS).map((fn) => this.row(fn, flat[fn], cum[fn], whole, of)));
        const rest = shown.length - MAX_ROWS;
        this.page.element("rows-note").textContent = rest > 0 ? `${rest.toLocaleString("en-US")} more: search to see them` : "";
        this.page.element("rows-count").textContent = `${shown.length.toLocaleString("en-US")} functions`;
        this.shown = shown;
    }

    row(fn, flat, cum, whole, of) {
        const { make, model } = this.page, { frames, texts, firstFrame } = model, frame = firstFrame[fn];
        const row = make("tr");
        const share = (value) => {
            const cell = make("td", percent(value, whole), "share");
            cell.style.setProperty("--share", `${(100 * value) / this.most}%`);
            return cell;
        };
        const link = make("button", cut(frames.name[frame], 500), "link");
        link.dataset.fn = fn;
        link.title = "Show its callers and callees";
        const swatch = make("i", "", "swatch");
        swatch.style.setProperty("background", this.page.colors.of(frames.kind[frame], 0));
        const name = make("td", "", "name"), both = make("div", "", "named");
        both.append(swatch, link);
        name.append(both);
        const path = texts[frames.file[frame]] || texts[frames.module[frame]];
        const line = texts[frames.file[frame]] && frames.line[frame] ? `:${frames.line[frame]}` : "";
        const place = make("td", cut(path.split("/").slice(-2).join("/"), 100) + line, "place");
        place.title = cut(path, MAX_SHOWN) + line;
        row.append(make("td", amount(flat, of), "number"), share(flat), make("td", amount(cum, of), "number"), share(cum), name, place);
        return row;
    }
}
