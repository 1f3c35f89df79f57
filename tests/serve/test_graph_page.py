"""The graph of the pages in Chromium: groups, neighbourhoods, paths, labels, names, pictures, curation."""

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.serve.pages import IN_CHROMIUM, READER, Open, drawn, labels, picture, says, until, wait
from tests.serve.serving import Serving
from tests.sql.ingest import put

pytestmark = IN_CHROMIUM


@pytest.mark.slow
def test_the_graph_leads_from_the_overview_to_an_entity_and_along_a_path(opened: Open) -> None:
    page = opened("graph")
    drawn(page)
    says(page, "entities, ")
    picture(page, "graph")
    page.click("#side summary:text-is('Groups')")
    page.click("#side .items a >> nth=0")
    until(page, "location.hash.includes('/graph/community/')")
    drawn(page, "document.querySelector('#legend').textContent.startsWith('4 entities')")
    page.click("#side .link:text-is('Ada Lovelace')")
    page.click("#chosen a:text-is('What is around it')")
    says(page, "Ada Lovelace and 5 entities around it.")
    drawn(page)
    picture(page, "entity")
    page.click(".step:text-is('2')")
    says(page, "Ada Lovelace and 9 entities around it.")
    page.click("summary:text-is('Path between two')")
    page.fill("form:has([name=source]) [name=target]", "Bombe")
    page.press("form:has([name=source]) [name=target]", "Enter")
    says(page, "2 relationships from Ada Lovelace to Bombe.")
    drawn(page)
    picture(page, "path")
    # Each has an address: Back leads through them.
    for said in ("Ada Lovelace and 9", "Ada Lovelace and 5", "4 entities"):
        page.go_back()
        says(page, said)
    page.wait_for_selector("#chosen h3:text-is('Ada Lovelace')")
    page.go_back()
    page.wait_for_selector("#chosen", state="detached")
    page.go_back()
    says(page, "entities, ")
    page.go_forward()
    says(page, "4 entities")
    page.reload()
    says(page, "4 entities")


@pytest.mark.slow
def test_labels_neither_collide_nor_are_cut_off(opened: Open) -> None:
    for width in (1280, 375):
        page = opened("graph", viewport={"width": width, "height": 820})
        drawn(page)
        box = page.locator("#canvas").bounding_box()
        found = labels(page)
        assert len(found) > 5
        for index, one in enumerate(found):
            assert one["left"] >= 0 and one["left"] + one["width"] <= box["width"], one
            assert one["top"] >= 0 and one["top"] + one["height"] <= box["height"], one
            for other in found[index + 1 :]:
                assert (
                    one["left"] + one["width"] <= other["left"]
                    or other["left"] + other["width"] <= one["left"]
                    or one["top"] + one["height"] <= other["top"]
                    or other["top"] + other["height"] <= one["top"]
                ), (one, other)


@pytest.mark.slow
def test_names_are_completed_by_keys_and_found_ones_light_up(opened: Open) -> None:
    page = opened("graph")
    drawn(page)
    page.focus("#canvas ~ #groups .chip >> nth=0")
    count = len(labels(page))
    page.keyboard.press("Space")
    drawn(page, f"document.querySelector('#canvas').labels.length < {count}")
    page.keyboard.press("Space")
    drawn(page, f"document.querySelector('#canvas').labels.length === {count}")
    box = page.locator("[role=combobox][name=entity]")
    box.focus()
    page.keyboard.type("an Turin")
    page.wait_for_selector("[role=option]:has-text('Alan Turing')")
    assert box.get_attribute("aria-expanded") == "true"
    drawn(page, "document.querySelector('#canvas').labels.filter(({ isDim }) => !isDim).length === 1")
    picture(page, "completed")
    page.keyboard.press("Escape")
    assert box.get_attribute("aria-expanded") == "false"
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("[role=option]")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("[aria-selected=true]", "id") == box.get_attribute("aria-activedescendant")
    page.keyboard.press("Enter")
    page.wait_for_selector("#chosen h3:text-is('Alan Turing')")
    page.fill("[name=entity]", "enig")
    page.press("[name=entity]", "Enter")
    page.wait_for_selector("#side .card:has(h3:text-is('Found')) .link >> nth=1")
    assert "find=enig" in page.url
    assert [one["text"] for one in labels(page) if not one["isDim"]] == ["Enigma", "Enigma machine"]
    page.reload()
    page.wait_for_selector("#side .card:has(h3:text-is('Found'))")


