// The difference of two sides of profiles: what changed in frames and functions, and which changes are more than chance.

// Frames with fewer samples on both sides together are not judged: a graph has thousands of them.
const LEAST = 10;
const SIDES = ["before", "after"];

class Difference {
    constructor(model) {
        Object.assign(this, model.header.difference);
        this.model = model;
        this.isShare = this.measured === "share";
    }

    // The groups of samples of some profiles.
    groups(isWanted) {
        return this.model.facets[0].of.map((profile) => (isWanted(this.profiles[profile - 1], profile) ? 1 : 0));
    }

    // What the counts of each side are measured against, and the profiles of both sides less 2.
    measure(views, state) {
        const all = views.selected(state), on = this.profiles.filter((_, number) => !state.off[0].has(number + 1));
        const sides = SIDES.map((_, side) => {
            const of = on.filter((profile) => profile.side === side), samples = all[side].total[0];
            return { samples, exposure: this.isShare ? samples : of.reduce((sum, { exposure }) => sum + exposure, 0) };
        });
        return { sides, freedom: on.length - 2, isComplete: sides.every(({ samples }) => samples > 0) };
    }

    // The sums of the squares of each profile's counts, each by its exposure. `countsOf` gives counts from the values of the tree of all stacks.
    squares(state, size, countsOf) {
        const { model } = this, squares = SIDES.map(() => new Float64Array(size));
        this.profiles.forEach(({ side, exposure }, number) => {
            if (state.off[0].has(number + 1)) return;
            const groups = this.groups((_, of) => of === number + 1);
            const values = withTotals(model.tree, selectedValues(model, state, groups)), counts = countsOf(values);
            const by = this.isShare ? values.total[0] : exposure, to = squares[side];
            if (by > 0) for (let i = 0; i < size; i++) to[i] += (counts[i] * counts[i]) / by;
        });
        return squares;
    }

    // Judges counts on both sides, those with at least `least` samples together: the change of each, and whether it is a discovery.
    judged(views, state, counts, countsOf, least) {
        const { sides, freedom, isComplete } = this.measure(views, state), size = counts[0].length;
        const squares = freedom > 0 && isComplete ? this.squares(state, size, countsOf) : null;
        const tally = (i, side) => ({ count: counts[side][i], exposure: sides[side].exposure, squares: squares ? squares[side][i] : 0 });
        const change = (i) => changeOf(tally(i, 0), tally(i, 1), this.isShare, freedom);
        const chances = new Float64Array(size).fill(NaN);
        if (isComplete) for (let i = 0; i < size; i++) if (counts[0][i] + counts[1][i] >= least) chances[i] = change(i).chance;
        const limit = discoveryLimit(chances), isFound = (i) => chances[i] <= limit;
        // `before 10.00 % (10 samples)`, or `before 1.20 per second (12 samples)`.
        const told = (i, side) => {
            const count = counts[side][i], { samples, exposure } = sides[side];
            const figure = this.isShare ? percent(count, samples) : `${(count / exposure).toFixed(2)} per ${this.measured}`;
            return `${SIDES[side]} ${figure} (${count.toLocaleString("en-US")} samples)`;
        };
        return { change, isFound, told, sides, isComplete };
    }

    // The changes of the frames of a graph, and for each how strong its colour is: from -1, half or less, to 1, twice or more; NaN may be chance.
    ofGraph(views, state, { tree, shape, sides }) {
        const stacks = views.flame(state).shape, counts = sides.map(({ total }) => total);
        const changes = this.judged(views, state, counts, (values) => valuesIn(shape, valuesIn(stacks, values)).total, LEAST);
        const strength = new Float32Array(tree.count).fill(NaN);
        // The root stands for all.
        for (let node = 1; node < tree.count; node++) if (changes.isFound(node)) strength[node] = strengthOf(changes.change(node));
        return { ...changes, strength };
    }

    // The changes of functions, in themselves ("flat") or with what they called ("cum").
    ofFunctions(views, state, part) {
        return views.keep(`changes ${part}`, views.flameKey(state), () => {
            const flame = views.flame(state), { frames, firstFrame } = this.model, isOwner = this.model.header.kinds.length - 1;
            const real = (counts) => counts.map((count, fn) => (frames.kind[firstFrame[fn]] === isOwner ? 0 : count));
            const countsOf = (values) => real(functionsOf(this.model, flame.tree, valuesIn(flame.shape, values))[part]);
            const counts = views.functions(state).map((of) => real(of[part]));
            return { ...this.judged(views, state, counts, countsOf, 1), counts };
        });
    }
}

function strengthOf({ percent }) {
    return Math.max(-1, Math.min(1, Math.log2(1 + percent / 100)));
}

function growthText({ percent }) {
    return percent === Infinity ? "new" : `${signed(percent)} %`;
}

function intervalText({ low, high }) {
    return `${signed(low)} … ${signed(high)} %`;
}

function signed(number) {
    return (number < 0 ? "" : "+") + number.toFixed(1);
}
