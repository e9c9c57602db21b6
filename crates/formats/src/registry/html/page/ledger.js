// How complete the profile is, always in view: figures of the ledger, warnings, and the whole ledger in a list that unfolds.

// A figure of the strip: what it says, and whether it is poor.
function figuresOf(header) {
    const ledger = new Map(header.ledger), figures = [];
    const number = (key) => (ledger.has(key) ? Number(ledger.get(key)) : NaN);
    const add = (text, isPoor, about) => figures.push({ text, isPoor, about });
    const samples = number("samples"), lost = number("lost"), off = ledger.get("mode") === "off-cpu";
    if (samples >= 0) add(`${samples.toLocaleString("en-US")} ${off ? "intervals" : "samples"}`, samples === 0, "recorded");
    if (lost >= 0) {
        const share = lost + samples > 0 ? (100 * lost) / (lost + samples) : 0;
        add(lost ? `${lost.toLocaleString("en-US")} lost (${share.toFixed(2)} %)` : "none lost", lost > 0, "samples that were not recorded");
    }
    const rooted = number("rooted_pct"), named = number("symbolized_pct");
    if (rooted >= 0) add(`${rooted.toFixed(2)} % rooted`, rooted < 99, "stacks that are known to their outermost function");
    if (named >= 0) add(`${named.toFixed(2)} % named`, named < 90, "frames with the name of a function");
    for (const key of ["throttled", "not_run"]) {
        if (number(key) > 0) add(`${ledger.get(key)} ${key.replace("_", " ")}`, true, "samples that the kernel did not take, estimated");
    }
    return figures;
}

function showLedger(page) {
    const { header } = page.model, { make, element } = page;
    const figures = figuresOf(header);
    const chips = figures.map(({ text, isPoor, about }) => {
        const chip = make("span", text, isPoor ? "chip poor" : "chip");
        chip.title = about;
        return chip;
    });
    if (!header.ledger.length) chips.push(make("span", "This profile has no ledger: what it lacks is not known", "chip"));
    element("figures").replaceChildren(...chips);
    element("warnings").replaceChildren(...header.warnings.map((text) => make("li", text)));
    element("warnings").hidden = !header.warnings.length;
    const entries = header.ledger.flatMap(([key, value]) => [make("dt", key), make("dd", cut(value, MAX_SHOWN))]);
    const comments = header.comments.flatMap((comment) => [make("dt", "comment"), make("dd", cut(comment, MAX_SHOWN))]);
    element("ledger").replaceChildren(...entries, ...comments);
    element("ledger-box").hidden = !entries.length && !comments.length;
    element("made-by").textContent = `${header.program}. This page is one file: it loads and sends nothing.`;
}

function showLegend(page) {
    const { frames, header } = page.model, used = new Set(frames.kind);
    const items = header.kinds.flatMap(({ name }, kind) => {
        if (!used.has(kind)) return [];
        const item = page.make("span", name, "key"), swatch = page.make("i", "", "swatch");
        swatch.style.setProperty("background", page.colors.of(kind, 0));
        item.prepend(swatch);
        return [item];
    });
    page.element("legend").replaceChildren(...items);
}
