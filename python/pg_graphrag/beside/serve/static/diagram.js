// Draws Mermaid diagrams for the page that this frame is part of: {id, source, isDark} comes, {id, svg} or {id, error} goes back.

let count = 0;

addEventListener("message", async ({ source: page, origin, data }) => {
  if (origin !== location.origin || page !== parent) return;
  let reply;
  try {
    mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: data.isDark ? "dark" : "default", htmlLabels: false,
      flowchart: { htmlLabels: false, useMaxWidth: false }, sequence: { useMaxWidth: false }, fontFamily: "system-ui, sans-serif", suppressErrorRendering: true });
    reply = await mermaid.render(`diagram${(count += 1)}`, data.source);
  } catch (error) {
    reply = { error: String(error) };
  }
  page.postMessage({ id: data.id, svg: reply.svg, error: reply.error }, location.origin);
});
