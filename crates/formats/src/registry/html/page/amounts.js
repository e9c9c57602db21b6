// Values as text.

function amount(value, { kind, unit }) {
    if (unit === "nanoseconds") {
        if (value >= 1e8) return `${(value / 1e9).toFixed(3)} s`;
        return value >= 1e5 ? `${(value / 1e6).toFixed(3)} ms` : `${(value / 1e3).toFixed(3)} µs`;
    }
    if (unit === "bytes") {
        const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
        const power = Math.min(4, Math.floor(Math.log2(Math.max(1, value)) / 10));
        return power ? `${(value / 1024 ** power).toFixed(1)} ${units[power]}` : `${value} bytes`;
    }
    return `${Math.round(value).toLocaleString("en-US")} ${unit === "count" ? kind : unit}`;
}

function percent(part, whole) {
    return whole > 0 ? `${((100 * part) / whole).toFixed(2)} %` : "0 %";
}

// Names of foreign programs may have any length.
function cut(text, length) {
    return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
