// Selection by program, process, thread, state and label: lists with shares, the heaviest value first.

const MAX_VALUES = 300;
const LISTED_AT_FIRST = 8;

class Sidebar {
    constructor(page) {
        this.page = page;
        this.box = page.element("facets");
        this.opened = new Set();
        this.box.addEventListener("change", (event) => this.toggled(event.target));
        this.box.addEventListener("click", (event) => this.clicked(event.target));
        // Of two profiles that are compared, none can be left out.
        const { facets, difference } = page.model;
        this.isShown = (facet) => isChoice(facet) && !(difference?.profiles.length === 2 && facet === facets[0]);
        page.element("sidebar").hidden = !facets.some(this.isShown);
    }

    show() {
        const { model, state, make } = this.page, sums = facetSums(model, state);
        const of = model.header.values[state.value], focused = document.activeElement?.id;
        const sections = model.facets.map((facet, number) => {
            if (!this.isShown(facet)) return null;
            const section = make("fieldset"), head = make("legend", facet.name);
            const whole = sums[number].reduce((sum, value) => sum + value, 0);
            const order = Array.from(facet.values.keys()).sort((a, b) => sums[number][b] - sums[number][a] || a - b);
            const known = order.filter((value) => sums[number][value] > 0);
            const limit = this.opened.has(number) ? MAX_VALUES : LISTED_AT_FIRST;
            section.append(head);
            if (state.off[number].size) section.append(this.action(number, "all", "show all"));
            known.slice(0, limit).forEach((value) => {
                section.append(this.value(number, value, percent(sums[number][value], whole), amount(sums[number][value], of)));
            });
            if (known.length > limit && limit < MAX_VALUES) section.append(this.action(number, "more", `${known.length - limit} more`));
            else if (known.length > limit) section.append(make("p", `${known.length - limit} lighter ones are not listed`, "faint"));
            return section;
        });
        this.box.replaceChildren(...sections.filter(Boolean));
        if (focused) document.getElementById(focused)?.focus();
    }

    value(facet, value, share, told) {
        const { model, state, make } = this.page, label = make("label"), input = make("input");
        input.type = "checkbox";
        input.id = `facet-${facet}-${value}`;
        input.checked = !state.off[facet].has(value);
        const name = make("span", cut(model.facets[facet].values[value], 200), "value");
        label.title = `${cut(model.facets[facet].values[value], 500)}\n${told}`;
        label.append(input, name, make("span", share, "figure"));
        const line = make("div", "", "choice");
        line.append(label, this.action(facet, `only-${value}`, "only", name.textContent));
        return line;
    }

    // A screen reader is told what the button is for: there are many of each text. `of`: its value, or else the list.
    action(facet, what, text, of = this.page.model.facets[facet].name) {
        const button = this.page.make("button", text, "link small");
        button.setAttribute("aria-label", `${text}: ${of}`);
        button.dataset.facet = facet;
        button.dataset.what = what;
        button.id = `facet-${facet}-${what}`;
        return button;
    }

    toggled(input) {
        const [, facet, value] = input.id.split("-").map(Number);
        const off = new Set(this.page.state.off[facet]);
        if (input.checked) off.delete(value);
        else off.add(value);
        this.change(facet, off);
    }

    clicked(target) {
        const { facet, what } = target.dataset || {};
        if (!what) return;
        const number = Number(facet);
        if (what === "more") {
            this.opened.add(number);
            this.show();
        } else if (what === "all") this.change(number, new Set());
        else {
            const only = Number(what.slice("only-".length));
            this.change(number, new Set([...this.page.model.facets[number].values.keys()].filter((value) => value !== only)));
        }
    }

    change(facet, off) {
        const all = this.page.state.off.map((old, number) => (number === facet ? off : old));
        this.page.go({ off: all, part: 0, zoom: 0 });
    }
}
