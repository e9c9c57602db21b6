// The state of the page, and the address that has it, so that Back works.

const VIEWS = ["flame", "inverted", "sandwich", "table"];

function initialState({ header, facets }) {
    return {
        view: "flame", value: header.shown, part: 0, zoom: 0, icicle: header.icicle, fold: false, order: "", search: "",
        hidden: [], focus: -1, fn: -1, off: facets.map(() => new Set()), range: null, widths: header.difference?.widths || "",
    };
}

// The address of a state: only what differs from the initial one.
function hashOf(model, state) {
    const initial = initialState(model), words = new URLSearchParams();
    for (const name of ["view", "value", "part", "zoom", "icicle", "fold", "order", "search", "focus", "fn", "widths"]) {
        if (state[name] !== initial[name]) words.set(name, state[name]);
    }
    if (state.hidden.length) words.set("hidden", state.hidden.join("."));
    if (state.range) words.set("range", state.range.join("."));
    state.off.forEach((off, facet) => off.size && words.set(`off${facet}`, [...off].join(".")));
    return `#${words}`;
}

// The state of an address. What makes no sense is left out.
function stateOf(model, hash) {
    const words = new URLSearchParams(hash.slice(1)), state = initialState(model);
    const number = (name, limit) => {
        const value = Number(words.get(name) ?? NaN);
        if (Number.isInteger(value) && value >= 0 && value < limit) state[name] = value;
    };
    const list = (name, limit) => (words.get(name) || "").split(".").filter(Boolean).map(Number).filter((item) => item >= 0 && item < limit);
    const word = (name, known) => {
        if (known.includes(words.get(name))) state[name] = words.get(name);
    };
    word("view", VIEWS);
    word("order", ["name", "weight"]);
    word("widths", model.difference ? SIDES : []);
    number("value", model.values.length);
    number("part", 2);
    number("zoom", 2 ** 31);
    number("focus", model.firstFrame.length);
    number("fn", model.firstFrame.length);
    for (const name of ["icicle", "fold"]) if (words.has(name)) state[name] = words.get(name) === "true";
    state.search = words.get("search") || "";
    state.hidden = list("hidden", model.firstFrame.length);
    state.off = model.facets.map((facet, index) => new Set(list(`off${index}`, facet.values.length)));
    const range = list("range", model.times ? model.times.bins + 1 : 0);
    if (range.length === 2 && range[0] < range[1]) state.range = range;
    return state;
}

// Whether a part of the samples is selected.
function hasSelection(state) {
    return state.off.some((off) => off.size) || state.range !== null;
}
