"""The explorer at 20,000 entities: script per frame in a trace of Chromium while the graph is moved and zoomed.

./quickstart && ./test --python -m bench explorer

The page and its server are the real ones; the graph is made here and given in place of the server's (`--nodes`, three
relationships each, communities of fifty). Script is processor time of the page's main thread, so that a loaded machine does not
change it; frames per second are those of software WebGL where there is no graphics card. The bar is 8 ms a frame.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
from itertools import pairwise
from typing import Any

from playwright.sync_api import Page, Route, sync_playwright

from bench.load.serve import served

ARGUMENTS = (
    "--no-sandbox --disable-background-networking --use-gl=angle --use-angle=swiftshader"
    " --enable-unsafe-swiftshader --ignore-gpu-blocklist"
).split()
# Events of a trace that are script, and what they contain is counted with them.
_SCRIPT = {"FireAnimationFrame", "FunctionCall", "EvaluateScript", "TimerFire", "EventDispatch", "RunMicrotasks"}


def made_graph(nodes: int) -> dict[str, Any]:
    """Return {nodes, edges}: each entity tied to three others, most of its community; a few have many."""
    chance = random.Random(1)
    edges: dict[tuple[int, int], int] = {}
    degrees = [0] * nodes
    for node in range(nodes):
        for _ in range(3):
            near = node - node % 50 + chance.randrange(50)
            other = near if chance.random() < 0.8 else int(nodes * chance.random() ** 3)
            if other != node and other < nodes:
                edges[min(node, other), max(node, other)] = 1 + chance.randrange(5)
    for source, target in edges:
        degrees[source] += 1
        degrees[target] += 1
    return {
        "nodes": [
            {
                "id": node + 1,
                "name": f"Entity {node}",
                "type": "NAME",
                "degree": degrees[node],
                "description": "",
                "community": node // 50,
            }
            for node in range(nodes)
        ],
        "edges": [
            {"id": number, "source": source + 1, "target": target + 1, "weight": weight, "description": ""}
            for number, ((source, target), weight) in enumerate(edges.items(), 1)
        ],
    }


def main() -> None:
    """Serve, open, move, trace, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--frames", type=int, default=40)
    args = parser.parse_args()
    chromium = os.environ.get("GRAPHRAG_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("no Chromium here: apt-get install chromium")
    with served(args.url) as (address, token), sync_playwright() as driver:
        print("nodes   edges   script per frame, ms: median  p95   frames/s   first picture, s of script")
        browser = driver.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        for nodes in args.nodes:
            page = browser.new_page(viewport={"width": 1280, "height": 820})
            measure(page, f"{address}#token={token}", made_graph(nodes), args.frames)
            page.close()
        browser.close()


def measure(page: Page, address: str, graph: dict[str, Any], frames: int) -> None:
    """Open the graph, wait until it is arranged, then move and zoom, and print what a frame took."""
    page.set_default_timeout(300_000)
    body = json.dumps(graph)

    def given(route: Route) -> None:
        route.fulfill(content_type="application/json", body=body)

    page.route(lambda url: "/api/graph?" in url, given)
    page.route("**/api/graph/communities*", lambda route: route.fulfill(content_type="application/json", body="[]"))
    page.goto(address)
    page.wait_for_selector("#question")
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = script_seconds(client)
    page.locator("#question").blur()
    page.keyboard.press("2")
    page.wait_for_selector("html[data-arranged='1']")
    page.wait_for_timeout(2000)
    first = script_seconds(client) - before
    events: list[dict[str, Any]] = []
    client.on("Tracing.dataCollected", lambda data: events.extend(data["value"]))
    ended: list[bool] = []
    client.on("Tracing.tracingComplete", lambda _: ended.append(True))
    client.send("Tracing.start", {"categories": "devtools.timeline,toplevel", "transferMode": "ReportEvents"})
    box = page.locator("#canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    for number in range(frames):
        if number % 2:
            page.mouse.wheel(0, -60 if number % 8 < 4 else 60)
        else:
            page.mouse.down()
            page.mouse.move(x + 40 * (-1) ** (number // 2), y + 25, steps=2)
            page.mouse.up()
        page.evaluate("new Promise(requestAnimationFrame)")
    client.send("Tracing.end")
    while not ended:
        page.wait_for_timeout(100)
    durations, rate = frames_of(events)
    print(
        f"{len(graph['nodes']):6,} {len(graph['edges']):7,} {statistics.median(durations):28.1f}"
        f" {sorted(durations)[int(0.95 * len(durations))]:4.1f} {rate:10.1f} {first:12.2f}",
        flush=True,
    )


def script_seconds(client: Any) -> float:
    """Return the processor time of script so far."""
    metrics = {each["name"]: each["value"] for each in client.send("Performance.getMetrics")["metrics"]}
    return float(metrics["ScriptDuration"])


def frames_of(events: list[dict[str, Any]]) -> tuple[list[float], float]:
    """Return the milliseconds of script between two frames that script drew, and the frames a second."""
    main_thread = next((e["pid"], e["tid"]) for e in events if e["name"] == "FireAnimationFrame" and "tdur" in e)
    own = sorted((e for e in events if (e["pid"], e["tid"]) == main_thread and "tdur" in e), key=lambda e: e["ts"])
    script, until = [], 0
    for event in own:
        # Outermost ones alone: what they contain is counted with them.
        if event["name"] in _SCRIPT and event["ts"] >= until:
            script.append(event)
            until = event["ts"] + event["dur"]
    starts = [e["ts"] for e in script if e["name"] == "FireAnimationFrame"]
    durations = [sum(e["tdur"] for e in script if start <= e["ts"] < end) / 1000 for start, end in pairwise(starts)]
    return durations, (len(starts) - 1) / ((starts[-1] - starts[0]) / 1e6)


if __name__ == "__main__":
    main()