@pytest.mark.slow
def test_a_hub_says_how_much_of_it_is_drawn_and_listed_and_shows_more(
    opened: Open, explored: Serving, module_db: Database
) -> None:
    module_db.execute("SELECT graphrag.create_corpus('hub', '{\"communities\": false}')")
    names = [
        f"{first}{last}"
        for first in ("Ada", "Bel", "Cor", "Dan", "Eva", "Fin", "Gus", "Hal")
        for last in "bdfgklmnprst"
    ]
    for name in names:
        put(
            module_db,
            "hub",
            name,
            f"{name.title()}son Lindqvist works for Kestrel Industries. {name.title()}son Lindqvist lives in {name.title()}burg.",
        )
    module_db.execute("CALL graphrag.process_jobs()")
    page = opened()
    page.goto(f"{page.url.split('#')[0]}#/hub/graph/entity?name=Kestrel Industries")
    says(page, "Kestrel Industries and 60 of ")
    page.wait_for_selector("#chosen:has-text('The 60 strongest are listed.')")
    page.click("#chosen button:text-is('Show more')")
    page.wait_for_selector("#chosen:has-text('strongest are listed')", state="detached")
    count = page.locator("#chosen li").count()
    assert count >= len(names)
    page.click("#legend button:text-is('Show more')")
    says(page, f"Kestrel Industries and {count} entities around it.")
    assert "limit=150" in page.url
    page.click(".step:text-is('2')")
    says(page, "Kestrel Industries and 150 of ")
    # Neighbors of its own leave room for those behind.
    with explored.client() as client:
        (hub,) = client.get("/api/graph/names", params={"corpus": "hub", "text": "Kestrel Industries"}).json()
        query = {"corpus": "hub", "depth": 2, "limit": 60}
        part = client.get(f"/api/graph/entities/{hub['id']}", params=query).json()
    assert len(part["nodes"]) == 61 < part["total"]
    assert sum(node["hop"] == 2 for node in part["nodes"]) >= 20


@pytest.mark.slow
def test_fingers_choose_pan_pinch_and_drag(opened: Open) -> None:
    page = opened("graph", viewport={"width": 375, "height": 740}, has_touch=True, is_mobile=True)
    drawn(page)
    box = page.locator("#canvas").bounding_box()
    client = page.context.new_cdp_session(page)

    def places() -> dict[str, tuple[float, float]]:
        return {one["text"]: (box["x"] + one["x"], box["y"] + one["y"]) for one in labels(page)}

    def move(fingers: list[tuple[float, float]], to: list[tuple[float, float]]) -> None:
        for step in range(9):
            points = [
                {"x": x + (end_x - x) * step / 8, "y": y + (end_y - y) * step / 8, "id": number}
                for number, ((x, y), (end_x, end_y)) in enumerate(zip(fingers, to, strict=True))
            ]
            kind = "touchMove" if step else "touchStart"
            client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_timeout(600)

    page.touchscreen.tap(*places()["Alan Turing"])
    page.wait_for_selector("#chosen h3:text-is('Alan Turing')")
    before = places()
    corner = (box["x"] + 4, box["y"] + 4)
    move([corner], [(corner[0] + 40, corner[1] + 30)])
    panned = places()
    turing = (panned["Alan Turing"][0] - before["Alan Turing"][0], panned["Alan Turing"][1] - before["Alan Turing"][1])
    assert abs(turing[0] - 40) < 5 and abs(turing[1] - 30) < 5
    page.click("[aria-label='Whole graph']")
    page.wait_for_timeout(800)
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    near = [(middle[0] - 20, middle[1]), (middle[0] + 20, middle[1])]
    count = len(places())
    move(near, [(middle[0] - 90, middle[1]), (middle[0] + 90, middle[1])])
    assert len(places()) < count
    page.click("[aria-label='Whole graph']")
    page.wait_for_timeout(800)
    move([places()["Alan Turing"]], [(box["x"] + 150, box["y"] + 90)])
    moved = places()["Alan Turing"]
    assert abs(moved[0] - box["x"] - 150) < 12 and abs(moved[1] - box["y"] - 90) < 12


