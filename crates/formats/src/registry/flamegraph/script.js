
"use strict";
(function () {
    const MARGIN = 10, CHARACTER = 6.9;
    const svg = document.currentScript.ownerSVGElement || document.documentElement;
    const byId = (id) => svg.getElementById(id);
    const groups = Array.from(byId("frames").children);
    const row = (group) => Number(group.querySelector("rect").getAttribute("y"));
    const frames = groups.map((group) => {
        const depth = Math.abs(row(group) - row(groups[0]));
        const title = group.firstElementChild.textContent;
        const end = title.indexOf("\n");
        const start = Number(group.dataset.x), width = Number(group.dataset.w);
        const rect = group.querySelector("rect");
        return { group, rect, depth, start, end: start + width, name: title.slice(0, end), figures: title.slice(end + 1) };
    });
    const all = { start: 0, end: Math.max(1, Number(svg.dataset.total)) };
    const inside = (inner, outer) => inner.start >= outer.start && inner.end <= outer.end;
    let view = all, focus = null;

    function label(frame, width) {
        const room = Math.floor((width - 6) / CHARACTER);
        if (frame.name.length <= room) return frame.name;
        return room < 3 ? "" : frame.name.slice(0, room - 1) + "\u2026";
    }

    function draw() {
        const total = svg.clientWidth || svg.getBoundingClientRect().width || 1200;
        const width = Math.max(100, total - 2 * MARGIN);
        const scale = width / (view.end - view.start);
        for (const frame of frames) {
            const isParent = focus !== null && frame !== focus && inside(focus, frame) && frame.depth < focus.depth;
            const isShown = isParent || focus === null || frame === focus || (inside(frame, view) && frame.depth > focus.depth);
            frame.group.setAttribute("display", isShown ? "inline" : "none");
            if (!isShown) continue;
            const x = isParent ? MARGIN : MARGIN + (frame.start - view.start) * scale;
            const wide = isParent ? width : (frame.end - frame.start) * scale || width;
            frame.group.classList.toggle("parent", isParent);
            frame.rect.setAttribute("x", x.toFixed(2));
            frame.rect.setAttribute("width", wide.toFixed(2));
            const shown = label(frame, wide);
            let text = frame.group.querySelector("text");
            if (!text && shown) {
                text = document.createElementNS(svg.namespaceURI, "text");
                text.setAttribute("y", String(Number(frame.rect.getAttribute("y")) + 13));
                frame.group.appendChild(text);
            }
            if (text) {
                text.setAttribute("x", (x + 3).toFixed(2));
                text.textContent = shown;
            }
        }
        byId("reset").setAttribute("display", focus === null ? "none" : "inline");
        byId("details").setAttribute("x", focus === null ? MARGIN : MARGIN + 90);
    }

    function zoom(frame) {
        focus = frame === frames[0] ? null : frame;
        view = focus || all;
        draw();
    }

    function search() {
        const word = window.prompt("Search for a name (regular expression)", "");
        if (word === null) return;
        let matches = () => false;
        if (word !== "") {
            try {
                const pattern = new RegExp(word);
                matches = (name) => pattern.test(name);
            } catch (error) {
                matches = (name) => name.includes(word);
            }
        }
        let sum = 0, covered = -1;
        for (const frame of frames) {
            frame.matches = matches(frame.name);
            frame.group.classList.toggle("match", frame.matches);
        }
        // The outermost match of each stack counts.
        const matched = frames.filter((frame) => frame.matches);
        for (const frame of matched.sort((a, b) => a.start - b.start || b.end - a.end)) {
            if (frame.end > covered) {
                sum += frame.end - Math.max(frame.start, covered);
                covered = frame.end;
            }
        }
        const share = (100 * sum) / all.end;
        byId("matched").textContent = word === "" ? " " : "matched: " + share.toFixed(2) + " %";
    }

    svg.removeAttribute("viewBox");
    svg.setAttribute("width", "100%");
    byId("search").setAttribute("display", "inline");
    byId("search").addEventListener("click", search);
    byId("reset").addEventListener("click", () => zoom(frames[0]));
    for (const frame of frames) {
        frame.group.addEventListener("click", () => zoom(frame));
        frame.group.addEventListener("mouseover", () => {
            byId("details").textContent = frame.name + (frame.figures ? " \u2014 " + frame.figures : "");
        });
        frame.group.addEventListener("mouseout", () => { byId("details").textContent = " "; });
    }
    window.addEventListener("keydown", (event) => {
        if ((event.ctrlKey && event.key === "f") || event.key === "/" || event.key === "F3") {
            event.preventDefault();
            search();
        } else if (event.key === "Escape") {
            zoom(frames[0]);
        }
    });
    window.addEventListener("resize", draw);
    draw();
})();
