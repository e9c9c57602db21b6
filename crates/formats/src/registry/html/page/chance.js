// Changes of counts and how likely they are by chance, by the same formulae as the table of `perf-agent diff` (significance.rs). Tests compare both.

const FALSE_DISCOVERIES = 0.01, FEW = 100, Z_95 = 1.959963984540054;

// How likely a standard normal variable is this far from 0, on either side (Numerical Recipes, erfcc).
function normalTails(z) {
    const x = Math.abs(z) / Math.SQRT2, t = 1 / (1 + x / 2);
    const terms = [0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223];
    return t * Math.exp(-x * x + terms.reduce((sum, term) => sum * t + term, 0));
}

// The logarithm of the gamma function (Lanczos).
function logGamma(x) {
    const terms = [76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 1.208650973866179e-3, -5.395239384953e-6];
    const sum = terms.reduce((sum, term, index) => sum + term / (x + 1 + index), 1.000000000190015);
    return (x + 0.5) * Math.log(x + 5.5) - x - 5.5 + Math.log((2.5066282746310005 * sum) / x);
}

// The regularized incomplete beta function, by its continued fraction.
function incompleteBeta(a, b, x) {
    if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(b, a, 1 - x);
    const away = (value) => (Math.abs(value) < 1e-300 ? 1e-300 : value);
    let c = 1, d = 1 / away(1 - ((a + b) * x) / (a + 1)), fraction = d;
    for (let m = 1; m <= 300; m++) {
        for (const term of [(m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)), (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))]) {
            d = 1 / away(1 + term * d);
            c = away(1 + term / c);
            fraction *= c * d;
        }
        if (Math.abs(c * d - 1) < 1e-12) break;
    }
    return (Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(1 - x)) * fraction) / a;
}

// The same as normalTails of Student's distribution.
function studentTails(t, freedom) {
    return incompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

// How likely `b` of `n` or something as unlikely is.
function binomialTails(b, n, q) {
    let atMost = 0, atLeast = 0;
    for (let k = 0; k <= n; k++) {
        const is = Math.exp(logGamma(n + 1) - logGamma(k + 1) - logGamma(n - k + 1) + k * Math.log(q) + (n - k) * Math.log(1 - q));
        if (k <= b) atMost += is;
        if (k >= b) atLeast += is;
    }
    return Math.min(1, 2 * Math.min(atMost, atLeast));
}

// How much the counts of the profiles of a side scatter, in units of what chance gives. `squares`: the sum of their squares, each by its exposure.
function scatterOf({ count, exposure, squares }, isShare) {
    const rate = count / exposure, spread = rate * (isShare ? 1 - rate : 1);
    return spread > 0 ? Math.max(0, squares - count * rate) / spread : 0;
}

// The change between two sides: growth in percent, its interval of 95 %, and how likely as much is by chance. `freedom`: the profiles of both sides less 2.
function changeOf(a, b, isShare, freedom) {
    const factor = freedom > 0 ? Math.max(1, (scatterOf(a, isShare) + scatterOf(b, isShare)) / freedom) : 1;
    const n = a.count + b.count, q = b.exposure / (a.exposure + b.exposure);
    const rate = (side, count) => count / side.exposure;
    const shared = isShare ? 1 / (a.exposure + 1) + 1 / (b.exposure + 1) : 0;
    const deviation = Math.sqrt(Math.max(0, 1 / (a.count + 0.5) + 1 / (b.count + 0.5) - shared) * factor);
    const middle = Math.log(rate(b, b.count + 0.5) / rate(a, a.count + 0.5));
    const end = (sign) => 100 * (Math.exp(middle + sign * Z_95 * deviation) - 1);
    let chance;
    if (n < FEW && factor <= 1) chance = binomialTails(b.count, n, q);
    else {
        const pooled = n / (a.exposure + b.exposure);
        const z = isShare
            ? (rate(b, b.count) - rate(a, a.count)) / Math.sqrt(pooled * (1 - pooled) * (1 / a.exposure + 1 / b.exposure))
            : (b.count - n * q) / Math.sqrt(n * q * (1 - q));
        const scaled = z / Math.sqrt(factor);
        chance = Number.isNaN(z) ? 1 : freedom > 0 ? studentTails(scaled, freedom) : normalTails(scaled);
    }
    const percent = a.count > 0 ? 100 * (rate(b, b.count) / rate(a, a.count) - 1) : Infinity;
    return { percent, low: end(-1), high: end(1), chance };
}

// The largest chance that is called a discovery, by Benjamini and Hochberg's procedure; -1 if there is none. NaN is not judged.
function discoveryLimit(chances) {
    const sorted = chances.filter((chance) => chance >= 0).sort();
    for (let rank = sorted.length; rank > 0; rank--) {
        if (sorted[rank - 1] <= (rank / sorted.length) * FALSE_DISCOVERIES) return sorted[rank - 1];
    }
    return -1;
}
