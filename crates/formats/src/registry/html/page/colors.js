// Colours of frames. A kind has a hue and a name a shade, as in SVG flame graphs; in the dark both are dimmed.

const MATCH = { light: "#d63fce", dark: "#a72fa0" };

class Colors {
    constructor(kinds) {
        this.kinds = kinds;
        this.known = new Map();
        this.isDark = false;
    }

    setDark(isDark) {
        this.isDark = isDark;
        this.known.clear();
    }

    of(kind, shade) {
        const key = kind * 256 + shade, known = this.known.get(key);
        if (known) return known;
        let [hue, saturation, lightness] = this.kinds[kind].hsl;
        if (saturation > 0) hue += Math.floor(shade / 24);
        lightness += (shade % 16) / 2;
        if (this.isDark) [saturation, lightness] = [saturation * 0.55, lightness * 0.52];
        const color = `hsl(${hue},${saturation}%,${lightness}%)`;
        this.known.set(key, color);
        return color;
    }

    // Of a change: orange for more, blue for less, which people who do not tell red from green tell too; grey for what may be chance.
    ofChange(strength) {
        if (Number.isNaN(strength)) return this.isDark ? "#4a4845" : "#d2cfc9";
        const hue = strength > 0 ? 28 : 212, size = Math.abs(strength);
        return this.isDark ? `hsl(${hue},${50 + 25 * size}%,${26 + 16 * size}%)` : `hsl(${hue},88%,${84 - 26 * size}%)`;
    }

    get match() {
        return this.isDark ? MATCH.dark : MATCH.light;
    }

    get text() {
        return this.isDark ? "#f2f2f0" : "#1c1b19";
    }

    get narrow() {
        return this.isDark ? "#55534f" : "#c4c1ba";
    }

    get outline() {
        return this.isDark ? "#ffffff" : "#16140f";
    }

    get root() {
        return this.isDark ? "#3a3835" : "#e4e1da";
    }
}