def test_a_node_expands_in_place_and_is_dragged(opened: Open) -> None:
    page = opened()
    page.goto(f"{page.url.split('#')[0]}#/{page.input_value('#corpus')}/graph/entity?name=Grace Hopper")
    says(page, "Grace Hopper and 2 entities around it.")
    drawn(page)
    before = {one["text"]: one for one in labels(page)}
    page.click("#side .items .link:text-is('Ada Lovelace') >> nth=0")
    page.click("#chosen button:text-is('Expand')")
    page.wait_for_selector("#chosen button:text-is('Collapse')")
    drawn(page, "document.querySelector('#canvas').labels.length === 7")
    picture(page, "expanded")
    page.reload()
    page.wait_for_selector("#chosen button:text-is('Collapse')")
    drawn(page, "document.querySelector('#canvas').labels.length === 7")
    page.click("#chosen button:text-is('Collapse')")
    drawn(page, "document.querySelector('#canvas').labels.length === 3")
    assert {one["text"] for one in labels(page)} == set(before)
    box = page.locator("#canvas").bounding_box()
    ada = next(one for one in labels(page) if one["text"] == "Ada Lovelace")
    page.mouse.move(box["x"] + ada["x"], box["y"] + ada["y"])
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 100, steps=8)
    page.mouse.up()
    moved = next(one for one in labels(page) if one["text"] == "Ada Lovelace")
    assert abs(moved["x"] - 200) < 12 and abs(moved["y"] - 100) < 12


