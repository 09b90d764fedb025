// What is wrong with a report's layout, as lines of text. Evaluated beside the page, where charts.js has put charts that
// can be looked into; its last value is the answer.
(() => {
    const complaints = [], width = document.documentElement.clientWidth, slack = 1, leastText = 9;
    const box = (element) => element.getBoundingClientRect();
    const name = (element) => {
        const text = element.textContent.trim().replace(/\s+/g, ' ').slice(0, 40);
        return `<${element.tagName.toLowerCase()}> "${text}"`;
    };
    const scrolls = (element) => ['auto', 'scroll'].includes(getComputedStyle(element).overflowX);
    const scroller = (element) => {
        for (let at = element.parentElement; at; at = at.parentElement)
            if (at !== document.documentElement && at !== document.body && scrolls(at)) return at;
        return null;
    };
    // How high its own text is, whatever the row made of it.
    const contentHeight = (cell) => {
        const range = document.createRange(), style = getComputedStyle(cell);
        range.selectNodeContents(cell);
        return range.getBoundingClientRect().height + parseFloat(style.paddingTop) + parseFloat(style.paddingBottom);
    };

    if (document.documentElement.scrollWidth > width + slack)
        complaints.push(`the page is ${document.documentElement.scrollWidth} px wide, the window ${width}`);
    for (const element of document.querySelectorAll('main, main *')) {
        const is = box(element), style = getComputedStyle(element);
        if (is.width === 0 || style.visibility === 'hidden') continue;
        if (!scroller(element) && (is.right > width + slack || is.left < -slack))
            complaints.push(`${name(element)} reaches from ${is.left} to ${is.right} of ${width} px`);
        if (!scrolls(element) && style.display !== 'inline' &&
            element.scrollWidth > element.clientWidth + slack)
            complaints.push(`${name(element)} overflows: ${element.scrollWidth} px in ${element.clientWidth}`);
    }
    for (const row of document.querySelectorAll('tr')) {
        if (getComputedStyle(row).display !== 'table-row') continue;  // a card: its cells stand below each other
        const around = scroller(row), edge = around ? box(around).right : width;
        const seen = [...row.cells].filter((cell) => box(cell).right <= edge + slack);
        const needed = Math.max(...seen.map(contentHeight));
        if (box(row).height > needed + 8)
            complaints.push(`${name(row)} is ${box(row).height} px high; what is seen of it needs ${needed}`);
    }
    for (const svg of document.querySelectorAll('body > div > svg')) {
        const frame = box(svg), texts = [...svg.querySelectorAll('text')].filter((text) => text.textContent.trim());
        for (const text of texts) {
            const matrix = text.getScreenCTM(), is = box(text);
            const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(matrix.b, matrix.d);
            if (size < leastText)
                complaints.push(`${name(text)} of a chart is ${size.toFixed(1)} px`);
            if (is.left < frame.left - slack || is.right > frame.right + slack || is.top < frame.top - slack ||
                is.bottom > frame.bottom + slack)
                complaints.push(`${name(text)} leaves its chart`);
        }
        texts.forEach((one, i) => texts.slice(i + 1).forEach((other) => {
            const a = box(one), b = box(other);
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (across > 2 && down > 4) complaints.push(`${name(one)} and ${name(other)} of a chart overlap`);
        }));
    }
    return {complaints: [...new Set(complaints)]};
})()
