// The data block: a header in JSON and columns, packed by gzip and base64. columns.rs and data.rs write it.

function bytesOfBase64(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return bytes;
}

async function unpacked(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Numbers up to 2^53 are exact.
function numbersOf(bytes, column) {
    const large = column.name.startsWith("row.value") || column.name === "time.count", out = new (large ? Float64Array : Int32Array)(column.n);
    let at = column.at, last = 0;
    for (let i = 0; i < column.n; i++) {
        let byte = bytes[at++], item = byte & 127;
        for (let scale = 128; byte > 127; scale *= 128) {
            byte = bytes[at++];
            item += (byte & 127) * scale;
        }
        if (column.enc === "z") item = last += item % 2 ? -(item + 1) / 2 : item / 2;
        out[i] = item;
    }
    if (at !== column.at + column.len) throw new Error(`the column ${column.name} is damaged`);
    return out;
}

function textsOf(bytes, column) {
    const all = new TextDecoder().decode(bytes.subarray(column.at, column.at + column.len)).split("\0");
    all.pop();
    if (all.length !== column.n) throw new Error(`the column ${column.name} is damaged`);
    return all;
}

// The header, and a function that gives a column by its name, or null.
function opened(bytes) {
    const size = new DataView(bytes.buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
    if (header.version !== 1) throw new Error(`the data has version ${header.version}, and this page reads version 1`);
    let at = 4 + size;
    const columns = new Map();
    for (const column of header.columns) {
        columns.set(column.name, { ...column, at });
        at += column.len;
    }
    if (at !== bytes.length) throw new Error("the data is cut off");
    const read = (name) => {
        const column = columns.get(name);
        if (!column) return null;
        if (column.enc === "s") return textsOf(bytes, column);
        if (column.enc === "b") return bytes.subarray(column.at, column.at + column.len);
        return numbersOf(bytes, column);
    };
    return { header, read };
}

// The counts of rows by part of the time, of samples or of time, and the sum of each row.
function timesOf({ bins, width, of }, read, rows) {
    const bin = read("time.bin"), row = read("time.row"), count = read("time.count"), whole = new Float64Array(rows);
    for (let i = 0; i < row.length; i++) whole[row[i]] += count[i];
    return { bins, width, of, bin, row, count, whole };
}

// All that the page shows. Functions are frames with equal names in one module; owners of stacks are none of them.
function modelOf({ header, read }) {
    const frames = {
        count: 0,
        name: read("frame.name"), kind: read("frame.kind"), shade: read("frame.shade"), rank: read("frame.rank"),
        line: read("frame.line"), file: read("frame.file"), module: read("frame.module"), fn: null,
    };
    frames.count = frames.name.length;
    frames.fn = new Int32Array(frames.count);
    const functions = new Map(), firstFrame = [], isOwner = header.kinds.length - 1;
    for (let frame = 0; frame < frames.count; frame++) {
        const key = [frames.kind[frame] === isOwner, frames.module[frame], frames.name[frame]].join("\0");
        let fn = functions.get(key);
        if (fn === undefined) {
            functions.set(key, (fn = firstFrame.length));
            firstFrame.push(frame);
        }
        frames.fn[frame] = fn;
    }
    const values = [];
    header.values.forEach((of, number) => {
        const column = read(`row.value.${number}`);
        values.push(column || Float64Array.from(values[0], (value) => value * of.times));
    });
    const facets = header.facets.map((name, number) => {
        const of = read(`group.${number}`);
        // Zero stands for samples without a value.
        return { name, values: ["(none)", ...read(`facet.${number}`)], of };
    });
    const rows = { node: read("row.node"), group: read("row.group") };
    const model = {
        header, frames, firstFrame, values, facets,
        texts: read("text"),
        tree: treeOfColumns(read("node.up"), read("node.frame")),
        rows,
        groups: facets.length ? facets[0].of.length : 0,
        times: header.time && timesOf(header.time, read, rows.node.length),
        difference: null,
        // The groups of samples of each side; a report has one side with all.
        sides: [null],
    };
    if (header.difference) {
        const difference = (model.difference = new Difference(model));
        model.sides = SIDES.map((_, side) => difference.groups((profile) => profile.side === side));
    }
    return model;
}
