// The frame under the pointer as a tooltip, the current frame in full, and copying names and stacks.

const MAX_SHOWN = 2000;

// What is known about a frame of a graph, as texts.
function factsOf({ model, state, views }, { tree, total, self, changes }, node) {
    const { frames, header, texts } = model, frame = tree.frame[node], figures = [];
    const of = header.values[state.value], whole = views.flame(state).total[0];
    const share = (value) => `${amount(value, of)} (${percent(value, whole)})`;
    if (!changes) {
        figures.push(share(total[node]));
        if (frame >= 0 && self[node] > 0) figures.push(`self ${share(self[node])}`);
    } else {
        figures.push(changes.told(node, 0), changes.told(node, 1));
        if (frame >= 0 && changes.isComplete) {
            const change = changes.change(node), isFound = changes.isFound(node);
            figures.push(`${growthText(change)} (95 %: ${intervalText(change)})`, isFound ? "significant" : "may be chance");
        }
    }
    if (frame < 0) return { name: "all", place: "", kind: "", figures };
    const place = texts[frames.file[frame]] + (frames.line[frame] ? `:${frames.line[frame]}` : "");
    return {
        name: frames.name[frame],
        place: [place, texts[frames.module[frame]]].filter(Boolean).join("  ·  "),
        kind: header.kinds[frames.kind[frame]].name,
        figures,
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
        const lines = [cut(facts.name, 400), facts.figures.join("  ·  "), [facts.kind, cut(facts.place, 200)].filter(Boolean).join("  ·  ")];
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
        const parts = [page.make("strong", cut(facts.name, MAX_SHOWN)), ...facts.figures.map((figure) => page.make("span", figure, "figure"))];
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
            if (!copied) return this.page.messages.say("The browser does not let this page copy.");
        }
        this.page.messages.say(`Copied: ${what}`);
    }
}
