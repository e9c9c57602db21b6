// What differs from all samples in full: what is hidden, focused, selected or zoomed, each with a button that undoes it.

function showChips(page) {
    const { state, make, model } = page, name = (fn) => cut(model.frames.name[model.firstFrame[fn]], 60);
    const chips = [];
    const chip = (text, undo) => {
        const button = make("button", `${text} ✕`, "undo");
        button.addEventListener("click", () => page.go({ ...undo, part: 0, zoom: 0 }));
        chips.push(button);
    };
    if (state.view === "sandwich" && state.fn >= 0) chips.push(make("span", `Callers and callees of ${name(state.fn)}`, "about"));
    if (state.focus >= 0) chip(`focus: ${name(state.focus)}`, { focus: -1 });
    state.hidden.forEach((fn) => chip(`hidden: ${name(fn)}`, { hidden: state.hidden.filter((other) => other !== fn) }));
    if (state.fold) chip("recursion folded", { fold: false });
    if (hasSelection(state)) chip("a part of the samples", { off: state.off.map(() => new Set()), range: null });
    if (state.zoom > 0) chip("zoomed", {});
    page.element("changes").replaceChildren(...chips);
    page.element("reset").hidden = !chips.some((made) => made.localName === "button");
}

// Why the view is empty, if it is.
function showEmpty(page) {
    const { state, views, model } = page, box = page.element("empty");
    let text = "";
    if (state.view === "sandwich" && state.fn < 0) text = "Choose a function: in the table (4), or a frame of a graph and then s.";
    else if (model.difference && !model.difference.measure(views, state).isComplete) text = "One side has no samples in this selection: there is nothing to compare.";
    else if (!(views.flame(state).total[0] > 0)) text = changesStacks(state) || hasSelection(state) ? "Nothing is selected." : "The profile has no samples.";
    box.textContent = text;
    box.hidden = !text;
}