@pytest.mark.slow
def test_the_drawing_is_arranged_hidden_enlarged_and_saved(opened: Open, tmp_path: Path) -> None:
    page = opened("graph")
    drawn(page)
    page.click("summary:text-is('View')")
    for layout in ("rings", "circle", "groups"):
        places = labels(page)
        page.select_option("[name=layout]", layout)
        until(page, f"location.hash.includes('layout={layout}')")
        drawn(page, f"document.querySelector('#canvas').labels[0].x !== {places[0]['x']}")
        picture(page, f"layout-{layout}")
    page.select_option("[name=color]", "type")
    page.wait_for_selector(".chip:has-text('PERSON')")
    for name, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as download:
            page.click(f"#view-menu button:text-is('{name}')")
        download.value.save_as(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    assert b">Ada Lovelace</text>" in (tmp_path / "SVG").read_bytes()
    page.keyboard.press("Escape")
    assert page.is_hidden("#view-menu")
    page.click("[aria-label='Full screen']")
    until(page, "document.querySelector('.graph').getBoundingClientRect().width === innerWidth")
    drawn(page)
    picture(page, "full-screen")
    page.click("[aria-label='Full screen']")
    until(page, "document.querySelector('.graph').getBoundingClientRect().width < innerWidth")


@pytest.mark.slow
def test_a_path_to_an_unknown_name_says_which_and_leads_on(opened: Open) -> None:
    page = opened("graph", failing="/api/graph/path")
    page.unroute_all()
    drawn(page)
    page.click("summary:text-is('Path between two')")
    page.fill("#side [name=source]", "Ada Lovelace")
    page.fill("form:has([name=source]) [name=target]", "Bombx")
    page.press("form:has([name=source]) [name=target]", "Enter")
    page.wait_for_selector("[role=alert]:has-text('There is no entity called “Bombx”.')")
    page.click("#side a:text-is('Bombe')")
    says(page, "2 relationships from Ada Lovelace to Bombe.")
    drawn(page)


@pytest.mark.slow
def test_a_failure_of_the_network_is_over_when_it_is_over(opened: Open) -> None:
    page = opened(failing="/static/vendor/graphology.umd.min.js")
    page.click("[data-view=graph]")
    page.wait_for_selector("#legend [role=alert]")
    page.unroute_all()
    page.click("#legend button:text-is('Try again')")
    drawn(page)
    says(page, "entities, ")


@pytest.mark.slow
def test_relationships_and_entities_are_made_and_merged_in_the_graph(opened: Open) -> None:
    page = opened("graph")
    page.click("summary:text-is('New entity')")
    page.fill("#side form:has(button:text-is('Create')) [name=name]", "Difference Engine")
    page.fill("#side [name=type] >> nth=-1", "PRODUCT")
    page.click("#side button:text-is('Create')")
    page.wait_for_selector("#chosen h3:text-is('Difference Engine')")
    page.click("summary:text-is('New relationship')")
    page.fill("#chosen [name=other]", "Charles Babbage")
    page.fill("#chosen form:has([name=other]) [name=keywords]", "builds, designs")
    page.fill("#chosen form:has([name=other]) [name=description]", "Babbage designed it.")
    page.press("#chosen form:has([name=other]) [name=keywords]", "Enter")
    page.wait_for_selector("#chosen li:has-text('Babbage designed it.')")
    page.click("#chosen li summary:text-is('Change')")
    assert page.input_value("#chosen li [name=keywords]") == "builds, designs"
    page.fill("#chosen li [name=description]", "Babbage designed and began it.")
    page.click("#chosen li button:text-is('Save')")
    page.wait_for_selector("#chosen li:has-text('Babbage designed and began it.')")
    picture(page, "relationship")
    # A new name is another number: the page follows.
    page.click("summary:text-is('Change this entity')")
    assert page.input_value("#chosen [name=type]") == "PRODUCT"
    page.fill("#chosen [name=name]", "Difference Engine No. 1")
    page.click("#chosen button:text-is('Save') >> nth=0")
    page.wait_for_selector("#chosen h3:text-is('Difference Engine No. 1')")
    page.click("summary:text-is('Change this entity')")
    page.fill("#chosen [name=target]", "Analytical Engine")
    page.press("#chosen [name=target]", "Enter")
    page.wait_for_selector("#chosen h3:text-is('Analytical Engine')")
    page.click(".toast button >> nth=-1")
    page.wait_for_selector("#chosen h3:text-is('Difference Engine No. 1')")
    page.click("summary:text-is('Change this entity')")
    page.click("#chosen button:text-is('Delete this entity')")
    says(page, "entities, ")


@pytest.mark.slow
def test_a_reader_sees_no_button_that_is_refused(browser: Any, explored: Serving) -> None:
    context = browser.new_context(locale="en-US")
    page = context.new_page()
    page.goto(f"{explored.url}/#token={READER}")
    page.click("[data-view=graph]")
    page.click("#side .link >> nth=0")
    page.wait_for_selector("#chosen")
    assert page.query_selector("#side .edit") is None
    page.click("[data-view=curation]")
    page.wait_for_selector("#changes :not([role=status])")
    assert page.query_selector("main button") is None
    context.close()


@pytest.mark.slow
def test_a_drawing_that_fails_leaves_its_list(opened: Open) -> None:
    page = opened("graph", failing="/static/vendor/sigma.min.js")
    page.wait_for_selector("#legend [role=alert]")
    page.click("#side .card:has(h3:text-is('In the drawing')) .link >> nth=0")
    page.wait_for_selector("#chosen h4")


@pytest.mark.slow
def test_a_change_of_an_entity_is_undone_where_it_was_made_and_in_the_list(opened: Open) -> None:
    page = opened("graph")
    page.click("#side .link:text-is('Grace Hopper')")
    page.click("summary:text-is('Change this entity')")
    page.fill("#chosen [name=type]", "ADMIRAL")
    page.click("#chosen button:text-is('Save') >> nth=0")
    page.wait_for_selector("#chosen .badge:text-is('ADMIRAL')")
    page.click(".toast button")
    page.wait_for_selector("#chosen > .row .badge:text-is('PERSON')")
    page.click("[data-view=curation]")
    page.wait_for_selector("#changes .badge:text-is('undone')")
    page.click("#suggest")
    page.wait_for_selector("#suggestions :not([role=status])")
    picture(page, "curation")


@pytest.mark.slow
def test_a_suggestion_that_is_dismissed_stays_away(opened: Open, module_db: Database) -> None:
    module_db.execute("SELECT graphrag.create_corpus('doubles', '{\"communities\": false}')")
    put(module_db, "doubles", "one", "Annabelle Lindstrom met Kestrel Industries in Oslo.")
    put(module_db, "doubles", "two", "Annabele Lindstrom left Kestrel Industries in May.")
    module_db.execute("CALL graphrag.process_jobs()")
    page = opened("curation")
    page.goto(f"{page.url.split('#')[0]}#/doubles/curation")
    page.click("#suggest")
    page.wait_for_selector("#suggestions li:has-text('Annabele')")
    page.click("#suggestions button:text-is('Not one')")
    page.wait_for_selector("#suggestions:has-text('1 suggestion is left out; this browser remembers that.')")
    page.reload()
    page.click("#suggest")
    page.click("#suggestions button:text-is('Show them again')")
    page.wait_for_selector("#suggestions li:has-text('Annabele')")


@pytest.mark.slow
def test_a_graph_that_cannot_be_loaded_says_so_and_is_tried_again(opened: Open) -> None:
    page = opened("graph", failing="/static/graph.js")
    page.wait_for_selector("[role=alert]:has-text('The graph cannot be loaded')")
    page.unroute_all()
    page.click("button:text-is('Try again')")
    drawn(page)


@pytest.mark.slow
def test_of_two_drawings_the_one_wanted_last_is_shown(opened: Open) -> None:
    page = opened("graph")
    drawn(page)
    # A layout that another takes the place of ends as well.
    ended = page.evaluate(
        "import('/static/graph-canvas.js').then(async ({lay}) => { const first = lay('force');"
        " const last = lay('rings');"
        " return Promise.race([Promise.all([first, last]).then(() => true), "
        " new Promise((done) => setTimeout(done, 20000, false))]); })"
    )
    assert ended
    page.goto(f"{page.url.split('#')[0]}#/{page.input_value('#corpus')}/graph/entity?name=Grace Hopper")
    says(page, "Grace Hopper and 2 entities around it.")
    drawn(page)
    page.click("#side .items .link:text-is('Ada Lovelace') >> nth=0")
    page.wait_for_selector("#chosen h3:text-is('Ada Lovelace')")
    held = []
    page.route("**/api/graph/entities/*limit=30*", lambda route: held.append(route))
    page.click("#chosen button:text-is('Expand')")
    wait(page, lambda: bool(held))
    page.evaluate("location.hash = location.hash.replace(/&?open=[0-9]+/, '')")
    with page.expect_response(lambda reply: reply.url == held[0].request.url):
        held[0].continue_()
    page.wait_for_timeout(500)
    assert page.evaluate("document.querySelector('#canvas').labels.length") == 3
    page.wait_for_selector("#chosen button:text-is('Expand')")
    page.unroute_all()
    page.click("#chosen button:text-is('Expand')")
    page.wait_for_selector("#chosen button:text-is('Collapse')")
    drawn(page, "document.querySelector('#canvas').labels.length === 7")
