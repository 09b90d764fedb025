// Puts each chart beside the page as elements, as large as its picture is: in an <img> nobody can look into it. They are
// fixed, so that the page does not grow by them.
for (const image of document.querySelectorAll('figure img')) {
    const chart = document.createElement('div'), frame = image.getBoundingClientRect();
    chart.style = `position:fixed;left:0;top:0;width:${frame.width}px;height:${frame.height}px`;
    chart.innerHTML = new TextDecoder().decode(Uint8Array.from(atob(image.src.split(',')[1]), (c) => c.charCodeAt(0)));
    chart.firstElementChild.style = 'width:100%;height:100%';
    document.body.append(chart);
}
