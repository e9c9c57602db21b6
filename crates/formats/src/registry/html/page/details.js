// The frame under the pointer as a tooltip, the current frame in full, and copying names and stacks.

const MAX_SHOWN = 2000;

// What is known about a frame of a graph, as lines of text.
function factsOf(model, state, { graph }, node, whole) {
    const { tree, total, self } = graph, { frames, header, texts } = model, frame = tree.frame[node];
    const of = header.values[state.value];
    const share = (value) => `${amount(value, of)} (${percent(value, whole)})`;
    if (frame < 0) return { name: "all", place: "", kind: "", total: share(total[node]), self: "" };
    const place = texts[frames.file[frame]] + (frames.line[frame] ? `:${frames.line[frame]}` : "");
    return {
        name: frames.name[frame],
        place: [place, texts[frames.module[frame]]].filter(Boolean).join("  ·  "),
        kind: header.kinds[frames.kind[frame]].name,
        total: share(total[node]),
        self: self[node] > 0 ? share(self[node]) : "",
    };
}

class Details {
    constructor(page) {
        this.page = page;
        this.tip = page.element("tip");
        this.line = page.element("current");
    }

    showTip(facts, x, y) {
        const { tip } = this;
        tip.hidden = !facts;
        if (!facts) return;
        const figures = facts.self ? `${facts.total}  ·  self ${facts.self}` : facts.total;
        const lines = [cut(facts.name, 400), figures, [facts.kind, cut(facts.place, 200)].filter(Boolean).join("  ·  ")];
        tip.replaceChildren(...lines.filter(Boolean).map((text, index) => this.page.make("div", text, index ? "" : "name")));
        const { width, height } = tip.getBoundingClientRect();
        tip.style.setProperty("left", `${Math.max(4, Math.min(x + 14, window.innerWidth - width - 8))}px`);
        tip.style.setProperty("top", `${y + 18 + height > window.innerHeight ? Math.max(4, y - height - 10) : y + 18}px`);
    }

    // The current frame, also for those who hear the page.
    showCurrent(facts, about) {
        const { page, line } = this;
        page.element("actions").hidden = !facts;
        if (!facts) {
            line.replaceChildren(page.make("span", "Click a frame to zoom, or use the arrow keys. Press ? for all keys.", "faint"));
            return;
        }
        const parts = [page.make("strong", cut(facts.name, MAX_SHOWN)), page.make("span", facts.total, "figure")];
        if (facts.self) parts.push(page.make("span", `self ${facts.self}`, "figure"));
        const rest = [facts.kind, cut(facts.place, MAX_SHOWN), about].filter(Boolean).join("  ·  ");
        if (rest) parts.push(page.make("span", rest, "faint"));
        line.replaceChildren(...parts);
    }

    async copy(text, what) {
        try {
            await navigator.clipboard.writeText(text);
        } catch {
            // Without permission: the old way.
            const area = this.page.make("textarea", text, "off-screen");
            document.body.append(area);
            area.select();
            const copied = document.execCommand("copy");
            area.remove();
            if (!copied) return this.page.say("The browser does not let this page copy.");
        }
        this.page.say(`Copied: ${what}`);
    }
}
