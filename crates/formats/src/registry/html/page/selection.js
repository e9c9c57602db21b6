// Which samples are shown: those of the values of facets that are on, in the range of time that is selected.

// For each group of samples whether it is shown. `except`: a facet that is not asked.
function groupsOn(model, off, except) {
    const on = new Uint8Array(model.groups).fill(1);
    model.facets.forEach((facet, number) => {
        const out = off[number];
        if (number === except || !out.size) return;
        for (let group = 0; group < on.length; group++) if (out.has(facet.of[group])) on[group] = 0;
    });
    return on;
}

// The part of each row's samples or time in a range of bins; null for all time. Where times are not known, it is that of the range.
function partsInRange(model, range) {
    if (!range || !model.times) return null;
    const { bin, row, count, whole } = model.times, part = new Float64Array(model.rows.node.length);
    for (let i = 0; i < bin.length; i++) if (bin[i] >= range[0] && bin[i] < range[1]) part[row[i]] += count[i];
    for (let i = 0; i < part.length; i++) part[i] = whole[i] ? part[i] / whole[i] : (range[1] - range[0]) / model.times.bins;
    return part;
}

// The selected values by node of the tree of all stacks. `among`: for each group whether it is asked at all, or null.
function selectedValues(model, state, among) {
    const values = model.values[state.value], { node, group } = model.rows;
    const on = groupsOn(model, state.off), part = partsInRange(model, state.range);
    const self = new Float64Array(model.tree.count);
    for (let row = 0; row < node.length; row++) {
        if (on[group[row]] && (!among || among[group[row]])) self[node[row]] += part ? values[row] * part[row] : values[row];
    }
    return self;
}

// For each facet the sums of its values, among the samples that the other facets let through.
function facetSums(model, state) {
    const values = model.values[state.value], { group } = model.rows;
    const part = partsInRange(model, state.range), ofGroup = new Float64Array(model.groups);
    for (let row = 0; row < group.length; row++) ofGroup[group[row]] += part ? values[row] * part[row] : values[row];
    return model.facets.map((facet, number) => {
        const on = groupsOn(model, state.off, number), sums = new Float64Array(facet.values.length);
        for (let i = 0; i < ofGroup.length; i++) if (on[i]) sums[facet.of[i]] += ofGroup[i];
        return sums;
    });
}

// For each bin of time the count of selected samples, and of all.
function binSums(model, state) {
    const { bin, row, count, bins } = model.times, { group } = model.rows;
    const on = groupsOn(model, state.off), all = new Float64Array(bins), selected = new Float64Array(bins);
    for (let i = 0; i < bin.length; i++) {
        all[bin[i]] += count[i];
        if (on[group[row[i]]]) selected[bin[i]] += count[i];
    }
    return { all, selected };
}

// Whether a facet lets the reader choose.
function isChoice(facet) {
    return facet.values.length > 2 || (facet.values.length === 2 && facet.of.includes(0));
}
