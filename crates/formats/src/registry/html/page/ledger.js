// How complete the profile is, always in view: figures of the ledger, warnings, and the whole ledger in a list that unfolds.

// A figure of the strip: what it says, and whether it is poor.
function figuresOf(entries) {
    const ledger = new Map(entries), figures = [];
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

// Of a difference: the samples of both sides, how many frames changed, and what is poor about any profile.
function comparedFigures({ model, views, state }) {
    const { difference } = model, { sides } = difference.measure(views, state);
    const figures = sides.map(({ samples }, side) => {
        return { text: `${samples.toLocaleString("en-US")} samples ${SIDES[side]}`, isPoor: samples === 0, about: "all that are compared" };
    });
    for (const { name, ledger } of difference.profiles) {
        for (const { text, isPoor, about } of figuresOf(ledger)) if (isPoor) figures.push({ text: `${cut(name, 40)}: ${text}`, isPoor, about });
    }
    return figures;
}

function showLedger(page) {
    const { header, difference } = page.model, { make, element } = page;
    const chipOf = ({ text, isPoor, about }) => {
        const chip = make("span", text, isPoor ? "chip poor" : "chip");
        chip.title = about;
        return chip;
    };
    const chips = difference ? comparedFigures(page).map(chipOf) : figuresOf(header.ledger).map(chipOf);
    if (!difference && !header.ledger.length) chips.push(make("span", "This profile has no ledger: what it lacks is not known", "chip"));
    element("figures").replaceChildren(...chips);
    for (const [id, texts] of [["warnings", header.warnings], ["notes", difference ? difference.notes : []]]) {
        element(id).replaceChildren(...texts.map((text) => make("li", text)));
        element(id).hidden = !texts.length;
    }
    const told = difference ? difference.profiles.flatMap(({ name, ledger }) => ledger.map(([key, value]) => [`${name}: ${key}`, value])) : header.ledger;
    const entries = told.flatMap(([key, value]) => [make("dt", key), make("dd", cut(value, MAX_SHOWN))]);
    const comments = header.comments.flatMap((comment) => [make("dt", "comment"), make("dd", cut(comment, MAX_SHOWN))]);
    element("ledger").replaceChildren(...entries, ...comments);
    element("ledger-box").hidden = !entries.length && !comments.length;
    element("made-by").textContent = `${header.program}. This page is one file: it loads and sends nothing.`;
}

// The colours with what they mean: kinds of frames that there are, or changes.
function showLegend(page) {
    const { frames, header, difference } = page.model, { colors } = page, used = new Set(frames.kind);
    const changes = [["twice or more", 1], ["more", 0.4], ["may be chance", NaN], ["less", -0.4], ["half or less", -1]];
    const known = difference
        ? changes.map(([name, strength]) => [name, colors.ofChange(strength)])
        : header.kinds.map(({ name }, kind) => [name, colors.of(kind, 0)]).filter((_, kind) => used.has(kind));
    const items = known.map(([name, color]) => {
        const item = page.make("span", name, "key"), swatch = page.make("i", "", "swatch");
        swatch.style.setProperty("background", color);
        item.prepend(swatch);
        return item;
    });
    page.element("legend").replaceChildren(...items);
}
