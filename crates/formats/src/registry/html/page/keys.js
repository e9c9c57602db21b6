// The keyboard. Keys that the browser or a field of the page uses keep their meaning there.

const KEYS = [
    ["1 2 3 4", "flame graph, inverted tree, sandwich, table"],
    ["/ or Ctrl+F", "search; Enter, n, N: next match, previous match"],
    ["arrows", "to the frames next to the current one"],
    ["Enter", "zoom to the current frame"],
    ["Esc", "back"],
    ["0", "all: no zoom, no selection, nothing hidden"],
    ["s", "callers and callees of the current function"],
    ["f", "focus: only stacks with this function, from it on"],
    ["h", "hide the function in all stacks"],
    ["r", "fold recursion"],
    ["i", "icicle: outermost functions at the top"],
    ["o", "order: by name, heaviest first"],
    ["d", "dark or light"],
    ["w", "of a difference: widths before, after"],
    ["c, C", "copy the name, the stack"],
    ["?", "these keys"],
];

// What a key does, by its name.
function actionsOf(page) {
    const toggle = (name) => () => page.go({ [name]: !page.state[name] });
    const { current, search } = page;
    return {
        1: () => page.show("flame"), 2: () => page.show("inverted"), 3: () => page.show("sandwich"), 4: () => page.show("table"),
        "/": () => page.element("search").focus(),
        n: () => search.next(1),
        N: () => search.next(-1),
        ArrowUp: () => current.step(current.isDown() ? "parent" : "child"),
        ArrowDown: () => current.step(current.isDown() ? "child" : "parent"),
        ArrowLeft: () => current.step("previous"),
        ArrowRight: () => current.step("next"),
        Enter: () => current.zoom(),
        Escape: () => page.back(),
        0: () => page.reset(),
        s: () => current.act("sandwich"),
        f: () => current.act("focus"),
        h: () => current.act("hide"),
        r: toggle("fold"),
        i: toggle("icicle"),
        o: () => page.switchOrder(),
        d: () => page.switchTheme(),
        w: () => page.switchWidths(),
        c: () => current.act("name"),
        C: () => current.act("stack"),
        "?": () => page.messages.toggleHelp(),
    };
}

function listenToKeys(page) {
    const actions = actionsOf(page);
    document.addEventListener("keydown", (event) => {
        const field = event.target.closest?.("input[type=search], select, textarea");
        if ((event.ctrlKey || event.metaKey) && event.key === "f") {
            event.preventDefault();
            return page.element("search").focus();
        }
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (field) {
            if (event.key === "Escape") field.blur();
            else if (event.key === "Enter" && field.type === "search") page.search.next(event.shiftKey ? -1 : 1);
            return;
        }
        // Buttons and check boxes take Enter, and the box of the table scrolls by arrows.
        const isControl = event.target.closest?.("button, input, summary");
        if (event.key === "Enter" && isControl) return;
        if (event.key.startsWith("Arrow") && page.state.view === "table") return;
        const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
        if (!action) return;
        event.preventDefault();
        action();
    });
}

function showKeys(page) {
    const known = KEYS.filter(([key]) => key !== "w" || page.model.difference);
    const entries = known.flatMap(([key, does]) => [page.make("dt", key), page.make("dd", does)]);
    page.element("keys").replaceChildren(...entries);
}
