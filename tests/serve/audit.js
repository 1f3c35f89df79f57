// What each control is called, for who does not see it, and whether its text stands out from what is behind it (WCAG: 4.5).
() => {
  const isVisible = (element) => element.offsetParent !== null;
  const name = (control) => control.getAttribute("aria-label") || control.textContent.trim() || control.labels?.length || control.title;
  const controls = [...document.querySelectorAll("button, a, input, select, textarea")].filter(isVisible);
  const nameless = controls.filter((control) => !name(control)).map((control) => control.outerHTML);

  // A color as the page draws it, whatever its notation: [red, green, blue, alpha].
  const pencil = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    pencil.clearRect(0, 0, 1, 1);
    pencil.fillStyle = color;
    pencil.fillRect(0, 0, 1, 1);
    return [...pencil.getImageData(0, 0, 1, 1).data];
  };
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => below.map((part, index) => part + (layer[index] - part) * (layer[3] / 255)), [255, 255, 255]);
  };
  const luminance = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  const texts = [...document.querySelectorAll("p, h1, h2, h3, a, button, span, td, th, div, li, label")];
  const faint = texts.filter((element) => isVisible(element) && hasText(element) && !element.disabled).flatMap((element) => {
    const [a, b] = [luminance(rgba(getComputedStyle(element).color)), luminance(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    return ratio < 4.5 ? [`${element.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`] : [];
  });
  return { nameless, faint };
}
